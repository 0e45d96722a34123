/* gradcheck: correct gradients pass; wrong gradients are found, and the message names tensor
 * and element. */
#include "check_main.h"

#include "base/error.h"
#include "base/rng.h"
#include "graph/device/device.h"
#include "lab/check/gradcheck.h"
#include "graph_ops.h"
#include "kernels/bf16.h"
#include "kernels/stored.h"
#include "ops/ops.h"
#include "tests/lib/fault.h"

#include <stdio.h>

#define ASSERT_SAYS(part)                                                                      \
    ck_assert_msg(strstr(mf_error_message(), part) != NULL, "message: %s", mf_error_message())

static mf_graph *new_graph(void)
{
    return mf_graph_new(&(mf_graph_options){.training = true});
}

/* An input with normally distributed values and a gradient. */
static mf_tensor *normal(mf_graph *g, const char *name, mf_shape shape)
{
    mf_tensor *t = mf_graph_input(g, name, MF_F32, shape);
    mf_graph_want_grad(t);
    mf_rng_fill_normal(11, mf_rng_stream(name), 0, mf_tensor_data(t),
                       (size_t)mf_shape_count(shape));
    return t;
}

static int check(mf_graph *g, mf_tensor *out, int n_in, mf_tensor **in,
                 mf_gradcheck_report *report)
{
    return mf_gradcheck(g, 1, &out, n_in, in, &(mf_gradcheck_options){.seed = 4}, report);
}

#define ASSERT_OK(code) ck_assert_msg((code) == MF_OK, "%s", mf_error_message())

/* ---- wrong rules ---- */

/* y = x^2; its gradient is multiplied by bend_factor at element bend_at, or at all elements if
 * bend_at is negative. */
static float bend_factor, bend_at = -1;

static int bent_backward(const mf_call *c) /* inputs: x, y, dy; output: dx */
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = 2 * t_in(c, 0)[i] * t_in(c, 2)[i] *
                         (bend_at < 0 || i == (int64_t)bend_at ? bend_factor : 1);
    return MF_OK;
}

static const mf_opdef t_bent = {.size = sizeof t_bent,
                                .name = "t_bent",
                                .infer = t_same,
                                .forward = t_square_forward,
                                .backward = bent_backward,
                                .backward_in = 1,
                                .diff_in = 1};

static int bent(float factor, int at, mf_shape shape, mf_gradcheck_report *report)
{
    mf_graph *g = new_graph();
    mf_tensor *x = normal(g, "right", mf_shape1(3)), *y = normal(g, "planted", shape);
    mf_tensor *out[2] = {op1(g, &t_square, x), op1(g, &t_bent, y)}, *in[2] = {x, y};
    bend_factor = factor;
    bend_at = (float)at;
    int code = mf_gradcheck(g, 2, out, 2, in, NULL, report);
    if (code == MF_EPLUGIN) ck_assert_str_eq(report->name, "planted");
    mf_graph_free(g);
    return code;
}

START_TEST(values_that_are_nan_are_named)
{
    mf_graph *g = new_graph();
    mf_tensor *x = normal(g, "right", mf_shape1(3)), *out = op1(g, &t_square, x);
    ((float *)mf_tensor_data(x))[1] = NAN;
    ck_assert_int_eq(check(g, out, 1, &x, NULL), MF_EPLUGIN);
    ASSERT_SAYS("gradient of right [3] ");
    ASSERT_SAYS("expected a number, found NaN in the values that it is the gradient of");
    mf_graph_free(g);
}
END_TEST

START_TEST(a_wrong_gradient_is_found_and_named)
{
    mf_gradcheck_report r;
    ASSERT_OK(bent(1, -1, mf_shape2(2, 4), &r));
    ck_assert_double_le(r.error, 1);
    ck_assert_int_eq(r.points, 3 + 8);
    ck_assert_int_eq(r.kinks, 0);

    ck_assert_int_eq(bent(1, -1, mf_shape2(2, 4), NULL), MF_OK);
    ck_assert_int_eq(bent(0.99f, -1, mf_shape2(2, 4), &r), MF_EPLUGIN);
    ASSERT_SAYS("gradient of planted [2,4] at element ");
    ck_assert_int_eq(r.tensor, 1);
    ck_assert_double_gt(r.error, 1);

    ck_assert_int_eq(bent(-1, 6, mf_shape2(2, 4), &r), MF_EPLUGIN);
    ASSERT_SAYS("gradient of planted [2,4] at element 6: expected ");
    ck_assert_int_eq(r.index, 6);
    ck_assert_double_eq_tol(r.analytic, -r.numeric, 1e-3 * fabs(r.numeric));

    ck_assert_int_eq(bent(NAN, 2, mf_shape2(2, 4), &r), MF_EPLUGIN);
    ASSERT_SAYS("found nan");
}
END_TEST

START_TEST(large_tensors_are_sampled_and_looked_at_along_directions)
{
    mf_gradcheck_report r;
    ASSERT_OK(bent(1, -1, mf_shape2(100, 100), &r));
    ck_assert_int_eq(r.points, 3 + 48 + 3);
    ck_assert_int_eq(bent(1.01f, -1, mf_shape2(100, 100), &r), MF_EPLUGIN);
    ck_assert_int_eq(bent(0, -1, mf_shape2(100, 100), &r), MF_EPLUGIN);
}
END_TEST

START_TEST(a_parameter_is_named_by_its_path)
{
    mf_store *s = mf_store_new();
    mf_param *p;
    mf_gradcheck_report r;
    mf_store_declare(s, "layers.0.router.weight", mf_shape1(4),
                     (mf_init){.kind = MF_INIT_NORMAL, .a = 1}, false, &p);
    mf_store_seal(s, 1, true);
    mf_graph *g = new_graph();
    mf_tensor *w = mf_graph_param(g, p), *y = op1(g, &t_bent, w);
    bend_factor = 1.5f;
    bend_at = -1;
    ck_assert_int_eq(check(g, y, 1, &w, &r), MF_EPLUGIN);
    ASSERT_SAYS("gradient of layers.0.router.weight [4] at element ");
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

/* ---- right rules ---- */

START_TEST(ops_of_tests_pass)
{
    mf_graph *g = new_graph();
    mf_tensor *a = normal(g, "a", mf_shape1(7)), *b = normal(g, "b", mf_shape1(7));
    mf_tensor *in[2] = {a, b}, *two[2], *out[3];
    mf_graph_op(g, &t_two, 2, in, NULL, 2, two);
    out[0] = op2(g, &t_mul, op1(g, &t_tanh, two[0]), op1(g, &t_reverse, two[1]));
    out[1] = op1(g, &t_noise, op1(g, &t_square, a));
    out[2] = op1(
        g, &t_sum,
        op2(g, &t_mul, out[0], op1(g, &t_stop, mf_graph_const(g, MF_F32, mf_shape1(7), NULL))));
    ASSERT_OK(mf_gradcheck(g, 3, out, 2, in, NULL, NULL));
    mf_graph_free(g);
}
END_TEST

START_TEST(linear_passes_with_and_without_bias)
{
    const mf_shape shapes[] = {mf_shape2(6, 4), mf_shape1(4), mf_shape3(2, 3, 4)};
    for (int i = 0; i < 6; i++) {
        mf_graph *g = new_graph();
        mf_tensor *in[3] = {normal(g, "x", shapes[i / 2]), normal(g, "w", mf_shape2(5, 4)),
                            normal(g, "b", mf_shape1(5))};
        mf_tensor *y = mf_linear(g, in[0], in[1], i % 2 ? in[2] : NULL);
        ASSERT_OK(check(g, y, i % 2 ? 3 : 2, in, NULL));
        mf_graph_free(g);
    }
}
END_TEST

/* ---- weights as stored in files ---- */

/* PER: number of inputs in a group of GPTQ */
enum { EXPERTS = 3, PARTS = 2, ROWS = 8, IN = 32, PER = 16 };

/* A part of 8 x 32 weights of any type. */
typedef struct drawn_part {
    union {
        float f32[ROWS * IN];
        uint16_t b16[ROWS * IN];
        uint32_t words[ROWS * IN / 4];
    } data;
    uint16_t scales[IN / PER * ROWS]; /* for MXFP4: bytes */
    uint32_t zeros[IN / PER * ROWS / 4];
} drawn_part;

/* Draws part `number`. The second part of each matrix is transposed, if its type
 * allows this. */
static mf_stored_part draw_part(drawn_part *d, mf_stored_type type, int number)
{
    const uint64_t stream = mf_rng_stream("stored"), at = (uint64_t)number;
    const bool transposed = number % PARTS == 1;
    const bool mx = type == MF_STORED_MXFP4, groups = type > MF_STORED_F16 && !mx,
               f8 = type == MF_STORED_F8_E4M3 || type == MF_STORED_F8_E5M2;
    mf_stored_part p = {
        .type = type, .rows = ROWS, .first = number % PARTS * ROWS, .data = &d->data};
    float values[ROWS * IN];
    mf_rng_fill_normal(11, stream, at, values, ROWS * IN);
    for (int i = 0; i < ROWS * IN; i++) {
        const uint32_t r = mf_rng_u32(12, stream, at, (uint64_t)i);
        if (type == MF_STORED_F32)
            d->data.f32[i] = values[i];
        else if (type == MF_STORED_BF16)
            d->data.b16[i] = mf_bf16_from_f32(values[i]);
        else if (type == MF_STORED_F16)
            d->data.b16[i] = (uint16_t)(0x3400 + (r & 0x8bff)); /* +-(.25 to 1) */
        else if (i < ROWS * IN / 4)
            d->data.words[i] = f8 ? r & 0xb7b7b7b7 : r; /* numbers of eight bits below 2 */
    }
    if (!groups && !mx) {
        p.transposed = transposed;
        p.ld = transposed ? ROWS : IN;
        return p;
    }
    for (int i = 0; i < IN / PER * ROWS; i++)
        /* f16 from .125 on; MXFP4: bytes that mean 1 / 2 and 1 */
        d->scales[i] = mx ? 0x7f7e : (uint16_t)(0x3000 + 64 * i);
    for (int i = 0; i < IN / PER * ROWS / 4; i++)
        d->zeros[i] = 0x87654321u * (uint32_t)(i + 1);
    p.scales = d->scales;
    p.zeros = groups && !f8 ? d->zeros : NULL;
    p.groups = groups ? IN / PER : 0;
    p.group_size = groups ? PER : 32;
    p.scale_rows = f8 ? 1 : 0;
    return p;
}

/* Checks gemms of x with `groups` matrices. Each has two parts; the second has the type
 * after `type`. */
static void check_stored(mf_stored_type type, int groups, const mf_kernels *kernels)
{
    static const int32_t offsets[] = {0, 2, 2, 5}; /* no rows for group 1; row 5 belongs to
                                                    * no group */
    drawn_part drawn[EXPERTS * PARTS];
    mf_stored_part part[EXPERTS * PARTS];
    for (int i = 0; i < groups * PARTS; i++)
        part[i] =
            draw_part(&drawn[i], (mf_stored_type)((type + i % PARTS) % MF_STORED_TYPES), i);
    const mf_stored w = {groups, PARTS * ROWS, IN, PARTS, part, NULL};
    mf_store *s = mf_store_new();
    mf_param *p;
    mf_gradcheck_report r;
    ASSERT_OK(mf_store_declare(
        s, "w", groups == 1 ? mf_shape2(PARTS * ROWS, IN) : mf_shape3(groups, PARTS * ROWS, IN),
        (mf_init){.kind = MF_INIT_CONST}, false, &p));
    ASSERT_OK(mf_store_bind(s, p, &w));
    ASSERT_OK(mf_store_seal(s, 1, true));
    mf_graph *g = new_graph();
    mf_tensor *x = normal(g, "x", mf_shape2(6, IN)), *y;
    if (groups == 1) {
        y = mf_linear(g, x, mf_graph_param(g, p), NULL);
    } else {
        mf_tensor *offset = mf_graph_input(g, "offset", MF_I32, mf_shape1(EXPERTS + 1));
        memcpy(mf_tensor_data(offset), offsets, sizeof offsets);
        y = mf_grouped_linear(g, x, mf_graph_param(g, p), offset, NULL);
    }
    const mf_gradcheck_options o = {.seed = 4, .max_points = 6 * IN, .kernels = kernels};
    const int rc = mf_gradcheck(g, 1, &y, 1, &x, &o, &r);
    ck_assert_msg(rc == MF_OK, "type %d, %d groups: %s", (int)type, groups, mf_error_message());
    ck_assert_int_eq(r.points, 6 * IN);
    mf_graph_free(g);
    mf_store_free(s);
}

START_TEST(rows_have_gradients_through_weights_in_files)
{
    const mf_kernels *fast = mf_device_kernels(NULL, NULL);
    for (int type = 0; type < MF_STORED_TYPES; type++)
        for (int i = 0; i < 4; i++)
            check_stored((mf_stored_type)type, i % 2 ? EXPERTS : 1, i / 2 ? fast : NULL);
}
END_TEST

/* The number of compared points is limited by operations, but is at least MF_GRADCHECK_LEAST,
 * and the last element is one of them. Only a tensor that disagrees is marked. */
START_TEST(points_are_limited_by_operations)
{
    static const struct {
        double operations;
        int64_t points;
    } cases[] = {{0, 20}, {1e9, 20}, {1, MF_GRADCHECK_LEAST}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_gradcheck_report r;
        mf_graph *g = new_graph();
        mf_tensor *in[2] = {normal(g, "x", mf_shape1(300)), normal(g, "y", mf_shape1(300))},
                  *out[2] = {op1(g, &t_square, in[0]), op1(g, &t_bent, in[1])};
        const mf_gradcheck_options o = {
            .seed = 4, .max_points = 20, .directions = 1, .operations = cases[i].operations};
        bend_factor = 3;
        bend_at = 299;
        ck_assert_int_eq(mf_gradcheck(g, 2, out, 2, in, &o, &r), MF_EPLUGIN);
        ck_assert_int_eq(r.points, 2 * (cases[i].points + 1));
        ck_assert_int_eq(r.index, 299);
        ck_assert_uint_eq(r.wrong, 2);
        ck_assert_uint_eq(r.unseen, 0);
        ck_assert(r.operations > 2 * (double)r.points * 300);
        mf_graph_free(g);
    }
}
END_TEST

/* ---- kinks ---- */

static int hinge_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = fmaxf(t_in(c, 0)[i], 0);
    return MF_OK;
}

static int hinge_backward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = t_in(c, 0)[i] > 0 ? t_in(c, 2)[i] : 0;
    return MF_OK;
}

static const mf_opdef t_hinge = {.size = sizeof t_hinge,
                                 .name = "t_hinge",
                                 .infer = t_same,
                                 .forward = hinge_forward,
                                 .backward = hinge_backward,
                                 .backward_in = 1,
                                 .diff_in = 1};

START_TEST(points_at_kinks_are_skipped_and_counted)
{
    mf_gradcheck_report r;
    mf_graph *g = new_graph();
    mf_tensor *x = normal(g, "x", mf_shape1(9));
    float *v = mf_tensor_data(x);
    v[1] = v[5] = 0;
    v[3] = 1e-6f; /* the distance to the kink is less than the difference step */
    ASSERT_OK(check(g, op1(g, &t_hinge, x), 1, &x, &r));
    ck_assert_int_eq(r.kinks, 3);
    ck_assert_int_eq(r.points, 6);
    mf_graph_free(g);

    g = new_graph();
    x = normal(g, "x", mf_shape1(9));
    memset(mf_tensor_data(x), 0, 9 * sizeof(float));
    ck_assert_int_eq(check(g, op1(g, &t_hinge, x), 1, &x, &r), MF_EPLUGIN);
    ASSERT_SAYS("9 of 9 points are at kinks");
    mf_graph_free(g);
}
END_TEST

/* ---- noise ---- */

static double skew_factor;

static int skew_forward(const mf_call *c)
{
    memcpy(t_out(c, 0), t_in(c, 0), (size_t)t_n(c) * sizeof(float));
    return MF_OK;
}

static int skew_backward(const mf_call *c) /* inputs: x, y, dy; output: dx */
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = (float)skew_factor * t_in(c, 2)[i];
    return MF_OK;
}

/* y = x; its gradient is skew_factor instead of 1. */
static const mf_opdef t_skew = {.size = sizeof t_skew,
                                .name = "t_skew",
                                .infer = t_same,
                                .forward = skew_forward,
                                .backward = skew_backward,
                                .backward_out = 1,
                                .diff_in = 1};

/* Checks the mutual information of 6 tokens and their 64 experts. It is a difference of two
 * entropies near ln 64, whose noise is larger than many of the slopes. draw: selects
 * the values. */
static int information(int draw, double factor, mf_gradcheck_report *report)
{
    enum { T = 6, D = 4, E = 64 };
    mf_graph *g = new_graph();
    mf_tensor *x = normal(g, "x", mf_shape2(T, D)), *w = normal(g, "w", mf_shape2(E, D));
    float *v = mf_tensor_data(w);
    mf_rng_fill_normal((uint64_t)draw, 1, 0, v, (size_t)E * D);
    for (int i = 0; i < E * D; i++)
        v[i] *= 0.1f;
    skew_factor = factor;
    mf_tensor *p = op1(g, &t_skew, mf_softmax(g, mf_linear(g, x, w, NULL)));
    mf_tensor *even = mf_sum(g, mf_xlogx(g, mf_mean(g, p, 1u, false)), MF_ALL, false);
    mf_tensor *each = mf_sum(g, mf_mean(g, mf_xlogx(g, p), 1u, false), MF_ALL, false);
    mf_tensor *in[2] = {x, w}, *f = mf_sub(g, even, each);
    const mf_gradcheck_options options = {
        .seed = 4, .max_points = 24, .directions = 2, .step = 0x1p-7};
    const int code = mf_gradcheck(g, 1, &f, 2, in, &options, report);
    mf_graph_free(g);
    return code;
}

START_TEST(small_differences_of_large_numbers_pass)
{
    for (int draw = 0; draw < 30; draw++) {
        mf_gradcheck_report r;
        int code = information(draw, 1, &r);
        ck_assert_msg(code == MF_OK, "draw %d: %s", draw, mf_error_message());
        ck_assert_int_ge(r.points, 2);
    }
}
END_TEST

/* Noise hides the error at single elements, but the direction of all signs shows it. */
START_TEST(noise_does_not_hide_a_wrong_rule)
{
    static const double factors[] = {1.05, 0.95, 0.5, 0, -1};
    for (int draw = 0; draw < 10; draw++)
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            ck_assert_msg(information(draw, factors[i], NULL) == MF_EPLUGIN,
                          "draw %d: a gradient %g times too large passes", draw, factors[i]);
}
END_TEST

/* ---- state and arguments ---- */

START_TEST(values_are_restored)
{
    float before[300];
    mf_graph *g = new_graph();
    mf_tensor *x = normal(g, "x", mf_shape1(300));
    memcpy(before, mf_tensor_data(x), sizeof before);
    ASSERT_OK(check(g, op1(g, &t_tanh, x), 1, &x, NULL));
    ck_assert_mem_eq(before, mf_tensor_data(x), sizeof before);
    mf_graph_free(g);
}
END_TEST

START_TEST(wrong_uses_are_refused)
{
    mf_graph *g = new_graph();
    mf_tensor *x = mf_graph_input(g, "ids", MF_I32, mf_shape1(3));
    mf_tensor *y = op1(g, &t_tanh, normal(g, "y", mf_shape1(3)));
    ck_assert_int_eq(check(g, y, 1, &x, NULL), MF_EINVAL);
    mf_graph_free(g);

    g = new_graph();
    x = mf_graph_input(g, "x", MF_F32, mf_shape1(3)); /* no gradient was requested */
    ck_assert_int_eq(check(g, op1(g, &t_tanh, x), 1, &x, NULL), MF_EINVAL);
    ASSERT_SAYS("gradient of x is wanted");
    mf_graph_free(g);

    g = new_graph();
    mf_graph_fail(g, MF_ESHAPE, "earlier");
    ck_assert_int_eq(check(g, NULL, 0, NULL, NULL), MF_ESHAPE);
    ASSERT_SAYS("earlier");
    mf_graph_free(g);
}
END_TEST

START_TEST(memory_fails)
{
    for (long n = 1;; n++) {
        mf_graph *g = new_graph();
        mf_tensor *in[2] = {normal(g, "x", mf_shape1(4)), normal(g, "y", mf_shape1(4))};
        mf_tensor *out = op2(g, &t_mul, op1(g, &t_tanh, in[0]), in[1]);
        fault_alloc(n, FAULT_ONCE);
        const int rc = check(g, out, 2, in, NULL);
        const bool hit = fault_hit();
        fault_off();
        ck_assert_msg(rc == (hit ? MF_ENOMEM : MF_OK), "allocation %ld: %s", n,
                      mf_error_message());
        mf_graph_free(g);
        if (hit) continue;
        ck_assert_int_gt(n, 20);
        break;
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gradcheck");
    TCase *t = tcase_create("gradcheck");
    tcase_add_test(t, a_wrong_gradient_is_found_and_named);
    tcase_add_test(t, values_that_are_nan_are_named);
    tcase_add_test(t, large_tensors_are_sampled_and_looked_at_along_directions);
    tcase_add_test(t, a_parameter_is_named_by_its_path);
    tcase_add_test(t, ops_of_tests_pass);
    tcase_add_test(t, linear_passes_with_and_without_bias);
    tcase_add_test(t, rows_have_gradients_through_weights_in_files);
    tcase_add_test(t, points_are_limited_by_operations);
    tcase_add_test(t, points_at_kinks_are_skipped_and_counted);
    tcase_add_test(t, small_differences_of_large_numbers_pass);
    tcase_add_test(t, noise_does_not_hide_a_wrong_rule);
    tcase_add_test(t, values_are_restored);
    tcase_add_test(t, wrong_uses_are_refused);
    tcase_add_test(t, memory_fails);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
