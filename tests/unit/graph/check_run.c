/* run: what a finished graph computes, skips, keeps, traces and prints. After a failed run the
 * graph must still be usable. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "graph_ops.h"
#include "lab/dot.h"
#include "ops/ops.h"

#include <float.h>
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

static void fill(mf_tensor *t, float first, float step)
{
    float *x = mf_tensor_data(t);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < mf_shape_count(t->shape); i++)
        x[i] = first + step * (float)i;
}

static float at(mf_tensor *t, int i)
{
    const float *x = mf_tensor_data(t);
    ck_assert_ptr_nonnull(x);
    return x[i];
}

static void run(mf_graph *g, mf_run r)
{
    int code = mf_graph_run(g, &r);
    ck_assert_msg(code == MF_OK, "%s", mf_error_message());
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

/* ---- leaves and runs ---- */

START_TEST(a_run_computes_what_was_built)
{
    mf_param *w;
    mf_store *s = store_of(1, (mf_shape[]){mf_shape1(3)}, &w);
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
    mf_tensor *c = mf_graph_const(g, MF_F32, mf_shape1(3), (float[]){1, 2, 3});
    mf_tensor *zeros = mf_graph_const(g, MF_F32, mf_shape1(3), NULL);
    mf_tensor *p = mf_graph_param(g, w), *out[2];
    ck_assert_ptr_eq(mf_graph_param(g, w), p);
    mf_graph_op(g, &t_two, 2, (mf_tensor *[]){op2(g, &t_mul, x, c), zeros}, NULL, 2, out);
    mf_tensor *y = op2(g, &t_mul, out[1], p);
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    for (int round = 0; round < 3; round++) {
        fill(x, (float)round, 1);
        run(g, (mf_run){0});
        for (int i = 0; i < 3; i++)
            ck_assert_float_eq(at(y, i), (float)(round + i) * (float)(i + 1) * w->value[i]);
    }
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

START_TEST(a_live_scalar_follows_its_double)
{
    double temperature = 0.5;
    mf_graph *g = new_graph(false);
    mf_tensor *live = mf_graph_live(g, &temperature, "temperature");
    mf_tensor *y = op2(g, &t_mul, live, mf_graph_const(g, MF_F32, mf_shape0(), &(float){4}));
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    run(g, (mf_run){0});
    ck_assert_float_eq(at(y, 0), 2);
    temperature = 3;
    run(g, (mf_run){0});
    ck_assert_float_eq(at(y, 0), 12);
    mf_graph_free(g);
}
END_TEST

static int calls_of_spy;

static int spy_forward(const mf_call *c)
{
    calls_of_spy++;
    return t_tanh_forward(c);
}

static const mf_opdef spy = {
    .size = sizeof spy, .name = "spy", .infer = t_same, .forward = spy_forward};

START_TEST(dead_nodes_do_not_run)
{
    mf_graph_info info;
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
    mf_tensor *unread = op1(g, &spy, op1(g, &spy, x));
    mf_tensor *kept = op1(g, &spy, x);
    mf_graph_keep(kept);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    calls_of_spy = 0;
    run(g, (mf_run){0});
    ck_assert_int_eq(calls_of_spy, 1);
    ck_assert_ptr_null(mf_tensor_data(unread));
    mf_graph_get_info(g, &info);
    ck_assert_int_eq(info.nodes, 3);
    ck_assert_int_eq(info.dead, 2);
    mf_graph_free(g);
}
END_TEST

START_TEST(metric_nodes_run_only_when_wanted)
{
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
    mf_tensor *h = op1(g, &t_tanh, x);
    mf_graph_metrics(g, true);
    mf_tensor *m = op1(g, &t_sum, op1(g, &spy, h));
    mf_graph_keep(m);
    mf_graph_metrics(g, false);
    mf_tensor *y = h;
    for (int i = 0; i < 4; i++)
        y = op1(g, &t_tanh, y); /* works in place, in memory that the metric reads */
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);

    fill(x, 1, 1);
    calls_of_spy = 0;
    run(g, (mf_run){.metrics = true});
    ck_assert_int_eq(calls_of_spy, 1);
    float metric = at(m, 0), value = at(y, 0);
    ck_assert_float_eq_tol(metric, tanhf(tanhf(1)) + tanhf(tanhf(2)) + tanhf(tanhf(3)), 1e-6f);
    run(g, (mf_run){0});
    ck_assert_int_eq(calls_of_spy, 1);
    ck_assert_float_eq(at(y, 0), value);
    ck_assert_float_eq(at(m, 0), metric); /* the value of the last run that computed metrics */
    mf_graph_free(g);
}
END_TEST

START_TEST(nothing_else_may_read_a_metric)
{
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
    mf_graph_metrics(g, true);
    mf_tensor *m = op1(g, &t_tanh, x);
    mf_graph_metrics(g, false);
    mf_graph_push(g, "head");
    ck_assert_ptr_null(op1(g, &t_square, m));
    ck_assert_int_eq(mf_graph_status(g), MF_EINVAL);
    ASSERT_SAYS("t_square (head)");
    ASSERT_SAYS("metrics");
    mf_graph_free(g);
}
END_TEST

/* ---- state ---- */

START_TEST(state_is_written_in_place_and_in_order)
{
    mf_store *s = mf_store_new();
    mf_param *p;
    ck_assert_int_eq(mf_store_declare(s, "count", mf_shape1(2), (mf_init){0}, true, &p), MF_OK);
    ck_assert_int_eq(mf_store_seal(s, 1, false), MF_OK);
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_const(g, MF_F32, mf_shape1(2), (float[]){1, 10});
    mf_tensor *before = op1(g, &t_square, mf_graph_param(g, p));
    mf_tensor *count = op2(g, &t_count, mf_graph_param(g, p), x);
    mf_tensor *after = op1(g, &t_square, count);
    ck_assert_ptr_eq(mf_graph_param(g, p), count); /* the buffer's current value */
    op2(g, &t_count, count, x);                    /* no node reads the result, but the
                                                    * node runs */
    mf_graph_keep(before);
    mf_graph_keep(after);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    run(g, (mf_run){0});
    run(g, (mf_run){0});
    ck_assert_float_eq(p->value[0], 4);
    ck_assert_float_eq(p->value[1], 40);
    ck_assert_float_eq(at(before, 1), 400);
    ck_assert_float_eq(at(after, 1), 900);
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

START_TEST(reading_overwritten_state_is_refused)
{
    mf_graph *g = new_graph(false);
    mf_tensor *cache = mf_graph_input(g, "cache", MF_F32, mf_shape1(2));
    ck_assert_ptr_nonnull(op2(g, &t_count, cache, cache));
    ck_assert_ptr_null(op1(g, &t_tanh, cache));
    ASSERT_SAYS("input 0 (cache) has been overwritten");
    mf_graph_free(g);

    g = new_graph(false);
    mf_tensor *value = op1(g, &t_tanh, mf_graph_input(g, "x", MF_F32, mf_shape1(2)));
    ck_assert_ptr_null(op2(g, &t_count, value, value));
    ASSERT_SAYS("expected a parameter, a buffer or an input");
    mf_graph_free(g);
}
END_TEST

/* ---- randomness ---- */

/* Two random nodes in each of two scopes. out: their values for seed 1, step 2, which step 3
 * must change. */
static void draw(bool training, bool with_others, float out[4][2])
{
    mf_graph *g = new_graph(training);
    mf_tensor *one = mf_graph_const(g, MF_F32, mf_shape1(2), (float[]){1, 1}), *y[4];
    if (with_others) {
        mf_graph_push(g, "another");
        mf_graph_keep(op1(g, &t_noise, one));
        mf_graph_pop(g);
    }
    for (int i = 0; i < 4; i++) {
        mf_graph_push(g, "layers.%d", i % 2);
        if (with_others) {
            op1(g, &t_tanh, one);
            mf_graph_metrics(g, true);
            mf_graph_keep(op1(g, &t_noise, one));
            mf_graph_metrics(g, false);
        }
        y[i] = op1(g, &t_noise, one);
        mf_graph_keep(y[i]);
        mf_graph_pop(g);
    }
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    run(g, (mf_run){.seed = 1, .step = 2});
    for (int i = 0; i < 4; i++)
        memcpy(out[i], mf_tensor_data(y[i]), sizeof out[i]);
    run(g, (mf_run){.seed = 1, .step = 3});
    for (int i = 0; i < 4; i++)
        ck_assert_mem_ne(out[i], mf_tensor_data(y[i]), sizeof out[i]);
    mf_graph_free(g);
}

START_TEST(streams_do_not_depend_on_the_rest_of_the_graph)
{
    float plain[4][2], eval[4][2], others[4][2];
    draw(true, false, plain);
    draw(false, false, eval);
    draw(true, true, others);
    ck_assert_mem_eq(plain, eval, sizeof plain);
    ck_assert_mem_eq(plain, others, sizeof plain);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            ck_assert_mem_ne(plain[i], plain[j], sizeof plain[i]);
}
END_TEST

static int draws_forward(const mf_call *c)
{
    c->exec->rng_normal(c->exec, c->stream, 7, t_n(c), t_out(c, 0));
    return MF_OK;
}

static const mf_opdef t_draws = {.size = sizeof t_draws,
                                 .name = "t_draws",
                                 .flags = MF_OP_RANDOM | MF_OP_NO_GRAD,
                                 .infer = t_same,
                                 .forward = draws_forward};

START_TEST(an_op_draws_the_numbers_of_its_stream)
{
    mf_graph *g = new_graph(false);
    mf_graph_push(g, "mine");
    mf_tensor *y = op1(g, &t_draws, mf_graph_input(g, "x", MF_F32, mf_shape1(5)));
    mf_graph_pop(g);
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    run(g, (mf_run){.seed = 4, .step = 9});
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_float_eq(at(y, (int)i), mf_rng_normal(4, mf_rng_stream("mine#0"), 9, 7 + i));
    mf_graph_free(g);
}
END_TEST

/* ---- reading and writing values ---- */

START_TEST(bytes_outside_of_a_value_are_refused)
{
    float numbers[4] = {1, 2, 3, 4}, back[3];
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3)), *h = op1(g, &t_tanh, x),
              *y = op1(g, &t_square, h);
    mf_graph_keep(y);
    ck_assert_int_eq(mf_tensor_read(y, back, 0, 4), MF_EINVAL);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_int_eq(mf_tensor_write(x, numbers, 0, sizeof back), MF_OK);
    run(g, (mf_run){0});
    ck_assert_int_eq(mf_tensor_read(y, back, 4, 8), MF_OK);
    ck_assert_float_eq_tol(back[1], tanhf(3) * tanhf(3), 1e-6f);
    ck_assert_int_eq(mf_tensor_read(h, back, 0, 4), MF_EINVAL);
    ck_assert_str_eq(mf_error_message(), "a tensor: its values are not kept, or not there yet");
    ck_assert_int_eq(mf_tensor_write(x, numbers, 4, 12), MF_EINVAL);
    ck_assert_str_eq(mf_error_message(), "x: bytes 4 to 16, but it has 12");
    ck_assert_int_eq(mf_tensor_read(x, back, SIZE_MAX, 1), MF_EINVAL);
    ck_assert_int_eq(mf_tensor_read(NULL, back, 0, 1), MF_EINVAL);
    ck_assert_int_eq(mf_tensor_read(x, back, 0, 12), MF_OK);
    ck_assert_mem_eq(back, numbers, sizeof back);
    mf_graph_free(g);
}
END_TEST

/* ---- tracing values that are not finite ---- */

static int log_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = logf(t_in(c, 0)[i]);
    return MF_OK;
}

static const mf_opdef t_log = {
    .size = sizeof t_log, .name = "t_log", .infer = t_same, .forward = log_forward};

START_TEST(what_is_not_finite_is_traced_to_its_op)
{
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(4));
    mf_graph_push(g, "layers.2.router mine");
    mf_tensor *y = op1(g, &t_square, op1(g, &t_log, op1(g, &t_tanh, x)));
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    fill(x, 1, 1);
    run(g, (mf_run){.check_finite = true});
    memcpy(mf_tensor_data(x), (float[]){2, 1, 0, 1}, 4 * sizeof(float));
    run(g, (mf_run){0});
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.check_finite = true}), MF_ENONFINITE);
    ck_assert_str_eq(mf_error_message(),
                     "t_log (layers.2.router mine): output 0 [4] is -Inf at "
                     "index 2; its inputs are finite");
    ((float *)mf_tensor_data(x))[1] = NAN;
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.check_finite = true}), MF_ENONFINITE);
    ck_assert_str_eq(mf_error_message(),
                     "t_tanh (layers.2.router mine): output 0 [4] is NaN at "
                     "index 1; its input 0 (x) is not finite either, first at "
                     "index 1");
    mf_graph_free(g);
}
END_TEST

/* The largest f32 is rounded to infinity in bf16. */
START_TEST(bf16_is_traced_too)
{
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(3));
    mf_graph_keep(mf_cast(g, x, MF_BF16));
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    fill(x, 1, 1);
    run(g, (mf_run){.check_finite = true});
    ((float *)mf_tensor_data(x))[2] = -FLT_MAX;
    ((float *)mf_tensor_data(x))[1] = FLT_MAX;
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.check_finite = true}), MF_ENONFINITE);
    ck_assert_str_eq(mf_error_message(),
                     "cast: output 0 [3] is Inf at index 1; its inputs are finite");
    mf_graph_free(g);
}
END_TEST

/* Masks contain -Inf, so an op may pass -Inf on, or mark a row with it, without an error. */
static int mark_infer(mf_infer *in)
{
    int code = t_same(in);
    in->out[1] = in->out[0];
    in->n_out = 2;
    return code;
}

static int mark_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++) {
        t_out(c, 0)[i] = expf(t_in(c, 0)[i]);
        t_out(c, 1)[i] = -INFINITY;
    }
    return MF_OK;
}

static const mf_opdef t_mark = {
    .size = sizeof t_mark, .name = "t_mark", .infer = mark_infer, .forward = mark_forward};

START_TEST(masks_are_not_blamed)
{
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(2));
    mf_tensor *mask = mf_graph_const(g, MF_F32, mf_shape1(2), (float[]){0, -INFINITY});
    mf_tensor *y = op1(g, &t_mark, plus(g, x, mask));
    mf_graph_keep(y);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    run(g, (mf_run){.check_finite = true});
    ck_assert_float_eq(at(y, 1), 0);
    fill(x, 100, 0); /* the exponential of 100 is infinite in f32 */
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.check_finite = true}), MF_ENONFINITE);
    ASSERT_SAYS(
        "t_mark: output 0 [2] is Inf at index 0; its input 0 is not finite either, first "
        "at index 1");
    mf_graph_free(g);
}
END_TEST

static int refuse_forward(const mf_call *c)
{
    return c->fail(c, MF_EINPUT, "token %d of %d", 9, 8);
}

static int silent_forward(const mf_call *c)
{
    (void)c;
    return MF_EPLUGIN;
}

static const mf_opdef t_refuse = {
    .size = sizeof t_refuse, .name = "t_refuse", .infer = t_same, .forward = refuse_forward};

static const mf_opdef t_silent = {
    .size = sizeof t_silent, .name = "t_silent", .infer = t_same, .forward = silent_forward};

static void assert_run_fails(const mf_opdef *op, int code, const char *message)
{
    mf_graph *g = new_graph(false);
    mf_graph_push(g, "embed");
    mf_graph_keep(op1(g, op, mf_graph_input(g, "x", MF_F32, mf_shape1(1))));
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    for (int i = 0; i < 2; i++) { /* a failed run leaves the graph usable */
        mf_fail(code, "something older");
        ck_assert_int_eq(mf_graph_run(g, NULL), code);
        ck_assert_str_eq(mf_error_message(), message);
    }
    mf_graph_free(g);
}

START_TEST(a_failing_op_ends_the_run_with_its_name)
{
    assert_run_fails(&t_refuse, MF_EINPUT, "t_refuse (embed): token 9 of 8");
    assert_run_fails(&t_silent, MF_EPLUGIN, "t_silent (embed): failed without a reason");
}
END_TEST

/* ---- printed text ---- */

static char *text_of(void (*print)(const mf_graph *g, FILE *out), const mf_graph *g)
{
    static char text[8192];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    print(g, f);
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static void print_dot(const mf_graph *g, FILE *out)
{
    ck_assert_int_eq(mf_graph_dot(g, false, out), MF_OK);
}

START_TEST(a_graph_can_be_drawn_and_timed)
{
    mf_graph *g = new_graph(true);
    mf_tensor *x = mf_graph_input(g, "the \"x\"", MF_F32, mf_shape2(2, 3));
    mf_tensor *odd = mf_graph_input(g,
                                    "a\033b\xc2\x9b"
                                    "c\xe2\x80\xae"
                                    "d",
                                    MF_F32, mf_shape1(1));
    mf_graph_want_grad(x);
    mf_graph_push(g, "layers.0");
    mf_tensor *h = op1(g, &t_tanh, x);
    mf_graph_pop(g);
    mf_tensor *loss = op1(g, &t_sum, h);
    op1(g, &t_sum, odd);
    ck_assert_int_eq(mf_graph_backward(g, loss, 1, &x), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    const char *dot = text_of(print_dot, g);
    ck_assert_ptr_nonnull(strstr(dot, "digraph moefw {"));
    ck_assert_ptr_nonnull(strstr(dot, "label=\"layers.0\""));
    ck_assert_ptr_nonnull(strstr(dot, "n0 -> n1;"));
    ck_assert_ptr_nonnull(strstr(dot, "the \\\"x\\\"\\nf32 [2,3]"));
    ck_assert_ptr_null(strstr(dot, "backward"));
    /* names of ops and inputs may come from plugins and contain ESC, U+009B and U+202E */
    ck_assert_ptr_nonnull(strstr(dot, "label=\"input\\na?b?c?d\\nf32 [1]\""));

    run(g, (mf_run){0});
    mf_graph_profile(g, true);
    run(g, (mf_run){0});
    run(g, (mf_run){0});
    mf_graph_profile(g, false);
    run(g, (mf_run){0});
    const char *table = text_of(mf_graph_profile_print, g),
               *line = strstr(table, "t_tanh backward");
    int calls = 0;
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(sscanf(line, "t_tanh backward %*f %*f%% %d", &calls), 1);
    ck_assert_int_eq(calls, 2);
    mf_graph_profile(g, true); /* resets the counts */
    run(g, (mf_run){0});
    line = strstr(text_of(mf_graph_profile_print, g), "t_tanh backward");
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(sscanf(line, "t_tanh backward %*f %*f%% %d", &calls), 1);
    ck_assert_int_eq(calls, 1);
    mf_graph_free(g);
}
END_TEST

/* Finishes and frees a graph; its operations. */
static double flops_of(mf_graph *g)
{
    mf_graph_info info;
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    return info.flops;
}

START_TEST(gemms_report_their_cost)
{
    mf_param *w;
    mf_store *s = store_of(1, (mf_shape[]){mf_shape2(5, 7)}, &w);
    mf_graph *g = new_graph(false);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape3(2, 3, 7));
    mf_graph_keep(mf_linear(g, x, mf_graph_param(g, w), NULL));
    ck_assert_double_eq(flops_of(g), 2.0 * 6 * 5 * 7);
    mf_store_free(s);
}
END_TEST

/* Query t of 5 sees keys 0 .. 4 - 5 + t + 1 of 7, so 2 x (3 + 4 + 5 + 6 + 7) pairs. */
START_TEST(causal_attention_reports_the_pairs_that_it_sees)
{
    mf_graph *g = new_graph(false);
    mf_tensor *q = mf_graph_input(g, "q", MF_F32, mf_shape2(10, 12)),
              *k = mf_graph_input(g, "k", MF_F32, mf_shape2(14, 12));
    mf_graph_keep(mf_attention(g, q, k, k, NULL, NULL, 2, 3, 3, true, 0.5));
    ck_assert_double_eq(flops_of(g), 4.0 * 4 * 3 * 2 * (3 + 4 + 5 + 6 + 7));
}
END_TEST

/* Each of 6 rows is multiplied by one matrix of [5,7], and again for the matrix's gradient. */
START_TEST(the_gradient_of_grouped_weights_reports_its_cost)
{
    mf_param *w;
    mf_store *s = store_of(1, (mf_shape[]){mf_shape3(2, 5, 7)}, &w);
    mf_graph *g = new_graph(true);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(6, 7)),
              *offset = mf_graph_const(g, MF_I32, mf_shape1(3), (int32_t[]){0, 4, 6});
    mf_tensor *y = mf_grouped_linear(g, x, mf_graph_param(g, w), offset, NULL);
    ck_assert_int_eq(mf_graph_backward(g, op1(g, &t_sum, y), 0, NULL), MF_OK);
    ck_assert_double_eq(flops_of(g), 2 * 2.0 * 6 * 5 * 7);
    mf_store_free(s);
}
END_TEST

/* Each of 6 rows sees the 5 tokens of its sequence, with 3 numbers for each of 4 heads. */
START_TEST(grouped_attention_reports_the_pairs_that_it_sees)
{
    mf_graph *g = new_graph(false);
    mf_tensor *q = mf_graph_input(g, "q", MF_F32, mf_shape2(6, 12)),
              *kv = mf_graph_input(g, "kv", MF_F32, mf_shape2(10, 48)),
              *offset = mf_graph_const(g, MF_I32, mf_shape1(3), (int32_t[]){0, 4, 6}),
              *token = mf_graph_input(g, "token", MF_I32, mf_shape1(6));
    mf_graph_keep(mf_grouped_attention(g, q, kv, offset, token, NULL, 2, 4, false, false, 1));
    ck_assert_double_eq(flops_of(g), 4.0 * 6 * 5 * 4 * 3);
}
END_TEST

/* The gradient of the last layer is written first; both lie side by side. An interval ends
 * before the first number of the next one. */
START_TEST(the_last_write_to_each_interval)
{
    mf_param *w[2];
    int last[3];
    mf_store *s = store_of(2, (mf_shape[]){mf_shape2(16, 16), mf_shape2(16, 16)}, w);
    mf_graph *g = new_graph(true);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(8, 16));
    x = mf_linear(g, x, mf_graph_param(g, w[1]), NULL);
    x = mf_linear(g, op1(g, &t_square, x), mf_graph_param(g, w[0]), NULL);
    ck_assert_int_eq(mf_graph_backward(g, op1(g, &t_sum, x), 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    const int64_t border = (int64_t)(mf_param_offset(w[1], MF_BLOCK_GRADS) / sizeof(float));
    ck_assert_int_eq(mf_param_offset(w[0], MF_BLOCK_GRADS), 0);
    ck_assert_int_eq(border, 256);
    const int64_t at[] = {0, border, border + 255, border + 256};
    mf_graph_last_writes(g, s, 3, at, last);
    ck_assert_int_ge(last[0], 0);
    ck_assert_int_lt(last[0], last[1]);
    ck_assert_int_eq(last[1], last[2]);
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

/* A profile counts operations that are repeated, so that its rates are those of the machine;
 * the graph's number is that of the model. */
START_TEST(a_profile_counts_what_is_recomputed)
{
    const double once = 2.0 * 64 * 256 * 256;
    mf_param *w;
    mf_graph_info info;
    int calls;
    double us, rate;
    mf_store *s = store_of(1, (mf_shape[]){mf_shape2(256, 256)}, &w);
    mf_graph *g =
        mf_graph_new(&(mf_graph_options){.training = true, .recompute = MF_RECOMPUTE_BLOCK});
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(64, 256));
    mf_graph_set_recompute(g, true);
    mf_tensor *h = op1(g, &t_square, mf_linear(g, x, mf_graph_param(g, w), NULL));
    mf_graph_set_recompute(g, false);
    ck_assert_int_eq(mf_graph_backward(g, op1(g, &t_sum, h), 0, NULL), MF_OK);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    mf_graph_get_info(g, &info);
    ck_assert_double_eq(info.flops, 2 * once); /* forward, and the gradient of w */
    mf_graph_profile(g, true);
    run(g, (mf_run){0});
    const char *line = strstr(text_of(mf_graph_profile_print, g), "linear ");
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(sscanf(line, "linear %*f %*f%% %d %lf %lf", &calls, &us, &rate), 3);
    ck_assert_int_eq(calls, 2);
    ck_assert_double_eq_tol(calls * us * 1e3 * rate, 2 * once, 0.5 * once);
    mf_graph_free(g);
    mf_store_free(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("run");
    TCase *t = tcase_create("run");
    tcase_add_test(t, a_run_computes_what_was_built);
    tcase_add_test(t, a_live_scalar_follows_its_double);
    tcase_add_test(t, dead_nodes_do_not_run);
    tcase_add_test(t, metric_nodes_run_only_when_wanted);
    tcase_add_test(t, nothing_else_may_read_a_metric);
    tcase_add_test(t, state_is_written_in_place_and_in_order);
    tcase_add_test(t, reading_overwritten_state_is_refused);
    tcase_add_test(t, streams_do_not_depend_on_the_rest_of_the_graph);
    tcase_add_test(t, an_op_draws_the_numbers_of_its_stream);
    tcase_add_test(t, bytes_outside_of_a_value_are_refused);
    tcase_add_test(t, what_is_not_finite_is_traced_to_its_op);
    tcase_add_test(t, bf16_is_traced_too);
    tcase_add_test(t, masks_are_not_blamed);
    tcase_add_test(t, a_failing_op_ends_the_run_with_its_name);
    tcase_add_test(t, a_graph_can_be_drawn_and_timed);
    tcase_add_test(t, gemms_report_their_cost);
    tcase_add_test(t, causal_attention_reports_the_pairs_that_it_sees);
    tcase_add_test(t, the_gradient_of_grouped_weights_reports_its_cost);
    tcase_add_test(t, grouped_attention_reports_the_pairs_that_it_sees);
    tcase_add_test(t, the_last_write_to_each_interval);
    tcase_add_test(t, a_profile_counts_what_is_recomputed);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
