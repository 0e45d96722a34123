/* ops/reduce.c: sums over dimensions.
 *
 *   sum     y = sum of x over the axes                      dx = dy, repeated
 *   mean    y = sum / number of terms                       dx = dy / number, repeated
 *   sum_to  y = x, summed over the dimensions that broadcasting from the shape `to` repeats;
 *           dx = dy, repeated
 *
 * Neighbouring dimensions that are all kept or all reduced are merged. After that, at most two
 * of four dimensions are reduced, in two passes of one kernel that begin with the
 * inner dimension. */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/shape.h"

typedef struct pass {
    int64_t outer, n, inner;
} pass;

/* Computes the passes that sum x over axes; returns their number, 1 or 2. */
static int plan(mf_shape x, unsigned axes, pass out[2])
{
    int64_t size[MF_MAX_RANK]; /* sizes of groups of dimensions, alternately kept and reduced */
    bool reduced[MF_MAX_RANK];
    int groups = 0, passes = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        bool r = axes >> i & 1;
        if (x.dim[i] == 1) continue;
        if (groups && reduced[groups - 1] == r) {
            size[groups - 1] *= x.dim[i];
        } else {
            size[groups] = x.dim[i];
            reduced[groups++] = r;
        }
    }
    int64_t inner = 1;
    for (int i = groups - 1; i >= 0; i--) {
        if (reduced[i]) {
            int64_t outer = 1;
            for (int j = 0; j < i; j++)
                outer *= size[j];
            out[passes++] = (pass){outer, size[i], inner};
        } else {
            inner *= size[i];
        }
    }
    if (!passes) out[passes++] = (pass){inner, 1, 1};
    return passes;
}

static size_t align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Returns the size of the first pass's result if there are two passes. */
static size_t middle_bytes(const pass *p)
{
    return align((size_t)(p->outer * p->inner) * sizeof(float));
}

static size_t work_of(mf_shape x, unsigned axes)
{
    pass p[2];
    int passes = plan(x, axes, p);
    size_t first = mf_sum3_work(p[0].outer, p[0].n, p[0].inner);
    if (passes == 1) return first;
    size_t second = mf_sum3_work(p[1].outer, p[1].n, p[1].inner);
    return middle_bytes(p) + (first > second ? first : second);
}

static int run(const mf_call *call, unsigned axes, double scale)
{
    const mf_kctx x = mf_call_kctx(call);
    const mf_kernels *k = mf_call_kernels(call);
    pass p[2];
    if (plan(call->in[0].shape, axes, p) == 1) {
        MF_RUN(k, &x, sum3, .outer = p[0].outer, .n = p[0].n, .inner = p[0].inner,
               .scale = scale, .type = mf_call_type(call->in), .in = call->in[0].data,
               .out = mf_call_out(call, 0), .work = call->work);
        return MF_OK;
    }
    float *middle = call->work;
    void *rest = (char *)call->work + middle_bytes(p);
    MF_RUN(k, &x, sum3, .outer = p[0].outer, .n = p[0].n, .inner = p[0].inner, .scale = 1,
           .type = mf_call_type(call->in), .in = call->in[0].data, .out = middle, .work = rest);
    MF_RUN(k, &x, sum3, .outer = p[1].outer, .n = p[1].n, .inner = p[1].inner, .scale = scale,
           .in = middle, .out = mf_call_out(call, 0), .work = rest);
    return MF_OK;
}

/* ---- sum, mean ---- */

static mf_shape reduced_shape(mf_shape x, unsigned axes, bool keep)
{
    mf_shape y = mf_shape0();
    for (int32_t i = 0; i < x.rank; i++)
        if (!(axes >> i & 1) || keep) y.dim[y.rank++] = axes >> i & 1 ? 1 : x.dim[i];
    return y;
}

static int infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 0, 4) ||
        mf_infer_attr(in, 0, "axes", 0, MF_ALL) || mf_infer_attr(in, 1, "keep", 0, 1))
        return MF_ESHAPE;
    unsigned axes = (unsigned)in->attr->i[0];
    mf_shape x = in->in[0].shape;
    if (axes != MF_ALL && axes >> x.rank)
        return in->fail(in, "expected axes below the rank %d, found the bits %#x", x.rank,
                        axes);
    in->work_bytes = work_of(x, axes);
    return mf_infer_set(in, 0, MF_F32, reduced_shape(x, axes, in->attr->i[1]));
}

static double terms(mf_shape x, unsigned axes)
{
    double n = 1;
    for (int32_t i = 0; i < x.rank; i++)
        if (axes >> i & 1) n *= (double)x.dim[i];
    return n;
}

static int forward_sum(const mf_call *call)
{
    return run(call, (unsigned)call->attr->i[0], 1);
}

static int forward_mean(const mf_call *call)
{
    unsigned axes = (unsigned)call->attr->i[0];
    return run(call, axes, 1 / terms(call->in[0].shape, axes));
}

static mf_tensor *repeat(mf_graph *g, const mf_gradient *at, mf_tensor *dy)
{
    mf_shape x = at->in[0]->shape;
    dy = mf_reshape(g, dy, reduced_shape(x, (unsigned)at->attr->i[0], true));
    return mf_broadcast(g, dy, x);
}

static int grad_sum(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = repeat(g, at, at->dout[0]);
    return mf_graph_status(g);
}

static int grad_mean(mf_graph *g, const mf_gradient *at)
{
    double n = terms(at->in[0]->shape, (unsigned)at->attr->i[0]);
    at->din[0] = repeat(g, at, mf_scale(g, at->dout[0], 1 / n));
    return mf_graph_status(g);
}

const mf_opdef mf_op_sum = {.size = sizeof(mf_opdef),
                            .name = "sum",
                            .formula = "y = sum of x over the axes",
                            .infer = infer,
                            .forward = forward_sum,
                            .grad = grad_sum,
                            .diff_in = 1};
const mf_opdef mf_op_mean = {.size = sizeof(mf_opdef),
                             .name = "mean",
                             .formula = "y = mean of x over the axes",
                             .infer = infer,
                             .forward = forward_mean,
                             .grad = grad_mean,
                             .diff_in = 1};

/* ---- sum_to ---- */

/* Returns one bit for each dimension of x that does not exist in `to`, or that has size 1 in
 * `to` but not in x. */
static unsigned repeated_axes(mf_shape x, mf_shape to)
{
    unsigned axes = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        int32_t j = i - (x.rank - to.rank);
        if (j < 0 || (to.dim[j] == 1 && x.dim[i] != 1)) axes |= 1u << i;
    }
    return axes;
}

static int infer_to(mf_infer *in)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_shape to, x;
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "x", MF_F32, 0, 4) ||
        mf_infer_attr(in, 0, "rank", 0, MF_MAX_RANK))
        return MF_ESHAPE;
    to = mf_attr_shape(in->attr);
    x = in->in[0].shape;
    for (int32_t i = 1; i <= to.rank; i++) {
        int64_t want = to.dim[to.rank - i];
        if (i > x.rank || (want != 1 && want != x.dim[x.rank - i]))
            return in->fail(in, "expected x of a shape that %s broadcasts to, found %s",
                            mf_shape_text(to, a), mf_shape_text(x, b));
    }
    in->work_bytes = work_of(x, repeated_axes(x, to));
    return mf_infer_set(in, 0, MF_F32, to);
}

static int forward_to(const mf_call *call)
{
    return run(call, repeated_axes(call->in[0].shape, call->out[0].shape), 1);
}

static int grad_to(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_broadcast(g, at->dout[0], at->in[0]->shape);
    return mf_graph_status(g);
}

const mf_opdef mf_op_sum_to = {.size = sizeof(mf_opdef),
                               .name = "sum_to",
                               .formula = "y = sum of x over what broadcasting repeated",
                               .infer = infer_to,
                               .forward = forward_to,
                               .grad = grad_to,
                               .diff_in = 1};

mf_tensor *mf_sum_to(mf_graph *g, mf_tensor *x, mf_shape to)
{
    if (x && mf_shape_equal(x->shape, to)) return x;
    return mf_op1(g, "sum_to", x,
                  &(mf_attr){.i = {to.rank, to.dim[0], to.dim[1], to.dim[2], to.dim[3]}});
}
