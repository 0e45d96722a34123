/* Rows of check_kernels: products, plain and by group. */
#include "kernel_case.h"

/* m, n, k: tiny, few rows (own loops), ragged, several tiles, empty inner dimension. */
static const int64_t sizes[][3] = {{1, 1, 1},     {1, 77, 50},   {3, 130, 33},  {8, 70, 67},
                                   {16, 100, 40}, {37, 65, 129}, {96, 200, 70}, {300, 260, 190},
                                   {5, 9, 0},     {1, 5000, 64}};
#define SIZES 10

static void run_matmul(mf_kt *t)
{
    const int64_t *s = sizes[t->variant / 8];
    bool trans_a = t->variant & 1, trans_b = t->variant & 2;
    float beta = t->variant & 4 ? 1 : 0;
    int64_t m = s[0], n = s[1], k = s[2];
    int64_t lda = (trans_a ? m : k) + 3, ldb = (trans_b ? k : n) + 1, ldc = n + 2;
    float *a = kt_f32(t, (trans_a ? k : m) * lda), *b = kt_f32(t, (trans_b ? n : k) * ldb);
    float *c = kt_result(t, m * ldc);
    t->k->matmul(t->x, trans_a, trans_b, m, n, k, 2, a, lda, b, ldb, beta, c, ldc);
}

static void run_matmul_batch(mf_kt *t)
{
    int64_t batch = 5, m = 20, n = 33, k = 18;
    float *a = kt_f32(t, batch * m * k), *b = kt_f32(t, batch * k * n);
    float *c = kt_result(t, batch * m * n);
    t->k->matmul_batch(t->x, batch, t->variant & 1, t->variant & 2, m, n, k, 0.5f, a, b, c);
}

static void run_linear(mf_kt *t)
{
    const int64_t *s = sizes[t->variant / 2];
    float *a = kt_f32(t, s[0] * s[2]), *w = kt_f32(t, s[1] * s[2]);
    float *bias = t->variant % 2 ? kt_f32(t, s[1]) : NULL, *y = kt_result(t, s[0] * s[1]);
    t->k->linear(t->x, s[0], s[1], s[2], a, w, bias, y);
}

/* groups, rows, n, k */
static const int64_t grouped[][4] = {
    {1, 5, 7, 3}, {4, 9, 40, 33}, {8, 200, 260, 65}, {3, 1900, 140, 40}, {64, 130, 50, 20}};
#define GROUPED 5

static void run_grouped_linear(mf_kt *t)
{
    const int64_t *s = grouped[t->variant / 2];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *a = kt_f32(t, s[1] * s[3]), *w = kt_f32(t, s[0] * s[2] * s[3]);
    float *bias = t->variant % 2 ? kt_f32(t, s[0] * s[2]) : NULL,
          *y = kt_result(t, s[1] * s[2]);
    t->k->grouped_linear(t->x, s[0], s[1], s[2], s[3], offset, a, w, bias, y);
}

static void run_grouped_linear_dx(mf_kt *t)
{
    const int64_t *s = grouped[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *dy = kt_f32(t, s[1] * s[2]), *w = kt_f32(t, s[0] * s[2] * s[3]);
    float *da = kt_result(t, s[1] * s[3]);
    t->k->grouped_linear_dx(t->x, s[0], s[1], s[2], s[3], offset, dy, w, da);
}

static void run_grouped_weight_grad(mf_kt *t)
{
    const int64_t *s = grouped[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *dy = kt_f32(t, s[1] * s[2]), *a = kt_f32(t, s[1] * s[3]);
    float *dw = kt_result(t, s[0] * s[2] * s[3]);
    t->k->grouped_weight_grad(t->x, s[0], s[1], s[2], s[3], offset, dy, a, dw);
}

static void run_group_sum(mf_kt *t)
{
    const int64_t *s = grouped[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *a = kt_f32(t, s[1] * s[2]), *y = kt_result(t, s[0] * s[2]);
    t->k->group_sum(t->x, s[0], s[1], s[2], offset, a, y);
}

const mf_kernel_row mf_kernel_rows_products[] = {
    {"matmul", run_matmul, 8 * SIZES, true, 2e-6},
    {"matmul_batch", run_matmul_batch, 4, true, 2e-6},
    {"linear", run_linear, 2 * SIZES, true, 2e-6},
    {"grouped_linear", run_grouped_linear, 2 * GROUPED, true, 2e-6},
    {"grouped_linear_dx", run_grouped_linear_dx, GROUPED, true, 2e-6},
    {"grouped_weight_grad", run_grouped_weight_grad, GROUPED, true, 2e-6},
    {"group_sum", run_group_sum, GROUPED, true, 2e-6},
    {0},
};
