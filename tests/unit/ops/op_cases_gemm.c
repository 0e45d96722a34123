/* Cases of check_ops: gemms, plain and grouped. */
#include <math.h>

#include "op_case.h"

static double at(const ot_run *r, int in, int64_t row, int64_t width, int64_t column)
{
    return r->in[in].f[row * width + column];
}

static void right_linear(ot_run *r)
{
    int64_t n = r->in[1].shape.dim[0], k = r->in[1].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        double sum = r->in[2].f ? r->in[2].f[i % n] : 0;
        for (int64_t p = 0; p < k; p++)
            sum += at(r, 0, i / n, k, p) * at(r, 1, i % n, k, p);
        r->out[0].want[i] = sum;
    }
}

static void right_linear_dx(ot_run *r)
{
    int64_t k = r->in[1].shape.dim[0], n = r->in[1].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += at(r, 0, i / n, k, p) * at(r, 1, p, n, i % n);
        r->out[0].want[i] = sum;
    }
}

/* Element [row, column] of matrix b in the last two dimensions of input `in`, transposed if the
 * attribute says so. */
static double of_matrix(const ot_run *r, int in, int64_t b, int64_t row, int64_t column)
{
    mf_shape s = r->in[in].shape;
    int64_t h = s.dim[s.rank - 2], w = s.dim[s.rank - 1];
    return r->in[in].f[b * h * w + (r->attr->i[in] ? column * w + row : row * w + column)];
}

static void right_matmul(ot_run *r)
{
    mf_shape a = r->in[0].shape, y = r->out[0].shape;
    int64_t m = y.dim[y.rank - 2], n = y.dim[y.rank - 1];
    int64_t k = a.dim[r->attr->i[0] ? a.rank - 2 : a.rank - 1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += of_matrix(r, 0, i / (m * n), i / n % m, p) *
                   of_matrix(r, 1, i / (m * n), p, i % n);
        r->out[0].want[i] = r->attr->f[0] * sum;
    }
}

/* The group of row i; -1 before the first group and after the last group. */
static int64_t group_of(const ot_run *r, int in, int64_t i)
{
    for (int64_t e = 0; e + 1 < r->in[in].count; e++)
        if (r->in[in].i[e] <= i && i < r->in[in].i[e + 1]) return e;
    return -1;
}

/* The stored row that the gemm reads as row i, through the input `list`. This input may
 * be missing. */
static int64_t row_of(const ot_run *r, int list, int64_t i)
{
    return r->n_in > list && r->in[list].i ? r->in[list].i[i] : i;
}

static void right_grouped(ot_run *r, bool transposed)
{
    mf_shape w = r->in[1].shape;
    int64_t n_out = w.dim[1], n_in = w.dim[2];
    int64_t n = transposed ? n_in : n_out, k = transposed ? n_out : n_in;
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t e = group_of(r, 2, i / n), row = transposed ? row_of(r, 3, i / n) : i / n;
        double sum =
            !transposed && e >= 0 && r->n_in >= 4 && r->in[3].f ? r->in[3].f[e * n + i % n] : 0;
        for (int64_t p = 0; p < k && e >= 0 && row >= 0; p++) {
            int64_t o = transposed ? p : i % n, j = transposed ? i % n : p;
            sum += at(r, 0, row, k, p) * r->in[1].f[(e * n_out + o) * n_in + j];
        }
        r->out[0].want[i] = sum;
    }
}

static void right_grouped_linear(ot_run *r)
{
    right_grouped(r, false);
}

static void right_grouped_swiglu(ot_run *r)
{
    const int64_t n = r->out[1].shape.dim[1];
    right_grouped(r, false);
    for (int64_t i = 0; i < r->out[1].count; i++) {
        const double *h = r->out[0].want + i / n * 2 * n + i % n;
        const double gate = r->in[4].f ? (double)r->in[4].f[i / n] : 1;
        r->out[1].want[i] = gate * h[0] / (1 + exp(-h[0])) * h[n];
    }
}

static void right_grouped_dx(ot_run *r)
{
    right_grouped(r, true);
}

static void right_weight_grad(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1], k = r->in[1].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
    for (int64_t row = 0; row < r->in[2].i[r->in[2].count - 1]; row++) {
        const int64_t a = row_of(r, 3, row), b = row_of(r, 4, row);
        for (int64_t i = 0; i < n * k && a >= 0 && b >= 0 && group_of(r, 2, row) >= 0; i++)
            r->out[0].want[group_of(r, 2, row) * n * k + i] +=
                at(r, 0, a, n, i / k) * at(r, 1, b, k, i % k);
    }
}

static void right_group_sum(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
    for (int64_t i = 0; i < r->in[0].count; i++)
        if (group_of(r, 1, i / n) >= 0)
            r->out[0].want[group_of(r, 1, i / n) * n + i % n] += r->in[0].f[i];
}

static const int32_t falling[] = {0, 3, 2, 5}, too_far[] = {0, 3, 4, 8},
                     early[] = {-1, 3, 4, 5};

const mf_op_row mf_op_cases_gemm[] = {
    {.op = "linear",
     .in = {OT_F(5, 7), OT_F(3, 7), OT_NO},
     .right = right_linear,
     .exact = true},
    {.op = "linear",
     .in = {OT_F(2, 3, 4), OT_F(6, 4), OT_F(6)},
     .right = right_linear,
     .exact = true},
    {.op = "linear",
     .in = {OT_F(9), OT_F(6, 9), OT_F(6)},
     .right = right_linear,
     .exact = true},
    {.op = "linear",
     .in = {OT_F(70, 90), OT_F(140, 90), OT_F(140)},
     .right = right_linear,
     .exact = true},
    {.op = "linear", .in = {OT_F(5, 7), OT_F(3, 8), OT_NO}, .refuse = "in = 7, found [3,8]"},
    {.op = "linear",
     .in = {OT_F(5, 7), OT_F(3, 7), OT_F(7)},
     .refuse = "expected b of shape [3]"},
    {.op = "linear", .in = {OT_F(5, 7), OT_F(7), OT_NO}, .refuse = "expected w of rank 2"},

    {.op = "linear_dx",
     .in = {OT_F(5, 3), OT_F(3, 7)},
     .right = right_linear_dx,
     .exact = true},
    {.op = "linear_dx",
     .in = {OT_F(70, 140), OT_F(140, 90)},
     .right = right_linear_dx,
     .exact = true},
    {.op = "linear_dx", .in = {OT_F(5, 4), OT_F(3, 7)}, .refuse = "out = 4, found [3,7]"},

    {.op = "matmul",
     .in = {OT_F(6, 6), OT_F(6, 6)},
     .attr = {.i = {2, 0}, .f = {1}},
     .refuse = "expected transpose of a in 0 .. 1, found 2"},
    {.op = "matmul",
     .in = {OT_F(6, 6), OT_F(6, 6)},
     .attr = {.i = {0, -1}, .f = {1}},
     .refuse = "expected transpose of b in 0 .. 1, found -1"},
    {.op = "matmul",
     .in = {OT_F(4, 6), OT_F(6, 5)},
     .attr = {.f = {1}},
     .right = right_matmul,
     .exact = true},
    {.op = "matmul",
     .in = {OT_F(6, 4), OT_F(6, 5)},
     .attr = {.i = {1, 0}, .f = {-2}},
     .right = right_matmul,
     .exact = true},
    {.op = "matmul",
     .in = {OT_F(4, 6), OT_F(5, 6)},
     .attr = {.i = {0, 1}, .f = {0.5}},
     .right = right_matmul,
     .exact = true},
    {.op = "matmul",
     .in = {OT_F(6, 4), OT_F(5, 6)},
     .attr = {.i = {1, 1}, .f = {1}},
     .right = right_matmul,
     .exact = true},
    {.op = "matmul",
     .in = {OT_F(3, 4, 6), OT_F(3, 6, 5)},
     .attr = {.f = {2}},
     .right = right_matmul,
     .exact = true},
    {.op = "matmul",
     .in = {OT_F(3, 6, 4), OT_F(3, 5, 6)},
     .attr = {.i = {1, 1}, .f = {1}},
     .right = right_matmul,
     .exact = true},
    {.op = "matmul", .in = {OT_F(4, 6), OT_F(5, 6)}, .refuse = "expected one inner dimension"},
    {.op = "matmul", .in = {OT_F(2, 4, 6), OT_F(3, 6, 5)}, .refuse = "one first dimension"},
    {.op = "matmul", .in = {OT_F(4, 6), OT_F(2, 6, 5)}, .refuse = "expected b of rank 2"},

    {.op = "grouped_linear",
     .in = {OT_F(11, 5), OT_F(3, 4, 5), OT_GROUPS(3, 11), OT_F(3, 4)},
     .right = right_grouped_linear,
     .exact = true},
    {.op = "grouped_linear",
     .in = {OT_F(90, 33), OT_F(4, 70, 33), OT_GROUPS(4, 90), OT_NO},
     .right = right_grouped_linear,
     .exact = true},
    {.op = "grouped_linear",
     .in = {OT_F(11, 5), OT_F(2, 4, 5), OT_PART(2, 3, 11), OT_F(2, 4)},
     .right = right_grouped_linear,
     .exact = true},
    {.op = "grouped_linear",
     .in = {OT_F(190, 33), OT_F(4, 70, 33), OT_PART(4, 101, 190), OT_NO},
     .right = right_grouped_linear,
     .exact = true},
    {.op = "grouped_linear",
     .in = {OT_F(6, 5), OT_F(3, 4, 5), OT_GROUPS(2, 6), OT_NO},
     .refuse = "expected w [2,out,5]"},
    {.op = "grouped_linear",
     .in = {OT_F(6, 5), OT_F(3, 4, 5), OT_GROUPS(3, 6), OT_F(3, 5)},
     .refuse = "expected b of shape [3,4]"},
    {.op = "grouped_linear",
     .in = {OT_F(5, 2), OT_F(3, 4, 2), OT_INDICES(falling, 4), OT_NO},
     .fails = MF_EPLUGIN,
     .refuse = "found offset[2] = 2"},
    {.op = "grouped_linear",
     .in = {OT_F(5, 2), OT_F(3, 4, 2), OT_INDICES(too_far, 4), OT_NO},
     .fails = MF_EPLUGIN,
     .refuse = "at most 5 rows, found offset[3] = 8"},
    {.op = "grouped_linear",
     .in = {OT_F(5, 2), OT_F(3, 4, 2), OT_INDICES(early, 4), OT_NO},
     .fails = MF_EPLUGIN,
     .refuse = "found offset[0] = -1"},

    {.op = "grouped_swiglu",
     .in = {OT_F(11, 5), OT_F(3, 4, 5), OT_GROUPS(3, 11), OT_F(3, 4), OT_F(11, 1)},
     .n_out = 2,
     .right = right_grouped_swiglu},
    {.op = "grouped_swiglu",
     .in = {OT_F(60, 33), OT_F(4, 70, 33), OT_PART(4, 41, 60), OT_NO, OT_NO},
     .n_out = 2,
     .right = right_grouped_swiglu},
    {.op = "grouped_swiglu",
     .in = {OT_F(6, 5), OT_F(3, 3, 5), OT_GROUPS(3, 6), OT_NO, OT_NO},
     .n_out = 2,
     .refuse = "found 2n = 3"},
    {.op = "grouped_swiglu",
     .in = {OT_F(6, 5), OT_F(3, 4, 5), OT_GROUPS(3, 6), OT_NO, OT_F(5, 1)},
     .n_out = 2,
     .refuse = "expected gate of shape [6,1]"},
    {.op = "grouped_linear_dx",
     .in = {OT_F(11, 4), OT_F(3, 4, 5), OT_GROUPS(3, 11)},
     .right = right_grouped_dx,
     .exact = true},
    {.op = "grouped_linear_dx",
     .in = {OT_F(11, 4), OT_F(2, 4, 5), OT_PART(2, 4, 11)},
     .right = right_grouped_dx,
     .exact = true},
    {.op = "grouped_linear_dx",
     .in = {OT_F(7, 4), OT_F(3, 4, 5), OT_GROUPS(3, 11), OT_I(-1, 6, 11)},
     .right = right_grouped_dx,
     .exact = true},
    {.op = "grouped_linear_dx",
     .in = {OT_F(7, 4), OT_F(3, 4, 5), OT_GROUPS(3, 11), OT_I(7, 7, 11)},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected row in -1 .. 6, found 7"},
    {.op = "grouped_linear_dx",
     .in = {OT_F(11, 5), OT_F(3, 4, 5), OT_GROUPS(3, 11)},
     .refuse = "expected w [3,5,in]"},

    {.op = "grouped_weight_grad",
     .in = {OT_F(11, 4), OT_F(11, 5), OT_GROUPS(3, 11)},
     .right = right_weight_grad,
     .exact = true},
    {.op = "grouped_weight_grad",
     .in = {OT_F(11, 4), OT_F(11, 5), OT_PART(3, 5, 11)},
     .right = right_weight_grad,
     .exact = true},
    {.op = "grouped_weight_grad",
     .in = {OT_F(7, 4), OT_F(11, 5), OT_GROUPS(3, 11), OT_I(-1, 6, 11), OT_NO},
     .right = right_weight_grad,
     .exact = true},
    {.op = "grouped_weight_grad",
     .in = {OT_F(7, 4), OT_F(9, 5), OT_GROUPS(3, 11), OT_I(-1, 6, 11), OT_I(-1, 8, 11)},
     .right = right_weight_grad,
     .exact = true},
    {.op = "grouped_weight_grad",
     .in = {OT_F(11, 4), OT_F(10, 5), OT_GROUPS(3, 11)},
     .refuse = "expected b of 11 rows"},

    {.op = "group_sum",
     .in = {OT_F(11, 4), OT_GROUPS(3, 11)},
     .right = right_group_sum,
     .exact = true},
    {.op = "group_sum",
     .in = {OT_F(11, 4), OT_PART(3, 2, 11)},
     .right = right_group_sum,
     .exact = true},
    {.op = "group_sum", .in = {OT_F(11, 4), OT_GROUPS(0, 11)}, .refuse = "E >= 1"},
    {0},
};
