/* The controller `revive`, and mf_host.copy_row: rows, moments, noise, and what is refused. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "lab/harness.h"
#include "tests/lib/program.h"

enum { E = 4, DIM = 8 };

static mf_harness *harness_of(const char *const *given)
{
    const mf_loaded *plugin;
    mf_harness *h;
    ck_assert_int_eq(mf_plugin_load(MF_CONTROLLER, "revive", NULL, 0, &plugin), MF_OK);
    const mf_harness_spec spec = {.plugin = plugin,
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = 4,
                                  .dim = DIM,
                                  .experts = E,
                                  .top_k = 2,
                                  .training = true,
                                  .gradients = true,
                                  .given = given};
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    return h;
}

/* Calls the controller after a step with these shares of the experts. */
static int step(mf_harness *h, const float demand[E], int number, bool skipped)
{
    const mf_layer_stats stats = {
        .size = sizeof stats, .experts = E, .top_k = 2, .demand = demand, .load = demand};
    const mf_step s = {
        .size = sizeof s, .n_layers = 1, .step = number, .layers = &stats, .skipped = skipped};
    return mf_instance_on_step(h->controller, &s);
}

static const float none_of_two[E] = {.25f, 0, 0, .75f}, even[E] = {.25f, .25f, .25f, .25f};

/* Experts 1 and 2 are idle for two steps. They get the weights of experts 3 and 0. */
START_TEST(rows_and_moments)
{
    static const char *const given[] = {"patience=2", "noise=0", NULL};
    static const char *const names[] = {"layers.0.expert.weight", "layers.0.router.weight"};
    static const int source[E] = {0, 3, 0, 3};
    mf_harness *h = harness_of(given);
    float before[2][E * DIM * DIM], ones[E * DIM * DIM], found[E * DIM * DIM];
    for (int i = 0; i < E * DIM * DIM; i++)
        ones[i] = 1;
    for (int p = 0; p < 2; p++) {
        const mf_param *w = mf_store_find(h->store, names[p]);
        memcpy(before[p], w->value, (size_t)w->count * sizeof(float));
        for (int which = 0; which < 2; which++)
            ck_assert_int_eq(
                mf_store_write_moments(h->store, which, w->moment_at[which], w->count, ones),
                MF_OK);
    }
    ck_assert_int_eq(step(h, none_of_two, 1, false), MF_OK);
    ck_assert_int_eq(step(h, none_of_two, 2, true), MF_OK); /* a skipped step does not count */
    for (int p = 0; p < 2; p++) {
        const mf_param *w = mf_store_find(h->store, names[p]);
        ck_assert_mem_eq(w->value, before[p], (size_t)w->count * sizeof(float));
    }
    ck_assert_int_eq(step(h, none_of_two, 3, false), MF_OK);
    for (int p = 0; p < 2; p++) {
        const mf_param *w = mf_store_find(h->store, names[p]);
        const int n = (int)w->count / E;
        for (int e = 0; e < E; e++)
            ck_assert_mem_eq(w->value + e * n, before[p] + source[e] * n,
                             (size_t)n * sizeof(float));
        for (int which = 0; which < 2; which++) {
            ck_assert_int_eq(
                mf_store_read_moments(h->store, which, w->moment_at[which], w->count, found),
                MF_OK);
            for (int i = 0; i < w->count; i++)
                ck_assert_float_eq(found[i], i / n == 1 || i / n == 2 ? 0 : 1);
        }
    }
    /* the count of idle steps of experts 1 and 2 begins again */
    const float *idle = mf_store_find(h->store, "controller.check.idle")->value;
    ck_assert(idle[1] == 0 && idle[2] == 0);
    ck_assert_int_eq(step(h, none_of_two, 4, false), MF_OK);
    ck_assert_float_eq(idle[1], 1);
    ck_assert_int_eq(step(h, even, 5, false), MF_OK);
    ck_assert_float_eq(idle[1], 0);
    mf_harness_free(h);
}
END_TEST

/* The noise has the size that was asked for, and differs between experts. */
START_TEST(noise)
{
    static const char *const given[] = {"patience=1", "noise=0.5", "copy_router=no", NULL};
    double size[2] = {0, 0}, row = 0, twins = 0;
    mf_harness *h = harness_of(given);
    const mf_param *w = mf_store_find(h->store, "layers.0.expert.weight"),
                   *r = mf_store_find(h->store, "layers.0.router.weight");
    float before[E * DIM];
    const int n = DIM * DIM;
    memcpy(before, r->value, sizeof before);
    ck_assert_int_eq(step(h, none_of_two, 1, false), MF_OK);
    ck_assert_mem_eq(r->value, before, sizeof before);
    for (int i = 0; i < n; i++) {
        const double x = (double)w->value[3 * n + i], y = (double)w->value[n + i],
                     z = (double)w->value[i], v = (double)w->value[2 * n + i];
        size[0] += (y - x) * (y - x);
        size[1] += (v - z) * (v - z);
        row += x * x;
        twins += fabs((y - x) / sqrt(size[0]) - (v - z) / sqrt(size[1]));
    }
    ck_assert_double_eq_tol(sqrt(size[0] / row), .5, .15);
    ck_assert_double_gt(twins, 1);
    mf_harness_free(h);
}
END_TEST

START_TEST(what_is_refused)
{
    static const char *const given[] = {"patience=1", NULL};
    mf_harness *h = harness_of(given);
    mf_store_find(h->store, "layers.0.expert.weight")->frozen = true;
    ck_assert_int_eq(step(h, none_of_two, 1, false), MF_ECONFIG);
    ck_assert_msg(strstr(mf_error_message(), "copy_row '/layers.0.expert.weight': expected a "
                                             "parameter that is trained, found a frozen one"),
                  "%s", mf_error_message());
    mf_error_clear();
    mf_plughost_share_experts(h->host);
    ck_assert_int_eq(step(h, none_of_two, 2, false), MF_ECONFIG);
    ck_assert_msg(strstr(mf_error_message(), "expected parallel.expert = 1"), "%s",
                  mf_error_message());
    mf_error_clear();
    mf_harness_free(h);
    h = harness_of(given);
    mf_store_find(h->store, "layers.0.expert.weight")->init.flags = 0;
    ck_assert_int_eq(step(h, none_of_two, 1, false), MF_ECONFIG);
    ck_assert_msg(strstr(mf_error_message(), "layer 0 has no parameters of single experts"),
                  "%s", mf_error_message());
    mf_error_clear();
    mf_harness_free(h);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("revive");
    TCase *t = tcase_create("revive");
    tcase_add_test(t, rows_and_moments);
    tcase_add_test(t, noise);
    tcase_add_test(t, what_is_refused);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
