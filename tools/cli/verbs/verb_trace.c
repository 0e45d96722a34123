/* moefw trace record|replay|import|diff: records the routing of a run, replays it, reads routes
 * of inference engines, and compares two records. The exit status of a comparison says whether
 * a real difference was found. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "io/json.h"
#include "base/log.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "lab/trace/trace.h"
#include "lab/trace/trace_import.h"
#include "lab/trace/trace_replay.h"
#include "run/evaluate.h"
#include "run/load.h"
#include "run/folder/rundir.h"

static const mf_cli_form forms[] = {
    {"record", "RUN", 1, 1, "write down how a run routes its evaluation batches"},
    {"replay", "FILE RUN", 2, 2,
     "the same batches by this build, and where it parts from the trace"},
    {"import", "vllm|sglang|megatron FILE RUN", 3, 3,
     "a trace from the routes that an engine sent with its texts, for train.routes = trace"},
    {"diff", "FILE FILE", 2, 2, "where two traces part, and how close the choice was"},
    MF_CLI_FORM_END};

static const char *const splits[] = {"train", "val", "test", NULL};

static const mf_cli_option options[] = {
    {.name = "out",
     .of = "record replay import",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "record: the trace (RUN/trace/step-N.safetensors); replay: keep what is recorded; "
             "import: the trace"},
    {.name = "batches",
     .of = "record",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "record: the first N batches (16); 0: the whole split"},
    {.name = "split",
     .of = "record",
     .kind = MF_CLI_ENUM,
     .arg = "NAME",
     .choices = splits,
     .help = "record: train, val (the default) or test"},
    {.name = "step",
     .of = "record replay",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "the checkpoint of this step (record: the newest; replay: the trace's)"},
    {.name = "activations",
     .of = "record",
     .kind = MF_CLI_FLAG,
     .help = "record: the routers' input too, for bench routers --activations"},
    {.name = "router",
     .of = "replay",
     .kind = MF_CLI_TEXT,
     .arg = "SPEC",
     .code = MF_CLI_NAMES_CODE,
     .help = "replay: another router: mlp, mlp:hidden=64,input_norm=none"},
    {.name = "forced",
     .of = "replay",
     .kind = MF_CLI_FLAG,
     .help = "replay: go by the recorded choices and gates; the routers are only asked"},
    {.name = "tolerance",
     .of = "replay diff",
     .kind = MF_CLI_REAL,
     .arg = "X",
     .lo = 0,
     .hi = 1e9,
     .help = "scores less than this apart count as a tie (1e-5)"},
    {.name = "list",
     .of = "replay diff",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "how many partings to list (20); 0: all"},
    MF_CLI_FORCE_OF("record replay import"),
    MF_CLI_END};

/* ---- record ---- */

static int write_trace(mf_trace_recorder *r, const char *path, int64_t step)
{
    char *folder = mf_parent_of(path);
    int rc = folder ? mf_mkdirs(folder) : MF_ENOMEM;
    mf_free(folder);
    return rc == MF_OK ? mf_trace_recorder_write(r, path, step) : rc;
}

static int record_batches(const mf_cli *cli, const char *run, mf_session *s, int64_t step)
{
    const mf_split split = (mf_split)mf_cli_enum(cli, "split", MF_SPLIT_VAL);
    const mf_trace_about about = {.run = run,
                                  .split = mf_split_name(split),
                                  .activations = mf_cli_flag(cli, "activations")};
    char *path = NULL;
    mf_evaluator *e = NULL;
    mf_trace_recorder *r = NULL;
    mf_metrics_record metrics;
    if (s->model->n_moe == 0)
        return mf_fail(MF_EUSAGE, "%s: a dense model (model.moe_every = 0): nothing is routed",
                       run);
    const char *out = mf_cli_text(cli, "out", NULL);
    path =
        out ? mf_strdup(out) : mf_strf("%s/trace/step-%lld.safetensors", run, (long long)step);
    int rc = path ? mf_cli_new_file(cli, path) : MF_ENOMEM;
    if (rc == MF_OK && !out) rc = mf_rundir_refuse_links(run, "trace");
    if (rc == MF_OK) rc = mf_evaluator_new(s, split, NULL, &e);
    if (rc == MF_OK) rc = mf_trace_recorder_new(s, &about, &r);
    if (rc == MF_OK) rc = mf_evaluator_record(e, r, 1);
    if (rc == MF_OK) rc = mf_evaluator_run(e, step, mf_cli_int(cli, "batches", 16), &metrics);
    if (rc == MF_OK) {
        mf_log(MF_LOG_INFO, "%lld batches of %s after %lld steps, loss %.4f",
               (long long)mf_trace_recorder_batches(r), about.split, (long long)step,
               metrics.task_loss);
        rc = write_trace(r, path, step);
    }
    if (rc == MF_OK) rc = mf_cli_put_name(cli, "trace", path);
    mf_evaluator_free(e);
    mf_trace_recorder_free(r);
    mf_free(path);
    return rc;
}

static int record(const mf_cli *cli)
{
    const char *run = mf_cli_operand(cli, 0);
    const mf_session_options o = {0};
    const mf_load_change change = {.step = mf_cli_int(cli, "step", -1),
                                   .device = mf_cli_text(cli, "device", NULL)};
    mf_session *s = NULL;
    int64_t step = 0;
    int rc = mf_cli_run_stays(cli, run);
    if (rc == MF_OK) rc = mf_load_run_as(run, &o, &change, &s, &step);
    if (rc == MF_OK) rc = record_batches(cli, run, s, step);
    mf_session_close(s);
    return rc;
}

/* ---- import ---- */

static int put_import(const mf_cli *cli, const char *out, const mf_imported_routes *n)
{
    if (!mf_cli_json(cli)) {
        printf("%s: %lld sequences, %lld tokens, %lld with experts\n", mf_shown(out),
               (long long)n->sequences, (long long)n->tokens, (long long)n->recorded);
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "trace", out);
    mf_jw_kv_int(w, "sequences", n->sequences);
    mf_jw_kv_int(w, "tokens", n->tokens);
    mf_jw_kv_int(w, "recorded", n->recorded);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static int import(const mf_cli *cli)
{
    static const char *const engines[] = {"vllm", "sglang", "megatron", NULL};
    const char *engine = mf_cli_operand(cli, 0), *run = mf_cli_operand(cli, 2),
               *out = mf_cli_text(cli, "out", NULL);
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1, .device = "cpu"};
    mf_imported_routes n;
    mf_session *s = NULL;
    char *beside = NULL;
    int64_t step;
    int i = 0;
    while (engines[i] && strcmp(engines[i], engine) != 0)
        i++;
    if (!engines[i])
        return mf_fail(MF_EUSAGE, "trace import: expected vllm, sglang or megatron, found '%s'",
                       engine);
    if (!out) return mf_fail(MF_EUSAGE, "trace import: --out FILE is needed");
    int rc = mf_cli_new_file(cli, out);
    if (rc == MF_OK) rc = mf_cli_run_stays(cli, run);
    if (rc == MF_OK) rc = mf_load_run_as(run, &o, &change, &s, &step);
    if (rc == MF_OK) rc = mf_cli_beside(out, &beside);
    if (rc == MF_OK)
        rc = mf_cli_input(mf_trace_import((mf_routes_from)i, mf_cli_operand(cli, 1), s->model,
                                          run, step, beside, &n));
    if (rc != MF_OK && beside) mf_io()->unlink(beside);
    if (beside) rc = mf_cli_put_beside(rc, beside, out);
    if (rc == MF_OK) rc = put_import(cli, out, &n);
    mf_session_close(s);
    return rc;
}

/* ---- diff: as text ---- */

static void print_side(const char *name, const mf_trace *t, const char *file)
{
    const char *forced = mf_trace_text(t, "forced");
    printf("%s: %s: run %s, step %lld, router %s, kernels %s, %s, loss %s%s%s\n", name,
           mf_shown(file), mf_shown(mf_trace_text(t, "run")), (long long)t->step,
           mf_shown(mf_trace_text(t, "router")), mf_shown(mf_trace_text(t, "kernels")),
           mf_shown(mf_trace_text(t, "program")), mf_shown(mf_trace_text(t, "task_loss")),
           *forced ? ", forced by " : "", mf_shown(forced));
}

static void print_layer(const mf_trace_layer_diff *l)
{
    printf("layer %d: %lld tokens, %lld choose otherwise", (int)l->layer, (long long)l->tokens,
           (long long)l->differ);
    if (l->differ > 0)
        printf(" (%lld at ties, %lld after an earlier parting, %lld really; overlap %.4f)",
               (long long)l->ties, (long long)l->after, (long long)l->real, l->overlap);
    if (isnan(l->prob_all))
        printf("; no probabilities\n");
    else if (l->after > 0)
        printf("; max |p - p'| %.3g, %.3g with what an earlier parting touches\n", l->prob,
               l->prob_all);
    else
        printf("; max |p - p'| %.3g\n", l->prob_all);
}

static void print_experts(const char *name, const int32_t *e, int32_t n, double margin)
{
    printf("%s", name);
    for (int32_t i = 0; i < n; i++)
        printf(" %d", (int)e[i]);
    if (n == 0) printf(" none");
    if (!isnan(margin)) printf(" (margin %.3g)", margin);
}

static void print_parting(const mf_trace *a, const mf_trace_parting *p)
{
    const int64_t t = p->token;
    printf("  batch %lld, layer %d, sequence %d, position %d, token id %d",
           (long long)(t / a->seq / a->rows), (int)p->layer, (int)a->sequence[t],
           (int)a->position[t], (int)a->token[t]);
    if (a->label && a->label[t] >= 0) printf(", label %d", (int)a->label[t]);
    print_experts(": A chooses", p->a, p->n_a, p->margin_a);
    print_experts(", B", p->b, p->n_b, p->margin_b);
    if (isnan(p->gap))
        printf("; gap unknown");
    else
        printf("; gap %.3g", p->gap);
    printf(": %s\n", p->why == MF_TRACE_TIE ? "a tie" : "a real difference");
}

static void print_text(const mf_trace *a, const mf_trace *b, const char *file_b,
                       const mf_trace_diff *d, int64_t list)
{
    print_side("A", a, mf_st_path(a->file));
    print_side("B", b, file_b ? file_b : "replay");
    for (int i = 0; i < d->n_layers; i++)
        print_layer(&d->layers[i]);
    for (int64_t i = 0; i < d->n_partings && (list == 0 || i < list); i++) {
        if (i < 2) puts(i == 0 ? "they part first at" : "and then at");
        print_parting(a, &d->partings[i]);
    }
    if (list > 0 && d->n_partings > list)
        printf("  and %lld more; --list=0 shows all\n", (long long)(d->n_partings - list));
    if (d->differ == 0)
        printf("same: every token chooses the same experts in every layer\n");
    else if (d->real == 0)
        printf("same apart from ties: %lld with a gap below %g%s\n", (long long)d->ties,
               d->tolerance, d->after > 0 ? ", and what follows from them" : "");
    else
        printf("different: %lld choices, beside %lld ties with a gap below %g\n",
               (long long)d->real, (long long)d->ties, d->tolerance);
}

/* ---- diff: as JSON ---- */

static void json_side(mf_jw *w, const char *key, const mf_trace *t, const char *file)
{
    static const char *const texts[] = {"run",     "split",  "router",   "kernels",
                                        "program", "forced", "task_loss"};
    mf_jw_key(w, key);
    mf_jw_object(w);
    mf_jw_key(w, "file");
    file ? mf_jw_string(w, file) : mf_jw_null(w);
    mf_jw_kv_int(w, "step", t->step);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        mf_jw_kv_string(w, texts[i], mf_trace_text(t, texts[i]));
    mf_jw_end(w);
}

static void json_layer(mf_jw *w, const mf_trace_layer_diff *l)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "layer", l->layer);
    mf_jw_kv_int(w, "tokens", l->tokens);
    mf_jw_kv_int(w, "differ", l->differ);
    mf_jw_kv_int(w, "ties", l->ties);
    mf_jw_kv_int(w, "after", l->after);
    mf_jw_kv_int(w, "real", l->real);
    mf_jw_kv_real(w, "overlap", l->overlap);
    mf_jw_kv_real(w, "max_prob_diff", l->prob);
    mf_jw_kv_real(w, "max_prob_diff_all", l->prob_all);
    mf_jw_kv_real(w, "max_gate_diff", l->gate);
    mf_jw_end(w);
}

static void json_experts(mf_jw *w, const char *key, const int32_t *e, int32_t n, double margin)
{
    mf_jw_key(w, key);
    mf_jw_object(w);
    mf_jw_key(w, "experts");
    mf_jw_array(w);
    for (int32_t i = 0; i < n; i++)
        mf_jw_int(w, e[i]);
    mf_jw_end(w);
    mf_jw_kv_real(w, "margin", margin);
    mf_jw_end(w);
}

static void json_parting(mf_jw *w, const mf_trace *a, const mf_trace_parting *p)
{
    const int64_t t = p->token;
    mf_jw_object(w);
    mf_jw_kv_string(w, "why", mf_trace_why_name(p->why));
    mf_jw_kv_int(w, "batch", t / a->seq / a->rows);
    mf_jw_kv_int(w, "layer", p->layer);
    mf_jw_kv_int(w, "token", t);
    mf_jw_kv_int(w, "sequence", a->sequence[t]);
    mf_jw_kv_int(w, "position", a->position[t]);
    mf_jw_kv_int(w, "id", a->token[t]);
    if (a->label) mf_jw_kv_int(w, "label", a->label[t]);
    mf_jw_kv_real(w, "gap", p->gap);
    json_experts(w, "a", p->a, p->n_a, p->margin_a);
    json_experts(w, "b", p->b, p->n_b, p->margin_b);
    mf_jw_end(w);
}

static int print_json(const mf_trace *a, const mf_trace *b, const char *file_b,
                      const mf_trace_diff *d, int64_t list)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_bool(w, "same", d->real == 0);
    mf_jw_kv_real(w, "tolerance", d->tolerance);
    mf_jw_kv_int(w, "differ", d->differ);
    mf_jw_kv_int(w, "ties", d->ties);
    mf_jw_kv_int(w, "after", d->after);
    mf_jw_kv_int(w, "real", d->real);
    json_side(w, "a", a, mf_st_path(a->file));
    json_side(w, "b", b, file_b);
    mf_jw_key(w, "layers");
    mf_jw_array(w);
    for (int i = 0; i < d->n_layers; i++)
        json_layer(w, &d->layers[i]);
    mf_jw_end(w);
    mf_jw_key(w, "first");
    if (d->n_partings > 0)
        json_parting(w, a, &d->partings[0]);
    else
        mf_jw_null(w);
    mf_jw_key(w, "partings");
    mf_jw_array(w);
    for (int64_t i = 0; i < d->n_partings && (list == 0 || i < list); i++)
        json_parting(w, a, &d->partings[i]);
    mf_jw_end(w);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

/* Prints the comparison. file_b NULL: the second trace is a replay that is not kept. Returns
 * MF_ERUN, without a further message, if there is a real difference. */
static int tell(const mf_cli *cli, const mf_trace *a, const mf_trace *b, const char *file_b)
{
    mf_trace_diff *d = NULL;
    const int64_t list = mf_cli_int(cli, "list", 20);
    int rc = mf_trace_compare(a, b, mf_cli_real(cli, "tolerance", 1e-5), &d);
    if (rc == MF_OK && mf_cli_json(cli))
        rc = print_json(a, b, file_b, d, list);
    else if (rc == MF_OK)
        print_text(a, b, file_b, d, list);
    if (rc == MF_OK && d->real > 0) {
        mf_error_clear();
        rc = MF_ERUN;
    }
    mf_trace_diff_free(d);
    return rc;
}

/* ---- replay ---- */

static int replay_into(const mf_cli *cli, const mf_trace *a, mf_session *s, int64_t step,
                       const char *path)
{
    const bool forced = mf_cli_flag(cli, "forced");
    const mf_trace_about about = {.run = mf_cli_operand(cli, 1),
                                  .split = mf_trace_text(a, "split"),
                                  .forced = forced ? mf_st_path(a->file) : NULL,
                                  .activations = mf_cli_flag(cli, "activations")};
    mf_trace_recorder *r = NULL;
    mf_trace *b = NULL;
    int rc = mf_trace_recorder_new(s, &about, &r);
    if (rc == MF_OK) rc = mf_trace_replay(a, s, forced, r);
    if (rc == MF_OK) rc = mf_trace_recorder_write(r, path, step);
    mf_trace_recorder_free(r);
    if (rc == MF_OK) rc = mf_trace_open(path, &b);
    if (rc == MF_OK) rc = tell(cli, a, b, mf_cli_text(cli, "out", NULL));
    mf_trace_close(b);
    return rc;
}

static int replay(const mf_cli *cli)
{
    const mf_session_options o = {.no_data = true};
    mf_trace *a = NULL;
    mf_session *s = NULL;
    int64_t step = 0;
    const char *out = mf_cli_text(cli, "out", NULL);
    int rc = mf_cli_input(mf_trace_open(mf_cli_operand(cli, 0), &a));
    if (rc == MF_OK) {
        const mf_load_change change = {.step = mf_cli_int(cli, "step", a->step),
                                       .router = mf_cli_text(cli, "router", NULL),
                                       .device = mf_cli_text(cli, "device", NULL)};
        rc = mf_cli_run_stays(cli, mf_cli_operand(cli, 1));
        if (rc == MF_OK) rc = mf_cli_new_file(cli, out);
        if (rc == MF_OK) rc = mf_load_run_as(mf_cli_operand(cli, 1), &o, &change, &s, &step);
    }
    char *scratch = NULL;
    if (rc == MF_OK && !out) rc = mf_trace_scratch(&scratch);
    if (rc == MF_OK) rc = replay_into(cli, a, s, step, out ? out : scratch);
    if (scratch) mf_io()->unlink(scratch);
    mf_free(scratch);
    mf_session_close(s);
    mf_trace_close(a);
    return rc;
}

static int diff(const mf_cli *cli)
{
    mf_trace *a = NULL, *b = NULL;
    int rc = mf_cli_no_config(cli);
    if (rc == MF_OK) rc = mf_cli_input(mf_trace_open(mf_cli_operand(cli, 0), &a));
    if (rc == MF_OK) rc = mf_cli_input(mf_trace_open(mf_cli_operand(cli, 1), &b));
    if (rc == MF_OK) rc = tell(cli, a, b, mf_cli_operand(cli, 1));
    mf_trace_close(a);
    mf_trace_close(b);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *action = mf_cli_action(cli);
    mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    if (strcmp(action, "record") == 0) return record(cli);
    if (strcmp(action, "import") == 0) return import(cli);
    return strcmp(action, "replay") == 0 ? replay(cli) : diff(cli);
}

const mf_verb mf_verb_trace = {
    .name = "trace",
    .brief = "record, replay and compare how tokens are routed",
    .forms = forms,
    .options = options,
    .run = run,
    .notes = "diff and replay end with 0 when all choices are the same apart from ties and\n"
             "what follows from them, else with 1. moefw-trace(5) describes the files.\n"};
