/* Attention heads: pruned heads are not part of graphs, and statistics of heads equal sums over
 * recorded weights. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "check_main.h"
#include "heads_model.h"
#include "run/modules.h"

/* Compares a model with pruned heads with a model whose gates are 0. Each string describes a
 * layer with HEADS characters: '.' keeps a head, 'x' prunes it. */
static void compare_with_gates_of_0(const char *options, const char *first, const char *second)
{
    made pruned, gated;
    make(&pruned, options);
    make(&gated, options);
    const char *out[LAYERS] = {first, second};
    for (int l = 0; l < LAYERS; l++)
        for (int h = 0; h < HEADS; h++) {
            if (out[l][h] != 'x') continue;
            set(&pruned, l, "active", h, 0);
            set(&gated, l, "gate", h, -100);
        }
    const double a = run(&pruned, NULL), b = run(&gated, NULL);
    ck_assert_msg(fabs(a - b) < 1e-5, "%s %s: loss %.9g, with gates of 0 %.9g", first, second,
                  a, b);
    for (int i = 0; i < mf_store_count(pruned.model->store); i++) {
        const mf_param *p = mf_store_at(pruned.model->store, i);
        const mf_param *q = mf_store_find(gated.model->store, p->name);
        for (int64_t j = 0; !p->buffer && j < p->count; j++)
            ck_assert_msg(fabs((double)p->grad[j] - (double)q->grad[j]) < 2e-5,
                          "%s %s: gradient of %s[%lld]: %.9g, with gates of 0 %.9g", first,
                          second, p->name, (long long)j, (double)p->grad[j],
                          (double)q->grad[j]);
    }
    unmake(&pruned);
    unmake(&gated);
}

START_TEST(pruned_heads_are_heads_with_gate_0)
{
    static const char *const forms[] = {
        "heads = 8\nhead_gates = yes\n",
        "heads = 8\nkv_heads = 4\nhead_gates = yes\nattention_bias = yes\nattention_out_bias = "
        "yes\n",
        "heads = 8\nkv_heads = 2\nhead_gates = yes\nposition = learned\n",
        "heads = 8\nhead_gates = yes\ngate_form = raw\ngate_init = 0.8\ngate_bias = yes\n"
        "attention_out_bias = yes\nhead_norm = token\nhead_mean = yes\n",
        "heads = 8\nhead_gates = yes\nhead_norm = batch\nlogit_scale = 1.25\n",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        compare_with_gates_of_0(forms[i], "........", "........");
        compare_with_gates_of_0(forms[i], "x.......", "...x..x.");
        compare_with_gates_of_0(forms[i], "xx..x.x.", "xxxx....");
        compare_with_gates_of_0(forms[i], "xxxxxxxx", ".xxxxxxx");
    }
}
END_TEST

START_TEST(shared_keys_go_with_their_last_query)
{
    made x;
    mf_head_plan *p;
    make(&x, "heads = 8\nkv_heads = 4\nhead_gates = yes\n");
    /* key-value head 0 keeps one of its two query heads, head 2 none; heads 1 and 3
     * keep both */
    set(&x, 0, "active", 0, 0);
    set(&x, 0, "active", 4, 0);
    set(&x, 0, "active", 5, 0);
    ck_assert_int_eq(mf_head_plan_new(x.model, 0, &p), MF_OK);
    static const int32_t q[] = {1, 2, 3, 6, 7}, kv[] = {0, 1, 3};
    ck_assert_int_eq(p->active, 5);
    ck_assert_int_eq(p->kv_active, 3);
    ck_assert_int_eq(p->n_groups, 2);
    ck_assert(!p->whole);
    ck_assert_int_eq(memcmp(p->q, q, sizeof q), 0);
    ck_assert_int_eq(memcmp(p->kv, kv, sizeof kv), 0);
    ck_assert_int_eq(p->group[0].share, 1);
    ck_assert_int_eq(p->group[0].kv, 1);
    ck_assert_int_eq(p->group[1].share, 2);
    ck_assert_int_eq(p->group[1].kv, 2);
    mf_free(p);
    unmake(&x);
}
END_TEST

START_TEST(gates_of_1_and_skips_of_0_change_no_bit)
{
    static const char *const forms[] = {
        "gate_init = 40\n",
        "gate_form = raw\ngate_init = 1\n",
        "gate_init = 40\ngate_bias = yes\n",
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        made plain, gated;
        char *more =
            mf_strf("heads = 8\nattention_out_bias = yes\nhead_gates = yes\nskip = unet\n"
                    "skip_scale = 0\n%s",
                    forms[f]);
        make(&plain, "heads = 8\nattention_out_bias = yes\n");
        make(&gated, more);
        const double a = run(&plain, NULL), b = run(&gated, NULL);
        ck_assert_msg(a == b, "%s: %.9g, %.9g", forms[f], a, b);
        for (int i = 0; i < mf_store_count(plain.model->store); i++) {
            const mf_param *p = mf_store_at(plain.model->store, i);
            const mf_param *q = mf_store_find(gated.model->store, p->name);
            ck_assert_msg(memcmp(p->grad, q->grad, (size_t)p->count * sizeof(float)) == 0,
                          "%s: gradient of %s", forms[f], p->name);
        }
        unmake(&plain);
        unmake(&gated);
        mf_free(more);
    }
}
END_TEST

START_TEST(a_linear_skip_begins_as_the_identity)
{
    made plain, skipping, residual;
    make(&plain, "heads = 8\n");
    make(&skipping, "heads = 8\nskip = unet\n");
    make(&residual, "heads = 8\nskip = unet\nskip_form = residual\n");
    ck_assert(fabs(run(&plain, NULL) - run(&skipping, NULL)) < 1e-5);
    ck_assert(fabs(run(&plain, NULL) - run(&residual, NULL)) > 1e-5);
    unmake(&plain);
    unmake(&skipping);
    unmake(&residual);
}
END_TEST

/* With scores of 0, row t has uniform weights over t + 1 keys. */
START_TEST(entropy_of_even_weights)
{
    made x;
    mf_head_tally *tally;
    double expected = 0;
    make(&x, "heads = 8\nkv_heads = 4\nhead_gates = yes\n");
    mf_param *qkv = mf_head_param(x.model, 1, "qkv.weight");
    memset(qkv->value, 0, 3 * 4 * 32 * sizeof(float)); /* queries of heads 0, 1, 2 */
    set(&x, 1, "active", 1, 0);
    for (int t = 0; t < SEQ; t++)
        expected += log(t + 1.0) / SEQ;
    ck_assert_int_eq(mf_head_tally_new(x.model, &tally), MF_OK);
    run(&x, tally);
    const double *e = tally->entropy + HEADS;
    ck_assert(fabs(e[0] - expected) < 1e-6);
    ck_assert(e[1] == 0);
    ck_assert(fabs(e[2] - expected) < 1e-6);
    ck_assert(e[3] < expected - 1e-3 && e[3] > 0);
    mf_head_tally_free(tally);
    unmake(&x);
}
END_TEST

/* In the first layer of a model without positions, queries and keys are projections of the
 * normalized embedding. */
START_TEST(entropy_by_hand)
{
    made x;
    mf_head_tally *tally;
    double rows[BATCH * SEQ][2][2], expected = 0; /* q and k of head 3, of width 2 */
    make(&x, "heads = 16\nposition = none\nhead_gates = yes\n");
    const float *embed = mf_store_find(x.model->store, "embed.weight")->value,
                *w = mf_head_param(x.model, 0, "qkv.weight")->value;
    for (int i = 0; i < BATCH * SEQ; i++) {
        const float *v = embed + (i * 7 + 3) % VOCAB * 32;
        double square = 0;
        for (int j = 0; j < 32; j++)
            square += (double)v[j] * (double)v[j] / 32;
        for (int part = 0; part < 2; part++)
            for (int c = 0; c < 2; c++) {
                const float *row = w + ((part * 16 + 3) * 2 + c) * 32;
                rows[i][part][c] = 0;
                for (int j = 0; j < 32; j++)
                    rows[i][part][c] += (double)v[j] * (double)row[j] / sqrt(square + 1e-5);
            }
    }
    for (int i = 0; i < BATCH * SEQ; i++) {
        double sum = 0, weighted = 0;
        for (int s = i / SEQ * SEQ; s <= i; s++) {
            const double score =
                (rows[i][0][0] * rows[s][1][0] + rows[i][0][1] * rows[s][1][1]) / sqrt(2.0);
            sum += exp(score);
            weighted += exp(score) * score;
        }
        expected += (log(sum) - weighted / sum) / (BATCH * SEQ);
    }
    ck_assert_int_eq(mf_head_tally_new(x.model, &tally), MF_OK);
    run(&x, tally);
    ck_assert_msg(fabs(tally->entropy[3] - expected) < 1e-5, "%.9g, by hand %.9g",
                  tally->entropy[3], expected);
    mf_head_tally_free(tally);
    unmake(&x);
}
END_TEST

/* Mean over rows of -sum p ln p for the recorded weights of one head, [SEQ, SEQ]. Rows must sum
 * to 1 and be 0 for later tokens. */
static double entropy_of_rows(const float *p)
{
    double sum = 0;
    for (int t = 0; t < SEQ; t++) {
        double all = 0;
        for (int k = 0; k < SEQ; k++) {
            const double v = (double)p[t * SEQ + k];
            ck_assert(k <= t ? v >= 0 : v == 0);
            all += v;
            sum -= v > 0 ? v * log(v) : 0;
        }
        ck_assert(fabs(all - 1) < 1e-6);
    }
    return sum / SEQ;
}

/* Reports must show the weights of each query head with its own key head. The entropy of these
 * weights equals the measured entropy, which is computed without a matrix of weights, and
 * differs from the entropy of other heads. */
START_TEST(recorded_weights_have_the_measured_entropy)
{
    static const char *const forms[] = {"heads = 8\n", "heads = 8\nkv_heads = 4\n",
                                        "heads = 8\nkv_heads = 2\nposition = learned\n"};
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = 1, .seq = SEQ, .want_attention = SEQ};
    for (int i = 0; i < 6; i++) {
        made x;
        mf_model_graph *mg;
        char *options = mf_strf("%shead_gates = yes\nattention_scale = 3\n", forms[i / 2]);
        make(&x, options);
        for (int h = 1; i % 2 && h < 6; h += 2) /* prunes heads 1, 3 and 5 */
            set(&x, 1, "active", h, 0);
        ck_assert_int_eq(mf_model_graph_new(x.model, &shape, &mg), MF_OK);
        feed(mg);
        ck_assert_int_eq(mf_graph_run(mg->g, &(mf_run){.metrics = true}), MF_OK);
        for (int l = 0; l < LAYERS; l++) {
            const mf_model_heads *heads = &mg->heads[l];
            const float *p = mf_tensor_data(heads->weights),
                        *e = mf_tensor_data(heads->entropy);
            double found[HEADS];
            for (int h = 0; h < heads->plan->active; h++) {
                found[h] = entropy_of_rows(p + h * SEQ * SEQ);
                ck_assert_msg(fabs(found[h] - (double)e[h]) < 1e-5,
                              "form %d, layer %d, head %d: weights %.7g, measured %.7g", i, l,
                              (int)heads->plan->q[h], found[h], (double)e[h]);
                for (int other = 0; other < h; other++)
                    ck_assert_msg(fabs(found[h] - found[other]) > 2e-5,
                                  "form %d, layer %d: %d and %d are alike", i, l, other, h);
            }
        }
        mf_model_graph_free(mg);
        unmake(&x);
        mf_free(options);
    }
}
END_TEST

/* The squares of the heads' norms sum to the square of the norm of all gradients, including
 * those of shared keys and values. */
START_TEST(gradient_norms_share_out_all_of_the_gradient)
{
    made x;
    float norm[HEADS];
    make(&x, "heads = 8\nkv_heads = 2\nhead_gates = yes\nattention_bias = yes\n");
    set(&x, 0, "active", 2, 0);
    run(&x, NULL);
    double all = 0, heads = 0;
    static const char *const names[] = {"qkv.weight", "qkv.bias", "out.weight"};
    for (int i = 0; i < 3; i++) {
        const mf_param *p = mf_head_param(x.model, 0, names[i]);
        for (int64_t j = 0; j < p->count; j++)
            all += (double)p->grad[j] * (double)p->grad[j];
    }
    mf_head_gradients(x.model, 0, 1, norm);
    for (int h = 0; h < HEADS; h++)
        heads += (double)norm[h] * (double)norm[h];
    ck_assert(norm[2] == 0);
    ck_assert_msg(fabs(heads - all) < 1e-5 * all, "%.9g, %.9g", heads, all);
    unmake(&x);
}
END_TEST

START_TEST(learning_rates_of_parts)
{
    made x;
    make(&x, "heads = 8\nkv_heads = 4\nhead_gates = yes\n");
    ck_assert(!mf_heads_set_parts(x.model));
    set(&x, 0, "active", 2, 0);
    set(&x, 0, "active", 3, 0);
    set(&x, 0, "lr_scale", 4, 5);
    ck_assert(mf_heads_set_parts(x.model));
    ck_assert(!mf_heads_set_parts(x.model));
    static const float qkv[16] = {1, 1, 0, 0, 5, 1, 1, 1, 1, 0, 5, 1, 1, 0, 5, 1};
    static const float out[8] = {1, 1, 0, 0, 5, 1, 1, 1};
    ck_assert_int_eq(memcmp(mf_head_param(x.model, 0, "qkv.weight")->part, qkv, sizeof qkv), 0);
    ck_assert_int_eq(memcmp(mf_head_param(x.model, 0, "out.weight")->part, out, sizeof out), 0);
    ck_assert_int_eq(memcmp(mf_head_param(x.model, 0, "gate")->part, out, sizeof out), 0);
    unmake(&x);
}
END_TEST

/* dim 32, 8 query heads of width 4. A query, key or value head has 4 x 32 weights and 4 biases.
 * A query head also has 32 x 4 weights of the output projection, and one gate. */
START_TEST(pruned_heads_are_no_parameters_in_use)
{
    enum { PART = 4 * 32 + 4, OUT = 32 * 4 };
    made x;
    int64_t all, active, first;
    make(&x, "heads = 8\nkv_heads = 4\nhead_gates = yes\nattention_bias = yes\n");
    mf_model_count(x.model, &all, &first);
    ck_assert_int_eq(mf_heads_idle(x.model), 0);
    ck_assert_int_eq(all, first);
    set(&x, 0, "active", 2, 0);
    ck_assert_int_eq(mf_heads_idle(x.model), 1 + PART + OUT);
    set(&x, 0, "active", 3, 0); /* the last active query head of a key-value head */
    set(&x, 1, "active", 7, 0);
    ck_assert_int_eq(mf_heads_idle(x.model), 3 * (1 + PART + OUT) + 2 * PART);
    mf_model_count(x.model, &all, &active);
    ck_assert_int_eq(all, first);
    ck_assert_int_eq(active, first - 3 * (1 + PART + OUT) - 2 * PART);
    unmake(&x);
    make(&x, "heads = 8\nkv_heads = 4\nhead_gates = yes\nattention_bias = yes\nshare_layers = "
             "yes\n");
    /* gates belong to one layer; the other weights are still used in layer 1 */
    set(&x, 0, "active", 2, 0);
    ck_assert_int_eq(mf_heads_idle(x.model), 1);
    set(&x, 1, "active", 2, 0);
    ck_assert_int_eq(mf_heads_idle(x.model), 2 + PART + OUT);
    unmake(&x);
    make(&x, "heads = 8\n");
    ck_assert_int_eq(mf_heads_idle(x.model), 0);
    unmake(&x);
}
END_TEST

static void expect_parts(const made *x, int layer, const char *what, const float *want, int n)
{
    const mf_param *p = mf_head_param(x->model, layer, what);
    ck_assert_ptr_nonnull(p);
    for (int i = 0; i < n; i++)
        ck_assert_msg(p->part[i] == want[i], "%s, part %d: %g", what, i, (double)p->part[i]);
}

/* Weights that both layers use have the higher learning rate; gates belong to one layer. */
START_TEST(shared_layers_learn_as_the_fastest)
{
    made x;
    make(&x, "heads = 8\nkv_heads = 4\nhead_gates = yes\nshare_layers = yes\n");
    ck_assert(!mf_heads_set_parts(x.model));
    set(&x, 0, "active", 0, 0); /* pruned in one layer only, so the other layer still
                                 * trains it */
    set(&x, 0, "active", 2, 0);
    set(&x, 1, "active", 2, 0); /* pruned in both layers */
    set(&x, 0, "lr_scale", 3, 0);
    /* Head 3 is frozen in layer 0 and pruned in layer 1. Query heads 2 and 3 share a
     * key-value head. */
    set(&x, 1, "active", 3, 0);
    set(&x, 0, "lr_scale", 4, 0.5f);
    set(&x, 1, "lr_scale", 4, 5);
    ck_assert(mf_heads_set_parts(x.model));
    ck_assert(!mf_heads_set_parts(x.model));
    static const float qkv[16] = {1, 1, 0, 0, 5, 1, 1, 1, 1, 0, 5, 1, 1, 0, 5, 1};
    static const float first[8] = {0, 1, 0, 0, 0.5f, 1, 1, 1};
    static const float second[8] = {1, 1, 0, 0, 5, 1, 1, 1};
    expect_parts(&x, 0, "qkv.weight", qkv, 16);
    expect_parts(&x, 0, "out.weight", second, 8);
    expect_parts(&x, 0, "gate", first, 8);
    expect_parts(&x, 1, "gate", second, 8);
    ck_assert_ptr_null(mf_head_param(x.model, 1, "qkv.weight"));
    unmake(&x);
}
END_TEST

START_TEST(heads_are_live_options)
{
    made x;
    double value = 0;
    make(&x, "heads = 8\nhead_gates = yes\n");
    mf_plughost *h = x.model->plugins;
    ck_assert_int_eq(mf_live_get(h, "layers.1.attention.gate.7", &value), MF_OK);
    ck_assert(value == 3);
    ck_assert_int_eq(mf_live_set(h, "layers.1.attention.gate.7", -2, "a test", "why"), MF_OK);
    ck_assert(mf_head_param(x.model, 1, "gate")->value[7] == -2);
    ck_assert_ptr_null(mf_plughost_rebuild(h));
    ck_assert_int_eq(mf_live_set(h, "layers.0.attention.active.3", 0, "a test", "why"), MF_OK);
    ck_assert_str_eq(mf_plughost_rebuild(h), "a test: why");
    ck_assert_int_eq(mf_heads_active(x.model), 15);
    ck_assert_int_eq(mf_live_set(h, "layers.0.attention.active.3", 2, "a test", "why"),
                     MF_ECONFIG);
    ck_assert_int_eq(mf_live_get(h, "layers.0.attention.active.8", &value), MF_ENOTFOUND);
    const mf_change *turns;
    ck_assert_int_eq(mf_changes(h, &turns), 2);
    ck_assert_str_eq(turns[1].option, "layers.0.attention.active.3");
    /* A change by an older name of the option is noted under that name. */
    ck_assert_int_eq(mf_live_alias(h, "old.gate", "layers.1.attention.gate.6"), MF_OK);
    ck_assert_int_eq(mf_live_set(h, "old.gate", -1, "a test", "why"), MF_OK);
    ck_assert(mf_head_param(x.model, 1, "gate")->value[6] == -1);
    ck_assert_int_eq(mf_changes(h, &turns), 3);
    ck_assert_str_eq(turns[2].option, "old.gate");
    unmake(&x);
}
END_TEST

/* The uses of a block lie between those of others in one array. */
START_TEST(a_point_counts_adapters_of_the_block_alone)
{
    const uint32_t all = UINT32_MAX, heads = MF_POINT_BIT(MF_AT_HEADS);
    mf_adapter_use use[] = {{.points = all}, {.points = 0}, {.points = heads}, {.points = all}};
    const mf_adapters none = {use + 1, 1}, both = {use + 1, 2};
    ck_assert(!mf_adapters_at(NULL, MF_AT_HEADS));
    ck_assert(!mf_adapters_at(&none, MF_AT_HEADS));
    ck_assert(mf_adapters_at(&both, MF_AT_HEADS));
    ck_assert(!mf_adapters_at(&both, MF_AT_EXPERT_OUT));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("heads");
    TCase *c = tcase_create("heads");
    tcase_add_test(c, pruned_heads_are_heads_with_gate_0);
    tcase_add_test(c, shared_keys_go_with_their_last_query);
    tcase_add_test(c, gates_of_1_and_skips_of_0_change_no_bit);
    tcase_add_test(c, a_linear_skip_begins_as_the_identity);
    tcase_add_test(c, entropy_of_even_weights);
    tcase_add_test(c, entropy_by_hand);
    tcase_add_test(c, recorded_weights_have_the_measured_entropy);
    tcase_add_test(c, gradient_norms_share_out_all_of_the_gradient);
    tcase_add_test(c, pruned_heads_are_no_parameters_in_use);
    tcase_add_test(c, learning_rates_of_parts);
    tcase_add_test(c, shared_layers_learn_as_the_fastest);
    tcase_add_test(c, heads_are_live_options);
    tcase_add_test(c, a_point_counts_adapters_of_the_block_alone);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
