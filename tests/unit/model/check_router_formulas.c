/* router_formulas: logits, scores and gates of routers, the outputs of dropped assignments, and
 * the state that a skip uses. They are compared with the formulas of the manual pages, computed
 * in double. */
#include "check_main.h"

#include "base/mem.h"
#include "tests/lib/program.h"
#include "model/formula_graph.h"

static const int some[] = {20, 13, 7, 18, 4};
enum { H = 8, K = 2 }; /* router.hidden, moe.top_k */

static mf_param *param(const graph *x, const char *name)
{
    mf_param *p = mf_store_find(x->s->model->store, name);
    ck_assert_msg(p != NULL, "no parameter %s", name);
    return p;
}

static void write_value(mf_param *p, int64_t at, double value)
{
    const float v = (float)value;
    ck_assert_int_eq(mf_param_write(p, &v, (size_t)at * sizeof v, sizeof v), MF_OK);
}

/* ---- mlp_hadamard ---- */

typedef struct hadamard_case {
    const char *mode, *more[3];
    double hidden_scale, input_scale; /* the factor s of H h, and that of H n(x) */
} hadamard_case;

static const hadamard_case hadamards[] = {
    {"product", {"router.start=normal", "router.init_std=0.7", "router.activation=relu"}, 0, 0},
    {"product",
     {"router.input_norm=none", "router.activation=gelu", "router.temperature=0.5"},
     0,
     0},
    {"pooled", {"router.activation=gelu", "router.temperature=2", "router.k_experts=3"}, 0, 0},
    {"walsh",
     {"router.scale=orthogonal", "router.activation=relu", "router.k_experts=0"},
     0.35355339059327373,
     0},
    {"walsh", {"router.scale=none", "router.activation=gelu", "router.k_experts=2"}, 1, 0},
    {"matrix",
     {"router.scale=orthogonal", "router.k_experts=4", "router.temperature=1.5"},
     0,
     0.25},
    {"matrix", {"router.scale=none", "router.input_norm=none", "router.temperature=1"}, 0, 1}};

static bool has(const hadamard_case *c, const char *setting)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(c->more[i], setting) == 0) return true;
    return false;
}

/* Element of Sylvester's matrix: (-1) to the number of bits that i and j have in common. */
static double sylvester(int i, int j)
{
    int odd = 0;
    for (int bits = i & j; bits; bits >>= 1)
        odd ^= bits & 1;
    return odd ? -1 : 1;
}

/* n(x): LayerNorm of a token, with the router's weights for it; or the token itself if there is
 * no norm. */
static void normalised(const graph *x, bool norm, const float *in, double *out)
{
    double mean = 0, square = 0;
    for (int d = 0; d < DIM; d++)
        mean += (double)in[d] / DIM;
    for (int d = 0; d < DIM; d++)
        square += ((double)in[d] - mean) * ((double)in[d] - mean) / DIM;
    for (int d = 0; d < DIM; d++)
        out[d] = norm ? ((double)in[d] - mean) / sqrt(square + 1e-5) *
                                (double)weights(x, "norm.weight")[d] +
                            (double)weights(x, "norm.bias")[d]
                      : (double)in[d];
}

static double dot(const float *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static double activated(double a, bool relu)
{
    if (relu) return a > 0 ? a : 0;
    return a * 0.5 * (1 + erf(a / sqrt(2)));
}

/* Logits of one token before the division by the temperature. */
static void hadamard_logits(const graph *x, const hadamard_case *c, const float *in,
                            double *logits)
{
    double n[DIM], h[H], u[H];
    normalised(x, !has(c, "router.input_norm=none"), in, n);
    if (strcmp(c->mode, "matrix") == 0) {
        for (int e = 0; e < E; e++) {
            logits[e] = 0;
            for (int d = 0; d < DIM; d++)
                logits[e] += c->input_scale * sylvester(e, d) * n[d];
        }
        return;
    }
    for (int i = 0; i < H; i++)
        h[i] = activated(dot(weights(x, "w1") + i * DIM, n, DIM) + (double)weights(x, "b1")[i],
                         has(c, "router.activation=relu"));
    for (int i = 0; i < H; i++) {
        if (strcmp(c->mode, "product") == 0)
            u[i] = h[i] * dot(weights(x, "wp") + i * DIM, n, DIM);
        if (strcmp(c->mode, "pooled") == 0) u[i] = h[i] * (n[2 * i] + n[2 * i + 1]) / 2;
        if (strcmp(c->mode, "walsh") == 0) {
            u[i] = 0;
            for (int j = 0; j < H; j++)
                u[i] += c->hidden_scale * sylvester(i, j) * h[j];
        }
    }
    for (int e = 0; e < E; e++)
        logits[e] = dot(weights(x, "w2") + e * H, u, H) + (double)weights(x, "b2")[e];
}

/* softmax over the n largest logits, and 0 for the others; n = 0: over all logits. */
static void kept_softmax(const double *logits, int n, double *p)
{
    double sum = 0;
    for (int e = 0; e < E; e++) {
        int larger = 0;
        for (int f = 0; f < E; f++)
            larger += logits[f] > logits[e];
        p[e] = n == 0 || larger < n ? exp(logits[e]) : 0;
        sum += p[e];
    }
    for (int e = 0; e < E; e++)
        p[e] /= sum;
}

START_TEST(hadamard_steps_are_those_of_the_manual)
{
    const hadamard_case *c = &hadamards[_i];
    char mode[64];
    int k_experts = 0;
    double temperature = 1;
    snprintf(mode, sizeof mode, "router.mode=%s", c->mode);
    for (int i = 0; i < 3; i++) {
        (void)sscanf(c->more[i], "router.k_experts=%d", &k_experts);
        (void)sscanf(c->more[i], "router.temperature=%lf", &temperature);
    }
    const char *set[] = {"router.plugin=mlp_hadamard",
                         "router.hidden=8",
                         mode,
                         c->more[0],
                         c->more[1],
                         c->more[2]};
    graph x;
    open_graph(&x, MF_MODE_EVAL, some, 6, set);
    /* weights of a norm begin at 1 and 0; with these values the test would not detect a norm at
     * a wrong place */
    for (int d = 0; !has(c, "router.input_norm=none") && d < DIM; d++) {
        write_value(param(&x, "layers.0.router.norm.weight"), d, 0.5 + 0.1 * d);
        write_value(param(&x, "layers.0.router.norm.bias"), d, 0.3 * (d % 3) - 0.2);
    }
    layer_run(x.mg);
    const float *in = mf_tensor_host(x.mg->moe[0].x), *logits = mf_tensor_host(x.r->logits),
                *p = mf_tensor_host(x.r->prob);
    for (int t = 0; t < T; t++) {
        double wanted[E], prob[E];
        if (!x.real[t]) continue;
        hadamard_logits(&x, c, in + t * DIM, wanted);
        for (int e = 0; e < E; e++) {
            wanted[e] /= temperature;
            expect_near(c->mode, (double)logits[t * E + e], wanted[e]);
        }
        kept_softmax(wanted, k_experts, prob);
        for (int e = 0; e < E; e++)
            expect_near("prob", (double)p[t * E + e], prob[e]);
    }
    close_graph(&x);
}
END_TEST

/* ---- sinkhorn ---- */

/* A = e^(logits - largest of the token). Alternately, columns are scaled to the sum 1 / E and
 * rows to 1 / T. */
static void balanced(const graph *x, int iterations, double (*a)[E])
{
    const float *logits = mf_tensor_host(x->r->logits);
    for (int t = 0; t < T; t++) {
        double most = (double)logits[t * E];
        for (int e = 1; e < E; e++)
            most = fmax(most, (double)logits[t * E + e]);
        for (int e = 0; e < E; e++)
            a[t][e] = x->real[t] ? exp((double)logits[t * E + e] - most) : 0;
    }
    for (int i = 0; i < iterations; i++) {
        for (int e = 0; e < E; e++) {
            double sum = 0;
            for (int t = 0; t < T; t++)
                sum += a[t][e];
            for (int t = 0; t < T; t++)
                a[t][e] /= sum * E;
        }
        for (int t = 0; t < T; t++) {
            double sum = 0;
            for (int e = 0; e < E; e++)
                sum += a[t][e];
            for (int e = 0; x->real[t] && e < E; e++)
                a[t][e] /= sum * T;
        }
    }
}

/* The K chosen experts of each real token must be those with the largest values. */
static void expect_largest(const graph *x, const double (*a)[E])
{
    const int32_t *chosen = mf_tensor_host(x->r->chosen);
    for (int t = 0; t < T; t++) {
        if (!x->real[t]) continue;
        double least = INFINITY;
        for (int j = 0; j < K; j++)
            least = fmin(least, a[t][chosen[t * K + j]]);
        for (int e = 0; e < E; e++) {
            bool taken = false;
            for (int j = 0; j < K; j++)
                taken |= chosen[t * K + j] == e;
            ck_assert_msg(taken || a[t][e] <= least * (1 + 1e-5), "token %d, expert %d", t, e);
        }
    }
}

START_TEST(sinkhorn_scales_columns_then_rows)
{
    static const char *const rounds[] = {"router.iterations=1", "router.iterations=8"};
    static double a[T][E];
    for (int i = 0; i < 2; i++) {
        const char *set[] = {"router.plugin=sinkhorn", "moe.top_k=2", rounds[i]};
        graph x;
        open_graph(&x, MF_MODE_TRAIN, some, 3, set);
        balanced(&x, i ? 8 : 1, a);
        const float *score = mf_tensor_host(x.mg->moe[0].score);
        for (int t = 0; t < T; t++)
            for (int e = 0; x.real[t] && e < E; e++)
                expect_near(rounds[i], T * (double)score[t * E + e], T * a[t][e]);
        expect_largest(&x, (const double(*)[E])a);
        close_graph(&x);
        open_graph(&x, MF_MODE_EVAL, some, 3, set);
        const float *logits = mf_tensor_host(x.r->logits);
        for (int t = 0; t < T; t++)
            for (int e = 0; e < E; e++)
                a[t][e] = exp((double)logits[t * E + e]);
        expect_largest(&x, (const double(*)[E])a);
        close_graph(&x);
    }
}
END_TEST

/* ---- moe.renormalize ---- */

/* Checks for each token the sum of its gates, and the sum of the probabilities of
 * its experts. */
static void expect_gates(const char *what, const char *const *set, int n, bool divided)
{
    graph x;
    open_graph(&x, MF_MODE_EVAL, some, n, set);
    const int32_t *chosen = mf_tensor_host(x.r->chosen);
    const float *gate = mf_tensor_host(x.mg->moe[0].gate), *p = mf_tensor_host(x.r->prob);
    for (int t = 0; t < T; t++) {
        if (!x.real[t]) continue;
        double gates = 0, sum = 0;
        for (int j = 0; j < K; j++) {
            gates += (double)gate[t * K + j];
            sum += (double)p[t * E + chosen[t * K + j]];
        }
        expect_near(what, gates, divided ? 1 : sum);
    }
    close_graph(&x);
}

START_TEST(who_decides_whether_gates_sum_to_one)
{
    static const struct {
        const char *router, *own, *layer;
        bool divided;
    } cases[] = {{"linear", "router.temperature=1", "moe.renormalize=yes", true},
                 {"linear", "router.temperature=1", "moe.renormalize=no", false},
                 {"sigmoid_bias", "router.renormalize=yes", "moe.renormalize=no", true},
                 {"sigmoid_bias", "router.renormalize=no", "moe.renormalize=yes", false},
                 {"sinkhorn", "router.gate=softmax", "moe.renormalize=yes", true},
                 {"sinkhorn", "router.gate=softmax", "moe.renormalize=no", false},
                 {"sinkhorn", "router.gate=sigmoid", "moe.renormalize=yes", false},
                 {"noisy_topk", "router.noise=1", "moe.renormalize=yes", true},
                 {"noisy_topk", "router.noise=1", "moe.renormalize=no", true},
                 {"random", "router.draw=step", "moe.renormalize=yes", true},
                 {"random", "router.draw=step", "moe.renormalize=no", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char router[64];
        snprintf(router, sizeof router, "router.plugin=%s", cases[i].router);
        const char *set[] = {router, cases[i].own, cases[i].layer, "moe.top_k=2"};
        expect_gates(cases[i].router, set, 4, cases[i].divided);
    }
}
END_TEST

/* hash, oracle, relu and expert_choice set their gates themselves. */
START_TEST(gates_that_routers_set_are_kept)
{
    static const char *const routers[] = {"router.plugin=hash", "router.plugin=oracle",
                                          "router.plugin=relu", "router.plugin=expert_choice"};
    for (int i = 0; i < 4; i++) {
        const char *yes[] = {routers[i], "moe.renormalize=yes"},
                   *no[] = {routers[i], "moe.renormalize=no"};
        graph a, b;
        open_graph(&a, MF_MODE_EVAL, some, 2, yes);
        open_graph(&b, MF_MODE_EVAL, some, 2, no);
        ck_assert_int_eq(a.r->rows, b.r->rows);
        ck_assert_mem_eq(mf_tensor_host(a.mg->moe[0].gate), mf_tensor_host(b.mg->moe[0].gate),
                         (size_t)a.r->rows * sizeof(float));
        close_graph(&a);
        close_graph(&b);
    }
}
END_TEST

/* ---- moe.dropped ---- */

/* The share of the input that the dropped assignments of token t add: 1/k or the gate for each,
 * where k is moe.top_k. Sets *ret_n to their number. */
static double passed_on(const graph *x, int way, int t, int *ret_n)
{
    const int32_t *chosen = mf_tensor_host(x->r->chosen),
                  *admitted = mf_tensor_host(x->r->admitted);
    const float *gate = mf_tensor_host(x->mg->moe[0].gate);
    const int rows = x->r->rows / T;
    double share = 0;
    *ret_n = 0;
    for (int r = t * rows; r < (t + 1) * rows; r++) {
        if (chosen[r] < 0 || admitted[r] >= 0) continue;
        share += way == 1 ? 1.0 / K : way == 2 ? (double)gate[r] : 0;
        ++*ret_n;
    }
    return share;
}

/* relu has an assignment for each token and expert, but the same k. */
START_TEST(each_dropped_assignment_adds_its_share)
{
    static const char *const ways[] = {"moe.dropped=residual", "moe.dropped=input",
                                       "moe.dropped=scaled_input"},
                             *routers[] = {"router.plugin=linear", "router.plugin=relu"};
    static float y[3][T * DIM];
    int tokens[2][E + 1] = {{0}}; /* numbers of tokens of each router, by the number of
                                   * dropped assignments */
    for (int i = 0; i < 6; i++) {
        const int w = i % 3;
        const char *set[] = {"moe.top_k=2", "moe.capacity_factor=0.6", routers[i / 3], ways[w]};
        graph x;
        open_graph(&x, MF_MODE_EVAL, some, 4, set);
        const float *in = mf_tensor_host(x.mg->moe[0].x);
        memcpy(y[w], mf_tensor_host(x.mg->moe[0].y), sizeof y[w]);
        for (int t = 0; t < T; t++) {
            int n;
            if (!x.real[t]) continue;
            const double share = passed_on(&x, w, t, &n);
            tokens[i / 3][n]++;
            for (int d = t * DIM; d < (t + 1) * DIM; d++) {
                const double wanted = (double)y[0][d] + share * (double)in[d];
                ck_assert_msg(fabs((double)y[w][d] - wanted) < 1e-5 * (1 + fabs(wanted)),
                              "%s, %s, token %d with %d dropped: expected %.9g, found %.9g",
                              routers[i / 3], ways[w], t, n, wanted, (double)y[w][d]);
            }
        }
        close_graph(&x);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_gt(tokens[i][1], 3);
        ck_assert_int_gt(tokens[i][2], 3);
    }
}
END_TEST

/* ---- simbal ---- */

static double rows_apart(const graph *x, int layer, bool identity)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.router.weight", layer);
    const float *w = mf_param_host(param(x, name));
    double sum = 0;
    for (int i = 0; i < E; i++)
        for (int j = 0; j < E; j++) {
            double s = 0;
            for (int d = 0; d < DIM; d++)
                s += (double)w[i * DIM + d] * (double)w[j * DIM + d];
            if (identity) sum += fabs(s - (i == j));
            if (!identity && i != j) sum += s * s;
        }
    return sum;
}

/* A router that layers share counts once. Other routers count once each. */
START_TEST(simbal_counts_each_router_once)
{
    static const char *const share[] = {"model.share_layers=no", "model.share_layers=yes"},
                             *forms[] = {"regularizer.s.form=offdiag",
                                         "regularizer.s.form=identity"};
    for (int i = 0; i < 4; i++) {
        const char *set[] = {"model.layers=2", share[i / 2], "regularizer.s.plugin=simbal",
                             forms[i % 2]};
        graph x;
        open_graph(&x, MF_MODE_TRAIN, NULL, 4, set);
        double wanted = rows_apart(&x, 0, i % 2);
        if (i < 2) wanted += rows_apart(&x, 1, i % 2);
        expect_near(forms[i % 2], scalar(x.mg->regularizers[x.s->config->n_regularizers - 1]),
                    wanted);
        close_graph(&x);
    }
}
END_TEST

/* ---- unet_skip ---- */

/* The loss after all values of a parameter are multiplied by -2. The values are
 * restored afterwards. */
static double loss_with_other(graph *x, const char *name)
{
    mf_param *p = param(x, name);
    for (int way = 0; way < 2; way++) {
        for (int64_t i = 0; i < p->count; i++)
            write_value(p, i, (double)mf_param_host(p)[i] * (way ? -0.5 : -2));
        if (way) break;
        layer_run(x->mg);
    }
    return scalar(x->mg->task_loss);
}

/* Block 0 of 4 passes its state h_enc to block 3, in which the weights here use only h_enc. So
 * parameters between the point of h_enc and block 3 have no effect, and earlier parameters
 * have one. */
START_TEST(a_skip_takes_the_state_of_the_manual)
{
    static const char *const forms[] = {"adapter.skip.form=linear",
                                        "adapter.skip.form=residual"};
    for (int residual = 0; residual < 2; residual++) {
        const char *set[] = {"model.layers=4", "adapter.skip.plugin=unet_skip", forms[residual],
                             "adapter.skip.rule=constant", "adapter.skip.scale=1"};
        graph x;
        open_graph(&x, MF_MODE_EVAL, NULL, 5, set);
        mf_param *w = param(&x, "layers.3.skip.weight");
        ck_assert_int_eq(w->count, 2 * DIM * DIM);
        /* linear: [h_enc; h] -> h_enc; residual: h + ([h; h_enc] -> h_enc - h) */
        for (int i = 0; i < DIM; i++)
            for (int j = 0; j < 2 * DIM; j++)
                write_value(w, i * 2 * DIM + j, residual ? (j == DIM + i) - (j == i) : j == i);
        for (int i = 0; i < DIM; i++)
            write_value(param(&x, "layers.3.skip.bias"), i, 0);
        layer_run(x.mg);
        const double loss = scalar(x.mg->task_loss);
        static const struct {
            const char *name;
            bool effect[2]; /* for form = linear, residual */
        } parts[] = {{"layers.0.attention.out.weight", {true, true}},
                     {"layers.0.expert.w2", {true, false}},
                     {"layers.1.attention.out.weight", {false, false}},
                     {"layers.2.expert.w2", {false, false}},
                     {"layers.3.attention.out.weight", {true, true}}};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const double other = loss_with_other(&x, parts[i].name);
            ck_assert_msg(parts[i].effect[residual] ? fabs(other - loss) > 1e-4
                                                    : fabs(other - loss) < 1e-6,
                          "%s, %s: %.9g, %.9g", forms[residual], parts[i].name, loss, other);
        }
        close_graph(&x);
    }
}
END_TEST

/* ---- hybrid ---- */

/* For all mixing weights that training may reach, probabilities are at least 0. A weight below
 * 0 leaves only the other distribution. */
START_TEST(hybrid_has_no_negative_probability)
{
    static const double to[][2] = {{-0.3, 0.4}, {0.7, -2}, {-1, -1}, {0.25, 0.5}};
    const char *set[] = {"router.plugin=hybrid", "router.init_std=1"};
    graph x;
    open_graph(&x, MF_MODE_EVAL, NULL, 2, set);
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        double sum = 0, expected = 0;
        for (int j = 0; j < 2; j++) {
            write_value(param(&x, j == 0 ? "layers.0.router.mix_linear"
                                         : "layers.0.router.mix_attention"),
                        0, to[i][j]);
            expected += fmax(to[i][j], 1e-6);
        }
        layer_run(x.mg);
        const float *prob = mf_tensor_host(x.r->prob);
        for (int e = 0; e < E; e++) {
            ck_assert_msg(prob[e] > 0, "%g, %g, expert %d: %g", to[i][0], to[i][1], e,
                          (double)prob[e]);
            sum += (double)prob[e];
        }
        ck_assert_double_eq_tol(sum, expected, 1e-6 + 1e-5 * expected);
    }
    close_graph(&x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("router_formulas");
    TCase *c = tcase_create("router_formulas");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, hadamard_steps_are_those_of_the_manual, 0,
                        sizeof hadamards / sizeof *hadamards);
    tcase_add_test(c, sinkhorn_scales_columns_then_rows);
    tcase_add_test(c, who_decides_whether_gates_sum_to_one);
    tcase_add_test(c, gates_that_routers_set_are_kept);
    tcase_add_test(c, each_dropped_assignment_adds_its_share);
    tcase_add_test(c, simbal_counts_each_router_once);
    tcase_add_test(c, hybrid_has_no_negative_probability);
    tcase_add_test(c, a_skip_takes_the_state_of_the_manual);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
