/* attention.h: functions that attention and its gradient share.
 *
 * The scores of a block are stored as [keys, QUERIES]: a vector holds VL queries, so maxima and
 * sums need no work across lanes. Keys that a causal mask hides are skipped by vector: each
 * vector of queries has its own number of keys. Blocks are on the stack. Short heads use a
 * smaller stack frame, because each call accesses every page of its frame. */
#ifndef MF_SIMD_ATTENTION_H
#define MF_SIMD_ATTENTION_H

#include "kernels/cpu/simd/gemm/small.h"
#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#define QUERIES BLOCK_LINE /* queries per block, a multiple of VL */
#define KEYS    64
/* up to this number of queries, scores are [queries,keys] and k, v are read once */
#define FEW_QUERIES 8
#define VECTORS     (QUERIES / VL)
#define SHORT       64 /* largest size of a short head */

typedef void attention_fn(const mf_kctx *x, const mf_attention_args *args);

/* Attention and its gradient for args->as_bf16. The functions are defined only with
 * MF_HAVE_AVX512BF16, and may be called only on a processor with these instructions. */
attention_fn MF_SIMD(attention_by_pairs), MF_SIMD(attention_by_pairs_backward);
/* The same with matrix registers, only with MF_HAVE_AMX. */
attention_fn MF_SIMD(attention_by_amx), MF_SIMD(attention_by_amx_backward);
/* These two functions; NULL: AMX is not used. MF_SIMD(use_amx) of gemm/tile.h sets them, and
 * tests set an emulation. */
extern attention_fn *MF_SIMD(attention_amx), *MF_SIMD(attention_amx_backward);

/* Returns the function for a call with as_bf16; NULL: that of f32. */
static inline attention_fn *attention_of_bf16(const mf_attention_args *p, bool backward)
{
    if (!p->as_bf16 || p->t <= FEW_QUERIES) return NULL;
    if (MF_SIMD(attention_amx) != NULL)
        return backward ? MF_SIMD(attention_amx_backward) : MF_SIMD(attention_amx);
#if defined(MF_HAVE_AVX512BF16)
    if (MF_SIMD(pairs_pay)())
        return backward ? MF_SIMD(attention_by_pairs_backward) : MF_SIMD(attention_by_pairs);
#endif
    return NULL;
}

static inline int64_t attention_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t attention_length(const mf_attention_args *p, int64_t b)
{
    return p->kv_len != NULL ? p->kv_len[b] : p->s;
}

/* Returns the number of keys that query t of sequence b attends to, before the mask
 * is applied. */
static inline int64_t attention_seen(const mf_attention_args *p, int64_t b, int64_t t)
{
    int64_t len = attention_length(p, b), seen = p->causal ? len - p->t + t + 1 : len;
    if (p->reach != NULL) seen = attention_min(seen, (int64_t)p->reach[b * p->t + t] + 1);
    return seen < 0 ? 0 : attention_min(seen, len);
}

/* Returns the first key that query t of sequence b attends to: the first key of its window, or
 * since; else 0. */
static inline int64_t attention_first(const mf_attention_args *p, int64_t b, int64_t t)
{
    if (p->since != NULL) return p->since[b * p->t + t];
    int64_t first = attention_length(p, b) - p->t + t - p->window + 1;
    return p->window == 0 || first < 0 ? 0 : first;
}

/* Returns how many keys from s0 on no query from t0 on attends to: a multiple of `by`. */
static inline int64_t attention_skip(const mf_attention_args *p, int64_t b, int64_t t0,
                                     int64_t s0, int64_t by)
{
    const int64_t before = attention_first(p, b, t0) - s0;
    return before > 0 ? before / by * by : 0;
}

/* The keys among s0 .. s0+ns-1 that the queries t .. t+VL-1 attend to. All numbers are relative
 * to s0, and the mask is not considered. All queries attend to the first `full` keys; no query
 * attends to keys from `some` on. Between them lane i attends to key s if s < limit[i]. Lane i
 * attends to no key before first[i], and all lanes attend to the keys from `past` on; past is 0
 * without window and since. Lanes past the last query have its limits or larger limits; their
 * results are not read. */
typedef struct attention_view {
    int64_t full, some, past;
    vi first, limit;
} attention_view;

V_INLINE attention_view attention_look(const mf_attention_args *p, int64_t b, int64_t t,
                                       int64_t s0, int64_t ns)
{
    int64_t last = attention_min(t + VL - 1, p->t - 1);
    int64_t full = attention_seen(p, b, t) - s0, some = attention_seen(p, b, last) - s0;
    attention_view v = {full < 0 ? 0 : attention_min(full, ns),
                        some < 0 ? 0 : attention_min(some, ns), 0, V_LANES, V_LANES};
    if (p->since != NULL) {
        int32_t first[VL];
        for (int64_t i = 0; i < VL; i++)
            first[i] = (int32_t)(p->since[b * p->t + attention_min(t + i, p->t - 1)] - s0);
        v.past = attention_min(first[VL - 1], v.some);
        v.first = v_loadi(first);
    } else if (p->window > 0) {
        int64_t first = attention_length(p, b) - p->t + t - p->window + 1 - s0;
        v.past = attention_min(first + VL - 1, v.some);
        v.first = V_LANES + v_seti((int32_t)first);
    }
    if (p->reach == NULL) {
        /* This is computed from the position of the query, not from `full`, which is 0 if the
         * first lanes attend to nothing. */
        int64_t first = p->causal ? attention_length(p, b) - p->t + t + 1 : v.full + s0;
        v.limit = V_LANES + v_seti((int32_t)(first - s0));
        return v;
    }
    int32_t limit[VL];
    for (int64_t i = 0; i < VL; i++)
        limit[i] = (int32_t)(attention_seen(p, b, attention_min(t + i, p->t - 1)) - s0);
    v.limit = v_loadi(limit);
    return v;
}

/* The views of the query vectors of a block. */
typedef struct attention_views {
    int n; /* number of vectors that contain a query */
    attention_view of[VECTORS];
} attention_views;

static inline attention_views attention_look_all(const mf_attention_args *p, int64_t b,
                                                 int64_t t0, int64_t nt, int64_t s0, int64_t ns)
{
    attention_views v;
    v.n = (int)((nt + VL - 1) / VL);
    for (int i = 0; i < v.n; i++)
        v.of[i] = attention_look(p, b, t0 + i * VL, s0, ns);
    return v;
}

/* score [keys, QUERIES] = rows [keys,n] times turned [n, QUERIES], only where queries attend to
 * keys. Later queries attend to at least the keys of earlier queries. */
static inline void attention_scores(const attention_views *v, int64_t n, const float *rows,
                                    int64_t ld, const float *turned, float *score)
{
    int64_t from = 0;
    for (int i = 0; i < v->n; i++) {
        int64_t to = v->of[i].some;
        block_rows(to - from, (v->n - i) * VL, n, rows + from * ld, ld, turned + i * VL,
                   QUERIES, false, score + from * QUERIES + i * VL, QUERIES);
        from = to > from ? to : from;
    }
}

/* to [queries,n] = weights [keys, QUERIES] transposed times rows [keys,n]. If `add`, the result
 * is added to `to`. */
static inline void attention_to_queries(const attention_views *v, int64_t nt, int64_t n,
                                        const float *weights, const float *rows, int64_t ld,
                                        bool add, float *to, int64_t ld_to)
{
    for (int i = 0; i < v->n; i++)
        block_columns(attention_min(nt - i * VL, VL), n, v->of[i].some, weights + i * VL,
                      QUERIES, rows, ld, add, to + i * VL * ld_to, ld_to);
}

/* to [keys,n] += weights [keys, QUERIES] times rows [queries,n] */
static inline void attention_to_keys(const attention_views *v, int64_t nt, int64_t n,
                                     const float *weights, const float *rows, int64_t ld,
                                     float *to, int64_t ld_to)
{
    int64_t from = 0;
    for (int i = 0; i < v->n; i++) {
        int64_t end = v->of[i].some;
        block_lines(end - from, n, nt - i * VL, weights + from * QUERIES + i * VL,
                    rows + i * VL * ld, ld, true, to + from * ld_to, ld_to);
        from = end > from ? end : from;
    }
}

/* delta [QUERIES] = dy . y of each row. VL rows are computed at a time, so that their sums
 * across lanes are computed together. */
static inline void attention_row_dots(int64_t rows, int64_t n, const float *dy, const float *y,
                                      int64_t ld, float *delta)
{
    int64_t t = 0;
#if VL == 16
    for (; t + VL <= rows && n % VL == 0; t += VL) {
        vf s[VL];
        for (int i = 0; i < VL; i++) {
            const float *a = dy + (t + i) * ld, *b = y + (t + i) * ld;
            s[i] = v_load(a) * v_load(b);
            for (int64_t j = VL; j < n; j += VL)
                s[i] = v_fma(v_load(a + j), v_load(b + j), s[i]);
        }
        V_UNROLL
        for (int w = 1; w < VL; w *= 2) {
            V_UNROLL
            for (int i = 0; i < VL; i += 2 * w) {
                block_swap(w, &s[i], &s[i + w]);
                s[i] += s[i + w];
            }
        }
        v_store(delta + t, s[0]);
    }
#endif
    for (; t < rows; t++)
        delta[t] = v_dot(n, dy + t * ld, y + t * ld);
}

/* Sets lse and delta = dy . y - dlse for the queries t0 .. t0 + nt - 1 of head h. The values
 * of lanes past the last query are 0. */
static inline void attention_statistics(const mf_attention_args *p, int64_t b, int64_t h,
                                        int64_t t0, int64_t nt, float *lse, float *delta)
{
    const int64_t hd = p->head_dim, ldy = p->heads * hd, row = b * p->t + t0;
    attention_row_dots(nt, hd, p->dy + row * ldy + h * hd, p->y + row * ldy + h * hd, ldy,
                       delta);
    for (int64_t t = 0; t < QUERIES; t++) {
        lse[t] = t < nt ? p->lse[(row + t) * p->heads + h] : 0;
        if (t >= nt)
            delta[t] = 0;
        else if (p->dlse != NULL)
            delta[t] -= p->dlse[(row + t) * p->heads + h];
    }
}

/* Returns the largest of m and n scores per lane. It uses four chains, because a single chain
 * would wait for each of its results. */
V_INLINE vf attention_largest(int64_t n, const float *score, vf m)
{
    vf most[4] = {m, m, m, m};
    int64_t s = 0;
    for (; s + 4 <= n; s += 4) {
        V_UNROLL
        for (int i = 0; i < 4; i++)
            most[i] = v_max(most[i], v_load(score + (s + i) * QUERIES));
    }
    for (; s < n; s++)
        most[0] = v_max(most[0], v_load(score + s * QUERIES));
    return v_max(v_max(most[0], most[1]), v_max(most[2], most[3]));
}

/* Sets scores to -inf if a lane does not attend to the key, or if the mask hides it. The loop
 * over keys before the first one does nothing if all lanes attend to key 0. */
V_INLINE void attention_hide(attention_view v, const float *mask, float *score)
{
    for (int64_t s = v.full; s < v.some; s++) {
        float *at = score + s * QUERIES;
        v_store(at, v_select(v.limit > v_seti((int32_t)s), v_load(at), v_set(-INFINITY)));
    }
    for (int64_t s = 0; s < v.past; s++) {
        float *at = score + s * QUERIES;
        v_store(at, v_select(v.first > v_seti((int32_t)s), v_set(-INFINITY), v_load(at)));
    }
    for (int64_t s = 0; mask != NULL && s < v.some; s++)
        if (mask[s] == 0) v_store(score + s * QUERIES, v_set(-INFINITY));
}

/* Returns the number to subtract from scores: a, which is the largest score or ln sum e^score.
 * The number is 0 if a is -inf, because the query then attends to no key. */
V_INLINE vf attention_shift(vf a)
{
    return v_select(a == v_set(-INFINITY), (vf){0}, a);
}

#endif
