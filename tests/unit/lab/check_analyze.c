/* Figures of routing: 12 tokens whose figures were computed by hand, and routing of which the
 * truth is known (by id, by label, drawn). */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/rng.h"
#include "check_main.h"
#include "lab/analyze/analyze.h"
#include "lab/analyze/outputs.h"
#include "lab/analyze/words.h"

enum { MOST = 4096 };

/* Routes and tokens that tests fill. */
static int64_t begin[2][MOST + 1];
static int32_t expert[2][MOST * 4], value[MOST], document[MOST], label[MOST];

static mf_routes fixed(int which, int32_t experts, int64_t n, int k)
{
    for (int64_t t = 0; t <= n; t++)
        begin[which][t] = t * k;
    return (mf_routes){
        .experts = experts, .n = n, .begin = begin[which], .expert = expert[which]};
}

/* Each document has `each` tokens. */
static mf_clusters documents(int64_t n, int each)
{
    for (int64_t t = 0; t < n; t++)
        document[t] = (int32_t)(t / each);
    return (mf_clusters){document, (int32_t)((n + each - 1) / each)};
}

static uint64_t drawn(uint64_t i, uint64_t n)
{
    return mf_rng_below(7, 1, 0, i, n);
}

/* Token t draws k of E experts. */
static mf_routes at_random(int which, int32_t E, int64_t n, int k)
{
    uint64_t i = (uint64_t)which << 40;
    for (int64_t t = 0; t < n; t++)
        for (int j = 0; j < k; j++) {
            bool taken;
            int32_t *e = &expert[which][t * k + j];
            do {
                taken = false;
                *e = (int32_t)drawn(i++, (uint64_t)E);
                for (int l = 0; l < j; l++)
                    taken = taken || e[l - j] == *e;
            } while (taken);
        }
    return fixed(which, E, n, k);
}

/* ---- 12 tokens in 4 documents, 2 of 4 experts ---- */

static const int32_t by_hand[24] = {0, 1, 0, 1, 2, 3, 0, 1, 0, 2, 2, 3,
                                    0, 1, 1, 3, 2, 3, 0, 1, 0, 1, 2, 3};

static mf_routes twelve(void)
{
    memcpy(expert[0], by_hand, sizeof by_hand);
    return fixed(0, 4, 12, 2);
}

START_TEST(test_utilization_by_hand)
{
    mf_arena *arena = mf_arena_new();
    mf_utilization u;
    const mf_routes r = twelve();
    const mf_clusters c = documents(12, 3);
    ck_assert_int_eq(mf_utilization_of(&r, &c, arena, &u), MF_OK);
    /* loads 7, 7, 5, 5 of 24 */
    ck_assert_double_eq_tol(u.entropy, 0.989934, 1e-6);
    ck_assert_double_eq_tol(u.cv, 1 / 6., 1e-12);
    ck_assert_double_eq_tol(u.cv_chance, 0.353553, 1e-6);
    ck_assert_double_eq_tol(u.top, 7 / 24., 1e-12);
    ck_assert_double_eq(u.mean_k, 2);
    ck_assert_double_eq_tol(u.load[3], 5 / 24., 1e-12);
    ck_assert_int_eq(u.half, 2);
    ck_assert_int_eq(u.dead, 0);
    ck_assert(u.cv_lo <= u.cv && u.cv <= u.cv_hi);
    ck_assert(u.entropy_lo <= u.entropy && u.entropy <= u.entropy_hi);
    mf_arena_free(arena);
}
END_TEST

START_TEST(test_pairs_by_hand)
{
    mf_arena *arena = mf_arena_new();
    mf_coactivation co;
    const mf_routes r = twelve();
    const mf_clusters c = documents(12, 3);
    static const double counts[16] = {7, 6, 1, 0, 6, 7, 0, 1, 1, 0, 5, 4, 0, 1, 4, 5};
    ck_assert_int_eq(mf_coactivation_of(&r, &c, arena, &co), MF_OK);
    for (int i = 0; i < 16; i++)
        ck_assert_double_eq(co.count[i], counts[i]);
    ck_assert_int_eq(co.pairs, 6);
    ck_assert_double_eq_tol(co.even, 1 / 3., 1e-12);
    /* all tables of 12 labelled tokens with these sums, enumerated: 3.17168,
     * 1.91416, 1.17168 */
    ck_assert_double_eq_tol(co.chance[0 * 4 + 1], 3.17168, 0.12);
    ck_assert_double_eq_tol(co.chance[1 * 4 + 2], 1.91416, 0.12);
    ck_assert_double_eq_tol(co.chance[3 * 4 + 2], 1.17168, 0.12);
    /* documents have 2, 1, 1, 2 of the 6 tokens with the pair 0-1 */
    ck_assert_double_eq_tol(co.lift[1], 6 / co.chance[1], 1e-12);
    ck_assert_double_eq_tol(co.lo[1], (6 - 3.182446 * sqrt(4 / 3.)) / co.chance[1], 1e-5);
    ck_assert(isnan(co.lift[0]));
    mf_arena_free(arena);
}
END_TEST

START_TEST(test_saturation_by_hand)
{
    static const int32_t then[24] = {0, 1, 0, 2, 2, 3, 0, 3, 0, 2, 1, 3,
                                     0, 1, 1, 3, 2, 3, 2, 3, 0, 1, 0, 2};
    const mf_routes end = twelve();
    mf_saturation s;
    memcpy(expert[1], then, sizeof then);
    mf_routes r = fixed(1, 4, 12, 2);
    const mf_clusters c = documents(12, 3);
    ck_assert_int_eq(mf_saturation_of(&r, &end, &c, &s), MF_OK);
    /* documents have 2.5, 2, 3 and 1.5 of 3; loads then 7, 5, 6, 6 */
    ck_assert_double_eq_tol(s.overlap.value, 0.75, 1e-12);
    ck_assert_double_eq_tol(s.overlap.lo, 0.407623, 1e-6);
    ck_assert_double_eq_tol(s.overlap.hi, 1.092377, 1e-6);
    ck_assert_double_eq_tol(s.chance, (7 * 7 + 7 * 5 + 5 * 6 + 5 * 6) / 288., 1e-12);
    r.experts = 5;
    ck_assert_int_eq(mf_saturation_of(&r, &end, &c, &s), MF_EINPUT);
}
END_TEST

START_TEST(test_information_by_hand)
{
    static const int32_t ids[12] = {0, 0, 1, 0, 2, 1, 0, 2, 1, 0, 0, 1};
    const mf_routes r = twelve();
    const mf_clusters c = documents(12, 3);
    mf_information i;
    ck_assert_int_eq(mf_information_of(&r, ids, &c, &i), MF_OK);
    ck_assert_int_eq(i.tokens, 12);
    ck_assert_int_eq(i.values, 3);
    ck_assert_double_eq_tol(i.entropy, 1.372340, 1e-6);
    ck_assert_double_eq_tol(i.per_cell, 2, 1e-12);
    ck_assert_double_eq_tol(i.plug_in, 0.410735, 1e-6);
    ck_assert_double_eq_tol(i.most, 0.494916, 1e-6);
    ck_assert_double_eq_tol(i.held_out, -0.305776, 1e-6);
    ck_assert_double_eq_tol(i.lo, -1.569700, 1e-6);
}
END_TEST

START_TEST(test_labels_by_hand)
{
    static const int32_t labels[12] = {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1};
    static const double share[8] = {3, 4, 4, 3, 2, 3, 3, 2};
    mf_arena *arena = mf_arena_new();
    const mf_routes r = twelve();
    const mf_clusters c = documents(12, 3);
    mf_label_use u;
    ck_assert_int_eq(mf_label_use_of(&r, labels, 2, &c, arena, &u), MF_OK);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq_tol(u.share[i], share[i] / 6, 1e-12);
    ck_assert_double_eq(u.tokens[1], 6);
    ck_assert_double_eq_tol(u.nmi, 0.0139072, 1e-7);
    /* documents 0 and 2 have 2 and 1 of 3 tokens with expert 0: se^2 = 4/3 (.25 + .25) / 36 */
    ck_assert_double_eq_tol(u.hi[0], 0.5 + 3.182446 * sqrt(4 / 3. * .5) / 6, 1e-6);
    mf_arena_free(arena);
}
END_TEST

START_TEST(test_ratio_by_hand)
{
    const double a[2] = {3, 1}, b[2] = {2, 2}, none[2] = {0, 0};
    mf_ratio r = mf_cluster_ratio(a, b, 2); /* se^2 = 2/1 (1 + 1) / 16, t(1) = 12.7062 */
    ck_assert_double_eq(r.value, 1);
    ck_assert_double_eq_tol(r.hi, 1 + 12.7062 / 2, 1e-4);
    r = mf_cluster_ratio(a, b, 1);
    ck_assert_double_eq(r.value, 1.5);
    ck_assert(isnan(r.lo) && isnan(r.hi));
    ck_assert(isnan(mf_cluster_ratio(a, none, 2).value));
}
END_TEST

/* ---- known truth ---- */

/* Token ids are drawn, and decide the experts. */
static mf_routes by_id(int32_t E, int64_t n, int k, uint64_t ids)
{
    for (int64_t t = 0; t < n; t++) {
        value[t] = (int32_t)drawn((uint64_t)t, ids);
        for (int j = 0; j < k; j++)
            expert[0][t * k + j] = (value[t] + j * (E / k)) % E;
    }
    return fixed(0, E, n, k);
}

START_TEST(test_predictable_by_id)
{
    const mf_clusters c = documents(MOST, 64);
    mf_information i;
    mf_routes r = by_id(8, MOST, 1, 48);
    ck_assert_int_eq(mf_information_of(&r, value, &c, &i), MF_OK);
    ck_assert_double_eq_tol(i.plug_in, 1, 1e-9);
    ck_assert(i.held_out > 0.999 && i.held_out <= 1);
    ck_assert_double_eq_tol(i.most, 1, 1e-12);
    ck_assert(i.per_cell < MF_FEW_IN_CELL);
    r = by_id(8, MOST, 2, 48); /* the order of two experts is free: 1 - ln 2 / ln 8 */
    ck_assert_int_eq(mf_information_of(&r, value, &c, &i), MF_OK);
    ck_assert_double_eq_tol(i.most, 2 / 3., 0.005);
    ck_assert_double_eq_tol(i.held_out, i.most, 0.001);
    mf_saturation s;
    ck_assert_int_eq(mf_saturation_of(&r, &r, &c, &s), MF_OK);
    ck_assert_double_eq(s.overlap.value, 1);
    ck_assert_double_eq(s.overlap.lo, 1);
    ck_assert_double_eq_tol(s.chance, 0.25, 0.01);
}
END_TEST

START_TEST(test_nothing_in_random)
{
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(MOST, 64);
    mf_information i;
    mf_saturation s;
    mf_coactivation co;
    mf_label_use u;
    const mf_routes r = at_random(0, 8, MOST, 2), end = at_random(1, 8, MOST, 2);
    for (int t = 0; t < MOST; t++) {
        value[t] = (int32_t)drawn(((uint64_t)1 << 50) + (uint64_t)t, 1024);
        label[t] = t / 512;
    }
    ck_assert_int_eq(mf_information_of(&r, value, &c, &i), MF_OK);
    ck_assert(i.plug_in > 0.1); /* what bias alone gives */
    ck_assert_double_eq_tol(i.shuffled, 0, 0.02);
    ck_assert_double_eq_tol(i.held_out, 0, 0.005);
    ck_assert(i.lo <= 0 && i.per_cell < MF_FEW_IN_CELL);
    ck_assert_int_eq(mf_saturation_of(&r, &end, &c, &s), MF_OK);
    ck_assert_double_eq_tol(s.overlap.value, s.chance, 0.015);
    ck_assert_double_eq_tol(s.chance, 0.25, 0.001);
    ck_assert_int_eq(mf_coactivation_of(&r, &c, arena, &co), MF_OK);
    ck_assert_int_eq(co.over, 0);
    ck_assert_double_eq_tol(co.chance[1], MOST * 2. / 56, 12);
    ck_assert_int_eq(mf_label_use_of(&r, label, 8, &c, arena, &u), MF_OK);
    ck_assert_double_eq_tol(u.nmi, 0, 0.005);
    ck_assert_double_eq_tol(u.nmi_random, 0, 0.005);
    ck_assert_double_eq_tol(u.distance, 1, 0.01);
    const double *moved = mf_transitions(&r, &end, arena);
    for (int j = 0; j < 64; j++)
        ck_assert_double_eq_tol(moved[j], 1, 0.3);
    mf_arena_free(arena);
}
END_TEST

START_TEST(test_oracle)
{
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(MOST, 64);
    mf_label_use u;
    for (int t = 0; t < MOST; t++) {
        label[t] = (int32_t)drawn((uint64_t)document[t], 10);
        expert[0][t] = label[t] % 4;
    }
    mf_routes r = fixed(0, 4, MOST, 1);
    ck_assert_int_eq(mf_label_use_of(&r, label, 10, &c, arena, &u), MF_OK);
    ck_assert_double_eq_tol(u.distance, 0, 0.002);
    ck_assert(u.nmi < 0.99); /* 4 experts cannot tell 10 labels apart */
    for (int t = 0; t < MOST; t++)
        expert[0][t] = label[t];
    r = fixed(0, 10, MOST, 1);
    ck_assert_int_eq(mf_label_use_of(&r, label, 10, &c, arena, &u), MF_OK);
    ck_assert_double_eq_tol(u.nmi, 1, 1e-9);
    ck_assert_double_eq_tol(u.distance, 0, 0.002);
    ck_assert(u.nmi_random < 0.02);
    mf_arena_free(arena);
}
END_TEST

/* Texts that come in turns: every second document has the same label. */
START_TEST(test_turns)
{
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(MOST, 32);
    mf_label_use u;
    for (int t = 0; t < MOST; t++)
        expert[0][t] = label[t] = document[t] % 2;
    const mf_routes r = fixed(0, 2, MOST, 1);
    ck_assert_int_eq(mf_label_use_of(&r, label, 2, &c, arena, &u), MF_OK);
    ck_assert_double_eq_tol(u.says.held_out, 1, 0.001);
    ck_assert_double_eq_tol(u.distance, 0, 0.001);
    mf_arena_free(arena);
}
END_TEST

/* Figures do not depend on the numbers of the experts. */
START_TEST(test_numbers_of_experts)
{
    static const int32_t other[8] = {3, 7, 0, 4, 1, 6, 2, 5};
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(MOST, 64);
    mf_information a, b;
    mf_coactivation ca, cb;
    mf_utilization ua, ub;
    mf_routes r = by_id(8, MOST, 2, 300), q;
    for (int t = 0; t < MOST; t += 3) /* some tokens draw their second expert */
        expert[0][2 * t + 1] = (expert[0][2 * t] + 1 + (int32_t)drawn((uint64_t)t, 7)) % 8;
    for (int i = 0; i < 2 * MOST; i++)
        expert[1][i] = other[expert[0][i]];
    q = fixed(1, 8, MOST, 2);
    ck_assert_int_eq(mf_information_of(&r, value, &c, &a), MF_OK);
    ck_assert_int_eq(mf_information_of(&q, value, &c, &b), MF_OK);
    ck_assert_double_eq_tol(a.held_out, b.held_out, 1e-12);
    ck_assert_double_eq_tol(a.plug_in, b.plug_in, 1e-12);
    ck_assert_double_eq_tol(a.shuffled, b.shuffled, 1e-12);
    ck_assert_int_eq(mf_coactivation_of(&r, &c, arena, &ca), MF_OK);
    ck_assert_int_eq(mf_coactivation_of(&q, &c, arena, &cb), MF_OK);
    ck_assert_int_eq(ca.over, cb.over);
    ck_assert(ca.over > 0);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            if (i != j)
                ck_assert_double_eq(ca.lift[i * 8 + j], cb.lift[other[i] * 8 + other[j]]);
    ck_assert_int_eq(mf_utilization_of(&r, &c, arena, &ua), MF_OK);
    ck_assert_int_eq(mf_utilization_of(&q, &c, arena, &ub), MF_OK);
    ck_assert_double_eq_tol(ua.cv, ub.cv, 1e-12);
    ck_assert_double_eq_tol(ua.entropy_lo, ub.entropy_lo, 1e-12);
    mf_arena_free(arena);
}
END_TEST

/* Not only neighbours in the order of the experts are pairs. */
START_TEST(test_all_pairs)
{
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(40, 4);
    mf_coactivation co;
    for (int i = 0; i < 160; i++)
        expert[0][i] = i % 4;
    mf_routes r = fixed(0, 5, 40, 4);
    ck_assert_int_eq(mf_coactivation_of(&r, &c, arena, &co), MF_OK);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            ck_assert_double_eq(co.count[i * 5 + j], 40);
            if (i != j)
                ck_assert_double_eq(co.lift[i * 5 + j], 1); /* margins leave no choice */
        }
    ck_assert_int_eq(co.over, 0);
    ck_assert(isnan(co.lift[4]));
    r = fixed(0, 5, 40, 1);
    ck_assert_int_eq(mf_coactivation_of(&r, &c, arena, &co), MF_OK);
    ck_assert_int_eq(co.pairs, 0);
    mf_arena_free(arena);
}
END_TEST

/* Two groups that never meet, numbered in turns, become neighbours. */
START_TEST(test_order)
{
    static const int32_t set[4][2] = {{0, 2}, {1, 3}, {2, 0}, {3, 1}};
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(400, 10);
    mf_coactivation co;
    int32_t order[4];
    for (int t = 0; t < 400; t++)
        memcpy(&expert[0][2 * t], set[t % 4], sizeof set[0]);
    const mf_routes r = fixed(0, 4, 400, 2);
    ck_assert_int_eq(mf_coactivation_of(&r, &c, arena, &co), MF_OK);
    ck_assert_int_eq(co.over, 2);
    ck_assert_int_eq(mf_coactivation_order(&co, order), MF_OK);
    ck_assert_int_eq(order[0], 0);
    ck_assert_int_eq(order[1], 2);
    ck_assert_int_eq(order[2], 1);
    ck_assert_int_eq(order[3], 3);
    mf_arena_free(arena);
}
END_TEST

/* Ids 5 and 7 have 12 and 10 tokens; id 9 has too few. */
START_TEST(test_words)
{
    mf_arena *arena = mf_arena_new();
    mf_expert_words w;
    for (int t = 0; t < 31; t++) {
        value[t] = t < 12 ? 5 : t < 22 ? 7 : 9;
        expert[0][t] = t < 9 ? 1 : t < 12 ? 0 : t < 22 ? 0 : 2;
    }
    const mf_routes r = fixed(0, 3, 31, 1);
    ck_assert_int_eq(mf_words_of(&r, value, arena, &w), MF_OK);
    ck_assert_int_eq(w.n[0], 2);
    ck_assert_int_eq(w.words[0].id, 7);
    ck_assert_double_eq(w.words[0].share, 1);
    ck_assert_int_eq(w.words[1].id, 5);
    ck_assert_double_eq(w.words[1].share, 0.25);
    ck_assert_int_eq(w.words[1].tokens, 12);
    ck_assert_int_eq(w.n[1], 1);
    ck_assert_double_eq(w.words[MF_WORDS].share, 0.75);
    ck_assert_int_eq(w.n[2], 0);
    ck_assert_double_eq_tol(w.top_share, 19 / 22., 1e-12);
    ck_assert(w.top_share_shuffled < 0.75);
    mf_arena_free(arena);
}
END_TEST

/* Expert 1 computes twice what expert 0 does, expert 2 its negative, expert 3 what is
 * orthogonal and independent. */
START_TEST(test_outputs)
{
    enum { E = 4, N = 64, DIM = 32 };
    static float f[E * N * DIM];
    mf_arena *arena = mf_arena_new();
    mf_expert_outputs o;
    mf_rng_normals(3, 1, 0, 0, f, N * DIM);
    for (int i = 0; i < N * DIM; i++) {
        const bool first = i % DIM < DIM / 2;
        f[i] = first ? f[i] : 0;
        f[N * DIM + i] = 2 * f[i];
        f[2 * N * DIM + i] = -f[i];
        f[3 * N * DIM + i] = first ? 0 : mf_rng_normal(3, 2, 0, (uint64_t)i);
    }
    ck_assert_int_eq(mf_outputs_compare(f, E, N, DIM, arena, &o), MF_OK);
    ck_assert_double_eq_tol(o.cosine[0 * E + 1], 1, 1e-6);
    ck_assert_double_eq_tol(o.cosine[2 * E + 0], -1, 1e-6);
    ck_assert_double_eq_tol(o.cosine[3 * E + 1], 0, 1e-12);
    ck_assert_double_eq_tol(o.cka[0 * E + 1], 1, 1e-6);
    ck_assert_double_eq_tol(o.cka[2 * E + 0], 1, 1e-6);
    ck_assert_double_eq_tol(o.cka[3 * E + 0], o.cka_chance, 0.1);
    ck_assert(o.cka[3 * E + 0] < 0.35); /* about dim / tokens for independent outputs */
    ck_assert_double_eq_tol(o.cosine_chance, 0, 0.05);
    ck_assert(o.first == 0 && o.second == 1);
    mf_arena_free(arena);
}
END_TEST

/* A layer that uses one expert, and tokens of one document. */
START_TEST(test_degenerate)
{
    mf_arena *arena = mf_arena_new();
    const mf_clusters c = documents(30, 30);
    mf_information i;
    mf_utilization u;
    for (int t = 0; t < 30; t++) {
        expert[0][t] = 2;
        value[t] = t < 20 ? t % 3 : -1;
    }
    mf_routes r = fixed(0, 4, 30, 1);
    ck_assert_int_eq(mf_information_of(&r, value, &c, &i), MF_OK);
    ck_assert_int_eq(i.tokens, 20);
    ck_assert(isnan(i.plug_in) && isnan(i.held_out) && isnan(i.most));
    ck_assert_int_eq(mf_utilization_of(&r, &c, arena, &u), MF_OK);
    ck_assert_int_eq(u.dead, 3);
    ck_assert_int_eq(u.half, 1);
    ck_assert(u.top == 1 && isnan(u.cv_lo));
    expert[0][3] = 1;
    ck_assert_int_eq(mf_information_of(&r, value, &c, &i), MF_OK);
    ck_assert(isfinite(i.plug_in) && isnan(i.held_out));
    mf_arena_free(arena);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("analyze");
    TCase *t = tcase_create("analyze");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_utilization_by_hand);
    tcase_add_test(t, test_pairs_by_hand);
    tcase_add_test(t, test_saturation_by_hand);
    tcase_add_test(t, test_information_by_hand);
    tcase_add_test(t, test_labels_by_hand);
    tcase_add_test(t, test_ratio_by_hand);
    tcase_add_test(t, test_predictable_by_id);
    tcase_add_test(t, test_nothing_in_random);
    tcase_add_test(t, test_oracle);
    tcase_add_test(t, test_turns);
    tcase_add_test(t, test_numbers_of_experts);
    tcase_add_test(t, test_all_pairs);
    tcase_add_test(t, test_degenerate);
    tcase_add_test(t, test_order);
    tcase_add_test(t, test_words);
    tcase_add_test(t, test_outputs);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
