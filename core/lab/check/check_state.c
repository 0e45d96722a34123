/* State: values that instances share by mistake, parameters that no gradient reaches, and
 * results that depend on the process. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
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

/* Training steps of an instance must have the same bits if other instances are made, trained
 * and freed between them. So state belongs to the instance, in its memory, parameters
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
    snprintf(detail, MF_CHECK_DETAIL, "the same bits alone and beside other instances");
    return MF_CHECK_PASS;
}

/* ---- parameters ---- */

enum { DRAWS = 4, PARAMS_MAX = 64 };

static bool has_gradient(const mf_store *store, const mf_param *p)
{
    const char *all = mf_store_host(store, MF_BLOCK_GRADS);
    const float *grad =
        all ? (const float *)(const void *)(all + mf_param_offset(p, MF_BLOCK_GRADS)) : NULL;
    for (int64_t i = 0; grad && i < p->count; i++)
        if (grad[i] != 0) return true;
    return false;
}

/* Marks in `reached` the parameters that a gradient reaches with the draw spec->shaken. name
 * [*ret_n]: all trained parameters, at most PARAMS_MAX. */
static int reach(const mf_harness_spec *spec, bool reached[PARAMS_MAX], int *ret_n,
                 char name[PARAMS_MAX][64])
{
    mf_harness *harness = NULL;
    char pattern[64];
    const mf_param *p;
    int rc = mf_harness_new(spec, &harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    *ret_n = 0;
    if (rc == MF_OK) snprintf(pattern, sizeof pattern, "%s.*", mf_harness_path(harness));
    for (int i = 0;
         rc == MF_OK && (p = mf_store_match(harness->store, pattern, i)) && *ret_n < PARAMS_MAX;
         i++) {
        if (p->buffer || p->frozen) continue;
        reached[*ret_n] |= has_gradient(harness->store, p);
        snprintf(name[(*ret_n)++], 64, "%s", p->name);
    }
    mf_harness_free(harness);
    return rc;
}

/* A gradient must reach every parameter in one of DRAWS draws. A parameter without a gradient
 * never learns, but costs memory and looks like part of the model. */
mf_verdict mf_check_parameters(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    bool reached[PARAMS_MAX] = {false};
    static char name[PARAMS_MAX][64];
    int n = 0;
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.training = spec.gradients = true;
    for (spec.shaken = 1; spec.shaken <= DRAWS; spec.shaken++)
        if (reach(&spec, reached, &n, name) != MF_OK)
            return mf_check_broke(detail, "in a training step");
    for (int i = 0; i < n; i++)
        if (!reached[i])
            return mf_check_failed(detail,
                                   "no gradient reaches parameter %s in %d draws: expected one "
                                   "that learns, or a buffer",
                                   name[i], DRAWS);
    snprintf(detail, MF_CHECK_DETAIL, n > 0 ? "a gradient reaches each of %d" : "it has none",
             n);
    return MF_CHECK_PASS;
}

/* ---- processes ---- */

int mf_check_digest(const mf_loaded *plugin, char hash[33])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.layers = MF_HARNESS_LAYERS;
    spec.training = spec.gradients = true;
    return steps_of(&spec, false, hash);
}
