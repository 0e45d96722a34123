/* moefw plan: predicts the time and memory of a training step on a cluster, or on one GPU. The
 * model has shapes but no values, so this works for models of any size. */
#include <stdio.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/json.h"
#include "cli/cli.h"
#include "cli/cli_model.h"
#include "graph/shape.h"
#include "lab/plan/meter.h"
#include "lab/plan/plan.h"

enum { SHOWN = 10 };

static const mf_cli_form forms[] = {
    {NULL, "[CONFIG|PRESET]", 0, 1, "the time of a step on a cluster or a GPU"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "cluster",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "INI file of the cluster: moefw-parallel(7)"},
    {.name = "device",
     .kind = MF_CLI_TEXT,
     .arg = "NAME",
     .help = "one GPU in place of a cluster: h100; a table by kernel"},
    {.name = "ranks",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e6,
     .help = "ranks to use, in place of those of the cluster"},
    MF_CLI_DATA_FILES,
    MF_CLI_END};

/* ---- output ---- */

static void put_time(mf_jw *w, const mf_plan_choice *x)
{
    mf_jw_kv_real(w, "step_s", x->time.step_s);
    mf_jw_kv_real(w, "tokens_per_s", x->time.tokens_per_s);
    mf_jw_kv_real(w, "memory_gib", x->memory_gib);
}

static void put_shares(mf_jw *w, const mf_plan_time *t)
{
    mf_jw_key(w, "shares");
    mf_jw_object(w);
    mf_jw_kv_real(w, "compute", t->compute / t->step_s);
    mf_jw_kv_real(w, "host", t->host / t->step_s);
    mf_jw_kv_real(w, "exchange", t->exchange / t->step_s);
    mf_jw_kv_real(w, "bubble", t->bubble / t->step_s);
    mf_jw_kv_real(w, "update", t->update / t->step_s);
    mf_jw_end(w);
}

/* Names the source of a predicted time. */
static const char *time_of(const mf_plan_cluster *c, const mf_plan_choice *x)
{
    if (x->counted) return "kernels";
    return c->rank.measured_gflops > 0 ? "measured rate" : "formula";
}

static int print_json(const mf_plan_cluster *c, const mf_plan_choice *best,
                      const mf_plan_choice *all, int n)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_int(w, "ranks", best->layout.data);
    put_time(w, best);
    put_shares(w, &best->time);
    mf_jw_key(w, "layouts");
    mf_jw_array(w);
    for (int i = 0; i < n; i++) {
        mf_jw_object(w);
        mf_jw_kv_int(w, "data", all[i].layout.data);
        mf_jw_kv_int(w, "expert", all[i].layout.expert);
        mf_jw_kv_int(w, "tensor", all[i].layout.tensor);
        mf_jw_kv_int(w, "pipeline", all[i].layout.pipeline);
        put_time(w, &all[i]);
        mf_jw_kv_bool(w, "fits", all[i].fits);
        mf_jw_kv_bool(w, "runs", all[i].runs);
        mf_jw_kv_bool(w, "trains", all[i].trains);
        mf_jw_kv_string(w, "time_of", time_of(c, &all[i]));
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

/* Says whether moefw trains with a layout: as configured, with another parallel.expert, only on
 * CPUs, or not at all. */
static const char *verdict(const mf_plan_cluster *c, const mf_plan_choice *x, char out[48])
{
    if (!x->fits) return "does not fit";
    if (!x->trains) return "not built";
    snprintf(out, 48, "moefw train");
    if (!x->runs)
        snprintf(out, 48, "moefw train, parallel.expert = %lld", (long long)x->layout.expert);
    else if (c->rank.measured_gflops <= 0 && x->layout.data > 1)
        snprintf(out, 48, "moefw train, of CPUs only");
    return out;
}

/* Prints why plan --device and plan --cluster predict different times for the same rank. */
static void tell_sources(const mf_plan_cluster *c, const mf_plan_choice *all, int n)
{
    bool counted = false, formula = false;
    for (int i = 0; i < n && c->rank.measured_gflops <= 0; i++) {
        counted = counted || all[i].counted;
        formula = formula || !all[i].counted;
    }
    if (counted)
        printf("\nThe time of one rank is that of plan --device: moefw's kernels, counted.\n");
    if (formula)
        printf("\n%simes are those of a formula, fitted to published runs of other programs, "
               "whose\nhost launches each kernel (%.0f us a layer and pass); moefw on one GPU "
               "records its\nsteps, so plan --device says less for it.\n",
               counted ? "Other t" : "T", c->fit.host_us);
}

static void print(const mf_plan_cluster *c, const mf_plan_choice *best,
                  const mf_plan_choice *all, int n)
{
    char text[48];
    const mf_plan_time *t = &best->time;
    printf("%lld rank%s: %.4g s a step, %.0f tokens/s, %.2f GiB a rank\n"
           "compute %.1f %%, host %.1f %%, exchange %.1f %%, update %.1f %%\n",
           (long long)best->layout.data, best->layout.data == 1 ? "" : "s", t->step_s,
           t->tokens_per_s, best->memory_gib, 100 * t->compute / t->step_s,
           100 * t->host / t->step_s, 100 * t->exchange / t->step_s,
           100 * t->update / t->step_s);
    printf("\n data expert tensor pipeline     step_s   tokens/s      GiB\n");
    for (int i = 0; i < n && i < SHOWN; i++)
        printf("%5lld %6lld %6lld %8lld %10.4g %10.0f %8.2f %s\n",
               (long long)all[i].layout.data, (long long)all[i].layout.expert,
               (long long)all[i].layout.tensor, (long long)all[i].layout.pipeline,
               all[i].time.step_s, all[i].time.tokens_per_s, all[i].memory_gib,
               verdict(c, &all[i], text));
    tell_sources(c, all, n);
}

/* The first layout of the list that moefw runs. The list is sorted, so this is the fastest
 * layout that fits the memory or, if none fits, the fastest of all. NULL: moefw runs none. */
static const mf_plan_choice *best_of(const mf_plan_choice *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].runs) return &all[i];
    return NULL;
}

static int show(const mf_cli *cli, mf_session *s, const mf_plan_cluster *c)
{
    mf_cost cost;
    mf_plan_model m;
    mf_plan_choice *all = NULL;
    mf_meter meter;
    const mf_meter_device *device =
        s->train && c->rank.measured_gflops <= 0
            ? mf_meter_device_like(c->rank.tflops, c->rank.memory_gb_per_s)
            : NULL;
    int n = 0, rc = mf_cost_of(s, &cost);
    if (rc == MF_OK) rc = mf_plan_describe(s, &m);
    if (rc == MF_OK && device && mf_meter_step(s, device, &meter) != MF_OK) {
        /* the meter does not support this optimizer, so the formula predicts the time */
        mf_error_clear();
        device = NULL;
    }
    if (rc == MF_OK) rc = mf_plan_layouts(s, &cost, &m, c, device ? &meter : NULL, &all, &n);
    const mf_plan_choice *best = best_of(all, n);
    if (rc == MF_OK && !s->train)
        mf_log(MF_LOG_WARN, "memory is not known without the data of the configuration");
    if (rc == MF_OK && mf_cli_json(cli))
        rc = print_json(c, best, all, n);
    else if (rc == MF_OK)
        print(c, best, all, n);
    mf_free(all);
    return rc;
}

/* ---- one GPU ---- */

static double peak_of(const mf_config *c, const mf_meter *m)
{
    return c->train.dtype == MF_BF16 ? m->device->bf16 : m->device->f32;
}
/* Model FLOPs utilization. flops: by the formula 6 N D, or counted in the graph
 * without recomputation. */
static double mfu(double flops, const mf_config *c, const mf_meter *m)
{
    return flops / (m->sum.seconds * peak_of(c, m));
}
static double six_n_d(const mf_meter *m)
{
    return 6 * m->params_active * m->tokens;
}

static void put_row(mf_jw *w, const mf_meter_row *r)
{
    mf_jw_kv_int(w, "calls", r->calls);
    mf_jw_kv_int(w, "launches", r->launches);
    mf_jw_kv_real(w, "flops", r->flops);
    mf_jw_kv_real(w, "bytes", r->bytes);
    mf_jw_kv_real(w, "ms", 1e3 * r->seconds);
}

static int meter_json(const mf_config *c, const mf_meter *m, const mf_meter *token)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "device", m->device->name);
    mf_jw_kv_string(w, "dtype", mf_dtype_text(c->train.dtype));
    put_row(w, &m->sum);
    mf_jw_kv_real(w, "graph_flops", m->graph_flops);
    mf_jw_kv_real(w, "tokens", m->tokens);
    mf_jw_kv_real(w, "tokens_per_s", m->tokens / m->sum.seconds);
    mf_jw_kv_real(w, "mfu_6nd", mfu(six_n_d(m), c, m));
    mf_jw_kv_real(w, "mfu_counted", mfu(m->graph_flops, c, m));
    mf_jw_kv_real(w, "device_mib", m->memory / 1048576);
    mf_jw_kv_bool(w, "fits", m->memory <= m->device->memory);
    mf_jw_kv_int(w, "hosted", m->hosted);
    mf_jw_key(w, "kernels");
    mf_jw_array(w);
    for (int i = 0; i < m->n; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "kernel", m->row[i].name);
        put_row(w, &m->row[i]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    if (token->n > 0) {
        mf_jw_key(w, "token");
        mf_jw_object(w);
        put_row(w, &token->sum);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

static void meter_row(const mf_meter *m, const char *name, const mf_meter_row *r)
{
    printf("%-26s %6lld %9lld %10.2f %10.2f %9.3f %6.1f\n", name, (long long)r->calls,
           (long long)r->launches, 1e-9 * r->flops, 1e-6 * r->bytes, 1e3 * r->seconds,
           100 * r->seconds / m->sum.seconds);
}

static void meter_print(const mf_config *c, const mf_meter *m, const mf_meter *token)
{
    printf("%s, %s: %.3f ms a step of %.0f tokens, %.0f tokens/s; predicted by formulas\n"
           "MFU %.1f %% by 6 N D, %.1f %% by counted operations; %.0f MiB of the device%s\n\n",
           m->device->text, mf_dtype_text(c->train.dtype), 1e3 * m->sum.seconds, m->tokens,
           m->tokens / m->sum.seconds, 100 * mfu(six_n_d(m), c, m),
           100 * mfu(m->graph_flops, c, m), m->memory / 1048576,
           m->memory > m->device->memory ? ", which does not fit" : "");
    printf("%-26s %6s %9s %10s %10s %9s %6s\n", "kernel", "calls", "launches", "GFLOP", "MB",
           "ms", "%");
    for (int i = 0; i < m->n; i++)
        meter_row(m, m->row[i].name, &m->row[i]);
    meter_row(m, "all", &m->sum);
    if (token->n > 0)
        printf("\na token that is generated with a cache of %lld: %lld launches, %.2f MB, "
               "%.3f ms\n",
               (long long)c->model.seq, (long long)token->sum.launches, 1e-6 * token->sum.bytes,
               1e3 * token->sum.seconds);
}

static int predict_device(const mf_cli *cli, const char *name)
{
    const mf_meter_device *device;
    mf_config *config;
    mf_session *s = NULL;
    mf_cost cost;
    mf_meter m = {0}, token = {0};
    int rc = mf_meter_device_of(name, &device);
    if (rc == MF_OK) rc = mf_cli_config(cli, mf_cli_operand(cli, 0), &config);
    if (rc == MF_OK) rc = mf_cli_model_open(config, true, &s);
    if (rc == MF_OK && !s->train)
        rc = mf_fail(MF_EUSAGE,
                     "plan --device: the data of the configuration cannot be read, "
                     "and gradients are planned only with data: %s",
                     s->no_data ? s->no_data : "none");
    if (rc == MF_OK) rc = mf_cost_of(s, &cost);
    if (rc == MF_OK) rc = mf_meter_step(s, device, &m);
    if (rc == MF_OK) rc = mf_meter_token(s, device, &token);
    if (rc == MF_OK) {
        m.memory += (double)(cost.values + cost.sums);
        if (m.hosted > 0)
            mf_log(MF_LOG_WARN, "%d op%s of plugins run%s on the host, in an unknown time",
                   m.hosted, m.hosted == 1 ? "" : "s", m.hosted == 1 ? "s" : "");
        if (mf_cli_json(cli))
            rc = meter_json(s->config, &m, &token);
        else
            meter_print(s->config, &m, &token);
    }
    mf_session_close(s);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *path = mf_cli_text(cli, "cluster", NULL);
    const char *device = mf_cli_text(cli, "device", NULL);
    mf_plan_cluster cluster;
    mf_config *config;
    mf_session *s = NULL;
    if (device && (path || mf_cli_count(cli, "ranks") > 0))
        return mf_fail(MF_EUSAGE,
                       "plan: --device is for one GPU, without --cluster and --ranks");
    if (device) return predict_device(cli, device);
    if (!path)
        return mf_fail(MF_EUSAGE,
                       "plan: expected --cluster FILE, the INI file of a cluster, or "
                       "--device h100");
    int rc = mf_cli_input(mf_plan_cluster_read(path, &cluster));
    if (mf_cli_count(cli, "ranks") > 0) cluster.cluster.ranks = mf_cli_int(cli, "ranks", 1);
    if (rc == MF_OK) rc = mf_cli_config(cli, mf_cli_operand(cli, 0), &config);
    if (rc == MF_OK) rc = mf_cli_model_open(config, true, &s);
    if (rc == MF_OK) rc = show(cli, s, &cluster);
    mf_session_close(s);
    return rc;
}

const mf_verb mf_verb_plan = {
    .name = "plan",
    .brief = "predict the time of a step on a cluster or a GPU, and the best layout",
    .forms = forms,
    .options = options,
    .run = run,
    .notes = "Predictions are those of a formula with constants fitted to published runs; on\n"
             "a cluster whose ranks were measured ([rank] measured_gflops), of that rate.\n"
             "With --device kernels of a step are counted: \"One GPU\", moefw-parallel(7).\n"};
