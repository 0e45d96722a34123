/* moefw bench routers: measures every router alone, on the same activations. Rows are printed
 * as soon as they are measured. The times and the losses follow as separate tables. */
#include "cli/bench/bench_routers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/json.h"
#include "base/text/wrap.h"
#include "base/thread/parallel.h"
#include "lab/bench/router_bench.h"
#include "lab/bench/router_list.h"
#include "lab/trace/trace.h"
#include "plugin/load/find.h"
#include "report/compare/routers.h"
#include "report/page/doc.h"
#include "report/terminal/progress.h"

mf_timing_how mf_bench_how(const mf_cli *cli, int repetitions)
{
    const bool turns = mf_cli_flag(cli, "turns");
    return (mf_timing_how){.repetitions = (int)mf_cli_int(cli, "repetitions", repetitions),
                           .profile = mf_cli_flag(cli, "profile") ? stderr : NULL,
                           .turns_in = turns ? stdin : NULL,
                           .turns_out = turns ? stdout : NULL};
}

/* ---- output ---- */

static void print_json(const mf_router_bench_spec *s, const mf_router_bench *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return;
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", r->router);
    mf_jw_kv_int(w, "params", r->params);
    mf_jw_kv_int(w, "d_model", s->dim);
    mf_jw_kv_int(w, "experts", s->experts);
    mf_jw_kv_int(w, "top_k", s->top_k);
    mf_jw_kv_int(w, "tokens", (int64_t)s->batch * s->seq);
    mf_jw_kv_int(w, "threads", mf_parallel_threads());
    mf_jw_kv_int(w, "seeds", s->seeds);
    mf_jw_kv_int(w, "learn", s->learn);
    mf_jw_kv_real(w, "entropy_token", r->entropy_token);
    mf_jw_kv_real(w, "entropy_token_sd", r->entropy_sd);
    mf_jw_kv_real(w, "entropy_load", r->entropy_load);
    mf_jw_kv_real(w, "entropy_gate", r->entropy_gate);
    mf_jw_kv_real(w, "entropy_gate_sd", r->gate_sd);
    mf_jw_kv_real(w, "top_prob", r->top_prob);
    mf_jw_kv_real(w, "top_prob_sd", r->top_prob_sd);
    mf_jw_kv_real(w, "score_var", r->score_var);
    mf_jw_kv_real(w, "output_std", r->output_std);
    mf_jw_kv_real(w, "alpha", s->alpha);
    mf_jw_key(w, "losses");
    mf_jw_object(w);
    for (int i = 0; i < r->n_losses; i++)
        mf_jw_kv_real(w, r->losses[i].name, r->losses[i].value);
    mf_jw_end(w);
    mf_jw_kv_real(w, "ns_per_token_router", r->ns_router);
    mf_jw_kv_real(w, "ns_per_token_router_1", r->ns_router_1);
    mf_jw_kv_real(w, "ns_per_token_layer", r->ns_layer);
    mf_jw_kv_real(w, "ns_per_token_layer_1", r->ns_layer_1);
    mf_jw_key(w, "load");
    mf_jw_array(w);
    for (int32_t e = 0; e < s->experts; e++)
        mf_jw_float(w, r->load[e]);
    mf_jw_end(w);
    mf_jw_end(w);
    (void)mf_cli_print_json(w); /* a failure here (out of memory) ends the program with
                                 * an error */
    fflush(stdout);
}

static void number(double v, int width, int digits)
{
    if (v == v)
        printf(" %*.*f", width, digits, v);
    else
        printf(" %*s", width, "-");
}

/* The table of routers has two parts: what the routers choose, and how long they take. If a
 * line is too short for both parts, the times follow as a separate table. */
enum { CHOICE = 1, TIMES = 2, BOTH = 3, COLUMNS_OF_BOTH = 134 };
#define PARTS        (room() < COLUMNS_OF_BOTH ? CHOICE : BOTH)
#define NAME_COLUMNS (PARTS == BOTH ? 28 : 16)

static int room(void)
{
    return mf_columns(stdout);
}

static void print_row(const mf_router_bench *r, bool headings, int parts)
{
    const struct {
        const char *name;
        double value;
        int part, width, digits;
    } c[] = {{"params", (double)r->params, CHOICE, 8, 0},
             {"H(token)", r->entropy_token, CHOICE, 8, 4},
             {"H(gate)", r->entropy_gate, CHOICE, 8, 4},
             {"H(load)", r->entropy_load, CHOICE, 8, 4},
             {"top-k p", r->top_prob, CHOICE, 8, 4},
             {"var(p)", r->score_var, CHOICE, 9, 6},
             {"out sd", r->output_std, CHOICE, 8, 5},
             {"ns/token", r->ns_router, TIMES, 9, 1},
             {"alone", r->ns_router_1, TIMES, 9, 0},
             {"layer", r->ns_layer, TIMES, 9, 0},
             {"layer alone", r->ns_layer_1, TIMES, 11, 0}};
    printf("%-*s", NAME_COLUMNS, headings ? "router" : r->router);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        if (c[i].part & parts && headings)
            printf(" %*s", c[i].width, c[i].name);
        else if (c[i].part & parts)
            number(c[i].value, c[i].width, c[i].digits);
    putchar('\n');
    fflush(stdout);
}

/* The width of a loss's column: the width of its name, or of a number such as -0.00000. */
static int loss_width(const char *name)
{
    const int n = (int)strlen(name);
    return n > 8 ? n : 8;
}

/* Prints as many auxiliary losses, from index `from` on, as fit a line. Returns the index of
 * the first loss that was not printed. */
static int some_losses(const mf_router_bench *all, int n, int from)
{
    int end = from, used = NAME_COLUMNS;
    for (; end < all->n_losses; end++) {
        used += loss_width(all->losses[end].name) + 2;
        if (used >= room() && end > from) break;
    }
    for (int r = -1; r < n; r++, putchar('\n')) { /* row -1: the headings */
        printf("%-*s", NAME_COLUMNS, r < 0 ? "router" : all[r].router);
        for (int i = from, width; i < end; i++) {
            width = loss_width(all->losses[i].name) + 1;
            if (r < 0)
                printf(" %*s", width, all->losses[i].name);
            else
                number(all[r].losses[i].value, width, 5);
        }
    }
    return end;
}

/* Prints the tables that follow the rows printed during the measurement. */
static void end_table(const mf_router_bench_spec *s, const mf_router_bench *all, int n)
{
    for (int i = PARTS == BOTH ? n : -1; i < n; i++)
        print_row(&all[i < 0 ? 0 : i], i < 0, TIMES);
    if (n > 0 && all[0].n_losses > 0) printf("\nauxiliary losses x %g\n", s->alpha);
    for (int from = 0; n > 0 && from < all[0].n_losses;)
        from = some_losses(all, n, from);
}

/* ---- the routers to measure ---- */

#define MAX_ROUTERS 128

static int list_routers(mf_arena *arena, const char *text, const char **out, int *ret_n)
{
    mf_router_entry *list;
    int rc = mf_router_list(arena, text, &list, ret_n);
    if (rc == MF_OK && *ret_n > MAX_ROUTERS)
        rc = mf_fail(MF_EUSAGE, "routers: expected at most %d, found %d", MAX_ROUTERS, *ret_n);
    for (int i = 0; rc == MF_OK && i < *ret_n; i++)
        out[i] = list[i].label;
    return rc;
}

/* Uses recorded activations. They determine the width. The numbers of experts and of chosen
 * experts come from the trace, unless options set them. */
static int use_activations(const mf_cli *cli, mf_activations *a, mf_router_bench_spec *s)
{
    const char *text = mf_cli_text(cli, "activations", NULL);
    if (!text) return MF_OK;
    int rc = mf_cli_input(mf_activations_read(text, mf_cli_flag(cli, "padding"), a));
    if (rc != MF_OK) return rc;
    if (mf_cli_count(cli, "dim") > 0 && s->dim != a->dim)
        return mf_fail(MF_EUSAGE, "--dim=%d: the activations of %s are %d wide", (int)s->dim,
                       text, (int)a->dim);
    s->dim = a->dim;
    if (mf_cli_count(cli, "experts") == 0 && a->experts > 0) s->experts = a->experts;
    if (mf_cli_count(cli, "top-k") == 0 && a->top_k > 0)
        s->top_k = a->top_k < s->experts ? a->top_k : s->experts;
    s->activations = a->x;
    s->rows = a->rows;
    s->ids = a->ids;
    s->row_labels = a->labels;
    if (a->labels) s->labels = a->n_labels;
    return MF_OK;
}

/* Experts that are copies of a dense block of a run, which decides how wide they are. */
static int use_block(const mf_cli *cli, mf_router_bench_spec *s)
{
    static const char *const other[] = {"hidden", "no-layer"};
    const char *text = mf_cli_text(cli, "expert-of", NULL);
    if (!text) return MF_OK;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (mf_cli_count(cli, other[i]) > 0)
            return mf_fail(
                MF_EUSAGE,
                "--%s: not beside --expert-of, whose block decides the experts' width",
                other[i]);
    int rc = mf_bench_block_open(text, &s->block);
    if (rc == MF_OK && s->block.dim != s->dim)
        rc = mf_fail(MF_EUSAGE, "--expert-of=%s: the block is %d wide, the activations are %d",
                     text, (int)s->block.dim, (int)s->dim);
    s->hidden = s->block.hidden;
    return rc;
}

/* The command that repeats this measurement: the options as they were given and the number of
 * threads, but not the path of the page. The caller frees it; NULL: out of memory. */
static mf_doc *repeat_command(const mf_cli *cli)
{
    mf_doc *d = mf_doc_new();
    if (!d) return NULL;
    mf_doc_put(d, "moefw bench routers");
    for (const mf_cli_option *o = mf_verb_bench.options; o->name != NULL; o++) {
        const char *text = mf_cli_text(cli, o->name, NULL);
        if (mf_cli_count(cli, o->name) == 0 || strcmp(o->name, "report") == 0) continue;
        mf_doc_printf(d, " --%s", o->name);
        if (o->kind == MF_CLI_FLAG || !text) continue;
        mf_doc_put(d, " ");
        mf_doc_put_path(d, text);
    }
    mf_doc_printf(d, " -t %d", mf_parallel_threads());
    return d;
}

static int write_page(const mf_cli *cli, const mf_router_bench_spec *s,
                      const mf_router_bench *all, int n)
{
    const char *out = mf_cli_text(cli, "report", NULL);
    mf_doc *d = repeat_command(cli);
    const char *command = d ? mf_doc_string(d, NULL) : NULL;
    int rc =
        command ? mf_report_routers(s, n, all, mf_parallel_threads(), command, out) : MF_ENOMEM;
    mf_doc_free(d);
    if (rc == MF_OK) mf_log(MF_LOG_INFO, "report: %s", out);
    return rc;
}

/* Shows the progress as a bar on a terminal. Elsewhere the rows, which are printed one by one,
 * show the progress. */
typedef struct watcher {
    mf_progress *progress;
    int64_t done;
} watcher;

static void on_tick(void *arg)
{
    watcher *w = arg;
    mf_progress_step(w->progress, ++w->done, (double)NAN, (double)NAN);
}

static void begin_watch(const mf_cli *cli, watcher *w, mf_router_bench_spec *s, int n)
{
    const mf_terminal t = mf_terminal_of(stderr);
    w->progress = mf_progress_new(&t, "bench", 0, n * mf_router_bench_parts(s),
                                  mf_cli_quiet(cli) || !t.live);
    s->tick = on_tick;
    s->tick_arg = w;
}

int mf_bench_routers(const mf_cli *cli)
{
    watcher w = {0};
    mf_activations activations = {0};
    mf_router_bench_spec s;
    mf_arena *arena = mf_arena_new();
    mf_router_bench *all = mf_alloc(MAX_ROUTERS, sizeof *all);
    const char *names[MAX_ROUTERS];
    int n = 0, done = 0;
    mf_config *c = NULL; /* from the default preset; sets the number of experts if no
                          * option does */
    int rc = mf_cli_new_file(cli, mf_cli_text(cli, "report", NULL));
    if (rc == MF_OK) rc = mf_cli_config(cli, NULL, &c);
    mf_router_bench_defaults(&s);
    s.dim = (int32_t)mf_cli_int(cli, "dim", s.dim);
    s.experts = (int32_t)mf_cli_int(cli, "experts", s.experts);
    s.top_k = (int32_t)mf_cli_int(cli, "top-k", s.top_k < s.experts ? s.top_k : s.experts);
    s.batch = (int32_t)mf_cli_int(cli, "batch", s.batch);
    s.seq = (int32_t)mf_cli_int(cli, "seq", s.seq);
    s.seeds = (int32_t)mf_cli_int(cli, "seeds", s.seeds);
    s.how = mf_bench_how(cli, s.how.repetitions);
    s.hidden = (int32_t)mf_cli_int(cli, "hidden", s.hidden);
    s.alpha = mf_cli_real(cli, "alpha", s.alpha);
    s.expert = mf_cli_text(cli, "expert", c ? c->expert.plugin : NULL);
    s.layer = !mf_cli_flag(cli, "no-layer");
    s.learn = (int32_t)mf_cli_int(cli, "learn", s.learn);
    s.learn_on = mf_cli_text(cli, "learn-on", NULL);
    s.learn_lr = mf_cli_real(cli, "learn-lr", s.learn_lr);
    if (rc == MF_OK) rc = use_activations(cli, &activations, &s);
    if (rc == MF_OK) rc = use_block(cli, &s);
    if (rc == MF_OK)
        rc = arena && all ? list_routers(arena, mf_cli_text(cli, "routers", NULL), names, &n)
                          : MF_ENOMEM;
    if (rc == MF_OK && n > 1 && s.how.turns_in)
        rc = mf_fail(MF_EUSAGE, "--turns: expected one router, found %d", n);
    if (rc == MF_OK) begin_watch(cli, &w, &s, n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        rc = mf_router_bench_run(&s, names[i], &all[done]);
        mf_progress_clear(w.progress);
        if (rc != MF_OK) break;
        if (done == 0 && !mf_cli_json(cli))
            mf_wrap_line(stdout, 2,
                         "%d wide, %d experts, top %d, %d x %d tokens, threads: %d, means over "
                         "seeds: %d",
                         s.dim, s.experts, s.top_k, s.batch, s.seq, mf_parallel_threads(),
                         s.seeds);
        if (mf_cli_json(cli))
            print_json(&s, &all[done]);
        else
            for (int headings = done == 0; headings >= 0; headings--)
                print_row(&all[done], headings, PARTS);
        done++;
    }
    mf_progress_end(w.progress);
    if (rc == MF_OK && !mf_cli_json(cli)) end_table(&s, all, done);
    if (rc == MF_OK && mf_cli_text(cli, "report", NULL)) rc = write_page(cli, &s, all, done);
    mf_free(all);
    mf_activations_free(&activations);
    mf_bench_block_close(&s.block);
    mf_arena_free(arena);
    mf_config_free(c);
    return rc;
}
