/* lab/plan/meter_kernels.c: the set of kernels that count. The cost of each call is the cost in
 * kernels.def. This file computes the time of calls whose operations matter: gemms
 * and attention. */
#include "lab/plan/meter.h"
#include "kernels/cost.h"

/* ---- gemms ---- */

#define TILE 128.0 /* rows, and also columns, of a tile */

static double up(double n, double unit)
{
    const double tiles = (double)(int64_t)((n + unit - 1) / unit);
    return tiles * unit;
}

static double side_of(double n)
{
    return n < TILE ? up(n, 16) : TILE;
}

/* Seconds of the operations of a gemm. Its tiles run in whole waves over the multiprocessors.
 * All groups are assumed to have equally many rows. cuBLASLt is assumed to use smaller tiles
 * for fewer rows or columns. If there are fewer tiles than multiprocessors, it is assumed to
 * divide the inner dimension into parts of at least 256. */
static double gemm_seconds(const mf_meter_device *d, const mf_gemm *g)
{
    const double groups = g->groups > 1 ? (double)g->groups : 1;
    if (g->m <= MF_FEW) return 0;
    const bool own = mf_gemm_own(g), bf16 = mf_gemm_bf16(g);
    const double rows = g->by == MF_BY_ROWS ? (double)g->m / groups : (double)g->m;
    const double k = g->by == MF_BY_INNER ? (double)g->k / groups : (double)g->k;
    const double high = own ? TILE : side_of(rows);
    const double wide = own ? TILE : side_of((double)g->n);
    const double tiles = groups * up(rows, high) / high * up((double)g->n, wide) / wide;
    double parts = 1;
    while (!own && tiles * (parts + 1) <= d->processors && k >= 256 * (parts + 1))
        parts++;
    const double waves = up(tiles * parts, d->processors) / d->processors;
    const double peak = bf16 ? d->bf16 : d->f32;
    const double share =
        own ? (bf16 ? d->grouped_bf16 : d->grouped_f32) : (bf16 ? d->dense_bf16 : d->dense_f32);
    return waves * d->processors * high * wide * 2 * k / parts / (peak * share);
}

static void count_gemm(mf_meter *m, const char *name, const mf_gemm *g)
{
    const mf_cost w = mf_gemm_cost(g);
    mf_meter_add(m, name, (int)w.launches, (double)w.bytes, (double)w.flops,
                 gemm_seconds(m->device, g));
}

/* Counts the chunks of rows. Each chunk computes logits, losses, and gradients, with gemms of
 * the type of x. Losses and gradients are one launch if a block keeps a row of logits. */
static void count_head(mf_meter *m, const char *name, const mf_linear_cross_entropy_args *a)
{
    const int64_t chunk = mf_linear_cross_entropy_chunk(a->rows, a->vocab, a->most_logits);
    for (int64_t from = 0; from < a->rows; from += chunk) {
        const int64_t n = a->rows - from < chunk ? a->rows - from : chunk;
        const double logits = 4.0 * (double)n * (double)a->vocab;
        const double dlogits = logits / 4 * (double)mf_cast_size(a->type);
        mf_gemm g = {.m = n, .n = a->vocab, .k = a->d, .b.trans = true};
        g.a.type = g.b.type = a->type;
        count_gemm(m, name, &g);
        const bool gradients = a->dx || a->dw || a->dbias;
        const bool kept =
            gradients && mf_linear_cross_entropy_keeps(a->vocab, (int64_t)m->device->shared);
        if (!kept) mf_meter_add(m, name, 1, logits, 0, 0);
        if (gradients) mf_meter_add(m, name, 1, logits + dlogits, 0, 0);
        g.n = a->d, g.k = a->vocab, g.b.trans = false, g.c.type = a->type;
        if (a->dx) count_gemm(m, name, &g);
        g.m = a->vocab, g.k = n, g.a.trans = true, g.c.type = MF_CAST_F32, g.beta = from > 0;
        if (a->dw) count_gemm(m, name, &g);
        if (a->dbias) mf_meter_add(m, name, 3, logits, 0, 0);
    }
}

/* ---- attention ---- */

/* f32: share of the f32 kernels. flash: share of the bf16 kernels, which compute
 * whole widths. */
static double attention_seconds(const mf_meter_device *d, const mf_attention_args *a,
                                double flops, double f32, double flash)
{
    const int64_t width = mf_attention_width(a);
    if (width == 0) return flops / (d->f32 * f32);
    return flops * (double)width / (double)a->head_dim / (d->bf16 * flash);
}

/* ---- the set ---- */

enum {
#define MF_KERNEL(fn, ...) KERNEL_##fn,
#include "kernels/kernels.def"
};

/* Seconds that the operations of a call need. */
static double seconds_of(const mf_meter_device *d, int kernel, const void *a, double flops)
{
    switch (kernel) {
    case KERNEL_gemm:
        return gemm_seconds(d, a);
    case KERNEL_attention:
        return attention_seconds(d, a, flops, d->attention, d->flash);
    case KERNEL_attention_backward:
        return attention_seconds(d, a, flops, d->attention_backward, d->flash_backward);
    case KERNEL_grouped_attention:
        return flops / (d->f32 * d->attention);
    case KERNEL_grouped_attention_backward:
        return flops / (d->f32 * d->attention_backward);
    default:
        return 0;
    }
}

static void count(mf_meter *m, int kernel, const char *name, mf_cost w, const void *a)
{
    if (w.launches == 0) return;
    if (kernel == KERNEL_gemm && mf_gemm_own(a)) name = "gemm of groups";
    mf_meter_add(m, name, (int)w.launches, (double)w.bytes, (double)w.flops,
                 seconds_of(m->device, kernel, a, (double)w.flops));
    if (kernel == KERNEL_linear_cross_entropy) count_head(m, name, a);
}

#define MF_KERNEL(fn, ...)                                                                     \
    static void meter_##fn(const mf_kctx *x, const mf_##fn##_args *a)                          \
    {                                                                                          \
        count(x->stream, KERNEL_##fn, #fn, mf_##fn##_cost(a), a);                              \
    }
#include "kernels/kernels.def"

static bool can_pack(int type, int64_t n, int64_t k)
{
    (void)type, (void)n, (void)k;
    return false;
}

/* On a GPU of any capability, few rows have the epilogue. */
static bool can_swiglu(const mf_gemm *g)
{
    return g->m <= MF_FEW && mf_gemm_bf16(g);
}

const mf_kernels mf_meter_kernels = {
    .name = "meter",
    .can_pack = can_pack,
    .can_swiglu = can_swiglu,
    .most_logits = MF_GPU_LOGITS,
    .fuses = true,
#define MF_KERNEL(fn, ...) .fn = meter_##fn,
#include "kernels/kernels.def"
};
