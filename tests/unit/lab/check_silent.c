/* Silent assignments: the gradient of the router `densemix`, compared with values computed by
 * hand. Experts must learn nothing from assignments that do not count. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "lab/harness.h"
#include "tests/lib/program.h"

enum { E = 4, K = 2, DIM = 16 };

static const float z[E] = {2, 1, 0, -1};  /* logits */
static const float dw[E] = {1, -1, 3, 2}; /* gradients of the gates */

static mf_harness *harness_of(const char *router, const char *option, const char *value)
{
    const mf_loaded *plugin;
    mf_harness *h;
    ck_assert_int_eq(mf_plugin_load(MF_ROUTER, router, NULL, 0, &plugin), MF_OK);
    const mf_harness_spec spec = {.plugin = plugin,
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = 1,
                                  .dim = DIM,
                                  .experts = E,
                                  .top_k = K,
                                  .training = true,
                                  .gradients = true,
                                  .option = option,
                                  .value = value};
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    /* x = z, and the router's matrix is the identity. Element 0 of the output of expert e is
     * dw_e, and the loss is element 0 of the layer's output. */
    float router_w[E * DIM] = {0}, expert_w[E * DIM * DIM] = {0}, *x = mf_tensor_input(h->x),
                       *w = mf_tensor_input(h->weights);
    memset(x, 0, DIM * sizeof *x);
    memset(w, 0, DIM * sizeof *w);
    memcpy(x, z, sizeof z);
    w[0] = 1;
    for (int e = 0; e < E; e++) {
        router_w[e * DIM + e] = 1;
        for (int j = 0; j < E; j++)
            expert_w[e * DIM * DIM + j] = dw[e] * z[j] / 6; /* 6 is |z|^2, the squared length
                                                             * of z */
    }
    mf_param_write(mf_store_find(h->store, "layers.0.router.weight"), router_w, 0,
                   sizeof router_w);
    mf_param_write(mf_store_find(h->store, "layers.0.expert.weight"), expert_w, 0,
                   sizeof expert_w);
    ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
    return h;
}

static const float *grad_of(const mf_harness *h, const char *name)
{
    const mf_param *p = mf_store_find(h->store, name);
    ck_assert_ptr_nonnull(p);
    return p->grad;
}

static const struct {
    const char *router, *option, *value;
    double dz[E];
} cases[] = {
    {"linear", NULL, NULL, {.381821, -.333303, -.035470, -.013049}}, /* gates are p */
    {"densemix", "renormalize", "no", {.172195, -.410419, .197593, .040631}},
    {"densemix", NULL, NULL, {.155228, -.480778, .264605, .060945}},
    {"densemix", "others", "2", {.155228, -.480778, .264605, .060945}},
    {"densemix", "others", "1", {.202101, -.463534, .270948, -.009515}},
};

START_TEST(gradients_of_logits)
{
    mf_harness *h = harness_of(cases[_i].router, cases[_i].option, cases[_i].value);
    const float *dz = grad_of(h, "layers.0.router.weight"); /* expected: dz_e z_j */
    for (int e = 0; e < E; e++)
        ck_assert_msg(fabs((double)dz[e * DIM] / 2 - cases[_i].dz[e]) < 2e-6,
                      "%s, logit %d: %.6f, expected %.6f", cases[_i].router, e,
                      (double)dz[e * DIM] / 2, cases[_i].dz[e]);
    mf_harness_free(h);
}
END_TEST

/* Outputs and gradients of experts have the same bits as with `linear`, and so has
 * the record. */
START_TEST(all_else_is_as_without_them)
{
    mf_harness *one = harness_of("linear", NULL, NULL),
               *all = harness_of("densemix", "renormalize", "no");
    const float *a = grad_of(one, "layers.0.expert.weight"),
                *b = grad_of(all, "layers.0.expert.weight");
    for (int i = 0; i < E * DIM * DIM; i++)
        ck_assert_msg(a[i] == b[i], "element %d of the experts: %.9g and %.9g", i, (double)a[i],
                      (double)b[i]);
    ck_assert_mem_eq(mf_tensor_host(one->y), mf_tensor_host(all->y), DIM * sizeof(float));
    const int32_t *chosen = mf_tensor_host(all->out[0].routing.chosen),
                  *admitted = mf_tensor_host(all->out[0].routing.admitted);
    const float *silent = mf_tensor_host(all->out[0].routing.silent);
    for (int i = 0; i < E; i++) {
        ck_assert_int_eq(chosen[i], i < K ? i : -1);
        ck_assert_int_eq(admitted[i], i < K ? i : -1);
        ck_assert_float_eq(silent[i], i < K ? 0 : 1);
    }
    mf_harness_free(one);
    mf_harness_free(all);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("silent");
    TCase *t = tcase_create("silent");
    tcase_add_loop_test(t, gradients_of_logits, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, all_else_is_as_without_them);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
