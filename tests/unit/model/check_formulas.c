/* formulas: losses and choices of plugins in batches with padding, compared with the formulas
 * of their manual pages. These are computed here in double from the layer's own values. */
#include "check_main.h"

#include <moefw/plugin.h>
#include "base/mem.h"
#include "plugin/load/open.h"
#include "tests/lib/program.h"
#include "model/formula_graph.h"

/* Lengths of examples: full, with padding, and with one or no token. */
static const int some[] = {20, 13, 7, 18, 4}, few[] = {1, 0, 20, 1, 2};
static const int *const lengths[] = {NULL, some, few};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* ---- expert_choice ---- */

/* Each expert takes C = floor(capacity T k / E) of the T real tokens, those with the largest
 * probabilities for it, and no padding. */
START_TEST(experts_choose_among_real_tokens)
{
    static const struct {
        const char *k, *capacity;
        int take[LENGTHS]; /* for 100, 62 and 24 tokens */
    } cases[] = {{"moe.top_k=2", "router.capacity=1", {50, 31, 12}},
                 {"moe.top_k=1", "router.capacity=0.9", {22, 13, 5}},
                 {"moe.top_k=1", "router.capacity=1.16", {29, 17, 6}},
                 {"moe.top_k=2", "router.capacity=100", {100, 62, 24}},
                 {"moe.top_k=1", "router.capacity=0.01", {1, 1, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int m = 0; m < LENGTHS; m++) {
            const char *set[] = {"router.plugin=expert_choice", cases[i].k, cases[i].capacity};
            graph x;
            open_graph(&x, MF_MODE_EVAL, lengths[m], 3, set);
            const int32_t *chosen = mf_tensor_host(x.r->chosen),
                          *token = mf_tensor_host(x.r->token);
            const float *p = mf_tensor_host(x.r->prob);
            for (int e = 0; e < E; e++) {
                bool taken[T] = {false};
                int n = 0;
                double least = 1;
                for (int r = 0; r < x.r->rows; r++) {
                    if (chosen[r] != e) continue;
                    ck_assert(x.real[token[r]] && !taken[token[r]]);
                    taken[token[r]] = true;
                    least = fmin(least, (double)p[token[r] * E + e]);
                    n++;
                }
                ck_assert_msg(n == cases[i].take[m], "%s, %s, %d tokens: expected %d, found %d",
                              cases[i].k, cases[i].capacity, x.tokens, cases[i].take[m], n);
                for (int t = 0; t < T; t++)
                    ck_assert(!x.real[t] || taken[t] || (double)p[t * E + e] <= least);
            }
            close_graph(&x);
        }
}
END_TEST

/* ---- load_balance ---- */

/* The load balancing loss E sum_i f_i P_i. f_i = n_i / sum n, or n_i / T with `tokens`, where
 * n_i is the number of assignments of expert i. P_i: mean probability of expert i over the T
 * real tokens. */
static double balance(const graph *x, bool tokens)
{
    const int32_t *chosen = mf_tensor_host(x->r->chosen);
    const float *p = mf_tensor_host(x->r->prob);
    double n[E] = {0}, mean[E] = {0}, all = 0, sum = 0;
    for (int r = 0; r < x->r->rows; r++)
        if (chosen[r] >= 0) n[chosen[r]]++, all++;
    for (int t = 0; t < T; t++)
        for (int e = 0; x->real[t] && e < E; e++)
            mean[e] += (double)p[t * E + e] / x->tokens;
    for (int e = 0; e < E; e++)
        sum += n[e] / (tokens ? x->tokens : all) * mean[e];
    return E * sum;
}

START_TEST(shares_are_of_the_chosen_assignments)
{
    static const char *const routers[][3] = {
        {"router.plugin=linear", "moe.top_k=2", "moe.top_k=2"},
        {"router.plugin=linear", "moe.top_k=1", "moe.top_k=1"},
        {"router.plugin=hash", "router.hashes=3", "router.seed=1"},
        {"router.plugin=relu", "moe.top_k=2", "moe.top_k=2"},
        {"router.plugin=expert_choice", "moe.top_k=1", "router.capacity=0.9"},
        {"router.plugin=expert_choice", "moe.top_k=2", "router.capacity=0.9"}};
    static const char *const fs[] = {"regularizer.lb.f=rows", "regularizer.lb.f=tokens"};
    for (size_t i = 0; i < sizeof routers / sizeof *routers; i++)
        for (int m = 0; m < LENGTHS; m++)
            for (int f = 0; f < 2; f++) {
                const char *set[] = {routers[i][0], routers[i][1], routers[i][2],
                                     "regularizer.lb.plugin=load_balance", fs[f]};
                graph x;
                open_graph(&x, MF_MODE_EVAL, lengths[m], 5, set);
                expect_near(routers[i][0],
                            scalar(x.mg->regularizers[x.s->config->n_regularizers - 1]),
                            balance(&x, f == 1));
                close_graph(&x);
            }
}
END_TEST

/* ---- sigmoid_bias ---- */

/* The two experts with the largest probabilities. */
static void best_two(const float *p, int32_t *two)
{
    two[0] = two[1] = -1;
    for (int e = 0; e < E; e++) {
        if (two[0] < 0 || p[e] > p[two[0]]) {
            two[1] = two[0];
            two[0] = e;
        } else if (two[1] < 0 || p[e] > p[two[1]]) {
            two[1] = e;
        }
    }
}

/* Mean over sequences with tokens of E / (k n) sum_e c_e P_e, with k = 2. c_e: how often e was
 * chosen, or had one of the two largest probabilities; P_e: mean of prob; n: number of tokens
 * in the sequence. */
static double sequence_balance(const graph *x, bool as_chosen)
{
    enum { k = 2 };
    const int32_t *taken = mf_tensor_host(x->r->chosen);
    const float *p = mf_tensor_host(x->r->prob);
    int32_t chosen[T * k];
    for (int t = 0; t < T; t++)
        if (as_chosen)
            memcpy(chosen + t * k, taken + t * k, k * sizeof *taken);
        else
            best_two(p + t * E, chosen + t * k);
    double sum = 0;
    int sequences = 0;
    for (int b = 0; b < B; b++) {
        double c[E] = {0}, mean[E] = {0}, n = 0;
        for (int t = b * SEQ; t < (b + 1) * SEQ; t++) {
            if (!x->real[t]) continue;
            for (int j = 0; j < k; j++)
                c[chosen[t * k + j]]++;
            for (int e = 0; e < E; e++)
                mean[e] += (double)p[t * E + e];
            n++;
        }
        for (int e = 0; n > 0 && e < E; e++)
            sum += E / (k * n) * c[e] * mean[e] / n;
        sequences += n > 0;
    }
    return sum / sequences;
}

START_TEST(sequences_without_tokens_do_not_count)
{
    const char *set[] = {"router.plugin=sigmoid_bias", "router.seq_aux_weight=1",
                         "moe.top_k=2"};
    for (int m = 0; m < LENGTHS; m++) {
        graph x;
        open_graph(&x, MF_MODE_EVAL, lengths[m], 3, set);
        expect_near("sequence_balance", scalar(x.mg->loss) - scalar(x.mg->task_loss),
                    sequence_balance(&x, true));
        close_graph(&x);
    }
}
END_TEST

/* If a bias changes the choices, the loss still uses only s, like eq. 18 of DeepSeek-V3, unless
 * it is configured to use the chosen experts. */
START_TEST(sequences_are_balanced_by_scores_or_by_choices)
{
    static const char *const counts[] = {"router.seq_aux_count=scores",
                                         "router.seq_aux_count=chosen"};
    double found[2];
    for (int i = 0; i < 2; i++) {
        const char *set[] = {"router.plugin=sigmoid_bias", "router.seq_aux_weight=1",
                             "moe.top_k=2", counts[i]};
        graph x;
        open_graph(&x, MF_MODE_EVAL, some, 4, set);
        float *bias = (float *)(uintptr_t)weights(&x, "bias");
        bias[1] = 0.5f;
        bias[3] = -0.5f;
        layer_run(x.mg);
        found[i] = scalar(x.mg->loss) - scalar(x.mg->task_loss);
        expect_near(counts[i], found[i], sequence_balance(&x, i == 1));
        close_graph(&x);
    }
    ck_assert_double_gt(fabs(found[0] - found[1]), 1e-3);
}
END_TEST

/* ---- relu ---- */

/* lambda / T sum_t sum_e f_e relu(logit), f_e = E / (k T) x tokens that use e. */
static double sparsity(const graph *x, int k, bool balance)
{
    const float *logits = mf_tensor_host(x->r->logits);
    double sum = 0;
    for (int e = 0; e < E; e++) {
        double gates = 0, uses = 0;
        for (int t = 0; t < T; t++) {
            const double g = fmax(0, (double)logits[t * E + e]);
            if (!x->real[t]) continue;
            gates += g;
            uses += g > 0;
        }
        sum += gates * (balance ? E * uses / (k * x->tokens) : 1);
    }
    return (double)*weights(x, "lambda") * sum / x->tokens;
}

START_TEST(gates_of_relu_are_made_sparse)
{
    static const char *const forms[] = {"router.form=released", "router.form=paper"},
                             *const balances[] = {"router.balance=no", "router.balance=yes"};
    for (int m = 0; m < LENGTHS; m++)
        for (int i = 0; i < 4; i++) {
            const char *set[] = {"router.plugin=relu", "router.lambda=3", "router.init_std=1",
                                 forms[i / 2], balances[i % 2]};
            graph x;
            open_graph(&x, MF_MODE_TRAIN, lengths[m], 5, set);
            const double loss = sparsity(&x, 2, i % 2 == 1);
            expect_near(forms[i / 2], scalar(x.mg->loss) - scalar(x.mg->task_loss),
                        i / 2 == 1 ? loss / E : loss);
            close_graph(&x);
        }
}
END_TEST

/* ---- self_supervised ---- */

enum { HIDDEN = 8, GROUP = 5 };

/* z [T][HIDDEN] of unit length: V2 gelu(V1 x + c1) + c2, divided by its norm. */
static void features(const graph *x, double (*z)[HIDDEN])
{
    const float *in = mf_tensor_host(x->mg->moe[0].x), *v1 = weights(x, "v1"),
                *c1 = weights(x, "c1"), *v2 = weights(x, "v2"), *c2 = weights(x, "c2");
    for (int t = 0; t < T; t++) {
        double h[HIDDEN], square = 0;
        for (int i = 0; i < HIDDEN; i++) {
            double a = (double)c1[i];
            for (int d = 0; d < DIM; d++)
                a += (double)v1[i * DIM + d] * (double)in[t * DIM + d];
            h[i] = a * 0.5 * (1 + erf(a / sqrt(2)));
        }
        for (int i = 0; i < HIDDEN; i++) {
            z[t][i] = (double)c2[i];
            for (int j = 0; j < HIDDEN; j++)
                z[t][i] += (double)v2[i * HIDDEN + j] * h[j];
            square += z[t][i] * z[t][i];
        }
        for (int i = 0; i < HIDDEN; i++)
            z[t][i] /= sqrt(square);
    }
}

/* Index of the token whose features are the positive of token t; -1: there is none. */
static int positive(const graph *x, int t)
{
    const int at = t % SEQ;
    if (!x->real[t]) return -1;
    if (at + 1 < SEQ && x->real[t + 1]) return t + 1;
    return at > 0 ? t - 1 : -1;
}

static double similarity(const double *a, const double *b)
{
    double s = 0;
    for (int i = 0; i < HIDDEN; i++)
        s += a[i] * b[i];
    return exp(s / 0.5); /* tau = .5 */
}

/* Mean over tokens of -ln(e^s_ii / sum_j e^s_ij), with j in groups of GROUP positions. */
static double info_nce(const graph *x, bool as_printed)
{
    static double z[T][HIDDEN];
    double sum = 0;
    int n = 0;
    features(x, z);
    for (int t = 0; t < T; t++) {
        double below = 0;
        for (int j = t / GROUP * GROUP; j < (t / GROUP + 1) * GROUP; j++)
            if (positive(x, j) >= 0 && !(as_printed && j == t))
                below += similarity(z[t], z[positive(x, j)]);
        if (positive(x, t) < 0 || below == 0) continue;
        sum -= log(similarity(z[t], z[positive(x, t)]) / below);
        n++;
    }
    ck_assert_int_gt(n, 10);
    return sum / n;
}

/* With lengths `few` some tokens are alone in their sequence. With lengths 16, 11, .. the last
 * token is alone in its group. */
START_TEST(info_nce_is_over_tokens_that_have_pairs)
{
    static const int alone[] = {16, 11, 6, 1, 20};
    static const int *const all[] = {NULL, some, few, alone};
    static const char *const printed[] = {"router.as_printed=no", "router.as_printed=yes"};
    for (int m = 0; m < 4; m++)
        for (int p = 0; p < 2; p++) {
            const char *set[] = {"router.plugin=self_supervised",
                                 "router.positives=neighbour",
                                 "router.hidden=8",
                                 "router.negatives=4",
                                 "router.tau=0.5",
                                 "router.ss_weight=1",
                                 printed[p]};
            graph x;
            open_graph(&x, MF_MODE_TRAIN, all[m], 7, set);
            expect_near(printed[p], scalar(x.mg->loss) - scalar(x.mg->task_loss),
                        info_nce(&x, p == 1));
            close_graph(&x);
        }
}
END_TEST

/* ---- experts that read other tokens ---- */

/* The values at padding must have no effect, including on shared experts. */
START_TEST(padding_is_never_attended_to)
{
    static const char *const scopes[] = {"expert.scope=sequence", "expert.scope=zeroed",
                                         "expert.scope=batch"};
    for (int i = 0; i < 3; i++) {
        const char *set[] = {"expert.plugin=attention", scopes[i], "model.causal=no",
                             "moe.shared_experts=2", "moe.shared_gate=yes"};
        graph x;
        open_graph(&x, MF_MODE_EVAL, some, 5, set);
        const double before = scalar(x.mg->task_loss);
        fill(&x, some, 11);
        layer_run(x.mg);
        ck_assert_msg(scalar(x.mg->task_loss) == before, "%s: %.9g, %.9g", scopes[i], before,
                      scalar(x.mg->task_loss));
        close_graph(&x);
    }
}
END_TEST

/* ---- moe.unit_gates, moe.gate_scale, moe.capacity_factor ---- */

/* p / detach(p) is 1 for every p that f32 can represent, however small. */
START_TEST(unit_gates_of_small_probabilities_are_1)
{
    const char *set[] = {"moe.unit_gates=yes", "moe.renormalize=no", "router.init_std=10"};
    graph x;
    double least = 1;
    open_graph(&x, MF_MODE_TRAIN, NULL, 3, set);
    const float *p = mf_tensor_host(x.r->prob), *gate = mf_tensor_host(x.mg->moe[0].gate);
    const int32_t *chosen = mf_tensor_host(x.r->chosen);
    for (int i = 0; i < 2 * T; i++) {
        const double of = (double)p[i / 2 * E + chosen[i]];
        if (of < 1e-36) continue;
        least = fmin(least, of);
        ck_assert_msg(gate[i] == 1, "p = %g: the gate is %g", of, (double)gate[i]);
    }
    ck_assert_double_lt(least, 1e-13);
    close_graph(&x);
}
END_TEST

START_TEST(gates_of_every_router_are_scaled)
{
    static const char *const routers[] = {"linear", "hash",          "relu",
                                          "tia_r",  "expert_choice", "sigmoid_bias"};
    for (size_t i = 0; i < sizeof routers / sizeof *routers; i++) {
        char router[64];
        graph one, two;
        snprintf(router, sizeof router, "router.plugin=%s", routers[i]);
        const char *set[] = {router, "moe.gate_scale=2.5"};
        open_graph(&one, MF_MODE_EVAL, some, 1, set);
        open_graph(&two, MF_MODE_EVAL, some, 2, set);
        const float *a = mf_tensor_host(one.mg->moe[0].gate),
                    *b = mf_tensor_host(two.mg->moe[0].gate);
        double sum = 0;
        for (int r = 0; r < one.r->rows; r++) {
            ck_assert_msg(fabs((double)b[r] - 2.5 * (double)a[r]) <= 1e-6 * (double)b[r],
                          "%s: %.9g, %.9g", routers[i], (double)a[r], (double)b[r]);
            sum += (double)a[r];
        }
        ck_assert(sum > 1);
        close_graph(&one);
        close_graph(&two);
    }
}
END_TEST

/* C0 = floor(factor T k / E) computed in decimals: .92 100 / 4 = 23, .28 100 / 4 = 7. The f32
 * values of these factors are above and below the decimal values. */
START_TEST(capacity_is_the_decimal_one)
{
    static const struct {
        const char *factor;
        int most;
    } cases[] = {{"moe.capacity_factor=0.92", 23}, {"moe.capacity_factor=0.919", 22},
                 {"moe.capacity_factor=0.28", 7},  {"moe.capacity_factor=0.72", 18},
                 {"moe.capacity_factor=0.56", 14}, {"moe.capacity_factor=0.2", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *set[] = {"moe.top_k=1", cases[i].factor};
        graph x;
        open_graph(&x, MF_MODE_EVAL, NULL, 2, set);
        const int32_t *admitted = mf_tensor_host(x.r->admitted);
        int n[E] = {0}, most = 0;
        for (int t = 0; t < T; t++)
            if (admitted[t] >= 0) n[admitted[t]]++;
        for (int e = 0; e < E; e++)
            most = n[e] > most ? n[e] : most;
        ck_assert_msg(most == cases[i].most, "%s: expected %d, found %d", cases[i].factor,
                      cases[i].most, most);
        close_graph(&x);
    }
}
END_TEST

/* A router in which each expert takes all tokens, and which does not change own_top_k. */
static int take_all(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                    mf_routing *out)
{
    static int32_t expert[E * T], token[E * T];
    const int32_t n = in->batch * in->seq;
    (void)self, (void)ctx;
    ck_assert_int_le(n, T);
    for (int r = 0; r < E * n; r++) {
        expert[r] = r / n;
        token[r] = r % n;
    }
    out->expert = mf_graph_const(g, MF_I32, mf_shape1(E * n), expert);
    out->token = mf_graph_const(g, MF_I32, mf_shape1(E * n), token);
    return mf_graph_status(g);
}

static int declare_nothing(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self, (void)ctx, (void)conf, (void)dims;
    return MF_OK;
}

static const mf_host *mf; /* the slot of the host table */
static const mf_option no_options[] = {MF_END_OPTIONS};
static const mf_router takes_all = {sizeof(mf_router), 0,   declare_nothing, NULL,
                                    take_all,          NULL};
static const mf_plugin takes_all_plugin =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "takes_all", "1", "MIT", "all tokens for each expert",
                   no_options, char, char, &takes_all);

/* Expert e admits min(n, C) of its n assignments, C = C0 + min(a max(0, n - T k / E), limit C0)
 * with C0 = floor(factor T k / E). k is moe.top_k. This also holds for relu, which has one
 * assignment for each token and expert, and if experts choose tokens. For hash, k is the number
 * of hashes; for oracle it is 1. */
START_TEST(capacity_is_of_the_experts_that_a_token_has)
{
    static const struct {
        const char *router, *own, *top_k;
        int k;
    } cases[] = {{"linear", "moe.top_k=1", "moe.top_k=1", 1},
                 {"linear", "moe.top_k=3", "moe.top_k=3", 3},
                 {"relu", "router.rate=1.2", "moe.top_k=1", 1},
                 {"relu", "router.rate=1.2", "moe.top_k=2", 2},
                 {"expert_choice", "router.capacity=4", "moe.top_k=1", 1},
                 {"expert_choice", "router.capacity=1.5", "moe.top_k=2", 2},
                 {"takes_all", "moe.top_k=2", "moe.top_k=2", 2},
                 {"hash", "router.hashes=1", "moe.top_k=2", 1},
                 {"hash", "router.hashes=2", "moe.top_k=1", 2},
                 {"oracle", "router.wrong=0", "moe.top_k=2", 1}};
    static const char *const adaptive[] = {"moe.adaptive_capacity=0",
                                           "moe.adaptive_capacity=0.3"};
    ck_assert_int_eq(mf_plugin_register(&takes_all_plugin), MF_OK);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++)
        for (int m = 0; m < LENGTHS; m++) {
            char router[64];
            snprintf(router, sizeof router, "router.plugin=%s", cases[i / 2].router);
            const char *set[] = {router, cases[i / 2].own, cases[i / 2].top_k, adaptive[i % 2],
                                 "moe.capacity_factor=0.4"};
            graph x;
            open_graph(&x, MF_MODE_EVAL, lengths[m], 5, set);
            const int32_t *chosen = mf_tensor_host(x.r->chosen),
                          *admitted = mf_tensor_host(x.r->admitted);
            const double share = x.tokens * cases[i / 2].k / (double)E;
            const double first = fmax(1, floor(0.4 * share + 1e-9));
            int dropped = 0;
            for (int e = 0; e < E; e++) {
                int n = 0, taken = 0;
                for (int r = 0; r < x.r->rows; r++) {
                    n += chosen[r] == e;
                    taken += admitted[r] == e;
                }
                const double more = i % 2 ? fmin(0.3 * fmax(0, n - share), first / 2) : 0;
                const int wanted = (int)fmin(n, floor(first + more + 1e-6));
                ck_assert_msg(taken == wanted,
                              "%s, k %d, %s, expert %d of %d rows: expected %d, found %d",
                              cases[i / 2].router, cases[i / 2].k, adaptive[i % 2], e, n,
                              wanted, taken);
                dropped += n - taken;
            }
            ck_assert_msg(dropped > 0, "%s drops nothing", cases[i / 2].router);
            close_graph(&x);
        }
}
END_TEST

/* moe.admit = rank: an expert admits first choices of all tokens, then second choices. Choices
 * of the same rank are admitted in the order of tokens. */
START_TEST(first_choices_are_admitted_first)
{
    static const char *const set[] = {"router.plugin=linear", "moe.top_k=2",
                                      "moe.capacity_factor=0.5", "moe.admit=rank"};
    graph x;
    open_graph(&x, MF_MODE_EVAL, NULL, 4, set);
    const int32_t *chosen = mf_tensor_host(x.r->chosen),
                  *admitted = mf_tensor_host(x.r->admitted);
    int room[E], second = 0;
    for (int e = 0; e < E; e++)
        room[e] = T * 2 / E / 2;
    for (int j = 0; j < 2; j++)
        for (int t = 0; t < T; t++) {
            const int e = chosen[2 * t + j];
            const bool taken = room[e]-- > 0;
            second += j == 1 && taken;
            ck_assert_int_eq(admitted[2 * t + j], taken ? e : -1);
        }
    ck_assert_int_gt(second, 0);
    close_graph(&x);
}
END_TEST

/* The choices of tokens 0 to 3 are (0,1) (0,1) (1,0) (0,2). Each expert has capacity 2. */
START_TEST(admission_of_four_tokens)
{
    static const int32_t chosen[8] = {0, 1, 0, 1, 1, 0, 0, 2},
                         by_token[8] = {0, 1, 0, 1, -1, -1, -1, 2},
                         by_rank[8] = {0, 1, 0, -1, 1, -1, -1, 2};
    static const float rank[8] = {0, -1, 0, -1, 0, -1, 0, -1}, room[3] = {2, 2, 2};
    mf_graph *g = mf_graph_new(&(mf_graph_options){0});
    mf_tensor *c = mf_graph_const(g, MF_I32, mf_shape1(8), chosen);
    mf_tensor *cap = mf_graph_const(g, MF_F32, mf_shape1(3), room);
    mf_tensor *one = mf_capacity(g, c, NULL, cap);
    mf_tensor *two = mf_capacity(g, c, mf_graph_const(g, MF_F32, mf_shape1(8), rank), cap);
    mf_graph_keep(one);
    mf_graph_keep(two);
    ck_assert_int_eq(mf_graph_finish(g), MF_OK);
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){0}), MF_OK);
    ck_assert_mem_eq(mf_tensor_host(one), by_token, sizeof by_token);
    ck_assert_mem_eq(mf_tensor_host(two), by_rank, sizeof by_rank);
    mf_graph_free(g);
}
END_TEST

/* moe.priority = time: experts that take all tokens admit the early tokens of all
 * sequences first. */
START_TEST(lists_of_tokens_are_admitted_in_time)
{
    static const char *const set[] = {"router.plugin=takes_all", "moe.top_k=2",
                                      "moe.capacity_factor=0.4", "moe.priority=time"};
    ck_assert_int_eq(mf_plugin_register(&takes_all_plugin), MF_OK);
    graph x;
    open_graph(&x, MF_MODE_EVAL, NULL, 4, set);
    const int32_t *chosen = mf_tensor_host(x.r->chosen), *token = mf_tensor_host(x.r->token),
                  *admitted = mf_tensor_host(x.r->admitted);
    for (int e = 0; e < E; e++) {
        int latest = -1, earliest = SEQ, taken = 0;
        for (int r = 0; r < x.r->rows; r++) {
            if (chosen[r] != e) continue;
            const int at = token[r] % SEQ;
            taken += admitted[r] == e;
            if (admitted[r] == e && at > latest) latest = at;
            if (admitted[r] < 0 && at < earliest) earliest = at;
        }
        ck_assert_int_eq(taken, T * 2 / E * 2 / 5);
        ck_assert_int_le(latest, earliest);
    }
    close_graph(&x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("formulas");
    TCase *c = tcase_create("formulas");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, experts_choose_among_real_tokens);
    tcase_add_test(c, shares_are_of_the_chosen_assignments);
    tcase_add_test(c, sequences_without_tokens_do_not_count);
    tcase_add_test(c, sequences_are_balanced_by_scores_or_by_choices);
    tcase_add_test(c, gates_of_relu_are_made_sparse);
    tcase_add_test(c, info_nce_is_over_tokens_that_have_pairs);
    tcase_add_test(c, padding_is_never_attended_to);
    tcase_add_test(c, unit_gates_of_small_probabilities_are_1);
    tcase_add_test(c, gates_of_every_router_are_scaled);
    tcase_add_test(c, capacity_is_the_decimal_one);
    tcase_add_test(c, capacity_is_of_the_experts_that_a_token_has);
    tcase_add_test(c, lists_of_tokens_are_admitted_in_time);
    tcase_add_test(c, first_choices_are_admitted_first);
    tcase_add_test(c, admission_of_four_tokens);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
