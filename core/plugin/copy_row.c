/* plugin/copy_row.c: the function with which controllers copy the values of an expert to
 * another expert. Every rank makes the same copy, because values, step and noise are the same
 * on all ranks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "plugin/instance_internal.h"
#include "plugin/rules.h"

/* Copies row `from` [n] to row `to`, and adds normal numbers times `noise` times the root mean
 * square of row `from`. The numbers depend on the parameter's name, the step and `to`. */
static void copy(const mf_ctx *ctx, const mf_param *p, float *v, int64_t n, int64_t to,
                 int64_t from, double noise)
{
    const float *x = v + from * n;
    float *y = v + to * n;
    double square = 0;
    memcpy(y, x, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        square += (double)x[i] * (double)x[i];
    const float scale = (float)(noise * sqrt(square / (double)n));
    for (int64_t i = 0; i < n && scale > 0; i += 256) {
        float drawn[256];
        const int64_t part = n - i < 256 ? n - i : 256;
        mf_rng_normals((uint64_t)to, mf_rng_stream(p->name), (uint64_t)ctx->host->step,
                       (uint64_t)i, drawn, (size_t)part);
        for (int64_t j = 0; j < part; j++)
            y[i + j] += scale * drawn[j];
    }
}

/* Sets the moments of a row to 0. Moments of another shape than the values stay as they are. */
static int clear_moments(mf_store *s, const mf_param *p, int64_t n, int64_t row)
{
    int rc = MF_OK;
    float *zeros = mf_alloc((size_t)n, sizeof *zeros);
    if (!zeros) return MF_ENOMEM;
    for (int which = 0; which < 2 && rc == MF_OK; which++)
        if (mf_store_has(s, which == 0 ? MF_BLOCK_MOMENT1 : MF_BLOCK_MOMENT2) &&
            mf_shape_equal(p->moment[which], p->shape))
            rc = mf_store_write_moments(s, which, p->moment_at[which] + row * n, n, zeros);
    mf_free(zeros);
    return rc;
}

int mf_host_copy_row(mf_ctx *ctx, const char *name, int64_t to, int64_t from, double noise)
{
    int rc = mf_rule_phase(ctx, MF_PHASE_STEP, "copy_row"), layer, at = 0;
    if (rc != MF_OK) return rc;
    if (ctx->plugin->kind != MF_CONTROLLER)
        return mf_rule_broken(ctx, "copy_row: expected a call from on_step of a controller");
    mf_store *s = ctx->host->store;
    mf_param *p = name ? mf_store_find(s, name + (name[0] == '/')) : NULL;
    if (!p || p->buffer) return MF_ENOTFOUND;
    const bool expert = sscanf(p->name, "layers.%d.expert.%n", &layer, &at) == 1 && at > 0;
    if (expert && !(p->init.flags & MF_PARAM_BY_EXPERT)) return MF_ENOTFOUND;
    const int64_t rows = p->shape.rank > 0 ? p->shape.dim[0] : 0;
    if (to < 0 || to >= rows || from < 0 || from >= rows)
        return mf_rule_broken(ctx,
                              "copy_row '%s': expected rows 0 to %lld, found %lld and %lld",
                              name, (long long)rows - 1, (long long)to, (long long)from);
    if (!(noise >= 0) || !isfinite(noise))
        return mf_rule_broken(ctx, "copy_row '%s': noise: expected 0 or more, found %g", name,
                              noise);
    if (p->frozen || p->stored || ctx->host->experts_shared)
        rc = mf_fail(MF_ECONFIG, "copy_row '%s': expected %s", name,
                     ctx->host->experts_shared
                         ? "parallel.expert = 1"
                         : "a parameter that is trained, found a frozen one");
    float *v = rc == MF_OK && to != from ? mf_param_edit(p) : NULL;
    if (v) {
        copy(ctx, p, v, p->count / rows, to, from, noise);
        rc = clear_moments(s, p, p->count / rows, to);
        ctx->host->copied_rows = true;
    }
    return rc == MF_OK ? rc
                       : mf_fail_context(rc, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}
