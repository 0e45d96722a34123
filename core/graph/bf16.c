/* graph/bf16.c: converts the inputs of each op to a type that the op accepts, f32 or bf16.
 *
 * In a graph with the option bf16, gemms (MF_OP_GEMM) read bf16: the store's bf16 copy of a
 * parameter, or a cast of any other value. Their output is bf16, too, unless their attributes
 * request f32. Attention is treated as a gemm where this is faster, otherwise it reads f32, and
 * its kernel may round to bf16 (MF_OP_ATTENTION). Other ops that accept bf16 read bf16 values
 * without a cast, unless one of the inputs that may be bf16 is f32. For all other ops bf16 is
 * cast to f32. A value is cast once for all ops that read it, except metrics. So an op never
 * gets a type that it does not accept, and code that adds ops need not handle types. */
#include "graph/third_party.h"
#include "graph/internal.h"

bool mf_graph_set_bf16(mf_graph *g, bool on)
{
    bool was = g && g->bf16;
    if (g) g->bf16 = on && g->options.bf16;
    return was;
}

bool mf_graph_is_bf16(const mf_graph *g)
{
    return g && g->bf16;
}

mf_dtype mf_tensor_grad_type(const mf_tensor *t)
{
    return t->master ? t->master->dtype : t->dtype;
}

static mf_tensor *cast(mf_graph *g, mf_tensor *t, mf_dtype to)
{
    return mf_graph_op(g, g->ops->of_role(MF_ROLE_CAST), 1, &t, &(mf_attr){.i = {to}}, 1, NULL);
}

/* A cast for a metric node does not run in every run, so other nodes must not share it. */
static mf_tensor *to_bf16(mf_graph *g, mf_tensor *t)
{
    if (t->as_bf16) return t->as_bf16;
    mf_tensor *copy = mf_graph_bf16_leaf(g, t);
    if (!copy && (copy = cast(g, t, MF_BF16)) && g->metrics) return copy;
    return t->as_bf16 = copy;
}

static mf_tensor *to_f32(mf_graph *g, mf_tensor *t)
{
    if (t->master) return t->master;
    if (t->as_f32) return t->as_f32;
    mf_tensor *value = cast(g, t, MF_F32);
    if (!value || g->metrics) return value;
    /* The cast to f32 loses no bits, so the bf16 value can be used again. */
    if (t->dtype == MF_BF16) value->as_bf16 = t;
    return t->as_f32 = value;
}

bool mf_tensor_is_stored(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_PARAM && t->node < 0 && t->param->stored;
}

/* Whether the op can read input i in its stored form. */
static bool reads_stored(const mf_graph *g, const mf_opdef *op, int i)
{
    const uint32_t flag = i == 0 ? MF_OP_STORED_0 : i == 1 ? MF_OP_STORED_1 : 0;
    return op->flags & flag && !mf_op_is_third_party(g, op);
}

bool mf_op_multiplies_stored(const mf_graph *g, const mf_opdef *op, int n, mf_tensor *const *in)
{
    return op->flags & MF_OP_STORED_BF16 && !mf_op_is_third_party(g, op) && n > 1 && in[1] &&
           mf_tensor_is_stored(in[1]);
}

/* Sets the inputs of an op that has a stored weight as an input. All inputs become f32, with
 * one exception: while gemms use bf16 (g->bf16), the rows that are multiplied with the weight
 * become bf16. */
static int fit_stored(mf_graph *g, const mf_opdef *op, int n, mf_tensor *const *in,
                      mf_tensor **out)
{
    for (int i = 0; i < n && g->status == MF_OK; i++) {
        out[i] = in[i];
        if (!in[i]) continue;
        if (i == 0 && g->bf16 && mf_op_multiplies_stored(g, op, n, in)) {
            if (in[i]->dtype == MF_F32) out[i] = to_bf16(g, in[i]);
        } else if (mf_tensor_is_stored(in[i])) {
            if (!reads_stored(g, op, i)) out[i] = to_f32(g, in[i]);
        } else if (in[i]->dtype == MF_BF16) {
            out[i] = to_f32(g, in[i]);
        }
    }
    return g->status;
}

mf_tensor *mf_graph_to_f32(mf_graph *g, mf_tensor *t)
{
    if (!t || g->status != MF_OK) return NULL;
    return t->dtype == MF_BF16 ? to_f32(g, t) : t;
}

/* Whether the inputs that may be bf16 become bf16: inputs of gemms, and inputs of attention
 * where this is faster. A cache is f32, and all of it would be converted. With few queries
 * the conversion takes longer than attention in f32, which reads only the filled part of
 * the cache. */
static bool wants_bf16(const mf_graph *g, const mf_opdef *op, int n, mf_tensor *const *in)
{
    if (op->flags & MF_OP_GEMM) return g->bf16;
    if (!(op->flags & MF_OP_ATTENTION) || !g->bf16 || !g->options.bf16_attention || g->metrics)
        return false;
    for (int i = 1; i < n; i++)
        if (in[i] && in[i]->shape.rank > 1 && mf_owner(in[i])->kind == MF_TENSOR_PARAM &&
            in[i]->shape.dim[0] > MF_BF16_CACHE * in[0]->shape.dim[0])
            return false;
    return true;
}

int mf_graph_fit_types(mf_graph *g, const mf_opdef *op, int n, mf_tensor *const *in,
                       mf_tensor **out)
{
    const bool in_bf16 = wants_bf16(g, op, n, in);
    const bool never = op->flags & MF_OP_ATTENTION && !in_bf16;
    const uint32_t may = MF_HAS(op, mf_opdef, bf16_in) && !never ? op->bf16_in : 0;
    bool all = true; /* all inputs that may be bf16 are bf16 */
    for (int i = 0; i < n; i++)
        if (in[i] && mf_tensor_is_stored(in[i])) return fit_stored(g, op, n, in, out);
    for (int i = 0; i < n; i++) {
        out[i] = in[i];
        if (in[i] && may >> i & 1u) all &= in[i]->dtype == MF_BF16;
    }
    for (int i = 0; i < n && g->status == MF_OK; i++) {
        if (!in[i]) continue;
        bool takes = may >> i & 1u;
        if (takes && in_bf16 && in[i]->dtype == MF_F32)
            out[i] = to_bf16(g, in[i]);
        else if (in[i]->dtype == MF_BF16 && !(takes && (in_bf16 || all)))
            out[i] = to_f32(g, in[i]);
    }
    return g->status;
}
