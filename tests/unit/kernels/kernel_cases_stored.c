/* Cases of check_kernels: weights in the types of files, in each type and layout. */
#include <math.h>
#include <string.h>

#include "kernel_case.h"

#define MOST_PARTS 12 /* groups x parts */

/* ---- values ---- */

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* f32 truncated to f16. Numbers that are too small become 0. */
static uint16_t f16_of(float f)
{
    const uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    return magnitude < 0x38800000 ? sign : (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

static void *f16s(mf_kt *t, const float *from, int64_t count)
{
    uint16_t *to = kt_work(t, (size_t)count * sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = f16_of(from[i]);
    return to;
}

static const void *bf16s(mf_kt *t, const float *from, int64_t count)
{
    mf_bf16 *to = kt_work(t, (size_t)count * sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = mf_bf16_from_f32(from[i]);
    return to;
}

static void *bytes(mf_kt *t, int64_t count, int lo, int hi)
{
    int32_t *from = kt_i32(t, count, lo, hi);
    uint8_t *to = kt_work(t, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        to[i] = (uint8_t)from[i];
    return to;
}

static void fill_dense(mf_kt *t, mf_stored_part *p, int64_t in)
{
    const int64_t stored = p->transposed ? in : p->rows, each = p->transposed ? p->rows : in;
    /* for every other size of a type, rows begin at multiples of 16 bytes; the gaps between
     * rows must not be used */
    const bool aligned = (t->variant / 2 / MF_STORED_TYPES / 6 + (int)p->type) % 2 == 0;
    p->ld = aligned ? (each + 7) / 8 * 8 : each + 3;
    float *f32 = kt_f32(t, stored * p->ld);
    for (int64_t i = 0; i < stored * p->ld; i++)
        if (i % p->ld >= each) f32[i] = NAN;
    p->data = f32;
    if (p->type == MF_STORED_F16) p->data = f16s(t, f32, stored * p->ld);
    if (p->type != MF_STORED_BF16) return;
    uint16_t *bf16 = kt_work(t, (size_t)(stored * p->ld) * sizeof *bf16);
    for (int64_t i = 0; i < stored * p->ld; i++)
        bf16[i] = (uint16_t)(bits_of(f32[i]) >> 16);
    p->data = bf16;
}

/* Positive scales. Half of the variants have scales in bf16, which CUDA does not read. */
static const void *scales_of(mf_kt *t, mf_stored_part *p, int64_t count)
{
    const float *from = kt_positive(t, count);
    if (t->variant / 4 % 2 == 0 || !kt_decodes_all()) return f16s(t, from, count);
    p->scale_type = MF_SCALE_BF16;
    return bf16s(t, from, count);
}

/* GPTQ4, GPTQ8, AWQ4. by_list: the groups of the inputs are in arbitrary order. */
static void fill_gptq(mf_kt *t, mf_stored_part *p, int64_t in, bool by_list)
{
    const int64_t bits = p->type == MF_STORED_GPTQ8 ? 8 : 4;
    static const int64_t each[] = {32, 64, 128, 0, 8, 96}; /* 0: all inputs */
    const int64_t size = each[t->variant / 4 % 6];
    p->group_size = size > 0 ? size : in;
    p->groups = (in + p->group_size - 1) / p->group_size;
    p->data = bytes(t, in * bits / 8 * p->rows, 0, 255);
    p->zeros = bytes(t, p->groups * p->rows * bits / 8, 0, 255);
    p->scales = scales_of(t, p, p->groups * p->rows);
    p->whole_zeros = t->variant / 8 % 2 && kt_decodes_all();
    if (by_list && p->type != MF_STORED_AWQ4) p->group_of = kt_i32(t, in, 0, p->groups - 1);
}

static void fill_int4(mf_kt *t, mf_stored_part *p, int64_t in)
{
    static const int64_t each[] = {32, 64, 128, 0, 8, 96}; /* 0: all inputs */
    const int64_t size = each[t->variant / 4 % 6];
    p->group_size = size > 0 ? size : in;
    p->groups = (in + p->group_size - 1) / p->group_size;
    p->data = bytes(t, in / 2 * p->rows, 0, 255);
    if (t->variant / 8 % 2) p->zeros = bytes(t, p->groups * p->rows / 2, 0, 255);
    p->scales = scales_of(t, p, p->groups * p->rows);
}

/* Blocks of several shapes, the last of which are not full. One case of five has a NaN. */
static void fill_f8(mf_kt *t, mf_stored_part *p, int64_t in)
{
    static const int64_t sides[][2] = {{128, 128}, {64, 32}, {1, 0}, {0, 0}, {7, 5}, {1, 128}};
    const int64_t *side = sides[t->variant / 4 % 6], count = p->rows * in;
    p->scale_rows = side[0] > 0 ? side[0] : p->rows + 1; /* a part may have no rows */
    p->group_size = side[1] > 0 ? side[1] : in;
    p->groups = (in + p->group_size - 1) / p->group_size;
    const int64_t scales = (p->rows + p->scale_rows - 1) / p->scale_rows * p->groups;
    /* multiples of 2^-9 or 2^-5 up to 4, so that sums are exact if x has whole numbers */
    const bool e4m3 = p->type == MF_STORED_F8_E4M3;
    uint8_t *v = bytes(t, count, e4m3 ? 0 : 0x30, e4m3 ? 0x47 : 0x43);
    const int32_t *sign = kt_i32(t, count, 0, 1);
    for (int64_t i = 0; i < count; i++)
        v[i] |= (uint8_t)(sign[i] << 7);
    if (t->variant / 2 % 5 == 3 && count > 0) v[count * 2 / 3] = 0xff;
    p->data = v;
    p->scale_type = t->variant / 8 % 2 ? MF_SCALE_F32 : MF_SCALE_BF16;
    const float *scale = kt_positive(t, scales);
    p->scales = p->scale_type == MF_SCALE_F32 ? scale : bf16s(t, scale, scales);
}

/* Of five cases one has small scales, from `least` on, and one has a scale of NaN. */
static void fill_mxfp4(mf_kt *t, mf_stored_part *p, int64_t in, int least)
{
    const int64_t scales = p->rows * in / 32;
    const int kind = t->variant / 2 / MF_STORED_TYPES % 5;
    if (kind != 1) least = 125;
    p->group_size = 32;
    p->data = bytes(t, p->rows * in / 2, 0, 255);
    uint8_t *scale = bytes(t, scales, least, least + (kind == 1 ? 1 : 3));
    if (kind == 3) scale[scales * 2 / 3] = 255;
    p->scales = scale;
}

/* ---- layouts ---- */

enum { WHOLE, PARTS, PAIRS, TRANSPOSED, BOTH, MIXED, LAYOUTS };

/* The type, or one that the device reads. */
static mf_stored_type known(int64_t type)
{
    return (mf_stored_type)(kt_decodes_all() ? type : type % (MF_STORED_MXFP4 + 1));
}

/* Divides the outputs into parts, and fills in their values. bf16: the type of x is bf16.
 * part: [MOST_PARTS]. */
static mf_stored weight_of(mf_kt *t, mf_stored_type type, bool bf16, int layout, int64_t groups,
                           int64_t out, int64_t in, mf_stored_part *part)
{
    const int64_t parts = layout == PARTS || layout == MIXED ? 3 : 1;
    /* the least scale of MXFP4. If x is bf16, numbers below 2^-126 may count as 0 (stored.h).
     * In MIXED weights, they must not be lost in sums of other parts */
    const int least = !bf16 ? 0 : layout == MIXED ? 125 : 3;
    for (int64_t i = 0; i < groups * parts; i++) {
        const int64_t q = i % parts, third = out / 32 * 8;
        mf_stored_part *p = &part[i];
        *p = (mf_stored_part){.type = type, .rows = out};
        if (parts == 3) {
            p->first = q == 0 ? 0 : q == 1 ? 2 * third : 3 * third;
            p->rows = q == 0 ? 2 * third : q == 1 ? third : out - 3 * third;
        }
        if (layout == MIXED) p->type = known((type + i) % MF_STORED_TYPES);
        p->pairs = layout == PAIRS || layout == BOTH;
        p->transposed = (layout == TRANSPOSED || layout == BOTH) && type <= MF_STORED_F16;
        if (p->type == MF_STORED_GPTQ4 || p->type >= MF_STORED_GPTQ8)
            fill_gptq(t, p, in, layout % 2);
        else if (p->type == MF_STORED_INT4)
            fill_int4(t, p, in);
        else if (p->type > MF_STORED_MXFP4)
            fill_f8(t, p, in);
        else if (p->type == MF_STORED_MXFP4)
            fill_mxfp4(t, p, in, least);
        else
            fill_dense(t, p, in);
    }
    return (mf_stored){groups, out, in, parts, part, NULL};
}

/* groups, rows of x, out, in: one row, few rows, enough rows for the engine, several blocks of
 * inputs and of outputs, groups of few and of many rows, few rows of many inputs, numbers of
 * inputs that are divisible by 8 but not by 32. */
static const int64_t sizes[][4] = {
    {1, 1, 2080, 64}, {1, 7, 328, 96},  {1, 30, 104, 1088}, {1, 14, 600, 160}, {4, 9, 72, 64},
    {3, 50, 264, 96}, {1, 2, 2080, 32}, {1, 13, 10, 67},    {1, 3, 24, 1248},  {1, 2, 40, 1120},
    {4, 40, 40, 96},  {1, 5, 40, 104},  {1, 21, 40, 136}};
#define SIZES 13

/* Sizes in the same form, for kernels with matrix registers: more rows than are packed at once;
 * more inputs or outputs; groups of few and of many rows; numbers of rows at which the method
 * changes, and panels of rows and lanes that are not full. */
static const int64_t more_sizes[][4] = {
    {1, 290, 72, 2080}, {1, 33, 2088, 64}, {3, 190, 168, 160},
    {4, 90, 104, 320},  {1, 6, 40, 96},    {1, 9, 72, 384},
    {1, 57, 48, 192},   {1, 48, 26, 45},   {1, 57, 48, 104}};
#define MORE_SIZES 9

#define FORMS_OF(sizes) (MF_STORED_TYPES * LAYOUTS * (sizes))
#define FORMS           FORMS_OF(SIZES)
#define MORE_FORMS      FORMS_OF(MORE_SIZES)

static void run_gemm_of(mf_kt *t, const int64_t (*all)[4], int forms, bool bf16)
{
    const int v = t->variant / 2 % forms, layout = v / MF_STORED_TYPES % LAYOUTS;
    const int64_t *s = all[v / MF_STORED_TYPES / LAYOUTS];
    mf_stored_type type = known(v % MF_STORED_TYPES);
    if (s[3] % 8 != 0 || s[2] % 8 != 0)
        type = (mf_stored_type)(type % MF_STORED_GPTQ4);
    else if (s[3] % 32 != 0 && type == MF_STORED_MXFP4)
        type = MF_STORED_GPTQ4;
    /* these layouts differ from WHOLE and PAIRS only for types that can be transposed, and
     * where groups are listed; the result of such a case stays as it is */
    if ((layout == TRANSPOSED || layout == BOTH) && type > MF_STORED_MXFP4 &&
        type != MF_STORED_GPTQ8) {
        kt_result(t, 1);
        return;
    }
    mf_stored_part part[MOST_PARTS];
    const mf_stored w =
        weight_of(t, type, bf16, s[3] % 32 ? layout % MIXED : layout, s[0], s[2], s[3], part);
    const bool back = t->variant % 2;
    const int64_t n = back ? w.in : w.out, k = back ? w.out : w.in;
    const int64_t ldx = k + v / 2 % 2 * 2; /* half of the cases have no gap between rows */
    mf_stored_gemm_args g = {.w = &w,
                             .back = back,
                             .rows = s[1],
                             .ldx = ldx,
                             .bf16 = bf16,
                             .alpha = v % 3 == 0 ? 2 : 1,
                             .ldy = n + 1,
                             .y = kt_result(t, s[1] * (n + 1))};
    const float *x = kt_f32(t, s[1] * ldx);
    g.x = g.bf16 ? bf16s(t, x, s[1] * ldx) : x;
    if (s[0] > 1) g.offset = kt_offsets(t, s[0], s[1]);
    if (!back && v % 2 == 0) g.bias = kt_f32(t, w.groups * w.out);
    if (v % 5 == 1) g.row = kt_i32(t, s[1], -1, s[1] - 1);
    t->k->stored_gemm(t->x, &g);
}

static void run_gemm(mf_kt *t)
{
    run_gemm_of(t, sizes, FORMS, false);
}

static void run_gemm_bf16(mf_kt *t)
{
    run_gemm_of(t, sizes, FORMS, true);
}

/* Groups of 1, 2, 3, 0 and many rows. In one gemm, groups of different sizes use
 * different methods. */
static void run_uneven(mf_kt *t)
{
    static const int32_t ends[] = {0, 1, 3, 6, 6, 40};
    mf_stored_part part[MOST_PARTS];
    const mf_stored w =
        weight_of(t, known(t->variant % MF_STORED_TYPES), true,
                  t->variant / MF_STORED_TYPES == 0 ? WHOLE : PAIRS, 5, 40, 96, part);
    const int64_t rows = ends[5];
    const float *x = kt_f32(t, rows * w.in);
    const mf_stored_gemm_args g = {.w = &w,
                                   .rows = rows,
                                   .ldx = w.in,
                                   .bf16 = true,
                                   .alpha = 1,
                                   .ldy = w.out,
                                   .x = bf16s(t, x, rows * w.in),
                                   .offset = kt_given(t, ends, sizeof ends),
                                   .y = kt_result(t, rows * w.out)};
    t->k->stored_gemm(t->x, &g);
}

static void run_more_gemms(mf_kt *t)
{
    run_gemm_of(t, more_sizes, MORE_FORMS, true);
}

static void run_rows(mf_kt *t)
{
    const int layout = t->variant / 2 / MF_STORED_TYPES;
    mf_stored_part part[MOST_PARTS];
    const mf_stored w =
        weight_of(t, known(t->variant / 2 % MF_STORED_TYPES), false, layout, 2, 72, 96, part);
    const int64_t all = w.groups * w.out, count = t->variant % 2 ? 21 : all;
    const mf_stored_rows_args a = {.w = &w,
                                   .count = count,
                                   .ids = t->variant % 2 ? kt_i32(t, count, 0, (int32_t)all - 1)
                                                         : NULL,
                                   .y = kt_result(t, count * w.in)};
    t->k->stored_rows(t->x, &a);
}

/* The variant selects the type, whether there are a bias and rows without a target, and whether
 * gradients are requested. */
static void head(mf_kt *t, bool as_bf16)
{
    const bool apart = t->variant / MF_STORED_TYPES % 2, dx = t->variant / MF_STORED_TYPES / 2;
    const int64_t rows = 37, d = 96, vocab = 328;
    mf_stored_part part[MOST_PARTS];
    const mf_stored w =
        weight_of(t, known(t->variant % MF_STORED_TYPES), as_bf16, WHOLE, 1, vocab, d, part);
    int32_t *target = kt_i32(t, rows, apart ? -1 : 0, (int32_t)vocab - 1);
    mf_linear_cross_entropy_args args = {.rows = rows,
                                         .d = d,
                                         .vocab = vocab,
                                         .type = MF_CAST_F32,
                                         .x = kt_f32(t, rows * d),
                                         .stored = &w,
                                         .as_bf16 = as_bf16,
                                         .bias = apart ? kt_f32(t, vocab) : NULL,
                                         .target = target,
                                         .loss = kt_result(t, 1),
                                         .row_loss = kt_result(t, rows)};
    if (dx) args.dx = kt_result(t, rows * d);
    if (dx && apart) args.dbias = kt_result(t, vocab);
    args.work = kt_work(t, mf_linear_cross_entropy_work(rows, d, vocab, MF_CAST_F32, 0, dx,
                                                        args.dbias != NULL));
    t->k->linear_cross_entropy(t->x, &args);
}

static void run_head(mf_kt *t)
{
    head(t, false);
}

static void run_head_bf16(mf_kt *t)
{
    head(t, true);
}

const mf_kernel_row mf_kernel_cases_stored_many[] = {
    {"stored_gemm", run_more_gemms, 2 * MORE_FORMS, true, 3e-4}, {0}};

const mf_kernel_row mf_kernel_cases_stored[] = {
    {"stored_gemm", run_gemm, 2 * FORMS, true, 1e-5},
    /* rows may be rounded to 11 bits (kernels/stored.h), which suffice for the whole numbers */
    {"stored_gemm", run_gemm_bf16, 2 * FORMS, true, 3e-4},
    {"stored_gemm", run_uneven, 2 * MF_STORED_TYPES, true, 3e-4},
    {"linear_cross_entropy", run_head, 4 * MF_STORED_TYPES, false, 2e-5},
    {"linear_cross_entropy", run_head_bf16, 4 * MF_STORED_TYPES, false, 4e-2},
    {"stored_rows", run_rows, 2 * MF_STORED_TYPES *LAYOUTS, true, 0},
    {0}};
