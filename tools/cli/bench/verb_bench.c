/* moefw bench: routers on fixed activations, and the speed of gemms, layers, training,
 * generation and inference. Every figure is measured in this process. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/wrap.h"
#include "base/error.h"
#include "io/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "cli/bench/bench_comm.h"
#include "cli/bench/bench_gemm.h"
#include "cli/bench/bench_routers.h"
#include "cli/bench/bench_stored.h"
#include "cli/cli.h"
#include "cli/cli_model.h"
#include "kernels/kernel.h"
#include "lab/bench/router_bench.h"
#include "lab/bench/speed.h"
#include "run/load.h"
#include "run/folder/rundir.h"
#include "run/sections/run_sections.h"

static const mf_cli_form forms[] = {
    {"routers", NULL, 0, 0, "every router alone, on the same activations"},
    {"gemm", NULL, 0, 0,
     "gemms of the sizes that models have, against the limits of this machine"},
    {"stored", NULL, 0, 0, "one token times weights as files have them, against reading alone"},
    {"layer", NULL, 0, 0,
     "one MoE layer, forward and backward; the cast of weights to bf16, a part of AdamW, "
     "is not timed"},
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
     .arg = "A,B,...",
     .code = MF_CLI_NAMES_CODE,
     .help = "which: names, files, all, recommended; options of one: "
             "mlp:input_norm=none+hidden=64"},
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
    {.name = "expert-of",
     .of = "routers",
     .kind = MF_CLI_TEXT,
     .arg = "RUN[:LAYER]",
     .help = "all experts, which are PLUGIN of --expert, have the weights of this dense block "
             "of a run (its first)"},
    {.name = "learn",
     .of = "routers",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1000000,
     .help = "train each router for N steps before it is measured, on its own losses (0)"},
    {.name = "learn-on",
     .of = "routers",
     .kind = MF_CLI_TEXT,
     .arg = "REGULARIZER",
     .code = MF_CLI_NAMES_CODE,
     .help = "--learn: on this one x --alpha, too"},
    {.name = "learn-lr",
     .of = "routers",
     .kind = MF_CLI_REAL,
     .arg = "LR",
     .lo = 1e-9,
     .hi = 10,
     .help = "learning rate of --learn, by Adam (0.001)"},
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

/* The peak rate. A share of the peak must be at most 1: if a run is faster than the measured
 * peak, its own rate counts as the peak, and peak_text says so. */
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
    (void)mf_cli_print_json(w); /* a failure here (out of memory) ends the program with
                                 * an error */
}

static void print_inference(const mf_speed *r)
{
    const double n = r->batch;
    mf_wrap_line(stdout, 4,
                 "infer: %.3f ms for a batch of %d (p10 %.3f, p90 %.3f, %.3f to %.3f), %s, %d "
                 "thread(s), %s",
                 r->time.ms, (int)r->batch, r->time.ms_p10, r->time.ms_p90, r->time.ms_min,
                 r->time.ms_max, r->dtype, r->threads, r->backend);
    mf_wrap_line(
        stdout, 4,
        "  %.4f ms an example (p10 %.4f, p90 %.4f), %.1f examples/s, %.1f tokens/s; %s",
        r->time.ms / n, r->time.ms_p10 / n, r->time.ms_p90 / n, 1e3 * n / r->time.ms,
        r->tokens_per_s,
        r->real_data ? "batches of the data" : "drawn tokens, without padding");
    mf_wrap_line(stdout, 4,
                 "  %.2f M parameters in %.1f MiB, arena %.1f MiB, resident %.1f MiB, peak "
                 "memory %.1f MiB",
                 (double)r->params / 1e6, r->params_mib, r->arena_mib, r->rss_mib,
                 r->peak_rss_mib);
}

static void print_speed(const mf_speed *r)
{
    const double rate = rate_of(r), peak = peak_of(r);
    mf_line memory = {0};
    mf_wrap_line(stdout, 4, "%s: %.3f ms (%.3f to %.3f), %.1f tokens/s, %s, %d thread(s), %s",
                 r->what, r->time.ms, r->time.ms_min, r->time.ms_max, r->tokens_per_s, r->dtype,
                 r->threads, r->backend);
    if (isnan(r->peak_gflops))
        mf_wrap_line(stdout, 4, "  %.2f GFLOP/s of gemms; no peak of this device is known",
                     rate);
    else
        mf_wrap_line(stdout, 4, "  %.2f GFLOP/s of gemms = %.1f %% of the %.0f GFLOP/s that %s",
                     rate, 100 * rate / peak, peak,
                     rate > r->peak_gflops ? peak_text(r)
                     : on_device(r)        ? "this device can do"
                                           : "a 1024^3 gemm reaches");
    if (on_device(r) && r->device_mib > 0)
        printf("  %.1f MiB of the device in use, %lld ops ran on the host\n", r->device_mib,
               (long long)r->host_ops);
    if (r->params > 0) mf_line_add(&memory, "%.2f M parameters, ", (double)r->params / 1e6);
    mf_line_add(&memory, "arena %.1f MiB, peak memory %.1f MiB", r->arena_mib, r->peak_rss_mib);
    if (r->first_step_s > 0)
        mf_line_add(&memory, ", first step done %.2f s after launch", r->first_step_s);
    mf_wrap_line(stdout, 4, "  %s", memory.text);
    printf("  %.1f allocations and %.1f page faults a run\n", r->time.allocations,
           r->time.faults);
}

static int bench_layer(const mf_cli *cli, const mf_timing_how *how, mf_speed *r)
{
    mf_config *c; /* from the default preset; names the plugins that no option names */
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

/* Whether the status says that the data cannot be read. Random tokens then replace the data. */
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
    if (rc == MF_OK && s)
        rc = mf_speed_infer(s, (int32_t)mf_cli_int(cli, "batch", s->config->train.batch),
                            (int32_t)mf_cli_int(cli, "seq", s->config->model.seq), how, r);
    mf_session_close(s);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *what = mf_cli_action(cli);
    mf_speed r = {.batch = 0};
    if (strcmp(what, "gemm") == 0) return mf_bench_gemms(cli);
    if (strcmp(what, "stored") == 0) {
        const int rc = mf_cli_no_config(cli);
        return rc == MF_OK ? mf_bench_stored(cli) : rc;
    }
    if (strcmp(what, "comm") == 0) return mf_bench_comm(cli);
    if (strcmp(what, "routers") == 0) return mf_bench_routers(cli);
    const bool infer = strcmp(what, "infer") == 0;
    const mf_timing_how how = mf_bench_how(cli, infer ? 100 : 9);
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
