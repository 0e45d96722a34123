/* sampler: only tokens that a full sort would keep are drawn, with the frequencies that follow
 * from the weights. */
#include "check_main.h"

#include "base/rng.h"
#include "generate/sampler.h"
#include "graph/graph.h"

#include <math.h>

enum { VOCAB = 3000, DRAWS = 4000 };

static float logits[VOCAB];
static int sorted[VOCAB];
static double share[VOCAB]; /* probability of each id */

static int likelier(const void *a_, const void *b_)
{
    const int a = *(const int *)a_, b = *(const int *)b_;
    const float x = isnan(logits[a]) ? -INFINITY : logits[a];
    const float y = isnan(logits[b]) ? -INFINITY : logits[b];
    if (x != y) return x > y ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Computes the probabilities in double, by sorting all ids. */
static void expect(const mf_sampler_options *o)
{
    int n = VOCAB;
    double sum = 0, kept = 0, p[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        sorted[i] = i;
        share[i] = 0;
    }
    qsort(sorted, VOCAB, sizeof *sorted, likelier);
    if (o->top_k > 0 && o->top_k < n) n = (int)o->top_k;
    for (int i = 0; i < n; i++) {
        const double l = (double)logits[sorted[i]];
        p[i] = isnan(l) ? 0 : exp((l - (double)logits[sorted[0]]) / o->temperature);
        sum += p[i];
    }
    int stay = 0;
    while (stay < n && (stay == 0 || kept < o->top_p * sum))
        kept += p[stay++];
    for (int i = 0; i < stay; i++)
        share[sorted[i]] = p[i] / kept;
}

static void draw_all(mf_sampler_options o)
{
    static int hits[VOCAB];
    mf_sampler *s;
    o.seed = 7;
    ck_assert_int_eq(mf_sampler_new(VOCAB, &o, &s), MF_OK);
    expect(&o);
    for (int i = 0; i < VOCAB; i++)
        hits[i] = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int32_t id = mf_sampler_draw(s, logits, NULL, 0, i);
        ck_assert_msg(id >= 0 && id < VOCAB && share[id] > 0,
                      "top-k %lld, top-p %g: drew %d, which is cut", (long long)o.top_k,
                      o.top_p, (int)id);
        hits[id]++;
    }
    for (int i = 0; i < VOCAB; i++) { /* the tolerance is five standard deviations, plus 3 */
        const double mean = share[i] * DRAWS, sd = sqrt(mean * (1 - share[i]));
        ck_assert_msg(fabs(hits[i] - mean) <= 5 * sd + 3, "id %d: drawn %d times, expected %g",
                      i, hits[i], mean);
    }
    mf_sampler_free(s);
}

static void fill(double spread)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(spread * (double)mf_rng_normal(1, 2, 3, (uint64_t)i));
    logits[17] = NAN;
    logits[18] = -INFINITY;
    logits[40] = logits[41] = logits[42];
}

START_TEST(draws_follow_the_weights)
{
    static const double spread[] = {0.01, 1, 4};
    ck_assert_int_eq(mf_backend_init(), MF_OK);
    for (int i = 0; i < 3; i++) {
        fill(spread[i]);
        draw_all((mf_sampler_options){.temperature = 0.8, .top_p = 1, .repeat_penalty = 1});
        draw_all((mf_sampler_options){
            .temperature = 0.8, .top_k = 40, .top_p = 1, .repeat_penalty = 1});
        draw_all((mf_sampler_options){
            .temperature = 1.3, .top_k = 700, .top_p = 0.9, .repeat_penalty = 1});
        draw_all((mf_sampler_options){.temperature = 0.7, .top_p = 0.95, .repeat_penalty = 1});
        draw_all((mf_sampler_options){.temperature = 0.7, .top_p = 0.05, .repeat_penalty = 1});
    }
}
END_TEST

START_TEST(the_likeliest_and_none)
{
    mf_sampler *s;
    const mf_sampler_options o = {.top_p = 1, .repeat_penalty = 2};
    int32_t past[1] = {5};
    ck_assert_int_eq(mf_backend_init(), MF_OK);
    fill(1);
    ck_assert_int_eq(mf_sampler_new(VOCAB, &o, &s), MF_OK);
    logits[5] = 9;
    logits[6] = logits[7] = 8;
    ck_assert_int_eq(mf_sampler_draw(s, logits, NULL, 0, 0), 5);
    /* The penalty divides the logit 9 of token 5 by 2, so the logits 8 are the largest. Of
     * equal logits the lower id wins. */
    ck_assert_int_eq(mf_sampler_draw(s, logits, past, 1, 0), 6);
    /* the penalty applies to the tokens of the window, which now contains 6 and no longer 5 */
    static const int32_t two[2] = {5, 6};
    mf_sampler_settings(s)->repeat_window = 1;
    ck_assert_int_eq(mf_sampler_draw(s, logits, two, 2, 0), 5);
    mf_sampler_settings(s)->repeat_window = 2;
    ck_assert_int_eq(mf_sampler_draw(s, logits, two, 2, 0), 7);
    /* a temperature whose reciprocal exceeds f32 counts as 0 */
    mf_sampler_settings(s)->temperature = 1e-40;
    for (int k = 0; k < 60; k += 20) {
        mf_sampler_settings(s)->top_k = k;
        ck_assert_int_eq(mf_sampler_draw(s, logits, NULL, 0, 0), 5);
    }
    mf_sampler_settings(s)->temperature = 1;
    for (int i = 0; i < VOCAB; i++)
        logits[i] = i % 2 ? NAN : -INFINITY;
    ck_assert_int_eq(mf_sampler_draw(s, logits, NULL, 0, 0), -1);
    mf_sampler_free(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sampler");
    TCase *t = tcase_create("sampler");
    tcase_add_test(t, draws_follow_the_weights);
    tcase_add_test(t, the_likeliest_and_none);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
