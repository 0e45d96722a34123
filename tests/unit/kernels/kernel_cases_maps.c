/* Cases of check_kernels: elementwise functions, moves, sums, rows, random numbers. */
#include <math.h>
#include <stddef.h>

#include "kernel_case.h"

/* ---- elementwise ---- */

#define LENGTHS 3
static const int64_t length_of[LENGTHS] = {1, 37, 20001};

/* Offset of an array: arrays of the longest case begin at their second element, so they are
 * less aligned. */
static int64_t first_of(int64_t n)
{
    return n > 1000 ? 1 : 0;
}

/* Arguments within the function's domain, and special values. */
static float *arguments(mf_kt *t, int fn, int64_t n)
{
    static const float edge[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, 60, -60};
    bool positive = fn == MF_MAP_LOG || fn == MF_MAP_SQRT || fn == MF_MAP_XLOGX;
    float *a = positive ? kt_positive(t, n) : kt_f32(t, n);
    /* each value is in another vector, the last value in the last element */
    for (int64_t i = 0; n > 1000 && i < 9; i++)
        a[i == 8 ? n - 1 : 64 * i + 5] = edge[i];
    return a;
}

static void run_map1(mf_kt *t)
{
    int fn = t->variant / LENGTHS;
    int64_t n = length_of[t->variant % LENGTHS];
    float *a = arguments(t, fn, n), *y = kt_result(t, n);
    const int64_t at = first_of(n);
    KT_RUN(t, map1, .fn = fn, .type = MF_CAST_F32, .n = n - at, .a = -1.5f, .b = 2,
           .in = a + at, .out = n == 37 ? a : y + at);
    for (int64_t i = 0; n == 37 && i < n; i++)
        y[i] = a[i];
}

static void run_map1_grad(mf_kt *t)
{
    int fn = t->variant / LENGTHS;
    int64_t n = length_of[t->variant % LENGTHS];
    float *a = arguments(t, fn, n), *y = kt_f32(t, n), *dy = kt_f32(t, n);
    float *da = kt_result(t, n);
    /* all kernel sets get the same y */
    MF_RUN(&mf_kernels_ref, t->x, map1, .fn = fn, .type = MF_CAST_F32, .n = n, .a = -1.5f,
           .b = 2, .in = a, .out = y);
    const int64_t at = first_of(n);
    KT_RUN(t, map1_grad, .fn = fn, .type = MF_CAST_F32, .n = n - at, .a = -1.5f, .b = 2,
           .in = a + at, .out = y + at, .dout = dy + at, .din = da + at);
}

/* dim, then strides of a and of b: equal shapes, a row, a column, a scalar, an operand whose
 * order differs from that of the result, an outer product, four dimensions, a column and long
 * lines, no element. */
static const int64_t map2_of[][3][4] = {{{1, 1, 1, 20001}, {0, 0, 0, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 301, 37}, {0, 0, 37, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 37, 301}, {0, 0, 301, 1}, {0, 0, 1, 0}},
                                        {{1, 1, 1, 40000}, {0, 0, 0, 1}, {0, 0, 0, 0}},
                                        {{1, 3, 50, 21}, {0, 50, 1, 150}, {0, 0, 21, 1}},
                                        {{1, 1, 90, 70}, {0, 0, 1, 0}, {0, 0, 0, 1}},
                                        {{3, 5, 7, 9}, {0, 9, 0, 1}, {35, 7, 1, 0}},
                                        {{1, 1, 2, 20000}, {0, 0, 1, 0}, {0, 0, 20000, 1}},
                                        {{1, 1, 0, 5}, {0, 0, 5, 1}, {0, 0, 0, 1}}};
#define SHAPES 9

static int64_t reach(const int64_t dim[4], const int64_t stride[4])
{
    int64_t last = 0;
    for (int i = 0; i < 4; i++)
        last += (dim[i] - 1) * stride[i];
    return last < 0 ? 1 : last + 1;
}

static void run_map2(mf_kt *t)
{
    const int64_t(*s)[4] = map2_of[t->variant % SHAPES];
    int64_t n = s[0][0] * s[0][1] * s[0][2] * s[0][3];
    float *a = kt_f32(t, reach(s[0], s[1])), *b = kt_f32(t, reach(s[0], s[2]));
    float *y = kt_result(t, n);
    if (n > 1000 && t->variant % SHAPES == 0)
        a[3] = b[70] = NAN, a[5] = INFINITY, b[5] = -INFINITY;
    KT_RUN(t, map2, .fn = t->variant / SHAPES, .type = MF_CAST_F32, .dim = MF_FOUR(s[0]),
           .stride_a = MF_FOUR(s[1]), .stride_b = MF_FOUR(s[2]), .a = a, .b = b, .out = y);
}

static void run_map2_i32(mf_kt *t)
{
    const int64_t(*s)[4] = map2_of[t->variant % SHAPES];
    int64_t n = s[0][0] * s[0][1] * s[0][2] * s[0][3];
    const int64_t na = reach(s[0], s[1]), nb = reach(s[0], s[2]);
    int32_t *a = kt_work(t, (size_t)na * sizeof *a), *b = kt_work(t, (size_t)nb * sizeof *b);
    for (int64_t i = 0; i < na; i++)
        a[i] = (int32_t)(uint32_t)((uint64_t)i * 2654435761u);
    for (int64_t i = 0; i < nb; i++)
        b[i] = (int32_t)(i % 5) - 2;
    if (na > 9) a[3] = a[9] = INT32_MIN;
    KT_RUN(t, map2, .fn = t->variant / SHAPES, .type = MF_CAST_I32, .dim = MF_FOUR(s[0]),
           .stride_a = MF_FOUR(s[1]), .stride_b = MF_FOUR(s[2]), .a = a, .b = b,
           .out = kt_result_i32(t, n));
}

static void run_cast(mf_kt *t)
{
    int from = t->variant / 4, to = t->variant % 4;
    int64_t n = 9011;
    static const size_t size[] = {4, 2, 4, 1};
    float *numbers = kt_f32(t, n), *back = kt_result(t, n);
    void *in = kt_work(t, (size_t)n * 4), *out = kt_work(t, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        numbers[i] *= i % 3 ? 40.0f : 1e9f;
    numbers[1] = NAN, numbers[2] = INFINITY, numbers[3] = -INFINITY, numbers[4] = 0x1p31f;
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = n, .from = MF_CAST_F32, .to = from, .in = numbers,
           .out = in);
    KT_RUN(t, cast, .n = n, .from = from, .to = to, .in = in, .out = out);
    int32_t *bits = kt_result_i32(t, n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = 0;
        for (size_t b = 0; b < size[to]; b++)
            v |= (uint32_t)((unsigned char *)out)[(size_t)i * size[to] + b] << 8 * b;
        bits[i] = to == MF_CAST_F32 && v << 1 > 0xff000000u ? 0 : (int32_t)v;
    }
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = n, .from = to, .to = MF_CAST_F32, .in = out,
           .out = back);
}

/* ---- moves ---- */

static void run_set(mf_kt *t)
{
    int64_t n = length_of[t->variant];
    KT_RUN(t, set, .n = n, .value = -2.5f, .out = kt_result(t, n));
}

/* dim, strides of in, strides of out */
static const int64_t copy_of[][3][4] = {{{1, 1, 1, 20001}, {0, 0, 0, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 300, 70}, {0, 0, 1, 300}, {0, 0, 70, 1}},
                                        {{1, 1, 1, 40000}, {0, 0, 0, 0}, {0, 0, 0, 1}},
                                        {{1, 9, 31, 33}, {0, 33, 297, 1}, {0, 1023, 33, 1}},
                                        {{2, 3, 4, 5}, {1, 2, 6, 24}, {60, 20, 5, 1}},
                                        {{1, 1, 50, 7}, {0, 0, 7, 1}, {0, 0, 20, 1}},
                                        {{1, 1, 900, 1}, {0, 0, 0, 0}, {0, 0, 3, 2}},
                                        {{1, 700, 40, 3}, {0, 1, 2100, 700}, {0, 120, 3, 1}},
                                        {{1, 1, 1, 40000}, {0, 0, 0, 2}, {0, 0, 0, 1}}};

static void run_copy4(mf_kt *t)
{
    const int64_t(*s)[4] = copy_of[t->variant];
    float *in = kt_f32(t, reach(s[0], s[1])), *out = kt_result(t, reach(s[0], s[2]));
    KT_RUN(t, copy4, .dim = MF_FOUR(s[0]), .stride_in = MF_FOUR(s[1]),
           .stride_out = MF_FOUR(s[2]), .in = in, .out = out);
}

/* ---- sums ---- */

static void run_sum3(mf_kt *t)
{
    static const int64_t size[][3] = {
        {1, 40003, 1}, {1, 1, 1},    {70, 300, 1}, {1, 3000, 70}, {9, 1100, 20}, {300, 2, 37},
        {4, 0, 5},     {5, 9000, 3}, {1, 8193, 1}, {2, 513, 128}, {40, 1, 9},    {64, 520, 40}};
    const int64_t *s = size[t->variant];
    float *in = kt_f32(t, s[0] * s[1] * s[2]), *out = kt_result(t, s[0] * s[2]);
    void *work = kt_work(t, mf_sum3_work(s[0], s[1], s[2]));
    KT_RUN(t, sum3, .outer = s[0], .n = s[1], .inner = s[2], .scale = 0.5, .in = in, .out = out,
           .work = work);
}

/* ---- rows ---- */

#define ROWS 6
static const int64_t rows_of[ROWS] = {1, 700, 40, 3, 9, 2000},
                     width_of[ROWS] = {1, 8, 37, 5000, 64, 3};

/* Inputs, some of which are -Inf, as in masks. Of 700 rows, two contain NaN, two contain +Inf,
 * one has only -Inf, and one contains the largest numbers. */
static float *row_inputs(mf_kt *t, int64_t rows, int64_t n)
{
    float *a = kt_f32(t, rows * n);
    for (int64_t i = 0; n > 3 && i < rows; i += 3)
        a[i * n + i % n] = -INFINITY;
    if (rows == 700) {
        a[2 * n + 3] = NAN;
        a[4 * n + 7] = INFINITY;
        for (int64_t j = 0; j < n; j++)
            a[5 * n + j] = -INFINITY;
        a[6 * n] = NAN, a[6 * n + 1] = INFINITY;
        a[7 * n] = 3e38f, a[7 * n + 1] = -3e38f;
    }
    return a;
}

#define RUN_ROWS(name, which, results)                                                         \
    static void run_##name(mf_kt *t)                                                           \
    {                                                                                          \
        int64_t rows = rows_of[t->variant], n = width_of[t->variant];                          \
        float *a = row_inputs(t, rows, n), *y = kt_result(t, results);                         \
        KT_RUN(t, row_map, .fn = which, .rows = rows, .n = n, .in = a, .out = y);              \
    }
RUN_ROWS(softmax, MF_ROW_SOFTMAX, rows *n)
RUN_ROWS(log_softmax, MF_ROW_LOG_SOFTMAX, rows *n)
RUN_ROWS(logsumexp, MF_ROW_LOGSUMEXP, rows)
RUN_ROWS(row_max, MF_ROW_MAX, rows)

static void run_softmax_grad(mf_kt *t)
{
    int64_t rows = rows_of[t->variant], n = width_of[t->variant];
    float *y = kt_f32(t, rows * n), *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * n);
    KT_RUN(t, row_map_grad, .fn = MF_ROW_SOFTMAX, .rows = rows, .n = n, .out = y, .dout = dy,
           .din = da);
}

static void run_log_softmax_grad(mf_kt *t)
{
    int64_t rows = rows_of[t->variant], n = width_of[t->variant];
    float *y = kt_f32(t, rows * n), *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * n);
    KT_RUN(t, row_map_grad, .fn = MF_ROW_LOG_SOFTMAX, .rows = rows, .n = n, .out = y,
           .dout = dy, .din = da);
}

static void run_logsumexp_grad(mf_kt *t)
{
    int64_t rows = rows_of[t->variant], n = width_of[t->variant];
    float *a = kt_f32(t, rows * n), *y = kt_f32(t, rows), *dy = kt_f32(t, rows);
    float *da = kt_result(t, rows * n);
    KT_RUN(t, row_map_grad, .fn = MF_ROW_LOGSUMEXP, .rows = rows, .n = n, .in = a, .out = y,
           .dout = dy, .din = da);
}

static void run_row_max_grad(mf_kt *t)
{
    int64_t rows = rows_of[t->variant], n = width_of[t->variant];
    float *a = row_inputs(t, rows, n), *dy = kt_f32(t, rows), *da = kt_result(t, rows * n);
    KT_RUN(t, row_map_grad, .fn = MF_ROW_MAX, .rows = rows, .n = n, .in = a, .dout = dy,
           .din = da);
}

/* ---- random numbers: the drawn numbers do not depend on the inputs ---- */

static uint64_t stream_of(const mf_kt *t)
{
    return t->variant < LENGTHS ? 5 : 0xfedcba9876543210u;
}

static void run_uniform(mf_kt *t)
{
    int64_t n = length_of[t->variant % LENGTHS];
    KT_RUN(t, random, .kind = MF_RANDOM_UNIFORM, .stream = stream_of(t), .n = n,
           .out = kt_result(t, n));
}

static void run_normal(mf_kt *t)
{
    int64_t n = length_of[t->variant % LENGTHS];
    KT_RUN(t, random, .kind = MF_RANDOM_NORMAL, .stream = stream_of(t), .n = n,
           .out = kt_result(t, n));
}

static void run_dropout(mf_kt *t)
{
    int64_t n = length_of[t->variant % LENGTHS];
    float *a = kt_f32(t, n), *y = kt_result(t, n);
    KT_RUN(t, dropout, .stream = stream_of(t), .n = n, .p = 0.3f, .in = a, .out = y);
}

const mf_kernel_row mf_kernel_cases_maps[] = {
    {"map1", run_map1, MF_MAP1_COUNT *LENGTHS, false, 1e-6},
    {"map1_grad", run_map1_grad, MF_MAP1_COUNT *LENGTHS, false, 2e-6},
    {"map2", run_map2, MF_MAP2_COUNT *SHAPES, true, 0},
    {"map2", run_map2_i32, MF_MAP2_COUNT *SHAPES, true, 0},
    {"cast", run_cast, 16, true, 0},
    {"set", run_set, LENGTHS, true, 0},
    {"copy4", run_copy4, 9, true, 0},
    {"sum3", run_sum3, 12, true, 1e-6},
    {"row_map", run_softmax, ROWS, false, 1e-6},
    {"row_map_grad", run_softmax_grad, ROWS, true, 2e-6},
    {"row_map", run_log_softmax, ROWS, false, 1e-6},
    {"row_map_grad", run_log_softmax_grad, ROWS, false, 2e-6},
    {"row_map", run_logsumexp, ROWS, false, 1e-6},
    {"row_map_grad", run_logsumexp_grad, ROWS, false, 1e-6},
    {"row_map", run_row_max, ROWS, true, 0},
    {"row_map_grad", run_row_max_grad, ROWS, true, 0},
    {"random", run_uniform, 2 * LENGTHS, true, 0},
    {"random", run_normal, 2 * LENGTHS, true, 0},
    {"dropout", run_dropout, 2 * LENGTHS, true, 0},
    {NULL, NULL, 0, false, 0}};
