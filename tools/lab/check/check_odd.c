/* Unusual numbers: NaN, Inf, zeros, denormals, saturated routing. None of them may crash the
 * plugin or spread to other sequences. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/check/checks.h"

typedef struct odd {
    const char *name;
    float value;
    bool clean; /* all results must be finite afterwards */
} odd;

static const odd odds[] = {{"a row of zeros", 0, true},
                           {"a row of denormals", 1e-41f, true},
                           {"a row of 1e15", 1e15f, false},
                           {"a row of FLT_MAX", FLT_MAX, false},
                           {"a row of Inf", (float)INFINITY, false},
                           {"a row of -Inf", -(float)INFINITY, false},
                           {"a row of NaN", (float)NAN, false}};

/* Whether the plugin reads other tokens. Then even a token with weight 0 can make the result of
 * another token NaN, because 0 * Inf is NaN. */
static bool mixes_tokens(const mf_harness *h)
{
    const mf_loaded *p = h->spec.plugin;
    return (p->kind == MF_EXPERT && (p->table.expert.flags & MF_EXPERT_SEQUENCE) != 0) ||
           (p->kind == MF_ADAPTER && mf_harness_sees_sequences(h));
}

/* Whether a non-finite value appears in another sequence. Unless the plugin reads other tokens,
 * the token before the odd token must stay finite, too. why: names the token. */
static bool spread(const mf_harness *harness, char *why, size_t size)
{
    const int64_t seq = harness->spec.seq, d = harness->spec.dim;
    const float *y = mf_tensor_host(harness->y);
    const bool mixes = mixes_tokens(harness);
    for (int64_t i = mixes ? seq * d : 0; i < harness->spec.batch * seq * d; i++) {
        if (isfinite(y[i]) || (i >= d && i < seq * d)) continue;
        snprintf(why, size, "token %d, %s, is not finite any more", (int)(i / d),
                 i < d ? "before it" : "of another sequence");
        return true;
    }
    return false;
}

static mf_verdict try_row(const mf_loaded *plugin, const odd *o, bool training,
                          char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    char why[200] = "";
    const bool looks_ahead =
        plugin->kind == MF_ROUTER && (plugin->table.router.flags & MF_ROUTER_NOT_CAUSAL) != 0;
    spec.training = spec.gradients = training;
    int rc = mf_harness_new(&spec, &harness);
    if (rc == MF_OK) {
        float *x = mf_tensor_input(harness->x);
        for (int32_t j = 0; j < spec.dim; j++)
            x[spec.dim + j] = o->value; /* changes the second token of the first sequence */
        rc = mf_harness_run(harness, NULL);
    }
    mf_verdict v = MF_CHECK_PASS;
    char when[64];
    snprintf(when, sizeof when, "%s, %s", o->name, training ? "training" : "evaluation");
    if (rc == MF_OK && o->clean && mf_harness_not_finite(harness) > 0)
        v = mf_check_failed(detail,
                            "%s: expected finite values everywhere, found %lld that are not",
                            when, (long long)mf_harness_not_finite(harness));
    else if (rc == MF_OK && !training && !looks_ahead && spread(harness, why, sizeof why))
        v = mf_check_failed(detail, "%s: %s", when, why);
    else if (rc != MF_OK &&
             (o->clean || (rc != MF_ENONFINITE && rc != MF_EPLUGIN && rc != MF_ERUN)))
        v = mf_check_broke(detail, when);
    mf_harness_free(harness);
    return v;
}

/* Divides the logits of the stub router by 1e-3, so that probabilities are 0 and 1. For a
 * router under check, x is multiplied by 1e4 instead. */
static mf_verdict saturate(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    spec.training = spec.gradients = true;
    if (plugin->kind == MF_ROUTER) spec.scale = 1e4f;
    int rc = mf_harness_new(&spec, &harness);
    if (rc == MF_OK && plugin->kind != MF_ROUTER)
        rc = mf_live_set(harness->host, "router.temperature", 1e-3, "check", "saturate");
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    const int64_t bad = rc == MF_OK ? mf_harness_not_finite(harness) : 0;
    mf_harness_free(harness);
    if (rc != MF_OK) return mf_check_broke(detail, "probabilities of 0 and 1");
    if (bad > 0)
        return mf_check_failed(
            detail,
            "probabilities of 0 and 1: expected finite values and gradients, "
            "found %lld that are not (a logarithm of 0?)",
            (long long)bad);
    return MF_CHECK_PASS;
}

/* Tests statistics that a controller may receive: no assignments, NaN losses, the last step. */
static mf_verdict odd_steps(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    float zeros[8] = {0}, one[8] = {1};
    spec.training = spec.gradients = true;
    int rc = mf_harness_new(&spec, &harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    for (int i = 0; i < 6 && rc == MF_OK; i++) {
        mf_layer_stats stats[MF_HARNESS_LAYERS];
        for (int32_t l = 0; l < MF_HARNESS_LAYERS; l++) {
            float *load = i % 2 == 0 ? zeros : one;
            stats[l] = (mf_layer_stats){.size = sizeof(mf_layer_stats),
                                        .layer = l,
                                        .experts = spec.experts,
                                        .top_k = spec.top_k,
                                        .load = load,
                                        .demand = load,
                                        .importance = load,
                                        .load_cv = i % 2 == 0 ? (double)NAN : 1.7,
                                        .nmi = (double)NAN,
                                        .drop_rate = 1};
        }
        const mf_step step = {.size = sizeof step,
                              .n_layers = i < 2 ? 0 : spec.layers,
                              .step = i == 5 ? 1000 : i,
                              .max_steps = i == 4 ? 0 : 1000,
                              .loss = i == 3   ? (double)NAN
                                      : i == 2 ? 1e30
                                               : 0,
                              .task_loss = (double)INFINITY,
                              .lr = 0,
                              .grad_norm = (double)NAN,
                              .val_loss = i == 5 ? 1 : (double)NAN,
                              .layers = stats};
        mf_plughost_set_step(harness->host, step.step);
        rc = mf_instance_on_step(harness->controller, &step);
        /* the plugin may report that it cannot continue */
        if (rc == MF_ECONFIG || rc == MF_ENONFINITE) rc = MF_OK;
    }
    mf_harness_free(harness);
    if (rc != MF_OK) return mf_check_broke(detail, "odd measurements");
    snprintf(detail, MF_CHECK_DETAIL,
             "no layers, empty and full experts, NaN losses, the last step");
    return MF_CHECK_PASS;
}

/* Zeros, denormals and saturated routing must leave all values and the gradient of x finite.
 * NaN, Inf and huge numbers must cause an error or, in evaluation, stay in their sequence;
 * routers that look ahead are exempt from this. Nothing may crash. */
mf_verdict mf_check_odd_numbers(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    if (plugin->kind == MF_CONTROLLER) return odd_steps(plugin, detail);
    for (size_t i = 0; i < sizeof odds / sizeof *odds; i++) {
        for (int training = 0; training < 2; training++) {
            mf_verdict v = try_row(plugin, &odds[i], training == 1, detail);
            if (v != MF_CHECK_PASS) return v;
        }
    }
    mf_verdict v = saturate(plugin, detail);
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "zeros, denormals, saturation: finite; NaN, Inf: contained");
    return v;
}
