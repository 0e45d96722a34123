/* Cases of check_ops: indices and random numbers. Expected random numbers come
 * from base/rng. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "op_case.h"

static void zeros(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
}

/* ---- rows ---- */

static void right_gather(ot_run *r)
{
    int64_t d = r->in[0].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int32_t from = r->in[1].i[i / d];
        r->out[0].want[i] = from < 0 ? 0 : r->in[0].f[from * d + i % d];
    }
}

static void right_scatter(ot_run *r)
{
    int64_t d = r->in[0].shape.dim[1];
    zeros(r);
    for (int64_t i = 0; i < r->in[0].count; i++) {
        int32_t to = r->in[1].i[i / d];
        if (to >= 0) r->out[0].want[to * d + i % d] += r->in[0].f[i];
    }
}

static void right_empty(ot_run *r)
{
    ck_assert_int_eq(r->out[0].count, 0);
    r->judged = true;
}

/* ---- elements of rows ---- */

static void right_take(ot_run *r)
{
    int64_t width = r->in[0].shape.dim[1], k = r->in[1].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int32_t from = r->in[1].i[i];
        r->out[0].want[i] = from < 0 ? 0 : r->in[0].f[i / k * width + from];
    }
}

static void right_put(ot_run *r)
{
    int64_t width = r->attr->i[0], k = r->in[1].shape.dim[1];
    zeros(r);
    for (int64_t i = 0; i < r->in[0].count; i++)
        if (r->in[1].i[i] >= 0) r->out[0].want[i / k * width + r->in[1].i[i]] += r->in[0].f[i];
}

/* The rank of element c in its row: the number of larger elements and of equal elements with a
 * lower index. For a NaN, all numbers count as larger. */
static int64_t rank_of(const float *row, int64_t n, int64_t c)
{
    int64_t rank = 0;
    for (int64_t j = 0; j < n; j++) {
        bool nan_j = isnan(row[j]), nan_c = isnan(row[c]);
        if (nan_j != nan_c)
            rank += nan_c;
        else if (nan_j || row[j] == row[c])
            rank += j < c;
        else
            rank += row[j] > row[c];
    }
    return rank;
}

static void right_topk(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1], k = r->attr->i[0];
    for (int64_t i = 0; i < r->in[0].count; i++) {
        int64_t rank = rank_of(r->in[0].f + i / n * n, n, i % n);
        if (rank < k) r->out[0].want[i / n * k + rank] = (double)(i % n);
    }
}

static const float ties[] = {1,     3, 3, 2, NAN, 5,   INFINITY, -INFINITY, 0,   0,   0,   0,
                             -0.0f, 0, 0, 0, NAN, NAN, NAN,      -7,        NAN, NAN, NAN, NAN};

/* ---- counts ---- */

static void right_one_hot(ot_run *r)
{
    int64_t n = r->attr->i[0];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = r->in[0].i[i / n] == i % n;
}

static void right_bincount(ot_run *r)
{
    zeros(r);
    for (int64_t i = 0; i < r->in[0].count; i++)
        if (r->in[0].i[i] >= 0)
            r->out[0].want[r->in[0].i[i]] += r->in[1].f ? (double)r->in[1].f[i] : 1;
}

/* Computes bins from their bounds, without a division. */
static void right_score_bins(ot_run *r)
{
    const int64_t E = r->in[0].shape.dim[1], bins = r->attr->i[0];
    double least = 0, most = 0;
    zeros(r);
    for (int64_t e = 0; r->in[2].f && e < E; e++) {
        if (e == 0 || r->in[2].f[e] < least) least = r->in[2].f[e];
        if (e == 0 || r->in[2].f[e] > most) most = r->in[2].f[e];
    }
    const double lo = r->attr->f[0] + least, hi = r->attr->f[1] + most;
    for (int64_t i = 0; i < r->in[0].count; i++) {
        int64_t bin = 0;
        if (r->in[1].f && r->in[1].f[i / E] == 0) continue;
        while (bin < bins - 1 &&
               r->in[0].f[i] >= lo + (hi - lo) * (double)(bin + 1) / (double)bins)
            bin++;
        r->out[0].want[i % E * bins + bin]++;
    }
}

/* Scores that six tokens of three experts require (k = 1) without a bias: the (k+1)-th largest
 * score of a token minus each of its scores. */
static const float required[] = {-.4f, 0, .4f, -.2f,  0,    .3f, -.3f,  .2f, 0,
                                 -.6f, 0, .1f, -.05f, .05f, 0,   -.25f, .5f, 0};
static const float odd_scores[] = {NAN, -INFINITY, INFINITY, 1, -1, 0, 1e30f, -1e30f};
static const float some_rows[] = {1, 0, 1, 0.5f};

/* ---- random numbers: base/rng defines them, for the stream of a graph's first random
 * node ---- */

static const char *const first_stream = "#0";

static void right_random(ot_run *r, bool normal)
{
    uint64_t stream = mf_rng_stream(first_stream);
    size_t n = (size_t)r->out[0].count;
    float *x = malloc(n * sizeof *x + 1);
    ck_assert_ptr_nonnull(x);
    if (normal)
        mf_rng_fill_normal(r->seed, stream, r->step, x, n);
    else
        mf_rng_uniforms(r->seed, stream, r->step, 0, x, n);
    for (size_t i = 0; i < n; i++) {
        r->out[0].want[i] = x[i];
        ck_assert_msg(r->out[0].f[i] == x[i], "other bits than base/rng at %d", (int)i);
    }
    free(x);
}

static void right_uniform(ot_run *r)
{
    right_random(r, false);
}
static void right_gaussian(ot_run *r)
{
    right_random(r, true);
}

static void right_dropout(ot_run *r)
{
    double p = r->attr->f[0];
    uint64_t stream = mf_rng_stream(first_stream);
    for (int64_t i = 0; i < r->out[0].count; i++) {
        bool kept = mf_rng_uniform(r->seed, stream, r->step, (uint64_t)i) >= (float)p;
        r->out[0].want[i] = kept ? r->in[0].f[i] / (1 - p) : 0;
    }
}

#define N(...)                                                                                 \
    {                                                                                          \
        .i = { __VA_ARGS__ }                                                                   \
    }

const mf_op_row mf_op_cases_index[] = {
    {.op = "gather_rows",
     .in = {OT_F(6, 5), OT_I(-1, 5, 20)},
     .right = right_gather,
     .exact = true},
    {.op = "gather_rows",
     .in = {OT_F(90, 130), OT_I(-3, 89, 200)},
     .right = right_gather,
     .exact = true},
    {.op = "gather_rows", .in = {OT_F(6, 2), OT_I(0, 5, -1)}, .right = right_empty},
    {.op = "gather_rows",
     .in = {OT_F(6, 5), OT_I(6, 6, 3)},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected index in -1 .. 5, found 6"},
    {.op = "gather_rows",
     .in = {OT_F(6), OT_I(0, 5, 3)},
     .refuse = "expected x of rank 2, found [6]"},
    {.op = "gather_rows",
     .in = {OT_F(6, 5), OT_F(3)},
     .refuse = "expected index of type i32, found f32"},
    {.op = "gather_rows",
     .in = {OT_F(6, 5), OT_NO},
     .refuse = "expected input index, found none"},

    {.op = "scatter_rows",
     .in = {OT_F(20, 5), OT_I(-1, 5, 20)},
     .attr = N(6),
     .right = right_scatter,
     .exact = true},
    {.op = "scatter_rows",
     .in = {OT_F(300, 70), OT_I(-1, 30, 300)},
     .attr = N(40),
     .right = right_scatter,
     .tol = 2e-6},
    {.op = "scatter_rows",
     .in = {OT_F(3, 2), OT_I(6, 9, 3)},
     .attr = N(6),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected index in -1 .. 5, found"},
    {.op = "scatter_rows",
     .in = {OT_F(3, 2), OT_I(0, 5, 4)},
     .attr = N(6),
     .refuse = "expected index of shape [3], found [4]"},
    {.op = "scatter_rows",
     .in = {OT_F(3, 2), OT_I(0, 5, 3)},
     .attr = N(-1),
     .refuse = "expected number of rows in 0 .."},

    {.op = "take", .in = {OT_F(7, 5), OT_I(-1, 4, 7, 3)}, .right = right_take, .exact = true},
    {.op = "take", .in = {OT_F(9000, 4), OT_I(0, 3, 9000, 2)}, .right = right_take},
    {.op = "take",
     .in = {OT_F(7, 5), OT_I(5, 5, 7, 3)},
     .fails = MF_EPLUGIN,
     .refuse = "expected index in -1 .. 4, found 5"},
    {.op = "take",
     .in = {OT_F(7, 5), OT_I(0, 4, 6, 3)},
     .refuse = "expected index of shape [7,3], found [6,3]"},
    {.op = "put",
     .in = {OT_F(7, 3), OT_I(-1, 4, 7, 3)},
     .attr = N(5),
     .right = right_put,
     .exact = true},
    {.op = "put", .in = {OT_F(9000, 2), OT_I(0, 3, 9000, 2)}, .attr = N(4), .right = right_put},
    {.op = "put",
     .in = {OT_F(7, 3), OT_I(5, 9, 7, 3)},
     .attr = N(5),
     .fails = MF_EPLUGIN,
     .refuse = "expected index in -1 .. 4, found"},
    {.op = "put",
     .in = {OT_F(7, 3), OT_I(0, 4, 7, 2)},
     .attr = N(5),
     .refuse = "expected index of shape [7,3], found [7,2]"},

    {.op = "topk", .in = {OT_F(40, 9)}, .attr = N(3), .right = right_topk, .exact = true},
    {.op = "topk", .in = {OT_F(50, 100)}, .attr = N(8), .right = right_topk, .exact = true},
    {.op = "topk", .in = {OT_F(5, 6)}, .attr = N(6), .right = right_topk, .exact = true},
    {.op = "topk", .in = {OT_NUMBERS(ties, 3, 8)}, .attr = N(8), .right = right_topk},
    {.op = "topk", .in = {OT_NUMBERS(ties, 3, 8)}, .attr = N(2), .right = right_topk},
    {.op = "topk", .in = {OT_F(5, 6)}, .attr = N(7), .refuse = "expected k in 1 .. 6, found 7"},
    {.op = "topk", .in = {OT_F(5, 6)}, .attr = N(0), .refuse = "expected k in 1 .. 6, found 0"},

    {.op = "one_hot", .in = {OT_I(-1, 6, 30)}, .attr = N(6), .right = right_one_hot},
    {.op = "one_hot", .in = {OT_I(0, 8, 3, 4, 5)}, .attr = N(9), .right = right_one_hot},
    {.op = "one_hot",
     .in = {OT_I(0, 8, 1, 1, 2, 2)},
     .attr = N(9),
     .refuse = "expected index of rank 0 to 3"},
    {.op = "one_hot", .in = {OT_I(0, 8, 2)}, .attr = N(0), .refuse = "expected n in 1 .."},
    {.op = "bincount", .in = {OT_I(-1, 6, 30), OT_NO}, .attr = N(7), .right = right_bincount},
    {.op = "bincount",
     .in = {OT_I(-1, 6, 30), OT_F(30)},
     .attr = N(7),
     .right = right_bincount,
     .exact = true},
    {.op = "bincount",
     .in = {OT_I(0, 90, 200, 150), OT_F(200, 150)},
     .attr = N(91),
     .right = right_bincount},
    {.op = "bincount",
     .in = {OT_I(7, 7, 30), OT_NO},
     .attr = N(7),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected index in -1 .. 6, found 7"},
    {.op = "bincount",
     .in = {OT_I(0, 6, 30), OT_F(29)},
     .attr = N(7),
     .refuse = "expected weight of shape [30], found [29]"},

    {.op = "score_bins",
     .in = {OT_NUMBERS(required, 6, 3), OT_NO, OT_NO},
     .attr = {.i = {8}, .f = {-1, 1}},
     .right = right_score_bins,
     .exact = true},
    {.op = "score_bins",
     .in = {OT_NUMBERS(odd_scores, 4, 2), OT_NUMBERS(some_rows, 4), OT_NO},
     .attr = {.i = {4}, .f = {-1, 1}},
     .right = right_score_bins,
     .exact = true},
    {.op = "score_bins",
     .in = {OT_F(300, 40), OT_NO, OT_F(40)},
     .attr = {.i = {1000}, .f = {-1, 1}},
     .right = right_score_bins,
     .exact = true},
    {.op = "score_bins",
     .in = {OT_F(6, 3), OT_F(5), OT_NO},
     .attr = {.i = {8}, .f = {-1, 1}},
     .refuse = "expected mask of shape [6], found [5]"},
    {.op = "score_bins",
     .in = {OT_F(6, 3), OT_NO, OT_NO},
     .attr = {.i = {8}, .f = {1, 1}},
     .refuse = "expected lo < hi, found 1 and 1"},
    {.op = "score_bins",
     .in = {OT_F(6, 3), OT_NO, OT_NO},
     .attr = {.i = {8193}, .f = {0, 1}},
     .refuse = "expected bins in 1 .. 8192, found 8193"},

    {.op = "uniform", .attr = N(3, 40, 50, 9), .right = right_uniform, .exact = true},
    {.op = "uniform", .attr = N(0), .right = right_uniform, .exact = true},
    {.op = "uniform", .attr = N(2, 3, -1), .refuse = "expected a result of possible size"},
    {.op = "gaussian", .attr = N(2, 300, 61), .right = right_gaussian, .exact = true},
    {.op = "gaussian", .attr = N(1, 7), .right = right_gaussian, .exact = true},
    {.op = "gaussian",
     .in = {OT_F(3)},
     .attr = N(1, 3),
     .refuse = "expected 0 inputs, found 1"},
    {.op = "dropout", .in = {OT_F(30, 7)}, .attr = {.f = {0.25}}, .right = right_dropout},
    {.op = "dropout",
     .in = {OT_F(20000)},
     .attr = {.f = {0.5}},
     .right = right_dropout,
     .exact = true},
    {.op = "dropout", .in = {OT_F(3, 7)}, .right = right_dropout, .exact = true},
    {.op = "dropout",
     .in = {OT_F(3, 7)},
     .attr = {.f = {1}},
     .refuse = "expected p in [0,1), found 1"},
    {.op = "dropout",
     .in = {OT_F(3, 7)},
     .attr = {.f = {-0.1}},
     .refuse = "expected p in [0,1)"},
    {0}};
