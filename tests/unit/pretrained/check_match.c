/* match: the places that rules assign to tensors, tables of rules with tensors that do not fit,
 * and weights that consist of several tensors. Models, tables and tensors are written by hand.
 * They are small enough to state the place of each element. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <moefw/ops.h>
#include "base/error.h"
#include "base/mem.h"
#include "pretrained/match.h"
#include "pretrained/weights/values.h"
#include "tests/lib/scratch.h"

static const mf_keys sizes = {
    .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .experts = 2};

static mf_param *declare(mf_store *s, const char *name, mf_shape shape)
{
    mf_param *p = NULL;
    ck_assert_int_eq(mf_store_declare(s, name, shape, MF_ZEROS, false, &p), MF_OK);
    return p;
}

static mf_store *new_store(void)
{
    mf_store *s = mf_store_new();
    declare(s, "layers.0.vector", mf_shape1(6));
    declare(s, "layers.0.matrix", mf_shape2(8, 3));
    declare(s, "layers.0.experts", mf_shape3(2, 4, 3));
    declare(s, "layers.0.deep", mf_shape4(1, 2, 4, 3));
    return s;
}

/* ---- places ---- */

/* A part with rows that a parameter does not have gets no place, because it would be outside
 * the parameter's values. */
START_TEST(parts_that_a_parameter_lacks)
{
    static const mf_family_rule rules[] = {
        {"all of one", "layers.{l}.experts", MF_PART_ALL, 0, NULL},
        {"keys", "layers.{l}.matrix", MF_PART_V, 0, NULL},
        {"heads of three", "layers.{l}.vector", MF_PART_ALL, MF_RULE_TURNS, NULL},
        {"fused", "layers.{l}.vector", MF_PART_ALL, MF_RULE_FUSED, NULL},
        {"transposed", "layers.{l}.vector", MF_PART_ALL, MF_RULE_TRANSPOSED, NULL},
        {"deep", "layers.{l}.deep", MF_PART_ALL, 0, NULL},
        {"alone", "layers.{l}.matrix", MF_PART_HEADS, 0, NULL}};
    mf_store *s = new_store();
    char name[MF_ST_NAME_MAX], expected[256];
    mf_place place;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const int rc = mf_place_find(&sizes, &rules[i], s, 0, 0, &place, name);
        snprintf(expected, sizeof expected, "rule '%s': layers.0.%s has no such part",
                 rules[i].theirs, rules[i].ours + strlen("layers.{l}."));
        ck_assert_msg(rc == MF_EINVAL, "%s: %d", rules[i].theirs, rc);
        ck_assert_str_eq(mf_error_message(), expected);
    }
    /* A parameter that is missing in the model is not an error. */
    const mf_family_rule other = {"t.{l}", "layers.{l}.other", MF_PART_ALL, 0, NULL};
    ck_assert_int_eq(mf_place_find(&sizes, &other, s, 0, 0, &place, name), MF_OK);
    ck_assert(!place.param);
    ck_assert_str_eq(name, "t.0");
    mf_store_free(s);
}
END_TEST

/* Rows of gate and up alternate: row i of the first half is followed by row i of the
 * second half. */
START_TEST(pairs_of_rows)
{
    static const mf_family_rule rule = {"t", "layers.{l}.matrix", MF_PART_PAIRS, 0, NULL},
                                across = {"t", "layers.{l}.matrix", MF_PART_PAIRS,
                                          MF_RULE_TRANSPOSED, NULL};
    mf_store *s = new_store();
    char name[MF_ST_NAME_MAX];
    float values[8 * 3], out[8 * 3];
    mf_place place;
    for (int i = 0; i < 8 * 3; i++)
        values[i] = (float)i;
    ck_assert_int_eq(mf_place_find(&sizes, &rule, s, 0, 0, &place, name), MF_OK);
    mf_values_gather(&place, (float *const[2]){values, NULL}, out);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 3; c++)
            ck_assert(out[r * 3 + c] == values[(r % 2 * 4 + r / 2) * 3 + c]);
    ck_assert_int_eq(mf_place_find(&sizes, &across, s, 0, 0, &place, name), MF_OK);
    ck_assert(place.shape[0] == 3 && place.shape[1] == 8);
    mf_values_gather(&place, (float *const[2]){values, NULL}, out);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 3; c++)
            ck_assert(out[c * 8 + r] == values[(r % 2 * 4 + r / 2) * 3 + c]);
    mf_store_free(s);
}
END_TEST

/* ---- tables ---- */

enum { MOST = 6 };

typedef struct entry {
    const char *name;
    mf_st_dtype dtype;
    int rank;
    int64_t shape[4];
} entry;

/* Matches the tensors of a sorted list that ends with an entry without a name. */
static int match_packed(const mf_family_rule *rules, const mf_packing *packing,
                        const mf_store *s, const entry *list, mf_ledger *ret)
{
    mf_keys keys = sizes;
    keys.packing = *packing;
    const mf_family family = {.name = "ours", .rules = rules};
    mf_st_tensor tensors[MOST];
    const mf_st_tensor *all[MOST];
    int64_t n = 0;
    for (; n < MOST && list[n].name; n++) {
        tensors[n] = (mf_st_tensor){.name = list[n].name,
                                    .dtype_name = mf_st_dtype_name(list[n].dtype),
                                    .dtype = list[n].dtype,
                                    .rank = list[n].rank};
        memcpy(tensors[n].shape, list[n].shape, sizeof list[n].shape);
        all[n] = &tensors[n];
    }
    return mf_match_tensors(&family, &keys, s, "folder", all, n, ret);
}

static int match(const mf_family_rule *rules, const mf_store *s, const entry *list,
                 mf_ledger *ret)
{
    return match_packed(rules, &(const mf_packing){0}, s, list, ret);
}

#define END_OF_RULES                                                                           \
    {                                                                                          \
        NULL, NULL, MF_PART_ALL, 0, NULL                                                       \
    }

/* A tensor that contains, for each head, rows of two parameters. */
START_TEST(rows_of_two_parameters)
{
    static const mf_family_rule rules[] = {
        {"kv", "layers.{l}.k", MF_PART_HEADS, 0, "layers.{l}.v"}, END_OF_RULES};
    static const entry list[MOST] = {{"kv", MF_ST_F32, 2, {6, 3}}};
    static const float expected[] = {0, 1, 2, 3, 4,  5,  20, 21, 22,
                                     6, 7, 8, 9, 10, 11, 23, 24, 25};
    float k[4 * 3], v[2 * 3], out[6 * 3];
    mf_store *s = mf_store_new(), *other = mf_store_new();
    mf_ledger ledger;
    declare(s, "layers.0.k", mf_shape2(4, 3));
    declare(s, "layers.0.v", mf_shape2(2, 3));
    ck_assert_int_eq(match(rules, s, list, &ledger), MF_OK);
    ck_assert_int_eq(ledger.used, 1);
    for (int i = 0; i < 4 * 3; i++)
        k[i] = (float)i;
    for (int i = 0; i < 2 * 3; i++)
        v[i] = (float)(20 + i);
    mf_values_gather(&ledger.places[0], (float *const[2]){k, v}, out);
    ck_assert_mem_eq(out, expected, sizeof expected);
    mf_free(ledger.places);
    /* If the second parameter of the model is wider, the error names the tensor. */
    declare(other, "layers.0.k", mf_shape2(4, 3));
    declare(other, "layers.0.v", mf_shape2(2, 5));
    ck_assert_int_eq(match(rules, other, list, &ledger), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(),
                     "folder: tensor 'kv': rule 'kv': layers.0.k has no such part");
    mf_store_free(s);
    mf_store_free(other);
}
END_TEST

/* Tensors that do not fit the matrix w [8,16], to which three rules may assign them, the
 * experts e [2,4,32], or the parameter `odd`. */
START_TEST(tensors_that_do_not_fit)
{
    static const mf_family_rule rules[] = {{"one.weight", "w", MF_PART_ALL, 0, NULL},
                                           {"two.weight", "w", MF_PART_ALL, 0, NULL},
                                           {"x_proj", "e", MF_PART_ALL, MF_RULE_FUSED, NULL},
                                           {"y_proj", "w", MF_PART_ALL, 0, NULL},
                                           {"rows.weight", "odd", MF_PART_ALL, 0, NULL},
                                           END_OF_RULES};
    static const struct {
        const char *why;
        entry list[MOST];
    } cases[] = {
        {"folder: several tensors hold the same part of w",
         {{"one.weight", MF_ST_F32, 2, {8, 16}}, {"two.weight", MF_ST_BF16, 2, {8, 16}}}},
        {"folder: tensor 'one.qzeros' is missing, a part of one.weight",
         {{"one.qweight", MF_ST_I32, 2, {2, 8}}}},
        {"folder: tensor 'rows.qweight': expected a matrix whose outputs 8 divides and "
         "whose inputs 8 divides",
         {{"rows.g_idx", MF_ST_I32, 1, {16}},
          {"rows.qweight", MF_ST_I32, 2, {2, 6}},
          {"rows.qzeros", MF_ST_I32, 2, {1, 1}},
          {"rows.scales", MF_ST_F16, 2, {1, 6}}}},
        {"folder: tensor 'one.qzeros': expected I32 of shape [2,1] for a weight of this "
         "size, found I32 of shape [1,1]",
         {{"one.g_idx", MF_ST_I32, 1, {16}},
          {"one.qweight", MF_ST_I32, 2, {2, 8}},
          {"one.qzeros", MF_ST_I32, 2, {1, 1}},
          {"one.scales", MF_ST_F16, 2, {2, 8}}}},
        {"folder: tensor 'x_proj_scales': expected U8 of shape [2,4,1] for a weight of this "
         "size, found U8 of shape [2,4,2]",
         {{"x_proj_blocks", MF_ST_U8, 4, {2, 4, 1, 16}},
          {"x_proj_scales", MF_ST_U8, 3, {2, 4, 2}}}},
        {"folder: tensor 'y_proj_blocks': expected weights of experts whose inputs 32 divides",
         {{"y_proj_blocks", MF_ST_U8, 3, {8, 1, 16}}, {"y_proj_scales", MF_ST_U8, 2, {8, 1}}}},
    };
    mf_store *s = mf_store_new();
    mf_ledger ledger;
    declare(s, "w", mf_shape2(8, 16));
    declare(s, "e", mf_shape3(2, 4, 32));
    declare(s, "odd", mf_shape2(6, 16));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int rc = match(rules, s, cases[i].list, &ledger);
        ck_assert_msg(rc == MF_EINPUT, "case %zu: %d", i, rc);
        ck_assert_str_eq(mf_error_message(), cases[i].why);
    }
    mf_store_free(s);
}
END_TEST

/* Weights of other forms whose tensors do not fit the matrix w [8,16]. The names of the tensors
 * determine the form. */
START_TEST(forms_that_do_not_fit)
{
    static const mf_family_rule rules[] = {{"w.weight", "w", MF_PART_ALL, 0, NULL},
                                           END_OF_RULES};
    static const struct {
        const char *why;
        mf_packing packing;
        entry list[MOST];
    } cases[] = {
        {"tensor 'w.weight_scale_inv' is missing, a part of w.weight",
         {.block = {4, 4}},
         {{"w.weight", MF_ST_F8_E4M3, 2, {8, 16}}}},
        {"tensor 'w.weight_scale_inv': expected F16 or BF16 or F32 of shape [2,4] (blocks of 5 "
         "x "
         "5) for a weight of this size, found F32 of shape [2,3]",
         {.block = {5, 5}},
         {{"w.weight", MF_ST_F8_E4M3, 2, {8, 16}},
          {"w.weight_scale_inv", MF_ST_F32, 2, {2, 3}}}},
        {"tensor 'w.weight_scale_inv': expected F16 or BF16 or F32 of shape [2,4] (blocks of 5 "
         "x "
         "5) for a weight of this size, found U8 of shape [2,4]",
         {.block = {5, 5}},
         {{"w.weight", MF_ST_F8_E5M2, 2, {8, 16}},
          {"w.weight_scale_inv", MF_ST_U8, 2, {2, 4}}}},
        {"tensor 'w.weight_scale': expected F16 or BF16 or F32 of shape [8,1] or [1], since "
         "there "
         "are no blocks, for a weight of this size, found BF16 of shape [16,1]",
         {.bits = 0},
         {{"w.weight", MF_ST_F8_E4M3, 2, {8, 16}}, {"w.weight_scale", MF_ST_BF16, 2, {16, 1}}}},
        {"tensor 'w.weight': expected F8_E5M2 or F8_E4M3 of shape [8,16] for a weight of this "
         "size, found F8_E4M3 of shape [16,8]",
         {.bits = 0},
         {{"w.weight", MF_ST_F8_E4M3, 2, {16, 8}}, {"w.weight_scale", MF_ST_BF16, 2, {16, 1}}}},
        {"tensor 'w.weight_shape' is missing, a part of w.weight",
         {.bits = 0},
         {{"w.weight_packed", MF_ST_I32, 2, {8, 2}},
          {"w.weight_scale", MF_ST_BF16, 2, {8, 2}}}},
        {"tensor 'w.weight_scale': expected groups of one size, which 8 divides, of 16 inputs, "
         "found 4 groups",
         {.bits = 0},
         {{"w.weight_packed", MF_ST_I32, 2, {8, 2}},
          {"w.weight_scale", MF_ST_BF16, 2, {8, 4}},
          {"w.weight_shape", MF_ST_I64, 1, {2}}}},
        {"tensor 'w.weight_zero_point': expected I32 of shape [1,2] for a weight of this size, "
         "found I32 of shape [8,2]",
         {.bits = 0},
         {{"w.weight_packed", MF_ST_I32, 2, {8, 2}},
          {"w.weight_scale", MF_ST_BF16, 2, {8, 2}},
          {"w.weight_shape", MF_ST_I64, 1, {2}},
          {"w.weight_zero_point", MF_ST_I32, 2, {8, 2}}}},
        {"tensor 'w.scales': expected scales of 2 groups, since group_size of "
         "quantization_config is 8, found 1",
         {.awq = true, .group_size = 8},
         {{"w.qweight", MF_ST_I32, 2, {16, 1}},
          {"w.qzeros", MF_ST_I32, 2, {1, 1}},
          {"w.scales", MF_ST_F16, 2, {1, 8}}}},
        {"tensor 'w.qweight': expected I32 of shape [16,1] for a weight of this size, found "
         "I32 "
         "of shape [2,8]",
         {.awq = true, .group_size = 8},
         {{"w.qweight", MF_ST_I32, 2, {2, 8}},
          {"w.qzeros", MF_ST_I32, 2, {2, 1}},
          {"w.scales", MF_ST_F16, 2, {2, 8}}}},
        {"tensor 'w.qweight': expected I32 of shape [4,8] for a weight of this size, found I32 "
         "of shape [2,8]",
         {.bits = 8},
         {{"w.qweight", MF_ST_I32, 2, {2, 8}},
          {"w.qzeros", MF_ST_I32, 2, {2, 1}},
          {"w.scales", MF_ST_F16, 2, {2, 8}}}},
        {"tensor 'w.scales': expected scales of 3 groups, since group_size of "
         "quantization_config is 6, found 2",
         {.group_size = 6},
         {{"w.qweight", MF_ST_I32, 2, {2, 8}},
          {"w.qzeros", MF_ST_I32, 2, {2, 1}},
          {"w.scales", MF_ST_F16, 2, {2, 8}}}},
    };
    mf_store *s = mf_store_new();
    mf_ledger ledger;
    declare(s, "w", mf_shape2(8, 16));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[512];
        const int rc = match_packed(rules, &cases[i].packing, s, cases[i].list, &ledger);
        snprintf(expected, sizeof expected, "folder: %s", cases[i].why);
        ck_assert_msg(rc == MF_EINPUT, "case %zu: %d", i, rc);
        ck_assert_str_eq(mf_error_message(), expected);
    }
    mf_store_free(s);
}
END_TEST

/* Four-bit weights of a matrix that the family stores as [in,out]. Their parts have the sizes
 * of [out,in], like those of other families. */
START_TEST(transposed_weights_of_four_bits)
{
    static const mf_family_rule rules[] = {
        {"t.weight", "w", MF_PART_ALL, MF_RULE_TRANSPOSED, NULL}, END_OF_RULES};
    static const entry list[MOST] = {{"t.g_idx", MF_ST_I32, 1, {16}},
                                     {"t.qweight", MF_ST_I32, 2, {2, 8}},
                                     {"t.qzeros", MF_ST_I32, 2, {1, 1}},
                                     {"t.scales", MF_ST_F16, 2, {1, 8}}};
    char plain[MF_ST_NAME_MAX];
    mf_store *s = mf_store_new();
    mf_ledger ledger;
    declare(s, "w", mf_shape2(8, 16));
    ck_assert_int_eq(match(rules, s, list, &ledger), MF_OK);
    ck_assert(ledger.used == 4 && ledger.skipped == 0);
    const mf_place *p = &ledger.places[1];
    ck_assert(p->form == MF_FORM_GPTQ && p->param && p->shape[0] == 16 && p->shape[1] == 8);
    ck_assert(!ledger.places[0].param && p->parts[0] == 1 && p->parts[3] == 0);
    ck_assert_str_eq(mf_place_plain_name(p, &(const mf_st_tensor){.name = "t.qweight"}, plain),
                     "t.weight");
    mf_free(ledger.places);
    mf_store_free(s);
}
END_TEST

/* ---- values of MXFP4 ---- */

enum { EXPERTS = 2, OUT = 4, IN = 32 };

/* Writes blocks and scales of EXPERTS matrices [OUT,IN] to a file. */
static void write_blocks(const char *path, const uint8_t *blocks, const uint8_t *scales)
{
    static const int64_t shape[] = {EXPERTS, OUT, IN / 32, 16};
    mf_st_writer *w = mf_st_writer_new();
    size_t i;
    ck_assert_int_eq(mf_st_writer_add(w, "x_proj_blocks", MF_ST_U8, 4, shape), MF_OK);
    ck_assert_int_eq(mf_st_writer_add(w, "x_proj_scales", MF_ST_U8, 3, shape), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_OK);
    for (const mf_st_tensor *t; (t = mf_st_writer_due(w, &i));)
        ck_assert_int_eq(mf_st_writer_put(w, i == 0 ? blocks : scales, (size_t)t->bytes),
                         MF_OK);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_OK);
    mf_st_writer_free(w);
}

/* Element (e, o, i) of the file is 2^(scale - 127) v. This holds for the weight [E,in,out] of a
 * family that stores it transposed, and for other families. */
START_TEST(values_of_blocks)
{
    static const float v[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    static const entry list[MOST] = {{"x_proj_blocks", MF_ST_U8, 4, {EXPERTS, OUT, 1, 16}},
                                     {"x_proj_scales", MF_ST_U8, 3, {EXPERTS, OUT, 1}}};
    uint8_t blocks[EXPERTS * OUT * 16], scales[EXPERTS * OUT];
    float values[EXPERTS * OUT * IN];
    const char *path = scratch_path("blocks.safetensors");
    char plain[MF_ST_NAME_MAX];
    mf_st_file *f = NULL;
    for (int i = 0; i < EXPERTS * OUT * 16; i++)
        blocks[i] = (uint8_t)(37 * i + 11);
    for (int i = 0; i < EXPERTS * OUT; i++)
        scales[i] = (uint8_t)(120 + i);
    write_blocks(path, blocks, scales);
    ck_assert_int_eq(mf_st_open(path, &f), MF_OK);
    for (unsigned flags = 0; flags <= MF_RULE_TRANSPOSED; flags += MF_RULE_TRANSPOSED) {
        const mf_family_rule rules[] = {
            {"x_proj", "e", MF_PART_ALL, MF_RULE_FUSED | flags, NULL}, END_OF_RULES};
        mf_store *s = mf_store_new();
        mf_ledger ledger;
        declare(s, "e", mf_shape3(EXPERTS, OUT, IN));
        ck_assert_int_eq(match(rules, s, list, &ledger), MF_OK);
        const mf_source from = {
            .form = MF_FORM_MXFP4,
            .file = {f, f},
            .tensor = {mf_st_find(f, "x_proj_blocks"), mf_st_find(f, "x_proj_scales")}};
        ck_assert_str_eq(mf_place_plain_name(&ledger.places[0], from.tensor[0], plain),
                         "x_proj");
        ck_assert_int_eq(
            mf_values_read(&from, &ledger.places[0], (float *const[2]){values, NULL}), MF_OK);
        for (int row = 0; row < EXPERTS * OUT; row++)
            for (int i = 0; i < IN; i++) {
                const int bits = blocks[row * 16 + i / 2] >> (i % 2 ? 4 : 0) & 15;
                const float size = ldexpf(v[bits & 7], scales[row] - 127);
                ck_assert_msg(values[row * IN + i] == (bits & 8 ? -size : size), "row %d, %d",
                              row, i);
            }
        mf_free(ledger.places);
        mf_store_free(s);
    }
    mf_st_close(f);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("match");
    TCase *t = tcase_create("match");
    tcase_add_test(t, parts_that_a_parameter_lacks);
    tcase_add_test(t, pairs_of_rows);
    tcase_add_test(t, rows_of_two_parameters);
    tcase_add_test(t, tensors_that_do_not_fit);
    tcase_add_test(t, forms_that_do_not_fit);
    tcase_add_test(t, transposed_weights_of_four_bits);
    tcase_add_test(t, values_of_blocks);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
