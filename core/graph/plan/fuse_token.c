/* graph/plan/fuse_token.c: on a device, a step that generates a token of each sequence takes as
 * long as its launches, so nodes of few rows become parts of others: norms and casts of the
 * gemms that read them, rope and caches of attention, the choice of experts of one node, and
 * the sum over experts of their last gemm. Six launches a block are left.
 *
 * Such a node has arguments behind those of its op, or in their place. Values that other nodes
 * read, too, are still computed. Sums are rounded less often and added in another order. */
#include "graph/internal.h"

typedef struct fusion {
    mf_graph *g;
    mf_readers readers;
    const mf_opdef *linear, *rms, *layer, *rope, *slice, *append, *attention, *softmax, *div,
        *select, *gates, *group, *dispatch, *grouped, *swiglu, *back;
} fusion;

static mf_node *source(const fusion *f, const mf_tensor *t, const mf_opdef *op)
{
    const mf_tensor *owner = t ? mf_owner(t) : NULL;
    mf_node *node = owner && owner->node >= 0 ? f->g->nodes[owner->node] : NULL;
    return node && !node->backward && !node->metric && node->op == op ? node : NULL;
}

/* Returns the norm of rows of f32 that computes t in bf16; NULL: there is none. */
static mf_node *norm_of(const fusion *f, const mf_tensor *t)
{
    mf_node *norm = source(f, t, f->rms);
    if (!norm) norm = source(f, t, f->layer);
    if (!norm || norm->out[0]->dtype != MF_BF16 || norm->in[0]->shape.rank != 2) return NULL;
    return mf_shape_equal(t->shape, norm->out[0]->shape) ? norm : NULL;
}

/* Input 0 of a node becomes that of a norm, whose weights are inputs `at` and at + 1. */
static void put_norm(fusion *f, mf_node *node, int at, const mf_node *norm)
{
    node->in[0] = norm->in[0];
    node->n_in = at;
    mf_node_append(node, &f->readers, norm->in[1]);
    mf_node_append(node, &f->readers, norm->n_in > 2 ? norm->in[2] : NULL);
    f->readers.fixed[mf_owner(norm->in[0])->id] = true;
    node->attr.i[MF_NORM_KIND] = 1 + (norm->op == f->layer ? MF_NORM_FN_LAYER : MF_NORM_FN_RMS);
    node->attr.i[MF_NORM_OUTSIDE] = norm->op == f->rms && norm->attr.i[0] != 0;
    node->attr.f[MF_NORM_EPS] = norm->attr.f[0];
}

/* Whether a gemm of few rows multiplies rows [rows,k] by w, and may read them in f32. */
static bool fits(const mf_tensor *w, int64_t rows, int64_t k, int64_t in_f32)
{
    return rows <= MF_FEW && k % 8 == 0 && in_f32 * k <= MF_FEW_NORMED && w->dtype == MF_BF16 &&
           !mf_tensor_is_stored(w) && mf_is_whole(w) && !(w->param && w->param->packed);
}

/* A gemm reads what a norm or a cast reads. */
static void fuse_linear(fusion *f, mf_node *node)
{
    const mf_tensor *x = node->in[0];
    const mf_opdef *cast = f->g->ops->of_role(MF_ROLE_CAST);
    if (x->shape.rank != 2 || x->dtype != MF_BF16 ||
        !fits(node->in[1], x->shape.dim[0], x->shape.dim[1], x->shape.dim[0]))
        return;
    const mf_node *norm = norm_of(f, x), *from = source(f, x, cast);
    if (node->n_in == 3) node->in[node->n_in++] = NULL; /* no residual */
    if (norm) {
        put_norm(f, node, 4, norm);
    } else if (from && from->in[0]->dtype == MF_F32 && !mf_tensor_is_stored(from->in[0]) &&
               mf_shape_equal(from->in[0]->shape, x->shape)) {
        node->in[0] = from->in[0];
        f->readers.fixed[mf_owner(from->in[0])->id] = true;
    }
}

/* ---- attention ---- */

/* Returns the slice of `count` columns from `start` on that computes t, if it has all rows of
 * `of` (NULL: of any value). */
static const mf_node *slice_of(const fusion *f, const mf_tensor *t, const mf_tensor *of,
                               int64_t start, int64_t count)
{
    const mf_node *slice = source(f, t, f->slice);
    if (!slice || slice->attr.i[0] != 1 || slice->attr.i[1] != start ||
        t->shape.dim[1] != count || (of && mf_owner(slice->in[0]) != of))
        return NULL;
    return slice;
}

/* Returns the node that appends to a cache that only node `at` reads. */
static mf_node *append_of(const fusion *f, const mf_tensor *cache, int at)
{
    mf_node *node;
    mf_node *append = cache ? source(f, cache, f->append) : NULL;
    if (!append && cache) { /* the op's output is another handle of the cache */
        append = cache->node >= 0 ? f->g->nodes[cache->node] : NULL;
        if (append && (append->op != f->append || append->metric)) append = NULL;
    }
    for (int i = -1; append && (node = mf_reader(f->g, &f->readers, cache, &i));)
        if (node != append && node != f->g->nodes[at]) return NULL;
    return append;
}

static void fuse_attention(fusion *f, int at)
{
    enum { Q, K, V, MASK, KV_LEN, FIRST, BATCH = 0, HEADS, KV_HEADS, SINCE = 5 };
    mf_node *node = f->g->nodes[at];
    const int64_t batch = node->attr.i[BATCH], heads = node->attr.i[HEADS],
                  kv = node->attr.i[KV_HEADS];
    mf_node *k = append_of(f, node->in[K], at), *v = append_of(f, node->in[V], at);
    int none = -1;
    if (!k || !v || node->in[MASK] || !node->in[KV_LEN] || node->attr.i[SINCE] ||
        batch > MF_FEW || node->in[Q]->dtype != MF_F32 || node->in[Q]->shape.dim[0] != batch ||
        k->in[2] != v->in[2] || mf_reader(f->g, &f->readers, node->out[1], &none) ||
        f->readers.fixed[mf_owner(node->out[1])->id])
        return;
    const int64_t hd = node->in[Q]->shape.dim[1] / heads;
    const mf_node *q = slice_of(f, node->in[Q], NULL, 0, heads * hd);
    const mf_tensor *all = q ? mf_owner(q->in[0]) : NULL;
    if (!q || hd > MF_MAX_HEAD_DIM || all->shape.rank != 2 ||
        all->shape.dim[1] != (heads + 2 * kv) * hd ||
        !slice_of(f, k->in[1], all, heads * hd, kv * hd) ||
        !slice_of(f, v->in[1], all, (heads + kv) * hd, kv * hd))
        return;
    const mf_node *rope = source(f, all, f->rope);
    if (rope && (rope->attr.i[0] != hd || rope->attr.i[1] != heads + kv || rope->attr.i[3] ||
                 mf_owner(rope->in[0])->dtype != MF_F32))
        return;
    node->in[Q] = rope ? rope->in[0] : q->in[0];
    node->in[K] = k->in[0];
    node->in[V] = v->in[0];
    node->in[FIRST] = NULL;
    node->n_in = FIRST + 1;
    mf_node_append(node, &f->readers, rope ? rope->in[1] : NULL);
    mf_node_append(node, &f->readers, rope && rope->n_in > 2 ? rope->in[2] : NULL);
    mf_node_append(node, &f->readers, k->in[2]);
    f->readers.fixed[mf_owner(node->in[Q])->id] = true;
    k->dead = k->fused = v->dead = v->fused = true;
    node->attr.i[MF_TOKEN_TURNED] = 0;
    if (!rope) return;
    const int64_t turned = rope->attr.i[5] > 0 ? rope->attr.i[5] : hd - rope->attr.i[4];
    node->attr.i[MF_TOKEN_FIRST] = rope->attr.i[4];
    node->attr.i[MF_TOKEN_TURNED] = 2 * turned + (rope->attr.i[2] != 0);
    node->attr.f[MF_TOKEN_THETA] = rope->attr.f[0];
    node->attr.f[MF_TOKEN_MAGNITUDE] = rope->attr.f[1] > 0 ? rope->attr.f[1] : 1;
}

/* ---- experts ---- */

/* Whether nodes before `at` read t, except two. */
static bool read_before(const fusion *f, const mf_tensor *t, int at, const mf_node *a,
                        const mf_node *b)
{
    const mf_node *node;
    for (int i = -1; (node = mf_reader(f->g, &f->readers, t, &i));)
        if (node != a && node != b && f->readers.node[i] < at) return true;
    return false;
}

/* Returns a node with this op that reads t as input 0 (or `i`), without input `absent`. */
static mf_node *reader_of(const fusion *f, const mf_tensor *t, const mf_opdef *op, int i,
                          int absent)
{
    mf_node *node;
    for (int at = -1; (node = mf_reader(f->g, &f->readers, t, &at));)
        if (node->op == op && !node->backward && !node->metric &&
            mf_owner(node->in[i]) == mf_owner(t) && !node->in[absent])
            return node;
    return NULL;
}

/* Softmax of a router's logits, the best experts, their gates, and groups of assignments. */
static void fuse_route(fusion *f, int at)
{
    enum { PROB = 4, CHOSEN, GATE, ROW_GATE, ALL };
    mf_node *group = f->g->nodes[at];
    mf_node *select = group->in[1] ? NULL : source(f, group->in[0], f->select);
    mf_node *softmax = select && !select->in[1] ? source(f, select->in[0], f->softmax) : NULL;
    if (!softmax || softmax->in[0]->shape.rank != 2) return;
    mf_tensor *prob = softmax->out[0], *chosen = select->out[0];
    const mf_node *divided = source(f, softmax->in[0], f->div); /* by one number */
    const bool by_one = divided && divided->in[1]->dtype == MF_F32 &&
                        mf_shape_count(divided->in[1]->shape) == 1;
    mf_node *router = source(f, by_one ? divided->in[0] : softmax->in[0], f->linear);
    mf_node *gates = reader_of(f, chosen, f->gates, 1, 2);
    if (!router || router->n_in != 3 || !gates || mf_owner(gates->in[0]) != prob) return;
    const mf_node *norm = norm_of(f, router->in[0]);
    if (!norm) { /* a router reads f32: a cast of a norm in bf16 */
        const mf_node *cast = source(f, router->in[0], f->g->ops->of_role(MF_ROLE_CAST));
        norm = cast ? norm_of(f, cast->in[0]) : NULL;
    }
    const mf_tensor *w = router->in[1];
    const int64_t tokens = prob->shape.dim[0], experts = prob->shape.dim[1],
                  k = group->attr.i[0];
    mf_node *rows = reader_of(f, gates->out[0], f->dispatch, 0, 3);
    if (!norm || !rows || mf_owner(rows->in[1]) != group->out[0] || tokens > MF_FEW ||
        norm->in[0]->shape.dim[0] != tokens || w->dtype != MF_F32 || mf_tensor_is_stored(w) ||
        !mf_is_whole(w) || w->shape.dim[1] % 4 != 0 ||
        tokens * w->shape.dim[1] > MF_FEW_NORMED || tokens * experts > MF_FEW_ROUTED ||
        tokens * k > MF_FEW_ROUTED || select->attr.i[0] != k || gates->attr.i[0] != k ||
        !mf_is_plain(prob, MF_F32) || read_before(f, prob, at, select, gates) ||
        read_before(f, chosen, at, gates, group) ||
        read_before(f, gates->out[0], at, rows, NULL))
        return;
    mf_node *const part[] = {softmax, select, gates, rows};
    group->in[2] = router->in[1];
    group->in[3] = router->in[2];
    group->reads = 1u | 1u << 2 | (uint32_t)(router->in[2] != NULL) << 3;
    group->attr.i[2] = gates->attr.i[1];
    group->attr.f[0] = gates->attr.f[0];
    put_norm(f, group, 4, norm);
    mf_node_append(group, &f->readers, by_one ? divided->in[1] : NULL);
    group->n_out = ALL;
    for (int i = 0; i < ALL - PROB; i++)
        mf_node_take(f->g, at, PROB + i, part[i]);
}

/* The first gemm of experts, which has the activation, reads what a norm reads, by token. */
static void fuse_first(fusion *f, mf_node *node)
{
    const mf_node *rows = source(f, node->in[0], f->dispatch);
    const mf_node *norm = rows && !rows->in[3] ? norm_of(f, rows->in[0]) : NULL;
    const int64_t k = node->in[0]->shape.dim[1];
    if (!norm || !fits(node->in[1], node->out[1]->shape.dim[0], k, node->out[1]->shape.dim[0]))
        return;
    mf_tensor *token = rows->in[1];
    put_norm(f, node, 6, norm);
    node->in[5] = token;
    node->reads |= 1u << 5;
    f->readers.fixed[mf_owner(token)->id] = true;
}

/* The last gemm of experts adds the rows of a token, and what return_rows adds. */
static void fuse_last(fusion *f, int at)
{
    mf_node *node = f->g->nodes[at];
    int i;
    mf_node *back = mf_is_plain(node->out[0], MF_BF16)
                        ? mf_only_reader(f->g, &f->readers, node->out[0], &i)
                        : NULL;
    if (!back || back->op != f->back || back->backward || back->in[3] ||
        node->in[0]->dtype != MF_BF16 ||
        !fits(node->in[1], node->in[0]->shape.dim[0], node->in[0]->shape.dim[1], 0))
        return;
    mf_tensor *r = back->n_in > 4 ? back->in[4] : NULL;
    if (r && (r->node >= at || mf_owner(r)->node >= at)) return;
    mf_node_append(node, &f->readers, back->in[2]);
    mf_node_append(node, &f->readers, r);
    mf_node_take(f->g, at, 0, back);
}

int mf_graph_fuse_tokens(mf_graph *g)
{
    const mf_kernels *k = mf_graph_device_kernels(g);
    if (!k || !k->fuses || g->differentiated) return MF_OK;
    fusion f = {.g = g,
                .linear = g->ops->of_role(MF_ROLE_LINEAR),
                .rms = g->ops->find("rmsnorm"),
                .layer = g->ops->find("layernorm"),
                .rope = g->ops->find("rope"),
                .slice = g->ops->find("slice"),
                .append = g->ops->find("cache_append"),
                .attention = g->ops->find("attention"),
                .softmax = g->ops->find("softmax"),
                .div = g->ops->find("div"),
                .select = g->ops->find("route_select"),
                .gates = g->ops->find("route_gates"),
                .group = g->ops->find("group_rows"),
                .dispatch = g->ops->of_role(MF_ROLE_DISPATCH_ROWS),
                .grouped = g->ops->of_role(MF_ROLE_GROUPED_LINEAR),
                .swiglu = g->ops->find("grouped_swiglu"),
                .back = g->ops->find("return_rows")};
    const int code = mf_readers_new(g, &f.readers);
    for (int i = 0; code == MF_OK && i < g->n_nodes; i++) {
        mf_node *node = g->nodes[i];
        if (node->dead || node->backward || node->metric) continue;
        if (node->op == f.linear) fuse_linear(&f, node);
        if (node->op == f.attention) fuse_attention(&f, i);
        if (node->op == f.group) fuse_route(&f, i);
        if (node->op == f.swiglu) fuse_first(&f, node);
        if (node->op == f.grouped) fuse_last(&f, i);
    }
    mf_readers_free(&f.readers);
    return code;
}
