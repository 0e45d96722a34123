/* attention.c: attention by blocks of queries and keys (Milakov, Gimelshein 2018; Dao 2023,
 * algorithm 1). Over blocks of keys each query keeps its largest score m, the sum l of
 * e^(score - m), and the sum y of e^(score - m) v, which is divided by l at the end. A tile is
 * a block of queries of one head. */
#include "kernels/cpu/simd/attention/attention.h"
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/vecmath.h"

#define FEW_KEYS 512

typedef struct attention {
    const mf_attention_args *args;
    int64_t blocks; /* number of blocks of queries */
} attention;

V_INLINE void scale_row(int64_t n, float f, float *a)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(a + i, v_load(a + i) * f);
    for (; i < n; i++)
        a[i] *= f;
}

static void finish(const mf_attention_args *p, int64_t row, int64_t h, float m, float l,
                   float *y)
{
    if (l != 0) scale_row(p->head_dim, 1 / l, y);
    if (p->lse != NULL) p->lse[row * p->heads + h] = l != 0 ? m + logf(l) : -INFINITY;
}

/* ---- many queries ---- */

/* Processes a block of scores [keys, QUERIES] for the VL queries of one vector: replaces scores
 * by e^(score - m) and updates m and l. Returns the factor by which y must be multiplied. */
V_INLINE vf take_columns(attention_view v, const float *mask, float *score, vf *m, vf *l)
{
    attention_hide(v, mask, score);
    vf max = attention_largest(v.some, score, *m), sum = {0}, shift = attention_shift(max);
    for (int64_t s = 0; s < v.some; s++) {
        vf e = v_exp_low(v_load(score + s * QUERIES) - shift);
        v_store(score + s * QUERIES, e);
        sum += e;
    }
    vf shrink = v_exp_low(*m - shift);
    *l = *l * shrink + sum;
    *m = max;
    return shrink;
}

V_INLINE void many(const attention *job, int64_t tile, float *turned)
{
    const mf_attention_args *p = job->args;
    _Alignas(64) float score[KEYS * QUERIES], m[QUERIES], l[QUERIES], shrink[QUERIES];
    int64_t block = tile % job->blocks, h = tile / job->blocks % p->heads;
    int64_t b = tile / job->blocks / p->heads, hd = p->head_dim, ldy = p->heads * hd;
    int64_t t0 = block * QUERIES, nt = attention_min(p->t - t0, QUERIES);
    int64_t row = b * p->t + t0, kv = h / (p->heads / p->kv_heads),
            end = attention_seen(p, b, t0 + nt - 1);
    int64_t begin = attention_min(attention_first(p, b, t0) / KEYS * KEYS, end);
    float *y = p->y + row * ldy + h * hd;
    block_turn(nt, hd, p->scale, p->q + row * p->ldq + h * hd, p->ldq, turned, QUERIES);
    for (int64_t t = 0; t < QUERIES; t++) {
        m[t] = -INFINITY;
        l[t] = 0;
    }
    for (int64_t t = 0; t < nt && begin == end; t++)
        memset(y + t * ldy, 0, (size_t)hd * sizeof(float));
    for (int64_t s0 = begin; s0 < end; s0 += KEYS) {
        int64_t from = s0 + attention_skip(p, b, t0, s0, 2), at = b * p->s + from;
        int64_t ns = attention_min(end, s0 + KEYS) - from;
        attention_views v = attention_look_all(p, b, t0, nt, from, ns);
        attention_scores(&v, hd, p->k + at * p->ldk + kv * hd, p->ldk, turned, score);
        for (int i = 0; i < v.n; i++) {
            int64_t t = i * VL;
            vf vm = v_load(m + t), vl = v_load(l + t);
            vf f = take_columns(v.of[i], p->mask != NULL ? p->mask + at : NULL, score + t, &vm,
                                &vl);
            v_store(shrink + t, f);
            v_store(m + t, vm);
            v_store(l + t, vl);
        }
        for (int64_t t = 0; t < nt && s0 > begin; t++)
            if (shrink[t] != 1) scale_row(hd, shrink[t], y + t * ldy);
        attention_to_queries(&v, nt, hd, score, p->v + at * p->ldv + kv * hd, p->ldv,
                             s0 > begin, y, ldy);
    }
    for (int64_t t = 0; t < nt; t += VL) {
        vf vl = v_load(l + t);
        v_store(shrink + t, v_select(vl == 0.0f, v_set(1), 1 / vl));
        v_store(m + t, v_load(m + t) + v_log(vl)); /* -inf if a query attends to no key */
    }
    for (int64_t t = 0; t < nt; t++) {
        scale_row(hd, shrink[t], y + t * ldy);
        if (p->lse != NULL) p->lse[(row + t) * p->heads + h] = m[t];
    }
}

static void many_short_tile(void *arg, int64_t tile)
{
    _Alignas(64) float turned[SHORT * QUERIES];
    many(arg, tile, turned);
}

static void many_wide_tile(void *arg, int64_t tile)
{
    _Alignas(64) float turned[MF_MAX_HEAD_DIM * QUERIES];
    many(arg, tile, turned);
}

/* ---- few queries: rows of scores ---- */

/* Sets scores to -inf where mask is 0. Returns false if no key remains. */
static bool apply_mask(int64_t n, const float *mask, float *score)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        any |= mask[i] != 0;
        score[i] = mask[i] != 0 ? score[i] : -INFINITY;
    }
    return any;
}

V_INLINE float row_max(int64_t n, const float *a)
{
    vf m = v_set(-INFINITY);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        m = v_max(m, v_load(a + i));
    float max = v_hmax(m);
    for (; i < n; i++)
        max = max > a[i] ? max : a[i];
    return max;
}

/* Sets a to e^(a - shift) in the first n elements, and to 0 in all other elements up to
 * `width`. Returns the sum. */
V_INLINE float exp_row(int64_t n, int64_t width, float shift, float *a)
{
    vf sum = {0};
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf e = v_exp(v_load(a + i) - shift);
        v_store(a + i, e);
        sum += e;
    }
    if (i < n) {
        float t[VL];
        v_store(t, v_exp(v_load_n(a + i, n - i) - shift));
        for (int64_t j = n - i; j < VL; j++)
            t[j] = 0;
        sum += v_load(t);
        memcpy(a + i, t, (size_t)(n - i) * sizeof(float));
    }
    memset(a + n, 0, (size_t)(width - n) * sizeof(float));
    return v_sum(sum);
}

/* Processes one row of a block of scores: replaces scores from `first` to n by e^(score - m),
 * sets all other scores up to `width` to 0, and updates m, l and y. */
static void take_row(const mf_attention_args *p, int64_t first, int64_t n, int64_t width,
                     const float *mask, float *score, float *m, float *l, float *y)
{
    if (first < 0) first = 0;
    for (int64_t i = 0; i < first && i < n; i++)
        score[i] = -INFINITY;
    if (n <= first || (mask != NULL && !apply_mask(n - first, mask + first, score + first))) {
        memset(score, 0, (size_t)width * sizeof(float));
        return;
    }
    float max = row_max(n, score);
    if (max > *m || *l == 0) {
        if (*l != 0) {
            float shrink = expf(*m - max);
            *l *= shrink;
            scale_row(p->head_dim, shrink, y);
        }
        *m = max;
    }
    *l += exp_row(n, width, *m, score);
}

static void few_tile(void *arg, int64_t tile)
{
    const attention *job = arg;
    const mf_attention_args *p = job->args;
    _Alignas(64) float score[FEW_QUERIES * FEW_KEYS];
    float m[FEW_QUERIES], l[FEW_QUERIES];
    int64_t h = tile % p->heads, b = tile / p->heads, hd = p->head_dim, ldy = p->heads * hd;
    int64_t kv = h / (p->heads / p->kv_heads), end = attention_seen(p, b, p->t - 1);
    int64_t begin = attention_min(attention_first(p, b, 0), end);
    const float *q = p->q + b * p->t * p->ldq + h * hd;
    float *y = p->y + b * p->t * ldy + h * hd;
    for (int64_t t = 0; t < p->t; t++) {
        m[t] = -INFINITY;
        l[t] = 0;
        if (begin == end) memset(y + t * ldy, 0, (size_t)hd * sizeof(float));
    }
    for (int64_t s0 = begin; s0 < end; s0 += FEW_KEYS) {
        int64_t ns = attention_min(end - s0, FEW_KEYS), at = b * p->s + s0;
        MF_SIMD(gemm_serial)
        (false, true, p->t, ns, hd, p->scale, q, p->ldq, p->k + at * p->ldk + kv * hd, p->ldk,
         0, score, ns);
        for (int64_t t = 0; t < p->t; t++) {
            int64_t n = attention_min(attention_seen(p, b, t) - s0, ns);
            take_row(p, attention_first(p, b, t) - s0, n < 0 ? 0 : n, ns,
                     p->mask != NULL ? p->mask + at : NULL, score + t * ns, m + t, l + t,
                     y + t * ldy);
        }
        MF_SIMD(gemm_serial)
        (false, false, p->t, hd, ns, 1, score, ns, p->v + at * p->ldv + kv * hd, p->ldv,
         s0 > begin, y, ldy);
    }
    for (int64_t t = 0; t < p->t; t++)
        finish(p, b * p->t + t, h, m[t], l[t], y + t * ldy);
}

attention_fn *MF_SIMD(attention_amx), *MF_SIMD(attention_amx_backward);

void MF_SIMD(attention)(const mf_kctx *x, const mf_attention_args *args)
{
    if (mf_kctx_failed(x)) return;
    if (args->bf16) { /* no graph on the host has bf16 here */
        mf_kernels_ref.attention(x, args);
        return;
    }
    attention_fn *bf16 = attention_of_bf16(args, false);
    if (bf16 != NULL) {
        bf16(x, args);
        return;
    }
    attention job = {args, (args->t + QUERIES - 1) / QUERIES};
    if (args->t <= FEW_QUERIES)
        x->parallel(args->batch * args->heads, few_tile, &job);
    else
        x->parallel(args->batch * args->heads * job.blocks,
                    args->head_dim <= SHORT ? many_short_tile : many_wide_tile, &job);
}
