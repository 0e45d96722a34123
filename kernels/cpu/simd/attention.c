/* attention.c: attention by blocks of queries and keys; scores live on the stack, one block.
 *
 * Forward: a tile is a block of queries of one head. It walks over blocks of keys and keeps, for
 * each query, the largest score m so far, the sum l of e^(score - m), and y in units of e^m / l
 * (Milakov, Gimelshein 2018; Dao 2023, algorithm 1). Backward: a tile is one key head of one
 * sequence with all its query heads, so that every gradient is summed by one thread in one order.
 */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#define QUERIES       64  /* a block */
#define KEYS          256 /* a block, forward */
#define KEYS_BACKWARD 128

typedef struct attention {
    const mf_attention_args *args;
    int64_t blocks; /* of queries */
} attention;

/* Which keys query t of sequence b may see, before the mask: the first `seen`. */
static int64_t seen(const mf_attention_args *p, int64_t b, int64_t t)
{
    int64_t len = p->kv_len != NULL ? p->kv_len[b] : p->s;
    int64_t last = p->causal ? len - p->t + t + 1 : len;
    return last < 0 ? 0 : last < len ? last : len;
}

static int64_t count_in(int64_t seen_keys, int64_t from, int64_t keys)
{
    int64_t n = seen_keys - from;
    return n < 0 ? 0 : n < keys ? n : keys;
}

/* Puts -inf where mask is 0; false when no key is left. */
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

/* a = e^(a - shift) for the first n, zero up to width; returns their sum. */
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

V_INLINE void scale_row(int64_t n, float f, float *a)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(a + i, v_load(a + i) * f);
    for (; i < n; i++)
        a[i] *= f;
}

/* One row of a block of scores: weights in place of scores, m, l and y brought up to date. */
static void take_block(const mf_attention_args *p, int64_t n, int64_t width, const float *mask,
                       float *score, float *m, float *l, float *y)
{
    if (n == 0 || (mask != NULL && !apply_mask(n, mask, score))) {
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

static void forward_tile(void *arg, int64_t tile)
{
    const attention *job = arg;
    const mf_attention_args *p = job->args;
    _Alignas(64) float score[QUERIES * KEYS];
    float m[QUERIES], l[QUERIES];
    int64_t block = tile % job->blocks, h = tile / job->blocks % p->heads;
    int64_t b = tile / job->blocks / p->heads, hd = p->head_dim, ldy = p->heads * hd;
    int64_t t0 = block * QUERIES, nt = p->t - t0 < QUERIES ? p->t - t0 : QUERIES;
    int64_t kv = h / (p->heads / p->kv_heads), end = seen(p, b, t0 + nt - 1);
    const float *q = p->q + (b * p->t + t0) * p->ldq + h * hd;
    float *y = p->y + (b * p->t + t0) * ldy + h * hd;
    for (int64_t t = 0; t < nt; t++) {
        m[t] = -INFINITY;
        l[t] = 0;
        if (end == 0) memset(y + t * ldy, 0, (size_t)hd * sizeof(float));
    }
    for (int64_t s0 = 0; s0 < end; s0 += KEYS) {
        int64_t ns = end - s0 < KEYS ? end - s0 : KEYS, row = b * p->s + s0;
        MF_SIMD(gemm)
        (false, true, nt, ns, hd, p->scale, q, p->ldq, p->k + row * p->ldk + kv * hd, p->ldk, 0,
         score, ns);
        for (int64_t t = 0; t < nt; t++)
            take_block(p, count_in(seen(p, b, t0 + t), s0, ns), ns,
                       p->mask != NULL ? p->mask + row : NULL, score + t * ns, m + t, l + t,
                       y + t * ldy);
        MF_SIMD(gemm)
        (false, false, nt, hd, ns, 1, score, ns, p->v + row * p->ldv + kv * hd, p->ldv, s0 > 0,
         y, ldy);
    }
    for (int64_t t = 0; t < nt; t++) {
        if (l[t] != 0) scale_row(hd, 1 / l[t], y + t * ldy);
        if (p->lse != NULL)
            p->lse[(b * p->t + t0 + t) * p->heads + h] =
                l[t] != 0 ? m[t] + logf(l[t]) : -INFINITY;
    }
}

void MF_SIMD(attention)(const mf_kctx *x, const mf_attention_args *args)
{
    attention job = {args, (args->t + QUERIES - 1) / QUERIES};
    mf_blas_one_thread();
    x->parallel(args->batch * args->heads * job.blocks, forward_tile, &job);
}

/* ---- gradient ---- */

/* Scores to weights w, and dw = dy v^T to gradients of scores, scale w (dw - delta). */
static void weight_row(int64_t n, int64_t width, const float *mask, float lse, float delta,
                       float scale, float *w, float *dw)
{
    if (n == 0 || (mask != NULL && !apply_mask(n, mask, w))) n = 0;
    exp_row(n, width, lse, w);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(dw + i, v_load(w + i) * (v_load(dw + i) - delta) * scale);
    for (; i < n; i++)
        dw[i] = w[i] * (dw[i] - delta) * scale;
    memset(dw + n, 0, (size_t)(width - n) * sizeof(float));
}

/* All that block t0 of query head h of sequence b adds to the gradients. */
static void backward_block(const mf_attention_args *p, int64_t b, int64_t h, int64_t t0)
{
    _Alignas(64) float w[QUERIES * KEYS_BACKWARD], dw[QUERIES * KEYS_BACKWARD];
    float delta[QUERIES];
    int64_t nt = p->t - t0 < QUERIES ? p->t - t0 : QUERIES, hd = p->head_dim,
            ldy = p->heads * hd;
    int64_t kv = h / (p->heads / p->kv_heads), end = seen(p, b, t0 + nt - 1),
            row = b * p->t + t0;
    const float *q = p->q + row * p->ldq + h * hd, *dy = p->dy + row * ldy + h * hd;
    float *dq = p->dq != NULL ? p->dq + row * p->ldq + h * hd : NULL;
    for (int64_t t = 0; t < nt; t++) {
        delta[t] = v_dot(hd, dy + t * ldy, p->y + (row + t) * ldy + h * hd);
        if (end == 0 && dq != NULL) memset(dq + t * p->ldq, 0, (size_t)hd * sizeof(float));
    }
    for (int64_t s0 = 0; s0 < end; s0 += KEYS_BACKWARD) {
        int64_t ns = end - s0 < KEYS_BACKWARD ? end - s0 : KEYS_BACKWARD, at = b * p->s + s0;
        int64_t k = at * p->ldk + kv * hd, v = at * p->ldv + kv * hd;
        MF_SIMD(gemm)(false, true, nt, ns, hd, p->scale, q, p->ldq, p->k + k, p->ldk, 0, w, ns);
        MF_SIMD(gemm)(false, true, nt, ns, hd, 1, dy, ldy, p->v + v, p->ldv, 0, dw, ns);
        for (int64_t t = 0; t < nt; t++)
            weight_row(count_in(seen(p, b, t0 + t), s0, ns), ns,
                       p->mask != NULL ? p->mask + at : NULL, p->lse[(row + t) * p->heads + h],
                       delta[t], p->scale, w + t * ns, dw + t * ns);
        if (p->dv != NULL)
            MF_SIMD(gemm)(true, false, ns, hd, nt, 1, w, ns, dy, ldy, 1, p->dv + v, p->ldv);
        if (p->dk != NULL)
            MF_SIMD(gemm)(true, false, ns, hd, nt, 1, dw, ns, q, p->ldq, 1, p->dk + k, p->ldk);
        if (dq != NULL) MF_SIMD(gemm)
        (false, false, nt, hd, ns, 1, dw, ns, p->k + k, p->ldk, s0 > 0, dq, p->ldq);
    }
}

static void backward_tile(void *arg, int64_t tile)
{
    const mf_attention_args *p = ((const attention *)arg)->args;
    int64_t b = tile / p->kv_heads, kv = tile % p->kv_heads, share = p->heads / p->kv_heads;
    size_t bytes = (size_t)p->head_dim * sizeof(float);
    for (int64_t s = b * p->s; s < (b + 1) * p->s; s++) {
        if (p->dk != NULL) memset(p->dk + s * p->ldk + kv * p->head_dim, 0, bytes);
        if (p->dv != NULL) memset(p->dv + s * p->ldv + kv * p->head_dim, 0, bytes);
    }
    for (int64_t h = kv * share; h < (kv + 1) * share; h++)
        for (int64_t t0 = 0; t0 < p->t; t0 += QUERIES)
            backward_block(p, b, h, t0);
}

void MF_SIMD(attention_backward)(const mf_kctx *x, const mf_attention_args *args)
{
    attention job = {args, 0};
    mf_blas_one_thread();
    x->parallel(args->batch * args->kv_heads, backward_tile, &job);
}
