/* Routers whose buffers follow tallies: the cutoffs of `threshold` and the centroids of
 * `kmeans` after steps that were computed by hand, in one micro-batch and in two. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "lab/harness.h"
#include "tests/lib/program.h"

enum { MOST = 16 };

static mf_harness *harness_of(const char *router, int seq, int dim, const char *const *given)
{
    const mf_loaded *plugin;
    mf_harness *h;
    ck_assert_int_eq(mf_plugin_load(MF_ROUTER, router, NULL, 0, &plugin), MF_OK);
    const mf_harness_spec spec = {.plugin = plugin,
                                  .layers = 1,
                                  .batch = 1,
                                  .seq = seq,
                                  .dim = dim,
                                  .experts = 2,
                                  .top_k = 1,
                                  .training = true,
                                  .given = given};
    ck_assert_msg(mf_harness_new(&spec, &h) == MF_OK, "%s", mf_error_message());
    return h;
}

static float *buffer(const mf_harness *h, const char *name)
{
    mf_param *p = mf_store_find(h->store, name);
    ck_assert_msg(p != NULL, "no buffer %s", name);
    return p->value;
}

/* Runs a micro-batch with these inputs [n]. */
static void run(mf_harness *h, const double *x, int n)
{
    float *to = mf_tensor_input(h->x);
    for (int i = 0; i < n; i++)
        to[i] = (float)x[i];
    ck_assert_msg(mf_harness_run(h, NULL) == MF_OK, "%s", mf_error_message());
    mf_harness_count(h);
}

static void expect(const float *found, const double *wanted, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs((double)found[i] - wanted[i]) < 1e-6, "%d: %.7g, expected %.7g", i,
                      (double)found[i], wanted[i]);
}

/* ---- threshold: with 10 bins the cutoffs of the three steps are .6, .5, .7 ---- */

/* The lower and the upper score of each step; the quantile is the upper end of the
 * lower score's bin. */
static const double scores[3][2] = {{.55, .75}, {.45, .75}, {.65, .95}};
static const double cutoffs[3] = {.6, .547368, .603690};

static double logit(double s)
{
    return log(s / (1 - s));
}

/* Makes the three steps, each in two micro-batches of two sequences of `seq` tokens. With
 * `mixed` each micro-batch contains all scores, else one contains the lower scores and the
 * other the upper scores. */
static void three_steps(int seq, bool mixed)
{
    static const char *const given[] = {"bins=10", "alpha=0.9", "warmup=2", NULL};
    mf_harness *h = harness_of("threshold", seq, 2, given);
    static const float eye[4] = {1, 0, 0, 1};
    memcpy(buffer(h, "layers.0.router.weight"), eye, sizeof eye);
    for (int s = 0; s < 3; s++) {
        for (int part = 0; part < 2; part++) {
            double x[MOST];
            for (int i = 0; i < 2 * seq; i++)
                x[i] = logit(scores[s][mixed ? i / 2 % 2 : part]);
            run(h, x, 2 * seq);
        }
        ck_assert_int_eq(mf_harness_after(h), MF_OK);
        const double wanted[2] = {cutoffs[s], cutoffs[s]};
        expect(buffer(h, "layers.0.router.cutoff"), wanted, 2);
    }
    ck_assert_float_eq(*buffer(h, "layers.0.router.steps"), 3);
    mf_harness_free(h);
}

START_TEST(cutoffs_follow_the_quantiles)
{
    three_steps(2, true);
    three_steps(4, true);
}
END_TEST

START_TEST(cutoffs_do_not_depend_on_the_micro_batches)
{
    three_steps(2, false);
    three_steps(4, false);
}
END_TEST

/* After the warm-up the cutoffs decide, in training as well. */
START_TEST(the_warm_up_ends)
{
    static const char *const given[] = {"bins=10", "alpha=0", "warmup=1", NULL};
    mf_harness *h = harness_of("threshold", 4, 2, given);
    static const float eye[4] = {1, 0, 0, 1};
    memcpy(buffer(h, "layers.0.router.weight"), eye, sizeof eye);
    static const double s[8] = {.55, .55, .55, .55, .75, .75, .75, .75};
    static const int32_t wanted[2][8] = {{-1, -1, -1, -1, 0, 1, 0, 1},
                                         {-1, -1, 0, -1, 0, -1, 0, -1}};
    double x[8];
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 8; i++)
            x[i] = logit(s[i]);
        if (step == 1) /* expert 0 is open to three tokens, expert 1 to none */
            x[2] = logit(.61), x[5] = x[7] = logit(.59);
        run(h, x, 8);
        ck_assert_mem_eq(mf_tensor_host(h->out[0].routing.chosen), wanted[step],
                         sizeof wanted[step]);
        ck_assert_int_eq(mf_harness_after(h), MF_OK);
    }
    mf_harness_free(h);
}
END_TEST

/* ---- kmeans ---- */

START_TEST(centroids_follow_their_tokens)
{
    static const char *const given[] = {"decay=0.5", NULL};
    static const float begin[4] = {0, 0, 4, 4};
    static const double x[8] = {1, 0, 0, 1, 3, 4, 3, 4}, wanted[4] = {.25, .25, 3.5, 4},
                        still[4] = {.625, .125, 3.5, 4};
    for (int parts = 1; parts <= 2; parts++) {
        const int seq = 4 / parts;
        mf_harness *h = harness_of("kmeans", seq, 2, given);
        float *c = buffer(h, "layers.0.router.centroid");
        memcpy(c, begin, sizeof begin);
        for (int i = 0; i < parts; i++)
            run(h, x + i * 2 * seq, 2 * seq);
        ck_assert_int_eq(mf_harness_after(h), MF_OK);
        expect(c, wanted, 4);
        /* no token is nearest to centroid 1 */
        static const double near[8] = {1, 0, 1, 0, 1, 0, 1, 0};
        run(h, near, 2 * seq);
        ck_assert_int_eq(mf_harness_after(h), MF_OK);
        expect(c, still, 4);
        mf_harness_free(h);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tally_routers");
    TCase *t = tcase_create("tally_routers");
    tcase_add_test(t, cutoffs_follow_the_quantiles);
    tcase_add_test(t, cutoffs_do_not_depend_on_the_micro_batches);
    tcase_add_test(t, the_warm_up_ends);
    tcase_add_test(t, centroids_follow_their_tokens);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
