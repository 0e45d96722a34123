/* probe: means over clusters by hand; what changes of routing do to a layer whose experts are
 * known: the bits of no change, removals by label, exchanges, forced sets, ranks. */
#include <math.h>
#include "model/layer_model.h"
#include "check_main.h"
#include "lab/probe/probe_parts.h"
#include "tests/lib/program.h"

enum { E = 4, T = 96, K = 2 };

static void near(double got, double wanted, double tolerance)
{
    ck_assert_msg(fabs(got - wanted) <= tolerance, "expected %.12g, found %.12g", wanted, got);
}

START_TEST(cluster_means_by_hand)
{
    /* S = 6, 0, 3 over T = 2, 1, 3 tokens: m = 9 / 6 = 1.5; rests 3, -1.5, -1.5, whose squares
     * sum to 13.5; se = sqrt(3 / 2 x 13.5) / 6 = 0.75; t(.975, 2) = 4.302652729749464 */
    static const double sum[] = {6, 0, 0, 3}, tokens[] = {2, 1, 0, 3};
    mf_cluster_mean m = mf_cluster_mean_of(sum, tokens, 4);
    ck_assert_int_eq(m.clusters, 3);
    near(m.tokens, 6, 0);
    near(m.mean, 1.5, 1e-15);
    near(m.se, 0.75, 1e-15);
    near(m.lo, 1.5 - 0.75 * 4.302652729749464, 1e-9);
    near(m.hi, 1.5 + 0.75 * 4.302652729749464, 1e-9);
    const mf_three_sided p = mf_cluster_sides(&m, 0.5);
    near(p.above, mf_t_two_sided((1.5 - 0.5) / 0.75, 2), 1e-12);
    /* clusters of one token each: the interval of independent values */
    static const double x[] = {1, 2, 4, 7}, one[] = {1, 1, 1, 1};
    m = mf_cluster_mean_of(x, one, 4);
    const mf_estimate e = mf_estimate_of(x, 4);
    near(m.mean, e.mean, 1e-15);
    near(m.lo, e.lo, 1e-12);
    near(m.hi, e.hi, 1e-12);
    static const double zero[4];
    m = mf_cluster_mean_of(zero, tokens, 4);
    ck_assert(m.mean == 0 && m.se == 0 && m.lo == 0 && m.hi == 0);
    m = mf_cluster_mean_of(sum, tokens, 1);
    ck_assert(m.mean == 3 && isnan(m.se) && isnan(m.lo));
    m = mf_cluster_mean_of(zero, zero, 4);
    ck_assert(isnan(m.mean) && m.clusters == 0);
}
END_TEST

/* ---- a layer ---- */

typedef struct layer {
    mf_session *session;
    mf_model_graph *mg, *plain; /* with and without the inputs of probes */
    mf_arena *arena;
    mf_batch *batch;
} layer;

static void open(layer *x, const char *router, const char *top_k)
{
    char plugin[64], k[64];
    snprintf(plugin, sizeof plugin, "router.plugin=%s", router);
    snprintf(k, sizeof k, "moe.top_k=%s", top_k);
    const char *set[] = {plugin, k, "moe.force_causal=yes"};
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = 4, .seq = 24, .masked = true, .probe = true};
    layer_open(0, NULL, 3, set, &shape, &x->session, &x->mg);
    mf_model_shape plain = shape;
    plain.probe = false;
    ck_assert_int_eq(mf_model_graph_new(x->session->model, &plain, &x->plain), MF_OK);
    x->arena = mf_arena_new();
    ck_assert_int_eq(mf_batch_new(4, 24, &x->batch), MF_OK);
    mf_batcher_fill(x->session->train, 0, x->batch);
    mf_batch_feed(x->batch, x->mg);
    mf_batch_feed(x->batch, x->plain);
    ck_assert_int_eq(mf_probe_clear(x->session->model, x->mg), MF_OK);
}

static void shut(layer *x)
{
    mf_model_graph_free(x->mg);
    mf_model_graph_free(x->plain);
    mf_batch_free(x->batch);
    mf_arena_free(x->arena);
    mf_session_close(x->session);
}

/* Runs with the change (NULL: none), and copies the losses and choices of tokens. */
static void run(layer *x, const mf_probe_change *c, const mf_probe_base *base, float *loss,
                int32_t *chosen)
{
    const mf_model *m = x->session->model;
    ck_assert_int_eq(mf_probe_apply(m, x->mg, c, base), MF_OK);
    layer_run(x->mg);
    memcpy(loss, mf_tensor_host(x->mg->row_loss), T * sizeof *loss);
    const size_t rows = (size_t)x->mg->moe[0].routing.rows;
    if (chosen)
        memcpy(chosen, mf_tensor_host(x->mg->moe[0].routing.chosen), rows * sizeof *chosen);
    ck_assert_int_eq(mf_probe_clear_of(m, x->mg, c), MF_OK);
}

static const mf_probe_change *last(const mf_probe_list *l)
{
    return &l->change[l->n - 1];
}

static bool uses(const int32_t *chosen, int t, int k, int e)
{
    for (int j = 0; j < k; j++)
        if (chosen[t * k + j] == e) return true;
    return false;
}

START_TEST(no_change_has_the_bits_of_no_probe)
{
    static const char *const routers[] = {"linear", "sigmoid_bias", "oracle", "top_p"};
    for (int i = 0; i < 4; i++) {
        layer x;
        float loss[T];
        mf_probe_list l = {0};
        mf_probe_base base = {0};
        open(&x, routers[i], i == 2 ? "1" : "2");
        layer_run(x.plain);
        const float plain = *(const float *)mf_tensor_host(x.plain->task_loss);
        run(&x, NULL, NULL, loss, NULL);
        ck_assert(*(const float *)mf_tensor_host(x.mg->task_loss) == plain);
        ck_assert_int_eq(mf_probe_bias(x.session->model, x.arena, 0, &l), MF_OK);
        ck_assert((x.mg->moe[0].route_bias != NULL) == (i < 2));
        for (int e = 0; i < 2 && e < l.n; e++) {
            run(&x, &l.change[e], &base, loss, NULL);
            ck_assert(*(const float *)mf_tensor_host(x.mg->task_loss) == plain);
        }
        shut(&x);
    }
}
END_TEST

/* The oracle gives label e to expert e, with gate 1. In the only layer a removal changes the
 * tokens of that label and no other bit; an exchange gives both labels the other's expert. */
START_TEST(a_removal_costs_the_topic_of_the_expert)
{
    layer x;
    float base[T], loss[T];
    int32_t chosen[T];
    mf_probe_list l = {0};
    open(&x, "oracle", "1");
    const mf_model *m = x.session->model;
    ck_assert_int_eq(mf_probe_remove(m, x.arena, MF_PROBE_DROP, "all", &l), MF_OK);
    ck_assert_int_eq(l.n, E);
    run(&x, NULL, NULL, base, chosen);
    for (int e = 0; e < E; e++) {
        int changed = 0;
        run(&x, &l.change[e], NULL, loss, NULL);
        for (int t = 0; t < T; t++) {
            ck_assert_int_eq(chosen[t], x.batch->labels[t] % E);
            ck_assert((loss[t] != base[t]) == (chosen[t] == e));
            changed += loss[t] != base[t];
        }
        l.change[e].a = changed;
    }
    /* twice exchanged is not exchanged; weights exchanged by hand are the exchange */
    ck_assert_int_eq(mf_probe_exchange(m, x.arena, "0.1-2", &l), MF_OK);
    run(&x, last(&l), NULL, loss, NULL);
    for (int t = 0; t < T; t++)
        ck_assert((loss[t] != base[t]) == (chosen[t] == 1 || chosen[t] == 2));
    int exchanged = 0;
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        if (!strstr(p->name, ".expert.")) continue;
        ck_assert_int_eq(p->shape.dim[0] % E, 0);
        const int64_t n = p->count / E;
        float *v = mf_param_edit(p), *spare = mf_alloc((size_t)n, sizeof *spare);
        memcpy(spare, v + n, (size_t)n * sizeof *v);
        memcpy(v + n, v + 2 * n, (size_t)n * sizeof *v);
        memcpy(v + 2 * n, spare, (size_t)n * sizeof *v);
        mf_free(spare);
        exchanged++;
    }
    ck_assert_int_ge(exchanged, 2);
    float by_hand[T];
    run(&x, NULL, NULL, by_hand, NULL);
    ck_assert(memcmp(by_hand, loss, sizeof loss) == 0);
    run(&x, last(&l), NULL, loss, NULL);
    ck_assert(memcmp(base, loss, sizeof loss) == 0);
    shut(&x);
}
END_TEST

/* Without an expert its tokens choose the next one, gates are the softmax without it, and the
 * other tokens have the same choice. */
START_TEST(the_next_choice_comes_in)
{
    layer x;
    float base[T], loss[T], prob[T * E];
    int32_t was[T * K], now[T * K];
    mf_probe_list l = {0};
    open(&x, "linear", "2");
    const mf_model *m = x.session->model;
    ck_assert_int_eq(mf_probe_remove(m, x.arena, MF_PROBE_NEXT, "0.3", &l), MF_OK);
    run(&x, NULL, NULL, base, was);
    memcpy(prob, mf_tensor_host(x.mg->moe[0].routing.prob), sizeof prob);
    run(&x, last(&l), NULL, loss, now);
    const float *without = mf_tensor_host(x.mg->moe[0].routing.prob),
                *gate = mf_tensor_host(x.mg->moe[0].gate);
    int used = 0;
    for (int t = 0; t < T; t++) {
        ck_assert(!uses(now, t, K, 3));
        ck_assert(without[t * E + 3] == 0);
        for (int e = 0; e < E - 1; e++)
            near((double)without[t * E + e] * (1 - (double)prob[t * E + 3]),
                 (double)prob[t * E + e], 2e-7);
        const double first = (double)prob[t * E + now[t * K]],
                     second = (double)prob[t * E + now[t * K + 1]];
        near((double)gate[t * K], first / (first + second), 2e-6);
        if (uses(was, t, K, 3)) {
            used++;
            continue;
        }
        ck_assert(memcmp(now + t * K, was + t * K, K * sizeof *now) == 0);
        near((double)loss[t], (double)base[t], 1e-6);
    }
    ck_assert(used > 0 && used < T);
    shut(&x);
}
END_TEST

START_TEST(forced_sets_ranks_and_biases)
{
    layer x;
    float base[T], loss[T];
    int32_t was[T * K], now[T * K];
    mf_probe_list l = {0};
    open(&x, "linear", "2");
    const mf_model *m = x.session->model;
    ck_assert_int_eq(mf_probe_force(m, x.arena, "0.0+2", &l), MF_OK);
    run(&x, NULL, NULL, base, was);
    run(&x, last(&l), NULL, loss, now);
    for (int t = 0; t < T; t++)
        ck_assert(uses(now, t, K, 0) && uses(now, t, K, 2));
    /* the choice of rank r becomes the third, and the other stays */
    ck_assert_int_eq(mf_probe_rank(m, x.arena, &l), MF_OK);
    ck_assert_int_eq(l.n, 1 + K);
    const mf_probe_base b = {.chosen = was, .sd = 0.25};
    run(&x, &l.change[1], &b, loss, now);
    for (int t = 0; t < T; t++) {
        ck_assert_int_eq(now[t * K], was[t * K + 1]);
        ck_assert(!uses(was, t, K, now[t * K + 1]));
    }
    run(&x, &l.change[2], &b, loss, now);
    for (int t = 0; t < T; t++) {
        ck_assert_int_eq(now[t * K], was[t * K]);
        ck_assert(!uses(was, t, K, now[t * K + 1]));
    }
    /* 8 deviations of 0.25 above a probability: always first, with the gate it had */
    ck_assert_int_eq(mf_probe_bias(m, x.arena, 8, &l), MF_OK);
    run(&x, &l.change[3 + 1], &b, loss, now);
    const float *gate = mf_tensor_host(x.mg->moe[0].gate),
                *prob = mf_tensor_host(x.mg->moe[0].routing.prob);
    for (int t = 0; t < T; t++) {
        ck_assert_int_eq(now[t * K], 1);
        const double p = (double)prob[t * E + 1], q = (double)prob[t * E + now[t * K + 1]];
        near((double)gate[t * K], p / (p + q), 2e-6);
    }
    shut(&x);
}
END_TEST

START_TEST(whole_probes)
{
    layer x;
    mf_probe_list l = {0};
    mf_probe_report *r = NULL;
    open(&x, "linear", "2");
    mf_session *s = x.session;
    ck_assert_int_eq(mf_probe_remove(s->model, x.arena, MF_PROBE_NEXT, "all", &l), MF_OK);
    ck_assert_int_eq(mf_probe_top_k(s->model, x.arena, -1, &l), MF_OK);
    ck_assert_int_eq(mf_probe_bias(s->model, x.arena, 0, &l), MF_OK);
    const mf_probe_options o = {.split = MF_SPLIT_VAL, .margin = 0.005, .by_label = true};
    ck_assert_msg(mf_probe_measure(s, &l, &o, &r) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(r->n, E + 1 + E);
    ck_assert_str_eq(r->unit, "windows");
    ck_assert_int_eq(r->labels, 8);
    double tokens = 0, share = 0;
    for (int i = 0; i < 8; i++)
        tokens += r->label_tokens[i];
    near(tokens, r->base.tokens, 0);
    for (int e = 0; e < E; e++) {
        double sum = 0;
        for (int i = 0; i < 8; i++)
            if (r->row[e].label[i].clusters > 0)
                sum += r->row[e].label[i].mean * r->label_tokens[i];
        near(sum / tokens, r->row[e].all.mean, 1e-9);
        share += r->row[e].share;
    }
    near(share, K, 0.02); /* the last token of a window has no target and is counted */
    for (int e = 0; e < E; e++)
        ck_assert(r->row[E + 1 + e].all.mean == 0 && r->row[E + 1 + e].all.se == 0 &&
                  r->row[E + 1 + e].verdict == MF_PROBE_REDUNDANT);
    ck_assert(*s->model->moe[0].top_k == 2); /* as before */
    ck_assert(r->sd[0] > 0 && r->sd[0] < 0.5);
    mf_probe_report_free(r);
    shut(&x);
}
END_TEST

/* A document of a stream ends with its last token, also across windows and batches; batches
 * that do not follow one another begin a new one; without an end, a window is a cluster. */
START_TEST(documents_of_a_stream)
{
    layer x;
    mf_batch_spec spec;
    mf_batcher *b = NULL;
    int32_t cluster[T];
    open(&x, "linear", "2");
    mf_session_eval_spec(x.session, MF_SPLIT_VAL, &spec);
    ck_assert_int_eq(mf_batcher_new(x.session->corpus, &spec, &b), MF_OK);
    mf_probe_texts t = {.batcher = b, .end = '.', .document = -1, .batch = -2};
    int32_t n = 0;
    for (int64_t batch = 0; batch < 3; batch++) {
        mf_batcher_fill(b, batch, x.batch);
        mf_probe_texts_take(&t, batch, x.batch, cluster);
        for (int i = 0; i < T; i++) {
            ck_assert_int_eq(cluster[i], n);
            n += x.batch->targets[i] == '.';
        }
    }
    ck_assert_int_gt(n, 2);
    ck_assert_int_eq(t.n, n + 1);
    mf_batcher_fill(b, 1, x.batch);
    mf_probe_texts_take(&t, 1, x.batch, cluster);
    ck_assert_int_eq(cluster[0], n + 1);
    t = (mf_probe_texts){.batcher = b, .windows = true, .document = -1, .batch = -2};
    mf_probe_texts_take(&t, 0, x.batch, cluster);
    for (int i = 0; i < T; i++)
        ck_assert_int_eq(cluster[i], i / 24);
    mf_batcher_free(b);
    shut(&x);
}
END_TEST

static void refused(int rc, const char *said)
{
    ck_assert_int_eq(rc, MF_EUSAGE);
    ck_assert_msg(strstr(mf_error_message(), said) != NULL, "%s", mf_error_message());
    mf_error_clear();
}

START_TEST(refusals)
{
    layer x;
    mf_probe_list l = {0};
    mf_arena *a;
    open(&x, "linear", "2");
    const mf_model *m = x.session->model;
    a = x.arena;
    refused(mf_probe_remove(m, a, MF_PROBE_NEXT, "3", &l),
            "expected LAYER.EXPERT, such as 0.3");
    refused(mf_probe_remove(m, a, MF_PROBE_NEXT, "1.0", &l), "a layer with experts (0), found");
    refused(mf_probe_remove(m, a, MF_PROBE_NEXT, "0.4", &l), "experts 0 to 3 of layer 0");
    refused(mf_probe_remove(m, a, MF_PROBE_NEXT, "0.1x", &l), "found 'x' behind it");
    refused(mf_probe_remove(m, a, MF_PROBE_NEXT, "0.1,", &l), "found ''");
    refused(mf_probe_exchange(m, a, "0.1-1", &l), "two different experts");
    refused(mf_probe_exchange(m, a, "0.1+2", &l), "expected LAYER.A-B");
    refused(mf_probe_top_k(m, a, -2, &l), "0 of its 4 experts for each token; expected 1 to 4");
    l.n = 0;
    ck_assert_int_eq(mf_probe_force(m, a, "0.1", &l), MF_OK);
    refused(mf_probe_judge(m, x.mg, last(&l)),
            "0.1 leaves 1 of 4 experts; expected at least 2");
    shut(&x);
    open(&x, "oracle", "1");
    l.n = 0;
    ck_assert_int_eq(mf_probe_remove(x.session->model, a = x.arena, MF_PROBE_NEXT, "0.0", &l),
                     MF_OK);
    refused(mf_probe_judge(x.session->model, x.mg, last(&l)),
            "router oracle selects experts by itself");
    shut(&x);
    open(&x, "soft", "2");
    l = (mf_probe_list){0};
    ck_assert_int_eq(mf_probe_remove(x.session->model, x.arena, MF_PROBE_DROP, "0.0", &l),
                     MF_OK);
    refused(mf_probe_judge(x.session->model, x.mg, last(&l)), "router soft mixes all tokens");
    shut(&x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("probe");
    TCase *t = tcase_create("probe");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, cluster_means_by_hand);
    tcase_add_test(t, no_change_has_the_bits_of_no_probe);
    tcase_add_test(t, a_removal_costs_the_topic_of_the_expert);
    tcase_add_test(t, the_next_choice_comes_in);
    tcase_add_test(t, forced_sets_ranks_and_biases);
    tcase_add_test(t, whole_probes);
    tcase_add_test(t, documents_of_a_stream);
    tcase_add_test(t, refusals);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
