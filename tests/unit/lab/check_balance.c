/* The regularizer `load_balance`: losses of two sequences, computed by hand, for each scope. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "lab/harness.h"
#include "tests/lib/program.h"

enum { B = 2, N = 4, E = 2, DIM = 4 };

/* Probabilities of expert 0. In `apart` the sequences choose the experts 3:1 and 1:3, with
 * means of .7 and .3. In `near` they choose them 3:1 and 2:2, with means of .7 and .5. */
static const double apart[B * N] = {.9, .9, .9, .1, .1, .1, .1, .9},
                              near[B * N] = {.9, .9, .9, .1, .9, .9, .1, .1};

static mf_harness *harness_of(const char *const *given, const double *p)
{
    const mf_loaded *plugin;
    mf_harness *h;
    ck_assert_int_eq(mf_plugin_load(MF_REGULARIZER, "load_balance", NULL, 0, &plugin), MF_OK);
    const mf_harness_spec spec = {.plugin = plugin,
                                  .layers = 1,
                                  .batch = B,
                                  .seq = N,
                                  .dim = DIM,
                                  .experts = E,
                                  .top_k = 1,
                                  .training = true,
                                  .given = given};
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    float weight[E * DIM] = {1}, *x = mf_tensor_input(h->x);
    mf_param_write(mf_store_find(h->store, "layers.0.router.weight"), weight, 0, sizeof weight);
    for (int t = 0; t < B * N; t++)
        x[t * DIM] = (float)log(p[t] / (1 - p[t]));
    ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
    return h;
}

static const struct {
    const char *given[4];
    const double *p;
    double loss;
} cases[] = {
    {{NULL}, apart, 1},
    {{"scope=micro", NULL}, apart, 1},
    {{"scope=sequence", NULL}, apart, 1.2},
    {{"scope=sequence", "f=tokens", NULL}, apart, 1.2},
    {{"scope=micro", NULL}, near, 1.05}, /* 2 (.625 .6 + .375 .4) */
    {{"scope=global", NULL}, near, 1.05},
    {{"scope=micro", "layers=pooled", NULL}, near, 1.05},
    {{"scope=sequence", NULL}, near, 1.1}, /* (1.2 + 1) / 2 */
    {{"scope=step", NULL}, near, 1},       /* f starts uniform */
    {{"scope=sequence", "groups=1", NULL}, apart, 1},
    {{"scope=step", "groups=2", NULL}, apart, 1},
};

START_TEST(losses_of_scopes)
{
    mf_harness *h = harness_of(cases[_i].given, cases[_i].p);
    const double loss = (double)*(const float *)mf_tensor_host(h->penalty);
    ck_assert_msg(fabs(loss - cases[_i].loss) < 1e-6, "case %d: %.7f, expected %.7f", _i, loss,
                  cases[_i].loss);
    mf_harness_free(h);
}
END_TEST

/* f comes from the previous step, and decays over later steps. */
START_TEST(loads_of_the_step_before)
{
    static const char *const given[] = {"scope=step", "memory=0.25", NULL};
    static const float before[E] = {.75f, .25f};
    mf_harness *h = harness_of(given, near);
    mf_param *f = mf_store_find(h->store, "regularizer.check.f");
    ck_assert_ptr_nonnull(f);
    mf_param_write(f, before, 0, sizeof before);
    ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
    ck_assert(fabs((double)*(const float *)mf_tensor_host(h->penalty) - 1.1) < 1e-6);
    ck_assert_int_eq(mf_harness_after(h), MF_OK);
    const float *now = mf_param_host(f);
    ck_assert(fabs((double)now[0] - (.25 * .75 + .75 * 5 / 8)) < 1e-6);
    ck_assert(fabs((double)now[1] - (.25 * .25 + .75 * 3 / 8)) < 1e-6);
    mf_harness_free(h);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("balance");
    TCase *t = tcase_create("balance");
    tcase_add_loop_test(t, losses_of_scopes, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, loads_of_the_step_before);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
