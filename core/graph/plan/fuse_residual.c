/* graph/plan/fuse_residual.c: on a device, sums with the residual stream are computed where
 * their terms are. A gemm that only a sum reads adds the other term itself. A norm's backward
 * pass adds the gradient that comes along the residual stream, and writes what is read of the
 * sum: its copy in bf16 for the next gemms, and the gradient of the bias behind. The backward
 * pass of a function of one value writes the gradient of the bias before it, too.
 *
 * Such a node has arguments behind those of its op. The other nodes are dead, and their outputs
 * belong to it. A sum is rounded once less, and columns are added in another order. */
#include "graph/internal.h"

static bool plain(const mf_tensor *t, mf_dtype type)
{
    return t && !t->alias && t->dtype == type &&
           (t->kind == MF_TENSOR_VALUE || t->kind == MF_TENSOR_GRAD);
}

static bool has_role(const mf_node *node, mf_op_role role)
{
    return !node->backward && mf_opdef_role(node->op) == role;
}

/* Returns the sum of t, an output of node `at`, and of a value of the same shape that exists
 * before that node, if nothing else reads t. *ret: that value. */
static mf_node *sum_of(const mf_graph *g, int at, const mf_tensor *t, mf_tensor **ret)
{
    mf_node *sum = NULL;
    for (int i = at + 1; i < g->n_nodes; i++) {
        if (!mf_node_reads(g->nodes[i], t)) continue;
        if (sum) return NULL;
        sum = g->nodes[i];
    }
    if (!sum || t->keep || t->kind != MF_TENSOR_VALUE || !has_role(sum, MF_ROLE_ADD))
        return NULL;
    mf_tensor *r = *ret = sum->in[sum->in[0] == t];
    const bool fits = (sum->in[0] == t || sum->in[1] == t) && plain(sum->out[0], MF_F32) &&
                      mf_shape_equal(r->shape, t->shape) && r->node < at &&
                      mf_owner(r)->node < at && sum->metric == g->nodes[at]->metric &&
                      sum->gradient_part == g->nodes[at]->gradient_part;
    return fits ? sum : NULL;
}

/* Returns the node that sums the columns of d, rows of n; NULL: there is none. */
static mf_node *column_sum_of(const mf_graph *g, const mf_tensor *d, int64_t n)
{
    const mf_opdef *sum = g->ops->find("sum");
    for (int i = 0; i < g->n_nodes; i++) {
        mf_node *node = g->nodes[i];
        if (node->op == sum && !node->backward && !node->metric && mf_node_reads(node, d) &&
            node->attr.i[0] == 1 && node->in[0]->shape.rank == 2 &&
            node->in[0]->shape.dim[1] == n && plain(node->out[0], MF_F32))
            return node;
    }
    return NULL;
}

/* Output j of node `at` becomes output 0 of another node, which is dead then; NULL: none. */
static void take(mf_graph *g, int at, int j, mf_node *from)
{
    g->nodes[at]->out[j] = from ? from->out[0] : NULL;
    if (!from) return;
    from->out[0]->node = at;
    from->dead = true;
    g->dead++;
}
static void take_more(mf_graph *g, int at, mf_node *from)
{
    g->nodes[at]->more_out++;
    take(g, at, g->nodes[at]->n_out++, from);
}
static void append(mf_node *node, mf_tensor *t)
{
    node->in[node->n_in] = t;
    node->reads |= (uint32_t)(t != NULL) << node->n_in++;
    node->more_in++;
}

static void fuse_gemm(mf_graph *g, int at)
{
    mf_node *gemm = g->nodes[at];
    const mf_tensor *w = gemm->in[1];
    mf_tensor *r;
    if (!plain(gemm->out[0], MF_F32) || mf_tensor_is_stored(w) || w->shape.rank != 2) return;
    mf_node *sum = sum_of(g, at, gemm->out[0], &r);
    if (!sum) return;
    append(gemm, r);
    take(g, at, 0, sum);
}

static void fuse_norm(mf_graph *g, int at)
{
    mf_node *norm = g->nodes[at], *cast = NULL;
    mf_tensor *r, *d = norm->out[0];
    if (!plain(d, MF_F32)) return;
    const int64_t n = d->shape.dim[d->shape.rank - 1];
    if (n % 4 != 0 || n > MF_NORM_ADD_MOST) return;
    for (int j = 1; j < norm->n_out; j++) /* a part of a parameter may begin anywhere */
        if (norm->in[j] && norm->in[j]->param &&
            mf_shape_count(norm->in[j]->shape) != mf_shape_count(norm->in[j]->param->shape))
            return;
    mf_node *sum = sum_of(g, at, d, &r);
    if (sum) d = sum->out[0];
    for (int i = at + 1; i < g->n_nodes && !cast; i++)
        if (mf_node_reads(g->nodes[i], d) && has_role(g->nodes[i], MF_ROLE_CAST) &&
            !g->nodes[i]->metric && plain(g->nodes[i]->out[0], MF_BF16))
            cast = g->nodes[i];
    mf_node *column = column_sum_of(g, d, n);
    if (!sum && !cast && !column) return;
    append(norm, sum ? r : NULL);
    if (sum) take(g, at, 0, sum);
    take_more(g, at, cast);
    take_more(g, at, column);
    norm->backward_work_bytes = mf_sums_work(3, n);
}

static void fuse_map(mf_graph *g, int at)
{
    const mf_tensor *d = g->nodes[at]->out[0];
    if (!d || d->shape.rank < 1 || !plain(d, d->dtype)) return;
    const int64_t n = d->shape.dim[d->shape.rank - 1];
    mf_node *column = n % 4 == 0 ? column_sum_of(g, d, n) : NULL;
    if (!column) return;
    take_more(g, at, column);
    g->nodes[at]->backward_work_bytes = mf_sums_work(1, n);
}

void mf_graph_fuse_residuals(mf_graph *g)
{
    const mf_kernels *k = mf_graph_device_kernels(g);
    const mf_opdef *linear = g->ops->of_role(MF_ROLE_LINEAR), *matmul = g->ops->find("matmul"),
                   *rms = g->ops->find("rmsnorm"), *layer = g->ops->find("layernorm"),
                   *map = g->ops->find("gelu");
    for (int i = 0; k && k->fuses && i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        if (node->dead) continue;
        if (!node->backward && (node->op == linear || node->op == matmul)) fuse_gemm(g, i);
        if (node->backward && (node->op == rms || node->op == layer)) fuse_norm(g, i);
        if (node->backward && node->op->backward == map->backward) fuse_map(g, i);
    }
}
