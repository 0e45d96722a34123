/* attention.c: scaled dot-product attention, one query or one key at a time. Scores are
 * recomputed wherever they are needed, so no matrix of scores is stored. In the backward pass a
 * score can exceed lse by more than 1 only because of rounding (scores beyond 1e7). It counts
 * as lse then in all sets, so its weight is 1 and not infinite. */
#include <math.h>

#include "kernels/ref/ref.h"

static int64_t length(const mf_attention_args *p, int64_t b)
{
    return p->kv_len != NULL ? p->kv_len[b] : p->s;
}

static bool sees(const mf_attention_args *p, int64_t b, int64_t t, int64_t s)
{
    int64_t len = length(p, b);
    return s < len && (!p->causal || s <= len - p->t + t) &&
           (p->window == 0 || s > len - p->t + t - p->window) &&
           (p->since == NULL || s >= p->since[b * p->t + t]) &&
           (p->reach == NULL || s <= p->reach[b * p->t + t]) &&
           (p->mask == NULL || p->mask[b * p->s + s] != 0);
}

/* Returns element i of a matrix of the arguments, which is f32, or bf16 with p->bf16. */
static double element(const mf_attention_args *p, const float *from, int64_t i)
{
    return (double)ref_load(p->bf16 ? MF_CAST_BF16 : MF_CAST_F32, from, i);
}
static void put(const mf_attention_args *p, float *to, int64_t i, double value)
{
    ref_store(p->bf16 ? MF_CAST_BF16 : MF_CAST_F32, to, i, (float)value);
}

/* Returns the dot product of a head's elements of a from i on and of b from j on. */
static double dot(const mf_attention_args *p, const float *a, int64_t i, const float *b,
                  int64_t j)
{
    double sum = 0;
    for (int64_t c = 0; c < p->head_dim; c++)
        sum += element(p, a, i + c) * element(p, b, j + c);
    return sum;
}

/* Returns the position at which query number i begins, for query head h in sequence b. The next
 * function does so for keys and values. */
static int64_t q_at(const mf_attention_args *p, int64_t b, int64_t h, int64_t i)
{
    return (b * p->t + i) * p->ldq + h * p->head_dim;
}
static int64_t k_at(const mf_attention_args *p, int64_t b, int64_t h, int64_t i)
{
    return (b * p->s + i) * p->ldk + h / (p->heads / p->kv_heads) * p->head_dim;
}
static int64_t v_at(const mf_attention_args *p, int64_t b, int64_t h, int64_t i)
{
    return (b * p->s + i) * p->ldv + h / (p->heads / p->kv_heads) * p->head_dim;
}
static int64_t y_at(const mf_attention_args *p, int64_t b, int64_t h, int64_t i)
{
    return ((b * p->t + i) * p->heads + h) * p->head_dim;
}

static double score(const mf_attention_args *p, int64_t b, int64_t h, int64_t t, int64_t s)
{
    return (double)p->scale * dot(p, p->q, q_at(p, b, h, t), p->k, k_at(p, b, h, s));
}

static void forward_row(const mf_attention_args *p, int64_t b, int64_t h, int64_t t)
{
    double acc[MF_MAX_HEAD_DIM] = {0}, max = -INFINITY, sum = 0;
    bool any = false;
    for (int64_t s = 0; s < p->s; s++)
        if (sees(p, b, t, s)) {
            max = fmax(max, score(p, b, h, t, s));
            any = true;
        }
    for (int64_t s = 0; s < p->s; s++)
        if (sees(p, b, t, s)) {
            double w = exp(score(p, b, h, t, s) - max);
            const int64_t v = v_at(p, b, h, s);
            sum += w;
            for (int64_t j = 0; j < p->head_dim; j++)
                acc[j] += w * element(p, p->v, v + j);
        }
    for (int64_t j = 0; j < p->head_dim; j++)
        put(p, p->y, y_at(p, b, h, t) + j, any ? acc[j] / sum : 0);
    if (p->lse != NULL) p->lse[(b * p->t + t) * p->heads + h] = (float)(max + log(sum));
}

void mf_ref_attention(const mf_kctx *x, const mf_attention_args *p)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t t = 0; t < p->t; t++)
                forward_row(p, b, h, t);
}

/* Returns the weight of key s for query t. *dscore: the gradient of its score, w (dy . v - dy
 * . y + dlse). */
static double weight_of(const mf_attention_args *p, int64_t b, int64_t h, int64_t t, int64_t s,
                        double *dscore)
{
    const int64_t dy = y_at(p, b, h, t);
    const double above = score(p, b, h, t, s) - p->lse[(b * p->t + t) * p->heads + h];
    double w = exp(above > 1 ? 0 : above); /* kernels.def describes this limit */
    *dscore = w * (dot(p, p->dy, dy, p->v, v_at(p, b, h, s)) - dot(p, p->dy, dy, p->y, dy) +
                   (p->dlse != NULL ? (double)p->dlse[(b * p->t + t) * p->heads + h] : 0));
    return w;
}

static void backward_query(const mf_attention_args *p, int64_t b, int64_t h, int64_t t)
{
    double acc[MF_MAX_HEAD_DIM] = {0}, ds;
    for (int64_t s = 0; s < p->s; s++)
        if (sees(p, b, t, s)) {
            weight_of(p, b, h, t, s, &ds);
            for (int64_t j = 0; j < p->head_dim; j++)
                acc[j] += p->scale * ds * element(p, p->k, k_at(p, b, h, s) + j);
        }
    for (int64_t j = 0; j < p->head_dim; j++)
        put(p, p->dq, q_at(p, b, h, t) + j, acc[j]);
}

static void backward_key(const mf_attention_args *p, int64_t b, int64_t kv_head, int64_t s)
{
    double dk[MF_MAX_HEAD_DIM] = {0}, dv[MF_MAX_HEAD_DIM] = {0}, ds;
    int64_t share = p->heads / p->kv_heads;
    for (int64_t h = kv_head * share; h < (kv_head + 1) * share; h++)
        for (int64_t t = 0; t < p->t; t++)
            if (sees(p, b, t, s)) {
                double w = weight_of(p, b, h, t, s, &ds);
                for (int64_t j = 0; j < p->head_dim; j++) {
                    dk[j] += p->scale * ds * element(p, p->q, q_at(p, b, h, t) + j);
                    dv[j] += w * element(p, p->dy, y_at(p, b, h, t) + j);
                }
            }
    for (int64_t j = 0; j < p->head_dim; j++) {
        if (p->dk != NULL) put(p, p->dk, k_at(p, b, kv_head * share, s) + j, dk[j]);
        if (p->dv != NULL) put(p, p->dv, v_at(p, b, kv_head * share, s) + j, dv[j]);
    }
}

void mf_ref_attention_backward(const mf_kctx *x, const mf_attention_args *p)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->heads && p->dq != NULL; h++)
            for (int64_t t = 0; t < p->t; t++)
                backward_query(p, b, h, t);
        for (int64_t h = 0; h < p->kv_heads && (p->dk != NULL || p->dv != NULL); h++)
            for (int64_t s = 0; s < p->s; s++)
                backward_key(p, b, h, s);
    }
}
