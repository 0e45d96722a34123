/* grouped_attention.c: attention of assignments over the keys of their expert. Each block of
 * assignments with the same keys is one call of plain attention. */
#include "kernels/ref/ref.h"

/* Whether tokens satisfy mf_grouped_attention_args; records the first token that does not. */
static bool in_order(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    for (int64_t e = 0; e < p->experts && !p->own; e++)
        for (int64_t r = p->offset[e]; r < p->offset[e + 1]; r++) {
            const int32_t token = p->token[r];
            if (token >= 0 && token < p->batch * p->s &&
                (r == p->offset[e] || token >= p->token[r - 1]))
                continue;
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_ORDER,
                                       .index = r - p->offset[e],
                                       .value = token,
                                       .lo = e,
                                       .hi = p->batch * p->s});
            return false;
        }
    return true;
}

/* Returns the arguments of plain attention for the assignments from .. to - 1 of expert e in
 * sequence b; with `own` the sequence consists of all of the expert's assignments. */
static mf_attention_args block_of(const mf_grouped_attention_args *p, int64_t e, int64_t b,
                                  int64_t from, int64_t to, int32_t *reach)
{
    const int64_t width = p->heads * p->head_dim, ld = 2 * width * (p->own ? 1 : p->experts);
    const int64_t key = p->own ? from * ld : b * p->s * ld + e * 2 * width;
    mf_attention_args a = {.batch = 1,
                           .t = to - from,
                           .s = p->own ? to - from : p->s,
                           .heads = p->heads,
                           .kv_heads = p->heads,
                           .head_dim = p->head_dim,
                           .ldq = width,
                           .ldk = ld,
                           .ldv = ld,
                           .scale = p->scale,
                           .q = p->q + from * width,
                           .k = p->kv + key,
                           .v = p->kv + key + width,
                           .mask = p->mask ? p->mask + b * p->s : NULL,
                           .reach = !p->own && p->causal ? reach + from : NULL,
                           .y = p->y + from * width,
                           .lse = p->lse + from * p->heads,
                           .dy = p->dy ? p->dy + from * width : NULL,
                           .dq = p->dq ? p->dq + from * width : NULL,
                           .dk = p->dkv ? p->dkv + key : NULL,
                           .dv = p->dkv ? p->dkv + key + width : NULL};
    for (int64_t r = from; r < to && a.reach; r++)
        reach[r] = (int32_t)(p->token[r] % p->s);
    return a;
}

static void run(const mf_kctx *x, const mf_grouped_attention_args *p, bool backward)
{
    if (mf_kctx_failed(x) || !in_order(x, p)) return;
    for (int64_t e = 0; e < p->experts; e++)
        for (int64_t b = 0, r = p->offset[e]; b < (p->own ? 1 : p->batch); b++) {
            const int64_t from = r;
            while (r < p->offset[e + 1] && (p->own || p->token[r] / p->s == b))
                r++;
            const mf_attention_args a = block_of(p, e, b, from, r, p->work);
            if (backward)
                mf_ref_attention_backward(x, &a);
            else
                mf_ref_attention(x, &a);
        }
}

static void clear(const mf_grouped_attention_args *p, float *a, int64_t width)
{
    for (int64_t i = p->offset[p->experts] * width; a != NULL && i < p->rows * width; i++)
        a[i] = 0;
}

void mf_ref_grouped_attention(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    run(x, p, false);
    if (mf_kctx_failed(x)) return;
    clear(p, p->y, p->heads * p->head_dim);
    clear(p, p->lse, p->heads);
}

void mf_ref_grouped_attention_backward(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    run(x, p, true);
    if (mf_kctx_failed(x)) return;
    clear(p, p->dq, p->heads * p->head_dim);
    if (p->own) clear(p, p->dkv, 2 * p->heads * p->head_dim);
}
