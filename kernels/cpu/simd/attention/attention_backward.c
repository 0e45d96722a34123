/* attention_backward.c: the gradient of attention, by blocks (Dao 2023, algorithm 2). A tile is
 * one key head of one sequence with all its query heads, so one thread sums each gradient, in a
 * fixed order. */
#include "kernels/cpu/simd/attention/attention.h"

/* Values of one block of queries that are the same for all blocks of keys. */
typedef struct queries {
    int64_t b, h, t0, nt;
    const float *q, *dy; /* rows of the block */
    float *dq;
    float *turned_q, *turned_dy;
    float lse[QUERIES], delta[QUERIES]; /* delta: dy . y - dlse */
} queries;

static void load_queries(const mf_attention_args *p, int64_t b, int64_t h, int64_t t0,
                         queries *c)
{
    int64_t hd = p->head_dim, ldy = p->heads * hd, row = b * p->t + t0;
    c->b = b;
    c->h = h;
    c->t0 = t0;
    c->nt = attention_min(p->t - t0, QUERIES);
    c->q = p->q + row * p->ldq + h * hd;
    c->dy = p->dy + row * ldy + h * hd;
    c->dq = p->dq != NULL ? p->dq + row * p->ldq + h * hd : NULL;
    block_turn(c->nt, hd, p->scale, c->q, p->ldq, c->turned_q, QUERIES);
    block_turn(c->nt, hd, 1, c->dy, ldy, c->turned_dy, QUERIES);
    attention_statistics(p, b, h, t0, c->nt, c->lse, c->delta);
}

/* For the VL queries of one vector: replaces scores by weights w = e^(score - lse), and
 * dw = v dy^T by gradients of scores, scale w (dw - delta). */
V_INLINE void weight_columns(attention_view v, const float *mask, float scale, vf lse, vf delta,
                             float *w, float *dw)
{
    vf shift = attention_shift(lse);
    attention_hide(v, mask, w);
    for (int64_t s = 0; mask != NULL && s < v.some; s++)
        if (mask[s] == 0) /* the gradient of a hidden key must be 0, even if v is NaN */
            v_store(dw + s * QUERIES, delta);
    for (int64_t s = 0; s < v.some; s++) {
        int64_t at = s * QUERIES;
        const vf above = v_load(w + at) - shift;
        /* kernels.def describes this limit, at attention. */
        vf e = v_exp_low(v_select(above > v_set(1), (vf){0}, above));
        v_store(w + at, e);
        v_store(dw + at, e * (v_load(dw + at) - delta) * scale);
    }
}

/* Computes dq of one block of queries, and adds the part of the block to dk and dv. */
static void backward_block(const mf_attention_args *p, const queries *c)
{
    _Alignas(64) float w[KEYS * QUERIES], dw[KEYS * QUERIES];
    int64_t hd = p->head_dim, ldy = p->heads * hd, kv = c->h / (p->heads / p->kv_heads);
    int64_t end = attention_seen(p, c->b, c->t0 + c->nt - 1);
    int64_t begin = attention_min(attention_first(p, c->b, c->t0) / KEYS * KEYS, end);
    for (int64_t t = 0; t < c->nt && begin == end && c->dq != NULL; t++)
        memset(c->dq + t * p->ldq, 0, (size_t)hd * sizeof(float));
    for (int64_t s0 = begin; s0 < end; s0 += KEYS) {
        int64_t from = s0 + attention_skip(p, c->b, c->t0, s0, 2), at = c->b * p->s + from;
        int64_t ns = attention_min(end, s0 + KEYS) - from;
        int64_t k = at * p->ldk + kv * hd, v = at * p->ldv + kv * hd;
        attention_views view = attention_look_all(p, c->b, c->t0, c->nt, from, ns);
        attention_scores(&view, hd, p->k + k, p->ldk, c->turned_q, w);
        attention_scores(&view, hd, p->v + v, p->ldv, c->turned_dy, dw);
        for (int i = 0; i < view.n; i++)
            weight_columns(view.of[i], p->mask != NULL ? p->mask + at : NULL, p->scale,
                           v_load(c->lse + i * VL), v_load(c->delta + i * VL), w + i * VL,
                           dw + i * VL);
        if (p->dv != NULL)
            attention_to_keys(&view, c->nt, hd, w, c->dy, ldy, p->dv + v, p->ldv);
        if (p->dk != NULL)
            attention_to_keys(&view, c->nt, hd, dw, c->q, p->ldq, p->dk + k, p->ldk);
        if (c->dq != NULL)
            attention_to_queries(&view, c->nt, hd, dw, p->k + k, p->ldk, s0 > begin, c->dq,
                                 p->ldq);
    }
}

V_INLINE void backward(const mf_attention_args *p, int64_t tile, float *turned_q,
                       float *turned_dy)
{
    int64_t b = tile / p->kv_heads, kv = tile % p->kv_heads, share = p->heads / p->kv_heads;
    size_t bytes = (size_t)p->head_dim * sizeof(float);
    queries block;
    block.turned_q = turned_q;
    block.turned_dy = turned_dy;
    for (int64_t s = b * p->s; s < (b + 1) * p->s; s++) {
        if (p->dk != NULL) memset(p->dk + s * p->ldk + kv * p->head_dim, 0, bytes);
        if (p->dv != NULL) memset(p->dv + s * p->ldv + kv * p->head_dim, 0, bytes);
    }
    for (int64_t h = kv * share; h < (kv + 1) * share; h++)
        for (int64_t t0 = 0; t0 < p->t; t0 += QUERIES) {
            load_queries(p, b, h, t0, &block);
            backward_block(p, &block);
        }
}

static void short_tile(void *arg, int64_t tile)
{
    _Alignas(64) float turned_q[SHORT * QUERIES], turned_dy[SHORT * QUERIES];
    backward(arg, tile, turned_q, turned_dy);
}

static void wide_tile(void *arg, int64_t tile)
{
    _Alignas(64) float turned_q[MF_MAX_HEAD_DIM * QUERIES],
        turned_dy[MF_MAX_HEAD_DIM * QUERIES];
    backward(arg, tile, turned_q, turned_dy);
}

void MF_SIMD(attention_backward)(const mf_kctx *x, const mf_attention_args *args)
{
    if (mf_kctx_failed(x)) return;
    if (args->bf16) { /* no graph on the host has bf16 here */
        mf_kernels_ref.attention_backward(x, args);
        return;
    }
    attention_fn *bf16 = attention_of_bf16(args, true);
    if (bf16 != NULL) {
        bf16(x, args);
        return;
    }
    mf_attention_args p = *args;
    x->parallel(p.batch * p.kv_heads, p.head_dim <= SHORT ? short_tile : wide_tile, &p);
}
