/* comm/expert_ranks.c: the ops that move rows between ranks. Counts are sent first, once for
 * each layer in each run of the graph. Then every rank knows the size of each message,
 * including the messages of the backward pass. A rank without a micro-batch (silent) sends
 * nothing and receives no results. */
#include "comm/expert_ranks.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/world.h"
#include "ops/infer.h"
#include "ops/ops.h"

static const mf_expert_ranks *ranks_of(const mf_attr *attr)
{
    return (const mf_expert_ranks *)(uintptr_t)attr->i[0];
}

static mf_attr attr_of(const mf_expert_ranks *e)
{
    mf_attr a = mf_attr0();
    a.i[0] = (int64_t)(uintptr_t)e;
    return a;
}

/* ---- counts ---- */

static int infer_counts(mf_infer *in)
{
    const int64_t n = ranks_of(in->attr)->ranks;
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "offset", MF_I32, 1, 1))
        return MF_ESHAPE;
    const int64_t experts = in->in[0].shape.dim[0] - 1;
    if (experts % n != 0)
        return in->fail(in, "expected a multiple of %lld experts, for so many, found %lld",
                        (long long)n, (long long)experts);
    return mf_infer_set(in, 0, MF_I32, mf_shape2(n, experts / n + 1));
}

/* Copies offset [n+1] shifted so that it begins at 0; all 0 if nothing is sent. */
static void begin_at_0(const int32_t *offset, int64_t n, bool silent, int32_t *out)
{
    for (int64_t i = 0; i <= n; i++)
        out[i] = silent ? 0 : offset[i] - offset[0];
}

static int forward_counts(const mf_call *call)
{
    const mf_expert_ranks *e = ranks_of(call->attr);
    const int32_t *offset = call->in[0].data;
    int32_t *out = call->out[0].data;
    const int64_t local = call->out[0].shape.dim[1] - 1, bytes = (local + 1) * 4;
    mf_comm_piece send[MF_EXPERT_RANKS], recv[MF_EXPERT_RANKS];
    int n = 0;
    int32_t *room = mf_alloc_raw((size_t)(bytes * e->ranks));
    if (!room) return MF_ENOMEM;
    for (int r = 0; r < e->ranks; r++) {
        begin_at_0(offset + r * local, local, e->silent, room + r * (local + 1));
        if (r == e->rank) continue;
        send[n] = (mf_comm_piece){e->first + r, room + r * (local + 1), bytes};
        recv[n++] = (mf_comm_piece){e->first + r, out + r * (local + 1), bytes};
    }
    memcpy(out + e->rank * (local + 1), room + e->rank * (local + 1), (size_t)bytes);
    const int rc = mf_world_exchange(e->world, "numbers of rows for experts", n, send, n, recv);
    mf_free(room);
    return rc;
}

static const mf_opdef counts_op = {.size = sizeof(mf_opdef),
                                   .flags = MF_OP_NO_GRAD,
                                   .name = "expert_counts",
                                   .formula = "offsets of the rows from each rank",
                                   .infer = infer_counts,
                                   .forward = forward_counts};

/* ---- rows ---- */

/* One exchange. `own` contains the rows of this rank, grouped by the ranks that have their
 * experts. `all` contains the rows that every rank has sent to this rank (its own rows, too),
 * with space for `rows` rows of each rank. */
typedef struct movement {
    const mf_expert_ranks *e;
    const int32_t *offset, *counts;
    int64_t local, rows, width; /* width in bytes */
    char *own, *all;
} movement;

static int64_t rows_to(const movement *m, int r)
{
    return m->e->silent ? 0 : m->offset[(r + 1) * m->local] - m->offset[r * m->local];
}

static int64_t rows_from(const movement *m, int r)
{
    return m->counts[r * (m->local + 1) + m->local];
}

/* out true: sends the rows of `own` to the other ranks, and receives their rows in `all`. out
 * false: sends the results in `all` back to their ranks, and receives results in `own`. */
static int move(const movement *m, bool out)
{
    mf_comm_piece own[MF_EXPERT_RANKS], all[MF_EXPERT_RANKS];
    const mf_expert_ranks *e = m->e;
    int n = 0;
    for (int r = 0; r < e->ranks; r++) {
        char *mine = m->own + m->offset[r * m->local] * m->width,
             *there = m->all + r * m->rows * m->width;
        const size_t bytes = (size_t)(rows_to(m, r) * m->width);
        if (r != e->rank) {
            own[n] = (mf_comm_piece){e->first + r, mine, (int64_t)bytes};
            all[n++] = (mf_comm_piece){e->first + r, there, rows_from(m, r) * m->width};
        } else if (bytes > 0) {
            memcpy(out ? there : mine, out ? mine : there, bytes);
        }
    }
    return out ? mf_world_exchange(e->world, "rows for experts", n, own, n, all)
               : mf_world_exchange(e->world, "results of experts", n, all, n, own);
}

static int64_t row_bytes(const mf_view *x)
{
    return x->shape.dim[1] * (x->dtype == MF_BF16 ? 2 : 4);
}

static int judge_rows(const mf_infer *in)
{
    const mf_dtype type = in->in[0].dtype;
    if (mf_infer_inputs(in, 3)) return MF_ESHAPE;
    if (mf_infer_tensor(in, 0, "x", type == MF_BF16 ? MF_BF16 : MF_F32, 2, 2)) return MF_ESHAPE;
    if (mf_infer_tensor(in, 1, "offset", MF_I32, 1, 1)) return MF_ESHAPE;
    return mf_infer_tensor(in, 2, "counts", MF_I32, 2, 2);
}

static int infer_send(mf_infer *in)
{
    if (judge_rows(in)) return MF_ESHAPE;
    const mf_shape x = in->in[0].shape;
    return mf_infer_set(in, 0, in->in[0].dtype,
                        mf_shape2(ranks_of(in->attr)->ranks * x.dim[0], x.dim[1]));
}

static int infer_return(mf_infer *in)
{
    if (judge_rows(in)) return MF_ESHAPE;
    const mf_shape x = in->in[0].shape;
    return mf_infer_set(in, 0, in->in[0].dtype,
                        mf_shape2(x.dim[0] / ranks_of(in->attr)->ranks, x.dim[1]));
}

static movement movement_of(const mf_call *call, bool out)
{
    const mf_view *own = out ? &call->in[0] : &call->out[0];
    return (movement){.e = ranks_of(call->attr),
                      .offset = call->in[1].data,
                      .counts = call->in[2].data,
                      .local = call->in[2].shape.dim[1] - 1,
                      .rows = own->shape.dim[0],
                      .width = row_bytes(own),
                      .own = own->data,
                      .all = out ? call->out[0].data : call->in[0].data};
}

static int forward_send(const mf_call *call)
{
    const movement m = movement_of(call, true);
    for (int r = 0; r < m.e->ranks; r++)
        memset(m.all + (r * m.rows + rows_from(&m, r)) * m.width, 0,
               (size_t)((m.rows - rows_from(&m, r)) * m.width));
    return move(&m, true);
}

static int forward_return(const mf_call *call)
{
    const movement m = movement_of(call, false);
    const int64_t used = m.e->silent ? 0 : m.offset[m.e->ranks * m.local];
    memset(m.own + used * m.width, 0, (size_t)((m.rows - used) * m.width));
    return move(&m, false);
}

static int grad_send(mf_graph *g, const mf_gradient *at);
static int grad_return(mf_graph *g, const mf_gradient *at);

static const mf_opdef send_op = {.size = sizeof(mf_opdef),
                                 .name = "expert_send",
                                 .formula = "rows, at the ranks that have their experts",
                                 .infer = infer_send,
                                 .forward = forward_send,
                                 .grad = grad_send,
                                 .diff_in = 1u,
                                 .bf16_in = 1u};
static const mf_opdef return_op = {.size = sizeof(mf_opdef),
                                   .name = "expert_return",
                                   .formula = "results, at the ranks that have sent the rows",
                                   .infer = infer_return,
                                   .forward = forward_return,
                                   .grad = grad_return,
                                   .diff_in = 1u,
                                   .bf16_in = 1u};

static mf_tensor *add_move(mf_graph *g, const mf_opdef *op, mf_tensor *x, mf_tensor *offset,
                           mf_tensor *counts, const mf_attr *attr)
{
    mf_tensor *in[3] = {x, offset, counts};
    return mf_graph_op(g, op, 3, in, attr, 1, NULL);
}

static int grad_send(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = add_move(g, &return_op, at->dout[0], at->in[1], at->in[2], at->attr);
    return mf_graph_status(g);
}

static int grad_return(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = add_move(g, &send_op, at->dout[0], at->in[1], at->in[2], at->attr);
    return mf_graph_status(g);
}

/* ---- the rows of one rank ----
 *
 *   expert_part   y = rows i1 R .. of x [n R,d]             dx = expert_place(dy)
 *   expert_place  y = x [R,d] at rows i1 R .., else zeros   used only in gradients
 *   expert_join   y = x0, x1, .. one after the other        dx_i = expert_part(dy)
 *
 * The attribute i1 is the rank. */

static int infer_part(mf_infer *in)
{
    const mf_shape x = in->in[0].shape;
    return mf_infer_set(in, 0, in->in[0].dtype,
                        mf_shape2(x.dim[0] / ranks_of(in->attr)->ranks, x.dim[1]));
}

static int infer_place(mf_infer *in)
{
    const mf_shape x = in->in[0].shape;
    return mf_infer_set(in, 0, in->in[0].dtype,
                        mf_shape2(x.dim[0] * ranks_of(in->attr)->ranks, x.dim[1]));
}

static size_t bytes_of(const mf_view *v)
{
    return (size_t)(v->shape.dim[0] * row_bytes(v));
}

static int forward_part(const mf_call *call)
{
    const size_t n = bytes_of(&call->out[0]);
    memcpy(call->out[0].data, (const char *)call->in[0].data + (size_t)call->attr->i[1] * n, n);
    return MF_OK;
}

static int forward_place(const mf_call *call)
{
    const size_t n = bytes_of(&call->in[0]);
    memset(call->out[0].data, 0, bytes_of(&call->out[0]));
    memcpy((char *)call->out[0].data + (size_t)call->attr->i[1] * n, call->in[0].data, n);
    return MF_OK;
}

static int forward_join(const mf_call *call)
{
    const size_t n = bytes_of(&call->in[0]);
    for (int i = 0; i < call->n_in; i++)
        memcpy((char *)call->out[0].data + (size_t)i * n, call->in[i].data, n);
    return MF_OK;
}

static int grad_part(mf_graph *g, const mf_gradient *at);
static int grad_join(mf_graph *g, const mf_gradient *at);

static const mf_opdef part_op = {.size = sizeof(mf_opdef),
                                 .name = "expert_part",
                                 .formula = "the rows that one rank has sent",
                                 .infer = infer_part,
                                 .forward = forward_part,
                                 .grad = grad_part,
                                 .diff_in = 1u,
                                 .bf16_in = 1u};
static const mf_opdef place_op = {.size = sizeof(mf_opdef),
                                  .name = "expert_place",
                                  .formula = "the rows of one rank, zeros for the others",
                                  .flags = MF_OP_NO_GRAD,
                                  .infer = infer_place,
                                  .forward = forward_place,
                                  .bf16_in = 1u};
static const mf_opdef join_op = {.size = sizeof(mf_opdef),
                                 .name = "expert_join",
                                 .formula = "the rows of all ranks",
                                 .infer = infer_place,
                                 .forward = forward_join,
                                 .grad = grad_join,
                                 .diff_in = (1u << MF_OP_MAX_IN) - 1,
                                 .bf16_in = (1u << MF_OP_MAX_IN) - 1};

static mf_tensor *of_rank(mf_graph *g, const mf_opdef *op, mf_tensor *x, const mf_attr *attr,
                          int rank)
{
    mf_attr a = *attr;
    a.i[1] = rank;
    return mf_graph_op(g, op, 1, &x, &a, 1, NULL);
}

static int grad_part(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = of_rank(g, &place_op, at->dout[0], at->attr, (int)at->attr->i[1]);
    return mf_graph_status(g);
}

static int grad_join(mf_graph *g, const mf_gradient *at)
{
    for (int i = 0; i < at->n_in; i++)
        if (at->wants[i]) at->din[i] = of_rank(g, &part_op, at->dout[0], at->attr, i);
    return mf_graph_status(g);
}

/* ---- building ---- */

mf_expert_routes mf_expert_routes_new(mf_graph *g, const mf_expert_ranks *e, mf_tensor *offset)
{
    const mf_attr a = attr_of(e);
    return (mf_expert_routes){e, offset, mf_graph_op(g, &counts_op, 1, &offset, &a, 1, NULL)};
}

mf_tensor *mf_expert_send(mf_graph *g, const mf_expert_routes *r, mf_tensor *x)
{
    const mf_attr a = attr_of(r->to);
    return add_move(g, &send_op, x, r->offset, r->counts, &a);
}

mf_tensor *mf_expert_return(mf_graph *g, const mf_expert_routes *r, mf_tensor *y)
{
    const mf_attr a = attr_of(r->to);
    return add_move(g, &return_op, y, r->offset, r->counts, &a);
}

mf_tensor *mf_expert_rows_of(mf_graph *g, const mf_expert_ranks *e, mf_tensor *x, int rank)
{
    const mf_attr a = attr_of(e);
    return of_rank(g, &part_op, x, &a, rank);
}

mf_tensor *mf_expert_join(mf_graph *g, const mf_expert_ranks *e, mf_tensor *const *x)
{
    const mf_attr a = attr_of(e);
    return mf_graph_op(g, &join_op, e->ranks, x, &a, 1, NULL);
}

static void fan_out(mf_graph *g, mf_tensor *t, int n, mf_tensor **of)
{
    of[0] = t;
    if (!t || n == 1) return;
    for (int half = 0; half < 2; half++)
        fan_out(g, mf_reshape(g, t, t->shape), n / 2, of + half * (n / 2));
}

void mf_expert_copies(mf_graph *g, const mf_expert_ranks *e, const mf_param *p, int n,
                      mf_tensor **of)
{
    const int64_t local = p->shape.dim[0] / e->ranks;
    fan_out(g, mf_graph_param_part(g, p, e->rank * local, local), n, of);
}
