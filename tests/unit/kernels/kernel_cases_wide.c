/* Cases of check_kernels: rows that begin at multiples of 16 bytes, of which a set may move
 * several numbers at once; rows so long that a set may process each row in several turns; and
 * lists so long that a set may divide them. */
#include <check.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel_case.h"
#include "kernels/bf16.h"

/* ---- losses ---- */

/* rows, n. In one turn a block of a GPU processes 4,096 logits, and a warp 512. */
static const int64_t entropy_of[][2] = {{6, 9004}, {19, 1020}, {6, 9001}};

/* From variant 3 on, the logits of row 0 rise and those of row 1 fall, so the largest logit
 * comes late or early. Row 2 begins with -inf, row 3 contains NaN, and row 4 contains +inf. */
static float *logits_of(mf_kt *t, int64_t rows, int64_t n)
{
    float *a = kt_f32(t, rows * n);
    if (t->variant < 3) return a;
    for (int64_t j = 0; j < n; j++) {
        a[j] += 100 * (float)j / (float)n;
        a[n + j] -= 100 * (float)j / (float)n;
        if (j < n * 3 / 4) a[2 * n + j] = -INFINITY;
    }
    a[3 * n + n / 2] = NAN;
    a[4 * n + n / 3] = INFINITY;
    return a;
}

/* Draws targets, of which some are -1: such a row does not count. Of thousands of classes -1
 * would hardly be drawn. */
static int32_t *targets_of(mf_kt *t, int64_t rows, int64_t n)
{
    int32_t *target = kt_i32(t, rows, -1, n - 1);
    for (int64_t i = 1; i < rows; i += 3)
        target[i] = -1;
    return target;
}

static void run_cross_entropy(mf_kt *t)
{
    const int64_t rows = entropy_of[t->variant % 3][0], n = entropy_of[t->variant % 3][1];
    float *logits = logits_of(t, rows, n);
    int32_t *target = kt_i32(t, rows, n - 9, n - 1);
    KT_RUN(t, cross_entropy, .rows = rows, .n = n, .logits = logits, .target = target,
           .loss = kt_result(t, 1), .row_loss = kt_result(t, rows), .lse = kt_result(t, rows));
}

static void run_cross_entropy_backward(mf_kt *t)
{
    const int64_t rows = entropy_of[t->variant % 3][0], n = entropy_of[t->variant % 3][1];
    float *logits = logits_of(t, rows, n), *weight = kt_positive(t, rows);
    int32_t *target = targets_of(t, rows, n);
    float *loss = kt_f32(t, 1), *row_loss = kt_f32(t, rows), *lse = kt_f32(t, rows);
    MF_RUN(&mf_kernels_ref, t->x, cross_entropy, .rows = rows, .n = n, .logits = logits,
           .target = target, .weight = weight, .loss = loss, .row_loss = row_loss, .lse = lse);
    KT_RUN(t, cross_entropy_backward, .rows = rows, .n = n, .logits = logits, .target = target,
           .weight = weight, .loss = loss, .row_loss = row_loss, .lse = lse,
           .dloss = kt_f32(t, 1), .dlogits = kt_result(t, rows * n),
           .dweight = kt_result(t, rows));
}

/* A head of which some variants have rows of logits that need several turns, or that a block of
 * a GPU does not keep, or more rows than blocks. Variants from 5 on have weights and a bias,
 * whose gradient is summed before the gradients of the logits are rounded. */
static void run_head(mf_kt *t, int type)
{
    static const int64_t vocab_of[] = {9001, 700, 8192, 41801, 1102},
                         rows_of[] = {5, 5, 5, 2, 27};
    const int64_t rows = rows_of[t->variant % 5], d = 4, vocab = vocab_of[t->variant % 5];
    const bool bias = t->variant >= 5;
    void *dx = kt_work(t, (size_t)(rows * d * mf_cast_size(type)));
    const mf_linear_cross_entropy_args args = {
        .rows = rows,
        .d = d,
        .vocab = vocab,
        .type = (mf_cast_type)type,
        .x = kt_typed(t, type, rows * d, kt_f32(t, rows * d)),
        .w = kt_typed(t, type, vocab * d, kt_f32(t, vocab * d)),
        .bias = bias ? kt_f32(t, vocab) : NULL,
        .target = targets_of(t, rows, vocab),
        .weight = bias ? kt_positive(t, rows) : NULL,
        .loss = kt_result(t, 1),
        .row_loss = kt_result(t, rows),
        .dx = dx,
        .dw = kt_result(t, vocab * d),
        .dbias = bias ? kt_result(t, vocab) : NULL,
        .work = kt_work(t, mf_linear_cross_entropy_work(rows, d, vocab, type, 0, true, bias))};
    t->k->linear_cross_entropy(t->x, &args);
    kt_give(t, type, rows * d, dx);
}

static void run_head_f32(mf_kt *t)
{
    run_head(t, MF_CAST_F32);
}

static void run_head_bf16(mf_kt *t)
{
    run_head(t, MF_CAST_BF16);
}

/* ---- tables and rows by index ---- */

/* size: number of ids, width, number of ids that occur often. The lists of these ids have
 * hundreds of positions, and a tile has 32. Other lists begin and end at, before and after the
 * ends of tiles. */
static void run_embedding_grad(mf_kt *t)
{
    static const int64_t size[][3] = {{50, 36, 3}, {2000, 300, 40}, {1030, 33, 2}, {9, 260, 0}};
    const int64_t *s = size[t->variant % 4], vocab = s[0], n = s[1], count = 1800;
    const bool add = t->variant >= 4;
    int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    for (int64_t i = 0; s[2] > 0 && i < count; i++)
        if (i % 16 > 1) ids[i] = (int32_t)(i * i % s[2]);
    /* 64 positions have id 0, 32 each have ids 1 and 2, the others have ids 5 or 7 */
    for (int64_t i = 0; s[2] == 0 && i < count; i++)
        ids[i] = i < 64 ? 0 : i < 96 ? 1 : i < 128 ? 2 : i < 1000 ? 5 : 7;
    float *dy = kt_f32(t, count * n), *dtable = kt_result(t, vocab * n);
    KT_RUN(t, embedding_grad, .vocab = vocab, .n = n, .count = count, .add = add, .ids = ids,
           .dy = dy, .dtable = dtable,
           .work = kt_work(t, mf_kernel_embedding_work(vocab, count)));
}

static void run_embedding(mf_kt *t)
{
    const int64_t vocab = 90, n = 36, count = 1200;
    const int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    const float *table = kt_f32(t, vocab * n);
    KT_RUN(t, embedding, .vocab = vocab, .n = n, .count = count, .table = table, .ids = ids,
           .y = kt_result(t, count * n));
}

/* Rows of f32 or of bf16, with 40 elements, or with 36, which in bf16 are not a multiple of
 * 16 bytes. */
static void run_gather_rows(mf_kt *t)
{
    const int type = t->variant % 2 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t m = 900, rows = 70, d = t->variant < 2 ? 40 : 36;
    int32_t *index = kt_i32(t, m, -1, rows - 1);
    void *in = kt_typed(t, type, rows * d, kt_f32(t, rows * d));
    void *out = kt_work(t, (size_t)(m * d * mf_cast_size(type)));
    KT_RUN(t, gather_rows, .type = type, .m = m, .d = d, .in = in, .index = index, .out = out);
    kt_give(t, type, m * d, out);
}

/* Rows of 44 elements, or of 45. */
static void sum_rows(mf_kt *t, int from, int to)
{
    const int64_t n = 300, k = 3, d = 44 + t->variant, rows = n * k;
    int32_t *place = kt_i32(t, rows, -1, rows - 1);
    float *gate = kt_f32(t, rows);
    void *in = kt_typed(t, from, rows * d, kt_f32(t, rows * d));
    void *out = kt_work(t, (size_t)(n * d * mf_cast_size(to)));
    KT_RUN(t, sum_rows, .type_in = from, .type_out = to, .n = n, .d = d, .k = k, .place = place,
           .gate = gate, .in = in, .out = out);
    kt_give(t, to, n * d, out);
}

static void run_sum_rows_f32(mf_kt *t)
{
    sum_rows(t, MF_CAST_F32, MF_CAST_F32);
}

static void run_sum_rows_of_bf16(mf_kt *t)
{
    sum_rows(t, MF_CAST_BF16, MF_CAST_F32);
}

static void run_sum_rows_bf16(mf_kt *t)
{
    sum_rows(t, MF_CAST_BF16, MF_CAST_BF16);
}

/* ---- maps ---- */

/* dim, then strides of a and of b. Lines with a multiple of four elements and a row, a column,
 * a scalar, a line that does not begin at a multiple of four, in four dimensions, and so many
 * that a block needs several turns; lines whose length is not a multiple of four. */
static const int64_t map2_of[][3][4] = {{{1, 1, 90, 36}, {0, 0, 36, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 90, 36}, {0, 0, 1, 0}, {0, 0, 36, 1}},
                                        {{1, 1, 1, 8200}, {0, 0, 0, 1}, {0, 0, 0, 0}},
                                        {{1, 1, 90, 36}, {0, 0, 37, 1}, {0, 0, 36, 1}},
                                        {{3, 5, 7, 8}, {0, 8, 0, 1}, {140, 28, 4, 0}},
                                        {{1, 1, 1, 8200}, {0, 0, 0, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 90, 37}, {0, 0, 40, 1}, {0, 0, 0, 1}}};
#define MAPS 7

/* The variant selects the function and the entry of map2_of. */
static void map2(mf_kt *t, int type)
{
    const int64_t(*s)[4] = map2_of[t->variant % MAPS];
    const int64_t n = s[0][0] * s[0][1] * s[0][2] * s[0][3];
    int64_t reach[2] = {1, 1};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            reach[k] += (s[0][i] - 1) * s[1 + k][i];
    void *a = kt_typed(t, type, reach[0], kt_f32(t, reach[0])),
         *b = kt_typed(t, type, reach[1], kt_positive(t, reach[1]));
    void *y = kt_work(t, (size_t)(n * mf_cast_size(type)));
    KT_RUN(t, map2, .fn = t->variant / MAPS, .type = type, .dim = MF_FOUR(s[0]),
           .stride_a = MF_FOUR(s[1]), .stride_b = MF_FOUR(s[2]), .a = a, .b = b, .out = y);
    kt_give(t, type, n, y);
}

static void run_map2_f32(mf_kt *t)
{
    map2(t, MF_CAST_F32);
}

static void run_map2_bf16(mf_kt *t)
{
    map2(t, MF_CAST_BF16);
}

/* The elements fill two blocks and a part of a third. All functions are checked. */
static void run_map1(mf_kt *t)
{
    const int64_t n = 5001;
    const float *a = kt_positive(t, n);
    KT_RUN(t, map1, .fn = t->variant, .type = MF_CAST_F32, .n = n, .a = -1.5f, .b = 2, .in = a,
           .out = kt_result(t, n));
}

static void run_map1_grad(mf_kt *t)
{
    const int64_t n = 5001;
    const float *a = kt_positive(t, n);
    float *y = kt_f32(t, n);
    MF_RUN(&mf_kernels_ref, t->x, map1, .fn = t->variant, .type = MF_CAST_F32, .n = n,
           .a = -1.5f, .b = 2, .in = a, .out = y);
    KT_RUN(t, map1_grad, .fn = t->variant, .type = MF_CAST_F32, .n = n, .a = -1.5f, .b = 2,
           .in = a, .out = y, .dout = kt_f32(t, n), .din = kt_result(t, n));
}

/* ---- rows of layers ---- */

/* rows, n, distance of rows: multiples of four, long rows, no multiples of four. */
static const int64_t swiglu_of[][3] = {{37, 40, 80}, {5, 3000, 6000}, {5, 3000, 3004},
                                       {37, 40, 82}, {5, 1101, 1101}, {37, 42, 84}};
#define SWIGLUS 6

static void swiglu(mf_kt *t, int type)
{
    const int64_t *s = swiglu_of[t->variant], rows = s[0], n = s[1], ld = s[2];
    void *a = kt_typed(t, type, rows * ld, kt_f32(t, rows * ld)),
         *b = kt_typed(t, type, rows * ld, kt_f32(t, rows * ld));
    void *y = kt_work(t, (size_t)(rows * n * mf_cast_size(type)));
    KT_RUN(t, swiglu, .type = type, .rows = rows, .n = n, .a = a, .lda = ld, .b = b, .ldb = ld,
           .gate = kt_f32(t, rows), .y = y);
    kt_give(t, type, rows * n, y);
}

static void run_swiglu_f32(mf_kt *t)
{
    swiglu(t, MF_CAST_F32);
}

static void run_swiglu_bf16(mf_kt *t)
{
    swiglu(t, MF_CAST_BF16);
}

static void swiglu_backward(mf_kt *t, int type)
{
    const int64_t *s = swiglu_of[t->variant], rows = s[0], n = s[1], ld = s[2];
    void *in[3], *out[3];
    for (int i = 0; i < 3; i++) {
        in[i] = kt_typed(t, type, rows * ld, kt_f32(t, rows * ld));
        out[i] = kt_typed(t, type, rows * ld, kt_f32(t, rows * ld));
    }
    KT_RUN(t, swiglu_backward, .type = type, .rows = rows, .n = n, .a = in[0], .lda = ld,
           .b = in[1], .ldb = ld, .gate = kt_f32(t, rows), .dy = in[2], .da = out[0],
           .db = out[1], .dgate = kt_result(t, rows), .y = out[2]);
    for (int i = 0; i < 3; i++)
        kt_give(t, type, rows * ld, out[i]);
}

static void run_swiglu_backward_f32(mf_kt *t)
{
    swiglu_backward(t, MF_CAST_F32);
}

static void run_swiglu_backward_bf16(mf_kt *t)
{
    swiglu_backward(t, MF_CAST_BF16);
}

/* ---- sums of columns ---- */

static void run_sum3(mf_kt *t)
{
    static const int64_t size[][3] = {{1, 9000, 8}, {3, 700, 4}, {2, 1300, 100}, {1, 520, 36}};
    const int64_t *s = size[t->variant];
    float *in = kt_f32(t, s[0] * s[1] * s[2]), *out = kt_result(t, s[0] * s[2]);
    KT_RUN(t, sum3, .outer = s[0], .n = s[1], .inner = s[2], .scale = 0.5, .in = in, .out = out,
           .work = kt_work(t, mf_sum3_work(s[0], s[1], s[2])));
}

/* Sums of bf16 have the bits of sums of the same numbers in f32. */
static void run_sum3_bf16(mf_kt *t)
{
    static const int64_t size[][3] = {{1, 9000, 8}, {3, 700, 4},    {2, 1300, 100},
                                      {1, 520, 37}, {1, 3000, 200}, {70, 300, 1},
                                      {1, 20001, 1}};
    const int64_t *s = size[t->variant], n = s[0] * s[1] * s[2], results = s[0] * s[2];
    float *f32 = kt_f32(t, n), *out = kt_result(t, results), *same = kt_f32(t, results);
    const mf_bf16 *in = kt_typed(t, MF_CAST_BF16, n, f32);
    for (int64_t i = 0; i < n; i++)
        f32[i] = mf_bf16_to_f32(in[i]);
    mf_sum3_args a = {.outer = s[0],
                      .n = s[1],
                      .inner = s[2],
                      .scale = 0.5,
                      .type = MF_CAST_BF16,
                      .in = in,
                      .out = out,
                      .work = kt_work(t, mf_sum3_work(s[0], s[1], s[2]))};
    t->k->sum3(t->x, &a);
    a.type = MF_CAST_F32, a.in = f32, a.out = same;
    t->k->sum3(t->x, &a);
    ck_assert(memcmp(out, same, (size_t)results * sizeof *out) == 0);
}

static void run_group_sum(mf_kt *t)
{
    static const int64_t n_of[] = {8, 4, 36, 37};
    const int type = t->variant < 4 ? MF_CAST_F32 : MF_CAST_BF16;
    const int64_t groups = 5, rows = 900, n = n_of[t->variant % 4];
    const int32_t *offset = kt_offsets(t, groups, rows);
    const void *a = kt_typed(t, type, rows * n, kt_f32(t, rows * n));
    KT_RUN(t, group_sum, .type = type, .groups = groups, .rows = rows, .n = n, .offset = offset,
           .a = a, .y = kt_result(t, groups * n));
}

const mf_kernel_row mf_kernel_cases_wide[] = {
    {"map2", run_map2_f32, MF_MAP2_COUNT *MAPS, true, 0},
    {"map2", run_map2_bf16, MF_MAP2_COUNT *MAPS, false, 4e-3},
    {"map1", run_map1, MF_MAP1_COUNT, false, 1e-6},
    {"map1_grad", run_map1_grad, MF_MAP1_COUNT, false, 2e-6},
    {"swiglu", run_swiglu_f32, SWIGLUS, false, 1e-6},
    {"swiglu", run_swiglu_bf16, SWIGLUS, false, 4e-3},
    {"swiglu_backward", run_swiglu_backward_f32, SWIGLUS, false, 1e-6},
    {"swiglu_backward", run_swiglu_backward_bf16, SWIGLUS, false, 8e-3},
    {"sum3", run_sum3, 4, true, 1e-6},
    {"sum3", run_sum3_bf16, 7, true, 1e-6},
    {"group_sum", run_group_sum, 8, true, 1e-6},
    {"cross_entropy", run_cross_entropy, 6, false, 1e-6},
    {"cross_entropy_backward", run_cross_entropy_backward, 6, false, 1e-6},
    {"linear_cross_entropy", run_head_f32, 10, false, 5e-5}, /* sums of 9,001 numbers in f32 */
    {"linear_cross_entropy", run_head_bf16, 10, false, 1e-2},
    {"embedding_grad", run_embedding_grad, 8, true, 1e-6},
    {"embedding", run_embedding, 1, true, 0},
    {"gather_rows", run_gather_rows, 4, true, 0},
    {"sum_rows", run_sum_rows_f32, 2, true, 1e-6},
    {"sum_rows", run_sum_rows_of_bf16, 2, false, 1e-6},
    {"sum_rows", run_sum_rows_bf16, 2, false, 4e-3},
    {0},
};
