/* State: values that instances share by mistake, parameters that no gradient reaches, and
 * results that differ from process to process. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"

/* ---- instances ---- */

enum { STEPS = 3 };

/* Makes a second harness with a larger batch and other values, trains it for 2 steps and
 * frees it. */
static int disturb(const mf_harness_spec *spec)
{
    mf_harness *other = NULL;
    mf_harness_spec own = *spec;
    own.batch = spec->batch + 1;
    own.shaken = 3;
    int rc = mf_harness_new(&own, &other);
    for (int i = 0; i < 2 && rc == MF_OK; i++)
        rc = mf_harness_step(other);
    mf_harness_free(other);
    return rc;
}

static int steps_of(const mf_harness_spec *spec, bool disturbed, char hash[33])
{
    mf_harness *harness = NULL;
    int rc = mf_harness_new(spec, &harness);
    for (int i = 0; i < STEPS && rc == MF_OK; i++) {
        rc = mf_harness_step(harness);
        if (rc == MF_OK && disturbed) rc = disturb(spec);
    }
    if (rc == MF_OK) mf_harness_digest(harness, hash);
    mf_harness_free(harness);
    return rc;
}

/* ---- the layers of one model ---- */

static bool same_bits(const mf_tensor *a, const mf_tensor *b, const char *what, char *why,
                      size_t size)
{
    const void *x = a ? mf_tensor_host(a) : NULL, *y = b ? mf_tensor_host(b) : NULL;
    if (!x || !y || memcmp(x, y, (size_t)mf_shape_count(a->shape) * 4) == 0) return true;
    snprintf(why, size, "%s", what);
    return false;
}

/* Whether the first layers of two harnesses have the same routing, output and buffers. */
static bool same_layer(const mf_harness *a, const mf_harness *b, char *why, size_t size)
{
    const mf_param *p;
    if (!same_bits(a->out[0].routing.prob, b->out[0].routing.prob, "probabilities", why,
                   size) ||
        !same_bits(a->out[0].routing.chosen, b->out[0].routing.chosen, "choices", why, size) ||
        !same_bits(a->out[0].gate, b->out[0].gate, "gates", why, size) ||
        !same_bits(a->between[0], b->between[0], "its output", why, size))
        return false;
    for (int i = 0; (p = mf_store_match(a->store, "layers.0.*", i)) != NULL; i++) {
        const mf_param *q = mf_store_find(b->store, p->name);
        if (q && memcmp(mf_param_host(p), mf_param_host(q), (size_t)p->count * 4) == 0)
            continue;
        snprintf(why, size, "%s", p->name);
        return false;
    }
    return true;
}

/* Makes a harness and runs it some times. */
static int used(const mf_harness_spec *spec, int runs, mf_harness **ret)
{
    int rc = mf_harness_new(spec, ret);
    for (int i = 0; i < runs && rc == MF_OK; i++) {
        rc = mf_harness_run(*ret, &mf_kernels_ref);
        if (rc == MF_OK) rc = mf_harness_after(*ret);
    }
    return rc;
}

/* The first layer of a model must compute the same bits, and keep the same buffers, with and
 * without a second layer. */
static mf_verdict layer_alone(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    enum { RUNS = 3 };
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *one = NULL, *two = NULL;
    char why[120] = "";
    bool same = true;
    spec.training = spec.gradients = true;
    spec.layers = spec.of_layers = MF_HARNESS_LAYERS;
    int rc = used(&spec, RUNS, &two);
    spec.layers = 1;
    if (rc == MF_OK) rc = used(&spec, RUNS, &one);
    if (rc == MF_OK) same = same_layer(one, two, why, sizeof why);
    mf_harness_free(one);
    mf_harness_free(two);
    if (rc != MF_OK) return mf_check_broke(detail, "with one layer of two");
    if (same) return MF_CHECK_PASS;
    return mf_check_failed(detail,
                           "in its first layer, %s differ when a second one exists: expected "
                           "each instance to use its own memory, found some that layers share",
                           why);
}

/* Training steps of an instance must have the same bits if other instances are made, trained
 * and freed between the steps. A layer must compute the same bits with and without the next
 * layer. So state belongs to the instance: it is in the instance's memory, parameters
 * and buffers. */
mf_verdict mf_check_instances(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    char alone[33], beside[33];
    spec.layers = MF_HARNESS_LAYERS;
    spec.training = spec.gradients = true;
    int rc = steps_of(&spec, false, alone);
    if (rc == MF_OK) rc = steps_of(&spec, true, beside);
    if (rc != MF_OK) return mf_check_broke(detail, "beside another instance");
    if (strcmp(alone, beside) != 0)
        return mf_check_failed(
            detail, "its steps differ when another instance lives beside it: expected state of "
                    "its own (parameters, buffers), found state that instances share");
    const bool in_layers = plugin->kind != MF_REGULARIZER && plugin->kind != MF_CONTROLLER;
    const mf_verdict v = in_layers ? layer_alone(plugin, detail) : MF_CHECK_PASS;
    if (v != MF_CHECK_PASS) return v;
    snprintf(detail, MF_CHECK_DETAIL, "the same bits alone and beside other instances");
    return MF_CHECK_PASS;
}

/* ---- parameters ---- */

enum { PARAMS_MAX = 64 };

static bool has_gradient(const mf_store *store, const mf_param *p)
{
    const char *all = mf_store_host(store, MF_BLOCK_GRADS);
    const float *grad =
        all ? (const float *)(const void *)(all + mf_param_offset(p, MF_BLOCK_GRADS)) : NULL;
    for (int64_t i = 0; grad && i < p->count; i++)
        if (grad[i] != 0) return true;
    return false;
}

typedef struct reached {
    int n;
    char name[PARAMS_MAX][64];
    bool by_gradient[PARAMS_MAX];
} reached;

/* Adds the trained parameters of a harness to `all`, and whether a gradient reaches each
 * of them. */
static int reach(const mf_harness_spec *spec, reached *all)
{
    mf_harness *harness = NULL;
    char pattern[112];
    const mf_param *p;
    int rc = mf_harness_new(spec, &harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    if (rc == MF_OK) snprintf(pattern, sizeof pattern, "%s.*", mf_harness_path(harness));
    for (int i = 0; rc == MF_OK && (p = mf_store_match(harness->store, pattern, i)); i++) {
        int at = 0;
        if (p->buffer || p->frozen) continue;
        while (at < all->n && strcmp(all->name[at], p->name) != 0)
            at++;
        if (at == PARAMS_MAX) continue;
        if (at == all->n) snprintf(all->name[all->n++], sizeof *all->name, "%s", p->name);
        all->by_gradient[at] |= has_gradient(harness->store, p);
    }
    mf_harness_free(harness);
    return rc;
}

/* A gradient must reach every parameter in at least one of some draws, with few or with many
 * experts. A parameter without a gradient never learns, but needs memory and looks like a part
 * of the model. */
mf_verdict mf_check_parameters(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const int32_t experts[] = {4, 4, 4, 4, 8, 13, 32, 2, 64};
    enum { DRAWS = sizeof experts / sizeof *experts };
    static reached all;
    all = (reached){.n = 0};
    for (int i = 0; i < DRAWS; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        if (i >= 4) mf_check_sizes(&spec, experts[i], spec.top_k);
        if (i > 6) mf_check_sizes(&spec, experts[i], i == 7 ? 1 : 8);
        spec.training = spec.gradients = true;
        spec.shaken = i + 1;
        const int rc = reach(&spec, &all);
        if (rc != MF_OK && (i < 4 || !mf_check_declined(rc)))
            return mf_check_broke(detail, "in a training step");
    }
    for (int i = 0; i < all.n; i++)
        if (!all.by_gradient[i])
            return mf_check_failed(detail,
                                   "no gradient reaches parameter %s in %d draws of 2 to 64 "
                                   "experts: expected one that learns, or a buffer",
                                   all.name[i], DRAWS);
    snprintf(detail, MF_CHECK_DETAIL,
             all.n > 0 ? "a gradient reaches each of %d" : "it has none", all.n);
    return MF_CHECK_PASS;
}

/* ---- processes ---- */

/* Digest of the results of an evaluation with padding. */
static int evaluated(mf_harness_spec spec, char hash[33])
{
    mf_harness *harness = NULL;
    spec.training = spec.gradients = false;
    spec.masked = true;
    int rc = mf_harness_new(&spec, &harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    if (rc == MF_OK) mf_harness_digest(harness, hash);
    mf_harness_free(harness);
    return rc;
}

int mf_check_digest(const mf_loaded *plugin, char hash[33])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    char both[2][33] = {{0}};
    spec.layers = MF_HARNESS_LAYERS;
    spec.training = spec.gradients = true;
    int rc = steps_of(&spec, false, both[0]);
    if (rc == MF_OK) rc = evaluated(spec, both[1]);
    mf_hash_bytes(both, sizeof both, hash);
    return rc;
}
