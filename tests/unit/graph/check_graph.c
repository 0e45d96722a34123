/* graph: building, and errors during building. After an error every further call must have
 * no effect. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "graph_ops.h"
#include "ops/ops.h"

#include <stdio.h>

static bool says(const char *part)
{
    return strstr(mf_error_message(), part) != NULL;
}

#define ASSERT_SAYS(part) ck_assert_msg(says(part), "message: %s", mf_error_message())

static mf_graph *new_graph(bool training)
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = training});
    ck_assert_ptr_nonnull(g);
    return g;
}

/* A sealed store with one parameter of each shape, for training. */
static mf_store *store_of(int n, const mf_shape *shapes, mf_param **ret)
{
    char name[16];
    mf_store *s = mf_store_new();
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "w%d", i);
        ck_assert_int_eq(mf_store_declare(s, name, shapes[i],
                                          (mf_init){.kind = MF_INIT_NORMAL, .a = 1}, false,
                                          &ret[i]),
                         MF_OK);
    }
    ck_assert_int_eq(mf_store_seal(s, 3, true), MF_OK);
    return s;
}

/* ---- failures ---- */

START_TEST(a_shape_error_names_op_scope_and_both_shapes)
{
    mf_param *w;
    mf_store *s = store_of(1, (mf_shape[]){mf_shape2(8, 32)}, &w);
    mf_graph *g = new_graph(false);
    mf_graph_push(g, "layers.%d", 0);
    mf_graph_push(g, "router %s", "hash");
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(4, 64));
    ck_assert_ptr_null(mf_linear(g, x, mf_graph_param(g, w), NULL));
    ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
    ck_assert_str_eq(mf_error_message(),
                     "linear (layers.0.router hash): expected w [out,in] with "
                     "in = 64, found [8,32]");
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

START_TEST(the_first_failure_is_kept_and_nothing_is_built_after_it)
{
    mf_graph *g = new_graph(false);
    mf_tensor *a = mf_graph_input(g, "a", MF_F32, mf_shape1(3)), *out[2] = {a, a};
    mf_tensor *b = mf_graph_input(g, "b", MF_F32, mf_shape2(3, 1));
    ck_assert_ptr_null(op2(g, &t_mul, a, b));
    ck_assert_ptr_null(mf_graph_op(g, &t_two, 2, (mf_tensor *[]){a, a}, NULL, 2, out));
    ck_assert_ptr_null(out[0]);
    ck_assert_ptr_null(out[1]);
    ck_assert_ptr_null(mf_graph_op_named(g, "nonsense", 0, NULL, NULL, 0, NULL));
    ck_assert_ptr_null(mf_graph_input(g, "c", MF_F32, mf_shape1(3)));
    ck_assert_ptr_null(op1(g, &t_tanh, NULL));
    mf_graph_keep(NULL);
    mf_fail(MF_EIO, "something else");
    ck_assert_int_eq(mf_graph_fail(g, MF_ECONFIG, "later"), MF_ESHAPE);
    ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
    ck_assert_str_eq(mf_error_message(),
                     "t_mul: expected inputs of one shape, found rank 1 and "
                     "rank 2");
    mf_error_clear();
    ck_assert_int_eq(mf_graph_finish(g), MF_ESHAPE);
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_ESHAPE);
    ASSERT_SAYS("t_mul");
    mf_graph_free(g);
}
END_TEST

START_TEST(an_unknown_op_is_told_with_the_nearest)
{
    mf_graph *g = new_graph(false);
    mf_graph_push(g, "head");
    mf_tensor *out[2] = {mf_graph_input(g, "x", MF_F32, mf_shape1(3))};
    ck_assert_ptr_null(mf_graph_op_named(g, "liner", 0, NULL, NULL, 2, out));
    ck_assert_ptr_null(out[0]);
    ck_assert_int_eq(mf_graph_status(g), MF_EPLUGIN);
    ASSERT_SAYS("liner (head): ");
    ASSERT_SAYS("did you mean linear?");
    mf_graph_free(g);
}
END_TEST

START_TEST(a_builder_fails_with_its_scope)
{
    mf_graph *g = new_graph(false);
    mf_graph_push(g, "layers.1");
    /* the second name begins with the first name, so the message does not repeat it */
    mf_graph_push(g, "layers.1.router mine");
    ck_assert_int_eq(mf_graph_fail(g, MF_EPLUGIN, "sets %s", "nothing"), MF_EPLUGIN);
    ck_assert_str_eq(mf_error_message(), "layers.1.router mine: sets nothing");
    mf_graph_free(g);

    g = new_graph(false);
    mf_graph_push(g, "a");
    mf_graph_pop(g);
    mf_graph_pop(g); /* an additional pop has no effect */
    mf_graph_fail(g, MF_EPLUGIN, "bare");
    ck_assert_str_eq(mf_error_message(), "bare");
    mf_graph_free(g);
}
END_TEST

static int infer_nothing(mf_infer *in)
{
    (void)in;
    return MF_OK;
}

static int infer_huge(mf_infer *in)
{
    in->n_out = 1;
    in->out[0].dtype = MF_F32;
    in->out[0].shape = mf_shape2(INT64_MAX / 2, 3);
    return MF_OK;
}

static int infer_reserved(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    in->out[0].reserved = 9;
    return MF_OK;
}

static int infer_reserved_shape(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    in->out[0].shape.reserved = 9;
    return MF_OK;
}

static int infer_hungry(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    in->backward_work_bytes = (size_t)MF_MAX_BYTES + 1;
    return MF_OK;
}

static int infer_silent(mf_infer *in)
{
    (void)in;
    return MF_ESHAPE;
}

START_TEST(what_infer_says_is_judged)
{
#define BAD(text, function, more)                                                              \
    {                                                                                          \
        .size = sizeof(mf_opdef), .name = text, .infer = function,                             \
        .forward = t_square_forward, .flags = (more)                                           \
    }
    static const mf_opdef bad[] = {
        BAD("none", infer_nothing, 0),         BAD("huge", infer_huge, 0),
        BAD("silent", infer_silent, 0),        BAD("alias", t_scalar, MF_OP_ALIAS),
        BAD("state", t_scalar, MF_OP_STATE),   BAD("view", infer_reserved, 0),
        BAD("shape", infer_reserved_shape, 0), BAD("hungry", infer_hungry, 0),
    };
#undef BAD
    static const char *const told[] = {"1 to 4 outputs",
                                       "cannot be f32",
                                       "without a reason",
                                       "input 0's memory",
                                       "input 0's memory",
                                       "expected 0, found 9 and 0",
                                       "expected 0, found 0 and 9",
                                       "bytes of scratch memory: expected at most"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mf_graph *g = new_graph(false);
        ck_assert_ptr_null(op1(g, &bad[i], mf_graph_input(g, "x", MF_F32, mf_shape1(3))));
        ck_assert_int_ne(mf_graph_status(g), MF_OK);
        ASSERT_SAYS(bad[i].name);
        ASSERT_SAYS(told[i]);
        mf_graph_free(g);
    }
}
END_TEST

START_TEST(an_op_that_is_not_one_is_refused)
{
    static const mf_opdef bad[] = {
        {.size = 8, .name = "t", .infer = t_same, .forward = t_square_forward},
        {.size = sizeof(mf_opdef), .infer = t_same, .forward = t_square_forward},
        {.size = sizeof(mf_opdef), .name = "t", .forward = t_square_forward},
        {.size = sizeof(mf_opdef), .name = "t", .infer = t_same},
    };
    static const char *const told[] = {"has 8 bytes", "no name", "no infer", "no forward",
                                       "NULL"};
    for (size_t i = 0; i < 5; i++) {
        mf_graph *g = new_graph(false);
        mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
        mf_graph_push(g, "layers.0.router mine");
        ck_assert_ptr_null(op1(g, i < 4 ? &bad[i] : NULL, x));
        ck_assert_int_eq(mf_graph_status(g), MF_EPLUGIN);
        ASSERT_SAYS("layers.0.router mine");
        ASSERT_SAYS(told[i]);
        mf_graph_free(g);
    }
}
END_TEST

START_TEST(inputs_of_another_graph_and_too_many_are_refused)
{
    mf_graph *g = new_graph(false), *other = new_graph(false);
    mf_tensor *x = mf_graph_input(other, "x", MF_F32, mf_shape1(3)), *in[9];
    ck_assert_ptr_null(op1(g, &t_tanh, x));
    ck_assert_int_eq(mf_graph_status(g), MF_EINVAL);
    ASSERT_SAYS("another graph");
    for (int i = 0; i < 9; i++)
        in[i] = x;
    ck_assert_ptr_null(mf_graph_op(other, &t_tanh, 9, in, NULL, 1, NULL));
    ASSERT_SAYS("0 to 8 inputs");
    mf_graph_free(g);
    mf_graph_free(other);

    g = new_graph(false);
    x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
    ck_assert_ptr_null(mf_graph_op(g, &t_tanh, 1, &x, NULL, 2, in));
    ck_assert_ptr_null(in[0]);
    ck_assert_int_eq(mf_graph_status(g), MF_EINVAL);
    ck_assert_str_eq(mf_error_message(),
                     "t_tanh: expected at most 1 outputs to be asked for, found 2");
    mf_graph_free(g);
}
END_TEST

START_TEST(a_leaf_of_an_impossible_shape_is_refused)
{
    mf_graph *g = new_graph(false);
    ck_assert_ptr_null(mf_graph_input(g, "tokens", MF_I32, mf_shape2(-1, 3)));
    ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
    ASSERT_SAYS("tokens");
    ASSERT_SAYS("[-1,3]");
    mf_graph_free(g);

    g = new_graph(false);
    ck_assert_ptr_null(mf_graph_input(g, "tall", MF_F32, (mf_shape){.rank = MF_MAX_RANK + 1}));
    ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
    ASSERT_SAYS("tall: a value cannot be f32 a shape of too many dimensions");
    mf_graph_free(g);

    g = new_graph(false);
    mf_shape odd = mf_shape1(3);
    odd.reserved = 7;
    ck_assert_ptr_null(mf_graph_const(g, MF_F32, odd, NULL));
    ck_assert_int_eq(mf_graph_status(g), MF_ESHAPE);
    ASSERT_SAYS("constant: reserved of its shape: expected 0, found 7");
    mf_graph_free(g);
}
END_TEST

START_TEST(a_finished_graph_is_closed)
{
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(2));
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_EINVAL);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_ptr_null(op1(g, &t_tanh, x));
    ck_assert_int_eq(mf_graph_status(g), MF_EINVAL);
    mf_graph_free(g);
    g = new_graph(false);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_ptr_null(mf_graph_input(g, "late", MF_F32, mf_shape1(2)));
    ck_assert_int_eq(mf_graph_status(g), MF_EINVAL);
    ASSERT_SAYS("the graph is finished: nothing can be added");
    mf_graph_free(g);
    mf_graph_free(NULL);
    ck_assert_int_eq(mf_graph_status(NULL), MF_ENOMEM);
    ck_assert_int_eq(mf_graph_fetch(NULL, 0), MF_EINVAL);
    ck_assert_int_eq(mf_graph_collect(NULL, 0), MF_EINVAL);
}
END_TEST

START_TEST(an_unsealed_parameter_is_refused)
{
    mf_store *s = mf_store_new();
    mf_param *p;
    mf_store_declare(s, "early", mf_shape1(2), (mf_init){0}, false, &p);
    mf_graph *g = new_graph(false);
    ck_assert_ptr_null(mf_graph_param(g, p));
    ASSERT_SAYS("early");
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

/* A plugin asks for shape and type of a value, also for NULL from a failed graph. */
START_TEST(values_have_shapes_and_types)
{
    mf_graph *g = new_graph(true);
    const mf_tensor *ids = mf_graph_input(g, "ids", MF_I32, mf_shape2(3, 4));
    const mf_host *host = &mf_core_graph_host;
    ck_assert_int_eq(host->dtype(ids), MF_I32);
    ck_assert_int_eq(host->dtype(NULL), MF_F32);
    ck_assert(mf_shape_equal(host->shape(ids), mf_shape2(3, 4)));
    ck_assert_int_eq(host->shape(NULL).rank, 0);
    mf_graph_free(g);
}
END_TEST

START_TEST(the_op_table_is_sorted_and_complete)
{
    int n = 0;
    const char *const *names = mf_op_names();
    for (; names[n]; n++) {
        const mf_opdef *op = mf_op_at(n);
        ck_assert_ptr_nonnull(op);
        ck_assert_str_eq(op->name, names[n]);
        ck_assert_ptr_eq(mf_op_find(names[n]), op);
        ck_assert_uint_eq(op->size, sizeof *op);
        ck_assert_ptr_nonnull(op->infer);
        ck_assert(op->forward || (op->flags & MF_OP_ALIAS));
        ck_assert_ptr_nonnull(op->formula);
        if (n > 0) ck_assert_int_lt(strcmp(names[n - 1], names[n]), 0);
    }
    ck_assert_ptr_null(mf_op_at(n));
    ck_assert_ptr_null(mf_op_at(-1));
    ck_assert_ptr_null(mf_op_find(""));
    ck_assert_ptr_null(mf_op_find("linearly"));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("graph");
    TCase *t = tcase_create("graph");
    tcase_add_test(t, a_shape_error_names_op_scope_and_both_shapes);
    tcase_add_test(t, the_first_failure_is_kept_and_nothing_is_built_after_it);
    tcase_add_test(t, an_unknown_op_is_told_with_the_nearest);
    tcase_add_test(t, a_builder_fails_with_its_scope);
    tcase_add_test(t, what_infer_says_is_judged);
    tcase_add_test(t, an_op_that_is_not_one_is_refused);
    tcase_add_test(t, inputs_of_another_graph_and_too_many_are_refused);
    tcase_add_test(t, a_leaf_of_an_impossible_shape_is_refused);
    tcase_add_test(t, a_finished_graph_is_closed);
    tcase_add_test(t, an_unsealed_parameter_is_refused);
    tcase_add_test(t, values_have_shapes_and_types);
    tcase_add_test(t, the_op_table_is_sorted_and_complete);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
