/* moefw bench: routers on fixed activations, and the speed of gemms, layers, training,
 * generation and inference. Every figure is measured in this process. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/text/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "cli/bench_comm.h"
#include "cli/verbs/bench_gemm.h"
#include "cli/verbs/bench_stored.h"
#include "cli/cli.h"
#include "cli/cli_model.h"
#include "kernels/kernel.h"
#include "lab/bench/router_bench.h"
#include "lab/bench/router_list.h"
#include "lab/bench/speed.h"
#include "lab/trace/trace.h"
#include "plugin/load/find.h"
#include "report/page/doc.h"
#include "report/compare/routers.h"
#include "report/terminal/terminal.h"
#include "run/load.h"
#include "run/folder/rundir.h"

static const mf_cli_form forms[] = {
    {"routers", NULL, 0, 0, "every router alone, on the same activations"},
    {"gemm", NULL, 0, 0,
     "gemms of the sizes that models have, against the limits of this machine"},
    {"stored", NULL, 0, 0, "one token times weights as files have them, against reading alone"},
    {"layer", NULL, 0, 0, "one MoE layer, forward and backward"},
    {"train", "[CONFIG|PRESET]", 0, 1, "training steps"},
    {"generate", "[RUN|CONFIG|PRESET]", 0, 1, "decoding, one token at a time"},
    {"prompt", "[RUN|CONFIG|PRESET]", 0, 1, "a prompt as one batch"},
    {"infer", "[RUN|CONFIG|PRESET]", 0, 1,
     "batches of a classifier or language model: latency and memory"},
    {"comm", NULL, 0, 0, "messages between the ranks that a launcher has started"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "routers",
     .of = "routers layer",
     .kind = MF_CLI_TEXT,
     .arg = "A,B|all",
     .code = MF_CLI_NAMES_CODE,
     .help = "which; options of one: mlp:input_norm=none+hidden=64"},
    {.name = "dim",
     .of = "routers layer",
     .kind = MF_CLI_INT,
     .arg = "D",
     .lo = 1,
     .hi = 65536,
     .help = "width (768)"},
    {.name = "experts",
     .of = "routers layer",
     .kind = MF_CLI_INT,
     .arg = "E",
     .lo = 1,
     .hi = MF_BENCH_EXPERTS,
     .help = "experts (8)"},
    {.name = "top-k",
     .of = "routers layer",
     .kind = MF_CLI_INT,
     .arg = "K",
     .lo = 1,
     .hi = MF_BENCH_EXPERTS,
     .help = "experts per token (2)"},
    {.name = "batch",
     .of = "routers infer",
     .kind = MF_CLI_INT,
     .arg = "B",
     .lo = 1,
     .hi = 65536,
     .help = "sequences (16; infer: train.batch)"},
    {.name = "seq",
     .of = "routers infer",
     .kind = MF_CLI_INT,
     .arg = "T",
     .lo = 1,
     .hi = 1048576,
     .help = "tokens of a sequence (128; infer: model.seq)"},
    {.name = "seeds",
     .of = "routers",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 100000,
     .help = "draws of weights and activations that figures are means of (20)"},
    {.name = "repetitions",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 100000,
     .help = "timings, of which the median counts (21; infer: 100); 0: no timing"},
    {.name = "hidden",
     .of = "routers layer",
     .kind = MF_CLI_INT,
     .arg = "H",
     .lo = 0,
     .hi = 1048576,
     .help = "hidden width of the experts; 0: 4 x dim"},
    {.name = "most",
     .of = "gemm",
     .kind = MF_CLI_REAL,
     .arg = "M",
     .lo = 0,
     .hi = 1e9,
     .help = "only gemms of at most M million multiply-adds; 0: all"},
    {.name = "alpha",
     .of = "routers",
     .kind = MF_CLI_REAL,
     .arg = "A",
     .lo = 0,
     .hi = 1e6,
     .help = "multiplies the auxiliary losses shown (0.01)"},
    {.name = "expert",
     .of = "routers layer",
     .kind = MF_CLI_TEXT,
     .arg = "PLUGIN",
     .code = MF_CLI_NAMES_CODE,
     .help = "what the experts are"},
    {.name = "prompt",
     .of = "generate prompt",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 4096,
     .help = "tokens of the prompt (16)"},
    {.name = "tokens",
     .of = "generate layer",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1000000,
     .help = "tokens written by generate (128); tokens of bench layer (2048)"},
    MF_CLI_DATA_FILES_OF("train generate prompt infer"),
    {.name = "dtype",
     .of = "stored layer train generate prompt infer",
     .kind = MF_CLI_ENUM,
     .arg = "TYPE",
     .choices = mf_config_dtypes,
     .set = "train.dtype",
     .help = "type of the gemms: f32 or bf16; not for routers alone; bench stored: of the row"},
    {.name = "forward",
     .of = "layer",
     .kind = MF_CLI_FLAG,
     .help = "bench layer: no backward pass"},
    {.name = "activations",
     .of = "routers",
     .kind = MF_CLI_TEXT,
     .arg = "FILE[:LAYER|:TENSOR]",
     .help = "routers: not on random ones but on those of a trace (moefw trace record "
             "--activations), or on a tensor that eval --save has written, as hidden.last"},
    {.name = "padding",
     .of = "routers",
     .kind = MF_CLI_FLAG,
     .help = "--activations: positions of padding count, too"},
    {.name = "no-layer",
     .of = "routers",
     .kind = MF_CLI_FLAG,
     .help = "routers alone, without experts"},
    {.name = "profile",
     .of = "layer train generate prompt infer",
     .kind = MF_CLI_FLAG,
     .help = "not routers: where the time went by op, on standard error"},
    {.name = "turns",
     .of = "routers layer train generate prompt infer",
     .kind = MF_CLI_FLAG,
     .help = "each line of standard input is a number of runs, answered by their times; of "
             "routers one, all tokens at once"},
    {.name = "report",
     .of = "routers",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "routers: also write the table, with figures, as one HTML page"},
    MF_CLI_FORCE_OF("routers"),
    MF_CLI_END};

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
    mf_jw_kv_real(w, "entropy_token", r->entropy_token);
    mf_jw_kv_real(w, "entropy_token_sd", r->entropy_sd);
    mf_jw_kv_real(w, "entropy_load", r->entropy_load);
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
    (void)mf_cli_print_json(w); /* without memory the program ends with an error */
    fflush(stdout);
}

static void number(double v, int width, int digits)
{
    if (v == v)
        printf(" %*.*f", width, digits, v);
    else
        printf(" %*s", width, "-");
}

/* The table of routers: what they choose, and how long they take. On a terminal without space
 * for both the times follow as a table of their own. */
enum { CHOICE = 1, TIMES = 2, BOTH = 3, COLUMNS_OF_BOTH = 128 };
#define PARTS        (room() < COLUMNS_OF_BOTH ? CHOICE : BOTH)
#define NAME_COLUMNS (PARTS == BOTH ? 28 : 16)

static int room(void) /* columns of a terminal; files have space for all */
{
    const mf_terminal t = mf_terminal_of(stdout);
    return t.live ? mf_terminal_columns(&t) : 10000;
}

static void print_row(const mf_router_bench *r, bool headings, int parts)
{
    const struct {
        const char *name;
        double value;
        int part, width, digits;
    } c[] = {{"params", (double)r->params, CHOICE, 9, 0},
             {"H(token)", r->entropy_token, CHOICE, 8, 4},
             {"H(load)", r->entropy_load, CHOICE, 8, 4},
             {"top-k p", r->top_prob, CHOICE, 8, 4},
             {"var(p)", r->score_var, CHOICE, 10, 6},
             {"out sd", r->output_std, CHOICE, 9, 5},
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

/* The auxiliary losses from number `from` on that fit the terminal; returns the next one. */
static int some_losses(const mf_router_bench *all, int n, int from)
{
    int end = from, used = NAME_COLUMNS;
    for (; end < all->n_losses; end++) {
        used += (int)strlen(all->losses[end].name) + 2;
        if (used >= room() && end > from) break;
    }
    for (int r = -1; r < n; r++, putchar('\n')) { /* row -1: the headings */
        printf("%-*s", NAME_COLUMNS, r < 0 ? "router" : all[r].router);
        for (int i = from, width; i < end; i++) {
            width = (int)strlen(all->losses[i].name) + 1;
            if (r < 0)
                printf(" %*s", width, all->losses[i].name);
            else
                number(all[r].losses[i].value, width, 5);
        }
    }
    return end;
}

/* What follows the rows that were printed while they were measured. */
static void end_table(const mf_router_bench_spec *s, const mf_router_bench *all, int n)
{
    for (int i = PARTS == BOTH ? n : -1; i < n; i++)
        print_row(&all[i < 0 ? 0 : i], i < 0, TIMES);
    if (n > 0 && all[0].n_losses > 0) printf("\nauxiliary losses x %g\n", s->alpha);
    for (int from = 0; n > 0 && from < all[0].n_losses;)
        from = some_losses(all, n, from);
}

static mf_timing_how how_often(const mf_cli *cli, int repetitions)
{
    const bool turns = mf_cli_flag(cli, "turns");
    return (mf_timing_how){.repetitions = (int)mf_cli_int(cli, "repetitions", repetitions),
                           .profile = mf_cli_flag(cli, "profile") ? stderr : NULL,
                           .turns_in = turns ? stdin : NULL,
                           .turns_out = turns ? stdout : NULL};
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

/* Uses recorded activations. They determine the width; the numbers of experts and of chosen
 * experts are those of the trace, unless options set them. */
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

/* The command that repeats this measurement: the options as they were given, but not where the
 * page goes, and the number of threads. The caller frees it; NULL: no memory. */
static mf_doc *repeat_command(const mf_cli *cli)
{
    mf_doc *d = mf_doc_new();
    if (!d) return NULL;
    mf_doc_put(d, "moefw bench routers");
    for (const mf_cli_option *o = options; o->name != NULL; o++) {
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

static int bench_routers(const mf_cli *cli)
{
    mf_activations activations = {0};
    mf_router_bench_spec s;
    mf_arena *arena = mf_arena_new();
    mf_router_bench *all = mf_alloc(MAX_ROUTERS, sizeof *all);
    const char *names[MAX_ROUTERS];
    int n = 0, done = 0;
    mf_config *c = NULL; /* from the default preset; gives the experts if no option does */
    int rc = mf_cli_new_file(cli, mf_cli_text(cli, "report", NULL));
    if (rc == MF_OK) rc = mf_cli_config(cli, NULL, &c);
    mf_router_bench_defaults(&s);
    s.dim = (int32_t)mf_cli_int(cli, "dim", s.dim);
    s.experts = (int32_t)mf_cli_int(cli, "experts", s.experts);
    s.top_k = (int32_t)mf_cli_int(cli, "top-k", s.top_k < s.experts ? s.top_k : s.experts);
    s.batch = (int32_t)mf_cli_int(cli, "batch", s.batch);
    s.seq = (int32_t)mf_cli_int(cli, "seq", s.seq);
    s.seeds = (int32_t)mf_cli_int(cli, "seeds", s.seeds);
    s.how = how_often(cli, s.how.repetitions);
    s.hidden = (int32_t)mf_cli_int(cli, "hidden", s.hidden);
    s.alpha = mf_cli_real(cli, "alpha", s.alpha);
    s.expert = mf_cli_text(cli, "expert", c ? c->expert.plugin : NULL);
    s.layer = !mf_cli_flag(cli, "no-layer");
    if (rc == MF_OK) rc = use_activations(cli, &activations, &s);
    if (rc == MF_OK)
        rc = arena && all ? list_routers(arena, mf_cli_text(cli, "routers", NULL), names, &n)
                          : MF_ENOMEM;
    if (rc == MF_OK && n > 1 && s.how.turns_in)
        rc = mf_fail(MF_EUSAGE, "--turns: expected one router, found %d", n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        rc = mf_router_bench_run(&s, names[i], &all[done]);
        if (rc != MF_OK) break;
        if (done == 0 && !mf_cli_json(cli))
            printf("%d wide, %d experts, top %d, %d x %d tokens, threads: %d, means over "
                   "seeds: %d\n",
                   s.dim, s.experts, s.top_k, s.batch, s.seq, mf_parallel_threads(), s.seeds);
        if (mf_cli_json(cli))
            print_json(&s, &all[done]);
        else
            for (int headings = done == 0; headings >= 0; headings--)
                print_row(&all[done], headings, PARTS);
        done++;
    }
    if (rc == MF_OK && !mf_cli_json(cli)) end_table(&s, all, done);
    if (rc == MF_OK && mf_cli_text(cli, "report", NULL)) rc = write_page(cli, &s, all, done);
    mf_free(all);
    mf_activations_free(&activations);
    mf_arena_free(arena);
    mf_config_free(c);
    return rc;
}

/* ---- speed ---- */

static bool inference(const mf_speed *r)
{
    return strcmp(r->what, "infer") == 0;
}

static bool on_device(const mf_speed *r)
{
    return strncmp(r->backend, "cpu", 3) != 0 && strcmp(r->backend, "ref") != 0;
}

static double rate_of(const mf_speed *r)
{
    return r->flops / (1e6 * r->time.ms);
}

/* No share of the peak is above 1: what a run reaches can be reached, so if it is more than the
 * peak that was measured, it is the peak, and peak_text says so. */
static double peak_of(const mf_speed *r)
{
    return rate_of(r) > r->peak_gflops ? rate_of(r) : r->peak_gflops;
}

static const char *peak_text(const mf_speed *r)
{
    static char text[96];
    const char *of = on_device(r) ? "the data sheet" : "a 1024^3 gemm";
    if (rate_of(r) > r->peak_gflops)
        snprintf(text, sizeof text, "this run reached, more than the %.0f of %s in %s",
                 r->peak_gflops, of, r->dtype);
    else
        snprintf(text, sizeof text, "%s in %s", of, r->dtype);
    return text;
}

static void print_speed_json(const mf_speed *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return;
    mf_jw_object(w);
    mf_jw_kv_string(w, "what", r->what);
    mf_jw_kv_string(w, "backend", r->backend);
    mf_jw_kv_string(w, "dtype", r->dtype);
    mf_jw_kv_int(w, "threads", r->threads);
    mf_jw_key(w, "shape");
    mf_jw_object(w);
    mf_jw_kv_int(w, "batch", r->batch);
    mf_jw_kv_int(w, "seq", r->seq);
    mf_jw_kv_int(w, "dim", r->dim);
    mf_jw_kv_int(w, "layers", r->layers);
    mf_jw_kv_int(w, "experts", r->experts);
    mf_jw_kv_int(w, "top_k", r->top_k);
    mf_jw_kv_int(w, "vocab", r->vocab);
    mf_jw_end(w);
    mf_jw_kv_int(w, "params", r->params);
    mf_jw_kv_int(w, "params_active", r->params_active);
    mf_jw_kv_real(w, "tokens_per_s", r->tokens_per_s);
    mf_jw_kv_real(w, "ms", r->time.ms);
    mf_jw_kv_real(w, "ms_min", r->time.ms_min);
    mf_jw_kv_real(w, "ms_max", r->time.ms_max);
    mf_jw_kv_real(w, "ms_p10", r->time.ms_p10);
    mf_jw_kv_real(w, "ms_p90", r->time.ms_p90);
    if (inference(r)) {
        const double n = r->batch;
        mf_jw_kv_real(w, "ms_example", r->time.ms / n);
        mf_jw_kv_real(w, "ms_example_p10", r->time.ms_p10 / n);
        mf_jw_kv_real(w, "ms_example_p90", r->time.ms_p90 / n);
        mf_jw_kv_real(w, "examples_per_s", 1e3 * n / r->time.ms);
        mf_jw_kv_string(w, "data", r->real_data ? "val" : "drawn");
        mf_jw_kv_real(w, "params_mib", r->params_mib);
        mf_jw_kv_real(w, "rss_mib", r->rss_mib);
    }
    mf_jw_kv_real(w, "flops", r->flops);
    const double peak = peak_of(r);
    mf_jw_kv_real(w, "fraction_of_peak", rate_of(r) / peak);
    mf_jw_kv_real(w, "peak_gflops", peak);
    if (!isnan(peak)) mf_jw_kv_string(w, "peak", peak_text(r));
    if (on_device(r)) {
        if (r->device_mib > 0) mf_jw_kv_real(w, "device_mib", r->device_mib);
        mf_jw_kv_int(w, "host_ops", r->host_ops);
    }
    if (r->first_step_s > 0) mf_jw_kv_real(w, "first_step_s", r->first_step_s);
    mf_jw_kv_real(w, "arena_mib", r->arena_mib);
    mf_jw_kv_real(w, "peak_rss_mib", r->peak_rss_mib);
    mf_jw_kv_real(w, "allocations_per_step", r->time.allocations);
    mf_jw_kv_real(w, "page_faults_per_step", r->time.faults);
    mf_jw_end(w);
    (void)mf_cli_print_json(w); /* without memory the program ends with an error */
}

static void print_inference(const mf_speed *r)
{
    const double n = r->batch;
    printf(
        "infer: %.3f ms for a batch of %d (p10 %.3f, p90 %.3f, %.3f to %.3f), %s, %d "
        "thread(s), "
        "%s\n  %.4f ms an example (p10 %.4f, p90 %.4f), %.1f examples/s, %.1f tokens/s; %s\n",
        r->time.ms, (int)r->batch, r->time.ms_p10, r->time.ms_p90, r->time.ms_min,
        r->time.ms_max, r->dtype, r->threads, r->backend, r->time.ms / n, r->time.ms_p10 / n,
        r->time.ms_p90 / n, 1e3 * n / r->time.ms, r->tokens_per_s,
        r->real_data ? "batches of the data" : "drawn tokens, without padding");
    printf("  %.2f M parameters in %.1f MiB, arena %.1f MiB, resident %.1f MiB, peak memory "
           "%.1f MiB\n",
           (double)r->params / 1e6, r->params_mib, r->arena_mib, r->rss_mib, r->peak_rss_mib);
}

static void print_speed(const mf_speed *r)
{
    const double rate = rate_of(r), peak = peak_of(r);
    printf("%s: %.3f ms (%.3f to %.3f), %.1f tokens/s, %s, %d thread(s), %s\n", r->what,
           r->time.ms, r->time.ms_min, r->time.ms_max, r->tokens_per_s, r->dtype, r->threads,
           r->backend);
    if (isnan(r->peak_gflops))
        printf("  %.2f GFLOP/s of gemms; no peak of this device is known", rate);
    else
        printf("  %.2f GFLOP/s of gemms = %.1f %% of the %.0f GFLOP/s that %s", rate,
               100 * rate / peak, peak,
               rate > r->peak_gflops ? peak_text(r)
               : on_device(r)        ? "this device can do"
                                     : "a 1024^3 gemm reaches");
    if (on_device(r) && r->device_mib > 0)
        printf("\n  %.1f MiB of the device in use, %lld ops ran on the host", r->device_mib,
               (long long)r->host_ops);
    putchar('\n');
    if (r->params > 0) printf("  %.2f M parameters", (double)r->params / 1e6);
    printf(", arena %.1f MiB, peak memory %.1f MiB", r->arena_mib, r->peak_rss_mib);
    if (r->first_step_s > 0) printf(", first step done %.2f s after launch", r->first_step_s);
    printf("\n  %.1f allocations and %.1f page faults a run\n", r->time.allocations,
           r->time.faults);
}

static int bench_layer(const mf_cli *cli, const mf_timing_how *how, mf_speed *r)
{
    mf_config *c; /* from the default preset; gives the plugins that no option names */
    int rc = mf_cli_config(cli, NULL, &c);
    if (rc != MF_OK) return rc;
    const mf_speed_layer_spec spec = {.router = mf_cli_text(cli, "routers", c->router.plugin),
                                      .expert = mf_cli_text(cli, "expert", c->expert.plugin),
                                      .dim = (int32_t)mf_cli_int(cli, "dim", 768),
                                      .hidden = (int32_t)mf_cli_int(cli, "hidden", 3072),
                                      .experts = (int32_t)mf_cli_int(cli, "experts", 8),
                                      .top_k = (int32_t)mf_cli_int(cli, "top-k", 2),
                                      .tokens = (int32_t)mf_cli_int(cli, "tokens", 2048),
                                      .backward = !mf_cli_flag(cli, "forward"),
                                      .bf16 = c->train.dtype == MF_BF16,
                                      .device = c->train.device,
                                      .strict = c->device.strict};
    rc = mf_speed_layer(&spec, how, r);
    mf_config_free(c);
    return rc;
}

/* Whether the status says that the data cannot be read; random tokens then replace them. */
static bool no_data(int rc)
{
    return rc == MF_EINPUT || rc == MF_EIO || rc == MF_ENOTFOUND;
}

/* Opens the run's weights, and its data if they still exist. */
static int open_run(const mf_cli *cli, const char *run, mf_session **ret)
{
    const mf_load_change change = {.step = -1,
                                   .dtype = mf_cli_text(cli, "dtype", NULL),
                                   .device = mf_cli_text(cli, "device", NULL)};
    mf_session_options o = {0};
    int64_t step;
    char why[512];
    int rc = mf_cli_run_stays(cli, run);
    if (rc != MF_OK) return rc;
    rc = mf_load_run_as(run, &o, &change, ret, &step);
    if (!no_data(rc)) return rc;
    snprintf(why, sizeof why, "%s", mf_error_message());
    mf_error_clear();
    o.no_data = true;
    rc = mf_load_run_as(run, &o, &change, ret, &step);
    if (rc == MF_OK) mf_log(MF_LOG_WARN, "drawn tokens in place of the run's data: %s", why);
    return rc;
}

static int bench_model(const mf_cli *cli, const char *what, const mf_timing_how *how,
                       mf_speed *r)
{
    const bool train = strcmp(what, "train") == 0;
    const mf_session_options o = {.training = train};
    const char *of = mf_cli_operand(cli, 0);
    mf_config *config;
    mf_session *s = NULL;
    int rc;
    if (!train && of && mf_rundir_readable(of)) {
        mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
        rc = open_run(cli, of, &s);
    } else {
        rc = mf_cli_config(cli, of, &config);
        if (rc == MF_OK) rc = mf_session_open(config, &o, &s);
    }
    if (rc == MF_OK) {
        if (train)
            rc = mf_speed_train(s, how, r);
        else if (strcmp(what, "generate") == 0)
            rc = mf_speed_generate(s, (int)mf_cli_int(cli, "prompt", 16),
                                   (int)mf_cli_int(cli, "tokens", 128), how, r);
        else
            rc = mf_speed_prompt(s, (int)mf_cli_int(cli, "prompt", 16), how, r);
    }
    mf_session_close(s);
    return rc;
}

static int bench_infer(const mf_cli *cli, const mf_timing_how *how, mf_speed *r)
{
    const char *what = mf_cli_operand(cli, 0);
    mf_session *s = NULL;
    mf_config *config;
    int rc;
    if (what && mf_rundir_readable(what)) {
        mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
        rc = open_run(cli, what, &s);
    } else if (what && !mf_cli_names_config(what)) {
        rc = mf_rundir_missing(what, NULL);
    } else {
        rc = mf_cli_config(cli, what, &config);
        if (rc == MF_OK) rc = mf_cli_model_open_whole(config, &s);
        if (rc == MF_OK && s->no_data)
            mf_log(MF_LOG_WARN, "drawn tokens in place of the configuration's data: %s",
                   s->no_data);
    }
    if (rc == MF_OK)
        rc = mf_speed_infer(s, (int32_t)mf_cli_int(cli, "batch", s->config->train.batch),
                            (int32_t)mf_cli_int(cli, "seq", s->config->model.seq), how, r);
    mf_session_close(s);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *what = mf_cli_action(cli);
    mf_speed r;
    if (strcmp(what, "gemm") == 0) return mf_bench_gemms(cli);
    if (strcmp(what, "stored") == 0) {
        const int rc = mf_cli_no_config(cli);
        return rc == MF_OK ? mf_bench_stored(cli) : rc;
    }
    if (strcmp(what, "comm") == 0) return mf_bench_comm(cli);
    if (strcmp(what, "routers") == 0) return bench_routers(cli);
    const bool infer = strcmp(what, "infer") == 0;
    const mf_timing_how how = how_often(cli, infer ? 100 : 9);
    if (!how.turns_in && how.repetitions < 1)
        return mf_fail(MF_EUSAGE, "--repetitions=0: expected at least 1 for bench %s", what);
    int rc = infer                        ? bench_infer(cli, &how, &r)
             : strcmp(what, "layer") == 0 ? bench_layer(cli, &how, &r)
                                          : bench_model(cli, what, &how, &r);
    if (rc != MF_OK) return rc;
    if (mf_cli_json(cli))
        print_speed_json(&r);
    else if (infer)
        print_inference(&r);
    else
        print_speed(&r);
    return MF_OK;
}

const mf_verb mf_verb_bench = {
    .name = "bench",
    .brief = "measure routers, gemms, layers, training, decoding, messages",
    .forms = forms,
    .options = options,
    .run = run};
