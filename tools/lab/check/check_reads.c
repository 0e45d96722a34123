/* The data that a plugin may read. It may read labels only if it declares that it needs them,
 * and statistics of layers and heads only if its flags do not declare that it reads none. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/check/checks.h"

/* ---- labels ---- */

/* Whether other labels change a token's routing or output. */
static int other_labels(const mf_harness_spec *spec, bool *ret_changed, char *why, size_t size)
{
    mf_harness *a = NULL, *b = NULL;
    int rc = mf_harness_new(spec, &a);
    if (rc == MF_OK) rc = mf_harness_new(spec, &b);
    if (rc == MF_OK) rc = mf_harness_run(a, NULL);
    int32_t *labels = rc == MF_OK && b->in.labels ? mf_tensor_input(b->in.labels) : NULL;
    const int64_t T = (int64_t)spec->batch * spec->seq;
    for (int64_t t = 0; labels && t < T; t++)
        labels[t] = (labels[t] + 1 + (int32_t)(t % 2)) % MF_HARNESS_LABELS;
    if (rc == MF_OK) rc = mf_harness_run(b, NULL);
    for (int64_t t = 0; rc == MF_OK && t < T && !*ret_changed; t++)
        *ret_changed = !mf_check_same_token(a, t, b, t, 1e-6, why, size);
    mf_harness_free(a);
    mf_harness_free(b);
    return rc;
}

/* Draws sizes other than those of the small harness, in three ranges of lengths, from
 * the seed. */
static void draw_size(int draw, mf_harness_spec *spec)
{
    enum { WHAT = 4200 };
    static const int32_t from[] = {7, 25, 65}, to[] = {24, 64, 160};
    spec->gradients = false;
    spec->seq = mf_check_number(draw, WHAT, from[draw % 3], to[draw % 3]);
    spec->batch = draw % 3 == 2 ? 1 : mf_check_number(draw, WHAT + 1, 1, 3);
    mf_check_sizes(spec, mf_check_number(draw, WHAT + 2, 2, 12),
                   mf_check_number(draw, WHAT + 3, 1, 2));
}

/* Like other_labels, first with the sizes of the small harness, then with drawn sizes. */
static int at_sizes(mf_harness_spec spec, bool *ret_changed, char *why, size_t size)
{
    const int draws = mf_check_thorough() ? 12 : 3;
    const mf_harness_spec small = spec;
    int rc = other_labels(&spec, ret_changed, why, size);
    for (int i = 0; i < draws && rc == MF_OK && !*ret_changed; i++) {
        spec = small;
        draw_size(i, &spec);
        rc = other_labels(&spec, ret_changed, why, size);
        if (mf_check_declined(rc)) rc = MF_OK; /* the plugin supports only other sizes */
    }
    return rc;
}

/* Without labels a plugin works or declines. If it works, its results must not change with
 * other labels, because a generated text has no labels. */
mf_verdict mf_check_labels(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    for (int training = 0; training < 2; training++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        mf_harness *harness = NULL;
        char why[200];
        bool changed = false;
        spec.training = spec.gradients = training == 1;
        spec.unlabelled = true;
        int rc = mf_harness_new(&spec, &harness);
        if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
        if (rc == MF_OK && training == 1) rc = mf_harness_after(harness);
        mf_harness_free(harness);
        if (mf_check_declined(rc)) return mf_check_skip(detail, "it says that it needs labels");
        if (rc != MF_OK) return mf_check_broke(detail, "without labels");
        if (plugin->kind == MF_REGULARIZER || plugin->kind == MF_CONTROLLER) continue;
        spec.unlabelled = false;
        if (at_sizes(spec, &changed, why, sizeof why) != MF_OK)
            return mf_check_broke(detail, "with other labels");
        if (changed)
            return mf_check_failed(
                detail,
                "in %s, labels change the result, and it works without them: "
                "expected it to decline if dims->labels is 0, or not to read "
                "them: %s",
                training == 1 ? "training" : "evaluation", why);
    }
    snprintf(detail, MF_CHECK_DETAIL, "it works without labels%s",
             plugin->kind == MF_REGULARIZER || plugin->kind == MF_CONTROLLER
                 ? ""
                 : ", and other ones change nothing");
    return MF_CHECK_PASS;
}

/* ---- statistics ---- */

/* Name of the flag by which a plugin of this kind declares that it reads no statistics; NULL:
 * there is no such flag. */
static const char *does_without(const mf_loaded *p)
{
    if (p->kind == MF_CONTROLLER && p->table.controller.flags & MF_CONTROLLER_BLIND)
        return "it says that it reads neither step->layers nor step->heads "
               "(MF_CONTROLLER_BLIND)";
    if (p->kind == MF_ROUTER && !(p->table.router.flags & MF_ROUTER_STATS))
        return "it does not say that it reads step->layers (MF_ROUTER_STATS), which are then "
               "not measured in each step";
    return NULL;
}

static int digest_after(const mf_harness_spec *spec, bool odd, char hash[33])
{
    enum { STEPS = 12 };
    mf_harness *harness = NULL;
    int rc = mf_harness_new(spec, &harness);
    if (rc == MF_OK) harness->odd_stats = odd;
    for (int i = 0; i < STEPS && rc == MF_OK; i++)
        rc = mf_harness_step(harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    if (rc == MF_OK) mf_harness_digest(harness, hash);
    mf_harness_free(harness);
    return rc;
}

/* Steps must have the same bits whatever the statistics are. */
mf_verdict mf_check_statistics(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const char *says = does_without(plugin);
    char one[33] = "", two[33] = "";
    if (!says)
        return mf_check_skip(detail, plugin->kind == MF_ROUTER || plugin->kind == MF_CONTROLLER
                                         ? "it says that it reads them"
                                         : "asked of routers and controllers only");
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.layers = MF_HARNESS_LAYERS;
    spec.training = spec.gradients = true;
    int rc = digest_after(&spec, false, one);
    if (rc == MF_OK) rc = digest_after(&spec, false, two);
    if (rc == MF_OK && strcmp(one, two) != 0)
        return mf_check_skip(detail, "its steps differ in any case: see instances");
    if (rc == MF_OK) rc = digest_after(&spec, true, two);
    if (rc != MF_OK) return mf_check_broke(detail, "with other statistics");
    if (strcmp(one, two) != 0)
        return mf_check_failed(detail, "%s: found steps that differ with other statistics",
                               says);
    snprintf(detail, MF_CHECK_DETAIL, "steps are the same with other statistics");
    return MF_CHECK_PASS;
}
