/* graph/plan/fuse_residual.c: on a device, sums with the residual stream are computed where
 * their terms are. A gemm that only a sum reads adds the other term itself. A norm's backward
 * pass adds the gradient that comes along the residual stream, and writes what is read of the
 * sum: its copy in bf16 for the next gemms, and the gradient of the bias behind. The backward
 * pass of a function of one value writes the gradient of the bias before it, too. Sums over the
 * experts of a token add what comes along the stream, or from a router. A norm in bf16 writes
 * what a router reads in f32.
 *
 * Such a node has arguments behind those of its op. The other nodes are dead, and their outputs
 * belong to it. A sum is rounded once less, and columns are added in another order. */
#include "graph/internal.h"

typedef struct fusion {
    mf_graph *g;
    mf_readers readers;
    const mf_opdef *sum, *map, *rms, *layer;
} fusion;

static bool has_role(const mf_node *node, mf_op_role role)
{
    return !node->backward && mf_opdef_role(node->op) == role;
}

/* Returns the sum of t, an output of node `at`, and of another value of the same shape, if
 * nothing else reads t. *ret: its number; *ret_r: the other value. */
static mf_node *any_sum_of(const fusion *f, int at, const mf_tensor *t, int *ret,
                           mf_tensor **ret_r)
{
    const mf_node *node = f->g->nodes[at];
    mf_node *sum =
        t->kind == MF_TENSOR_VALUE ? mf_only_reader(f->g, &f->readers, t, ret) : NULL;
    if (!sum || !has_role(sum, MF_ROLE_ADD) || mf_owner(sum->in[0]) == mf_owner(sum->in[1]))
        return NULL;
    const int i = mf_owner(sum->in[1]) == t;
    mf_tensor *r = *ret_r = sum->in[!i];
    const bool fits = mf_shape_equal(sum->in[i]->shape, t->shape) &&
                      mf_shape_equal(r->shape, t->shape) && sum->metric == node->metric &&
                      sum->gradient_part == node->gradient_part;
    return fits ? sum : NULL;
}

/* The same, if the other value exists before that node, and the sum is f32. */
static mf_node *sum_of(const fusion *f, int at, const mf_tensor *t, mf_tensor **ret)
{
    int i;
    mf_node *sum = any_sum_of(f, at, t, &i, ret);
    if (!sum || !mf_is_plain(sum->out[0], MF_F32)) return NULL;
    return (*ret)->node < at && mf_owner(*ret)->node < at ? sum : NULL;
}

/* Returns the node that sums the columns of d, rows of n; NULL: there is none. */
static mf_node *column_sum_of(const fusion *f, const mf_tensor *d, int64_t n)
{
    mf_node *node;
    for (int i = -1; (node = mf_reader(f->g, &f->readers, d, &i));)
        if (node->op == f->sum && !node->backward && !node->metric && node->attr.i[0] == 1 &&
            node->in[0]->shape.rank == 2 && node->in[0]->shape.dim[1] == n &&
            mf_is_plain(node->out[0], MF_F32))
            return node;
    return NULL;
}

/* Returns the cast of d to a type that runs in every run; NULL: there is none. */
static mf_node *cast_of(const fusion *f, const mf_tensor *d, mf_dtype type)
{
    mf_node *node;
    for (int i = -1; (node = mf_reader(f->g, &f->readers, d, &i));)
        if (has_role(node, MF_ROLE_CAST) && !node->metric && mf_is_plain(node->out[0], type))
            return node;
    return NULL;
}

static void take_more(mf_graph *g, int at, mf_node *from)
{
    g->nodes[at]->more_out++;
    mf_node_take(g, at, g->nodes[at]->n_out++, from);
}

/* A node adds the other term of a sum that alone reads its output. */
static void fuse_sum(fusion *f, int at)
{
    mf_node *node = f->g->nodes[at];
    mf_tensor *r;
    if (!mf_is_plain(node->out[0], MF_F32)) return;
    mf_node *sum = sum_of(f, at, node->out[0], &r);
    if (!sum) return;
    mf_node_append(node, &f->readers, r);
    mf_node_take(f->g, at, 0, sum);
}

static void fuse_gemm(fusion *f, int at)
{
    const mf_tensor *w = f->g->nodes[at]->in[1];
    if (!mf_tensor_is_stored(w) && w->shape.rank == 2) fuse_sum(f, at);
}

/* The gradient of dispatched rows, which is summed by token in bf16, and a gradient in f32 that
 * is cast to add it: the sums begin with that gradient, where the two are added. */
static void fuse_dispatched(fusion *f, int at)
{
    mf_node *node = f->g->nodes[at];
    mf_tensor *d = node->out[0], *other;
    int i;
    mf_node *sum = d && mf_is_plain(d, MF_BF16) ? any_sum_of(f, at, d, &i, &other) : NULL;
    const mf_node *cast = sum && other->node >= 0 ? f->g->nodes[other->node] : NULL;
    if (!cast || !has_role(cast, MF_ROLE_CAST) || cast->in[0]->dtype != MF_F32 ||
        mf_tensor_is_stored(cast->in[0]) || !mf_is_plain(sum->out[0], MF_BF16))
        return;
    mf_tensor *out = sum->out[0];
    for (int j = 0; j < node->n_in; j++)
        if (node->in[j]) f->readers.fixed[mf_owner(node->in[j])->id] = true;
    *sum = *node;
    sum->out[0] = out;
    mf_node_append(sum, &f->readers, cast->in[0]);
    node->dead = node->fused = true;
}

/* A norm writes its result in f32, too. */
static void fuse_wide(fusion *f, int at)
{
    const mf_tensor *y = f->g->nodes[at]->out[0];
    mf_node *cast = y->dtype == MF_BF16 ? cast_of(f, y, MF_F32) : NULL;
    if (cast && mf_shape_equal(cast->out[0]->shape, y->shape)) take_more(f->g, at, cast);
}

static void fuse_norm(fusion *f, int at)
{
    mf_graph *g = f->g;
    mf_node *norm = g->nodes[at];
    mf_tensor *r, *d = norm->out[0];
    if (!d || !mf_is_plain(d, MF_F32)) return;
    const int64_t n = d->shape.dim[d->shape.rank - 1];
    if (n % 4 != 0 || n > MF_NORM_ADD_MOST) return;
    for (int j = 1; j < norm->n_out; j++)
        if (norm->in[j] && !mf_is_whole(norm->in[j])) return;
    mf_node *sum = sum_of(f, at, d, &r);
    if (sum) d = sum->out[0];
    mf_node *cast = cast_of(f, d, MF_BF16), *column = column_sum_of(f, d, n);
    if (!sum && !cast && !column) return;
    mf_node_append(norm, &f->readers, sum ? r : NULL);
    if (sum) mf_node_take(g, at, 0, sum);
    take_more(g, at, cast);
    take_more(g, at, column);
    norm->backward_work_bytes = mf_sums_work(3, n);
}

static void fuse_map(fusion *f, int at)
{
    mf_graph *g = f->g;
    const mf_tensor *d = g->nodes[at]->out[0];
    if (!d || d->shape.rank < 1 || !mf_is_plain(d, d->dtype)) return;
    const int64_t n = d->shape.dim[d->shape.rank - 1];
    mf_node *column = n % 4 == 0 ? column_sum_of(f, d, n) : NULL;
    if (!column) return;
    take_more(g, at, column);
    g->nodes[at]->backward_work_bytes = mf_sums_work(1, n);
}

int mf_graph_fuse_residuals(mf_graph *g)
{
    const mf_kernels *k = mf_graph_device_kernels(g);
    if (!k || !k->fuses) return MF_OK;
    const mf_opdef *linear = g->ops->of_role(MF_ROLE_LINEAR), *matmul = g->ops->find("matmul"),
                   *dispatch = g->ops->of_role(MF_ROLE_DISPATCH_ROWS),
                   *back = g->ops->find("return_rows");
    fusion f = {.g = g,
                .sum = g->ops->find("sum"),
                .map = g->ops->find("gelu"),
                .rms = g->ops->find("rmsnorm"),
                .layer = g->ops->find("layernorm")};
    const int code = mf_readers_new(g, &f.readers);
    for (int i = 0; code == MF_OK && i < g->n_nodes; i++) {
        const mf_node *node = g->nodes[i];
        const bool norm = node->op == f.rms || node->op == f.layer;
        if (node->dead) continue;
        if (!node->backward && (node->op == linear || node->op == matmul)) fuse_gemm(&f, i);
        if (!node->backward && node->op == back) fuse_sum(&f, i);
        if (!node->backward && norm) fuse_wide(&f, i);
        if (node->backward && node->op == dispatch) fuse_dispatched(&f, i);
        if (node->backward && norm) fuse_norm(&f, i);
        if (node->backward && node->op->backward == f.map->backward) fuse_map(&f, i);
    }
    mf_readers_free(&f.readers);
    return code;
}
