/* sequences: losses within each sequence, and sums over tokens, in graphs with sequences of
 * length model.seq and of other lengths, with padding and with sequences of only padding. They
 * are compared with the formulas, computed here from probabilities and gates. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "tests/lib/program.h"
#include "model/layer_model.h"
#include "run/metrics/routing_tally.h"

#include <math.h>
#include <string.h>

enum { B = 6, E = 4, K = 2, MODEL_SEQ = 24 };

/* Graphs with `seq` <= MODEL_SEQ tokens per sequence. B * seq is 48, 72 or 144, always a
 * multiple of MODEL_SEQ. So code that used the model's length would compute wrong results
 * without an error. */
typedef struct graph {
    mf_session *s;
    mf_model_graph *mg;
    int seq, real;    /* real: number of sequences with tokens */
    double sum[B][E]; /* sum of the gates of each expert */
} graph;

/* Fills the inputs. If masked, example b has seq - b tokens, and the last example has none. */
static void fill(graph *x, bool masked)
{
    mf_batch *batch = NULL;
    ck_assert_int_eq(mf_batch_new(B, x->seq, &batch), MF_OK);
    for (int t = 0; t < B * x->seq; t++) {
        const int b = t / x->seq, at = t % x->seq;
        batch->tokens[t] = 7 * b + 3 * at;
        batch->targets[t] = 5 * at;
        batch->positions[t] = at;
        batch->sequence[t] = b;
        batch->labels[t] = -1;
        batch->mask[t] = !masked || (b < B - 1 && at < x->seq - b);
        if (batch->mask[t] == 0) batch->targets[t] = -1;
    }
    mf_batch_feed(batch, x->mg);
    x->real = masked ? B - 1 : B;
    mf_batch_free(batch);
}

static void open_graph(graph *x, int seq, bool masked, int n_more, const char *const *more)
{
    static const char *const own[] = {"moe.top_k=2", "moe.renormalize=yes"};
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = B,
                                  .seq = seq,
                                  .masked = masked,
                                  .want_prob = true,
                                  .no_reuse = true};
    *x = (graph){.seq = seq};
    layer_open(2, own, n_more, more, &shape, &x->s, &x->mg);
    fill(x, masked);
    layer_run(x->mg);
    const mf_routing *r = &x->mg->moe[0].routing;
    const float *gate = mf_tensor_data(x->mg->moe[0].gate);
    const int32_t *chosen = mf_tensor_data(r->chosen);
    ck_assert_int_eq(r->batch, B);
    ck_assert_int_eq(r->seq, seq);
    for (int i = 0; i < B * seq * K; i++)
        if (chosen[i] >= 0) x->sum[i / K / seq][chosen[i]] += (double)gate[i];
}

static void close_graph(graph *x)
{
    mf_model_graph_free(x->mg);
    mf_session_close(x->s);
}

static double scalar(const mf_tensor *t)
{
    return (double)*(const float *)mf_tensor_data(t);
}

/* Var / mean^2 of the sums over the sequences that have tokens. */
static double expected(const graph *x, bool sample)
{
    const double n = (double)x->real * E;
    double mean = 0, square = 0;
    for (int b = 0; b < x->real; b++)
        for (int e = 0; e < E; e++)
            mean += x->sum[b][e] / n;
    for (int b = 0; b < x->real; b++)
        for (int e = 0; e < E; e++)
            square += (x->sum[b][e] - mean) * (x->sum[b][e] - mean);
    ck_assert_double_gt(square, 0.1); /* otherwise the test would be too weak */
    return square / (sample ? n - 1 : n) / (mean * mean);
}

static const int lengths[] = {8, 12, MODEL_SEQ};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

START_TEST(importance_by_sequence)
{
    static const char *const variances[] = {"regularizer.cv.variance=population",
                                            "regularizer.cv.variance=sample"};
    for (int i = 0; i < LENGTHS; i++)
        for (int masked = 0; masked < 2; masked++) {
            const char *set[] = {"regularizer.cv.plugin=cv_importance",
                                 "regularizer.cv.scope=sequence", variances[i % 2]};
            graph x;
            open_graph(&x, lengths[i], masked, 3, set);
            const double found = scalar(x.mg->regularizers[x.s->config->n_regularizers - 1]),
                         wanted = expected(&x, i % 2 == 1);
            ck_assert_msg(fabs(found - wanted) < 1e-5 * wanted,
                          "length %d, mask %d: expected %.8g, found %.8g", lengths[i], masked,
                          wanted, found);
            close_graph(&x);
        }
}
END_TEST

START_TEST(importance_of_noisy_topk)
{
    for (int i = 0; i < LENGTHS; i++)
        for (int masked = 0; masked < 2; masked++) {
            const char *set[] = {"router.plugin=noisy_topk", "router.scope=sequence",
                                 "router.importance_weight=10"};
            graph x;
            open_graph(&x, lengths[i], masked, 3, set);
            const double found = scalar(x.mg->loss) - scalar(x.mg->task_loss),
                         wanted = 10 * expected(&x, true);
            ck_assert_msg(fabs(found - wanted) < 1e-4 * wanted + 1e-5,
                          "length %d, mask %d: expected %.8g, found %.8g", lengths[i], masked,
                          wanted, found);
            close_graph(&x);
        }
}
END_TEST

START_TEST(probabilities_are_summed_over_real_tokens)
{
    for (int masked = 0; masked < 2; masked++) {
        graph x;
        mf_moe_tally *t;
        mf_layer_stats stats;
        float shares[MF_MOE_SHARES * E];
        double sum[E] = {0}, largest = 0, tokens = 0;
        open_graph(&x, lengths[1], masked, 0, NULL);
        const float *p = mf_tensor_data(x.mg->moe[0].routing.prob),
                    *mask = x.mg->mask ? mf_tensor_data(x.mg->mask) : NULL;
        for (int i = 0; i < B * x.seq; i++) {
            double most = 0;
            if (mask && mask[i] == 0) continue;
            for (int e = 0; e < E; e++) {
                sum[e] += (double)p[i * E + e];
                most = fmax(most, (double)p[i * E + e]);
            }
            largest += most;
            tokens++;
        }
        ck_assert_int_eq(mf_moe_tally_new(0, E, K, 0, &t), MF_OK);
        mf_moe_tally_add(t, &x.mg->moe[0]);
        mf_moe_tally_add(t, &x.mg->moe[0]); /* a second run adds to the sums, but the mean does
                                             * not change */
        mf_moe_tally_stats(t, shares, &stats);
        for (int e = 0; e < E; e++)
            ck_assert_double_eq_tol((double)stats.prob_sum[e], 2 * sum[e], 1e-3);
        double rows = 0;
        for (int e = 0; e < E; e++)
            rows += stats.count[e];
        ck_assert_double_eq(rows, 2 * K * tokens);
        for (int e = 0; e < E; e++)
            ck_assert(stats.load[e] == (float)(stats.count[e] / rows));
        ck_assert_double_eq_tol(stats.max_prob, largest / tokens, 1e-5);
        /* max_prob belongs to the most probable expert; top_prob is the mean of both
         * chosen experts */
        ck_assert_double_gt(stats.max_prob, stats.top_prob);
        mf_moe_out without =
            x.mg->moe[0]; /* like a router with assignments but no probabilities */
        without.prob_sum = without.max_prob = NULL;
        mf_moe_tally_add(t, &without);
        mf_moe_tally_stats(t, shares, &stats);
        ck_assert(!stats.prob_sum && isnan(stats.max_prob));
        mf_moe_tally_reset(t);
        mf_moe_tally_add(t, &x.mg->moe[0]);
        mf_moe_tally_stats(t, shares, &stats);
        ck_assert_double_eq_tol((double)stats.prob_sum[0], sum[0], 1e-3);
        mf_moe_tally_free(t);
        close_graph(&x);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sequences");
    TCase *c = tcase_create("sequences");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, importance_by_sequence);
    tcase_add_test(c, importance_of_noisy_topk);
    tcase_add_test(c, probabilities_are_summed_over_real_tokens);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
