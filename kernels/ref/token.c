/* token.c: what a token of each sequence needs beside its gemms, and gemms of few rows with
 * what is around them. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* Returns element c of head h of row b of qkv, rotated if it is a query or a key. */
static float rotated(const mf_token_attention_args *p, int64_t b, int64_t h, int64_t c)
{
    const int64_t pairs = p->turned / 2, all = p->heads + 2 * p->kv_heads, at = c - p->first;
    const float *head = p->qkv + (b * all + h) * p->head_dim;
    if (h >= p->heads + p->kv_heads || at < 0 || at >= p->turned) return head[c];
    const int64_t i = p->half ? at % pairs : at / 2;
    const bool high = p->half ? at >= pairs : at % 2 != 0;
    const double angle = p->position[b] * pow(p->theta, -2.0 * (double)i / (double)p->turned) *
                         (p->factor ? (double)p->factor[i] : 1);
    const double cosine = p->magnitude * cos(angle), sine = p->magnitude * sin(angle);
    const double u = head[p->first + (p->half ? i : 2 * i)],
                 v = head[p->first + (p->half ? i + pairs : 2 * i + 1)];
    return (float)(high ? u * sine + v * cosine : u * cosine - v * sine);
}

static double score(const mf_token_attention_args *p, int64_t b, int64_t h, int64_t s)
{
    const int64_t kv = h / (p->heads / p->kv_heads);
    const float *key = p->k + ((b * p->s + s) * p->kv_heads + kv) * p->head_dim;
    double sum = 0;
    for (int64_t c = 0; c < p->head_dim; c++)
        sum += (double)rotated(p, b, h, c) * key[c];
    return p->scale * sum;
}

static void attend(const mf_token_attention_args *p, int64_t b, int64_t h)
{
    const int64_t kv = h / (p->heads / p->kv_heads), length = p->kv_len[b];
    const int64_t first = p->window > 0 && length > p->window ? length - p->window : 0;
    double acc[MF_MAX_HEAD_DIM] = {0}, most = -INFINITY, sum = 0;
    for (int64_t s = first; s < length; s++)
        most = fmax(most, score(p, b, h, s));
    for (int64_t s = first; s < length; s++) {
        const double w = exp(score(p, b, h, s) - most);
        const float *value = p->v + ((b * p->s + s) * p->kv_heads + kv) * p->head_dim;
        sum += w;
        for (int64_t c = 0; c < p->head_dim; c++)
            acc[c] += w * value[c];
    }
    for (int64_t c = 0; c < p->head_dim; c++)
        p->y[(b * p->heads + h) * p->head_dim + c] = length > first ? (float)(acc[c] / sum) : 0;
}

void mf_ref_token_attention(const mf_kctx *x, const mf_token_attention_args *p)
{
    for (int64_t b = 0; b < p->batch; b++)
        if (p->pos[b] < 0 || p->pos[b] >= p->s)
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_CACHE,
                                       .index = b,
                                       .value = p->pos[b],
                                       .lo = 1,
                                       .hi = p->s});
    if (mf_kctx_failed(x)) return;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->kv_heads * p->head_dim; i++) {
            const int64_t at = (b * p->s + p->pos[b]) * p->kv_heads * p->head_dim + i;
            const int64_t h = p->heads + i / p->head_dim, c = i % p->head_dim;
            p->k[at] = rotated(p, b, h, c);
            p->v[at] = rotated(p, b, h + p->kv_heads, c);
        }
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            attend(p, b, h);
}

void mf_ref_token_route(const mf_kctx *x, const mf_token_route_args *a)
{
    const int64_t rows = a->tokens * a->k;
    float logits[MF_FEW_ROUTED];
    if (mf_kctx_failed(x)) return;
    const mf_gemm g = {.m = a->tokens,
                       .n = a->experts,
                       .k = a->d,
                       .a = {.data = a->x, .ld = a->d},
                       .b = {.data = a->w, .ld = a->d, .trans = true},
                       .c = {.data = logits, .ld = a->experts},
                       .alpha = 1,
                       .bias = a->bias,
                       .norms = true,
                       .eps_outside = a->eps_outside,
                       .norm = a->norm,
                       .eps = (float)a->eps,
                       .norm_w = a->norm_w,
                       .norm_b = a->norm_b};
    mf_ref_gemm(x, &g);
    for (int64_t i = 0; a->divisor && i < a->tokens * a->experts; i++)
        logits[i] /= a->divisor[0];
    MF_RUN(&mf_kernels_ref, x, row_map, .fn = MF_ROW_SOFTMAX, .rows = a->tokens,
           .n = a->experts, .in = logits, .out = a->prob);
    MF_RUN(&mf_kernels_ref, x, topk, .n = a->tokens, .width = a->experts, .k = a->k,
           .in = a->prob, .out = a->chosen);
    MF_RUN(&mf_kernels_ref, x, route_gates, .tokens = a->tokens, .experts = a->experts,
           .k = a->k, .prob = a->prob, .chosen = a->chosen, .renormalize = a->renormalize,
           .scale = a->scale, .gate = a->gate);
    MF_RUN(&mf_kernels_ref, x, index_lists, .m = rows, .n = a->experts, .index = a->chosen,
           .offset = a->offset, .list = a->order);
    MF_RUN(&mf_kernels_ref, x, group_rows, .rows = rows, .k = a->k, .experts = a->experts,
           .offset = a->offset, .order = a->order, .token = a->token, .place = a->place);
    for (int64_t p = 0; p < rows; p++)
        a->row_gate[p] = a->order[p] < 0 ? 0 : a->gate[a->order[p]];
}

/* A gemm whose operand a is normed first. It reads few rows, by a list or all of them. */
void mf_ref_gemm_normed(const mf_kctx *x, const mf_gemm *g)
{
    mf_bf16 normed[MF_FEW_NORMED];
    float wide[MF_FEW_NORMED];
    int64_t rows = g->a.row ? 0 : g->m;
    for (int64_t i = 0; g->a.row && i < g->m; i++)
        if (g->a.row[i] >= rows) rows = g->a.row[i] + 1;
    MF_RUN(&mf_kernels_ref, x, norm, .kind = g->norm, .rows = rows, .n = g->k, .eps = g->eps,
           .eps_outside = g->eps_outside, .type = MF_CAST_BF16, .a = g->a.data, .w = g->norm_w,
           .b = g->norm_b, .y = normed);
    mf_gemm plain = *g;
    const bool bf16 = g->b.type == MF_CAST_BF16; /* else the router of mf_ref_token_route */
    for (int64_t i = 0; !bf16 && i < rows * g->k; i++)
        wide[i] = mf_bf16_to_f32(normed[i]);
    plain.norms = false;
    plain.a.type = g->b.type;
    plain.a.data = bf16 ? (void *)normed : (void *)wide;
    mf_ref_gemm(x, &plain);
}

/* A gemm with the epilogue SUM. */
void mf_ref_gemm_summed(const mf_gemm *g)
{
    for (int64_t t = 0; t < g->m / g->per; t++)
        for (int64_t j = 0; j < g->n; j++) {
            double all = g->from ? g->from[t * g->c.ld + j] : 0;
            for (int64_t q = 0; q < g->per; q++) {
                const int64_t p = g->place[t * g->per + q];
                int64_t e = 0;
                double sum = 0;
                while (p >= 0 && e < g->groups && g->offset[e + 1] <= p)
                    e++;
                if (p < 0 || p < g->offset[0] || e == g->groups) continue;
                for (int64_t i = 0; i < g->k; i++)
                    sum += (double)ref_load((int)g->a.type, g->a.data, p * g->a.ld + i) *
                           ref_load((int)g->b.type, g->b.data, e * g->b.step + j * g->b.ld + i);
                all += (double)g->alpha * sum + (g->bias ? g->bias[e * g->step_bias + j] : 0);
            }
            ((float *)g->c.data)[t * g->c.ld + j] = (float)all;
        }
}
