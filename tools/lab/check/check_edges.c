/* Options and shapes at their bounds. Each setting must either work or be declined with a
 * reason. Nothing may crash. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/check/checks.h"
#include "plugin/load/child.h"

/* ---- options ---- */

typedef struct count {
    int values, declined;
} count;

/* Creates an instance with one option set. With `run` the harness is also built and run, in
 * evaluation and in training. A value that the plugin declines passes. inner: the value is not
 * a bound, so the results must also be sound. */
static mf_verdict try_value(const mf_loaded *plugin, const mf_option *o, const char *value,
                            bool run, bool inner, count *n, char detail[MF_CHECK_DETAIL])
{
    char when[300], why[200];
    mf_child_say("at %s = %s", o->name, value);
    snprintf(when, sizeof when, "%s = %s", o->name, value);
    for (int training = 0; training < (run ? 2 : 1); training++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        mf_harness *harness = NULL;
        spec.option = o->name;
        spec.value = value;
        spec.only_init = !run;
        spec.training = spec.gradients = training == 1;
        int rc = mf_harness_new(&spec, &harness);
        if (rc == MF_OK && run) rc = mf_harness_run(harness, NULL);
        const bool sound =
            rc != MF_OK || !run || !inner || mf_check_sound(harness, why, sizeof why);
        mf_harness_free(harness);
        if (!sound) return mf_check_failed(detail, "%s: %s", when, why);
        n->values += training == 0;
        n->declined += training == 0 && rc != MF_OK;
        if (rc != MF_OK && !mf_check_declined(rc)) return mf_check_broke(detail, when);
        if (rc != MF_OK) return MF_CHECK_PASS;
    }
    return MF_CHECK_PASS;
}

/* A value outside the bounds must be refused with MF_ECONFIG. */
static mf_verdict try_beyond(const mf_loaded *plugin, const mf_option *o, double beyond,
                             char detail[MF_CHECK_DETAIL])
{
    char value[64];
    mf_harness *harness = NULL;
    snprintf(value, sizeof value, "%.17g", beyond);
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.option = o->name;
    spec.value = value;
    spec.only_init = true;
    int rc = mf_harness_new(&spec, &harness);
    mf_harness_free(harness);
    if (rc == MF_ECONFIG) return MF_CHECK_PASS;
    return mf_check_failed(detail, "%s = %s: expected a refusal (MF_ECONFIG), found %s",
                           o->name, value, mf_status_name(rc));
}

/* Whether a size is small. Larger sizes only cost memory and time, so for them only init
 * is called. */
static bool small(double v)
{
    return fabs(v) <= 64;
}

static mf_verdict try_number(const mf_loaded *plugin, const mf_option *o, count *n,
                             char detail[MF_CHECK_DETAIL])
{
    const double edges[2] = {o->lo, o->hi};
    mf_verdict v = MF_CHECK_PASS;
    for (int i = 0; i < 2 && v == MF_CHECK_PASS; i++) {
        char value[64];
        if (!isfinite(edges[i])) continue;
        const double edge =
            o->type == MF_OPT_INT ? (i == 0 ? ceil(edges[i]) : floor(edges[i])) : edges[i];
        snprintf(value, sizeof value, "%.17g", edge);
        if (o->type == MF_OPT_INT) snprintf(value, sizeof value, "%.0f", edge);
        v = try_value(plugin, o, value, o->type == MF_OPT_REAL || small(edge), false, n,
                      detail);
        const double beyond = i == 0 ? edge - fmax(1, fabs(edge)) : edge + fmax(1, fabs(edge));
        if (v == MF_CHECK_PASS && fabs(beyond) < 9e15)
            v = try_beyond(plugin, o, beyond, detail);
    }
    return v;
}

/* Tries values between the bounds: all whole numbers if they are few, else some at equal
 * distances and some drawn values. */
static mf_verdict try_inner(const mf_loaded *plugin, const mf_option *o, count *n,
                            char detail[MF_CHECK_DETAIL])
{
    enum { PARTS = 8, WHAT = 1024 };
    const int draws = mf_check_thorough() ? 12 : 4;
    const double width = o->hi - o->lo;
    const bool whole = o->type == MF_OPT_INT;
    const bool few = whole && width <= (mf_check_thorough() ? 64 : 20);
    const bool spread = few || width <= (whole ? 64 : 100);
    char value[96];
    mf_verdict v = MF_CHECK_PASS;
    const int parts = !spread ? 0 : few ? (int)floor(width) : PARTS;
    for (int i = 1; i < parts && v == MF_CHECK_PASS; i++) {
        const double at = o->lo + width * i / parts;
        snprintf(value, sizeof value, whole ? "%.0f" : "%.9g", whole ? floor(at) : at);
        v = try_value(plugin, o, value, true, true, n, detail);
    }
    for (int i = 0; i < draws && !few && v == MF_CHECK_PASS; i++)
        if (mf_check_value(o, i, WHAT + (int)(o - plugin->schema.options), value, sizeof value))
            v = try_value(plugin, o, value, true, true, n, detail);
    return v;
}

static mf_verdict try_option(const mf_loaded *plugin, const mf_option *o, count *n,
                             char detail[MF_CHECK_DETAIL])
{
    mf_verdict v = MF_CHECK_PASS;
    switch (o->type) {
    case MF_OPT_INT:
    case MF_OPT_REAL:
        v = try_number(plugin, o, n, detail);
        return v == MF_CHECK_PASS ? try_inner(plugin, o, n, detail) : v;
    case MF_OPT_BOOL:
        v = try_value(plugin, o, "yes", true, false, n, detail);
        return v == MF_CHECK_PASS ? try_value(plugin, o, "no", true, false, n, detail) : v;
    case MF_OPT_ENUM:
        for (int i = 0; o->choices[i] && v == MF_CHECK_PASS; i++)
            v = try_value(plugin, o, o->choices[i], true, false, n, detail);
        return v;
    default:
        v = try_value(plugin, o, "\"\"", true, false, n, detail);
        return v == MF_CHECK_PASS
                   ? try_value(plugin, o, "no such thing", true, false, n, detail)
                   : v;
    }
}

/* Sets each live option to both bounds while a graph exists, and makes a training step after
 * each change. */
static mf_verdict turn_live(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const mf_schema *s = &plugin->schema;
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    char when[300];
    mf_verdict v = MF_CHECK_PASS;
    spec.training = spec.gradients = true;
    if (mf_harness_new(&spec, &harness) != MF_OK)
        return mf_check_broke(detail, "with its defaults");
    for (int i = 0; i < s->count && v == MF_CHECK_PASS; i++) {
        const mf_option *o = &s->options[i];
        if ((o->flags & MF_OPT_LIVE) == 0) continue;
        for (int edge = 0; edge < 2 && v == MF_CHECK_PASS; edge++) {
            const double to = o->type == MF_OPT_BOOL ? edge : edge == 0 ? o->lo : o->hi;
            mf_harness_live_name(plugin, o->name, when, sizeof when);
            if (!isfinite(to) || (o->type == MF_OPT_INT && to != floor(to))) continue;
            int rc = mf_live_set(harness->host, when, to, "check", "edge");
            if (rc == MF_OK) rc = mf_harness_step(harness);
            snprintf(when, sizeof when, "%s turned to %g", o->name, to);
            if (rc != MF_OK && !mf_check_declined(rc)) v = mf_check_broke(detail, when);
        }
    }
    mf_harness_free(harness);
    return v;
}

/* The defaults must work. Each bound of each number, values between the bounds, and each choice
 * must work or be declined. Values outside the bounds must be refused. With each live option at
 * each bound a training step must work or be declined. */
mf_verdict mf_check_options(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const mf_schema *s = &plugin->schema;
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    count n = {0};
    int rc = mf_harness_new(&spec, &harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    mf_harness_free(harness);
    if (rc != MF_OK) return mf_check_broke(detail, "with its defaults");
    mf_verdict v = MF_CHECK_PASS;
    for (int i = 0; i < s->count && v == MF_CHECK_PASS; i++)
        v = try_option(plugin, &s->options[i], &n, detail);
    if (v == MF_CHECK_PASS) v = turn_live(plugin, detail);
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "defaults and %d values, %d of them declined%s",
                 n.values, n.declined,
                 spec.any_order ? "; it needs a model that is no decoder (model.causal = no)"
                                : "");
    return v;
}

/* ---- shapes ---- */

/* Unusual shapes: one expert per token, all experts, one token, one expert, odd sizes, many
 * experts. Each must work in training and evaluation, or be declined. */
mf_verdict mf_check_shapes(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const struct {
        const char *name;
        int32_t batch, seq, dim, experts, top_k;
    } shapes[] = {{"k = 1", 2, 6, 16, 4, 1},     {"k = E", 2, 6, 16, 4, 4},
                  {"one token", 1, 1, 16, 4, 2}, {"one expert", 2, 6, 16, 1, 1},
                  {"E = 7", 3, 5, 32, 7, 3},     {"64 experts", 1, 4, 16, 64, 8}};
    char why[200], when[200], declined[300] = "";
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        mf_harness *harness = NULL;
        const size_t at = i / 2;
        spec.batch = shapes[at].batch, spec.seq = shapes[at].seq, spec.dim = shapes[at].dim;
        mf_check_sizes(&spec, shapes[at].experts, shapes[at].top_k);
        spec.training = spec.gradients = i % 2 == 0;
        snprintf(when, sizeof when, "%s, %s", shapes[at].name,
                 i % 2 == 0 ? "training" : "evaluation");
        int rc = mf_harness_new(&spec, &harness);
        if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
        bool sound = rc != MF_OK || mf_check_sound(harness, why, sizeof why);
        mf_harness_free(harness);
        if (!sound) return mf_check_failed(detail, "%s: %s", when, why);
        if (rc == MF_OK) continue;
        if (!mf_check_declined(rc)) return mf_check_broke(detail, when);
        if (i % 2 == 0)
            snprintf(declined + strlen(declined), sizeof declined - strlen(declined), "%s%s",
                     declined[0] != '\0' ? ", " : "; declined: ", shapes[at].name);
    }
    snprintf(detail, MF_CHECK_DETAIL,
             "k = 1, k = E, one token, one expert, E = 7, 64 experts%s", declined);
    return MF_CHECK_PASS;
}
