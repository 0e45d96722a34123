/* Cases of check_kernels: gemms of bf16 and of f32 whose rows begin at multiples of 16 bytes. A
 * device may have special kernels for these. The sizes are around its tiles, with groups and
 * gathered rows. */
#include <string.h>

#include "kernel_case.h"

static uint16_t bf16_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static uint16_t *rounded(mf_kt *t, int64_t count, const float *from)
{
    uint16_t *p = kt_work(t, (size_t)count * sizeof *p);
    for (int64_t i = 0; i < count; i++)
        p[i] = bf16_bits(from[i]);
    return p;
}

static uint16_t *bf16s(mf_kt *t, int64_t count)
{
    return rounded(t, count, kt_f32(t, count));
}

static int64_t up8(int64_t n)
{
    return (n + 7) / 8 * 8;
}

typedef struct types {
    mf_cast_type in, out;
} types;

/* An operand of a gemm. Its array ends with the last element, before the end of the
 * last row. */
static mf_gemm_operand operand(mf_kt *t, mf_cast_type type, bool trans, int64_t parts,
                               int64_t rows, int64_t columns)
{
    const int64_t ld = up8(columns), step = rows * ld;
    const int64_t count = parts * step - (step > 0 ? ld - columns : 0);
    return (mf_gemm_operand){.data = type == MF_CAST_BF16 ? (const void *)bf16s(t, count)
                                                          : (const void *)kt_f32(t, count),
                             .type = type,
                             .trans = trans,
                             .ld = ld,
                             .step = step};
}

static void to_f32(int64_t count, const uint16_t *from, float *to)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

/* Runs g with a c of `count` elements of its type, and compares c as f32. */
static void run_into(mf_kt *t, mf_gemm *g, int64_t count)
{
    float *result = kt_result(t, count);
    uint16_t *half = NULL;
    g->c.data = result;
    if (g->c.type == MF_CAST_BF16) g->c.data = half = rounded(t, count, result);
    t->k->gemm(t->x, g);
    if (half) to_f32(count, half, result);
}

/* m, n, k: one element; no inner dimension; one tile and its neighbours; parts of 16 bytes;
 * more steps than a pipeline holds, all of them whole; so many tiles that wide tiles
 * are used. */
static const int64_t sizes[][3] = {{1, 1, 1},      {5, 9, 0},       {129, 130, 67},
                                   {20, 257, 128}, {128, 128, 64},  {33, 20, 525},
                                   {300, 280, 80}, {140, 264, 330}, {9, 20, 320}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* v: selects the two transposes, the size, and beta with two groups or a bias. */
static void by_batch(mf_kt *t, types type, int v)
{
    const int64_t *s = sizes[v / 4 % SIZES], parts = v % 3 == 0 ? 2 : 1;
    mf_gemm g = {.m = s[0],
                 .n = s[1],
                 .k = s[2],
                 .alpha = parts == 2 ? 0.5f : 1,
                 .beta = parts == 2 ? 1 : 0,
                 .groups = parts};
    g.a = v & 1 ? operand(t, type.in, true, parts, g.k, g.m)
                : operand(t, type.in, false, parts, g.m, g.k);
    g.b = v & 2 ? operand(t, type.in, true, parts, g.n, g.k)
                : operand(t, type.in, false, parts, g.k, g.n);
    g.c = (mf_gemm_result){.type = type.out, .ld = g.n + v / 4 % 2, .step = g.m * (g.n + 3)};
    if (parts == 1) g.bias = kt_f32(t, g.n);
    run_into(t, &g, parts * g.c.step);
}
enum { BATCHES = 4 * SIZES };

/* groups, rows, n, k of a group: rows of one group in several tiles; empty groups; more groups
 * than rows; so many steps that each place of a pipeline is used again; and so few rows that a
 * warp may compute a column over the whole inner dimension */
static const int64_t grouped[][4] = {{1, 5, 8, 3},      {3, 400, 40, 24},  {8, 200, 130, 72},
                                     {256, 60, 24, 16}, {2, 460, 24, 450}, {5, 600, 200, 400},
                                     {2, 15, 41, 1300}, {40, 16, 18, 520}};
enum { GROUPED = 8 };

/* v: selects whether b is transposed, whether rows are gathered, and the size. */
static void by_rows(mf_kt *t, types type, int v)
{
    const int64_t *s = grouped[v / 4], groups = s[0], rows = s[1];
    mf_gemm g = {.m = rows,
                 .n = s[2],
                 .k = s[3],
                 .alpha = 1,
                 .by = MF_BY_ROWS,
                 .groups = groups,
                 .offset = kt_offsets(t, groups, rows)};
    g.a = operand(t, type.in, false, 1, rows, g.k);
    g.b = v & 1 ? operand(t, type.in, true, groups, g.n, g.k)
                : operand(t, type.in, false, groups, g.k, g.n);
    g.c = (mf_gemm_result){.type = type.out, .ld = g.n};
    if (v & 2) {
        g.a.row = kt_i32(t, rows, -1, rows - 1);
        g.bias = kt_f32(t, groups * g.n);
        g.step_bias = g.n;
    }
    run_into(t, &g, rows * g.n);
}

/* v: selects gathered rows of a or of b, and the size. */
static void by_inner(mf_kt *t, types type, int v)
{
    const int64_t *s = grouped[v / 4], groups = s[0], rows = s[1];
    mf_gemm g = {.m = s[3] < 136 ? s[3] : 136,
                 .n = s[2],
                 .k = rows,
                 .alpha = 1,
                 .beta = v == 5 ? 1 : 0,
                 .by = MF_BY_INNER,
                 .groups = groups,
                 .offset = kt_offsets(t, groups, rows)};
    g.a = operand(t, type.in, true, 1, rows, g.m);
    g.b = operand(t, type.in, false, 1, rows, g.n);
    g.c = (mf_gemm_result){.type = type.out, .ld = g.n, .step = g.m * g.n};
    if (v & 1) g.a.row = kt_i32(t, rows, -1, rows - 1);
    if (v & 2) g.b.row = kt_i32(t, rows, -1, rows - 1);
    run_into(t, &g, groups * g.c.step);
}
enum { ALIGNED = BATCHES + 8 * GROUPED };

static void aligned(mf_kt *t, types type)
{
    const int v = t->variant;
    if (v < BATCHES)
        by_batch(t, type, v);
    else if (v < BATCHES + 4 * GROUPED)
        by_rows(t, type, v - BATCHES);
    else
        by_inner(t, type, v - BATCHES - 4 * GROUPED);
}

static void run_to_f32(mf_kt *t)
{
    aligned(t, (types){MF_CAST_BF16, MF_CAST_F32});
}

static void run_to_bf16(mf_kt *t)
{
    aligned(t, (types){MF_CAST_BF16, MF_CAST_BF16});
}

static void run_f32(mf_kt *t)
{
    aligned(t, (types){MF_CAST_F32, MF_CAST_F32});
}

/* rows, 2 n, k, groups: one column, one tile, more tiles and steps than a pipeline holds */
static const int64_t gated[][4] = {{5, 8, 16, 1},      {200, 72, 72, 8}, {60, 264, 40, 256},
                                   {400, 528, 530, 3}, {40, 30, 24, 4},  {14, 48, 1300, 3}};
enum { GATED = 6 };

/* Runs the epilogue SWIGLU, or two kernels if the set has none. v: selects whether c is kept, a
 * bias, and gates. */
static void run_swiglu(mf_kt *t)
{
    const int v = t->variant;
    const int64_t *s = gated[v / 4], rows = s[0], n = s[1] / 2, groups = s[3];
    uint16_t *c = bf16s(t, rows * 2 * n), *y = bf16s(t, rows * n);
    float *result = kt_result(t, rows * n), *kept = v & 1 ? kt_result(t, rows * 2 * n) : NULL;
    mf_gemm g = {.m = rows,
                 .n = 2 * n,
                 .k = s[2],
                 .a = operand(t, MF_CAST_BF16, false, 1, rows, s[2]),
                 .b = operand(t, MF_CAST_BF16, true, groups, 2 * n, s[2]),
                 .c = {.data = c, .type = MF_CAST_BF16, .ld = 2 * n},
                 .alpha = 0.125f,
                 .by = MF_BY_ROWS,
                 .groups = groups,
                 .offset = kt_offsets(t, groups, rows),
                 .epilogue = MF_EPILOGUE_SWIGLU,
                 .y = {.data = y, .type = MF_CAST_BF16, .ld = n},
                 .gate = v & 2 ? kt_f32(t, rows) : NULL,
                 .keep = v & 1};
    if (v & 1) g.bias = kt_f32(t, groups * 2 * n), g.step_bias = 2 * n;
    const bool fused = t->k->can_swiglu && t->k->can_swiglu(&g);
    if (!fused) g.epilogue = MF_EPILOGUE_NONE;
    t->k->gemm(t->x, &g);
    /* after a fault the epilogue writes nothing */
    if (!fused && t->fault.kind == MF_FAULT_NONE)
        KT_RUN(t, swiglu, .type = MF_CAST_BF16, .rows = rows, .n = n, .a = c, .lda = 2 * n,
               .b = c + n, .ldb = 2 * n, .gate = g.gate, .y = y);
    to_f32(rows * n, y, result);
    if (kept) to_f32(rows * 2 * n, c, kept);
}

const mf_kernel_row mf_kernel_cases_aligned[] = {
    {"gemm", run_to_f32, ALIGNED, true, 2e-6},
    {"gemm", run_to_bf16, ALIGNED, true, 8e-3},
    {"gemm", run_f32, ALIGNED, true, 2e-6},
    {"gemm", run_swiglu, 4 * GATED, false, 8e-3},
    {0},
};
