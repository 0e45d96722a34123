/* overflow: treatment of assignments over capacity: capacities, admission, reassignment, gates,
 * outputs of dropped tokens. The results are compared with the published formulas, which are
 * computed here from the layer's own probabilities. The model is one block of four experts with
 * top-1 routing. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "model/layer_model.h"
#include "run/metrics/routing_tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, T = 24, TOKENS = B * T, E = 4, DIM = 16 };

typedef struct layer {
    mf_session *s;
    mf_model_graph *mg;
    const float *prob, *gate;
    const int32_t *chosen, *admitted;
    int n[E], took[E]; /* number of assignments of each expert: chosen, admitted */
    double dropped, moved;
} layer;

static void open_layer(layer *l, int n_more, const char *const *more)
{
    static const char *const own[] = {"moe.top_k=1", "moe.renormalize=no",
                                      "moe.capacity_factor=1"};
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = B, .seq = T, .want_prob = true, .no_reuse = true};
    mf_batch *batch = NULL;
    *l = (layer){0};
    layer_open(3, own, n_more, more, &shape, &l->s, &l->mg);
    ck_assert_int_eq(mf_batch_new(B, T, &batch), MF_OK);
    mf_batcher_fill(l->s->train, 0, batch);
    mf_batch_feed(batch, l->mg);
    layer_run(l->mg);
    mf_batch_free(batch);
    const mf_moe_out *out = &l->mg->moe[0];
    l->prob = mf_tensor_host(out->routing.prob);
    l->gate = mf_tensor_host(out->gate);
    l->chosen = mf_tensor_host(out->routing.chosen);
    l->admitted = mf_tensor_host(out->routing.admitted);
    mf_moe_overflow(out, &l->dropped, &l->moved);
    int dropped = 0, moved = 0;
    for (int t = 0; t < TOKENS; t++) {
        l->n[l->chosen[t]]++;
        if (l->admitted[t] >= 0) l->took[l->admitted[t]]++;
        dropped += l->admitted[t] < 0;
        moved += l->admitted[t] >= 0 && l->admitted[t] != l->chosen[t];
    }
    ck_assert_int_eq(dropped, (int)l->dropped);
    ck_assert_int_eq(moved, (int)l->moved);
}

static void close_layer(layer *l)
{
    mf_model_graph_free(l->mg);
    mf_session_close(l->s);
}

/* C_i = C0 + floor(min(k max(0, n_i - TOKENS/E), limit C0)), C0 = floor(phi TOKENS/E), phi = 1.
 * n_i: number of tokens that choose expert i. */
static int capacity(int n, double k, double limit)
{
    const int base = TOKENS / E;
    const double more = k * fmax(0, n - (double)TOKENS / E);
    return base + (int)floor(fmin(more, limit * base) + 1e-6);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

START_TEST(what_is_over_is_dropped)
{
    layer l;
    open_layer(&l, 0, NULL);
    int dropped = 0;
    for (int e = 0; e < E; e++) {
        ck_assert_int_eq(l.took[e], least(l.n[e], TOKENS / E));
        dropped += l.n[e] - l.took[e];
    }
    ck_assert_int_gt(dropped, 3); /* otherwise the test would be too weak */
    ck_assert_int_eq(dropped, (int)l.dropped);
    ck_assert_int_eq((int)l.moved, 0);
    close_layer(&l);
}
END_TEST

START_TEST(adaptive_capacity_gives_room)
{
    static const char *const slopes[] = {"moe.adaptive_capacity=0.3",
                                         "moe.adaptive_capacity=3"};
    static const double k[] = {0.3, 3};
    for (int i = 0; i < 2; i++) {
        const char *set[] = {slopes[i], "moe.adaptive_limit=0.25"};
        layer l;
        open_layer(&l, 2, set);
        for (int e = 0; e < E; e++)
            ck_assert_int_eq(l.took[e], least(l.n[e], capacity(l.n[e], k[i], 0.25)));
        close_layer(&l);
    }
}
END_TEST

START_TEST(admission_by_lot)
{
    const char *set[] = {"moe.priority=drawn"};
    layer a, b;
    open_layer(&a, 0, NULL);
    open_layer(&b, 1, set);
    int differ = 0;
    for (int e = 0; e < E; e++)
        ck_assert_int_eq(a.took[e], b.took[e]);
    for (int t = 0; t < TOKENS; t++) {
        ck_assert_int_eq(a.chosen[t], b.chosen[t]);
        differ += a.admitted[t] != b.admitted[t];
    }
    ck_assert_int_gt(differ, 0);
    close_layer(&a);
    close_layer(&b);
}
END_TEST

/* Token (b, t) is admitted if fewer tokens of its expert come before it than the capacity. The
 * order is [seq, batch], in which early tokens of all sequences come first. */
START_TEST(admission_by_time)
{
    const char *set[] = {"moe.priority=time"};
    int kept[E] = {0}, dropped_of_first = 0, dropped = 0;
    layer l;
    open_layer(&l, 1, set);
    for (int t = 0; t < T; t++)
        for (int b = 0; b < B; b++) {
            const int row = b * T + t, e = l.chosen[row];
            ck_assert_int_eq(l.admitted[row], kept[e]++ < TOKENS / E ? e : -1);
            dropped += l.admitted[row] < 0;
            dropped_of_first += b == 0 && l.admitted[row] < 0;
        }
    ck_assert_int_gt(dropped, 3);
    /* in the order [batch, seq], no token of the first sequence would be dropped */
    ck_assert_int_gt(dropped_of_first, 0);
    close_layer(&l);
}
END_TEST

/* The published procedure processes the assignments over capacity in the order of their
 * experts, then in the order of the tokens, because there is no importance. Each assignment
 * goes to the expert with the largest p / (1 + load) that has capacity left. */
START_TEST(overflow_finds_another_expert)
{
    const char *set[] = {"moe.overflow=reassign"};
    int load[E] = {0}, to[TOKENS], kept[E] = {0};
    layer l;
    open_layer(&l, 1, set);
    for (int t = 0; t < TOKENS; t++) {
        const int e = l.chosen[t];
        to[t] = kept[e] < TOKENS / E ? e : -1;
        kept[e] += to[t] >= 0;
        load[e] += to[t] >= 0;
    }
    int moved = 0;
    for (int from = 0; from < E; from++)
        for (int t = 0; t < TOKENS; t++) {
            int best = -1;
            double most = -1;
            if (l.chosen[t] != from || to[t] >= 0) continue;
            for (int e = 0; e < E; e++) {
                const double score = (double)l.prob[t * E + e] / (1 + load[e]);
                if (load[e] >= TOKENS / E || score <= most) continue;
                best = e;
                most = score;
            }
            ck_assert_int_ge(best, 0); /* the sum of C_i is TOKENS, so all tokens fit */
            to[t] = best;
            load[best]++;
            moved++;
        }
    ck_assert_int_gt(moved, 3);
    ck_assert_int_eq(moved, (int)l.moved);
    ck_assert_int_eq((int)l.dropped, 0);
    for (int t = 0; t < TOKENS; t++) {
        ck_assert_int_eq(l.admitted[t], to[t]);
        ck_assert_float_eq_tol(l.gate[t], l.prob[t * E + to[t]], 1e-6f);
    }
    close_layer(&l);
}
END_TEST

START_TEST(a_bound_on_reassignment_and_the_first_gate)
{
    const char *set[] = {"moe.overflow=reassign", "moe.max_reassign=3",
                         "moe.reassign_gate=first"};
    layer l;
    open_layer(&l, 3, set);
    ck_assert_int_eq((int)l.moved, 3);
    ck_assert_int_gt((int)l.dropped, 0);
    for (int t = 0; t < TOKENS; t++)
        ck_assert_float_eq_tol(l.gate[t], l.prob[t * E + l.chosen[t]], 1e-6f);
    close_layer(&l);
}
END_TEST

/* Outputs of dropped tokens: zero, the layer's input, or the input times p. Weights and batch
 * are the same in all runs, so the outputs of other tokens are equal in all runs. */
START_TEST(dropped_tokens_pass_on_their_input)
{
    const char *ways[] = {"moe.dropped=residual", "moe.dropped=input",
                          "moe.dropped=scaled_input"};
    float norm[3][TOKENS];
    double p[TOKENS];
    bool dropped[TOKENS];
    for (int w = 0; w < 3; w++) {
        layer l;
        open_layer(&l, 1, &ways[w]);
        const float *y = mf_tensor_host(l.mg->moe[0].y);
        ck_assert_ptr_nonnull(y);
        for (int t = 0; t < TOKENS; t++) {
            double sum = 0;
            for (int c = 0; c < DIM; c++)
                sum += (double)y[t * DIM + c] * (double)y[t * DIM + c];
            norm[w][t] = (float)sqrt(sum / DIM);
            p[t] = (double)l.gate[t];
            dropped[t] = l.admitted[t] < 0;
        }
        close_layer(&l);
    }
    for (int t = 0; t < TOKENS; t++) {
        if (!dropped[t]) {
            ck_assert_float_eq_tol(norm[0][t], norm[1][t], 1e-6f);
            ck_assert_float_eq_tol(norm[0][t], norm[2][t], 1e-6f);
            continue;
        }
        ck_assert_float_eq(norm[0][t], 0);
        ck_assert_float_eq_tol(norm[1][t], 1, 0.02f); /* the layer's input is RMS-normalized */
        ck_assert_float_eq_tol(norm[2][t], (float)p[t] * norm[1][t], 1e-5f);
    }
}
END_TEST

START_TEST(unit_gates)
{
    const char *set[] = {"moe.unit_gates=yes"};
    layer l;
    open_layer(&l, 1, set);
    for (int t = 0; t < TOKENS; t++)
        ck_assert_float_eq_tol(l.gate[t], 1, 1e-5f);
    close_layer(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("overflow");
    TCase *c = tcase_create("overflow");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, what_is_over_is_dropped);
    tcase_add_test(c, adaptive_capacity_gives_room);
    tcase_add_test(c, admission_by_lot);
    tcase_add_test(c, admission_by_time);
    tcase_add_test(c, overflow_finds_another_expert);
    tcase_add_test(c, a_bound_on_reassignment_and_the_first_gate);
    tcase_add_test(c, dropped_tokens_pass_on_their_input);
    tcase_add_test(c, unit_gates);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
