/* optimizer.c: kernels of the optimizer, over a flat range of parameters. Each kernel is one
 * pass, whose speed is limited by memory.
 *
 * Elements are independent. Sums of squares are added tile by tile, in the order of the tiles;
 * the number of tiles depends only on the number of elements. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct range {
    int64_t count, per;
    const float *grad;
    float *value, *m, *v;
    mf_bf16 *copy; /* bf16 copies of values, or NULL */
    float *u;      /* argument of momentum and descend */
    /* numbers of adamw; the other kernels use some of them */
    float scale, keep1, keep2, lr, decay, l2, eps, root2;
    double *part; /* partial sums of sumsq, beginning with tile `first` */
    int64_t first;
} range;

V_INLINE void adamw_step(const range *p, vf g, vf *value, vf *m, vf *v)
{
    g = v_fma(*value, v_set(p->l2), g * p->scale);
    *m = v_fma(g - *m, v_set(p->keep1), *m);
    *v = v_fma(v_fma(g, g, -*v), v_set(p->keep2), *v);
    vf step = *m / v_fma(v_sqrt(*v), v_set(p->root2), v_set(p->eps));
    *value = *value - step * p->lr - *value * p->decay;
}

/* Stores without using the cache if the processor has AVX-512 and p is aligned. Copies are not
 * read before the next step, and a line that is written completely need not be read first. */
V_INLINE void store_past(mf_bf16 *p, vf v)
{
#if defined(__AVX512F__)
    mf_bf16 t[VL] __attribute__((aligned(2 * VL)));
    if ((uintptr_t)p % sizeof t == 0) {
        v_store_bf16(t, v);
        _mm256_stream_si256((__m256i *)p, _mm256_load_si256((const __m256i *)t));
        return;
    }
#endif
    v_store_bf16(p, v);
}

V_INLINE void adamw_part(const range *p, int64_t tile, bool bf16)
{
    int64_t i = tile * p->per, to = rows_end(p->count, i, p->per);
    for (; i + VL <= to; i += VL) {
        __builtin_prefetch(p->value + i + ROWS_AHEAD);
        __builtin_prefetch(p->grad + i + ROWS_AHEAD);
        __builtin_prefetch(p->m + i + ROWS_AHEAD);
        __builtin_prefetch(p->v + i + ROWS_AHEAD);
        vf value = v_load(p->value + i), m = v_load(p->m + i), v = v_load(p->v + i);
        adamw_step(p, v_load(p->grad + i), &value, &m, &v);
        v_store(p->value + i, value);
        if (bf16) store_past(p->copy + i, value);
        v_store(p->m + i, m);
        v_store(p->v + i, v);
    }
    if (i < to) {
        int64_t n = to - i;
        vf value = v_load_n(p->value + i, n), m = v_load_n(p->m + i, n),
           v = v_load_n(p->v + i, n);
        adamw_step(p, v_load_n(p->grad + i, n), &value, &m, &v);
        v_store_n(p->value + i, value, n);
        if (bf16) v_store_bf16_n(p->copy + i, value, n);
        v_store_n(p->m + i, m, n);
        v_store_n(p->v + i, v, n);
    }
#if defined(__AVX512F__)
    if (bf16) _mm_sfence(); /* makes the copies visible to other threads */
#endif
}

static void adamw_tile(void *arg, int64_t tile)
{
    adamw_part(arg, tile, false);
}

static void adamw_bf16_tile(void *arg, int64_t tile)
{
    adamw_part(arg, tile, true);
}

/* The factors contain lr / correction1 and 1 / sqrt(correction2), so an element needs only one
 * root and one division. */
void MF_SIMD(adamw)(const mf_kctx *x, const mf_adamw_args *a)
{
    for (int64_t i = 0; a->range && i < a->ranges; i++) {
        const mf_adamw_args one = mf_adamw_range(a, i);
        MF_SIMD(adamw)(x, &one);
    }
    if (a->range) return;
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    range p = {.count = a->count,
               .per = ROWS_TILE,
               .grad = a->grad,
               .value = a->value,
               .m = a->m,
               .v = a->v,
               .copy = a->copy,
               .scale = (float)f.scale,
               .keep1 = (float)(1 - a->update.beta1),
               .keep2 = (float)(1 - a->update.beta2),
               .lr = (float)(f.lr / f.correction1),
               .decay = (float)(f.lr * f.weight_decay),
               .l2 = (float)f.l2,
               .eps = (float)a->update.eps,
               .root2 = (float)(1 / sqrt(f.correction2))};
    if (f.scale == 0) return;
    x->parallel(rows_tiles(a->count, 1), a->copy != NULL ? adamw_bf16_tile : adamw_tile, &p);
}

/* ---- lion, momentum, descend: loops over memory like that of adamw ---- */

V_INLINE vf sign_of(vf a)
{
    return v_select(a > 0, v_set(1), v_select(a < 0, v_set(-1), v_set(0)));
}

V_INLINE void lion_step(const range *p, vf g, vf *value, vf *m)
{
    g = g * p->scale;
    const vf sign = sign_of(v_fma(g - *m, v_set(p->keep1), *m));
    *m = v_fma(g - *m, v_set(p->keep2), *m);
    *value = *value - sign * p->lr - *value * p->decay;
}

static void lion_tile(void *arg, int64_t tile)
{
    const range *p = arg;
    int64_t i = tile * p->per, to = rows_end(p->count, i, p->per);
    for (; i < to; i += VL) {
        const int64_t n = to - i < VL ? to - i : VL;
        vf value = v_load_to(p->value + i, n), m = v_load_to(p->m + i, n);
        lion_step(p, v_load_to(p->grad + i, n), &value, &m);
        v_store_to(p->value + i, value, n);
        v_store_to(p->m + i, m, n);
        if (p->copy != NULL) v_store_bf16_n(p->copy + i, value, n);
    }
}

void MF_SIMD(lion)(const mf_kctx *x, const mf_lion_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    range p = {.count = a->count,
               .per = ROWS_TILE,
               .grad = a->grad,
               .value = a->value,
               .m = a->m,
               .copy = a->copy,
               .scale = (float)f.scale,
               .keep1 = (float)(1 - a->update.beta1),
               .keep2 = (float)(1 - a->update.beta2),
               .lr = (float)f.lr,
               .decay = (float)(f.lr * f.weight_decay)};
    if (f.scale == 0) return;
    x->parallel(rows_tiles(a->count, 1), lion_tile, &p);
}

static void momentum_tile(void *arg, int64_t tile)
{
    const range *p = arg;
    int64_t i = tile * p->per, to = rows_end(p->count, i, p->per);
    for (; i < to; i += VL) {
        const int64_t n = to - i < VL ? to - i : VL;
        const vf g = v_load_to(p->grad + i, n) * p->scale, old = v_load_to(p->m + i, n);
        const vf m = v_fma(g - old, v_set(p->keep1), old);
        v_store_to(p->m + i, m, n);
        v_store_to(p->u + i, v_fma(m - g, v_set(1 - p->keep1), g), n);
    }
}

void MF_SIMD(momentum)(const mf_kctx *x, const mf_momentum_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    range p = {.count = a->count,
               .per = ROWS_TILE,
               .grad = a->grad,
               .m = a->m,
               .u = a->u,
               .scale = (float)f.scale,
               .keep1 = (float)(1 - a->update.beta1)};
    if (f.scale == 0) return;
    x->parallel(rows_tiles(a->count, 1), momentum_tile, &p);
}

static void descend_tile(void *arg, int64_t tile)
{
    const range *p = arg;
    int64_t i = tile * p->per, to = rows_end(p->count, i, p->per);
    for (; i < to; i += VL) {
        const int64_t n = to - i < VL ? to - i : VL;
        vf value = v_load_to(p->value + i, n);
        value = value - v_load_to(p->grad + i, n) * p->lr - value * p->decay;
        v_store_to(p->value + i, value, n);
        if (p->copy != NULL) v_store_bf16_n(p->copy + i, value, n);
    }
}

void MF_SIMD(descend)(const mf_kctx *x, const mf_descend_args *a)
{
    const mf_update_factors f = mf_update_resolve(x, &a->update);
    range p = {.count = a->count,
               .per = ROWS_TILE,
               .grad = a->u,
               .value = a->value,
               .copy = a->copy,
               .lr = (float)(f.lr * a->scale),
               .decay = (float)(f.lr * f.weight_decay)};
    if (f.scale == 0) return;
    x->parallel(rows_tiles(a->count, 1), descend_tile, &p);
}

/* ---- sums and scaling ---- */

typedef float half_vector __attribute__((vector_size(2 * VL)));

V_INLINE void add_squares(const float *a, vd s[2])
{
    half_vector u, v;
    memcpy(&u, a, sizeof u);
    memcpy(&v, a + VL / 2, sizeof v);
    __builtin_prefetch(a + ROWS_AHEAD);
    vd du = __builtin_convertvector(u, vd), dv = __builtin_convertvector(v, vd);
    s[0] = v_fmad(du, du, s[0]);
    s[1] = v_fmad(dv, dv, s[1]);
}

/* Sums two halves of a tile at the same time, because a single stream of reads does not use the
 * full bandwidth of memory. */
static void sumsq_tile(void *arg, int64_t tile)
{
    const range *p = arg;
    int64_t i = (p->first + tile) * p->per, to = rows_end(p->count, i, p->per);
    const int64_t apart = (to - i) / (2 * VL) * VL, middle = i + apart;
    vd s[2] = {{0}}, t[2] = {{0}};
    for (; i < middle; i += VL) {
        add_squares(p->grad + i, s);
        add_squares(p->grad + i + apart, t);
    }
    s[0] = (s[0] + s[1]) + (t[0] + t[1]);
    double sum = 0;
    for (int j = 0; j < VL / 2; j++)
        sum += s[0][j];
    for (i += apart; i < to; i++)
        sum += (double)p->grad[i] * p->grad[i];
    p->part[tile] = sum;
}

/* Returns the number of elements of a tile of a range. */
static int64_t sumsq_per(int64_t count)
{
    const int64_t per = (count + MF_SUMSQ_TILES - 1) / MF_SUMSQ_TILES;
    return per < ROWS_TILE ? ROWS_TILE : (per + VL - 1) / VL * VL;
}

void MF_SIMD(sumsq_tiles)(const mf_kctx *x, int64_t total, int64_t first, int64_t count,
                          const float *a, int64_t *ret_tile, double *part)
{
    range p = {
        .count = total, .per = sumsq_per(total), .grad = a, .part = part, .first = first};
    *ret_tile = p.per;
    if (count > 0) x->parallel(count, sumsq_tile, &p);
}

void MF_SIMD(sumsq)(const mf_kctx *x, const mf_sumsq_args *a)
{
    for (int64_t i = 0; a->range && i < a->ranges; i++) {
        const mf_sumsq_args one = mf_sumsq_range(a, i);
        MF_SIMD(sumsq)(x, &one);
    }
    if (a->range) return;
    double *part = a->work, total = 0;
    const int64_t per = sumsq_per(a->count);
    int64_t tiles = (a->count + per - 1) / per;
    range p = {.count = a->count, .per = per, .grad = a->a, .part = part};
    x->parallel(tiles, sumsq_tile, &p);
    for (int64_t t = 0; t < tiles; t++)
        total += part[t];
    a->sum[0] = a->add ? a->sum[0] + total : total;
}

static void scale_tile(void *arg, int64_t tile)
{
    const range *p = arg;
    int64_t i = tile * p->per, to = rows_end(p->count, i, p->per);
    for (; i + VL <= to; i += VL)
        v_store(p->value + i, v_load(p->value + i) * p->scale);
    for (; i < to; i++)
        p->value[i] *= p->scale;
}

void MF_SIMD(scale_inplace)(const mf_kctx *x, const mf_scale_inplace_args *a)
{
    range p = {.count = a->count, .per = ROWS_TILE, .value = a->a, .scale = a->factor};
    x->parallel(rows_tiles(a->count, 1), scale_tile, &p);
}
