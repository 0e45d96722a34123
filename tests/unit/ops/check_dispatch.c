/* check_dispatch: routing, capacity, grouping and combining in one graph, compared with loops
 * over tokens that use no grouping. */
#include "check_main.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "lab/check/gradcheck.h"
#include "kernels/kernel.h"
#include "ops/moe/dispatch.h"
#include "tests/lib/device.h"

enum { T = 96, D = 10, E = 6, K = 2, R = T * K, C = 20 };

/* ---- a layer as a graph ---- */

typedef enum how { DROPLESS, CAPACITY, REASSIGN, EXPERT_CHOICE } how;

typedef struct layer {
    mf_graph *g;
    int rows;
    mf_tensor *x, *router, *w; /* [T,D], [E,D], [E,D,D] */
    mf_tensor *mask;           /* [T] or NULL */
    mf_tensor *prob, *chosen, *admitted, *gate, *y, *moved;
    mf_row_groups groups;
    mf_routing_sums sums;
} layer;

/* Token choice: each token chooses its K best experts. If there is a capacity, the assignments
 * with the largest gates are admitted. */
static void choose_experts(layer *l, how mode)
{
    static const float no_room = 0.75f;
    mf_graph *g = l->g;
    l->rows = R;
    l->chosen = l->admitted = mf_route_select(g, mf_stop_gradient(g, l->prob), l->mask, K);
    l->gate = mf_route_gates(g, l->prob, l->chosen, NULL, K, true, 1.5);
    if (mode == DROPLESS) return;
    mf_tensor *factor = mf_graph_const(g, MF_F32, mf_shape0(), &no_room);
    mf_tensor *cap = mf_capacity_of(g, factor, l->mask, T, K, E);
    mf_tensor *priority = mf_stop_gradient(g, l->gate);
    l->admitted = mf_capacity(g, l->chosen, priority, cap);
    if (mode != REASSIGN) return;
    cap = mf_scale(g, cap, 1.4);
    l->admitted =
        mf_reassign(g, l->chosen, l->admitted, l->prob, priority, cap, K, 0, &l->moved);
    l->gate = mf_route_gates(g, l->prob, l->chosen, l->admitted, K, true, 1.5);
}

/* Expert choice: each expert chooses its C best tokens. Returns the token of
 * each assignment. */
static mf_tensor *choose_tokens(layer *l)
{
    mf_graph *g = l->g;
    int32_t expert[E * C];
    l->rows = E * C;
    for (int r = 0; r < E * C; r++)
        expert[r] = r / C;
    mf_tensor *by_expert = mf_transpose(g, l->prob, 1, 0, 0, 0); /* [E,T] */
    mf_tensor *token = mf_topk(g, by_expert, C);
    l->gate = mf_reshape(g, mf_take(g, by_expert, token), mf_shape1(E * C));
    l->chosen = l->admitted = mf_graph_const(g, MF_I32, mf_shape1(E * C), expert);
    return mf_reshape(g, token, mf_shape1(E * C));
}

static layer build(how mode, bool masked)
{
    layer l = {
        .g = mf_graph_new(&(mf_graph_options){.training = true, .device = mf_test_device()})};
    ck_assert_ptr_nonnull(l.g);
    l.x = mf_graph_input(l.g, "x", MF_F32, mf_shape2(T, D));
    l.router = mf_graph_input(l.g, "router", MF_F32, mf_shape2(E, D));
    l.w = mf_graph_input(l.g, "w", MF_F32, mf_shape3(E, D, D));
    l.mask = masked ? mf_graph_input(l.g, "mask", MF_F32, mf_shape1(T)) : NULL;
    mf_graph_want_grad(l.x);
    mf_graph_want_grad(l.router);
    mf_graph_want_grad(l.w);
    l.prob = mf_softmax(l.g, mf_linear(l.g, l.x, l.router, NULL));
    mf_tensor *token = NULL;
    if (mode == EXPERT_CHOICE)
        token = choose_tokens(&l);
    else
        choose_experts(&l, mode);
    const int k = token ? 1 : K;
    l.groups = mf_group_rows(l.g, l.admitted, token, k, E);
    mf_tensor *rows = mf_dispatch_rows(l.g, l.x, &l.groups, token, k);
    rows = mf_grouped_linear(l.g, rows, l.w, l.groups.offset, NULL);
    l.y = mf_combine_rows(l.g, rows, l.gate, &l.groups, token, T, k);
    l.sums =
        mf_routing_stats(l.g, l.prob, l.chosen, l.admitted, l.gate, l.mask, token, k, E, T);
    mf_tensor *keep[] = {l.prob,
                         l.chosen,
                         l.admitted,
                         l.gate,
                         l.y,
                         l.moved,
                         token,
                         l.groups.offset,
                         l.groups.place,
                         l.sums.chosen,
                         l.sums.admitted,
                         l.sums.importance,
                         l.sums.scalars};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
        mf_graph_keep(keep[i]);
    ck_assert_msg(mf_graph_status(l.g) == MF_OK, "%s", mf_error_message());
    return l;
}

static void fill(mf_tensor *t, uint64_t stream, float scale)
{
    float *data = mf_tensor_input(t);
    mf_rng_fill_normal(1, stream, 0, data, (size_t)mf_shape_count(t->shape));
    for (int64_t i = 0; i < mf_shape_count(t->shape); i++)
        data[i] *= scale;
}

static void fill_inputs(const layer *l)
{
    fill(l->x, 1, 1);
    fill(l->router, 2, 0.6f);
    fill(l->w, 3, 0.4f);
    for (int t = 0; l->mask && t < T; t++)
        ((float *)mf_tensor_input(l->mask))[t] = t % 12 < 9;
}

static void run(layer *l)
{
    ck_assert_msg(mf_graph_finish(l->g) == MF_OK, "%s", mf_error_message());
    fill_inputs(l);
    ck_assert_msg(mf_graph_run(l->g, &(mf_run){.kernels = mf_kernels_cpu(), .metrics = true}) ==
                      MF_OK,
                  "%s", mf_error_message());
}

/* ---- expected results, by loops ---- */

/* Adds gate w[e] x[t] to y. */
static void add_expert(const layer *l, int t, int e, double gate, double y[D])
{
    const float *x = (const float *)mf_tensor_host(l->x) + t * D;
    const float *w = (const float *)mf_tensor_host(l->w) + e * D * D;
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            y[i] += gate * w[i * D + j] * x[j];
}

static void expect_row(const layer *l, int t, const double want[D])
{
    const float *y = (const float *)mf_tensor_host(l->y) + t * D;
    for (int i = 0; i < D; i++)
        ck_assert_msg(fabs(y[i] - want[i]) <= 2e-6, "token %d, %d: expected %.7g, found %.7g",
                      t, i, want[i], y[i]);
}

static bool is_real(const layer *l, int t)
{
    return !l->mask || ((const float *)mf_tensor_host(l->mask))[t] != 0;
}

/* The gate of expert e for a token: its probability, divided by the sum over the experts `of`,
 * times 1.5. */
static double gate_of(const float *prob, const int32_t of[K], int e)
{
    double sum = 0;
    for (int j = 0; j < K; j++)
        sum += prob[of[j]];
    return 1.5 * prob[e] / sum;
}

static void expect_dropless(bool masked)
{
    layer l = build(DROPLESS, masked);
    run(&l);
    for (int t = 0; t < T; t++) {
        const float *prob = (const float *)mf_tensor_host(l.prob) + t * E;
        int32_t best[K] = {0, -1};
        double want[D] = {0};
        for (int e = 1; e < E; e++)
            if (prob[e] > prob[best[0]]) best[0] = e;
        for (int e = 0; e < E; e++)
            if (e != best[0] && (best[1] < 0 || prob[e] > prob[best[1]])) best[1] = e;
        for (int j = 0; j < K && is_real(&l, t); j++)
            add_expert(&l, t, best[j], gate_of(prob, best, best[j]), want);
        expect_row(&l, t, want);
    }
    mf_graph_free(l.g);
}

START_TEST(dropless_is_the_loop_over_tokens)
{
    expect_dropless(false);
    expect_dropless(true);
}
END_TEST

/* Checks y against loops over the recorded choices and admitted assignments. */
static void expect_admitted(const layer *l)
{
    const int32_t *admitted = mf_tensor_host(l->admitted), *chosen = mf_tensor_host(l->chosen);
    for (int t = 0; t < T; t++) {
        const float *prob = (const float *)mf_tensor_host(l->prob) + t * E;
        double want[D] = {0};
        int32_t of[K];
        for (int j = 0; j < K; j++)
            of[j] =
                l->moved && admitted[t * K + j] >= 0 ? admitted[t * K + j] : chosen[t * K + j];
        for (int j = 0; j < K; j++)
            if (admitted[t * K + j] >= 0)
                add_expert(l, t, of[j], gate_of(prob, of, of[j]), want);
        ck_assert(!is_real(l, t) || of[0] != of[1]);
        expect_row(l, t, want);
    }
}

static void count(const int32_t *expert, int rows, int n[E])
{
    memset(n, 0, E * sizeof *n);
    for (int r = 0; r < rows; r++)
        if (expert[r] >= 0) n[expert[r]]++;
}

START_TEST(capacity_drops_and_reassign_moves)
{
    const int real = T / 12 * 9, cap = (int)floor(0.75 * real * K / E);
    for (how mode = CAPACITY; mode <= REASSIGN; mode++) {
        layer l = build(mode, true);
        run(&l);
        int want[E], got[E], dropped = 0, used = 0;
        const int32_t *chosen = mf_tensor_host(l.chosen),
                      *admitted = mf_tensor_host(l.admitted);
        count(chosen, R, want);
        count(admitted, R, got);
        for (int e = 0; e < E; e++) {
            int most = mode == REASSIGN ? (int)(1.4f * (float)cap) : cap;
            ck_assert_int_le(got[e], most);
            if (mode == CAPACITY) ck_assert_int_eq(got[e], want[e] < cap ? want[e] : cap);
            dropped += want[e];
            used += got[e];
        }
        ck_assert_int_eq(dropped, real * K);
        if (mode == CAPACITY) ck_assert_int_gt(dropped, used);
        const float *scalars = mf_tensor_host(l.sums.scalars), *importance;
        ck_assert_int_eq((int)scalars[0], real);
        ck_assert_int_eq((int)scalars[3], real * K);
        double gates = 0, importances = 0;
        importance = mf_tensor_host(l.sums.importance);
        for (int r = 0; r < R; r++)
            if (admitted[r] >= 0) gates += ((const float *)mf_tensor_host(l.gate))[r];
        for (int e = 0; e < E; e++) {
            importances += importance[e];
            ck_assert_int_eq((int)((const float *)mf_tensor_host(l.sums.chosen))[e], want[e]);
            ck_assert_int_eq((int)((const float *)mf_tensor_host(l.sums.admitted))[e], got[e]);
        }
        ck_assert_double_eq_tol(gates, importances, 1e-4);
        if (mode == REASSIGN) {
            int moved = 0;
            for (int r = 0; r < R; r++)
                moved += admitted[r] >= 0 && admitted[r] != chosen[r];
            ck_assert_int_gt(moved, 0);
            ck_assert_int_eq(moved, (int)*(const float *)mf_tensor_host(l.moved));
        }
        expect_admitted(&l);
        mf_graph_free(l.g);
    }
}
END_TEST

START_TEST(expert_choice_sums_any_number_of_rows)
{
    layer l = build(EXPERT_CHOICE, false);
    run(&l);
    for (int t = 0; t < T; t++) {
        double want[D] = {0};
        for (int e = 0; e < E; e++) {
            const float *prob = mf_tensor_host(l.prob);
            int ahead = 0; /* number of tokens that expert e prefers to t */
            for (int u = 0; u < T; u++)
                ahead += prob[u * E + e] > prob[t * E + e] ||
                         (prob[u * E + e] == prob[t * E + e] && u < t);
            if (ahead < C) add_expert(&l, t, e, prob[t * E + e], want);
        }
        expect_row(&l, t, want);
    }
    mf_graph_free(l.g);
}
END_TEST

/* ---- gradients and threads ---- */

START_TEST(gradients_flow_through_the_whole_path)
{
    layer l = build((how)_i, _i != EXPERT_CHOICE);
    mf_tensor *in[] = {l.x, l.router, l.w};
    mf_gradcheck_report report;
    fill_inputs(&l);
    ck_assert_msg(mf_gradcheck(l.g, 1, &l.y, 3, in, &(mf_gradcheck_options){.step = 1.0 / 256},
                               &report) == MF_OK,
                  "%s", mf_error_message());
    ck_assert_int_gt(report.points, 60);
    mf_graph_free(l.g);
}
END_TEST

START_TEST(threads_do_not_matter)
{
    static float first[4][T * D];
    static const int threads[] = {1, 2, 4};
    for (int n = 0; n < 3; n++) {
        mf_parallel_set_threads(threads[n]);
        layer l = build((how)_i, false);
        mf_tensor *in[] = {l.x};
        mf_tensor *loss = mf_sum(l.g, mf_square(l.g, l.y), MF_ALL, false);
        ck_assert_int_eq(mf_graph_backward(l.g, loss, 1, in), MF_OK);
        run(&l);
        const size_t bytes = sizeof first[0];
        if (n == 0) {
            memcpy(first[0], mf_tensor_host(l.y), bytes);
            memcpy(first[1], mf_tensor_host(l.x->grad), bytes);
        }
        ck_assert_mem_eq(first[0], mf_tensor_host(l.y), bytes);
        ck_assert_mem_eq(first[1], mf_tensor_host(l.x->grad), bytes);
        mf_graph_free(l.g);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("dispatch");
    TCase *c = tcase_create("against loops");
    tcase_add_test(c, dropless_is_the_loop_over_tokens);
    tcase_add_test(c, capacity_drops_and_reassign_moves);
    tcase_add_test(c, expert_choice_sums_any_number_of_rows);
    suite_add_tcase(s, c);
    c = tcase_create("gradients and threads");
    tcase_add_loop_test(c, gradients_flow_through_the_whole_path, DROPLESS, EXPERT_CHOICE + 1);
    tcase_add_loop_test(c, threads_do_not_matter, DROPLESS, EXPERT_CHOICE + 1);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
