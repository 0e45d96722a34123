/* Cases of check_ops: sums, changes of shape and order, functions of rows. Expected values are
 * computed from coordinates. */
#include <math.h>

#include "op_case.h"

static int64_t last(mf_shape s)
{
    return s.dim[s.rank - 1];
}

/* Coordinates of element i of a shape. */
static void place(mf_shape s, int64_t i, int64_t at[MF_MAX_RANK])
{
    for (int32_t d = s.rank - 1; d >= 0; d--) {
        at[d] = i % s.dim[d];
        i /= s.dim[d];
    }
}

static int64_t index_of(mf_shape s, const int64_t at[MF_MAX_RANK])
{
    int64_t i = 0;
    for (int32_t d = 0; d < s.rank; d++)
        i = i * s.dim[d] + at[d];
    return i;
}

/* ---- sums ---- */

/* Adds each element of x, times scale, to the element of the result that contains its sum. */
static void add_up(ot_run *r, unsigned axes, double scale)
{
    mf_shape x = r->in[0].shape, kept = mf_shape0();
    for (int32_t d = 0; d < x.rank; d++)
        if (!(axes >> d & 1)) kept.dim[kept.rank++] = x.dim[d];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
    for (int64_t i = 0; i < r->in[0].count; i++) {
        int64_t at[MF_MAX_RANK], to[MF_MAX_RANK], n = 0;
        place(x, i, at);
        for (int32_t d = 0; d < x.rank; d++)
            if (!(axes >> d & 1)) to[n++] = at[d];
        r->out[0].want[index_of(kept, to)] += scale * r->in[0].f[i];
    }
}

static void right_sum(ot_run *r)
{
    add_up(r, (unsigned)r->attr->i[0], 1);
}

static void right_mean(ot_run *r)
{
    add_up(r, (unsigned)r->attr->i[0], (double)r->out[0].count / (double)r->in[0].count);
}

static void right_sum_to(ot_run *r)
{
    mf_shape x = r->in[0].shape, y = r->out[0].shape;
    unsigned axes = 0;
    for (int32_t d = 0; d < x.rank; d++)
        if (d < x.rank - y.rank || y.dim[d - (x.rank - y.rank)] == 1) axes |= 1u << d;
    add_up(r, axes, 1);
}

/* ---- changes of order: each element of the result has one source element ---- */

static double value(const ot_run *r, int in, int64_t i, bool is_int)
{
    return is_int ? (double)r->in[in].i[i] : (double)r->in[in].f[i];
}

static void right_reshape(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = r->in[0].f[i];
}

static void broadcast(ot_run *r, bool is_int)
{
    mf_shape x = r->in[0].shape, y = r->out[0].shape;
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t at[MF_MAX_RANK], from[MF_MAX_RANK];
        place(y, i, at);
        for (int32_t d = 0; d < x.rank; d++)
            from[d] = x.dim[d] == 1 ? 0 : at[d + y.rank - x.rank];
        r->out[0].want[i] = value(r, 0, index_of(x, from), is_int);
    }
}
static void right_broadcast(ot_run *r)
{
    broadcast(r, false);
}
static void right_broadcast_int(ot_run *r)
{
    broadcast(r, true);
}

static void right_transpose(ot_run *r)
{
    mf_shape x = r->in[0].shape, y = r->out[0].shape;
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t at[MF_MAX_RANK], from[MF_MAX_RANK];
        place(y, i, at);
        for (int32_t d = 0; d < x.rank; d++)
            from[r->attr->i[d]] = at[d];
        r->out[0].want[i] = r->in[0].f[index_of(x, from)];
    }
}

static void right_slice(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t at[MF_MAX_RANK];
        place(r->out[0].shape, i, at);
        at[r->attr->i[0]] += r->attr->i[1];
        r->out[0].want[i] = r->in[0].f[index_of(r->in[0].shape, at)];
    }
}

static void right_pad(ot_run *r)
{
    mf_shape x = r->in[0].shape;
    int64_t axis = r->attr->i[0];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t at[MF_MAX_RANK];
        place(r->out[0].shape, i, at);
        at[axis] -= r->attr->i[1];
        bool inside = at[axis] >= 0 && at[axis] < x.dim[axis];
        r->out[0].want[i] = inside ? r->in[0].f[index_of(x, at)] : 0;
    }
}

static void concat(ot_run *r, bool is_int)
{
    int64_t axis = r->attr->i[0];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t at[MF_MAX_RANK];
        int in = 0;
        place(r->out[0].shape, i, at);
        while (at[axis] >= r->in[in].shape.dim[axis])
            at[axis] -= r->in[in++].shape.dim[axis];
        r->out[0].want[i] = value(r, in, index_of(r->in[in].shape, at), is_int);
    }
}
static void right_concat(ot_run *r)
{
    concat(r, false);
}
static void right_concat_int(ot_run *r)
{
    concat(r, true);
}

/* ---- rows ---- */

static double sum_exp(const float *row, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += exp(row[j]);
    return sum;
}

static void right_softmax(ot_run *r)
{
    int64_t n = last(r->in[0].shape);
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = exp(r->in[0].f[i]) / sum_exp(r->in[0].f + i / n * n, n);
}

static void right_log_softmax(ot_run *r)
{
    int64_t n = last(r->in[0].shape);
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = r->in[0].f[i] - log(sum_exp(r->in[0].f + i / n * n, n));
}

static void right_logsumexp(ot_run *r)
{
    int64_t n = last(r->in[0].shape);
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = log(sum_exp(r->in[0].f + i * n, n));
}

static void right_row_max(ot_run *r)
{
    int64_t n = last(r->in[0].shape);
    for (int64_t i = 0; i < r->out[0].count; i++) {
        r->out[0].want[i] = r->in[0].f[i * n];
        for (int64_t j = 1; j < n; j++)
            r->out[0].want[i] = fmax(r->out[0].want[i], r->in[0].f[i * n + j]);
    }
}

#define AXES(bits, keep)                                                                       \
    {                                                                                          \
        .i = {(bits), (keep) }                                                                 \
    }
#define SUMS(name)                                                                             \
    {.op = #name, .in = {OT_F(5, 7)}, .attr = AXES(1, 0), .right = right_##name},              \
        {.op = #name, .in = {OT_F(5, 7)}, .attr = AXES(2, 1), .right = right_##name},          \
        {.op = #name, .in = {OT_F(3, 4, 5)}, .attr = AXES(5, 0), .right = right_##name},       \
        {.op = #name, .in = {OT_F(3, 4, 5, 2)}, .attr = AXES(10, 1), .right = right_##name},   \
        {.op = #name, .in = {OT_F(3, 1, 5)}, .attr = AXES(2, 0), .right = right_##name},       \
        {.op = #name, .in = {OT_F(3, 4)}, .attr = AXES(0, 0), .right = right_##name},          \
        {.op = #name, .in = {OT_F(9, 13)}, .attr = AXES(15, 0), .right = right_##name},        \
        {.op = #name, .in = {OT_F(9, 3000, 3)}, .attr = AXES(15, 1), .right = right_##name},   \
        {.op = #name, .in = {OT_F(3000, 40)}, .attr = AXES(1, 0), .right = right_##name},      \
        {.op = #name,                                                                          \
         .in = {OT_F(2, 1200, 3, 20)},                                                         \
         .attr = AXES(5, 0),                                                                   \
         .right = right_##name},                                                               \
        {.op = #name, .in = {OT_F(2, 600, 2, 9)}, .attr = AXES(10, 0), .right = right_##name}, \
        {.op = #name, .in = {OT_SCALAR}, .attr = AXES(15, 0), .right = right_##name},          \
        {.op = #name,                                                                          \
         .in = {OT_F(3, 4)},                                                                   \
         .attr = AXES(4, 0),                                                                   \
         .refuse = "expected axes below the rank 2, found the bits 0x4"},                      \
        {.op = #name,                                                                          \
         .in = {OT_F(3, 4)},                                                                   \
         .attr = AXES(16, 0),                                                                  \
         .refuse = "expected axes in 0 .. 15, found 16"},                                      \
    {                                                                                          \
        .op = #name, .in = {OT_F(3, 4)}, .attr = AXES(1, 2),                                   \
        .refuse = "expected keep in 0 .. 1"                                                    \
    }
#define TO(...)                                                                                \
    {                                                                                          \
        .i = { __VA_ARGS__ }                                                                   \
    }
#define ROWS(name)                                                                             \
    {.op = #name, .in = {OT_DISTINCT(4, 5)}, .right = right_##name},                           \
        {.op = #name, .in = {OT_DISTINCT(2, 3, 17)}, .right = right_##name},                   \
        {.op = #name, .in = {OT_F(5, 1)}, .right = right_##name},                              \
        {.op = #name, .in = {OT_F(9)}, .right = right_##name},                                 \
        {.op = #name, .in = {OT_F(300, 8)}, .right = right_##name},                            \
    {                                                                                          \
        .op = #name, .in = {OT_SCALAR}, .refuse = "expected x of rank 1 to 4, found scalar"    \
    }

const mf_op_row mf_op_cases_shape[] = {
    SUMS(sum),
    {.op = "sum", .in = {OT_F(40, 700)}, .attr = AXES(3, 0), .right = right_sum, .exact = true},
    {.op = "sum", .in = {OT_F(2, -1, 3)}, .attr = AXES(2, 0), .right = right_sum, .still = 1},
    SUMS(mean),
    {.op = "sum_to",
     .in = {OT_F(4, 3, 5)},
     .attr = TO(2, 3, 1),
     .right = right_sum_to,
     .exact = true},
    {.op = "sum_to", .in = {OT_F(4, 3, 5)}, .attr = TO(3, 1, 3, 5), .right = right_sum_to},
    {.op = "sum_to", .in = {OT_F(4, 3, 5)}, .attr = TO(0), .right = right_sum_to},
    {.op = "sum_to", .in = {OT_F(4, 3, 5)}, .attr = TO(3, 4, 3, 5), .right = right_sum_to},
    {.op = "sum_to",
     .in = {OT_F(2, 3, 4, 5)},
     .attr = TO(4, 1, 3, 1, 5),
     .right = right_sum_to},
    {.op = "sum_to",
     .in = {OT_F(4, 3)},
     .attr = TO(1, 4),
     .refuse = "expected x of a shape that [4] broadcasts to, found [4,3]"},
    {.op = "sum_to", .in = {OT_F(3)}, .attr = TO(2, 1, 3), .refuse = "expected x of a shape"},
    {.op = "sum_to", .in = {OT_F(3)}, .attr = TO(5), .refuse = "expected rank in 0 .. 4"},

    {.op = "reshape",
     .in = {OT_F(4, 6)},
     .attr = TO(3, 2, 3, 4),
     .right = right_reshape,
     .exact = true,
     .any_type = true},
    {.op = "reshape", .in = {OT_F(1)}, .attr = TO(0), .right = right_reshape, .any_type = true},
    {.op = "reshape",
     .in = {OT_F(4, 6)},
     .attr = TO(2, 5, 5),
     .refuse = "expected a shape of 24 elements as [4,6], found [5,5]"},
    {.op = "reshape",
     .in = {OT_F(4)},
     .attr = TO(2, -2, -2),
     .refuse = "expected dimension in 0 .. 2147483647, found -2"},
    {.op = "reshape",
     .in = {OT_NO},
     .attr = TO(1, 4),
     .refuse = "expected input x, found none"},
    {.op = "stop_gradient", .in = {OT_F(4, 6)}, .right = right_reshape, .any_type = true},
    {.op = "stop_gradient", .in = {OT_NO}, .refuse = "expected input x, found none"},

    {.op = "broadcast",
     .in = {OT_F(3, 1)},
     .attr = TO(3, 2, 3, 5),
     .right = right_broadcast,
     .exact = true},
    {.op = "broadcast",
     .in = {OT_SCALAR},
     .attr = TO(2, 130, 170),
     .right = right_broadcast,
     .exact = true},
    {.op = "broadcast", .in = {OT_F(4, 5)}, .attr = TO(2, 4, 5), .right = right_broadcast},
    {.op = "broadcast", .in = {OT_F(9)}, .attr = TO(4, 2, 7, 3, 9), .right = right_broadcast},
    {.op = "broadcast",
     .in = {OT_I(-9, 9, 4, 1)},
     .attr = TO(2, 4, 30),
     .right = right_broadcast_int,
     .exact = true},
    {.op = "broadcast",
     .in = {OT_F(3, 2)},
     .attr = TO(2, 3, 4),
     .refuse = "expected x of a shape that broadcasts to [3,4], found [3,2]"},
    {.op = "broadcast",
     .in = {OT_F(3, 2)},
     .attr = TO(1, 2),
     .refuse = "expected x of a shape"},

    {.op = "transpose",
     .in = {OT_F(5, 7)},
     .attr = TO(1, 0),
     .right = right_transpose,
     .exact = true},
    {.op = "transpose",
     .in = {OT_F(2, 3, 4, 5)},
     .attr = TO(0, 2, 1, 3),
     .right = right_transpose,
     .exact = true},
    {.op = "transpose",
     .in = {OT_F(2, 3, 4, 5)},
     .attr = TO(3, 0, 2, 1),
     .right = right_transpose},
    {.op = "transpose", .in = {OT_F(200, 130)}, .attr = TO(1, 0), .right = right_transpose},
    {.op = "transpose", .in = {OT_F(6)}, .attr = TO(0), .right = right_transpose},
    {.op = "transpose",
     .in = {OT_F(2, 3)},
     .attr = TO(0, 0),
     .refuse = "expected a permutation of 0 .. 1, found 0 at place 1"},
    {.op = "transpose", .in = {OT_F(2, 3)}, .attr = TO(0, 2), .refuse = "found 2 at place 1"},

    {.op = "slice",
     .in = {OT_F(5, 7)},
     .attr = TO(0, 1, 3),
     .right = right_slice,
     .exact = true},
    {.op = "slice", .in = {OT_F(5, 7)}, .attr = TO(1, 2, 5), .right = right_slice},
    {.op = "slice", .in = {OT_F(3, 4, 5)}, .attr = TO(1, 3, 1), .right = right_slice},
    {.op = "slice", .in = {OT_F(300, 80)}, .attr = TO(1, 40, 40), .right = right_slice},
    {.op = "slice",
     .in = {OT_F(5, 7)},
     .attr = TO(1, 6, 2),
     .refuse = "expected elements within 0 .. 6 of axis 1, found 2 from 6"},
    {.op = "slice", .in = {OT_F(5, 7)}, .attr = TO(1, -1, 2), .refuse = "found 2 from -1"},
    {.op = "slice",
     .in = {OT_F(5, 7)},
     .attr = TO(2, 0, 2),
     .refuse = "expected axis in 0 .. 1, found 2"},
    {.op = "pad", .in = {OT_F(5, 7)}, .attr = TO(0, 1, 9), .right = right_pad, .exact = true},
    {.op = "pad", .in = {OT_F(3, 4, 5)}, .attr = TO(1, 3, 7), .right = right_pad},
    {.op = "pad", .in = {OT_F(5, 7)}, .attr = TO(1, 0, 7), .right = right_pad},
    {.op = "pad",
     .in = {OT_F(5, 7)},
     .attr = TO(0, 1, 5),
     .refuse = "expected start in 0 .. 0, found 1"},
    {.op = "pad", .in = {OT_F(5, 7)}, .attr = TO(0, 1, 4), .refuse = "expected total in 5 .."},
    {.op = "concat",
     .in = {OT_F(2, 5), OT_F(3, 5), OT_F(1, 5)},
     .attr = TO(0),
     .right = right_concat,
     .exact = true,
     .ragged = true},
    {.op = "concat",
     .in = {OT_F(3, 2, 5), OT_F(3, 4, 5)},
     .attr = TO(1),
     .right = right_concat,
     .ragged = true},
    {.op = "concat", .in = {OT_F(3, 5)}, .attr = TO(1), .right = right_concat, .ragged = true},
    {.op = "concat",
     .in = {OT_F(200, 50), OT_F(200, 70)},
     .attr = TO(1),
     .right = right_concat,
     .ragged = true},
    {.op = "concat",
     .in = {OT_I(0, 9, 4), OT_I(0, 9, 5)},
     .attr = TO(0),
     .right = right_concat_int,
     .exact = true,
     .ragged = true},
    {.op = "concat",
     .in = {OT_F(2, 5), OT_F(3, 4)},
     .attr = TO(0),
     .refuse = "expected input 1 as [2,5] but for axis 0, found [3,4]"},
    {.op = "concat",
     .in = {OT_F(2, 5), OT_I(0, 1, 2, 5)},
     .attr = TO(0),
     .refuse = "expected x of type f32, found i32"},
    {.op = "concat",
     .in = {{.kind = OT_END}},
     .refuse = "expected at least 1 input, found none"},

    ROWS(softmax),
    {.op = "softmax", .in = {OT_F(6, 3000)}, .right = right_softmax, .tol = 3e-6},
    ROWS(log_softmax),
    {.op = "log_softmax", .in = {OT_F(6, 3000)}, .right = right_log_softmax, .tol = 3e-6},
    ROWS(logsumexp),
    {.op = "logsumexp", .in = {OT_F(6, 3000)}, .right = right_logsumexp, .tol = 3e-6},
    ROWS(row_max),
    {.op = "row_max", .in = {OT_DISTINCT(6, 3000)}, .right = right_row_max},
    {.op = "row_max", .in = {OT_DISTINCT(40, 6)}, .right = right_row_max, .exact = true},
    {.op = "row_max", .in = {OT_F(4, -1)}, .refuse = "expected rows of at least 1 element"},
    {0}};
