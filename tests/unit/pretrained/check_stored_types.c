/* stored types: values of 16-bit types are read and written with the same bits, and rounded to
 * nearest. Weights of four bits have the values of their formulas. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/family.h"
#include "pretrained/weights/values.h"
#include "tests/lib/scratch.h"

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* Every value of a 16-bit type must keep its bits when it is converted to f32 and back. */
static void check_type(mf_st_dtype dtype)
{
    static const mf_family_rule rule = {"x", "x", MF_PART_ALL, 0, NULL};
    const char *in = scratch_path("in.safetensors"), *out = scratch_path("out.safetensors");
    const int64_t n = 65536;
    const mf_place place = {.rule = &rule, .rank = 1, .size = {n}, .stride = {1}};
    uint16_t *bits = malloc((size_t)n * sizeof *bits);
    float *values = malloc((size_t)n * sizeof *values);
    mf_st_file *f = NULL;
    for (int64_t i = 0; i < n; i++)
        bits[i] = (uint16_t)i;
    for (int pass = 0; pass < 2; pass++) {
        const char *path = pass ? out : in;
        mf_st_writer *w = mf_st_writer_new();
        remove(path);
        must(mf_st_writer_add(w, "x", dtype, 1, &n));
        must(mf_st_writer_begin(w, path));
        if (pass == 0) {
            must(mf_st_writer_put(w, bits, (size_t)n * sizeof *bits));
        } else {
            must(mf_values_write(w, mf_st_writer_due(w, NULL), &place,
                                 (float *const[2]){values, NULL}));
        }
        must(mf_st_writer_end(w, false));
        mf_st_writer_free(w);
        if (pass == 1) break;
        must(mf_st_open(in, &f));
        const mf_source source = {.file = {f}, .tensor = {mf_st_at(f, 0)}};
        must(mf_values_read(&source, &place, (float *const[2]){values, NULL}));
        mf_st_close(f);
    }
    must(mf_st_open(out, &f));
    uint16_t *back = malloc((size_t)n * sizeof *back);
    must(mf_st_read(f, mf_st_at(f, 0), back, (size_t)n * sizeof *back));
    ck_assert_mem_eq(bits, back, (size_t)n * sizeof *back);
    free(back);
    mf_st_close(f);
    /* 1, -2, the largest finite value, the smallest value */
    if (dtype == MF_ST_F16) {
        ck_assert(values[0x3c00] == 1 && values[0xc000] == -2 && values[0x7bff] == 65504);
        ck_assert(values[0x0001] == ldexpf(1, -24) && values[0x03ff] == ldexpf(1023, -24));
    } else {
        ck_assert(values[0x3f80] == 1 && values[0xc000] == -2);
        ck_assert(values[0x0001] == ldexpf(1, -133) && isinf(values[0x7f80]));
    }
    free(bits);
    free(values);
}

START_TEST(types)
{
    check_type(MF_ST_F16);
    check_type(MF_ST_BF16);
}
END_TEST

/* A number between two values of a 16-bit type is rounded to the nearest; ties are rounded
 * to even. */
START_TEST(rounding)
{
    static const struct {
        mf_st_dtype dtype;
        float value;
        uint16_t bits;
    } cases[] = {
        {MF_ST_F16, 1.00048828125f, 0x3c00}, /* 1 + 2^-11: a tie */
        {MF_ST_F16, 1.00146484375f, 0x3c02}, /* 1 + 3 x 2^-11: a tie */
        {MF_ST_F16, 1.0006f, 0x3c01},        {MF_ST_F16, 65519.0f, 0x7bff},
        {MF_ST_F16, 65520.0f, 0x7c00},       {MF_ST_F16, 2.98023224e-8f, 0x0000}, /* 2^-25 */
        {MF_ST_F16, 3.0e-8f, 0x0001},        {MF_ST_F16, 6.1e-5f, 0x03ff},
        {MF_ST_F16, -1e9f, 0xfc00},          {MF_ST_BF16, 1.00390625f, 0x3f80}, /* 1 + 2^-8 */
        {MF_ST_BF16, 1.01171875f, 0x3f82}, /* 1 + 3 x 2^-8 */
        {MF_ST_BF16, 3.4e38f, 0x7f80}};
    static const mf_family_rule rule = {"x", "x", MF_PART_ALL, 0, NULL};
    const mf_place place = {.rule = &rule, .rank = 1, .size = {1}, .stride = {1}};
    const char *path = scratch_path("one.safetensors");
    const int64_t n = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_st_writer *w = mf_st_writer_new();
        mf_st_file *f = NULL;
        uint16_t bits = 0;
        remove(path);
        must(mf_st_writer_add(w, "x", cases[i].dtype, 1, &n));
        must(mf_st_writer_begin(w, path));
        float value = cases[i].value;
        must(mf_values_write(w, mf_st_writer_due(w, NULL), &place,
                             (float *const[2]){&value, NULL}));
        must(mf_st_writer_end(w, false));
        mf_st_writer_free(w);
        must(mf_st_open(path, &f));
        must(mf_st_read(f, mf_st_at(f, 0), &bits, sizeof bits));
        ck_assert_msg(bits == cases[i].bits, "%.9g: found %04x, expected %04x",
                      (double)cases[i].value, bits, cases[i].bits);
        mf_st_close(f);
    }
}
END_TEST

/* Numbers of F64 are rounded to f32. A finite number that f32 does not have is refused. */
START_TEST(doubles)
{
    static const mf_family_rule rule = {"x", "x", MF_PART_ALL, 0, NULL};
    static const double numbers[2][3] = {{0.1, -INFINITY, 1e-50}, {1, 3.5e38, 2}};
    const int64_t n = 3;
    const mf_place place = {.rule = &rule, .rank = 1, .size = {n}, .stride = {1}};
    const char *path = scratch_path("doubles.safetensors");
    for (int i = 0; i < 2; i++) {
        mf_st_writer *w = mf_st_writer_new();
        mf_st_file *f = NULL;
        float values[3];
        remove(path);
        must(mf_st_writer_add(w, "x", MF_ST_F64, 1, &n));
        must(mf_st_writer_begin(w, path));
        must(mf_st_writer_put(w, numbers[i], sizeof numbers[i]));
        must(mf_st_writer_end(w, false));
        mf_st_writer_free(w);
        must(mf_st_open(path, &f));
        const mf_source source = {.form = MF_FORM_F64, .file = {f}, .tensor = {mf_st_at(f, 0)}};
        const int rc = mf_values_read(&source, &place, (float *const[2]){values, NULL});
        if (i == 0) {
            must(rc);
            ck_assert(values[0] == 0.1f && values[1] == -INFINITY && values[2] == 0);
        } else {
            ck_assert_int_eq(rc, MF_EINPUT);
            ck_assert_str_eq(mf_error_message(),
                             "tensor 'x': 3.5e+38 is outside of the range of f32");
        }
        mf_st_close(f);
    }
}
END_TEST

/* One column and one block, computed by hand from the formulas of packed.h. */
START_TEST(four_bits)
{
    /* out 8, in 8, groups 2. For output 3: q = 0 .. 7 by input; the zero is 6 in group 0 and 0
     * in group 1 */
    uint32_t weight[8] = {0}, zeros[2] = {6u << 12, 0};
    uint16_t scales[16] = {0};
    int32_t group[8] = {0, 1, 0, 0, 1, 0, 0, 0};
    for (uint32_t i = 0; i < 8; i++)
        weight[3] |= i << 4 * i;
    scales[3] = 0x3800;     /* .5 */
    scales[8 + 3] = 0x4000; /* 2 */
    mf_packed p = {.out = 8,
                   .in = 8,
                   .part = {.type = MF_STORED_GPTQ4,
                            .rows = 8,
                            .groups = 2,
                            .data = weight,
                            .zeros = zeros,
                            .scales = scales,
                            .group_of = group}};
    must(mf_packed_judge(&p, "g_idx"));
    ck_assert(mf_packed_at(&p, 0, 3, 0) == -3.5f && mf_packed_at(&p, 0, 3, 7) == 0);
    ck_assert(mf_packed_at(&p, 0, 3, 1) == 0 && mf_packed_at(&p, 0, 3, 4) == 6);
    group[5] = 2;
    ck_assert_int_eq(mf_packed_judge(&p, "g_idx"), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(),
                     "tensor 'g_idx': expected groups from 0 to 1, found 2");
    uint8_t blocks[16] = {0x21, 0xf7}, exponents[1] = {130};
    p = (mf_packed){
        .out = 1,
        .in = 32,
        .part = {.type = MF_STORED_MXFP4, .rows = 1, .data = blocks, .scales = exponents}};
    ck_assert(mf_packed_at(&p, 0, 0, 0) == 4 && mf_packed_at(&p, 0, 0, 1) == 8);
    ck_assert(mf_packed_at(&p, 0, 0, 2) == 48 && mf_packed_at(&p, 0, 0, 3) == -48);
    exponents[0] = 0;
    ck_assert(mf_packed_at(&p, 0, 0, 1) == 0x1p-127f);
    exponents[0] = 255;
    ck_assert(isnan(mf_packed_at(&p, 0, 0, 1)) && isnan(mf_packed_at(&p, 0, 0, 31)));
}
END_TEST

/* Numbers of eight bits, computed by hand from sign, exponent and mantissa. Blocks have two
 * rows and three inputs; the last blocks are not full. */
START_TEST(eight_bits)
{
    static const struct {
        mf_stored_type type;
        uint8_t code;
        float value;
    } cases[] = {{MF_STORED_F8_E4M3, 0x38, 1},
                 {MF_STORED_F8_E4M3, 0xb9, -1.125f},
                 {MF_STORED_F8_E4M3, 0x7e, 448},
                 {MF_STORED_F8_E4M3, 0x01, 0x1p-9f},
                 {MF_STORED_F8_E4M3, 0x87, -7 * 0x1p-9f},
                 {MF_STORED_F8_E4M3, 0x08, 0x1p-6f},
                 {MF_STORED_F8_E4M3, 0x80, -0.0f},
                 {MF_STORED_F8_E4M3, 0x7f, NAN},
                 {MF_STORED_F8_E4M3, 0xff, NAN},
                 {MF_STORED_F8_E5M2, 0x3c, 1},
                 {MF_STORED_F8_E5M2, 0xc1, -2.5f},
                 {MF_STORED_F8_E5M2, 0x7b, 57344},
                 {MF_STORED_F8_E5M2, 0x01, 0x1p-16f},
                 {MF_STORED_F8_E5M2, 0xfc, -INFINITY},
                 {MF_STORED_F8_E5M2, 0x7d, NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t codes[3 * 5] = {0};
        const float scales[] = {1, 2, 4, 8};
        const mf_packed p = {.out = 3,
                             .in = 5,
                             .part = {.type = cases[i].type,
                                      .rows = 3,
                                      .scale_rows = 2,
                                      .group_size = 3,
                                      .groups = 2,
                                      .scale_type = MF_SCALE_F32,
                                      .data = codes,
                                      .scales = scales}};
        for (int at = 0; at < 15; at++) {
            const int o = at / 5, in = at % 5;
            const float scale = scales[o / 2 * 2 + in / 3], expected = cases[i].value * scale;
            codes[at] = cases[i].code;
            const float found = mf_packed_at(&p, 0, o, in);
            ck_assert_msg(
                isnan(expected) ? isnan(found)
                                : found == expected && !signbit(found) == !signbit(expected),
                "case %zu at %d: %g, expected %g", i, at, (double)found, (double)expected);
        }
    }
}
END_TEST

/* Codes of AWQ and of compressed-tensors, placed by hand for output 3, and for inputs 5
 * and 13. */
START_TEST(other_orders)
{
    uint32_t row[8] = {0}, zeros[2] = {0};
    const uint16_t halves[16] = {[3] = 0x3800, [8 + 3] = 0x4000}, /* .5 and 2 in f16 */
        bf16[16] = {[2 * 3] = 0x3f00, [2 * 3 + 1] = 0x4000};      /* the same in bf16 */
    for (int i = 0; i < 8; i++)
        row[i] = (uint32_t)(9 + i % 2) << 20; /* output 3 is in bits 20 .. 23 */
    zeros[0] = 7u << 20, zeros[1] = 12u << 20;
    const mf_packed awq = {.out = 8,
                           .in = 8,
                           .part = {.type = MF_STORED_AWQ4,
                                    .rows = 8,
                                    .groups = 2,
                                    .group_size = 4,
                                    .data = row,
                                    .zeros = zeros,
                                    .scales = halves}};
    ck_assert(mf_packed_at(&awq, 0, 3, 2) == 1 && mf_packed_at(&awq, 0, 3, 3) == 1.5f);
    ck_assert(mf_packed_at(&awq, 0, 3, 4) == -6 && mf_packed_at(&awq, 0, 3, 7) == -4);
    uint32_t lines[2 * 8] = {[2 * 3] = 11u << 20, [2 * 3 + 1] = 3u << 20},
                       points[2] = {6u << 12, 15u << 12};
    mf_packed int4 = {.out = 8,
                      .in = 16,
                      .part = {.type = MF_STORED_INT4,
                               .rows = 8,
                               .groups = 2,
                               .group_size = 8,
                               .scale_type = MF_SCALE_BF16,
                               .data = lines,
                               .zeros = points,
                               .scales = bf16}};
    ck_assert(mf_packed_at(&int4, 0, 3, 5) == 2.5f && mf_packed_at(&int4, 0, 3, 13) == -24);
    int4.part.zeros = NULL; /* then 8 is zero */
    ck_assert(mf_packed_at(&int4, 0, 3, 5) == 1.5f && mf_packed_at(&int4, 0, 3, 13) == -10);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stored_types");
    TCase *t = tcase_create("values");
    tcase_add_test(t, types);
    tcase_add_test(t, rounding);
    tcase_add_test(t, doubles);
    tcase_add_test(t, four_bits);
    tcase_add_test(t, eight_bits);
    tcase_add_test(t, other_orders);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
