/* prune: sums of experts against the routing record, sets by score and ties; copies of
 * parameters along the axis of experts. */
#include <math.h>
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
    const mf_prune_sums s = {n, gates, norm, both};
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
    mf_prune_sums to = {s.n, s.gates, s.norm, s.both};
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

static Suite *suite(void)
{
    Suite *s = suite_create("prune");
    TCase *t = tcase_create("prune");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_lowest_scores_go);
    tcase_add_test(t, scores_of_sums);
    tcase_add_test(t, sums_of_a_layer);
    tcase_add_test(t, copies_of_parameters);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
