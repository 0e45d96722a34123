/* gates: the forms of gated heads that the published code has in addition to the equation. The
 * tests check what each form computes, and that its gradient is the slope of the loss. */
#include <check.h>
#include <math.h>
#include <string.h>
#include "check_main.h"
#include "heads_model.h"

static float *values(const made *x, const char *name)
{
    return mf_store_find(x->model->store, name)->value;
}

static void scale(const made *x, const char *name, double factor)
{
    const mf_param *p = mf_store_find(x->model->store, name);
    for (int64_t i = 0; i < p->count; i++)
        p->value[i] = (float)((double)p->value[i] * factor);
}

/* Fills biases with other values than the initial zeros, which would hide how they are used. */
static void fill_biases(const made *x)
{
    static const char *const names[] = {"layers.0.attention.out.bias",
                                        "layers.1.attention.out.bias", "head.bias"};
    for (int i = 0; i < 3; i++) {
        const mf_param *p = mf_store_find(x->model->store, names[i]);
        for (int64_t j = 0; p && j < p->count; j++)
            p->value[j] = 0.3f * (float)(j % 5 - 1);
    }
}

static void expect_equal(const char *what, double a, double b)
{
    ck_assert_msg(fabs(a - b) < 2e-6, "%s: %.9g, %.9g", what, a, b);
}

START_TEST(raw_gates_are_the_numbers_themselves)
{
    made raw, logit;
    make(&raw, "heads = 8\nhead_gates = yes\ngate_form = raw\ngate_init = 0.5\n");
    make(&logit, "heads = 8\nhead_gates = yes\n");
    for (int l = 0; l < LAYERS; l++)
        for (int h = 0; h < HEADS; h++) {
            const double g = 0.1 + 0.1 * h;
            set(&raw, l, "gate", h, h == 7 ? 1.5f : (float)g); /* this gate is clipped to 1 */
            set(&logit, l, "gate", h, h == 7 ? 40 : (float)log(g / (1 - g)));
        }
    expect_equal("raw", run(&raw, NULL), run(&logit, NULL));
    ck_assert(mf_head_param(raw.model, 1, "gate")->grad[7] == 0);
    mf_head_record *r;
    ck_assert_int_eq(mf_head_record_new(raw.model, &r), MF_OK);
    mf_head_record_fill(r, raw.model, NULL);
    ck_assert(fabs((double)r->stats[1].gate[2] - 0.3) < 1e-7);
    ck_assert(r->stats[0].gate[7] == 1);
    mf_head_record_free(r);
    unmake(&raw);
    unmake(&logit);
}
END_TEST

START_TEST(gates_that_start_by_their_distance_from_the_middle)
{
    static const char *const forms[] = {"gate_form = raw\ngate_init = 1\n", ""};
    for (int i = 0; i < 2; i++) {
        made x;
        char *more = mf_strf("heads = 8\nhead_gates = yes\ngate_start = middle\n%s", forms[i]);
        make(&x, more);
        for (int h = 0; h < HEADS; h++) {
            const double d = fabs(h - 3.5) / 3.5,
                         want = (i == 0 ? 1 : 1 / (1 + exp(-3.0))) * (1 - 0.1 * d),
                         got = (double)mf_head_param(x.model, 1, "gate")->value[h];
            expect_equal(more, i == 0 ? got : 1 / (1 + exp(-got)), want);
        }
        unmake(&x);
        mf_free(more);
    }
    made odd; /* one head, which is the middle head, so its gate begins at gate_init */
    make(&odd, "heads = 1\nhead_gates = yes\ngate_start = middle\ngate_init = 2\n");
    ck_assert(mf_head_param(odd.model, 0, "gate")->value[0] == 2);
    unmake(&odd);
}
END_TEST

/* The output bias is b sum(g) / H, with the parameter b and the gates g of H heads. It has the
 * effect of a plain bias of that size. Pruned heads do not contribute. */
START_TEST(the_output_bias_goes_with_the_gates)
{
    const char *options = "heads = 8\nhead_gates = yes\nattention_out_bias = yes\n%s";
    made shared, plain;
    char *more = mf_strf(options, "gate_bias = yes\n"), *less = mf_strf(options, "");
    make(&shared, more);
    make(&plain, less);
    fill_biases(&shared);
    fill_biases(&plain);
    double sum = 0;
    for (int h = 0; h < HEADS; h++) {
        set(&shared, 0, "gate", h, (float)h - 3);
        set(&plain, 0, "gate", h, (float)h - 3);
        sum += h == 5 ? 0 : 1 / (1 + exp(3.0 - h));
        set(&shared, 1, "active", h, 0); /* then layer 1 adds nothing, not even its bias */
        set(&plain, 1, "active", h, 0);
    }
    set(&shared, 0, "active", 5, 0);
    set(&plain, 0, "active", 5, 0);
    scale(&plain, "layers.0.attention.out.bias", sum / HEADS);
    scale(&plain, "layers.1.attention.out.bias", 0);
    expect_equal("gate_bias", run(&shared, NULL), run(&plain, NULL));
    unmake(&shared);
    unmake(&plain);
    mf_free(more);
    mf_free(less);
}
END_TEST

START_TEST(means_of_heads_and_scaled_logits)
{
    const char *options = "heads = 8\nattention_out_bias = yes\nhead_bias = yes\n%s";
    made scaled, plain;
    char *more = mf_strf(options, "head_mean = yes\nlogit_scale = 1.25\n"),
         *less = mf_strf(options, "");
    make(&scaled, more);
    make(&plain, less);
    fill_biases(&scaled);
    fill_biases(&plain);
    for (int l = 0; l < LAYERS; l++) {
        scale(&plain, l ? "layers.1.attention.out.weight" : "layers.0.attention.out.weight",
              0.125);
        scale(&plain, l ? "layers.1.attention.out.bias" : "layers.0.attention.out.bias", 0.125);
    }
    scale(&plain, "head.weight", 1.25);
    scale(&plain, "head.bias", 1.25);
    expect_equal("scales", run(&scaled, NULL), run(&plain, NULL));
    unmake(&scaled);
    unmake(&plain);
    mf_free(more);
    mf_free(less);
}
END_TEST

/* With unit length, the norm of a head's output has no effect. If the norm is over all tokens,
 * only the ratios between tokens have an effect. */
START_TEST(heads_of_unit_length)
{
    double loss[3];
    for (int i = 0; i < 3; i++) {
        static const char *const norms[] = {"none", "token", "batch"};
        made x;
        char *more = mf_strf("heads = 8\nhead_norm = %s\n", norms[i]);
        make(&x, more);
        loss[i] = run(&x, NULL);
        float *v = values(&x, "layers.0.attention.qkv.weight");
        for (int64_t j = (16 + 2) * 4 * 32; j < (16 + 3) * 4 * 32; j++) /* values of head 2 */
            v[j] *= 3;
        const double longer = run(&x, NULL);
        if (i == 0)
            ck_assert(fabs(longer - loss[i]) > 1e-4);
        else
            expect_equal(more, longer, loss[i]);
        unmake(&x);
        mf_free(more);
    }
    ck_assert(fabs(loss[0] - loss[1]) > 1e-3 && fabs(loss[1] - loss[2]) > 1e-3);
}
END_TEST

/* Padding positions do not count as tokens, and do not change the mean norm. */
START_TEST(padding_has_no_length)
{
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = BATCH, .seq = SEQ, .masked = true};
    made x;
    mf_model_graph *mg;
    double loss[2];
    make(&x, "heads = 8\nhead_norm = batch\n");
    ck_assert_int_eq(mf_model_graph_new(x.model, &shape, &mg), MF_OK);
    for (int i = 0; i < 2; i++) {
        feed(mg);
        float *mask = mf_tensor_data(mg->mask);
        for (int t = 0; t < BATCH * SEQ; t++)
            mask[t] = t < 7;
        for (int t = 7; t < BATCH * SEQ; t++)
            ((int32_t *)mf_tensor_data(mg->tokens))[t] = i ? 1 : 9;
        ck_assert_int_eq(mf_graph_run(mg->g, &(mf_run){.forward_only = true}), MF_OK);
        loss[i] = (double)*(float *)mf_tensor_data(mg->task_loss);
    }
    ck_assert_msg(loss[0] == loss[1], "%.9g, %.9g", loss[0], loss[1]);
    mf_model_graph_free(mg);
    unmake(&x);
}
END_TEST

/* Compares the graph's gradient of some elements of a parameter with central differences of
 * the loss. */
static void check_slopes(const made *x, const char *options, const char *name, int points)
{
    mf_param *p = mf_store_find(x->model->store, name);
    const double step = 1.0 / 64;
    ck_assert_ptr_nonnull(p);
    float *grad = mf_alloc((size_t)p->count, sizeof *grad);
    run(x, NULL);
    memcpy(grad, p->grad, (size_t)p->count * sizeof *grad);
    for (int i = 0; i < points; i++) {
        const int64_t at = (int64_t)i * 7919 % p->count;
        const float was = p->value[at], up = was + (float)step, down = was - (float)step;
        p->value[at] = up;
        const double above = run(x, NULL);
        p->value[at] = down;
        const double below = run(x, NULL);
        p->value[at] = was;
        const double slope = (above - below) / ((double)up - (double)down);
        ck_assert_msg(fabs(slope - (double)grad[at]) < 1e-4 + 5e-3 * fabs(slope),
                      "%s%s[%lld]: gradient %.7g, slope %.7g", options, name, (long long)at,
                      (double)grad[at], slope);
    }
    mf_free(grad);
}

START_TEST(gradients_are_slopes)
{
    static const char *const forms[] = {
        "gate_form = raw\ngate_init = 0.7\ngate_bias = yes\n",
        "gate_bias = yes\nhead_norm = token\n",
        "head_norm = token\nhead_mean = yes\nlogit_scale = 1.25\n",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        made x;
        char *more = mf_strf("heads = 8\nhead_gates = yes\nattention_out_bias = yes\n"
                             "head_bias = yes\nnorm = layernorm\n%s",
                             forms[i]);
        make(&x, more);
        fill_biases(&x);
        set(&x, 1, "active", 3, 0);
        check_slopes(&x, forms[i], "layers.1.attention.gate", HEADS);
        check_slopes(&x, forms[i], "layers.1.attention.out.bias", 6);
        check_slopes(&x, forms[i], "layers.0.attention.out.weight", 6);
        check_slopes(&x, forms[i], "layers.0.attention.qkv.weight", 12);
        check_slopes(&x, forms[i], "head.weight", 6);
        check_slopes(&x, forms[i], "head.bias", 6);
        unmake(&x);
        mf_free(more);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gates");
    TCase *c = tcase_create("gates");
    tcase_add_test(c, raw_gates_are_the_numbers_themselves);
    tcase_add_test(c, gates_that_start_by_their_distance_from_the_middle);
    tcase_add_test(c, the_output_bias_goes_with_the_gates);
    tcase_add_test(c, means_of_heads_and_scaled_logits);
    tcase_add_test(c, heads_of_unit_length);
    tcase_add_test(c, padding_has_no_length);
    tcase_add_test(c, gradients_are_slopes);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
