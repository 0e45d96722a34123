/* Cases of check_kernels: gemms, plain and grouped, in f32 and bf16, with packed weights. */
#include <string.h>

#include "kernel_case.h"

/* m, n, k: tiny, few rows (separate loops), partial tiles, several tiles, empty inner
 * dimension, one long row. */
static const int64_t sizes[][3] = {{1, 1, 1},     {1, 77, 50},   {3, 130, 33},  {8, 70, 67},
                                   {16, 100, 40}, {37, 65, 129}, {96, 200, 70}, {300, 260, 190},
                                   {5, 9, 0},     {1, 5000, 64}, {13, 66, 70},  {23, 70, 200},
                                   {2, 68, 130}};
#define SIZES 13

static void run_matmul(mf_kt *t)
{
    const int64_t *s = sizes[t->variant / 8];
    bool trans_a = t->variant & 1, trans_b = t->variant & 2;
    float beta = t->variant & 4 ? 1 : 0;
    int64_t m = s[0], n = s[1], k = s[2];
    int64_t lda = (trans_a ? m : k) + 3, ldb = (trans_b ? k : n) + 1, ldc = n + 2;
    float *a = kt_f32(t, (trans_a ? k : m) * lda), *b = kt_f32(t, (trans_b ? n : k) * ldb);
    float *c = kt_result(t, m * ldc);
    const mf_gemm g = {.m = m,
                       .n = n,
                       .k = k,
                       .a = {.data = a, .trans = trans_a, .ld = lda},
                       .b = {.data = b, .trans = trans_b, .ld = ldb},
                       .c = {.data = c, .ld = ldc},
                       .alpha = 2,
                       .beta = beta};
    t->k->gemm(t->x, &g);
}

static void run_matmul_batch(mf_kt *t)
{
    int64_t batch = 5, m = 20, n = 33, k = 18;
    float *a = kt_f32(t, batch * m * k), *b = kt_f32(t, batch * k * n);
    float *c = kt_result(t, batch * m * n);
    const bool trans_a = t->variant & 1, trans_b = t->variant & 2;
    const mf_gemm g = {.m = m,
                       .n = n,
                       .k = k,
                       .a = {.data = a, .trans = trans_a, .ld = trans_a ? m : k, .step = m * k},
                       .b = {.data = b, .trans = trans_b, .ld = trans_b ? k : n, .step = k * n},
                       .c = {.data = c, .ld = n, .step = m * n},
                       .alpha = 0.5f,
                       .groups = batch};
    t->k->gemm(t->x, &g);
}

static void run_linear(mf_kt *t)
{
    const int64_t *s = sizes[t->variant / 2];
    float *a = kt_f32(t, s[0] * s[2]), *w = kt_f32(t, s[1] * s[2]);
    float *bias = t->variant % 2 ? kt_f32(t, s[1]) : NULL, *y = kt_result(t, s[0] * s[1]);
    const mf_gemm g = {.m = s[0],
                       .n = s[1],
                       .k = s[2],
                       .a = {.data = a, .ld = s[2]},
                       .b = {.data = w, .trans = true, .ld = s[2]},
                       .c = {.data = y, .ld = s[1]},
                       .alpha = 1,
                       .bias = bias};
    t->k->gemm(t->x, &g);
}

/* c = a b^T + bias + another matrix, which a set that does not fuse copies to c first. Rows are
 * further apart than their columns; the last size has rows of odd length. v: bf16, bias. */
static void *numbers(mf_kt *t, mf_cast_type type, int64_t count);
static void run_from(mf_kt *t)
{
    static const int64_t of[][3] = {{1, 64, 32}, {12, 40, 72}, {70, 136, 64}, {5, 2051, 24}};
    const int v = t->variant;
    const int64_t m = of[v / 4][0], n = of[v / 4][1], k = of[v / 4][2], ld = n + n % 2 + 2;
    const mf_cast_type type = v & 1 ? MF_CAST_BF16 : MF_CAST_F32;
    float *c = kt_result(t, m * ld), *from = kt_f32(t, m * ld);
    mf_gemm g = {.m = m,
                 .n = n,
                 .k = k,
                 .a = {.data = numbers(t, type, m * k), .type = type, .ld = k},
                 .b = {.data = numbers(t, type, n * k), .type = type, .trans = true, .ld = k},
                 .c = {.data = c, .ld = ld},
                 .alpha = 1,
                 .beta = 1,
                 .bias = v & 2 ? kt_f32(t, n) : NULL};
    if (t->k->fuses)
        g.from = from;
    else if (t->fault.kind == MF_FAULT_NONE) /* after a fault c stays as it is */
        KT_RUN(t, copy4, .dim = {1, 1, m, n}, .stride_in = {0, 0, ld, 1},
               .stride_out = {0, 0, ld, 1}, .in = from, .out = c);
    t->k->gemm(t->x, &g);
}

/* ---- types, gathers and groups ---- */

/* Numbers of a type: f32, or f32 truncated to bf16. */
static void *numbers(mf_kt *t, mf_cast_type type, int64_t count)
{
    float *p = kt_f32(t, count);
    if (type == MF_CAST_F32) return p;
    uint16_t *bf16 = kt_work(t, (size_t)count * sizeof *bf16);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, p + i, sizeof bits);
        bf16[i] = (uint16_t)(bits >> 16);
    }
    return bf16;
}

/* Runs a gemm into a c of p->c.type, and compares c as f32. */
static void run_into_c(mf_kt *t, mf_gemm *p, int64_t count)
{
    float *result = kt_result(t, count);
    uint16_t *bf16 = kt_work(t, (size_t)count * sizeof *bf16);
    p->c.data = result;
    if (p->c.type == MF_CAST_BF16) {
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, result + i, sizeof bits);
            bf16[i] = (uint16_t)(bits >> 16);
        }
        p->c.data = bf16;
    }
    t->k->gemm(t->x, p);
    for (int64_t i = 0; p->c.type == MF_CAST_BF16 && i < count; i++) {
        uint32_t bits = (uint32_t)bf16[i] << 16;
        memcpy(result + i, &bits, sizeof bits);
    }
}

/* Gemms of bf16 with one long dimension that is not a multiple of 8, like a vocabulary: for
 * logits, for the gradient of their input, and for the gradient of weights. */
static void run_long(mf_kt *t, mf_cast_type type_c)
{
    static const int64_t of[][3] = {{5, 2051, 24}, {7, 16, 2053}, {2049, 16, 8}, {2055, 9, 16}};
    const int v = t->variant;
    mf_gemm p = {.m = of[v / 2][0], .n = of[v / 2][1], .k = of[v / 2][2], .alpha = 1};
    p.a.trans = v / 2 >= 2, p.b.trans = v / 2 == 0;
    p.beta = v == 5 ? 1 : 0;
    p.a.ld = ((p.a.trans ? p.m : p.k) + 7) / 8 * 8,
    p.b.ld = (p.b.trans ? p.k : p.n) + v % 2 * 8;
    p.c.ld = (p.n + 7) / 8 * 8;
    p.a.type = p.b.type = MF_CAST_BF16, p.c.type = type_c;
    p.a.data = numbers(t, MF_CAST_BF16, (p.a.trans ? p.k : p.m) * p.a.ld);
    p.b.data = numbers(t, MF_CAST_BF16, (p.b.trans ? p.n : p.k) * p.b.ld);
    p.bias = v % 2 ? kt_f32(t, p.n) : NULL;
    run_into_c(t, &p, p.m * p.c.ld);
}

static void run_long_f32(mf_kt *t)
{
    run_long(t, MF_CAST_F32);
}

static void run_long_bf16(mf_kt *t)
{
    run_long(t, MF_CAST_BF16);
}

/* A list for a gather from `rows` rows. -1 selects a row of zeros. */
static int32_t *rows_of(mf_kt *t, int64_t count, int64_t rows)
{
    return kt_i32(t, count, -1, rows - 1);
}

/* m, n, k, parts: tiny, empty inner dimension, partial tiles in each direction, several tiles,
 * several blocks of k. */
static const int64_t shapes[][4] = {
    {1, 1, 1, 1},     {5, 9, 0, 1},     {3, 130, 33, 2},   {17, 70, 67, 3},  {15, 96, 64, 1},
    {37, 65, 129, 1}, {96, 200, 70, 2}, {150, 260, 20, 1}, {9, 20, 1500, 1}, {20, 33, 1300, 1}};
#define SHAPES 10
/* type_a, type_b, type_c */
static const mf_cast_type types[][3] = {
    {MF_CAST_F32, MF_CAST_F32, MF_CAST_F32},    {MF_CAST_BF16, MF_CAST_BF16, MF_CAST_F32},
    {MF_CAST_F32, MF_CAST_BF16, MF_CAST_F32},   {MF_CAST_BF16, MF_CAST_F32, MF_CAST_F32},
    {MF_CAST_BF16, MF_CAST_BF16, MF_CAST_BF16}, {MF_CAST_F32, MF_CAST_F32, MF_CAST_BF16}};
#define TYPES 6

/* v selects transposes, beta and bias, gathers, and the shape. */
static void gemm_of_types(mf_kt *t, const mf_cast_type *type, int v)
{
    const int64_t *s = shapes[v / 8 % SHAPES], parts = s[3];
    mf_gemm p = {.m = s[0],
                 .n = s[1],
                 .k = s[2],
                 .a.trans = v & 1,
                 .b.trans = v & 2,
                 .a.type = type[0],
                 .b.type = type[1],
                 .c.type = type[2],
                 .alpha = v & 4 ? 2 : 1,
                 .beta = v & 4 ? 1 : 0,
                 .as_bf16 = type != types[0] && v & 4,
                 .groups = parts};
    int64_t rows_a = p.a.trans ? p.k : p.m, rows_b = p.b.trans ? p.n : p.k;
    p.a.ld = (p.a.trans ? p.m : p.k) + 3;
    p.b.ld = (p.b.trans ? p.k : p.n) + (v & 4 ? 2 : 0);
    p.c.ld = p.n + 1;
    p.a.step = rows_a * p.a.ld;
    p.b.step = rows_b * p.b.ld;
    p.c.step = p.m * p.c.ld;
    p.step_bias = p.n;
    p.a.data = numbers(t, p.a.type, parts * p.a.step);
    p.b.data = numbers(t, p.b.type, parts * p.b.step);
    if (v / 8 % 3 == 1) p.a.row = rows_of(t, rows_a, rows_a);
    if (v / 8 % 3 == 2) p.b.row = rows_of(t, rows_b, rows_b);
    if (!(v & 4)) p.bias = kt_f32(t, parts * p.n);
    run_into_c(t, &p, parts * p.c.step);
}

/* Odd integers from 257 to 511, with both signs. bf16 cannot represent them, so a bf16 array
 * contains rounded numbers. */
static void *odd(mf_kt *t, mf_cast_type type, int64_t count, int64_t turn)
{
    float *p = kt_f32(t, count);
    uint16_t *bf16 = kt_work(t, (size_t)count * sizeof *bf16);
    for (int64_t i = 0; i < count; i++) {
        p[i] = (float)(257 + 2 * (i * turn % 128)) * (i % 3 ? 1 : -1);
        bf16[i] = mf_bf16_from_f32(p[i]);
    }
    return type == MF_CAST_BF16 ? (void *)bf16 : (void *)p;
}

/* f32 operands that are rounded to bf16 because as_bf16 is set; the other operand is bf16 or
 * f32. The sums are whole numbers below 2^24, so any other rounding leads to other numbers. */
static void run_rounded(mf_kt *t)
{
    static const mf_cast_type of[][2] = {
        {MF_CAST_F32, MF_CAST_BF16}, {MF_CAST_BF16, MF_CAST_F32}, {MF_CAST_F32, MF_CAST_F32}};
    const mf_cast_type *type = of[t->variant % 3];
    const int64_t m = t->variant < 3 ? 5 : 70, n = 40, k = 24;
    const mf_gemm p = {.m = m,
                       .n = n,
                       .k = k,
                       .a = {.data = odd(t, type[0], m * k, 37), .ld = k, .type = type[0]},
                       .b = {.data = odd(t, type[1], k * n, 53), .ld = n, .type = type[1]},
                       .c = {.data = kt_result(t, m * n), .ld = n},
                       .alpha = 1,
                       .as_bf16 = true};
    t->k->gemm(t->x, &p);
}

/* A gemm by groups of rows or of the inner dimension. With `gather`, rows of a or of b are read
 * through a list. c is dense. */
static void gemm_of_groups(mf_kt *t, const mf_cast_type *type, int v)
{
    static const int64_t sizes_of[][4] = {/* groups, rows, n, k */
                                          {1, 5, 7, 3},
                                          {4, 9, 40, 33},
                                          {8, 200, 130, 65},
                                          {3, 400, 100, 30},
                                          {64, 130, 50, 20}};
    const int64_t *s = sizes_of[v / 4];
    bool inner = v & 1, gather = v & 2;
    mf_gemm p = {.n = s[2],
                 .a.type = type[0],
                 .b.type = type[1],
                 .c.type = type[2],
                 .alpha = 1,
                 .by = inner ? MF_BY_INNER : MF_BY_ROWS,
                 .groups = s[0],
                 .offset = kt_offsets(t, s[0], s[1])};
    if (v % 3 == 1 && p.groups > 1) p.groups--, p.offset++; /* without the first group */
    if (inner) {                                            /* c[i] [s[3],n] = a^T b */
        p.m = s[3];
        p.k = s[1];
        p.a.trans = true;
        p.a.ld = p.m;
        p.b.ld = p.c.ld = p.n;
        p.c.step = p.m * p.n;
        p.a.data = numbers(t, p.a.type, p.k * p.m);
        p.b.data = numbers(t, p.b.type, p.k * p.n);
        if (gather) p.b.row = rows_of(t, p.k, p.k);
        run_into_c(t, &p, p.groups * p.c.step);
    } else {
        p.m = s[1];
        p.k = s[3];
        p.b.trans = gather || v / 4 == 2;
        p.a.ld = p.k;
        p.b.ld = p.b.trans ? p.k : p.n;
        p.c.ld = p.n;
        p.b.step = p.n * p.k;
        p.a.data = numbers(t, p.a.type, p.m * p.k);
        p.b.data = numbers(t, p.b.type, p.groups * p.b.step);
        if (gather) {
            p.a.row = rows_of(t, p.m, p.m);
            p.bias = kt_f32(t, p.groups * p.n);
            p.step_bias = p.n;
        }
        run_into_c(t, &p, p.m * p.n);
    }
}
#define BY_GROUPS 20

/* Groups of few rows with many inputs, one of which two threads share. */
static void run_shared_group(mf_kt *t)
{
    enum { GROUPS = 7, ROWS = 24, N = 8, K = 4200 };
    int32_t *offset = kt_i32(t, GROUPS + 1, 0, 1);
    for (int e = 0; e <= GROUPS; e++)
        offset[e] = e * ROWS;
    const mf_gemm p = {.m = GROUPS * ROWS,
                       .n = N,
                       .k = K,
                       .a = {.data = numbers(t, MF_CAST_BF16, GROUPS * ROWS * K),
                             .ld = K,
                             .type = MF_CAST_BF16},
                       .b = {.data = numbers(t, MF_CAST_BF16, GROUPS * N * K),
                             .trans = true,
                             .ld = K,
                             .step = N * K,
                             .type = MF_CAST_BF16},
                       .c = {.data = kt_result(t, GROUPS * ROWS * N), .ld = N},
                       .alpha = 1,
                       .by = MF_BY_ROWS,
                       .groups = GROUPS,
                       .offset = offset};
    t->k->gemm(t->x, &p);
}

#define OF_A_TYPE (8 * SHAPES + BY_GROUPS)

static void gemm_of(mf_kt *t, const mf_cast_type *type, int v)
{
    if (v < 8 * SHAPES)
        gemm_of_types(t, type, v);
    else
        gemm_of_groups(t, type, v - 8 * SHAPES);
}

static void run_gemm(mf_kt *t)
{
    gemm_of(t, types[0], t->variant);
}

static void run_gemm_bf16(mf_kt *t)
{
    int v = t->variant % OF_A_TYPE, round = t->variant / OF_A_TYPE;
    gemm_of(t, types[1 + (v + 2 * round) % (TYPES - 1)], v);
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
    const mf_gemm g = {.m = s[1],
                       .n = s[2],
                       .k = s[3],
                       .a = {.data = a, .ld = s[3]},
                       .b = {.data = w, .trans = true, .ld = s[3], .step = s[2] * s[3]},
                       .c = {.data = y, .ld = s[2]},
                       .alpha = 1,
                       .bias = bias,
                       .step_bias = s[2],
                       .by = MF_BY_ROWS,
                       .groups = s[0],
                       .offset = offset};
    t->k->gemm(t->x, &g);
}

static void run_grouped_linear_dx(mf_kt *t)
{
    const int64_t *s = grouped[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *dy = kt_f32(t, s[1] * s[2]), *w = kt_f32(t, s[0] * s[2] * s[3]);
    float *da = kt_result(t, s[1] * s[3]);
    const mf_gemm g = {.m = s[1],
                       .n = s[3],
                       .k = s[2],
                       .a = {.data = dy, .ld = s[2]},
                       .b = {.data = w, .ld = s[3], .step = s[2] * s[3]},
                       .c = {.data = da, .ld = s[3]},
                       .alpha = 1,
                       .by = MF_BY_ROWS,
                       .groups = s[0],
                       .offset = offset};
    t->k->gemm(t->x, &g);
}

static void run_grouped_weight_grad(mf_kt *t)
{
    const int64_t *s = grouped[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *dy = kt_f32(t, s[1] * s[2]), *a = kt_f32(t, s[1] * s[3]);
    float *dw = kt_result(t, s[0] * s[2] * s[3]);
    const mf_gemm g = {.m = s[2],
                       .n = s[3],
                       .k = s[1],
                       .a = {.data = dy, .trans = true, .ld = s[2]},
                       .b = {.data = a, .ld = s[3]},
                       .c = {.data = dw, .ld = s[3], .step = s[2] * s[3]},
                       .alpha = 1,
                       .by = MF_BY_INNER,
                       .groups = s[0],
                       .offset = offset};
    t->k->gemm(t->x, &g);
}

static void run_group_sum(mf_kt *t)
{
    const int64_t *s = grouped[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    float *a = kt_f32(t, s[1] * s[2]), *y = kt_result(t, s[0] * s[2]);
    KT_RUN(t, group_sum, .type = MF_CAST_F32, .groups = s[0], .rows = s[1], .n = s[2],
           .offset = offset, .a = a, .y = y);
}

/* ---- packed weights ---- */

/* m, n, k, parts, whether parts are groups of rows: few and many rows, a short last panel,
 * copied rows, several blocks of k, more rows than the engine processes at once, shapes that
 * cannot be packed. */
static const int64_t panels[][5] = {
    {1, 48, 50, 1, 0},   {3, 32, 34, 2, 0},    {2, 80, 1300, 3, 0}, {20, 112, 700, 1, 0},
    {530, 48, 36, 1, 0}, {40, 64, 1024, 2, 0}, {3, 64, 4096, 1, 0}, {7, 21, 33, 2, 0},
    {90, 96, 66, 8, 1},  {9, 160, 64, 5, 1},   {300, 32, 40, 3, 1}};
#define PANELS 11

static void packed(mf_kt *t, const mf_cast_type *type, int v)
{
    const int64_t *s = panels[v % PANELS], parts = s[3], per = s[0] * s[1];
    mf_gemm p = {.m = s[0],
                 .n = s[1],
                 .k = s[2],
                 .b.trans = true,
                 .a.type = type[0],
                 .b.type = type[1],
                 .c.type = type[2],
                 .a.ld = s[2],
                 .b.ld = s[2],
                 .c.ld = s[1],
                 .alpha = v & 1 ? 2 : 1,
                 .beta = v & 1,
                 .by = s[4] ? MF_BY_ROWS : MF_BY_BATCH,
                 .groups = parts,
                 .offset = s[4] ? kt_offsets(t, parts, s[0]) : NULL,
                 .a.step = s[0] * s[2],
                 .b.step = s[1] * s[2],
                 .c.step = per,
                 .step_bias = s[1]};
    void *w = numbers(t, p.b.type, parts * p.b.step);
    p.a.data = numbers(t, p.a.type, (s[4] ? 1 : parts) * p.a.step);
    p.b.data = w;
    if (!(v & 1)) p.bias = kt_f32(t, parts * p.n);
    p.b.packed = t->k->can_pack((int)p.b.type, p.n, p.k);
    if (p.b.packed)
        KT_RUN(t, pack_weights, .type = (int)p.b.type, .parts = parts, .n = p.n, .k = p.k,
               .w = w);
    run_into_c(t, &p, s[4] ? per : parts * per);
}

static void run_packed(mf_kt *t)
{
    packed(t, types[0], t->variant);
}

static void run_packed_bf16(mf_kt *t)
{
    packed(t, types[t->variant < 2 * PANELS ? 1 : 4], t->variant);
}

const mf_kernel_row mf_kernel_cases_gemm[] = {
    {"gemm", run_rounded, 6, true, 0},
    {"gemm", run_shared_group, 1, true, 8e-6}, /* sums of 4,200 numbers in f32 */
    {"gemm", run_matmul, 8 * SIZES, true, 2e-6},
    {"gemm", run_matmul_batch, 4, true, 2e-6},
    {"gemm", run_from, 16, true, 2e-6},
    {"gemm", run_gemm, OF_A_TYPE, true, 2e-6},
    {"gemm", run_gemm_bf16, 2 * OF_A_TYPE, true, 8e-3},
    {"gemm", run_long_f32, 8, true, 4e-6},   /* sums of 2,053 numbers in f32 */
    {"gemm", run_long_bf16, 8, false, 8e-3}, /* a long sum may be rounded twice, in two parts
                                              * of c */
    {"pack_weights", run_packed, 2 * PANELS, true, 2e-6},
    {"pack_weights", run_packed_bf16, 4 * PANELS, true, 8e-3},
    {"gemm", run_linear, 2 * SIZES, true, 2e-6},
    {"gemm", run_grouped_linear, 2 * GROUPED, true, 2e-6},
    {"gemm", run_grouped_linear_dx, GROUPED, true, 2e-6},
    {"gemm", run_grouped_weight_grad, GROUPED, true, 2e-6},
    {"group_sum", run_group_sum, GROUPED, true, 2e-6},
    {0},
};

/* ---- many shapes ---- */

/* Many shapes, so that a library's table of primitives is filled. The variant selects the type,
 * and whether m or k grows. */
static void run_many(mf_kt *t)
{
    const bool bf16 = t->variant & 1, inner = t->variant & 2;
    const int64_t rows = 120, side = 24;
    const mf_cast_type type = bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    float *result = kt_result(t, side * 4 * rows);
    const void *a = numbers(t, type, 4 * rows * side), *b = numbers(t, type, 4 * rows * side);
    for (int64_t m = 9; m < rows; m++)
        for (int64_t n = side - 4; n < side; n++) {
            const mf_gemm p = {.m = inner ? n : m,
                               .n = n,
                               .k = inner ? m : n,
                               .a.trans = inner,
                               .b.trans = !inner && n % 2 == 0,
                               .a.type = type,
                               .b.type = type,
                               .a.data = a,
                               .b.data = b,
                               .c.data = result,
                               .a.ld = side,
                               .b.ld = side,
                               .c.ld = 4 * side,
                               .alpha = 1,
                               .beta = m % 3 == 0};
            t->k->gemm(t->x, &p);
        }
}

/* A bf16 result so large that it is divided in both directions. Its sums need several blocks of
 * the inner dimension. */
static void run_large_bf16(mf_kt *t)
{
    const int64_t m = 320, n = 1000, k = 650;
    const bool trans_b = t->variant & 1;
    mf_gemm p = {.m = m,
                 .n = n,
                 .k = k,
                 .b.trans = trans_b,
                 .a.type = MF_CAST_BF16,
                 .b.type = MF_CAST_BF16,
                 .c.type = MF_CAST_BF16,
                 .a.ld = k,
                 .b.ld = trans_b ? k : n,
                 .c.ld = n,
                 .alpha = 1,
                 .beta = trans_b ? 1 : 0};
    p.a.data = numbers(t, p.a.type, m * k);
    p.b.data = numbers(t, p.b.type, n * k);
    if (!trans_b) p.bias = kt_f32(t, n);
    run_into_c(t, &p, m * n);
}

const mf_kernel_row mf_kernel_cases_many[] = {
    {"gemm", run_many, 4, false, 2e-5},
    {"gemm", run_large_bf16, 2, true, 8e-3},
    {0},
};
