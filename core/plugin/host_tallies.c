/* plugin/host_tallies.c: the functions with which plugins declare, count and read tallies. In
 * graphs that do not train, mf_host.count checks its arguments and adds nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plugin/rules.h"
#include "plugin/tallies.h"

#define MOST_BINS 8192

static int in_context(mf_ctx *ctx, int rc)
{
    return mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

int mf_host_tally(mf_ctx *ctx, const char *name, mf_shape shape, uint32_t flags)
{
    char full[MF_FULL_NAME];
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "tally");
    if (rc == MF_OK) rc = mf_rule_name(ctx, "tally", name);
    if (rc == MF_OK) rc = mf_rule_shape(ctx, "tally", name, shape);
    if (rc == MF_OK) rc = mf_rule_full_name(ctx, "tally", name, full);
    if (rc != MF_OK) return rc;
    if ((flags & ~MF_TALLY_WHOLE) != 0)
        return mf_rule_broken(ctx,
                              "tally '%s': expected flags of MF_TALLY_* (0x%x), found 0x%x",
                              name, MF_TALLY_WHOLE, (unsigned)flags);
    if (mf_store_find(ctx->host->store, full))
        return mf_rule_broken(
            ctx, "tally '%s': a parameter or buffer of this instance has the name", name);
    rc = mf_tallies_declare(ctx->host, full, shape, flags);
    if (rc == MF_EPLUGIN) ctx->fault = rc;
    return rc == MF_OK ? rc : in_context(ctx, rc);
}

/* Records that an instance has no such tally, and names its nearest tally. */
static void no_tally(mf_ctx *ctx, const char *name)
{
    const char *own[64], *full, *names = "";
    char hint[256];
    uint32_t flags;
    const double *sum;
    int64_t count;
    int n = 0;
    const size_t path = strlen(ctx->path);
    for (int i = 0; n < 63 && (full = mf_tallies_at(ctx->host, i, &flags, &sum, &count)); i++)
        if (strncmp(full, ctx->path, path) == 0 && full[path] == '.')
            own[n++] = full + path + 1;
    own[n] = NULL;
    names = mf_did_you_mean(name ? name : "", own, hint, sizeof hint);
    mf_rule_broken(ctx, "count: no tally '%s' of this instance%s", name ? name : "NULL",
                   names[0] != '\0' ? names : ": declare it in init");
}

void mf_host_count(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *part)
{
    char full[MF_FULL_NAME], why[512];
    if (mf_rule_graph(ctx, g, "count") != MF_OK) return;
    snprintf(full, sizeof full, "%s.%s", ctx->path, name ? name : "");
    if (!name || !mf_tallies_has(ctx->host, full)) {
        no_tally(ctx, name);
        return;
    }
    if (!part) {
        /* If the graph has not failed, a missing value is a mistake of the plugin. */
        if (mf_graph_status(g) == MF_OK)
            mf_rule_broken(ctx, "count '%s': expected a value, found NULL", name);
        return;
    }
    if (part->graph != g) {
        mf_rule_broken(ctx, "count '%s': expected a value of this graph, found one of another",
                       name);
        return;
    }
    if (!mf_graph_training(g)) return;
    if (ctx->host->experts_shared && ctx->plugin->kind == MF_EXPERT) {
        mf_graph_fail(
            g, MF_ECONFIG,
            "%s (plugin %s): tally '%s': with parallel.expert an expert computes rows "
            "of other ranks' micro-batches, which it cannot count; expected "
            "parallel.expert = 1",
            ctx->path, ctx->plugin->name, name);
        return;
    }
    const int rc = mf_tallies_count(ctx->host, full, part);
    if (rc == MF_ESHAPE) {
        snprintf(why, sizeof why, "%s", mf_error_message());
        mf_rule_broken(ctx, "count '%s': %s", name, why);
    } else if (rc != MF_OK && mf_graph_status(g) == MF_OK) {
        mf_graph_fail(g, rc, "out of memory for tally '%s'", name);
    }
}

const double *mf_host_sum(mf_ctx *ctx, const char *name, int64_t *ret_count)
{
    char full[MF_FULL_NAME];
    const char *at;
    uint32_t flags;
    const double *sum;
    int64_t count;
    if (ret_count) *ret_count = 0;
    if (mf_rule_phase(ctx, MF_PHASE_STEP, "sum") != MF_OK || !name) return NULL;
    if (name[0] == '/')
        snprintf(full, sizeof full, "%s", name + 1);
    else
        snprintf(full, sizeof full, "%s.%s", ctx->path, name);
    for (int i = 0; (at = mf_tallies_at(ctx->host, i, &flags, &sum, &count)) != NULL; i++) {
        if (strcmp(at, full) != 0) continue;
        if (ret_count) *ret_count = count;
        return sum;
    }
    return NULL;
}

int mf_host_count_scores(mf_ctx *ctx, const char *name, const mf_score_count *what)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_DECLARE, "count_scores");
    if (rc == MF_OK) rc = mf_rule_name(ctx, "count_scores", name);
    if (rc != MF_OK) return rc;
    if (!what || !MF_HAS(what, mf_score_count, hi))
        return mf_rule_broken(
            ctx, "count_scores '%s': expected an mf_score_count with its size", name);
    if (what->of < MF_SCORE_LOGIT || what->of > MF_SCORE_REQUIRED)
        return mf_rule_broken(ctx, "count_scores '%s': of: expected %d to %d, found %d", name,
                              MF_SCORE_LOGIT, MF_SCORE_REQUIRED, (int)what->of);
    if (what->bins < 2 || what->bins > MOST_BINS)
        return mf_rule_broken(ctx, "count_scores '%s': bins: expected 2 to %d, found %d", name,
                              MOST_BINS, (int)what->bins);
    if (what->with_bias < 0 || what->with_bias > 1)
        return mf_rule_broken(ctx, "count_scores '%s': with_bias: expected 0 or 1, found %d",
                              name, (int)what->with_bias);
    if (!(what->lo < what->hi) || !isfinite(what->lo) || !isfinite(what->hi))
        return mf_rule_broken(ctx, "count_scores '%s': expected lo < hi, found %g and %g", name,
                              what->lo, what->hi);
    rc = mf_tallies_want_scores(ctx->host, name, what);
    if (rc == MF_EPLUGIN) ctx->fault = rc;
    return rc == MF_OK ? rc : in_context(ctx, rc);
}
