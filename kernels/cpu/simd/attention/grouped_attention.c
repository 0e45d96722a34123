/* grouped_attention.c: attention of assignments grouped by expert. The assignments of one
 * sequence to one expert are in the order of their tokens. So they are one block of queries for
 * the attention kernels, and each of these small blocks is a tile. With `own` there is one
 * block per expert, and the attention kernel cuts it into tiles. */
#include "kernels/cpu/simd/simd.h"

#include <string.h>

typedef struct grouped {
    const mf_grouped_attention_args *p;
    mf_kctx serial;
    int64_t sequences, width; /* width: heads times head_dim */
    bool backward;
    const int32_t *begin; /* [experts sequences + 1]: first assignment of each block */
    const int32_t *reach; /* [rows] last key that each assignment attends to; NULL: all keys */
} grouped;

/* Finds where each block begins, and the last key that each assignment attends to. Returns
 * false and records the fault if tokens are out of range or not in order. */
static bool find_blocks(const mf_kctx *x, grouped *w)
{
    const mf_grouped_attention_args *p = w->p;
    int32_t *begin = p->work, *reach = begin + p->experts * p->batch + 1;
    const int64_t s = p->s, most = p->batch * s;
    int64_t block = 0;
    for (int64_t e = 0; e < p->experts; e++)
        for (int64_t r = p->offset[e]; r < p->offset[e + 1]; r++) {
            const int32_t token = p->token[r];
            if (token < 0 || token >= most || (r > p->offset[e] && token < p->token[r - 1])) {
                mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_ORDER,
                                           .index = r - p->offset[e],
                                           .value = token,
                                           .lo = e,
                                           .hi = most});
                return false;
            }
            for (const int64_t here = e * p->batch + token / s; block <= here; block++)
                begin[block] = (int32_t)r;
            reach[r] = (int32_t)(token % s);
        }
    for (; block <= p->experts * p->batch; block++)
        begin[block] = p->offset[p->experts];
    w->begin = begin;
    w->reach = p->causal ? reach : NULL;
    return true;
}

static void one_after_the_other(int64_t tiles, void (*fn)(void *arg, int64_t tile), void *arg)
{
    for (int64_t tile = 0; tile < tiles; tile++)
        fn(arg, tile);
}

/* Returns the arguments of plain attention for expert e and sequence b. */
static mf_attention_args block_of(const grouped *w, int64_t e, int64_t b)
{
    const mf_grouped_attention_args *p = w->p;
    const int64_t from = w->begin[e * w->sequences + b],
                  t = w->begin[e * w->sequences + b + 1] - from;
    const int64_t ld = 2 * w->width * (p->own ? 1 : p->experts);
    const int64_t key = p->own ? from * ld : b * p->s * ld + e * 2 * w->width;
    mf_attention_args a = {.as_bf16 = p->as_bf16,
                           .batch = 1,
                           .t = t,
                           .s = p->own ? t : p->s,
                           .heads = p->heads,
                           .kv_heads = p->heads,
                           .head_dim = p->head_dim,
                           .ldq = w->width,
                           .ldk = ld,
                           .ldv = ld,
                           .scale = p->scale,
                           .q = p->q + from * w->width,
                           .k = p->kv + key,
                           .v = p->kv + key + w->width,
                           .mask = p->mask ? p->mask + b * p->s : NULL,
                           .reach = w->reach ? w->reach + from : NULL,
                           .y = p->y + from * w->width,
                           .lse = p->lse + from * p->heads};
    if (!w->backward) return a;
    a.dy = p->dy + from * w->width;
    if (p->dq) a.dq = p->dq + from * w->width;
    if (p->dkv) {
        a.dk = p->dkv + key;
        a.dv = a.dk + w->width;
    }
    return a;
}

static void run_block(const grouped *w, const mf_kctx *x, int64_t e, int64_t b)
{
    const mf_attention_args a = block_of(w, e, b);
    if (w->backward)
        MF_SIMD(attention_backward)(x, &a); /* without queries this call sets dk and dv to 0 */
    else if (a.t > 0)
        MF_SIMD(attention)(x, &a);
}

static void tile(void *arg, int64_t i)
{
    const grouped *w = arg;
    run_block(w, &w->serial, i % w->p->experts, i / w->p->experts);
}

/* Sets the rows after the last group to 0, because they belong to no block. */
static void clear_rest(const mf_grouped_attention_args *p, float *a, int64_t width)
{
    const int64_t used = p->offset[p->experts];
    if (a) memset(a + used * width, 0, (size_t)((p->rows - used) * width) * sizeof *a);
}

static bool run(const mf_kctx *x, const mf_grouped_attention_args *p, bool backward)
{
    grouped w = {.p = p,
                 .serial = *x,
                 .sequences = p->own ? 1 : p->batch,
                 .width = p->heads * p->head_dim,
                 .backward = backward,
                 .begin = p->offset};
    if (mf_kctx_failed(x) || (!p->own && !find_blocks(x, &w))) return false;
    w.serial.parallel = one_after_the_other;
    w.serial.threads = 1;
    if (!p->own) x->parallel(p->experts * p->batch, tile, &w);
    for (int64_t e = 0; p->own && e < p->experts; e++)
        run_block(&w, x, e, 0);
    return true;
}

void MF_SIMD(grouped_attention)(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    if (!run(x, p, false)) return;
    clear_rest(p, p->y, p->heads * p->head_dim);
    clear_rest(p, p->lse, p->heads);
}

void MF_SIMD(grouped_attention_backward)(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    if (!run(x, p, true)) return;
    clear_rest(p, p->dq, p->heads * p->head_dim);
    if (p->own) clear_rest(p, p->dkv, 2 * p->heads * p->head_dim);
}
