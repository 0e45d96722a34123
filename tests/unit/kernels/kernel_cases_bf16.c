/* Cases of check_kernels: kernels on bf16 arrays. Results are compared as f32. If the last bit
 * of a sum differs, the rounded bf16 values may differ by one step. */
#include <check.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel_case.h"

#define ULP 0x1p-7 /* largest size of one step of bf16, relative to the number */

/* Numbers of kt_f32, rounded to bf16. */
static mf_bf16 *bf16s(mf_kt *t, int64_t n)
{
    return kt_typed(t, MF_CAST_BF16, n, kt_f32(t, n));
}

/* Adds a bf16 array that a kernel has written to the results, as f32. */
static void give(mf_kt *t, int64_t n, const mf_bf16 *h)
{
    kt_give(t, MF_CAST_BF16, n, h);
}

static const int64_t length_of[] = {1, 37, 20001};
#define LENGTHS 3

/* Arguments within every function's domain, and special values. */
static mf_bf16 *arguments(mf_kt *t, int64_t n)
{
    static const float edge[] = {0, -0.0f, INFINITY, NAN, 60};
    float *p = kt_positive(t, n);
    for (int64_t i = 0; n > 1000 && i < 5; i++)
        p[i == 4 ? n - 1 : 64 * i + 5] = edge[i];
    return kt_typed(t, MF_CAST_BF16, n, p);
}

static void run_map1(mf_kt *t)
{
    int fn = t->variant / LENGTHS;
    int64_t n = length_of[t->variant % LENGTHS];
    mf_bf16 *a = arguments(t, n);
    KT_RUN(t, map1, .fn = fn, .type = MF_CAST_BF16, .n = n, .a = -1.5f, .b = 2, .in = a,
           .out = a);
    give(t, n, a);
}

static void run_map1_grad(mf_kt *t)
{
    int fn = t->variant / LENGTHS;
    int64_t n = length_of[t->variant % LENGTHS];
    mf_bf16 *a = arguments(t, n), *y = arguments(t, n), *dy = bf16s(t, n), *da = bf16s(t, n);
    /* all kernel sets get the same y */
    MF_RUN(&mf_kernels_ref, t->x, map1, .fn = fn, .type = MF_CAST_BF16, .n = n, .a = -1.5f,
           .b = 2, .in = a, .out = y);
    KT_RUN(t, map1_grad, .fn = fn, .type = MF_CAST_BF16, .n = n, .a = -1.5f, .b = 2, .in = a,
           .out = y, .dout = dy, .din = da);
    give(t, n, da);
}

/* Columns are summed, too; a set that does not fuse has a kernel for that. The variant selects
 * the size, the type and the function, of which one reads y. */
static void run_map1_grad_sum(mf_kt *t)
{
    static const int64_t of[][2] = {{1100, 36}, {5, 132}, {19, 256}};
    static const int fns[] = {MF_MAP_GELU, MF_MAP_SILU, MF_MAP_TANH};
    const int v = t->variant, type = v / 3 % 2 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t rows = of[v % 3][0], width = of[v % 3][1], n = rows * width;
    const void *x = kt_typed(t, type, n, kt_f32(t, n));
    const void *dy = kt_typed(t, type, n, kt_f32(t, n));
    void *dx = kt_typed(t, type, n, kt_f32(t, n));
    float *sum = kt_result(t, width);
    KT_RUN(t, map1_grad, .fn = fns[v / 6], .type = type, .n = n, .in = x, .out = x, .dout = dy,
           .din = dx, .width = width, .sum = t->k->fuses ? sum : NULL,
           .work = kt_work(t, mf_sums_work(1, width)));
    if (!t->k->fuses)
        KT_RUN(t, sum3, .outer = 1, .n = rows, .inner = width, .scale = 1, .type = type,
               .in = dx, .out = sum, .work = kt_work(t, mf_sum3_work(1, rows, width)));
    kt_give(t, type, n, dx);
}

/* dim, strides of a, strides of b: equal shapes, a row, a column, a scalar, an outer product,
 * four dimensions. */
static const int64_t map2_of[][3][4] = {{{1, 1, 1, 20001}, {0, 0, 0, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 301, 37}, {0, 0, 37, 1}, {0, 0, 0, 1}},
                                        {{1, 1, 37, 301}, {0, 0, 301, 1}, {0, 0, 1, 0}},
                                        {{1, 1, 1, 40000}, {0, 0, 0, 1}, {0, 0, 0, 0}},
                                        {{1, 1, 90, 70}, {0, 0, 1, 0}, {0, 0, 0, 1}},
                                        {{3, 5, 7, 9}, {0, 9, 0, 1}, {35, 7, 1, 0}}};
#define SHAPES 6

static void run_map2(mf_kt *t)
{
    const int64_t(*s)[4] = map2_of[t->variant % SHAPES];
    int64_t n = s[0][0] * s[0][1] * s[0][2] * s[0][3];
    mf_bf16 *a = bf16s(t, 40000), *b = bf16s(t, 40000), *y = bf16s(t, n);
    KT_RUN(t, map2, .fn = t->variant / SHAPES, .type = MF_CAST_BF16, .dim = MF_FOUR(s[0]),
           .stride_a = MF_FOUR(s[1]), .stride_b = MF_FOUR(s[2]), .a = a, .b = b, .out = y);
    give(t, n, y);
}

static const int64_t rows_of[] = {1, 40, 300}, width_of[] = {3, 37, 200};

static void run_swiglu(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    int64_t ld = t->variant < 3 ? n : 2 * n;
    mf_bf16 *a = bf16s(t, rows * ld), *b = t->variant < 3 ? bf16s(t, rows * n) : a + n;
    mf_bf16 *y = bf16s(t, rows * n);
    const float *gate = t->variant < 6 ? NULL : kt_f32(t, rows);
    KT_RUN(t, swiglu, .type = MF_CAST_BF16, .rows = rows, .n = n, .a = a, .lda = ld, .b = b,
           .ldb = ld, .gate = gate, .y = y);
    give(t, rows * n, y);
}

static void run_swiglu_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    int64_t ld = t->variant < 3 ? n : 2 * n;
    mf_bf16 *a = bf16s(t, rows * ld), *b = t->variant < 3 ? bf16s(t, rows * n) : a + n;
    mf_bf16 *dy = bf16s(t, rows * n), *da = bf16s(t, rows * ld);
    mf_bf16 *db = t->variant < 3 ? bf16s(t, rows * n) : da + n;
    mf_bf16 *y = bf16s(t, rows * n);
    const float *gate = t->variant < 6 ? NULL : kt_f32(t, rows);
    KT_RUN(t, swiglu_backward, .type = MF_CAST_BF16, .rows = rows, .n = n, .a = a, .lda = ld,
           .b = b, .ldb = ld, .gate = gate, .dy = dy, .da = t->variant == 1 ? NULL : da,
           .db = t->variant == 2 ? NULL : db,
           .dgate = t->variant < 6 ? NULL : kt_result(t, rows), .y = t->variant < 3 ? NULL : y);
    give(t, rows * n, y);
    give(t, rows * ld, da);
    if (t->variant < 3) give(t, rows * n, db);
}

static void run_rmsnorm(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    mf_bf16 *y = bf16s(t, rows * n);
    const mf_norm_args args = {.kind = MF_NORM_FN_RMS,
                               .rows = rows,
                               .n = n,
                               .eps = 1e-3f,
                               .eps_outside = t->variant % 2,
                               .type = MF_CAST_BF16,
                               .a = kt_f32(t, rows * n),
                               .w = t->variant < 6 ? kt_f32(t, n) : NULL,
                               .y = y};
    t->k->norm(t->x, &args);
    give(t, rows * n, y);
}

static void run_rmsnorm_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *dw = kt_result(t, n);
    const mf_norm_args args = {.kind = MF_NORM_FN_RMS,
                               .rows = rows,
                               .n = n,
                               .eps = 1e-3f,
                               .eps_outside = t->variant % 2,
                               .type = MF_CAST_BF16,
                               .a = kt_f32(t, rows * n),
                               .w = t->variant < 6 ? kt_f32(t, n) : NULL,
                               .dy = bf16s(t, rows * n),
                               .da = kt_result(t, rows * n),
                               .dw = t->variant < 6 ? dw : NULL,
                               .work = kt_work(t, mf_norm_work(n))};
    t->k->norm_backward(t->x, &args);
}

static void run_layernorm(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    mf_bf16 *y = bf16s(t, rows * n);
    const mf_norm_args args = {.kind = MF_NORM_FN_LAYER,
                               .rows = rows,
                               .n = n,
                               .eps = 1e-3f,
                               .type = MF_CAST_BF16,
                               .a = kt_f32(t, rows * n),
                               .w = t->variant < 6 ? kt_f32(t, n) : NULL,
                               .b = t->variant < 3 ? kt_f32(t, n) : NULL,
                               .y = y};
    t->k->norm(t->x, &args);
    give(t, rows * n, y);
}

static void run_layernorm_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *da = kt_result(t, rows * n), *dw = kt_result(t, n), *db = kt_result(t, n);
    const mf_norm_args args = {.kind = MF_NORM_FN_LAYER,
                               .rows = rows,
                               .n = n,
                               .eps = 1e-3f,
                               .type = MF_CAST_BF16,
                               .a = kt_f32(t, rows * n),
                               .w = t->variant < 3 ? kt_f32(t, n) : NULL,
                               .dy = bf16s(t, rows * n),
                               .da = t->variant == 2 ? NULL : da,
                               .dw = t->variant < 3 ? dw : NULL,
                               .db = t->variant == 1 ? NULL : db,
                               .work = kt_work(t, mf_norm_work(n))};
    t->k->norm_backward(t->x, &args);
}

/* norm_backward with a residual, a copy of da and sums of it; a set that does not fuse has four
 * kernels for that. The variant selects the size, the kind and the type of dy, and whether
 * there is a residual or weights. One size has more rows than all blocks have at once. */
#define ADDS 6
static const int64_t add_of[ADDS][2] = {{1100, 36}, {5, 512},  {37, 768},
                                        {9, 1024},  {3, 1100}, {2, 4096}};
static void norm_backward_add(mf_kt *t, bool copied)
{
    const int v = t->variant / ADDS;
    const int64_t rows = add_of[t->variant % ADDS][0], n = add_of[t->variant % ADDS][1],
                  all = rows * n;
    const bool fuses = t->k->fuses || t->fault.kind != MF_FAULT_NONE;
    const float *add = v % 3 != 1 ? kt_f32(t, all) : NULL;
    mf_bf16 *copy = bf16s(t, all);
    mf_norm_args args = {.kind = v % 2 ? MF_NORM_FN_LAYER : MF_NORM_FN_RMS,
                         .rows = rows,
                         .n = n,
                         .eps = 1e-3f,
                         .type = v < 2 ? MF_CAST_F32 : MF_CAST_BF16,
                         .a = kt_f32(t, all),
                         .w = v % 3 != 2 ? kt_f32(t, n) : NULL,
                         .dy = v < 2 ? (void *)kt_f32(t, all) : bf16s(t, all),
                         .da = copied ? kt_f32(t, all) : kt_result(t, all),
                         .work = kt_work(t, mf_sums_work(3, n))};
    float *sum = copied ? NULL : kt_result(t, n);
    if (!copied && args.w) args.dw = kt_result(t, n);
    if (!copied && v % 2) args.db = kt_result(t, n);
    if (t->k->fuses) args.add = add, args.copy = copied ? copy : NULL, args.sum = sum;
    t->k->norm_backward(t->x, &args);
    if (!fuses && add)
        KT_RUN(t, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32, .dim = {1, 1, 1, all},
               .stride_a = {0, 0, 0, 1}, .stride_b = {0, 0, 0, 1}, .a = add, .b = args.da,
               .out = args.da);
    if (!fuses && copied)
        KT_RUN(t, cast, .n = all, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = args.da,
               .out = copy);
    if (!fuses && !copied)
        KT_RUN(t, sum3, .outer = 1, .n = rows, .inner = n, .scale = 1, .type = MF_CAST_F32,
               .in = args.da, .out = sum, .work = kt_work(t, mf_sum3_work(1, rows, n)));
    if (copied) give(t, all, copy);
}
static void run_norm_backward_add(mf_kt *t)
{
    norm_backward_add(t, false);
}
static void run_norm_backward_copy(mf_kt *t)
{
    norm_backward_add(t, true);
}

/* sizes, of which the variant selects one: tokens, assignments per token, width */
#define SIZES 4
static const int64_t size_of[SIZES][3] = {{1, 1, 3}, {50, 2, 37}, {70, 12, 700}, {1500, 1, 9}};
#define SIZE(t)                                                                                \
    const int64_t *size = size_of[(t)->variant % SIZES];                                       \
    const int64_t tokens = size[0], k = size[1], d = size[2], rows = tokens * k

/* Indices of assignments in grouped order: a permutation with gaps. */
static int32_t *places(mf_kt *t, int64_t rows)
{
    int32_t *place = kt_i32(t, rows, 0, 0);
    int64_t next = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t r = rows - 1 - i;
        place[r] = r % 7 == 3 ? -1 : (int32_t)next++;
    }
    return place;
}

static void run_gather_rows(mf_kt *t)
{
    SIZE(t);
    int32_t *index = kt_i32(t, rows, -1, tokens - 1);
    mf_bf16 *in = bf16s(t, tokens * d), *out = bf16s(t, rows * d);
    KT_RUN(t, gather_rows, .type = MF_CAST_BF16, .m = rows, .d = d, .in = in, .index = index,
           .out = out);
    give(t, rows * d, out);
}

static void run_sum_rows(mf_kt *t)
{
    SIZE(t);
    /* 0: f32 with gates; 1: bf16 with gates; 2: bf16 without gates; 3: by lists */
    int how = t->variant / SIZES;
    int32_t *place = places(t, rows), *offset = kt_i32(t, tokens + 1, 0, 0);
    int32_t *list = kt_i32(t, rows, 0, 0), *token = kt_i32(t, rows, -1, tokens / 4);
    float *gate = how < 2 ? kt_f32(t, rows) : NULL;
    mf_bf16 *in = bf16s(t, rows * d), *rounded = bf16s(t, tokens * d);
    MF_RUN(&mf_kernels_ref, t->x, index_lists, .m = rows, .n = tokens, .index = token,
           .offset = offset, .list = list);
    KT_RUN(t, sum_rows, .type_in = MF_CAST_BF16,
           .type_out = how == 0 ? MF_CAST_F32 : MF_CAST_BF16, .n = tokens, .d = d, .k = k,
           .offset = how == 3 ? offset : NULL, .list = how == 3 ? list : NULL, .place = place,
           .gate = gate, .in = in,
           .out = how == 0 ? (void *)kt_result(t, tokens * d) : rounded);
    if (how > 0) give(t, tokens * d, rounded);
}

static void run_combine_grad(mf_kt *t)
{
    SIZE(t);
    int how = t->variant / SIZES; /* 0: all gradients; 1: no gate; 2: token list; 3: only dy; 4:
                                   * only dgate */
    int32_t *place = places(t, rows);
    int32_t *token = how == 2 ? kt_i32(t, rows, -1, tokens - 1) : NULL;
    float *gate = how == 1 ? NULL : kt_f32(t, rows), *dout = kt_f32(t, tokens * d);
    mf_bf16 *y = bf16s(t, rows * d), *dy = bf16s(t, rows * d);
    float *dgate = kt_result(t, rows);
    KT_RUN(t, combine_grad, .type = MF_CAST_BF16, .rows = rows, .k = k, .d = d, .y = y,
           .gate = gate, .place = place, .token = token, .dout = dout,
           .dy = how == 4 ? NULL : dy, .dgate = how == 3 ? NULL : dgate);
    give(t, rows * d, dy);
}

static void run_group_sum(mf_kt *t)
{
    static const int64_t of[][3] = {{1, 5, 7}, {4, 9, 40}, {8, 200, 1060}};
    const int64_t *s = of[t->variant];
    int32_t *offset = kt_offsets(t, s[0], s[1]);
    KT_RUN(t, group_sum, .type = MF_CAST_BF16, .groups = s[0], .rows = s[1], .n = s[2],
           .offset = offset, .a = bf16s(t, s[1] * s[2]), .y = kt_result(t, s[0] * s[2]));
}

static void run_adamw(mf_kt *t)
{
    static const int64_t count[] = {1, 999, 70003};
    int64_t n = count[t->variant];
    const mf_update_now now = {.lr = 0.1,
                               .weight_decay = 0.1,
                               .grad_scale = 0.5,
                               .correction1 = 1 - 0.81,
                               .correction2 = 1 - 0.9025};
    mf_update_args args = {.beta1 = 0.9,
                           .beta2 = 0.95,
                           .eps = 1e-8,
                           .lr_scale = 1,
                           .decay_scale = 1,
                           .now = kt_given(t, &now, sizeof now)};
    float *grad = kt_f32(t, n), *value = kt_result(t, n), *m = kt_result(t, n);
    float *v = kt_positive(t, n);
    mf_bf16 *copy = bf16s(t, n), *same = bf16s(t, n);
    KT_RUN(t, adamw, .count = n, .update = args, .value = value, .copy = copy, .grad = grad,
           .m = m, .v = v);
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = n, .from = MF_CAST_F32, .to = MF_CAST_BF16,
           .in = value, .out = same);
    int32_t *differ = kt_result_i32(t, 1); /* number of wrong copies */
    *differ = 0;
    for (int64_t i = 0; i < n; i++)
        *differ += copy[i] != same[i];
    give(t, n, copy);
}

/* ---- several ranges in one call ---- */

enum { RANGES = 100, WITHIN = 90000 }; /* more tiles than blocks on an emulator */

/* Ranges of many lengths, some empty, with gaps between them. Returns their elements. Element i
 * of v belongs to element i - 3 of the values. */
static int64_t ranges(mf_update_range table[RANGES])
{
    static const int64_t length[] = {5, MF_UPDATE_TILE, 1, 0, MF_UPDATE_TILE + 1, 300, 0};
    int64_t all = 0, at = 0;
    for (int64_t i = 0; i < RANGES; i++) {
        const int64_t n = i % 10 < 7 ? length[i % 10] : i % 3;
        mf_update_range_add(table, i,
                            (mf_update_range){.first = at,
                                              .count = n,
                                              .at = {at, at + 3},
                                              .lr_scale = 1 + (double)(i % 4),
                                              .decay_scale = (double)(i % 2)});
        all += n;
        at += n + i % 3;
    }
    ck_assert(at <= WITHIN);
    return all;
}

/* The bits are those of a call for each range. */
static void run_adamw_ranges(mf_kt *t)
{
    mf_update_range table[RANGES];
    const mf_update_now now = {.lr = 0.1,
                               .weight_decay = 0.1,
                               .grad_scale = 0.5,
                               .correction1 = 1 - 0.81,
                               .correction2 = 1 - 0.9025};
    const mf_update_args args = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .now = kt_given(t, &now, sizeof now)};
    const int64_t n = WITHIN + 3, count = ranges(table);
    float *grad = kt_f32(t, n), *value = kt_result(t, n), *m = kt_result(t, n),
          *v = kt_positive(t, n);
    float *one[3];
    mf_bf16 *copy = bf16s(t, n), *copy_one = bf16s(t, n);
    for (int i = 0; i < 3; i++)
        one[i] = memcpy(kt_work(t, (size_t)n * 4),
                        i == 0   ? value
                        : i == 1 ? m
                                 : v,
                        (size_t)n * 4);
    memcpy(copy_one, copy, (size_t)n * sizeof *copy);
    mf_adamw_args a = {.count = count,
                       .ranges = RANGES,
                       .range = kt_given(t, table, sizeof table),
                       .update = args,
                       .value = value,
                       .copy = t->variant ? copy : NULL,
                       .grad = grad,
                       .m = m,
                       .v = v};
    t->k->adamw(t->x, &a);
    a.value = one[0], a.m = one[1], a.v = one[2];
    if (a.copy) a.copy = copy_one;
    for (int i = 0; i < RANGES; i++) {
        const mf_adamw_args single = mf_adamw_range(&a, i);
        t->k->adamw(t->x, &single);
    }
    ck_assert(memcmp(value, one[0], (size_t)n * 4) == 0);
    ck_assert(memcmp(m, one[1], (size_t)n * 4) == 0);
    ck_assert(memcmp(v, one[2], (size_t)n * 4) == 0);
    ck_assert(memcmp(copy, copy_one, (size_t)n * sizeof *copy) == 0);
}

static void run_sumsq_ranges(mf_kt *t)
{
    mf_update_range table[RANGES];
    double *sum = kt_given(t, &(double){3}, sizeof *sum),
           *one = kt_given(t, &(double){3}, sizeof *one);
    mf_sumsq_args a = {.count = ranges(table),
                       .ranges = t->variant == 2 ? 1 : RANGES,
                       .range = kt_given(t, table, sizeof table),
                       .a = kt_f32(t, WITHIN),
                       .add = t->variant == 1,
                       .sum = sum,
                       .work = kt_work(t, RANGES * MF_SUMSQ_WORK)};
    t->k->sumsq(t->x, &a);
    a.sum = one;
    for (int i = 0; i < a.ranges; i++) {
        const mf_sumsq_args single = mf_sumsq_range(&a, i);
        t->k->sumsq(t->x, &single);
    }
    ck_assert(memcmp(sum, one, sizeof *sum) == 0);
    *kt_result(t, 1) = (float)*sum;
}

const mf_kernel_row mf_kernel_cases_bf16[] = {
    {"map1", run_map1, MF_MAP1_COUNT *LENGTHS, false, ULP},
    {"map1_grad", run_map1_grad, MF_MAP1_COUNT *LENGTHS, false, ULP},
    {"map1_grad", run_map1_grad_sum, 18, false, ULP},
    {"map2", run_map2, MF_MAP2_COUNT *SHAPES, false, ULP},
    {"swiglu", run_swiglu, 9, false, ULP},
    {"swiglu_backward", run_swiglu_backward, 9, false, ULP},
    {"norm", run_rmsnorm, 9, false, ULP},
    {"norm_backward", run_rmsnorm_backward, 9, false, 2e-6},
    {"norm", run_layernorm, 9, false, ULP},
    {"norm_backward", run_layernorm_backward, 6, false, 5e-6},
    {"norm_backward", run_norm_backward_add, 4 * ADDS, false, 5e-6},
    {"norm_backward", run_norm_backward_copy, 4 * ADDS, false, ULP},
    {"gather_rows", run_gather_rows, SIZES, true, 0},
    {"sum_rows", run_sum_rows, 4 * SIZES, true, ULP},
    {"combine_grad", run_combine_grad, 5 * SIZES, true, ULP},
    {"group_sum", run_group_sum, 3, true, 1e-6},
    {"adamw", run_adamw, 3, false, ULP},
    {"adamw", run_adamw_ranges, 2, false, 1e-6},
    {"sumsq", run_sumsq_ranges, 3, true, 1e-6},
    {NULL, NULL, 0, false, 0}};
