/* latent: a latent width l around routed experts (moe.latent). If l is the width of the model,
 * and the projections down and up are identities, the layer computes the same as without
 * moe.latent. Experts whose weights repeat compute what experts of half the width compute
 * between averages and copies. Router, shared experts and what dropped assignments add read the
 * input of the layer. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "layer_model.h"
#include "run/modules.h"
#include "tests/lib/program.h"

enum { B = 4, SEQ = 24, T = B * SEQ, D = 16, HALF = D / 2, H = 8, E = 4 };

typedef struct layer {
    mf_session *s;
    mf_model_graph *mg;
} layer;

static void open(layer *x, int n, const char *const *set)
{
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = B, .seq = SEQ, .want_trace = true, .no_reuse = true};
    mf_batch *batch = NULL;
    layer_open(0, NULL, n, set, &shape, &x->s, &x->mg);
    ck_assert_int_eq(mf_batch_new(B, SEQ, &batch), MF_OK);
    for (int t = 0; t < T; t++) {
        batch->tokens[t] = (7 * t + t * t / 3) % 90;
        batch->targets[t] = (5 * t + 1) % 90;
        batch->positions[t] = t % SEQ;
        batch->sequence[t] = t / SEQ;
        batch->mask[t] = 1;
    }
    mf_batch_feed(batch, x->mg);
    mf_batch_free(batch);
}

static void shut(layer *x)
{
    mf_model_graph_free(x->mg);
    mf_session_close(x->s);
}

static mf_param *param(const layer *x, const char *name)
{
    mf_param *p = mf_store_find(x->s->model->store, name);
    ck_assert_msg(p != NULL, "%s", name);
    return p;
}

static void set_all(mf_param *p, const float *values)
{
    ck_assert_int_eq(mf_param_write(p, values, 0, (size_t)p->count * sizeof *values), MF_OK);
}

/* Gives all parameters of `to` that `from` has, too, the values of `from`. */
static void copy(const layer *from, const layer *to)
{
    for (int i = 0; i < mf_store_count(to->s->model->store); i++) {
        mf_param *p = mf_store_at(to->s->model->store, i);
        const mf_param *q = mf_store_find(from->s->model->store, p->name);
        if (q && mf_shape_equal(p->shape, q->shape)) set_all(p, mf_param_host(q));
    }
}

static double loss(const layer *x)
{
    layer_run(x->mg);
    return (double)*(const float *)mf_tensor_host(x->mg->loss);
}

static void near(const char *what, double a, double b)
{
    ck_assert_msg(fabs(a - b) <= 2e-6 * fabs(b), "%s: %.9g and %.9g", what, a, b);
}

START_TEST(identities_change_nothing)
{
    static const char *const more[] = {"moe.capacity_factor=0.6", "moe.shared_experts=1",
                                       "router.plugin=soft"};
    float one[D * D] = {0};
    for (int i = 0; i < D; i++)
        one[i * D + i] = 1;
    for (int i = 0; i < 4; i++) {
        const char *plain[] = {"moe.force_causal=yes", "moe.dropped=input", more[i % 3]};
        const char *with[] = {"moe.force_causal=yes", "moe.dropped=input", more[i % 3],
                              "moe.latent=16"};
        /* the last case has none of the settings `more` */
        const int n = i == 3 ? 2 : 3;
        layer a, b;
        if (i == 3) with[2] = with[3];
        open(&a, n, plain);
        open(&b, n + 1, with);
        copy(&a, &b);
        set_all(param(&b, "layers.0.moe.down.weight"), one);
        set_all(param(&b, "layers.0.moe.up.weight"), one);
        near(n == 3 ? more[i] : "plain", loss(&a), loss(&b));
        shut(&a);
        shut(&b);
    }
}
END_TEST

/* up = [I; I], down = [I, I] / 2. An expert with w13' = [w13, w13] / 2 reads the mean of
 * both halves, and with w2' = [w2; w2] writes each row twice. */
START_TEST(experts_whose_columns_repeat)
{
    const char *set[] = {"moe.latent=8"};
    float down[HALF * D] = {0}, up[D * HALF] = {0};
    float *long13 = mf_alloc(E * 2 * H * D, sizeof *long13),
          *long2 = mf_alloc(E * D * H, sizeof *long2);
    layer a, b;
    open(&a, 1, set);
    open(&b, 0, NULL);
    copy(&a, &b);
    for (int i = 0; i < HALF; i++)
        for (int half = 0; half < 2; half++) {
            down[i * D + half * HALF + i] = 0.5f;
            up[(half * HALF + i) * HALF + i] = 1;
        }
    set_all(param(&a, "layers.0.moe.down.weight"), down);
    set_all(param(&a, "layers.0.moe.up.weight"), up);
    const mf_param *w13 = param(&a, "layers.0.expert.w13"),
                   *w2 = param(&a, "layers.0.expert.w2");
    ck_assert_int_eq(w13->count, E * 2 * H * HALF);
    ck_assert_int_eq(w2->count, E * HALF * H);
    const float *from = mf_param_host(w13);
    for (int r = 0; r < E * 2 * H; r++)
        for (int c = 0; c < D; c++)
            long13[r * D + c] = 0.5f * from[r * HALF + c % HALF];
    from = mf_param_host(w2);
    for (int e = 0; e < E; e++)
        for (int r = 0; r < D; r++)
            memcpy(long2 + (e * D + r) * H, from + (e * HALF + r % HALF) * H,
                   H * sizeof *long2);
    set_all(param(&b, "layers.0.expert.w13"), long13);
    set_all(param(&b, "layers.0.expert.w2"), long2);
    near("repeated", loss(&a), loss(&b));
    mf_free(long13);
    mf_free(long2);
    shut(&a);
    shut(&b);
}
END_TEST

/* Numbers of all parameters, and of those that a token uses. A latent width adds two linear
 * layers and a norm, and halves the experts, of which a token uses k. */
START_TEST(parameters)
{
    const char *set[] = {"moe.latent=8", "moe.latent_norm=rmsnorm", "moe.top_k=2"};
    layer a, b;
    int64_t all[2], active[2];
    open(&a, 3, set);
    open(&b, 1, set + 2);
    mf_model_count(a.s->model, &all[0], &active[0]);
    mf_model_count(b.s->model, &all[1], &active[1]);
    const int64_t latent = 2 * D * HALF + HALF, expert = 3 * H * D;
    ck_assert_int_eq(all[0], all[1] + latent - E * expert / 2);
    ck_assert_int_eq(active[0], active[1] + latent - 2 * expert / 2);
    shut(&a);
    shut(&b);
}
END_TEST

/* Operations of the gemms: two linear layers more for each token, and half of the operations of
 * its k experts. */
START_TEST(operations)
{
    const char *set[] = {"moe.latent=8", "moe.top_k=2"};
    layer a, b;
    mf_graph_info half, whole;
    open(&a, 2, set);
    open(&b, 1, set + 1);
    mf_graph_get_info(a.mg->g, &half);
    mf_graph_get_info(b.mg->g, &whole);
    const double linear = 2.0 * T * 2 * D * HALF, experts = 2.0 * T * 2 * 3 * H * D;
    near("flops", half.flops, whole.flops + linear - experts / 2);
    shut(&a);
    shut(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("latent");
    TCase *c = tcase_create("latent");
    tcase_add_test(c, identities_change_nothing);
    tcase_add_test(c, experts_whose_columns_repeat);
    tcase_add_test(c, parameters);
    tcase_add_test(c, operations);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
