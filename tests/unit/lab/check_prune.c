/* prune: sums of experts against the routing record, sets by score and ties; copies of
 * parameters along the axis of experts; merging: assignments against all permutations, groups
 * by hand, copies of an expert in another order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/rng.h"
#include "check_main.h"
#include "lab/prune/prune_parts.h"
#include "tests/lib/program.h"
#include "model/layer_model.h"

enum { E = 4, T = 96, K = 2 };

static void near(double got, double wanted, double tolerance)
{
    ck_assert_msg(fabs(got - wanted) <= tolerance, "expected %.12g, found %.12g", wanted, got);
}

START_TEST(the_lowest_scores_go)
{
    static const double score[] = {3, 1, 2, 1, 5, 2}; /* of equal scores the higher number */
    static const bool wanted[][6] = {{true, true, true, true, true, true},
                                     {true, true, true, false, true, true},
                                     {true, false, true, false, true, true},
                                     {true, false, true, false, true, false},
                                     {true, false, false, false, true, false}};
    for (int n = 0; n < 5; n++) {
        bool kept[6];
        mf_prune_keep(score, 6, n, kept);
        ck_assert(memcmp(kept, wanted[n], sizeof kept) == 0);
    }
}
END_TEST

START_TEST(scores_of_sums)
{
    double n[] = {4, 0}, gates[] = {2, 0}, norm[] = {12, 0}, both[] = {5, 0};
    const mf_prune_sums s = {n, gates, norm, both, NULL};
    static const double wanted[] = {4, 2, 3, 1.25};
    for (int by = MF_PRUNE_COUNT; by <= MF_PRUNE_REAP; by++) {
        near(mf_prune_score((mf_prune_by)by, &s, 0), wanted[by], 0);
        near(mf_prune_score((mf_prune_by)by, &s, 1), 0, 0); /* an expert that no token uses */
    }
    ck_assert(isnan(mf_prune_score(MF_PRUNE_RANDOM, &s, 0)));
}
END_TEST

/* ---- a layer ---- */

typedef struct sums {
    double n[E], gates[E], norm[E], both[E];
} sums;

static sums run(const mf_model_graph *mg)
{
    sums s = {0};
    mf_prune_sums to = {s.n, s.gates, s.norm, s.both, NULL};
    layer_run(mg);
    ck_assert_int_eq(mf_prune_sums_add(mg, 0, &to), MF_OK);
    return s;
}

/* Counts and gates are those of the record; an expert whose last weights are 4 times as large
 * has 4 times the norms, to the bit, and an expert whose last weights are 0 has the score 0. */
START_TEST(sums_of_a_layer)
{
    static const char *const set[] = {"moe.top_k=2"};
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = 4, .seq = 24, .want_prob = true, .want_outputs = true};
    mf_session *s;
    mf_model_graph *mg;
    mf_batch *b;
    layer_open(0, NULL, 1, set, &shape, &s, &mg);
    ck_assert_int_eq(mf_batch_new(4, 24, &b), MF_OK);
    mf_batcher_fill(s->train, 0, b);
    mf_batch_feed(b, mg);
    const sums was = run(mg);
    double n[E] = {0}, gates[E] = {0};
    const int32_t *chosen = mf_tensor_host(mg->moe[0].routing.chosen);
    const float *gate = mf_tensor_host(mg->moe[0].gate);
    for (int r = 0; r < T * K; r++) {
        n[chosen[r]]++;
        gates[chosen[r]] += (double)gate[r];
    }
    for (int e = 0; e < E; e++) {
        near(was.n[e], n[e], 0);
        near(was.gates[e], gates[e], 1e-5);
        ck_assert(was.n[e] > 0 && was.norm[e] > 0);
        ck_assert(was.both[e] <= was.norm[e] && was.both[e] > 0);
    }
    mf_param *last = mf_store_find(s->model->store, "layers.0.expert.w2");
    ck_assert(last && last->shape.dim[0] == E);
    float *w = mf_param_edit(last);
    const int64_t each = last->count / E;
    for (int64_t i = 0; i < each; i++) {
        w[each + i] *= 4;
        w[3 * each + i] = 0;
    }
    const sums now = run(mg);
    for (int e = 0; e < E; e++) {
        const double factor = e == 1 ? 4 : e == 3 ? 0 : 1;
        near(now.n[e], was.n[e], 0);
        near(now.norm[e], factor * was.norm[e], 0);
        near(now.both[e], factor * was.both[e], 0);
    }
    mf_batch_free(b);
    mf_model_graph_free(mg);
    mf_session_close(s);
}
END_TEST

/* Rows of the kept experts, in their order; a plugin without an axis of experts is named. */
START_TEST(copies_of_parameters)
{
    static const bool keep[E] = {true, false, true, true};
    bool kept_rows[E];
    bool *kept[2] = {kept_rows, kept_rows};
    const mf_model_shape shape = {.mode = MF_MODE_EVAL, .batch = 4, .seq = 24};
    memcpy(kept_rows, keep, sizeof keep);
    for (int plugin = 0; plugin < 2; plugin++) {
        const char *router = plugin == 0 ? "router.plugin=mlp" : "router.plugin=residual";
        const char *more[] = {router, "model.layers=2", "moe.experts=4"},
                   *fewer[] = {router, "model.layers=2", "moe.experts=3"};
        mf_session *a, *b;
        mf_model_graph *x, *y;
        layer_open(0, NULL, 3, more, &shape, &a, &x);
        layer_open(0, NULL, 3, fewer, &shape, &b, &y);
        const int rc = mf_prune_copy(a->model, b->model, kept);
        if (plugin == 1) {
            ck_assert_int_eq(rc, MF_ECONFIG);
            ck_assert_msg(strstr(mf_error_message(), "layers.1.router.") &&
                              strstr(mf_error_message(), "expected one axis of experts"),
                          "%s", mf_error_message());
            mf_error_clear();
        } else {
            ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
        }
        for (int i = 0; plugin == 0 && i < mf_store_count(b->model->store); i++) {
            mf_param *p = mf_store_at(b->model->store, i),
                     *q = mf_store_find(a->model->store, p->name);
            const float *now = mf_param_host(p), *was = mf_param_host(q);
            if (p->count == q->count) {
                ck_assert(memcmp(now, was, (size_t)p->count * sizeof *now) == 0);
                continue;
            }
            ck_assert_int_eq(p->count / 3,
                             q->count / 4); /* experts come first in all of them */
            const int64_t n = p->count / 3;
            for (int e = 0, to = 0; e < E; e++)
                if (keep[e])
                    ck_assert(memcmp(now + n * to++, was + n * e, (size_t)n * sizeof *now) ==
                              0);
        }
        mf_model_graph_free(x);
        mf_model_graph_free(y);
        mf_session_close(a);
        mf_session_close(b);
    }
}
END_TEST

/* ---- merging ---- */

static double best_of_all(const double *cost, int64_t n, int64_t row, bool *used)
{
    double best = INFINITY;
    if (row == n) return 0;
    for (int64_t j = 0; j < n; j++) {
        if (used[j]) continue;
        used[j] = true;
        best = fmin(best, cost[row * n + j] + best_of_all(cost, n, row + 1, used));
        used[j] = false;
    }
    return best;
}

static double sum_of(const double *cost, int64_t n, const int64_t *column)
{
    bool used[64] = {false};
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        ck_assert(column[i] >= 0 && column[i] < n && !used[column[i]]);
        used[column[i]] = true;
        sum += cost[i * n + column[i]];
    }
    return sum;
}

/* The least sum of all permutations, with ties and negative costs; each column once, also of
 * costs that are not finite. */
START_TEST(assignments)
{
    const uint64_t stream = mf_rng_stream("check_prune");
    double cost[64 * 64];
    int64_t column[64];
    for (int64_t n = 1; n <= 6; n++)
        for (int draw = 0; draw < 60; draw++) {
            bool used[6] = {false};
            for (int64_t i = 0; i < n * n; i++) {
                const double x =
                    (double)mf_rng_uniform(7, stream, (uint64_t)n, (uint64_t)(draw * 100 + i));
                cost[i] = draw % 2 ? floor(4 * x) : 10 * x - 5;
            }
            ck_assert_int_eq(mf_prune_assign(cost, n, column), MF_OK);
            near(sum_of(cost, n, column), best_of_all(cost, n, 0, used), 1e-12);
        }
    for (int64_t i = 0; i < 64 * 64; i++) /* the inverse of i -> 5 i + 3 mod 64 */
        cost[i] = i / 64 == (5 * (i % 64) + 3) % 64 ? -1 : 0;
    ck_assert_int_eq(mf_prune_assign(cost, 64, column), MF_OK);
    near(sum_of(cost, 64, column), -64, 0);
    for (int64_t i = 0; i < 25; i++)
        cost[i] = i % 3 ? (double)NAN : (double)INFINITY;
    ck_assert_int_eq(mf_prune_assign(cost, 5, column), MF_OK);
    (void)sum_of(cost, 5, column);
}
END_TEST

/* Experts 0 and 2 have opposite logits to 1, and 3 is as 1; the last token is padding. */
START_TEST(groups_by_logits)
{
    static const float logit[] = {1,  -1, .5f, -1, 2,  -2, 1,   -2, 10, 12,
                                  11, 9,  -1,  1,  -1, 1,  100, 0,  0,  0};
    static const float mask[] = {1, 1, 1, 1, 0};
    static const bool first[] = {true, true, false, false},
                      other[] = {false, false, true, true}, one[] = {false, true, false, false};
    double alike[E * E] = {0}, again[E * E] = {0}, none[E * E] = {0};
    float prob[5 * E];
    int32_t into[E];
    mf_prune_alike_add(logit, 5, E, mask, false, alike);
    double by_hand = 0;
    for (int t = 0; t < 4; t++) {
        double mean = 0;
        for (int e = 0; e < E; e++)
            mean += (double)logit[t * E + e] / E;
        by_hand += ((double)logit[t * E + 2] - mean) * ((double)logit[t * E] - mean);
    }
    near(alike[2 * E], by_hand, 1e-12);
    mf_prune_group(alike, E, first, into);
    ck_assert(into[0] == 0 && into[1] == 1 && into[2] == 0 && into[3] == 1);
    mf_prune_group(alike, E, other, into);
    ck_assert(into[0] == 2 && into[1] == 3 && into[2] == 2 && into[3] == 3);
    mf_prune_group(alike, E, one, into);
    for (int e = 0; e < E; e++)
        ck_assert_int_eq(into[e], 1);
    /* probabilities have the same logarithms, but for a sum of the token */
    for (int t = 0; t < 5; t++) {
        double sum = 0;
        for (int e = 0; e < E; e++)
            sum += exp((double)logit[t * E + e]);
        for (int e = 0; e < E; e++)
            prob[t * E + e] = (float)(exp((double)logit[t * E + e]) / sum);
    }
    mf_prune_alike_add(prob, 5, E, mask, true, again);
    for (int i = 0; i < E * E; i++)
        near(again[i], alike[i], 1e-5);
    mf_prune_group(none, E, first, into); /* nothing is known: the lowest number */
    ck_assert(into[2] == 0 && into[3] == 0);
}
END_TEST

/* Writes the units of expert `from` to expert `to` in the order 5 i + 3. */
static void copy_in_other_order(mf_param *p, int axis, int64_t h, int64_t from, int64_t to)
{
    float *v = mf_param_edit(p);
    const int64_t each = p->count / E, columns = p->shape.dim[p->shape.rank - 1];
    for (int64_t i = 0; i < each; i++) {
        const int64_t width = p->shape.rank == 3 ? columns : 1;
        const int64_t row = i / width, column = i % width;
        int64_t at = i;
        if (axis == 1) at = (row / h * h + (5 * row + 3) % h) * width + column;
        if (axis == 2) at = row * width + (5 * column + 3) % h;
        v[to * each + i] = v[from * each + at];
    }
}

static double farthest(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* An expert that is another one in another order merges to the same function if hidden units
 * are matched, and does not if they are not; what is undone has the old bits. */
START_TEST(copies_in_another_order)
{
    static const char *const plugins[] = {"mlp", "swiglu"};
    static const char *const names[2][4] = {{"w1", "b1", "w2", "b2"},
                                            {"w13", "b13", "w2", "b2"}};
    static const int axes[] = {1, 1, 2, 0};
    static const int32_t into[E] = {0, 1, 0, 3};
    static const double weight[E] = {3, 1, 5, 0};
    enum { H = 32 };
    for (int plugin = 0; plugin < 2; plugin++) {
        char word[64];
        snprintf(word, sizeof word, "expert.plugin=%s", plugins[plugin]);
        const char *set[] = {word, "expert.bias=yes", "expert.hidden=32"};
        const mf_model_shape shape = {.mode = MF_MODE_EVAL, .batch = 4, .seq = 24};
        mf_session *s;
        mf_model_graph *mg;
        mf_param *p[4];
        float *was[4];
        mf_prune_undo undo = {0};
        layer_open(0, NULL, 3, set, &shape, &s, &mg);
        for (int i = 0; i < 4; i++) {
            char name[64];
            snprintf(name, sizeof name, "layers.0.expert.%s", names[plugin][i]);
            p[i] = mf_store_find(s->model->store, name);
            ck_assert_msg(p[i], "%s", name);
            float *v = mf_param_edit(p[i]);
            if (p[i]->shape.rank == 2)
                for (int64_t k = 0; k < p[i]->count; k++)
                    v[k] = (float)sin((double)k);
            copy_in_other_order(p[i], axes[i], H, 0, 2);
            was[i] = malloc((size_t)p[i]->count * sizeof(float));
            memcpy(was[i], v, (size_t)p[i]->count * sizeof(float));
        }
        for (int aligned = 0; aligned < 2; aligned++) {
            double most = 0;
            ck_assert_msg(mf_prune_merge(s->model, 0, into, weight, aligned, &undo) == MF_OK,
                          "%s", mf_error_message());
            for (int i = 0; i < 4; i++) {
                const float *v = mf_param_host(p[i]);
                const int64_t each = p[i]->count / E;
                most = fmax(most, farthest(v, was[i], each));
                ck_assert(memcmp(v + each, was[i] + each, 3 * (size_t)each * sizeof *v) == 0);
            }
            if (aligned)
                ck_assert_msg(most < 1e-7, "%s: %g", plugins[plugin], most);
            else
                ck_assert_msg(most > 0.01, "%s: %g", plugins[plugin], most);
            mf_prune_undo_all(s->model, &undo);
            for (int i = 0; i < 4; i++)
                ck_assert(memcmp(mf_param_host(p[i]), was[i],
                                 (size_t)p[i]->count * sizeof(float)) == 0);
        }
        for (int i = 0; i < 4; i++)
            free(was[i]);
        mf_model_graph_free(mg);
        mf_session_close(s);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("prune");
    TCase *t = tcase_create("prune");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_lowest_scores_go);
    tcase_add_test(t, scores_of_sums);
    tcase_add_test(t, sums_of_a_layer);
    tcase_add_test(t, copies_of_parameters);
    tcase_add_test(t, assignments);
    tcase_add_test(t, groups_by_logits);
    tcase_add_test(t, copies_in_another_order);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
