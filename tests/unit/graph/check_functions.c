/* functions: the elementwise functions of `cpu` with all instruction sets: their accuracy,
 * their results for NaN and Inf, and their gradients at kinks and ties, where differences
 * cannot check them. This file also tests sorting, counting and dropout. */
#include "check_main.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernels/kernel.h"
#include "ops/ops.h"

/* ---- accuracy ---- */

static double normal_pdf(double x)
{
    return exp(-x * x / 2) / sqrt(2 * M_PI);
}
static double normal_cdf(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double gelu(double x)
{
    return x * normal_cdf(x);
}
static double gelu_arg(double x)
{
    return 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}
static double gelu_tanh(double x)
{
    return x * sigmoid(gelu_arg(x));
}
static double silu(double x)
{
    return x * sigmoid(x);
}
static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double xlogx(double x)
{
    return x * log(x);
}
static double gelu_slope(double x)
{
    return normal_cdf(x) + x * normal_pdf(x);
}
static double gelu_tanh_slope(double x)
{
    double s = sigmoid(gelu_arg(x));
    return s + x * s * (1 - s) * 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}
static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}

/* units: largest error for arguments lo .. hi, in units of 2^-23 of the result. least:
 * additional absolute error, because results may be near 0. */
static const struct {
    const char *name;
    int fn;
    bool slope;
    double (*truth)(double x);
    double units, least, lo, hi;
} functions[] = {
    {"exp", MF_MAP_EXP, false, exp, 2, 2e-38, -1e30, 88.7},
    {"log", MF_MAP_LOG, false, log, 1, 0, 1e-44, 3e38},
    {"sigmoid", MF_MAP_SIGMOID, false, sigmoid, 2, 2e-38, -1e30, 1e30},
    {"tanh", MF_MAP_TANH, false, tanh, 2, 0, -1e30, 1e30},
    {"softplus", MF_MAP_SOFTPLUS, false, softplus, 2, 2e-38, -1e30, 1e30},
    {"normal_cdf", MF_MAP_NORMAL_CDF, false, normal_cdf, 5, 2e-38, -1e30, 1e30},
    {"xlogx", MF_MAP_XLOGX, false, xlogx, 2, 1e-44, 1e-44, 1e30},
    {"gelu", MF_MAP_GELU, false, gelu, 8, 1e-37, -1e30, 1e30},
    {"gelu_tanh", MF_MAP_GELU_TANH, false, gelu_tanh, 8, 1e-7, -1e30, 1e30},
    {"gelu_tanh", MF_MAP_GELU_TANH, false, gelu_tanh, 120, 2e-37, -1e30, 1e30},
    {"silu", MF_MAP_SILU, false, silu, 3, 1e-35, -1e30, 1e30},
    {"gelu'", MF_MAP_GELU, true, gelu_slope, 5, 3e-7, -1e15, 1e15},
    {"gelu_tanh'", MF_MAP_GELU_TANH, true, gelu_tanh_slope, 5, 3e-7, -1e15, 1e15},
    {"silu'", MF_MAP_SILU, true, silu_slope, 5, 3e-7, -1e15, 1e15},
    {"softplus'", MF_MAP_SOFTPLUS, true, sigmoid, 2, 2e-38, -1e30, 1e30},
    {"normal_cdf'", MF_MAP_NORMAL_CDF, true, normal_pdf, 2, 2e-38, -1e30, 1e30},
};

enum { BATCH = 4096 };
static const mf_kctx context = {
    .parallel = mf_parallel, .rng_block = mf_rng_block, .key = &(mf_draw_key){1, 1}};

/* Draws arguments that are spread over the bit patterns of floats. Returns their number; 0: the
 * range is complete. */
static int next_batch(uint64_t *bits, double lo, double hi, float x[BATCH])
{
    int n = 0;
    for (; n < BATCH && *bits < (uint64_t)1 << 32; *bits += 20011) {
        uint32_t pattern = (uint32_t)*bits;
        memcpy(&x[n], &pattern, sizeof pattern);
        n += x[n] >= (float)lo && x[n] <= (float)hi;
    }
    return n;
}

START_TEST(stays_within_its_bound)
{
    static float x[BATCH], y[BATCH], one[BATCH];
    for (int i = 0; i < BATCH; i++)
        one[i] = 1;
    for (const char *const *isa = mf_kernels_isas(); *isa; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        int64_t judged = 0;
        uint64_t bits = 0;
        for (int n; (n = next_batch(&bits, functions[_i].lo, functions[_i].hi, x)) > 0;) {
            if (functions[_i].slope)
                MF_RUN(k, &context, map1_grad, .fn = functions[_i].fn, .type = MF_CAST_F32,
                       .n = n, .a = 0, .b = 0, .in = x, .dout = one, .din = y);
            else
                MF_RUN(k, &context, map1, .fn = functions[_i].fn, .type = MF_CAST_F32, .n = n,
                       .a = 0, .b = 0, .in = x, .out = y);
            for (int i = 0; i < n; i++, judged++) {
                double want = functions[_i].truth(x[i]), off = fabs(y[i] - want);
                if (isinf((float)want) && y[i] == (float)want) continue;
                ck_assert_msg(
                    off <= functions[_i].units * 0x1p-23 * fabs(want) + functions[_i].least,
                    "%s(%.9g) on %s: expected %.9g, found %.9g, %.1f units off",
                    functions[_i].name, x[i], *isa, want, y[i], off / (0x1p-23 * fabs(want)));
            }
        }
        ck_assert_int_gt(judged, 10000);
    }
}
END_TEST

/* ---- NaN and Inf ---- */

/* Values f(-Inf), f(Inf), f(-0). NaN in the table means that the result is NaN. */
static const struct {
    int fn;
    float below, above, zero;
} limits[] = {
    {MF_MAP_EXP, 0, INFINITY, 1},
    {MF_MAP_LOG, NAN, INFINITY, -INFINITY},
    {MF_MAP_SQRT, NAN, INFINITY, 0},
    {MF_MAP_SQUARE, INFINITY, INFINITY, 0},
    {MF_MAP_RECIPROCAL, 0, 0, -INFINITY},
    {MF_MAP_ABS, INFINITY, INFINITY, 0},
    {MF_MAP_RELU, 0, INFINITY, 0},
    {MF_MAP_GELU, 0, INFINITY, 0},
    {MF_MAP_GELU_TANH, 0, INFINITY, 0},
    {MF_MAP_SILU, 0, INFINITY, 0},
    {MF_MAP_SIGMOID, 0, 1, 0.5f},
    {MF_MAP_TANH, -1, 1, 0},
    {MF_MAP_SOFTPLUS, 0, INFINITY, 0.693147181f},
    {MF_MAP_NORMAL_CDF, 0, 1, 0.5f},
    {MF_MAP_XLOGX, NAN, INFINITY, 0},
    {MF_MAP_SIGN, -1, 1, 0},
    {MF_MAP_AFFINE, INFINITY, -INFINITY, 3},
    {MF_MAP_CLAMP, -2, 3, 0},
};

static bool alike(float a, float b)
{
    return isnan(a) ? isnan(b) : isinf(a) || a == 0 ? a == b : fabsf(a - b) <= 1e-6f * fabsf(a);
}

static void expect_limits(const mf_kernels *k, const char *set)
{
    enum { N = 21 }; /* a whole vector and a remainder, for every instruction set */
    float x[N], y[N], one[N];
    ck_assert_int_eq((int)(sizeof limits / sizeof *limits), MF_MAP1_COUNT);
    for (size_t f = 0; f < sizeof limits / sizeof *limits; f++) {
        const float in[] = {-INFINITY, INFINITY, -0.0f, NAN};
        const float want[] = {limits[f].below, limits[f].above, limits[f].zero, NAN};
        float a = limits[f].fn == MF_MAP_AFFINE ? -1 : -2;
        for (int i = 0; i < N; i++) {
            x[i] = in[i % 4];
            one[i] = 1;
        }
        MF_RUN(k, &context, map1, .fn = limits[f].fn, .type = MF_CAST_F32, .n = N, .a = a,
               .b = 3, .in = x, .out = y);
        for (int i = 0; i < N; i++)
            ck_assert_msg(alike(want[i % 4], y[i]),
                          "function %d of %g, %s: expected %g, found %g", limits[f].fn, x[i],
                          set, want[i % 4], y[i]);
        MF_RUN(k, &context, map1_grad, .fn = limits[f].fn, .type = MF_CAST_F32, .n = N, .a = a,
               .b = 3, .in = x, .out = y, .dout = one, .din = one);
        /* At -Inf the derivatives of GELU to NORMAL_CDF are 0. At NaN a derivative is NaN,
         * except of RELU and of the functions from SIGN on. */
        for (int i = 0; i < N; i += 4) {
            bool flat = limits[f].fn >= MF_MAP_GELU && limits[f].fn <= MF_MAP_NORMAL_CDF;
            ck_assert_msg(!flat || one[i] == 0, "derivative %d at -Inf, %s: found %g",
                          limits[f].fn, set, one[i]);
            ck_assert_msg(limits[f].fn == MF_MAP_SIGN || limits[f].fn >= MF_MAP_AFFINE ||
                              limits[f].fn == MF_MAP_RELU || i + 3 >= N || isnan(one[i + 3]),
                          "derivative %d at NaN, %s: found %g", limits[f].fn, set, one[i + 3]);
        }
    }
}

START_TEST(nan_and_inf_pass_through)
{
    expect_limits(&mf_kernels_ref, "ref");
    for (const char *const *isa = mf_kernels_isas(); *isa; isa++)
        expect_limits(mf_kernels_cpu_for(*isa), *isa);
}
END_TEST

/* ---- gradients at kinks and ties ---- */

/* The gradients of sum(op(a, b)), or of sum(op(a)) if b is NULL. */
static void gradients(const char *op, const mf_attr *attr, mf_shape shape, const float *a,
                      const float *b, float *ret_a, float *ret_b)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    ck_assert_ptr_nonnull(g);
    const size_t bytes = (size_t)mf_shape_count(shape) * sizeof(float);
    mf_tensor *in[2] = {mf_graph_input(g, "a", MF_F32, shape), NULL};
    if (b) in[1] = mf_graph_input(g, "b", MF_F32, shape);
    for (int i = 0; i < (b ? 2 : 1); i++)
        mf_graph_want_grad(in[i]);
    mf_tensor *y = mf_graph_op_named(g, op, b ? 2 : 1, in, attr, 1, NULL);
    ck_assert_int_eq(mf_graph_backward(g, mf_sum(g, y, MF_ALL, false), b ? 2 : 1, in), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    memcpy(mf_tensor_data(in[0]), a, bytes);
    if (b) memcpy(mf_tensor_data(in[1]), b, bytes);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.kernels = mf_kernels_cpu()}), MF_OK);
    memcpy(ret_a, mf_tensor_data(in[0]->grad), bytes);
    if (b) memcpy(ret_b, mf_tensor_data(in[1]->grad), bytes);
    mf_graph_free(g);
}

static void expect_each(const char *op, const float *found, const float *want, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(found[i] == want[i], "%s: gradient %d: expected %g, found %g", op, i,
                      want[i], found[i]);
}

START_TEST(ties_go_where_the_contract_says)
{
    const float a[] = {1, 2, 3}, b[] = {1, 3, 2};
    float da[6], db[6];
    gradients("maximum", NULL, mf_shape1(3), a, b, da, db);
    expect_each("maximum", da, (const float[]){1, 0, 1}, 3);
    expect_each("maximum", db, (const float[]){0, 1, 0}, 3);
    gradients("minimum", NULL, mf_shape1(3), a, b, da, db);
    expect_each("minimum", da, (const float[]){1, 1, 0}, 3);
    expect_each("minimum", db, (const float[]){0, 0, 1}, 3);
    const float rows[] = {5, 7, 7, -1, -1, -1};
    gradients("row_max", NULL, mf_shape2(2, 3), rows, NULL, da, NULL);
    expect_each("row_max", da, (const float[]){0, 1, 0, 1, 0, 0}, 6);
}
END_TEST

START_TEST(kinks_have_the_slopes_of_the_contract)
{
    const float x[] = {-1, -0.0f, 0, 1};
    const mf_attr to_one = {.f = {-0.5, 1}};
    float dx[4];
    gradients("relu", NULL, mf_shape1(4), x, NULL, dx, NULL);
    expect_each("relu", dx, (const float[]){0, 0, 0, 1}, 4);
    gradients("abs", NULL, mf_shape1(4), x, NULL, dx, NULL);
    expect_each("abs", dx, (const float[]){-1, 0, 0, 1}, 4);
    gradients("xlogx", NULL, mf_shape1(2), x + 2, NULL, dx, NULL);
    expect_each("xlogx", dx, (const float[]){0, 1}, 2);
    gradients("clamp", &to_one, mf_shape1(4), x, NULL, dx, NULL);
    expect_each("clamp", dx, (const float[]){0, 1, 1, 1}, 4);
}
END_TEST

START_TEST(dropout_is_the_identity_in_evaluation)
{
    const float a[] = {1, -2, 3, 4, 5, 6, 7};
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = false});
    ck_assert_ptr_nonnull(g);
    mf_tensor *in = mf_graph_input(g, "a", MF_F32, mf_shape1(7));
    mf_tensor *y = mf_dropout(g, in, 0.9);
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    memcpy(mf_tensor_data(in), a, sizeof a);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.kernels = mf_kernels_cpu()}), MF_OK);
    ck_assert_mem_eq(mf_tensor_data(y), a, sizeof a);
    mf_graph_free(g);
}
END_TEST

/* ---- functions of several ops ---- */

/* Sorts the rows of x [N,n]; ret_dx: the gradient of sum(y w) with respect to x. */
static void sort_rows(int64_t N, int64_t n, bool falling, const float *x, const float *w,
                      float *ret_y, int32_t *ret_index, float *ret_dx)
{
    const mf_shape shape = mf_shape2(N, n);
    const size_t bytes = (size_t)(N * n) * sizeof(float);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    ck_assert_ptr_nonnull(g);
    mf_tensor *in = mf_graph_input(g, "x", MF_F32, shape), *index,
              *weight = mf_graph_input(g, "w", MF_F32, shape);
    mf_graph_want_grad(in);
    mf_tensor *y = mf_sort(g, in, falling, &index);
    mf_graph_keep(y);
    mf_graph_keep(index);
    mf_tensor *sum = mf_sum(g, mf_mul(g, y, weight), MF_ALL, false);
    ck_assert_int_eq(mf_graph_backward(g, sum, 1, &in), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    memcpy(mf_tensor_data(in), x, bytes);
    memcpy(mf_tensor_data(weight), w, bytes);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.kernels = mf_kernels_cpu()}), MF_OK);
    memcpy(ret_y, mf_tensor_data(y), bytes);
    memcpy(ret_index, mf_tensor_data(index), bytes);
    memcpy(ret_dx, mf_tensor_data(in->grad), bytes);
    mf_graph_free(g);
}

START_TEST(rows_are_sorted)
{
    const float x[] = {3, NAN, -1, 3, 0, 2, 1, INFINITY, 2, -INFINITY};
    const float w[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const int32_t up[] = {2, 4, 0, 3, 1, 4, 1, 0, 3, 2},
                  down[] = {0, 3, 4, 2, 1, 2, 0, 3, 1, 4};
    for (int falling = 0; falling < 2; falling++) {
        const int32_t *want = falling ? down : up;
        float y[10], dx[10];
        int32_t index[10];
        sort_rows(2, 5, falling, x, w, y, index, dx);
        for (int i = 0; i < 10; i++) {
            const int from = i / 5 * 5 + want[i];
            ck_assert_int_eq(index[i], want[i]);
            ck_assert(y[i] == x[from] || (isnan(y[i]) && isnan(x[from])));
            ck_assert(dx[from] == w[i]);
        }
    }
}
END_TEST

START_TEST(long_rows_are_sorted)
{
    enum { LONG = 9000 }; /* more than SELECT_MAX, the largest k of the fast selection */
    static float x[LONG], w[LONG], y[LONG], dx[LONG];
    static int32_t index[LONG];
    for (int i = 0; i < LONG; i++)
        x[i] = (float)(mf_rng_below(5, 1, 0, (uint64_t)i, 500)), w[i] = (float)i;
    sort_rows(1, LONG, false, x, w, y, index, dx);
    for (int i = 0; i < LONG; i++) {
        ck_assert(y[i] == x[index[i]] && dx[index[i]] == (float)i);
        if (i > 0) ck_assert(y[i] > y[i - 1] || (y[i] == y[i - 1] && index[i] > index[i - 1]));
    }
}
END_TEST

START_TEST(arange_counts)
{
    static const int64_t lengths[] = {1, 7, 100, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mf_graph *g = mf_graph_new(&(mf_graph_options){.training = false});
        ck_assert_ptr_nonnull(g);
        mf_tensor *y = mf_arange(g, lengths[i]);
        mf_graph_keep(y);
        ck_assert_int_eq(mf_graph_finish(g), MF_OK);
        ck_assert_int_eq(mf_graph_run(g, &(mf_run){.kernels = mf_kernels_cpu()}), MF_OK);
        const int32_t *v = mf_tensor_data(y);
        for (int64_t j = 0; j < lengths[i]; j++)
            ck_assert_int_eq(v[j], j);
        mf_graph_free(g);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("functions");
    TCase *c = tcase_create("accuracy");
    tcase_add_loop_test(c, stays_within_its_bound, 0, sizeof functions / sizeof *functions);
    tcase_add_test(c, nan_and_inf_pass_through);
    suite_add_tcase(s, c);
    c = tcase_create("corners");
    tcase_add_test(c, ties_go_where_the_contract_says);
    tcase_add_test(c, kinks_have_the_slopes_of_the_contract);
    tcase_add_test(c, dropout_is_the_identity_in_evaluation);
    tcase_add_test(c, rows_are_sorted);
    tcase_add_test(c, long_rows_are_sorted);
    tcase_add_test(c, arange_counts);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
