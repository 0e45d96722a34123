/* moefw prune: takes experts out of a run's model, and reports what this costs. The verb only
 * parses and prints; lab/prune/prune.h prunes. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "lab/prune/prune.h"
#include "report/terminal/progress.h"
#include "run/folder/rundir.h"

#define MARGIN 0.005
#define FEW    20 /* with fewer clusters, 95 % intervals cover less */

static const mf_cli_form forms[] = {
    {NULL, "RUN", 1, 1,
     "measure the loss of a run's model without a share of its experts, chosen by scores, "
     "against random choices; with --out write the smaller model as a new run"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "by",
     .kind = MF_CLI_TEXT,
     .arg = "SCORE,...",
     .help = "what chooses: count, gates, norm, reap, merge, average, probe or random (reap); "
             "merge and average add the experts that go to others"},
    {.name = "share",
     .kind = MF_CLI_REAL,
     .arg = "S",
     .lo = 0,
     .hi = 0.999,
     .help = "the share of each layer's experts that goes (0.25)"},
    {.name = "draws",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1000,
     .help = "random choices to compare with; 0: none (10)"},
    {.name = "calibrate",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "batches of the training split that give the scores; 0: all (16)"},
    {.name = "text",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "the scores come from this file instead of the training split"},
    {.name = "batches",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "batches of the validation split that give the losses; 0: all (16)"},
    {.name = "draw",
     .kind = MF_CLI_INT,
     .arg = "SEED",
     .lo = 0,
     .hi = 1e15,
     .help = "seed of batches and of random choices (1)"},
    {.name = "data",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .set = "data.path",
     .help = "text of scores, of losses and of the new run, instead of the run's"},
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "NEWRUN",
     .help = "write the model without the experts of the score as this run, a directory that "
             "is new or empty"},
    MF_CLI_END};

/* ---- words ---- */

static int read_scores(const char *text, mf_arena *arena, mf_prune_options *o)
{
    char *words = mf_arena_strdup(arena, text), *word;
    mf_prune_by *by = mf_arena_alloc(arena, (strlen(text) + 1) * sizeof *by);
    if (!words || !by) return MF_ENOMEM;
    while ((word = strsep(&words, ","))) {
        int found = -1;
        for (int i = 0; mf_prune_scores[i]; i++)
            if (strcmp(word, mf_prune_scores[i]) == 0) found = i;
        if (found < 0)
            return mf_fail(
                MF_EUSAGE,
                "--by: expected count, gates, norm, reap, merge, average, probe or random, or "
                "a list of these; found '%s'",
                word);
        by[o->n_by++] = (mf_prune_by)found;
    }
    o->by = by;
    return MF_OK;
}

/* ---- output ---- */

static void put_range(mf_jw *w, const char *key, double mean, double lo, double hi)
{
    mf_jw_key(w, key);
    mf_jw_object(w);
    mf_jw_kv_real(w, "mean", mean);
    mf_jw_kv_real(w, "lo", lo);
    mf_jw_kv_real(w, "hi", hi);
    mf_jw_end(w);
}

static void put_row(mf_jw *w, const mf_prune_report *r, const mf_prune_row *x)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "by", mf_prune_scores[x->by]);
    mf_jw_kv_real(w, "loss", x->loss);
    put_range(w, "change", x->change.mean, x->change.lo, x->change.hi);
    if (r->draws > 0) {
        put_range(w, "less_random", x->less_random.mean, x->less_random.lo, x->less_random.hi);
        mf_jw_kv_int(w, "better_than", x->better);
    }
    if (x->into) put_range(w, "gain", x->gain.mean, x->gain.lo, x->gain.hi);
    mf_jw_key(w, "removed");
    mf_jw_array(w);
    for (int32_t l = 0; l < r->layers; l++) {
        mf_jw_object(w);
        mf_jw_kv_int(w, "layer", r->layer[l]);
        mf_jw_key(w, "experts");
        mf_jw_array(w);
        for (int32_t e = 0; e < r->experts; e++)
            if (!x->kept[l][e]) mf_jw_int(w, e);
        mf_jw_end(w);
        if (x->into) mf_jw_key(w, "into");
        if (x->into) mf_jw_array(w);
        for (int32_t e = 0; x->into && e < r->experts; e++)
            if (!x->kept[l][e]) mf_jw_int(w, x->into[l][e]);
        if (x->into) mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

static int print_json(const mf_prune_report *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_int(w, "layers", r->layers);
    mf_jw_kv_int(w, "experts", r->experts);
    mf_jw_kv_int(w, "left", r->left);
    mf_jw_kv_string(w, "scored_on", r->scored_on);
    mf_jw_kv_string(w, "text", r->text);
    mf_jw_kv_string(w, "clusters_are", r->unit);
    mf_jw_kv_real(w, "tokens", r->base.tokens);
    put_range(w, "loss", r->base.mean, r->base.lo, r->base.hi);
    mf_jw_key(w, "random_changes");
    mf_jw_array(w);
    for (int i = 0; i < r->draws; i++)
        mf_jw_real(w, r->random[i]);
    mf_jw_end(w);
    mf_jw_key(w, "rows");
    mf_jw_array(w);
    for (int i = 0; i < r->n; i++)
        put_row(w, r, &r->row[i]);
    mf_jw_end(w);
    if (r->run) {
        mf_jw_kv_string(w, "run", r->run);
        mf_jw_kv_real(w, "written_loss", r->written_loss);
        mf_jw_kv_int(w, "params_before", r->params_before);
        mf_jw_kv_int(w, "params_after", r->params_after);
    }
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static int put(mf_table *t, int column, const char *fmt, ...) MF_PRINTF(3, 4);
static int put(mf_table *t, int column, const char *fmt, ...)
{
    char text[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mf_table_put(t, column, text);
}

static int fill_row(mf_table *t, const mf_prune_report *r, const mf_prune_row *x)
{
    int rc = mf_table_row(t);
    if (rc == MF_OK) rc = put(t, 0, "%s", mf_prune_scores[x->by]);
    if (rc == MF_OK) rc = put(t, 1, "%d x %d", (int)r->layers, (int)r->left);
    if (rc == MF_OK) rc = put(t, 2, "%.4f", x->loss);
    if (rc == MF_OK && x->change.clusters >= 2)
        rc = put(t, 3, "%+.4f +- %.4f", x->change.mean, (x->change.hi - x->change.lo) / 2);
    else if (rc == MF_OK)
        rc = put(t, 3, "%+.4f", x->change.mean);
    if (rc == MF_OK && r->draws > 0)
        rc = put(t, 4, "%+.4f, %+.4f to %+.4f", x->less_random.mean, x->less_random.lo,
                 x->less_random.hi);
    if (rc == MF_OK && r->draws > 0) rc = put(t, 5, "%d", x->better);
    return rc;
}

static int fill_table(mf_table *t, const mf_prune_report *r)
{
    int rc = mf_table_row(t);
    if (rc == MF_OK) rc = put(t, 0, "by");
    if (rc == MF_OK) rc = put(t, 1, "experts");
    if (rc == MF_OK) rc = put(t, 2, "loss");
    if (rc == MF_OK) rc = put(t, 3, "change");
    if (rc == MF_OK && r->draws > 0) rc = put(t, 4, "less %d random ones", r->draws);
    if (rc == MF_OK && r->draws > 0) rc = put(t, 5, "beats");
    if (rc == MF_OK) rc = mf_table_row(t);
    if (rc == MF_OK) rc = put(t, 0, "none");
    if (rc == MF_OK) rc = put(t, 1, "%d x %d", (int)r->layers, (int)r->experts);
    if (rc == MF_OK) rc = put(t, 2, "%.4f", r->base.mean);
    for (int i = 0; rc == MF_OK && i < r->n; i++)
        rc = fill_row(t, r, &r->row[i]);
    return rc;
}

static void print_removed(const mf_prune_report *r, const mf_prune_row *x)
{
    mf_line line = {0};
    mf_line_add(&line, "%s %s", mf_prune_scores[x->by], x->into ? "adds" : "removes");
    for (int32_t l = 0; l < r->layers; l++) {
        bool later = false;
        mf_line_add(&line, "%s layer %d:", l > 0 ? ";" : "", (int)r->layer[l]);
        for (int32_t e = 0; e < r->experts; e++)
            if (!x->kept[l][e] && x->into) {
                mf_line_add(&line, "%s %d to %d", later ? "," : "", (int)e, (int)x->into[l][e]);
                later = true;
            } else if (!x->kept[l][e]) {
                mf_line_add(&line, " %d", (int)e);
            }
    }
    if (x->into)
        mf_line_add(&line, "; %+.4f, %+.4f to %+.4f against the removal of the same ones",
                    x->gain.mean, x->gain.lo, x->gain.hi);
    mf_wrap_line(stdout, 2, "%s", line.text);
}

static int print_text(const mf_prune_report *r)
{
    mf_table t;
    const mf_terminal out = mf_terminal_of(stdout);
    mf_wrap_line(
        stdout, 2,
        "scores: %s; losses: val of %s, nats/%s, %.0f %ss in %lld %s; the next choice of "
        "a token comes in",
        mf_shown_on(stdout, r->scored_on), mf_shown_on(stdout, r->text), r->loss_of,
        r->base.tokens, r->loss_of, (long long)r->base.clusters, r->unit);
    int rc = mf_table_start(&t, r->draws > 0 ? 6 : 4);
    if (rc == MF_OK) rc = fill_table(&t, r);
    if (rc == MF_OK) mf_table_print(&t, mf_terminal_columns(&out));
    mf_table_clear(&t);
    if (rc != MF_OK) return rc;
    for (int i = 0; r->left < r->experts && i < r->n; i++)
        print_removed(r, &r->row[i]);
    if (!r->run) return MF_OK;
    mf_wrap_line(stdout, 2, "the new run has %.3f M of %.3f M parameters and loss %.4f",
                 (double)r->params_after / 1e6, (double)r->params_before / 1e6,
                 r->written_loss);
    puts(mf_shown_on(stdout, r->run));
    return MF_OK;
}

/* ---- the verb ---- */

typedef struct view {
    mf_terminal terminal;
    mf_progress *progress;
    const char *what;
    bool quiet;
} view;

static int on_run(void *arg, const char *what, int64_t done, int64_t total)
{
    view *v = arg;
    if (v->what != what || !v->progress) {
        mf_progress_end(v->progress);
        v->progress = mf_progress_new(&v->terminal, what, 0, total, v->quiet);
        v->what = what;
    }
    mf_progress_step(v->progress, done, (double)NAN, (double)NAN);
    return mf_signals_stop();
}

static int prune(const mf_cli *cli, mf_arena *arena, mf_prune_report **ret)
{
    view v = {.terminal = mf_terminal_of(stderr), .quiet = mf_cli_quiet(cli)};
    mf_prune_options o = {.share = mf_cli_real(cli, "share", 0.25),
                          .draws = (int)mf_cli_int(cli, "draws", 10),
                          .calibrate = mf_cli_int(cli, "calibrate", 16),
                          .text = mf_cli_text(cli, "text", NULL),
                          .batches = mf_cli_int(cli, "batches", 16),
                          .draw = (uint64_t)mf_cli_int(cli, "draw", 1),
                          .margin = MARGIN,
                          .write = mf_cli_count(cli, "out") > 0,
                          .run = mf_cli_text(cli, "out", NULL),
                          .each = on_run,
                          .arg = &v};
    mf_assignment *set = NULL;
    int rc = read_scores(mf_cli_text(cli, "by", "reap"), arena, &o);
    if (rc == MF_OK && o.write && o.n_by > 1)
        rc = mf_fail(MF_EUSAGE, "--out writes one model: expected one score in --by, found %d",
                     o.n_by);
    if (rc == MF_OK) rc = mf_cli_assignments(cli, arena, &set, &o.n_set);
    if (rc != MF_OK) return rc;
    o.set = set;
    mf_signals_catch(NULL, false);
    rc = mf_prune(mf_cli_operand(cli, 0), &o, ret);
    mf_progress_end(v.progress);
    mf_signals_release();
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *what = mf_cli_operand(cli, 0);
    mf_prune_report *r = NULL;
    mf_arena *arena = mf_arena_new();
    int rc = !arena                     ? MF_ENOMEM
             : mf_rundir_readable(what) ? prune(cli, arena, &r)
                                        : mf_rundir_missing(what, NULL);
    if (rc == MF_ESIGNAL) mf_signals_end();
    if (rc == MF_OK && r && r->base.clusters < FEW)
        mf_log(MF_LOG_WARN,
               "only %lld %s: intervals over fewer than %d are too short; --batches 0 measures "
               "all",
               (long long)r->base.clusters, r->unit, FEW);
    if (rc == MF_OK && r) rc = mf_cli_json(cli) ? print_json(r) : print_text(r);
    mf_prune_report_free(r);
    mf_arena_free(arena);
    return rc;
}

const mf_verb mf_verb_prune = {.name = "prune",
                               .brief =
                                   "a run's model without some of its experts, and the cost",
                               .forms = forms,
                               .options = options,
                               .run = run};
