/* param: the store of parameters and buffers, and their initial values, which must depend only
 * on name, shape, initializer and seed. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/store/param.h"
#include "kernels/stored.h"
#include "ops/ops.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NORMAL(v) ((mf_init){.kind = MF_INIT_NORMAL, .a = (v)})
#define CONST(v)  ((mf_init){.kind = MF_INIT_CONST, .a = (v)})

static mf_param *declare(mf_store *s, const char *name, mf_shape shape, mf_init init)
{
    mf_param *p = NULL;
    ck_assert_int_eq(mf_store_declare(s, name, shape, init, false, &p), MF_OK);
    ck_assert_ptr_nonnull(p);
    return p;
}

static bool message_has(const char *part)
{
    return strstr(mf_error_message(), part) != NULL;
}

START_TEST(blocks_are_aligned_with_zero_gaps)
{
    mf_store *s = mf_store_new();
    mf_param *a = declare(s, "a", mf_shape2(3, 5), CONST(1));
    mf_param *b = declare(s, "b", mf_shape1(16), CONST(2));
    mf_param *c = declare(s, "c", mf_shape0(), CONST(3)), *buffer;
    ck_assert_int_eq(mf_store_declare(s, "state", mf_shape1(7), CONST(4), true, &buffer),
                     MF_OK);
    ck_assert(!mf_store_sealed(s));
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    ck_assert(mf_store_sealed(s));

    int64_t n;
    float *values = mf_store_values(s, &n);
    ck_assert_int_eq(n, 16 + 16 + 16);
    ck_assert_int_eq(mf_store_trained(s), 15 + 16 + 1);
    const mf_param *all[] = {a, b, c, buffer};
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq((uintptr_t)all[i]->value % 64, 0);
        for (int64_t j = 0; j < all[i]->count; j++)
            ck_assert_float_eq(all[i]->value[j], (float)(i + 1));
    }
    ck_assert_float_eq(values[15], 0); /* the padding after parameter a */
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_eq(all[i]->value, values + all[i]->offset);
        ck_assert_ptr_eq(all[i]->grad, mf_store_grads(s) + all[i]->offset);
    }
    ck_assert_ptr_null(buffer->grad);
    ck_assert(buffer->value < values || buffer->value >= values + n);
    for (int64_t i = 0; i < n; i++) {
        ck_assert_float_eq(mf_store_grads(s)[i], 0);
        ck_assert_float_eq(mf_store_moment1(s)[i], 0);
        ck_assert_float_eq(mf_store_moment2(s)[i], 0);
    }
    mf_store_free(s);
}
END_TEST

START_TEST(without_training_there_are_values_only)
{
    mf_store *s = mf_store_new();
    mf_param *a = declare(s, "a", mf_shape1(4), CONST(1));
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    ck_assert_ptr_nonnull(a->value);
    ck_assert_ptr_null(a->grad);
    ck_assert_ptr_null(mf_store_grads(s));
    ck_assert_ptr_null(mf_store_moment1(s));
    ck_assert_ptr_null(mf_store_moment2(s));
    mf_store_free(s);
}
END_TEST

START_TEST(declared_again_it_is_the_same)
{
    mf_store *s = mf_store_new();
    mf_param *a = declare(s, "layers.0.w", mf_shape2(2, 3), CONST(1)), *again;
    ck_assert_ptr_eq(declare(s, "layers.0.w", mf_shape2(2, 3), CONST(9)), a);
    ck_assert_int_eq(mf_store_count(s), 1);
    ck_assert_int_eq(
        mf_store_declare(s, "layers.0.w", mf_shape2(3, 2), CONST(1), false, &again), MF_EINVAL);
    ck_assert(message_has("layers.0.w") && message_has("[3,2]") && message_has("[2,3]"));
    ck_assert_int_eq(mf_store_declare(s, "layers.0.w", mf_shape2(2, 3), CONST(1), true, &again),
                     MF_EINVAL);
    ck_assert(message_has("buffer"));
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    ck_assert_ptr_eq(declare(s, "layers.0.w", mf_shape2(2, 3), CONST(1)), a);
    ck_assert_int_eq(mf_store_declare(s, "late", mf_shape1(1), CONST(1), false, &again),
                     MF_EINVAL);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_EINVAL);
    mf_store_free(s);
}
END_TEST

START_TEST(bad_declarations_are_refused)
{
    const struct {
        const char *name, *says;
        mf_shape shape;
        mf_init init;
    } bad[] = {
        {"", "needs a name", mf_shape1(1), CONST(0)},
        {"a b", "a b", mf_shape1(1), CONST(0)},
        {"w*", "w*", mf_shape1(1), CONST(0)},
        {"empty", "[0]", mf_shape1(0), CONST(0)},
        {"negative", "[-2,3]", mf_shape2(-2, 3), CONST(0)},
        {"huge", "huge", mf_shape4(1 << 30, 1 << 30, 1 << 30, 1 << 30), CONST(0)},
        {"kind", "kind", mf_shape1(1), {.kind = 99}},
        {"nan", "not finite", mf_shape1(1), {.kind = MF_INIT_CONST, .a = NAN}},
    };
    mf_store *s = mf_store_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mf_param *p = NULL;
        ck_assert_int_eq(mf_store_declare(s, bad[i].name, bad[i].shape, bad[i].init, false, &p),
                         MF_EINVAL);
        ck_assert_msg(message_has(bad[i].says), "%s: %s", bad[i].name, mf_error_message());
        ck_assert_ptr_null(p);
    }
    ck_assert_int_eq(mf_store_count(s), 0);
    mf_store_free(s);
}
END_TEST

START_TEST(names_match_patterns)
{
    ck_assert(mf_match("a", "a") && !mf_match("a", "ab") && !mf_match("ab", "a"));
    ck_assert(mf_match("*", "") && mf_match("*", "abc") && mf_match("a*", "a"));
    ck_assert(mf_match("layers.*.router.weight", "layers.12.router.weight"));
    ck_assert(!mf_match("layers.*.router.weight", "layers.12.router.weight2"));
    ck_assert(mf_match("*b*b", "abab") && mf_match("*ab", "aab") && !mf_match("*ab", "aba"));
    ck_assert(mf_match("a**c", "abc") && !mf_match("", "a") && mf_match("", ""));

    mf_store *s = mf_store_new();
    const char *const names[] = {"layers.0.w", "layers.0.b", "layers.1.w"};
    for (int i = 0; i < 3; i++)
        declare(s, names[i], mf_shape1(1), CONST(0));
    ck_assert_ptr_eq(mf_store_match(s, "*.w", 0), mf_store_at(s, 0));
    ck_assert_ptr_eq(mf_store_match(s, "*.w", 1), mf_store_at(s, 2));
    ck_assert_ptr_null(mf_store_match(s, "*.w", 2));
    ck_assert_ptr_eq(mf_store_find(s, "layers.0.b"), mf_store_at(s, 1));
    ck_assert_ptr_null(mf_store_find(s, "layers.0"));
    ck_assert_ptr_null(mf_store_at(s, 3));
    ck_assert_ptr_null(mf_store_at(s, -1));
    mf_store_free(s);
}
END_TEST

static void moments(const float *x, int64_t n, double *mean, double *deviation, double *most)
{
    double sum = 0, square = 0;
    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        square += (double)x[i] * x[i];
        *most = fmax(*most, fabs((double)x[i]));
    }
    *mean = sum / (double)n;
    *deviation = sqrt(square / (double)n - *mean * *mean);
}

/* Mean and deviation may differ by 5 standard errors of a sample of this size. */
START_TEST(start_values_have_their_distribution)
{
    enum { OUT = 200, IN = 300, N = OUT * IN };
    const double root3 = sqrt(3);
    const struct {
        mf_init init;
        double deviation, bound; /* bound 0: no bound */
    } row[] = {
        {{.kind = MF_INIT_NORMAL, .a = 0.02}, 0.02, 0},
        {{.kind = MF_INIT_UNIFORM, .a = 0.5}, 0.5 / root3, 0.5},
        {{.kind = MF_INIT_XAVIER, .a = 2},
         2 * sqrt(6.0 / (OUT + IN)) / root3,
         2 * sqrt(6.0 / (OUT + IN))},
        {{.kind = MF_INIT_KAIMING, .a = 1}, 1 / sqrt(IN) / root3, 1 / sqrt(IN)},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mf_store *s = mf_store_new();
        const mf_param *p = declare(s, "w", mf_shape2(OUT, IN), row[i].init);
        double mean, deviation, most;
        ck_assert_int_eq(mf_store_seal(s, 7, false), MF_OK);
        moments(p->value, N, &mean, &deviation, &most);
        ck_assert_double_le(fabs(mean), 5 * row[i].deviation / sqrt(N));
        ck_assert_double_le(fabs(deviation / row[i].deviation - 1), 5 / sqrt(2.0 * N));
        if (row[i].bound > 0) {
            ck_assert_double_le(most, row[i].bound * (1 + 1e-6));
            ck_assert_double_ge(most, row[i].bound * 0.999);
        } else {
            ck_assert_double_ge(most, 3.5 * row[i].deviation);
        }
        mf_store_free(s);
    }
}
END_TEST

START_TEST(equal_rows_and_constants)
{
    mf_store *s = mf_store_new();
    const mf_param *same =
        declare(s, "same", mf_shape3(4, 3, 5), (mf_init){.kind = MF_INIT_ROWS_SAME, .a = 1});
    const mf_param *zero = declare(s, "zero", mf_shape1(9), (mf_init){.kind = MF_INIT_ZERO});
    ck_assert_int_eq(mf_store_seal(s, 7, false), MF_OK);
    for (int e = 1; e < 4; e++)
        ck_assert_mem_eq(same->value + (ptrdiff_t)e * 15, same->value, 15 * sizeof(float));
    ck_assert_float_ne(same->value[0], same->value[1]);
    for (int i = 0; i < 9; i++)
        ck_assert_float_eq(zero->value[i], 0);
    mf_store_free(s);
}
END_TEST

/* The same name and seed lead to the same values, whatever else is declared. */
START_TEST(start_values_depend_on_name_and_seed_only)
{
    float again[12];
    mf_store *one = mf_store_new(), *two = mf_store_new(), *other_seed = mf_store_new();
    const mf_param *a = declare(one, "w", mf_shape2(3, 4), NORMAL(1));
    declare(two, "before", mf_shape1(100), NORMAL(1));
    const mf_param *b = declare(two, "w", mf_shape2(3, 4), NORMAL(1));
    const mf_param *other = declare(two, "v", mf_shape2(3, 4), NORMAL(1));
    const mf_param *c = declare(other_seed, "w", mf_shape2(3, 4), NORMAL(1));
    ck_assert_int_eq(mf_store_seal(one, 5, false), MF_OK);
    ck_assert_int_eq(mf_store_seal(two, 5, true), MF_OK);
    ck_assert_int_eq(mf_store_seal(other_seed, 6, false), MF_OK);
    ck_assert_mem_eq(a->value, b->value, sizeof again);
    ck_assert_mem_ne(a->value, other->value, sizeof again);
    ck_assert_mem_ne(a->value, c->value, sizeof again);
    mf_param_draw(a, 5, again);
    ck_assert_mem_eq(a->value, again, sizeof again);
    mf_store_free(one);
    mf_store_free(two);
    mf_store_free(other_seed);
}
END_TEST

/* Several threads draw numbers in tiles. The number at an index depends only on the index. */
START_TEST(long_parameters_have_the_numbers_of_their_indices)
{
    enum { LENGTH = 200003 };
    mf_store *s = mf_store_new();
    const mf_param *n = declare(s, "n", mf_shape1(LENGTH), NORMAL(2)),
                   *u = declare(s, "u", mf_shape1(LENGTH),
                                (mf_init){.kind = MF_INIT_UNIFORM, .a = 3});
    mf_parallel_set_threads(4);
    ck_assert_int_eq(mf_store_seal(s, 5, false), MF_OK);
    for (uint64_t i = 0; i < LENGTH; i += i < 65530 || i > 65540 ? 7 : 1) {
        ck_assert_float_eq(n->value[i], 2 * mf_rng_normal(5, mf_rng_stream("n"), 0, i));
        ck_assert_float_eq(u->value[i], 6 * mf_rng_uniform(5, mf_rng_stream("u"), 0, i) - 3);
    }
    mf_store_free(s);
}
END_TEST

START_TEST(flags_are_kept)
{
    mf_store *s = mf_store_new();
    const mf_param *p =
        declare(s, "frozen", mf_shape1(2),
                (mf_init){.kind = MF_INIT_ZERO, .flags = MF_PARAM_FROZEN | MF_PARAM_BY_EXPERT});
    const mf_param *q = declare(s, "free", mf_shape1(2), CONST(0));
    ck_assert(p->frozen && !q->frozen);
    ck_assert(p->init.flags & MF_PARAM_BY_EXPERT);
    ck_assert_double_eq(p->lr_scale, 1);
    ck_assert_int_eq(q->index, 1);
    mf_store_free(s);
}
END_TEST

/* ---- without memory ---- */

static int64_t allocations_left;

static void *scarce_alloc(size_t bytes)
{
    if (allocations_left-- <= 0) return NULL;
    return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

static const mf_mem_table scarce = {scarce_alloc, free};

/* Number of bytes of a sealed store with one parameter of 1000 elements, for training. */
static size_t bytes_of_sealed(void)
{
    mf_param *p;
    mf_store *s = mf_store_new();
    ck_assert_int_eq(mf_store_declare(s, "w", mf_shape1(1000), NORMAL(1), false, &p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    const size_t bytes = mf_store_bytes(s);
    mf_store_free(s);
    return bytes;
}

START_TEST(no_memory_is_reported_at_every_allocation)
{
    const size_t bytes = bytes_of_sealed();
    bool done = false;
    int n = 0;
    mf_mem_set_table(&scarce);
    for (; !done && n < 100; n++) {
        allocations_left = n;
        mf_store *s = mf_store_new();
        mf_param *p;
        int code =
            s ? mf_store_declare(s, "w", mf_shape1(1000), NORMAL(1), false, &p) : MF_ENOMEM;
        if (code == MF_OK) code = mf_store_seal(s, 1, true);
        done = code == MF_OK;
        if (!done) ck_assert_int_eq(code, MF_ENOMEM);
        if (!done && s) { /* no bytes are counted after a failure; sealing may be tried again */
            ck_assert_uint_eq(mf_store_bytes(s), 0);
            allocations_left = 100;
            ck_assert_int_eq(mf_store_declare(s, "w", mf_shape1(1000), NORMAL(1), false, &p),
                             MF_OK);
            ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
            ck_assert_uint_eq(mf_store_bytes(s), bytes);
        }
        if (done) ck_assert_uint_eq(mf_store_bytes(s), bytes);
        mf_store_free(s);
    }
    mf_mem_set_table(NULL);
    ck_assert(done);
    ck_assert_int_ge(n, 6);
}
END_TEST

START_TEST(parts_and_weights_of_files_must_fit)
{
    mf_store *s = mf_store_new();
    mf_param *w = declare(s, "w", mf_shape2(4, 6), CONST(1));
    mf_param *cube = declare(s, "cube", mf_shape3(2, 4, 6), CONST(1));
    mf_param *line = declare(s, "line", mf_shape1(24), CONST(1));
    const int64_t bad[][2] = {{0, 6}, {4, 0}, {5, 6}, {4, 7}};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(mf_store_divide(s, w, bad[i][0], bad[i][1]), MF_EINVAL);
        ck_assert(message_has("w: 24 elements are not a multiple of"));
    }
    ck_assert_int_eq(mf_store_divide(s, w, 4, 6), MF_OK);

    const mf_stored good = {.groups = 1, .out = 4, .in = 6};
    const mf_stored wrong[] = {{.groups = 2, .out = 4, .in = 6},
                               {.groups = 1, .out = 4, .in = 7},
                               {.groups = 1, .out = 5, .in = 6}};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(mf_store_bind(s, w, &wrong[i]), MF_EINVAL);
        ck_assert(message_has("w cannot be read from a file"));
    }
    ck_assert_int_eq(mf_store_bind(s, cube, &good), MF_EINVAL);
    ck_assert_int_eq(mf_store_bind(s, line, &good), MF_EINVAL);
    ck_assert_int_eq(mf_store_bound(s), 0);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    ck_assert_int_eq(mf_store_bind(s, w, &good), MF_EINVAL); /* too late: the store is sealed */
    mf_store_free(s);
}
END_TEST

/* A weight in a file is only read: by graphs and by the host. No code writes it. */
START_TEST(a_weight_of_a_file_is_only_read)
{
    enum { OUT = 4, IN = 6, COUNT = OUT * IN };
    float numbers[COUNT], back[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i / 8;
    const mf_stored_part part = {.type = MF_STORED_F32, .rows = OUT, .data = numbers, .ld = IN};
    const mf_stored file = {.groups = 1, .out = OUT, .in = IN, .parts = 1, .part = &part};
    mf_store *s = mf_store_new();
    mf_param *w = declare(s, "w", mf_shape2(OUT, IN), CONST(1));
    ck_assert_int_eq(mf_store_bind(s, w, &file), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    mf_graph *g = mf_graph_new(NULL);
    mf_tensor *t = mf_graph_param(g, w), *y = mf_cast(g, t, MF_F32);
    mf_graph_keep(y);
    ck_assert_msg(mf_graph_finish(g) == MF_OK, "%s", mf_error_message());
    ck_assert_msg(mf_graph_run(g, NULL) == MF_OK, "%s", mf_error_message());
    ck_assert_mem_eq(mf_tensor_host(y), numbers, sizeof numbers);
    ck_assert_int_eq(mf_tensor_read(t, back, 20, 40), MF_OK);
    ck_assert_mem_eq(back, numbers + 5, 40);
    ck_assert_int_eq(mf_tensor_write(t, back, 0, 4), MF_EINVAL);
    ck_assert_str_eq(mf_error_message(), "w is read from a file and cannot be written");
    mf_error_clear();
    ck_assert_int_eq(mf_param_write(w, back, 0, 4), MF_EINVAL);
    ck_assert(message_has("w is read from a file and cannot be written"));
    mf_error_clear();
    ck_assert_ptr_null(mf_param_edit(w));
    ck_assert(message_has("w is read from a file and cannot be written"));
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

START_TEST(moments_of_other_shards_cannot_be_read)
{
    const mf_shard half = {.first = 0, .end = 8};
    const float numbers[4] = {1, 2, 3, 4};
    float back[4];
    mf_store *s = mf_store_new();
    declare(s, "w", mf_shape1(16), CONST(1));
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    ck_assert_int_eq(mf_store_shard(s, 1, &half), MF_OK);
    for (int which = 0; which < 2; which++) {
        ck_assert_int_eq(mf_store_write_moments(s, which, 6, 4, numbers), MF_OK);
        ck_assert_int_eq(mf_store_read_moments(s, which, 4, 4, back), MF_OK);
        ck_assert(back[0] == 0 && back[1] == 0 && back[2] == 1 && back[3] == 2);
        ck_assert_int_eq(mf_store_read_moments(s, which, 6, 4, back), MF_EINVAL);
        ck_assert(message_has("moments 6 to 10 are not kept here"));
    }
    mf_store_free(s);
}
END_TEST

START_TEST(bytes_outside_of_a_parameter_are_refused)
{
    mf_store *s = mf_store_new();
    mf_param *w = declare(s, "w", mf_shape1(3), CONST(2));
    float x[4] = {0};
    ck_assert_int_eq(mf_param_read(w, x, 0, sizeof *x), MF_EINVAL); /* unsealed: no values */
    ck_assert(message_has("but it has 0"));
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    ck_assert_int_eq(mf_param_read(w, x, 4, 8), MF_OK);
    ck_assert_float_eq(x[1], 2);
    ck_assert_int_eq(mf_param_read(w, x, 4, 9), MF_EINVAL);
    ck_assert_int_eq(mf_param_read(w, x, 13, 0), MF_EINVAL);
    ck_assert_int_eq(mf_param_write(w, x, 0, 16), MF_EINVAL);
    ck_assert(message_has("w: bytes 0 to 16, but it has 12"));
    ck_assert_int_eq(mf_store_read(s, MF_BLOCK_BF16, x, 0, 2), MF_EINVAL); /* no bf16 copy */
    ck_assert(message_has("bytes 0 to 2 of a block of parameters that has 0"));
    ck_assert_int_eq(mf_store_write(s, MF_BLOCK_VALUES, x, SIZE_MAX, 4), MF_EINVAL);
    ck_assert_float_eq(mf_param_host(w)[2], 2);
    mf_store_free(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("param");
    TCase *t = tcase_create("param");
    tcase_add_test(t, blocks_are_aligned_with_zero_gaps);
    tcase_add_test(t, without_training_there_are_values_only);
    tcase_add_test(t, declared_again_it_is_the_same);
    tcase_add_test(t, bad_declarations_are_refused);
    tcase_add_test(t, names_match_patterns);
    tcase_add_test(t, start_values_have_their_distribution);
    tcase_add_test(t, equal_rows_and_constants);
    tcase_add_test(t, start_values_depend_on_name_and_seed_only);
    tcase_add_test(t, long_parameters_have_the_numbers_of_their_indices);
    tcase_add_test(t, flags_are_kept);
    tcase_add_test(t, parts_and_weights_of_files_must_fit);
    tcase_add_test(t, a_weight_of_a_file_is_only_read);
    tcase_add_test(t, moments_of_other_shards_cannot_be_read);
    tcase_add_test(t, bytes_outside_of_a_parameter_are_refused);
    tcase_add_test(t, no_memory_is_reported_at_every_allocation);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
