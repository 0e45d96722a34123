/* model/soft.c: soft routing as two batched gemms around the experts. Slots are ordered by
 * sequence for the gemms and by expert for the experts, so the slots are transposed
 * between them. */
#include "model/soft.h"
#include "ops/moe/dispatch.h"
#include "ops/ops.h"

static mf_tensor *whole_number(mf_graph *g, int32_t n)
{
    return mf_graph_const(g, MF_I32, mf_shape1(1), &n);
}

/* Returns dispatch or combine in the order of sequences: [B,n,S]. */
static mf_tensor *by_sequence(mf_graph *g, const mf_routing *r, mf_tensor *weights)
{
    return mf_reshape(g, weights, mf_shape3(r->batch, r->seq, (int64_t)r->experts * r->slots));
}

mf_tensor *mf_soft_choose(mf_graph *g, mf_routing *r)
{
    const int64_t T = r->tokens, E = r->experts;
    if (!r->prob)
        r->prob = mf_sum(g, mf_reshape(g, r->combine, mf_shape3(T, E, r->slots)), 4u, false);
    r->top_k = r->experts;
    r->rows = (int32_t)(T * E);
    mf_tensor *all = mf_broadcast(g, mf_arange(g, E), mf_shape2(T, E));
    all = mf_reshape(g, all, mf_shape1(T * E));
    r->chosen = r->mask ? mf_mask_rows(g, all, r->mask, NULL, r->experts) : all;
    return mf_reshape(g, r->prob, mf_shape1(T * E));
}

void mf_soft_fill(mf_graph *g, const mf_routing *r, mf_tensor *x, mf_expert_in *ein)
{
    const bool bf16 = mf_graph_set_bf16(g, false);
    const int64_t B = r->batch, n = r->seq, E = r->experts, p = r->slots, R = E * B * p;
    const int64_t d = x ? x->shape.dim[1] : 0;
    mf_tensor *tokens = mf_reshape(g, mf_graph_to_f32(g, x), mf_shape3(B, n, d));
    mf_tensor *slots = mf_matmul(g, by_sequence(g, r, r->dispatch), true, tokens, false, 1);
    slots = mf_transpose(g, mf_reshape(g, slots, mf_shape4(B, E, p, d)), 1, 0, 2, 3);
    ein->x = mf_reshape(g, slots, mf_shape2(R, d));
    ein->offset = mf_mul(g, mf_arange(g, E + 1), whole_number(g, (int32_t)(B * p)));
    /* [B] index of each sequence's first token */
    mf_tensor *first = mf_mul(g, mf_arange(g, B), whole_number(g, r->seq));
    first = mf_broadcast(g, mf_reshape(g, first, mf_shape3(1, B, 1)), mf_shape3(E, B, p));
    ein->token = mf_reshape(g, first, mf_shape1(R));
    mf_graph_set_bf16(g, bf16);
}

mf_tensor *mf_soft_combine(mf_graph *g, const mf_routing *r, mf_tensor *y)
{
    const bool bf16 = mf_graph_set_bf16(g, false);
    const int64_t B = r->batch, E = r->experts, p = r->slots;
    const int64_t d = y ? y->shape.dim[1] : 0;
    mf_tensor *slots = mf_reshape(g, mf_graph_to_f32(g, y), mf_shape4(E, B, p, d));
    slots = mf_reshape(g, mf_transpose(g, slots, 1, 0, 2, 3), mf_shape3(B, E * p, d));
    mf_tensor *all = mf_matmul(g, by_sequence(g, r, r->combine), false, slots, false, 1);
    mf_graph_set_bf16(g, bf16);
    return mf_reshape(g, all, mf_shape2(r->tokens, d));
}
