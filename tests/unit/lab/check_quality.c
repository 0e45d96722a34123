/* Statistics of generated texts, compared with values computed by hand, and the likelihood of
 * texts, which must equal the loss of a graph. */
#include <check.h>
#include <math.h>
#include <string.h>
#include "check_main.h"
#include "generate/quality.h"
#include "model/heads_model.h"

static mf_repetition of(int n, const char *const *text)
{
    mf_piece_of_text list[4];
    mf_repetition r;
    for (int i = 0; i < n; i++)
        list[i] = (mf_piece_of_text){text[i], strlen(text[i])};
    ck_assert_int_eq(mf_repetition_of(n, list, &r), MF_OK);
    return r;
}

static void expect(double got, double want)
{
    ck_assert_msg(fabs(got - want) < 1e-12, "%.15g, expected %.15g", got, want);
}

START_TEST(repetition_by_hand)
{
    static const char *const texts[] = {"a b a b a", " a  b\n\tc "};
    static const double rep[] = {0, 3.0 / 8, 2.0 / 6, 1.0 / 4, 0},
                        distinct[] = {0, 3.0 / 8, 3.0 / 6, 3.0 / 4, 1};
    const mf_repetition r = of(2, texts);
    ck_assert_int_eq(r.words, 8);
    for (int n = 1; n <= 4; n++) {
        expect(r.rep[n], rep[n]);
        expect(r.distinct[n], distinct[n]);
    }
    expect(r.diversity, 4.0 / 6 * 3 / 4);
    expect(r.again, 3.0 / 6);
}
END_TEST

START_TEST(words_that_begin_alike_are_two)
{
    static const char *const texts[] = {"the then The the"};
    expect(of(1, texts).rep[1], 1.0 / 4);
}
END_TEST

START_TEST(nothing_is_no_number)
{
    static const char *const texts[] = {"", " \n"}, *const one[] = {"word"};
    mf_repetition r = of(2, texts);
    ck_assert_int_eq(r.words, 0);
    ck_assert(isnan(r.rep[1]) && isnan(r.distinct[1]) && isnan(r.diversity) && isnan(r.again));
    r = of(1, one);
    expect(r.rep[1], 0);
    ck_assert(isnan(r.rep[2]) && isnan(r.again));
}
END_TEST

/* The text repeats a word 49 or 50 words later. Only the first distance counts as
 * a repetition. */
START_TEST(again_looks_as_far_as_49_words)
{
    for (int far = 49; far <= 50; far++) {
        char text[512] = "x";
        const char *const texts[] = {text};
        for (int i = 1; i < far; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), " w%d", i);
        strcat(text, " x");
        expect(of(1, texts).again, far == 49 ? 1.0 / far : 0);
    }
}
END_TEST

/* The likelihood must equal the loss of a graph that sees the whole text at once. */
START_TEST(likelihood_is_the_loss)
{
    static const int32_t text[SEQ] = {3, 10, 0, 7, 7};
    const mf_model_shape shape = {.mode = MF_MODE_EVAL, .batch = 1, .seq = SEQ};
    made x;
    mf_model_graph *mg;
    make(&x, "heads = 8\nhead_gates = yes\nlogit_scale = 1.25\n");
    ck_assert_int_eq(mf_model_graph_new(x.model, &shape, &mg), MF_OK);
    feed(mg);
    for (int i = 0; i < SEQ; i++) {
        ((int32_t *)mf_tensor_data(mg->tokens))[i] = text[i];
        ((int32_t *)mf_tensor_data(mg->targets))[i] = i >= 1 && i + 1 < SEQ ? text[i + 1] : -1;
    }
    ck_assert_int_eq(mf_graph_run(mg->g, &(mf_run){.forward_only = true}), MF_OK);
    const double loss = (double)*(float *)mf_tensor_data(mg->task_loss);
    for (int cache = 0; cache < 2; cache++) {
        mf_generator *g;
        double sum;
        ck_assert_int_eq(mf_generator_new(x.model, cache, &g), MF_OK);
        /* the first call must not affect the second */
        for (int twice = 0; twice < 2; twice++) {
            ck_assert_int_eq(mf_log_likelihood(g, VOCAB, text, 2, text + 2, 3, &sum), MF_OK);
            ck_assert_msg(fabs(sum + 3 * loss) < 1e-5, "%.9g, loss %.9g", sum, loss);
        }
        mf_generator_free(g);
    }
    mf_model_graph_free(mg);
    unmake(&x);
}
END_TEST

/* The index is checked before the logits are read. With such a large index, reading them
 * would crash. */
START_TEST(ids_outside_the_vocabulary_are_refused)
{
    static const int32_t wrong[] = {-1, VOCAB, INT32_MIN / 2, INT32_MAX / 2};
    const int32_t prompt[] = {1, 2};
    made x;
    mf_generator *g;
    make(&x, "heads = 8\n");
    ck_assert_int_eq(mf_generator_new(x.model, true, &g), MF_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int64_t at = 0; at < 3; at++) {
            int32_t ids[] = {3, 4, 5};
            double sum;
            ids[at] = wrong[i];
            ck_assert_int_eq(mf_log_likelihood(g, VOCAB, prompt, 2, ids, 3, &sum), MF_EINPUT);
        }
    mf_generator_free(g);
    unmake(&x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("quality");
    TCase *c = tcase_create("quality");
    tcase_add_test(c, repetition_by_hand);
    tcase_add_test(c, words_that_begin_alike_are_two);
    tcase_add_test(c, nothing_is_no_number);
    tcase_add_test(c, again_looks_as_far_as_49_words);
    tcase_add_test(c, likelihood_is_the_loss);
    tcase_add_test(c, ids_outside_the_vocabulary_are_refused);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
