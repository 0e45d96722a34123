/* attention_backward.c: the gradient of attention, by blocks (Dao 2023, algorithm 2). A tile is one
 * key head of one sequence with all its query heads, so that every gradient is summed by one
 * thread in one order.
 */
#include "kernels/cpu/simd/attention.h"

/* What is the same for all blocks of keys that one block of queries meets. */
typedef struct queries {
    int64_t b, h, t0, nt;
    const float *q, *dy;        /* rows of it */
    float *dq;
    _Alignas(64) float turned_q[MF_MAX_HEAD_DIM * QUERIES],
        turned_dy[MF_MAX_HEAD_DIM * QUERIES];
    float lse[QUERIES], delta[QUERIES];
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
    for (int64_t t = 0; t < QUERIES; t++) {
        bool real = t < c->nt;
        c->lse[t] = real ? p->lse[(row + t) * p->heads + h] : 0;
        c->delta[t] = real ? v_dot(hd, c->dy + t * ldy, p->y + (row + t) * ldy + h * hd) : 0;
    }
}

/* Scores to weights w = e^(score - lse), and dw = v dy^T to gradients of scores, scale w (dw -
 * delta), for the VL queries of one vector. */
V_INLINE void weight_columns(attention_view v, const float *mask, float scale, vf lse, vf delta,
                             float *w, float *dw)
{
    vf shift = attention_shift(lse);
    for (int64_t s = 0; s < v.some; s++) {
        int64_t at = s * QUERIES;
        vf a = v_load(w + at), e = {0}, d = {0};
        if (mask == NULL || mask[s] != 0) {
            e = v_exp((s < v.full ? a : attention_hide(v, s, a)) - shift);
            d = e * (v_load(dw + at) - delta) * scale;
        }
        v_store(w + at, e);
        v_store(dw + at, d);
    }
}

/* All that the block of queries adds to the gradients. */
static void backward_block(const mf_attention_args *p, const queries *c)
{
    _Alignas(64) float w[KEYS * QUERIES], dw[KEYS * QUERIES];
    int64_t hd = p->head_dim, ldy = p->heads * hd, kv = c->h / (p->heads / p->kv_heads);
    int64_t end = attention_seen(p, c->b, c->t0 + c->nt - 1);
    for (int64_t t = 0; t < c->nt && end == 0 && c->dq != NULL; t++)
        memset(c->dq + t * p->ldq, 0, (size_t)hd * sizeof(float));
    for (int64_t s0 = 0; s0 < end; s0 += KEYS) {
        int64_t ns = attention_min(end - s0, KEYS), at = c->b * p->s + s0;
        int64_t k = at * p->ldk + kv * hd, v = at * p->ldv + kv * hd;
        attention_views view = attention_look_all(p, c->b, c->t0, c->nt, s0, ns);
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
            attention_to_queries(&view, c->nt, hd, dw, p->k + k, p->ldk, s0 > 0, c->dq, p->ldq);
    }
}

static void backward_tile(void *arg, int64_t tile)
{
    const mf_attention_args *p = arg;
    int64_t b = tile / p->kv_heads, kv = tile % p->kv_heads, share = p->heads / p->kv_heads;
    size_t bytes = (size_t)p->head_dim * sizeof(float);
    queries block;
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

void MF_SIMD(attention_backward)(const mf_kctx *x, const mf_attention_args *args)
{
    mf_attention_args p = *args;
    x->parallel(p.batch * p.kv_heads, backward_tile, &p);
}
