/* moefw compare: compares routers in training, over seeds. The state is in the output folder,
 * so an interrupted comparison can be continued. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "cli/scale/scale.h"
#include "lab/compare/compare.h"
#include "lab/compare/compare_search.h"
#include "lab/result/result.h"
#include "report/compare/compare.h"
#include "report/terminal/progress.h"
#include "report/terminal/terminal.h"
#include "cli/signals.h"

static const mf_cli_form forms[] = {
    {NULL, "[CONFIG|PRESET|DIR]", 0, 1,
     "train with each router and each seed, then compare; DIR: continue a comparison"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "routers",
     .kind = MF_CLI_TEXT,
     .arg = "A,B,...",
     .code = MF_CLI_NAMES_CODE,
     .help = "which: names, files, all, recommended (a few of different kinds, as the manual "
             "says); options of one: mlp:input_norm=none+hidden=64; keys of other sections by "
             "their full name: linear:moe.top_k=1"},
    {.name = "baseline",
     .kind = MF_CLI_TEXT,
     .arg = "ROUTER",
     .code = MF_CLI_NAMES_CODE,
     .help =
         "what the others are compared with; else the configuration's router if it is listed, "
         "else the first"},
    {.name = "seeds",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = MF_SEEDS_MAX,
     .help = "runs of each router, from train.seed on (8)"},
    {.name = "most-seeds",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 2,
     .hi = MF_SEEDS_MAX,
     .help = "seeds at which the comparison ends at the latest; results shown before then are "
             "judged more strictly, so that all looks together have level .05; to be given "
             "before the first result"},
    {.name = "delta",
     .kind = MF_CLI_REAL,
     .arg = "X",
     .lo = 0,
     .hi = 1e9,
     .help = "also the probability that a router is better than the baseline by more than X"},
    {.name = "equivalent",
     .kind = MF_CLI_TEXT,
     .arg = "X",
     .help = "also judge whether a router and the baseline are equal within X: .02nats, .01bpb "
             "(bits per byte), 1points (of accuracy), or a number in the unit of the table; "
             "better and worse then mean by more than X; to be given before the first result"},
    {.name = "format",
     .kind = MF_CLI_ENUM,
     .arg = "FORM",
     .choices = mf_compare_forms,
     .help = "of the table that is printed: text, or one for a paper (text)"},
    {.name = "steps",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e15,
     .set = "train.steps",
     .help = "optimizer steps"},
    MF_CLI_DATA_FILES,
    {.name = "equal",
     .kind = MF_CLI_ENUM,
     .arg = "WHAT",
     .choices = mf_equal_names,
     .help = "what all have the same of (steps)"},
    {.name = "jobs",
     .letter = 'j',
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1024,
     .help = "runs at once, among which the threads are divided (1)"},
    {.name = "grid",
     .kind = MF_CLI_TEXT,
     .arg = "KEY=A,B",
     .code = MF_CLI_SETS_CODE,
     .help = "search: try these values of a key, with all of every other grid (repeatable)"},
    {.name = "draw",
     .kind = MF_CLI_TEXT,
     .arg = "KEY=log:LO..HI",
     .code = MF_CLI_SETS_CODE,
     .help = "search: draw a number for each trial; also uniform:, int:, or values "
             "(repeatable)"},
    {.name = "budget",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 2,
     .hi = MF_TRIALS_MAX,
     .help = "search: trials of each router; needed with --draw"},
    {.name = "trial-seeds",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = MF_SEEDS_MAX,
     .help = "search: runs of each trial (1)"},
    {.name = "halving",
     .kind = MF_CLI_FLAG,
     .help = "search: begin with short runs, keep a third, three times as long, and so on"},
    {.name = "scale",
     .kind = MF_CLI_TEXT,
     .arg = "DIM,DIM,DIM...",
     .help =
         "the same at 3 to 8 values of model.dim, with curves of the loss over compute and the "
         "speed-up of each router"},
    {.name = "scale-tokens",
     .kind = MF_CLI_REAL,
     .arg = "R",
     .lo = 1e-6,
     .hi = 1e9,
     .help = "--scale: training tokens for each active parameter of a size (20)"},
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "DIR",
     .help = "folder of the runs; existing ones are continued; by default runs/NAME-compare-N"},
    MF_CLI_END};

/* ---- progress ---- */

typedef struct watcher {
    mf_progress *progress;
    mf_terminal terminal;
    bool quiet;
    int64_t first;
} watcher;

static void on_began(void *arg, const mf_compare_run *run, bool again)
{
    (void)arg;
    mf_log(MF_LOG_DEBUG, "%s %s in %s", run->name, again ? "continues" : "begins", run->dir);
}

static void on_ended(void *arg, const mf_compare_run *run, int done, int total)
{
    (void)arg;
    const mf_run_result *r = &run->result;
    if (run->state == MF_RUN_FAILED)
        mf_log(MF_LOG_WARN, "%d of %d: %s failed: %s", done, total, run->name, run->reason);
    else if (run->pilot)
        mf_log(MF_LOG_INFO, "%d of %d: %s: %.0f tokens/s", done, total, run->name,
               r->tokens_per_s);
    else
        mf_log(MF_LOG_INFO, "%d of %d: %s: val loss %.4f, %.0f s", done, total, run->name,
               r->task_loss, r->wall_s);
}

static void on_tick(void *arg, int64_t steps, int64_t total)
{
    watcher *w = arg;
    if (!w->progress)
        w->progress = mf_progress_new(&w->terminal, "compare", steps, total, w->quiet);
    mf_progress_step(w->progress, steps, (double)NAN, (double)NAN);
}

/* ---- the comparison ---- */

/* Makes the name of a new folder, runs/NAME-compare-N. */
static int choose_out(const mf_cli *cli, mf_arena *arena, const char **ret)
{
    mf_config *config;
    int rc = mf_cli_config(cli, mf_cli_operand(cli, 0), &config);
    if (rc != MF_OK) return rc;
    for (int n = 1;; n++) {
        *ret = mf_arena_strf(arena, "runs/%s-compare-%d", config->name, n);
        if (!*ret || !mf_exists(*ret)) break;
    }
    mf_config_free(config);
    return *ret ? MF_OK : MF_ENOMEM;
}

/* A search, and whether the call requests a search. */
typedef struct {
    mf_search_spec spec;
    bool wanted;
} search_call;

static bool asks_search(const mf_cli *cli)
{
    static const char *const names[] = {"grid", "draw", "budget", "trial-seeds", "halving"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mf_cli_count(cli, names[i]) > 0) return true;
    return false;
}

static int texts(const mf_cli *cli, mf_arena *arena, const char *name, const char *const **ret,
                 int *ret_n)
{
    const int n = mf_cli_count(cli, name);
    const char **text = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *text);
    if (!text) return MF_ENOMEM;
    for (int i = 0; i < n; i++)
        text[i] = mf_cli_text_at(cli, name, i);
    *ret = text;
    *ret_n = n;
    return MF_OK;
}

static int read_search(const mf_cli *cli, mf_arena *arena, search_call *q)
{
    mf_space *s = &q->spec.space;
    int rc = texts(cli, arena, "grid", &s->grid, &s->n_grid);
    if (rc == MF_OK) rc = texts(cli, arena, "draw", &s->draw, &s->n_draw);
    s->budget = (int32_t)mf_cli_int(cli, "budget", 0);
    q->spec.trial_seeds = (int32_t)mf_cli_int(cli, "trial-seeds", 1);
    q->spec.halving = mf_cli_flag(cli, "halving");
    if (rc == MF_OK && s->n_grid + s->n_draw == 0)
        rc = mf_fail(MF_EUSAGE, "--budget, --trial-seeds and --halving belong to a search: "
                                "expected --grid or --draw");
    return rc;
}

/* Reads the plan of a comparison or search in this folder. It continues as planned, so other
 * settings are refused. */
static int read_planned(const mf_cli *cli, mf_arena *arena, const char *folder,
                        const mf_assignment *set, int n, mf_compare_spec *s, search_call *q)
{
    int changed = mf_cli_count(cli, "out") + asks_search(cli);
    q->wanted = mf_search_is(folder);
    s->out = folder;
    int rc = q->wanted ? mf_search_plan_read(arena, folder, s, &q->spec)
                       : mf_compare_plan_read(arena, folder, s);
    if (q->wanted)
        changed += mf_cli_count(cli, "routers") + mf_cli_count(cli, "baseline") +
                   mf_cli_count(cli, "equal");
    for (int i = 0; i < n; i++) /* train.threads changes only the time */
        changed += strncmp(set[i].text, "train.threads=", 14) != 0;
    if (rc == MF_OK && changed > 0)
        rc = mf_fail(MF_EUSAGE,
                     "%s is a %s, which continues as it was planned; expected no --set, "
                     "--steps, --data, --plugin or --out%s",
                     folder, q->wanted ? "search" : "comparison",
                     q->wanted ? ", and of the others only --seeds, --jobs and --threads" : "");
    return rc;
}

/* Reads the operand: a configuration, or a comparison that continues as planned. */
static int read_call(const mf_cli *cli, mf_arena *arena, mf_compare_spec *s, search_call *q)
{
    const char *operand = mf_cli_operand(cli, 0);
    mf_assignment *set = NULL;
    int rc = MF_OK, n = 0;
    rc = mf_cli_assignments(cli, arena, &set, &n);
    if (rc == MF_OK && operand && (mf_compare_is(operand) || mf_search_is(operand))) {
        rc = read_planned(cli, arena, operand, set, n, s, q);
    } else if (rc == MF_OK) {
        s->config = operand;
        s->set = set;
        s->n_set = n;
        s->out = mf_cli_text(cli, "out", NULL);
        q->wanted = asks_search(cli);
        if (q->wanted) rc = read_search(cli, arena, q);
        if (rc == MF_OK && !s->out) rc = choose_out(cli, arena, &s->out);
    }
    s->routers = mf_cli_text(cli, "routers", s->routers);
    s->baseline = mf_cli_text(cli, "baseline", s->baseline);
    s->equal = (mf_equal)mf_cli_enum(cli, "equal", (int)s->equal);
    s->seeds = (int32_t)mf_cli_int(cli, "seeds", s->seeds);
    s->most = (int32_t)mf_cli_int(cli, "most-seeds", 0);
    s->delta = mf_cli_real(cli, "delta", (double)NAN);
    if (rc == MF_OK && mf_cli_text(cli, "equivalent", NULL))
        rc = mf_margin_read(mf_cli_text(cli, "equivalent", NULL), &s->margin);
    s->jobs = (int32_t)mf_cli_int(cli, "jobs", 1);
    s->threads = mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    s->unsafe_plugins = mf_cli_flag(cli, "allow-unsafe-plugins");
    return rc;
}

/* Writes the page. The result is in comparison.json, so a page that cannot be written is only
 * a warning. */
static void write_report(const char *out)
{
    char *path = mf_path_join(out, "report.html");
    if (path && mf_report_comparison(out, path) == MF_OK)
        mf_log(MF_LOG_INFO, "report: %s", path);
    else
        mf_log(MF_LOG_WARN, "no report: %s", mf_error_message());
    mf_free(path);
}

/* Fails with MF_ERUN if a router has no trial with a result, because the search cannot
 * compare it. */
static int judge_search(const mf_search *s)
{
    const mf_rung *last = &s->rungs[s->n_rungs - 1];
    for (int i = 0; i < s->n_routers; i++) {
        bool won = false;
        for (int j = 0; j < last->n; j++)
            won = won || (last->trials[j].kept && last->trials[j].router == i);
        if (!won)
            return mf_fail(MF_ERUN, "router %s is missing: no trial of it has a result",
                           s->routers[i].label);
    }
    return MF_OK;
}

/* The status of the comparison. If a requested router was skipped, it is the status of that
 * refusal. It is MF_ERUN if a run failed for another reason than divergence, and MF_ENONFINITE
 * if all runs of a router diverged. Divergence of some runs is a result, not an error. */
static int judge_failures(const mf_compare_table *t)
{
    int failed = 0, diverged = 0, done = 0;
    const mf_compare_router *first;
    const int lacks = mf_compare_lacks(t->of, &first);
    if (first && first->refused)
        return mf_fail(first->refused_as,
                       "%d of %d routers %s no result, so the comparison lacks %s: %s: %s",
                       lacks, t->of->n_routers, lacks == 1 ? "has" : "have",
                       lacks == 1 ? "it" : "them", first->entry.label, first->refused);
    if (t->of->spec->search && judge_search(t->of->spec->search) != MF_OK) return MF_ERUN;
    if (t->of->margin.value > 0 && isnan(t->margin) && t->complete)
        return mf_fail(MF_EUSAGE,
                       "--equivalent: this margin cannot be converted into %s, by "
                       "which these runs are compared; expected it in that unit",
                       mf_quality_name(t->by));
    for (int i = 0; i < t->n; i++) {
        failed += t->rows[i].failed;
        diverged += t->rows[i].diverged;
        done += t->rows[i].quality.n;
    }
    if (failed > diverged)
        return mf_fail(MF_ERUN, "%d run%s failed; to try again: moefw compare %s",
                       failed - diverged, failed - diverged == 1 ? "" : "s", t->of->spec->out);
    if (done == 0 && diverged > 0)
        return mf_fail(MF_ENONFINITE, "every run diverged; a smaller train.lr may help");
    if (first && lacks > 0)
        return mf_fail(MF_ENONFINITE,
                       "every run of %s diverged, so the comparison lacks %s; a smaller "
                       "train.lr may help",
                       first->entry.label, lacks == 1 ? "it" : "this router and others");
    return MF_OK;
}

/* Writes result.json. The table stands without it, so a failure is only a warning. */
static void write_result(const mf_compare_table *t)
{
    char *path = mf_path_join(t->of->spec->out, "result.json");
    if (!path || mf_result_write_comparison(t, path) != MF_OK)
        mf_log(MF_LOG_WARN, "no result.json for moefw verify: %s", mf_error_message());
    mf_free(path);
}

static int show(const mf_cli *cli, mf_compare *c)
{
    mf_compare_table *t;
    int rc = mf_compare_judge(c, &t);
    if (rc != MF_OK) return rc;
    if (t->complete) rc = mf_compare_looked(c); /* recorded before any result is shown */
    if (rc == MF_OK) rc = mf_compare_write(t);
    if (rc == MF_OK && t->complete) write_result(t);
    if (rc == MF_OK && mf_cli_json(cli)) {
        mf_jw *w = mf_jw_new();
        const char *text = NULL;
        if (w) {
            mf_compare_json(w, t);
            text = mf_jw_text(w, NULL);
        }
        if (text) puts(text);
        if (!text) rc = MF_ENOMEM;
        mf_jw_free(w);
    } else if (rc == MF_OK) {
        write_report(c->spec->out);
        const mf_terminal terminal = mf_terminal_of(stdout);
        const mf_compare_form form = (mf_compare_form)mf_cli_enum(cli, "format", MF_FORM_TEXT);
        if (form == MF_FORM_TEXT) {
            if (c->spec->search) mf_search_print(c->spec->search, stdout);
            mf_compare_print(t, stdout, mf_terminal_columns(&terminal));
            puts(mf_shown_on(stdout, c->spec->out));
        } else {
            mf_compare_format(t, stdout, form);
        }
    }
    if (rc == MF_OK) rc = judge_failures(t);
    mf_compare_table_free(t);
    return rc;
}

static int should_stop(void *arg)
{
    (void)arg;
    return mf_signals_stop();
}

/* Before the runs, says which differences they can detect, because most comparisons have too
 * few seeds. */
static void foretell(const mf_compare *c)
{
    int others = -1;
    double total;
    for (int i = 0; i < c->n_routers; i++)
        others += !c->routers[i].refused;
    if (others < 1) return;
    if (c->spec->seeds < MF_VERDICT_SEEDS) {
        mf_log(MF_LOG_INFO,
               "%d seed%s: too few to show a difference; verdicts need %d or more (--seeds %d)",
               (int)c->spec->seeds, c->spec->seeds == 1 ? "" : "s", MF_VERDICT_SEEDS,
               MF_SEEDS_DEFAULT);
        return;
    }
    const double level = mf_compare_level(c, &total) / others;
    mf_log(MF_LOG_INFO,
           "%d seeds show, in 4 of 5 comparisons, a difference of %.1f standard deviations of "
           "a difference within seeds",
           (int)c->spec->seeds, mf_t_detectable(c->spec->seeds, level, 0.8));
    if (c->margin.value == 0) return;
    char margin[MF_MARGIN_TEXT];
    mf_log(MF_LOG_INFO,
           "equality within %s is shown, in 4 of 5 comparisons of equal routers, if that "
           "deviation is at most %.3g",
           mf_margin_text(c->margin, margin),
           c->margin.value / mf_equal_margin(c->spec->seeds, level, 0.8));
}

/* Makes a comparison, shows it, and leaves it open in *ret, also after a failure. */
static int compare_open(const mf_cli *cli, const mf_compare_spec *s, watcher *w,
                        int *ret_signal, bool shown, mf_compare **ret)
{
    mf_compare *c;
    const mf_compare_watch watch = {w, on_began, on_ended, on_tick, should_stop};
    int rc = mf_compare_new(s, &c);
    if (rc != MF_OK) return rc;
    for (int i = 0; i < c->n_routers; i++)
        if (c->routers[i].refused)
            mf_log(MF_LOG_WARN, "%s is skipped: %s", c->routers[i].entry.label,
                   c->routers[i].refused);
    mf_log(MF_LOG_INFO, "%d routers x %d seeds, weights: %s%s, baseline %s; results in %s",
           c->n_routers, (int)s->seeds, c->from[0] != '\0' ? "of " : "drawn", mf_shown(c->from),
           c->routers[c->baseline].entry.label, s->out);
    foretell(c);
    rc = mf_compare_run_all(c, &watch, ret_signal);
    mf_progress_end(w->progress);
    w->progress = NULL;
    if (rc == MF_OK && shown) rc = show(cli, c);
    *ret = c;
    return rc;
}

static int compare(const mf_cli *cli, const mf_compare_spec *s, watcher *w, int *ret_signal)
{
    mf_compare *c = NULL;
    const int rc = compare_open(cli, s, w, ret_signal, true, &c);
    mf_compare_free(c);
    return rc;
}

/* What --scale needs to make the comparison of a size. */
typedef struct sized {
    const mf_cli *cli;
    watcher *w;
    int *signal;
} sized;

static int compare_size(void *arg, const mf_compare_spec *s, mf_compare **ret)
{
    const sized *z = arg;
    mf_compare_table *t = NULL;
    int rc = compare_open(z->cli, s, z->w, z->signal, false, ret);
    if (rc == MF_OK) rc = mf_compare_judge(*ret, &t);
    if (rc == MF_OK) rc = mf_compare_write(t);
    mf_compare_table_free(t);
    return rc;
}

/* Runs the trials, then the comparison of the winners. */
static int search(const mf_cli *cli, const mf_compare_spec *s, const mf_search_spec *q,
                  watcher *w, int *ret_signal)
{
    const mf_compare_watch watch = {w, on_began, on_ended, on_tick, should_stop};
    mf_search *all;
    int rc = mf_search_new(s, q, &all);
    if (rc != MF_OK) return rc;
    mf_log(MF_LOG_INFO, "%d settings of %d router%s are tried; results in %s", all->n_settings,
           all->n_routers, all->n_routers == 1 ? "" : "s", s->out);
    rc = mf_search_run(all, &watch, ret_signal);
    mf_progress_end(w->progress);
    w->progress = NULL;
    if (rc == MF_OK) rc = compare(cli, &all->final, w, ret_signal);
    mf_search_free(all);
    return rc;
}

static int carry_out(const mf_cli *cli, const mf_compare_spec *s, const search_call *q,
                     int *ret_signal)
{
    watcher w = {.terminal = mf_terminal_of(stderr), .quiet = mf_cli_quiet(cli)};
    if (!w.terminal.live) w.quiet = true; /* the lines of the runs are sufficient progress */
    mf_signals_catch(NULL, false);
    sized z = {cli, &w, ret_signal};
    const int rc = mf_cli_count(cli, "scale") > 0 ? mf_scale_compare(cli, s, compare_size, &z)
                   : q->wanted                    ? search(cli, s, &q->spec, &w, ret_signal)
                                                  : compare(cli, s, &w, ret_signal);
    mf_signals_release();
    return rc;
}

static int run(const mf_cli *cli)
{
    int stopped_by = 0;
    mf_arena *arena = mf_arena_new();
    mf_compare_spec s = {.seeds = MF_SEEDS_DEFAULT};
    search_call q = {.wanted = false};
    int rc = arena ? read_call(cli, arena, &s, &q) : MF_ENOMEM;
    if (rc == MF_OK) rc = carry_out(cli, &s, &q, &stopped_by);
    if (rc == MF_ESIGNAL && mf_cli_count(cli, "scale") > 0)
        mf_log(MF_LOG_WARN, "stopped; the same command with --out %s continues", s.out);
    else if (rc == MF_ESIGNAL)
        mf_log(MF_LOG_WARN, "stopped; to continue: moefw compare %s", s.out);
    mf_arena_free(arena);
    if (rc == MF_ESIGNAL) mf_signals_end();
    return rc;
}

const mf_verb mf_verb_compare = {
    .name = "compare",
    .brief = "compare routers in training, over seeds",
    .forms = forms,
    .options = options,
    .run = run,
    .notes =
        "Each run is a run directory of its own below DIR. What is finished is not repeated:\n"
        "moefw compare DIR continues a comparison that was stopped, and accepts more --seeds "
        "or\n"
        "--routers, and can run in several processes at once.\n"
        "With --grid or --draw it searches: the trials are listed, and the best of each router "
        "runs\n"
        "again with new seeds; only these runs are compared. Without --routers the "
        "configuration's\n"
        "router is searched, and compared with the configuration as it is."};
