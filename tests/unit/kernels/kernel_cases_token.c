/* kernel_cases_token.c: what sets that fuse compute in one launch. Other sets, as that of the
 * CPU, have a kernel for each part. */
#include <check.h>
#include <string.h>

#include "kernel_case.h"
#include "kernels/bf16.h"

/* Whether a set that does not fuse runs a kernel behind another one: not after a fault, after
 * which results stay as they are. */
static bool goes_on(const mf_kt *t)
{
    return !t->k->fuses && t->fault.kind == MF_FAULT_NONE;
}

static void *bf16s(mf_kt *t, int64_t n)
{
    return kt_typed(t, MF_CAST_BF16, n, kt_f32(t, n));
}

/* ---- parts of training steps ---- */

/* Rotated bf16: in place, or into another array. */
static void run_rope(mf_kt *t)
{
    static const int64_t size[][3] = {{5, 2, 1}, {40, 64, 3}, {70, 10, 4}};
    const int64_t rows = size[t->variant / 4][0], hd = size[t->variant / 4][1],
                  heads = size[t->variant / 4][2], width = heads * hd + 6, n = rows * width;
    void *a = bf16s(t, n), *y = t->variant == 5 ? bf16s(t, n) : a;
    mf_rope_args p = {.rows = rows,
                      .width = width,
                      .head_dim = hd,
                      .n_heads = heads,
                      .turned = t->variant == 7 ? hd / 4 * 2 : hd,
                      .half = t->variant & 1,
                      .inverse = t->variant & 2,
                      .bf16 = true,
                      .theta = 10000,
                      .magnitude = 1,
                      .position = kt_i32(t, rows, 0, 3000),
                      .a = a,
                      .y = y};
    float *wide = kt_work(t, (size_t)n * sizeof *wide);
    if (!t->k->fuses) {
        p.bf16 = false;
        p.a = p.y = wide;
        KT_RUN(t, cast, .n = n, .from = MF_CAST_BF16, .to = MF_CAST_F32, .in = a, .out = wide);
    }
    t->k->rope(t->x, &p);
    if (!t->k->fuses)
        KT_RUN(t, cast, .n = n, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = wide, .out = y);
    kt_give(t, MF_CAST_BF16, n, y);
}

/* Sums of rows that begin with other numbers, written as f32 or bf16. */
static void sum_rows_add(mf_kt *t, int type)
{
    const int64_t n = 50, k = 3, d = t->variant % 2 ? 37 : 40, rows = n * k;
    const float *add = kt_f32(t, n * d);
    float *sum =
        type == MF_CAST_F32 ? kt_result(t, n * d) : kt_work(t, (size_t)(n * d) * sizeof *sum);
    void *out = type == MF_CAST_F32 ? (void *)sum : bf16s(t, n * d);
    const bool all = t->k->fuses;
    KT_RUN(t, sum_rows, .type_in = MF_CAST_BF16, .type_out = all ? type : MF_CAST_F32, .n = n,
           .d = d, .k = k, .place = kt_i32(t, rows, -1, rows - 1), .in = bf16s(t, rows * d),
           .add = t->k->fuses ? add : NULL, .out = all ? out : sum);
    if (goes_on(t))
        KT_RUN(t, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32, .dim = {1, 1, 1, n * d},
               .stride_a = {0, 0, 0, 1}, .stride_b = {0, 0, 0, 1}, .a = add, .b = sum,
               .out = sum);
    if (goes_on(t) && type == MF_CAST_BF16)
        KT_RUN(t, cast, .n = n * d, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = sum,
               .out = out);
    if (type == MF_CAST_BF16) kt_give(t, type, n * d, out);
}
static void run_sum_rows_add(mf_kt *t)
{
    sum_rows_add(t, MF_CAST_F32);
}
static void run_sum_rows_add_bf16(mf_kt *t)
{
    sum_rows_add(t, MF_CAST_BF16);
}

/* A norm in bf16 that also gives it as f32: the same numbers, as they are rounded. */
static void run_norm_wide(mf_kt *t)
{
    static const int64_t of[][2] = {{5, 37}, {9, 512}, {3, 2048}};
    const int64_t rows = of[t->variant / 2][0], n = of[t->variant / 2][1];
    void *y = bf16s(t, rows * n);
    float *wide = kt_result(t, rows * n);
    KT_RUN(t, norm, .kind = t->variant % 2 ? MF_NORM_FN_LAYER : MF_NORM_FN_RMS, .rows = rows,
           .n = n, .eps = 1e-3f, .type = MF_CAST_BF16, .a = kt_f32(t, rows * n),
           .w = kt_f32(t, n), .y = y, .wide = t->k->fuses ? wide : NULL);
    if (goes_on(t))
        KT_RUN(t, cast, .n = rows * n, .from = MF_CAST_BF16, .to = MF_CAST_F32, .in = y,
               .out = wide);
    for (int64_t i = 0; i < rows * n && t->fault.kind == MF_FAULT_NONE; i++)
        ck_assert_float_eq(wide[i], mf_bf16_to_f32(((const mf_bf16 *)y)[i]));
    kt_give(t, MF_CAST_BF16, rows * n, y);
}

/* ---- gemms of few rows ---- */

/* What is before a gemm: the variant selects no norm, but a cast, or one of three norms. */
typedef struct before {
    mf_norm_fn kind;
    bool norms, outside;
    const float *w, *b;
} before;
static before before_of(mf_kt *t, int v, int64_t k)
{
    return (before){.kind = v == 2 ? MF_NORM_FN_LAYER : MF_NORM_FN_RMS,
                    .norms = v > 0,
                    .outside = v == 3,
                    .w = v == 1 || v == 2 ? kt_f32(t, k) : NULL,
                    .b = v == 2 ? kt_f32(t, k) : NULL};
}
/* Lets g read rows of f32, normed if `of` says so. */
static void put_before(mf_kt *t, mf_gemm *g, const before *of, int64_t rows, const float *a)
{
    if (t->k->fuses) {
        g->a.data = a, g->a.type = MF_CAST_F32;
        g->norms = of->norms, g->norm = of->kind, g->eps = 1e-3f, g->eps_outside = of->outside;
        g->norm_w = of->w, g->norm_b = of->b;
        return;
    }
    void *to = kt_work(t, (size_t)(rows * g->k) * sizeof(mf_bf16));
    if (of->norms)
        KT_RUN(t, norm, .kind = of->kind, .rows = rows, .n = g->k, .eps = 1e-3f,
               .eps_outside = of->outside, .type = MF_CAST_BF16, .a = a, .w = of->w, .b = of->b,
               .y = to);
    else
        KT_RUN(t, cast, .n = rows * g->k, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = a,
               .out = to);
    g->a.data = to, g->a.type = MF_CAST_BF16;
}

static void run_normed(mf_kt *t)
{
    static const int64_t of[][3] = {{1, 64, 2048}, {5, 41, 72}, {16, 130, 1024}};
    const int64_t m = of[t->variant / 4][0], n = of[t->variant / 4][1],
                  k = of[t->variant / 4][2];
    const before b = before_of(t, t->variant % 4, k);
    mf_gemm g = {.m = m,
                 .n = n,
                 .k = k,
                 .a = {.ld = k},
                 .b = {.data = bf16s(t, n * k), .type = MF_CAST_BF16, .trans = true, .ld = k},
                 .c = {.data = kt_result(t, m * n), .ld = n},
                 .alpha = 1,
                 .bias = t->variant % 2 ? kt_f32(t, n) : NULL};
    put_before(t, &g, &b, m, kt_f32(t, m * k));
    t->k->gemm(t->x, &g);
}

/* Groups of gathered rows, with the activation, of which rows are in no group. */
static void run_normed_swiglu(mf_kt *t)
{
    const int64_t tokens = 6, rows = 12, groups = 5, n = 24, k = t->variant / 4 ? 1032 : 64;
    const before b = before_of(t, t->variant % 4, k);
    void *c = bf16s(t, rows * 2 * n), *y = bf16s(t, rows * n);
    mf_gemm g = {.m = rows,
                 .n = 2 * n,
                 .k = k,
                 .a = {.ld = k, .row = kt_i32(t, rows, t->variant % 2 ? -1 : 0, tokens - 1)},
                 .b = {.data = bf16s(t, groups * 2 * n * k),
                       .type = MF_CAST_BF16,
                       .trans = true,
                       .ld = k,
                       .step = 2 * n * k},
                 .c = {.data = c, .type = MF_CAST_BF16, .ld = 2 * n},
                 .alpha = 1,
                 .by = MF_BY_ROWS,
                 .groups = groups,
                 .offset = kt_offsets(t, groups, t->variant % 2 ? rows - 3 : rows),
                 .y = {.data = y, .type = MF_CAST_BF16, .ld = n},
                 .gate = kt_f32(t, rows),
                 .keep = true};
    put_before(t, &g, &b, tokens, kt_f32(t, tokens * k));
    g.epilogue = MF_EPILOGUE_SWIGLU;
    const bool one = t->k->can_swiglu && t->k->can_swiglu(&g);
    if (!one) g.epilogue = MF_EPILOGUE_NONE;
    t->k->gemm(t->x, &g);
    if (!one && t->fault.kind == MF_FAULT_NONE)
        KT_RUN(t, swiglu, .type = MF_CAST_BF16, .rows = rows, .n = n, .a = c, .lda = 2 * n,
               .b = (char *)c + n * (int64_t)sizeof(mf_bf16), .ldb = 2 * n, .gate = g.gate,
               .y = y);
    kt_give(t, MF_CAST_BF16, rows * 2 * n, c);
    kt_give(t, MF_CAST_BF16, rows * n, y);
}

/* The sum over the experts of a token, with and without what is added. */
static void run_summed(mf_kt *t)
{
    const int64_t per = t->variant & 1 ? 4 : 2, tokens = 3, rows = tokens * per, groups = 6,
                  n = 41, k = t->variant & 2 ? 1000 : 72;
    int32_t *place = kt_i32(t, rows, -1, rows - 1);
    const float *from = t->variant & 4 ? kt_f32(t, tokens * n) : NULL;
    float *c = kt_result(t, tokens * n);
    mf_gemm g = {.m = rows,
                 .n = n,
                 .k = k,
                 .a = {.data = bf16s(t, rows * k), .type = MF_CAST_BF16, .ld = k},
                 .b = {.data = bf16s(t, groups * n * k),
                       .type = MF_CAST_BF16,
                       .trans = true,
                       .ld = k,
                       .step = n * k},
                 .c = {.data = c, .ld = n},
                 .alpha = 1,
                 .bias = t->variant & 2 ? kt_f32(t, groups * n) : NULL,
                 .step_bias = n,
                 .by = MF_BY_ROWS,
                 .groups = groups,
                 .offset = kt_offsets(t, groups, rows)};
    if (t->k->fuses) {
        g.epilogue = MF_EPILOGUE_SUM, g.place = place, g.per = per, g.from = from;
        t->k->gemm(t->x, &g);
        return;
    }
    float *y = g.c.data = kt_work(t, (size_t)(rows * n) * sizeof(float));
    t->k->gemm(t->x, &g);
    KT_RUN(t, sum_rows, .type_in = MF_CAST_F32, .type_out = MF_CAST_F32, .n = tokens, .d = n,
           .k = per, .place = place, .in = y, .out = c);
    if (from && goes_on(t))
        KT_RUN(t, map2, .fn = MF_MAP_ADD, .type = MF_CAST_F32, .dim = {1, 1, 1, tokens * n},
               .stride_a = {0, 0, 0, 1}, .stride_b = {0, 0, 0, 1}, .a = from, .b = c, .out = c);
}

/* ---- attention and routing ---- */

static void run_token_attention(mf_kt *t)
{
    /* batch, s, heads, kv_heads, head_dim, first, turned, window */
    static const int64_t of[][8] = {
        {1, 300, 8, 4, 64, 0, 64, 0},    {3, 20, 2, 2, 40, 8, 16, 0},
        {2, 700, 4, 1, 128, 0, 128, 50}, {2, 9, 2, 1, 200, 0, 0, 0},
        {1, 150, 2, 1, 576, 512, 64, 0}, {16, 5, 1, 1, 2, 0, 2, 3}};
    const int64_t *c = of[t->variant / 2], kv = c[0] * c[1] * c[3] * c[4];
    int32_t *pos = kt_i32(t, c[0], 0, c[1] - 1), *length = kt_i32(t, c[0], 0, c[1]);
    for (int64_t b = 0; b < c[0] - 1; b++)
        length[b] = pos[b] + 1;
    if (t->variant == 3) pos[1] = (int32_t)c[1];
    if (t->variant == 5) pos[1] = -1;
    KT_RUN(t, token_attention, .batch = c[0], .s = c[1], .heads = c[2], .kv_heads = c[3],
           .head_dim = c[4], .first = c[5], .turned = c[6], .window = c[7],
           .half = t->variant % 2, .theta = 10000, .magnitude = t->variant % 2 ? 1 : 1.25,
           .scale = 0.25f, .position = kt_i32(t, c[0], 0, 3000), .pos = pos, .kv_len = length,
           .factor = t->variant % 4 == 0 ? kt_positive(t, c[6] / 2 + 1) : NULL,
           .qkv = kt_f32(t, c[0] * (c[2] + 2 * c[3]) * c[4]), .k = kt_result(t, kv),
           .v = kt_result(t, kv), .y = kt_result(t, c[0] * c[2] * c[4]));
    kt_faulted(t);
}

/* Experts must be chosen alike, so inputs are integers that leave no doubt: one of the columns
 * of each router row decides. */
static void run_token_route(mf_kt *t)
{
    static const int64_t of[][4] = {
        {1, 512, 8, 2}, {7, 40, 64, 8}, {16, 128, 70, 1}, {5, 1000, 3, 3}};
    const int64_t *c = of[t->variant / 4], rows = c[0] * c[3];
    const int v = t->variant % 4;
    float *w = kt_f32(t, c[2] * c[1]), *one = kt_positive(t, 1);
    const before b = before_of(t, v == 0 ? 1 : v, c[1]);
    for (int64_t e = 0; e < c[2]; e++) /* logits are far apart: e^0.1 in shares */
        for (int64_t i = 0; i < c[1]; i++)
            w[e * c[1] + i] = i == 0 ? 0.1f * (float)(e * 37 % c[2]) : 0;
    KT_RUN(t, token_route, .tokens = c[0], .d = c[1], .experts = c[2], .k = c[3],
           .norm = b.kind, .eps = 1e-3f, .eps_outside = b.outside, .renormalize = v & 1,
           .scale = v & 2 ? 2.5 : 1, .x = kt_f32(t, c[0] * c[1]), .norm_w = b.w, .norm_b = b.b,
           .w = w, .bias = v == 2 ? kt_f32(t, c[2]) : NULL, .divisor = v == 3 ? one : NULL,
           .prob = kt_result(t, c[0] * c[2]), .gate = kt_result(t, rows),
           .row_gate = kt_result(t, rows), .chosen = kt_result_i32(t, rows),
           .order = kt_result_i32(t, rows), .offset = kt_result_i32(t, c[2] + 1),
           .token = kt_result_i32(t, rows), .place = kt_result_i32(t, rows));
}

/* Logits of which all weights have a part. Without a choice: all experts are chosen. */
static void run_token_logits(mf_kt *t)
{
    const int64_t tokens = t->variant ? 6 : 1, d = t->variant ? 700 : 2048, experts = 9,
                  rows = tokens * experts;
    int32_t *work = kt_work(t, (size_t)(4 * rows + experts + 1) * sizeof *work);
    float *w = kt_f32(t, experts * d);
    for (int64_t i = 0; i < experts * d; i++)
        w[i] *= 0.02f;
    KT_RUN(t, token_route, .tokens = tokens, .d = d, .experts = experts, .k = experts,
           .norm = MF_NORM_FN_RMS, .eps = 1e-3f, .scale = 1, .x = kt_f32(t, tokens * d), .w = w,
           .prob = kt_result(t, rows), .gate = kt_work(t, (size_t)rows * sizeof(float)),
           .row_gate = kt_work(t, (size_t)rows * sizeof(float)), .chosen = work,
           .order = work + rows, .token = work + 2 * rows, .place = work + 3 * rows,
           .offset = work + 4 * rows);
}

const mf_kernel_row mf_kernel_cases_token[] = {
    {"rope", run_rope, 12, false, 4e-3},
    {"sum_rows", run_sum_rows_add, 2, true, 1e-6},
    {"sum_rows", run_sum_rows_add_bf16, 2, true, 4e-3},
    {"norm", run_norm_wide, 6, false, 4e-3},
    {"gemm", run_normed, 12, false, 8e-3},
    {"gemm", run_normed_swiglu, 8, false, 8e-3},
    {"gemm", run_summed, 8, true, 2e-6},
    {"token_attention", run_token_attention, 12, false, 4e-6},
    {"token_route", run_token_route, 16, false, 4e-6},
    {"token_route", run_token_logits, 2, false, 4e-3},
    {0},
};
