/* The router `quantile`: counts, biases and loads of a case that was computed by hand. */
#include "check_main.h"

#include <math.h>
#include "base/error.h"
#include "lab/harness.h"
#include "plugin/tallies.h"
#include "tests/lib/program.h"

enum { T = 6, E = 3, DIM = 16 };

/* No difference that is counted is on the border between two of the 8 bins. */
static const double scores[T][E] = {{.9, .5, .1}, {.8, .6, .3},  {.7, .2, .4},
                                    {.9, .3, .2}, {.6, .5, .55}, {.849, .099, .6}};

/* A harness whose router has these scores. */
static mf_harness *harness_of(const char *bins)
{
    const mf_loaded *plugin;
    mf_harness *h;
    ck_assert_int_eq(mf_plugin_load(MF_ROUTER, "quantile", NULL, 0, &plugin), MF_OK);
    const mf_harness_spec spec = {.plugin = plugin,
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = T,
                                  .dim = DIM,
                                  .experts = E,
                                  .top_k = 1,
                                  .training = true,
                                  .option = "bins",
                                  .value = bins};
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    float weight[E * DIM] = {0}, *x = mf_tensor_input(h->x);
    for (int e = 0; e < E; e++)
        weight[e * DIM + e] = 1;
    mf_param_write(mf_store_find(h->store, "layers.0.router.weight"), weight, 0, sizeof weight);
    for (int i = 0; i < T * DIM; i++)
        x[i] = 0;
    for (int t = 0; t < T; t++)
        for (int e = 0; e < E; e++)
            x[t * DIM + e] = (float)log(scores[t][e] / (1 - scores[t][e]));
    return h;
}

/* Makes a step and checks that its load is `load`; NULL: the load is not checked. */
static void step(mf_harness *h, const double *load)
{
    double found[E] = {0};
    ck_assert_int_eq(mf_harness_run(h, NULL), MF_OK);
    const int32_t *chosen = mf_tensor_host(h->out[0].routing.chosen);
    for (int t = 0; t < T; t++)
        found[chosen[t]]++;
    for (int e = 0; load && e < E; e++)
        ck_assert_double_eq(found[e], load[e]);
    ck_assert_int_eq(mf_harness_after(h), MF_OK);
}

static void expect_bias(const mf_harness *h, const double bias[E])
{
    const float *b = mf_param_host(mf_store_find(h->store, "layers.0.router.bias"));
    for (int e = 0; e < E; e++)
        ck_assert_msg(fabs((double)b[e] - bias[e]) < 1e-6, "expert %d: %.7g, expected %.7g", e,
                      (double)b[e], bias[e]);
}

START_TEST(counts_and_biases_of_8_bins)
{
    static const double counts[E][8] = {
        {0, 1, 2, 3, 0, 0, 0, 0}, {0, 0, 0, 0, 5, 0, 1, 0}, {0, 0, 0, 0, 4, 2, 0, 0}};
    static const double first[E] = {6, 0, 0}, bias[E] = {-.325, .15, .175};
    mf_harness *h = harness_of("8");
    step(h, first);
    const double *whole = mf_tallies_sums(h->host).whole;
    for (int i = 0; i < E * 8; i++)
        ck_assert_double_eq(whole[i], counts[i / 8][i % 8]);
    expect_bias(h, bias);
    mf_harness_free(h);
}
END_TEST

/* With many bins the loads become equal after some steps, and stay equal. */
START_TEST(loads_become_equal)
{
    enum { STEPS = 7 };
    static const double first[E] = {6, 0, 0}, equal[E] = {2, 2, 2};
    mf_harness *h = harness_of("1000");
    step(h, first);
    for (int i = 1; i < STEPS; i++)
        step(h, i < 4 ? NULL : equal);
    mf_harness_free(h);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("quantile");
    TCase *t = tcase_create("quantile");
    tcase_add_test(t, counts_and_biases_of_8_bins);
    tcase_add_test(t, loads_become_equal);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
