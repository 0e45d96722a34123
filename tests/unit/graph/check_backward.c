/* backward: gradients of a graph, tensors without a gradient, and refusals. Gradients are
 * compared with formulas that are written in the test. */
#include "check_main.h"

#include "base/error.h"
#include "graph/internal.h"
#include "graph_ops.h"

#include <fenv.h>
#include <stdio.h>

#define ASSERT_SAYS(part)                                                                      \
    ck_assert_msg(strstr(mf_error_message(), part) != NULL, "message: %s", mf_error_message())

enum { N = 5 };

/* A graph over n parameters [N] named w0, w1, ... Element j of parameter i is 1 + i / 8 + j. */
typedef struct bench {
    mf_store *store;
    mf_param *w[4];
    mf_graph *g;
    mf_tensor *t[4]; /* the parameters as tensors */
    mf_tensor *x;    /* an input with the values 1 2 3 .. */
} bench;

static bench setup_with(int n, mf_graph_options options, bool train_store)
{
    char name[16];
    bench b = {.store = mf_store_new()};
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "w%d", i);
        ck_assert_int_eq(
            mf_store_declare(b.store, name, mf_shape1(N), (mf_init){0}, false, &b.w[i]), MF_OK);
    }
    ck_assert_int_eq(mf_store_seal(b.store, 1, train_store), MF_OK);
    b.g = mf_graph_new(&options);
    b.x = mf_graph_input(b.g, "x", MF_F32, mf_shape1(N));
    for (int j = 0; j < N; j++)
        ((float *)b.x->data)[j] = (float)(j + 1);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < N; j++)
            b.w[i]->value[j] = 1 + (float)i / 8 + (float)j;
        b.t[i] = mf_graph_param(b.g, b.w[i]);
    }
    return b;
}

static bench setup(int n)
{
    return setup_with(n, (mf_graph_options){.training = true}, true);
}

static void teardown(bench *b)
{
    mf_graph_free(b->g);
    mf_store_free(b->store);
}

static void finish(bench *b, mf_tensor *loss)
{
    int code = mf_graph_backward(b->g, loss, 0, NULL);
    if (code == MF_OK) code = mf_graph_finish(b->g);
    ck_assert_msg(code == MF_OK, "%s", mf_error_message());
}

static void run(bench *b)
{
    int code = mf_graph_run(b->g, NULL);
    ck_assert_msg(code == MF_OK, "%s", mf_error_message());
}

static int count_ops(const bench *b, const char *name)
{
    int n = 0;
    for (int i = 0; i < b->g->n_nodes; i++)
        n += strcmp(b->g->nodes[i]->op->name, name) == 0;
    return n;
}

#define ASSERT_GRAD(p, expected)                                                               \
    for (int j = 0; j < N; j++) {                                                              \
        float x = (float)(j + 1), w = (p)->value[j];                                           \
        (void)x, (void)w;                                                                      \
        ck_assert_float_eq((p)->grad[j], (float)(expected));                                   \
    }

/* ---- values ---- */

START_TEST(fused_and_composed_rules_give_the_gradient)
{
    bench b = setup(1);
    finish(&b, op1(b.g, &t_sum, op1(b.g, &t_square, op2(b.g, &t_mul, b.x, b.t[0]))));
    run(&b);
    ASSERT_GRAD(b.w[0], 2 * x * x * w);
    /* the gradient is written to the parameter's storage directly, without a copy */
    ck_assert_int_eq(count_ops(&b, "assign"), 0);
    ck_assert_ptr_eq(mf_tensor_data(b.t[0]->grad), b.w[0]->grad);
    run(&b);
    ASSERT_GRAD(b.w[0], 2 * x * x * w); /* the run overwrites the gradient instead of adding
                                         * to it */
    teardown(&b);
}
END_TEST

START_TEST(uses_of_a_parameter_are_summed)
{
    bench b = setup(1);
    mf_tensor *twice = op2(b.g, &t_mul, b.t[0], b.t[0]);
    finish(&b, op1(b.g, &t_sum, plus(b.g, twice, op2(b.g, &t_mul, b.x, b.t[0]))));
    run(&b);
    ASSERT_GRAD(b.w[0], 2 * w + x);
    ck_assert_int_eq(count_ops(&b, "assign"), 0);
    teardown(&b);
}
END_TEST

START_TEST(two_parameters_with_one_gradient_both_get_it)
{
    bench b = setup(2);
    finish(&b, op1(b.g, &t_sum, op2(b.g, &t_mul, plus(b.g, b.t[0], b.t[1]), b.x)));
    run(&b);
    ASSERT_GRAD(b.w[0], x);
    ASSERT_GRAD(b.w[1], x);
    teardown(&b);
}
END_TEST

START_TEST(an_output_that_is_not_used_counts_as_zero)
{
    for (int used = 0; used < 2; used++) {
        bench b = setup(2);
        mf_tensor *out[2];
        mf_graph_op(b.g, &t_two, 2, b.t, NULL, 2, out);
        finish(&b, op1(b.g, &t_sum, op2(b.g, &t_mul, out[used], b.x)));
        run(&b);
        ASSERT_GRAD(b.w[0], x);
        ASSERT_GRAD(b.w[1], used ? -x : x);
        teardown(&b);
    }
}
END_TEST

START_TEST(gradients_pass_through_other_shapes_and_scratch)
{
    bench b = setup(1);
    mf_tensor *wide =
        op2(b.g, &t_like, b.x, mf_graph_input(b.g, "like", MF_F32, mf_shape2(1, N)));
    mf_tensor *h = op1(b.g, &t_reverse, op2(b.g, &t_mul, op1(b.g, &t_flat, wide), b.t[0]));
    finish(&b, op1(b.g, &t_sum, op2(b.g, &t_mul, h, b.x)));
    run(&b);
    ASSERT_GRAD(b.w[0], x * (N + 1 - x));
    teardown(&b);
}
END_TEST

START_TEST(a_parameter_in_another_shape_gets_its_gradient_without_a_copy)
{
    mf_store *s = mf_store_new();
    mf_param *w;
    mf_store_declare(s, "w", mf_shape2(2, 3), (mf_init){.kind = MF_INIT_NORMAL, .a = 1}, false,
                     &w);
    mf_store_seal(s, 1, true);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    mf_tensor *loss = op1(g, &t_sum, op1(g, &t_square, op1(g, &t_flat, mf_graph_param(g, w))));
    ck_assert_int_eq(mf_graph_backward(g, loss, 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_OK);
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(w->grad[i], 2 * w->value[i]);
    for (int i = 0; i < g->n_nodes; i++)
        ck_assert_str_ne(g->nodes[i]->op->name, "assign");
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

START_TEST(noise_is_the_same_backward)
{
    bench b = setup(1);
    mf_tensor *y = op1(b.g, &t_noise, b.t[0]);
    mf_graph_keep(y);
    finish(&b, op1(b.g, &t_sum, y));
    run(&b);
    for (int j = 0; j < N; j++)
        ck_assert_float_eq(b.w[0]->grad[j] * b.w[0]->value[j], ((float *)mf_tensor_data(y))[j]);
    teardown(&b);
}
END_TEST

START_TEST(seeds_weigh_outputs_of_any_shape)
{
    bench b = setup(2);
    mf_tensor *out[2] = {op1(b.g, &t_square, b.t[0]), op2(b.g, &t_mul, b.t[0], b.t[1])};
    mf_tensor *seed[2] = {b.x, mf_graph_const(b.g, MF_F32, mf_shape1(N), (float[N]){1})};
    ck_assert_int_eq(mf_graph_backward_from(b.g, 2, out, seed, 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(b.g), MF_OK);
    run(&b);
    ASSERT_GRAD(b.w[0], 2 * w * x + (j == 0 ? b.w[1]->value[0] : 0));
    ASSERT_GRAD(b.w[1], j == 0 ? b.w[0]->value[0] : 0);
    teardown(&b);
}
END_TEST

START_TEST(a_loss_that_is_a_parameter)
{
    mf_store *s = mf_store_new();
    mf_param *w;
    mf_store_declare(s, "w", mf_shape0(), (mf_init){0}, false, &w);
    mf_store_seal(s, 1, true);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    mf_tensor *loss = mf_graph_param(g, w);
    ck_assert_int_eq(mf_graph_backward(g, loss, 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_OK);
    ck_assert_float_eq(w->grad[0], 1);
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

/* ---- storage ---- */

/* z = table[ids] table^T, loss = sum z: d table[v] = sum_i y_i + count(v) sum_u table[u]. */
START_TEST(rows_of_a_tied_table_are_added_where_its_gradient_lies)
{
    enum { V = 6, D = 3, M = 4 };
    static const int32_t ids[M] = {1, 4, 1, 0}, times[V] = {1, 2, 0, 0, 1, 0};
    bench b = {.store = mf_store_new()};
    mf_store_declare(b.store, "table", mf_shape2(V, D), (mf_init){0}, false, &b.w[0]);
    mf_store_seal(b.store, 1, true);
    b.g = mf_graph_new(&(mf_graph_options){.training = true});
    for (int i = 0; i < V * D; i++)
        b.w[0]->value[i] = (float)(i % 7) - 2;
    mf_tensor *table = mf_graph_param(b.g, b.w[0]), *y, *z;
    mf_tensor *look[2] = {table, mf_graph_const(b.g, MF_I32, mf_shape1(M), ids)};
    y = mf_graph_op_named(b.g, "embedding", 2, look, NULL, 1, NULL);
    mf_tensor *head[3] = {y, table, NULL};
    z = mf_graph_op_named(b.g, "linear", 3, head, NULL, 1, NULL);
    finish(&b, op1(b.g, &t_sum, z));
    ck_assert_int_eq(count_ops(&b, "embedding_accumulate"), 1);
    ck_assert_int_eq(count_ops(&b, "embedding"), 1);
    for (int i = 0; i < V * D; i++)
        b.w[0]->grad[i] = 99; /* earlier content is ignored */
    run(&b);
    for (int v = 0; v < V; v++)
        for (int j = 0; j < D; j++) {
            float want = 0, *value = b.w[0]->value;
            for (int i = 0; i < M; i++)
                want += value[ids[i] * D + j];
            for (int u = 0; u < V; u++)
                want += (float)times[v] * value[u * D + j];
            ck_assert_float_eq(b.w[0]->grad[v * D + j], want);
        }
    teardown(&b);
}
END_TEST

START_TEST(what_the_loss_does_not_depend_on_gets_zeros)
{
    bench b = setup(3);
    mf_tensor *off = op1(b.g, &t_stop, op1(b.g, &t_square, b.t[1]));
    finish(&b, op1(b.g, &t_sum, op2(b.g, &t_mul, off, b.t[0])));
    for (int i = 0; i < 3; i++)
        b.w[i]->grad[2] = 7;
    run(&b);
    ASSERT_GRAD(b.w[0], b.w[1]->value[j] * b.w[1]->value[j]);
    ASSERT_GRAD(b.w[1], 0);
    ASSERT_GRAD(b.w[2], 0);
    teardown(&b);
}
END_TEST

START_TEST(frozen_parameters_and_buffers_get_none)
{
    mf_store *s = mf_store_new();
    mf_param *w, *frozen, *buffer;
    mf_store_declare(s, "w", mf_shape1(N), (mf_init){0}, false, &w);
    mf_store_declare(s, "frozen", mf_shape1(N), (mf_init){.flags = MF_PARAM_FROZEN}, false,
                     &frozen);
    mf_store_declare(s, "buffer", mf_shape1(N), (mf_init){0}, true, &buffer);
    mf_store_seal(s, 1, true);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    mf_tensor *h = op2(g, &t_mul, mf_graph_param(g, w), mf_graph_param(g, frozen));
    /* no gradient may pass this op */
    mf_tensor *only_frozen = op1(g, &t_rough, mf_graph_param(g, frozen));
    mf_tensor *loss =
        op1(g, &t_sum, plus(g, op2(g, &t_mul, h, mf_graph_param(g, buffer)), only_frozen));
    ck_assert_int_eq(mf_graph_backward(g, loss, 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    frozen->grad[0] = 7;
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_OK);
    ck_assert_float_eq(frozen->grad[0], 7);
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

START_TEST(a_store_without_training_leaves_the_gradient_as_a_value)
{
    bench b = setup_with(1, (mf_graph_options){.training = true}, false);
    finish(&b, op1(b.g, &t_sum, op2(b.g, &t_mul, b.x, b.t[0])));
    run(&b);
    ck_assert_mem_eq(mf_tensor_data(b.t[0]->grad), b.x->data, N * sizeof(float));
    teardown(&b);
}
END_TEST

START_TEST(forward_only_leaves_gradients_alone)
{
    bench b = setup(1);
    mf_tensor *loss = op1(b.g, &t_sum, op2(b.g, &t_mul, b.x, b.t[0]));
    finish(&b, loss);
    b.w[0]->grad[0] = 7;
    ck_assert_int_eq(mf_graph_run(b.g, &(mf_run){.forward_only = true}), MF_OK);
    ck_assert_float_eq(b.w[0]->grad[0], 7);
    ck_assert_float_eq(*(float *)mf_tensor_data(loss), 1 + 4 + 9 + 16 + 25);
    run(&b);
    ASSERT_GRAD(b.w[0], x);
    teardown(&b);
}
END_TEST

/* ---- inputs ---- */

START_TEST(inputs_get_gradients_when_asked_for)
{
    mf_graph *g = mf_graph_new(NULL); /* this is not a training graph */
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(N)), *unused, *both[2];
    unused = mf_graph_input(g, "unused", MF_F32, mf_shape1(2));
    mf_graph_want_grad(x);
    mf_graph_want_grad(unused);
    both[0] = x;
    both[1] = unused;
    mf_tensor *loss = op1(g, &t_sum, op1(g, &t_square, x));
    ck_assert_int_eq(mf_graph_backward(g, loss, 2, both), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    for (int j = 0; j < N; j++)
        ((float *)x->data)[j] = (float)j;
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_OK);
    for (int j = 0; j < N; j++)
        ck_assert_float_eq(((float *)mf_tensor_data(x->grad))[j], 2 * (float)j);
    ck_assert_float_eq(((float *)mf_tensor_data(unused->grad))[1], 0);
    mf_graph_free(g);
}
END_TEST

START_TEST(a_gradient_asked_for_too_late_is_refused)
{
    bench b = setup(1);
    mf_tensor *loss = op1(b.g, &t_sum, op2(b.g, &t_mul, b.x, b.t[0]));
    ck_assert_int_eq(mf_graph_backward(b.g, loss, 1, &b.x), MF_EINVAL);
    ASSERT_SAYS("gradient of x");
    teardown(&b);
}
END_TEST

/* ---- refusals ---- */

START_TEST(an_op_without_a_rule_is_refused_where_one_is_needed)
{
    bench b = setup(1);
    mf_graph_push(b.g, "layers.3.router mine");
    ck_assert_ptr_null(op1(b.g, &t_rough, b.t[0]));
    ck_assert_int_eq(mf_graph_status(b.g), MF_ENOGRAD);
    ASSERT_SAYS("t_rough (layers.3.router mine): a gradient must pass through input 0");
    teardown(&b);

    b = setup(1); /* Ops without a rule are allowed where no gradient must pass: at an input,
                   * after t_stop, for metrics. */
    ck_assert_ptr_nonnull(op1(b.g, &t_rough, b.x));
    ck_assert_ptr_nonnull(op1(b.g, &t_rough, op1(b.g, &t_stop, b.t[0])));
    mf_graph_metrics(b.g, true);
    ck_assert_ptr_nonnull(op1(b.g, &t_rough, b.t[0]));
    teardown(&b);

    b = setup_with(1, (mf_graph_options){.training = false}, true);
    ck_assert_ptr_nonnull(op1(b.g, &t_rough, b.t[0]));
    teardown(&b);
}
END_TEST

START_TEST(a_loss_must_be_one_number)
{
    bench b = setup(1);
    ck_assert_int_eq(mf_graph_backward(b.g, op1(b.g, &t_square, b.t[0]), 0, NULL), MF_ESHAPE);
    ASSERT_SAYS("expected a single f32 number, found f32 [5]");
    teardown(&b);

    b = setup(1);
    ck_assert_int_eq(mf_graph_backward(b.g, NULL, 0, NULL), MF_ESHAPE);
    teardown(&b);

    b = setup(1);
    mf_tensor *loss = op1(b.g, &t_sum, b.t[0]);
    ck_assert_int_eq(mf_graph_backward(b.g, loss, 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_backward(b.g, loss, 0, NULL), MF_EINVAL);
    ASSERT_SAYS("gradients already");
    teardown(&b);
}
END_TEST

static int from(bench *b, mf_tensor *out, mf_tensor *seed)
{
    return mf_graph_backward_from(b->g, 1, &out, &seed, 0, NULL);
}

START_TEST(seeds_must_fit_their_outputs)
{
    const float values[N] = {0};
    bench b = setup(1);
    ck_assert_int_eq(from(&b, NULL, b.x), MF_EINVAL);
    ASSERT_SAYS("output 0 is missing");
    teardown(&b);

    b = setup(1);
    mf_tensor *out = op1(b.g, &t_square, b.t[0]);
    ck_assert_int_eq(from(&b, out, NULL), MF_EINVAL);
    ck_assert_int_eq(from(&b, out, out), MF_EINVAL); /* a failed graph stays failed */
    ASSERT_SAYS("output 0 is missing");
    teardown(&b);

    b = setup(1);
    out = op1(b.g, &t_square, b.t[0]);
    ck_assert_int_eq(from(&b, out, mf_graph_const(b.g, MF_F32, mf_shape1(N - 1), values)),
                     MF_ESHAPE);
    ASSERT_SAYS("seed 0: expected f32 [5], found f32 [4]");
    teardown(&b);

    b = setup(1);
    out = op1(b.g, &t_square, b.t[0]);
    ck_assert_int_eq(from(&b, out, mf_graph_input(b.g, "ids", MF_I32, mf_shape1(N))),
                     MF_ESHAPE);
    ASSERT_SAYS("expected f32 [5], found i32 [5]");
    teardown(&b);
    ck_assert_int_ne(mf_graph_backward(NULL, NULL, 0, NULL), MF_OK);
}
END_TEST

START_TEST(a_loss_of_another_type_and_a_finished_graph_are_refused)
{
    bench b = setup(1);
    mf_tensor *count = mf_graph_input(b.g, "count", MF_I32, mf_shape0());
    ck_assert_int_eq(mf_graph_backward(b.g, count, 0, NULL), MF_ESHAPE);
    ASSERT_SAYS("expected a single f32 number, found i32");
    teardown(&b);

    b = setup_with(1, (mf_graph_options){.training = false}, true);
    mf_tensor *loss = op1(b.g, &t_sum, b.t[0]), *nothing = NULL;
    ck_assert_int_eq(mf_graph_finish(b.g), MF_OK);
    ck_assert_int_eq(mf_graph_backward_from(b.g, 1, &loss, &loss, 0, NULL), MF_EINVAL);
    ASSERT_SAYS("the graph is finished");
    teardown(&b);

    b = setup(1);
    loss = op1(b.g, &t_sum, op2(b.g, &t_mul, b.x, b.t[0]));
    ck_assert_int_eq(mf_graph_backward(b.g, loss, 1, &nothing), MF_EINVAL);
    ASSERT_SAYS("the gradient of a value is wanted");
    teardown(&b);
}
END_TEST

static int grad_of_wrong_shape(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = op1(g, &t_sum, at->dout[0]);
    return mf_graph_status(g);
}

static int grad_that_fails(mf_graph *g, const mf_gradient *at)
{
    (void)g, (void)at;
    return MF_EPLUGIN;
}

/* Changes the rounding mode. It is restored afterwards, because all later numbers depend
 * on it. */
static int grad_that_rounds(mf_graph *g, const mf_gradient *at)
{
    fesetround(FE_UPWARD);
    at->din[0] = op1(g, &t_tanh, at->dout[0]);
    return mf_graph_status(g);
}

START_TEST(a_gradient_rule_is_judged)
{
    static const mf_opdef bad[] = {
        {.size = sizeof(mf_opdef),
         .name = "t_bad",
         .infer = t_same,
         .forward = t_square_forward,
         .diff_in = 1,
         .grad = grad_of_wrong_shape},
        {.size = sizeof(mf_opdef),
         .name = "t_bad",
         .infer = t_same,
         .forward = t_square_forward,
         .diff_in = 1,
         .grad = grad_that_fails},
        {.size = sizeof(mf_opdef),
         .name = "t_bad",
         .infer = t_same,
         .forward = t_square_forward,
         .diff_in = 1,
         .grad = grad_that_rounds},
    };
    static const char *const told[] = {"gives f32 scalar for input 0, expected f32 [5]",
                                       "its gradient rule failed",
                                       "changes the rounding mode for all that is computed "
                                       "after it: expected floating-point control"};
    for (int i = 0; i < 3; i++) {
        bench b = setup(1);
        mf_graph_push(b.g, "layers.0");
        mf_tensor *loss = op1(b.g, &t_sum, op1(b.g, &bad[i], b.t[0]));
        ck_assert_int_eq(mf_graph_backward(b.g, loss, 0, NULL), MF_EPLUGIN);
        ASSERT_SAYS("t_bad (layers.0): ");
        ASSERT_SAYS(told[i]);
        ck_assert_int_eq(fegetround(), FE_TONEAREST);
        teardown(&b);
    }
}
END_TEST

START_TEST(a_rule_must_not_read_overwritten_state)
{
    bench b = setup(1);
    mf_tensor *h = op2(b.g, &t_mul, b.t[0], b.x); /* the gradient of this op reads x */
    mf_tensor *loss = op1(b.g, &t_sum, h);
    op2(b.g, &t_count, b.x, b.t[0]);
    ck_assert_int_eq(mf_graph_backward(b.g, loss, 0, NULL), MF_EINVAL);
    ASSERT_SAYS("its gradient reads x, which a later op has overwritten");
    teardown(&b);
}
END_TEST

START_TEST(what_is_not_finite_is_traced_in_gradients_too)
{
    bench b = setup(1);
    mf_graph_push(b.g, "layers.7");
    mf_tensor *loss = op1(b.g, &t_sum, op2(b.g, &t_mul, b.x, op1(b.g, &t_square, b.t[0])));
    finish(&b, loss);
    for (int j = 0; j < N; j++) {
        ((float *)b.x->data)[j] = 3e38f;
        b.w[0]->value[j] = 1e-3f;
    }
    ck_assert_int_eq(mf_graph_run(b.g, &(mf_run){.check_finite = true}), MF_ENONFINITE);
    ASSERT_SAYS(
        "t_twice (grad of layers.7): output 0 [5] is Inf at index 0; its inputs are finite");
    teardown(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("backward");
    TCase *t = tcase_create("backward");
    tcase_add_test(t, fused_and_composed_rules_give_the_gradient);
    tcase_add_test(t, uses_of_a_parameter_are_summed);
    tcase_add_test(t, two_parameters_with_one_gradient_both_get_it);
    tcase_add_test(t, an_output_that_is_not_used_counts_as_zero);
    tcase_add_test(t, gradients_pass_through_other_shapes_and_scratch);
    tcase_add_test(t, a_parameter_in_another_shape_gets_its_gradient_without_a_copy);
    tcase_add_test(t, noise_is_the_same_backward);
    tcase_add_test(t, seeds_weigh_outputs_of_any_shape);
    tcase_add_test(t, a_loss_that_is_a_parameter);
    tcase_add_test(t, rows_of_a_tied_table_are_added_where_its_gradient_lies);
    tcase_add_test(t, what_the_loss_does_not_depend_on_gets_zeros);
    tcase_add_test(t, frozen_parameters_and_buffers_get_none);
    tcase_add_test(t, a_store_without_training_leaves_the_gradient_as_a_value);
    tcase_add_test(t, forward_only_leaves_gradients_alone);
    tcase_add_test(t, inputs_get_gradients_when_asked_for);
    tcase_add_test(t, a_gradient_asked_for_too_late_is_refused);
    tcase_add_test(t, an_op_without_a_rule_is_refused_where_one_is_needed);
    tcase_add_test(t, a_loss_must_be_one_number);
    tcase_add_test(t, seeds_must_fit_their_outputs);
    tcase_add_test(t, a_loss_of_another_type_and_a_finished_graph_are_refused);
    tcase_add_test(t, a_gradient_rule_is_judged);
    tcase_add_test(t, a_rule_must_not_read_overwritten_state);
    tcase_add_test(t, what_is_not_finite_is_traced_in_gradients_too);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
