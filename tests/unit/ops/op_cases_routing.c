/* Cases of check_ops: routing, capacity, dispatch. Expected values are computed token by token
 * and assignment by assignment, without grouping. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "op_case.h"

static int64_t token_of(const ot_run *r, int list, int64_t row, int64_t k)
{
    return r->in[list].i ? r->in[list].i[row] : row / k;
}

/* ---- choices ---- */

static void right_mask(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int64_t t = token_of(r, 2, i, r->attr->i[0]);
        r->out[0].want[i] = t >= 0 && r->in[1].f[t] != 0 ? r->in[0].i[i] : -1;
    }
}

static void right_select(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1], k = r->attr->i[0];
    for (int64_t t = 0; t < r->in[0].shape.dim[0]; t++) {
        const float *score = r->in[0].f + t * n;
        bool taken[64] = {false};
        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;
            for (int64_t e = 0; e < n; e++)
                if (!taken[e] && (best < 0 || score[e] > score[best])) best = e;
            taken[best] = true;
            bool real = !r->in[1].f || r->in[1].f[t] != 0;
            r->out[0].want[t * k + j] = real ? (double)best : -1;
        }
    }
}

/* ---- gates: prob, chosen, admitted ---- */

static int32_t target(const ot_run *r, int64_t row)
{
    return r->in[2].i && r->in[2].i[row] >= 0 ? r->in[2].i[row] : r->in[1].i[row];
}

static void right_gates(ot_run *r)
{
    int64_t n = r->in[0].shape.dim[1], k = r->attr->i[0];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        const float *prob = r->in[0].f + i / k * n;
        double sum = 0;
        for (int64_t j = i / k * k; j < i / k * k + k; j++)
            sum += target(r, j) < 0 ? 0 : prob[target(r, j)];
        double gate = target(r, i) < 0 ? 0 : r->attr->f[0] * prob[target(r, i)];
        if (r->attr->i[1]) gate = sum < 1e-20 ? 0 : gate / sum;
        r->out[0].want[i] = gate;
    }
}

/* Tokens 0 and 1 choose one expert with probability 1 and one with probability 0. Both experts
 * of token 2 have a probability near 0. */
static const float corners[] = {1, 0, 0, 0, 0, 1, 1e-30f, 0.5f, 1e-30f, 0.25f, 0.5f, 0.25f};
static const int32_t corner_choice[] = {0, 1, 0, 2, 0, 2, 1, 2};

/* ---- statistics: prob, chosen, admitted, gate, mask, token ---- */

static void right_stats(ot_run *r)
{
    enum { PROB, CHOSEN, ADMITTED, GATE, MASK, TOKEN };
    int64_t k = r->attr->i[0], experts = r->attr->i[1], tokens = r->attr->i[2];
    int64_t rows = r->in[CHOSEN].count;
    double *chosen = r->out[0].want, *admitted = r->out[1].want;
    double *importance = r->out[2].want, *scalar = r->out[3].want;
    for (int64_t e = 0; e < experts; e++)
        chosen[e] = admitted[e] = importance[e] = 0;
    for (int i = 0; i < 4; i++)
        scalar[i] = 0;
    for (int64_t t = 0; t < tokens; t++) {
        double top = 0, n = 0;
        if (!r->in[MASK].f || r->in[MASK].f[t] != 0) {
            scalar[0]++;
            for (int64_t e = 0; r->in[PROB].f && e < experts; e++)
                scalar[1] -=
                    r->in[PROB].f[t * experts + e] * log(r->in[PROB].f[t * experts + e]);
        }
        for (int64_t i = 0; i < rows; i++) {
            int32_t c = r->in[CHOSEN].i[i], a = r->in[ADMITTED].i[i];
            if (token_of(r, TOKEN, i, k) != t) continue;
            if (c >= 0) {
                chosen[c]++;
                scalar[3]++;
                n++;
                if (r->in[PROB].f) top += r->in[PROB].f[t * experts + c];
            }
            if (a >= 0) {
                admitted[a]++;
                importance[a] += r->in[GATE].f ? (double)r->in[GATE].f[i] : 1;
            }
        }
        if (n > 0) scalar[2] += top / n;
    }
    if (!r->in[PROB].f) {
        ck_assert(isnan(r->out[3].f[1]) && isnan(r->out[3].f[2]));
        scalar[1] = scalar[2] = NAN;
    }
}

static void right_joint(ot_run *r)
{
    int64_t labels = r->attr->i[2];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
    for (int64_t i = 0; i < r->in[0].count; i++) {
        int64_t t = token_of(r, 1, i, r->attr->i[0]);
        if (t >= 0 && r->in[0].i[i] >= 0 && r->in[2].i[t] >= 0)
            r->out[0].want[r->in[0].i[i] * labels + r->in[2].i[t]]++;
    }
}

/* ---- capacity ---- */

static void right_capacity_of(ot_run *r)
{
    double real = 0;
    for (int64_t t = 0; t < r->attr->i[0]; t++)
        real += !r->in[1].f || r->in[1].f[t] != 0;
    double cap = floor(r->in[0].f[0] * real * (double)r->attr->i[1] / (double)r->attr->i[2]);
    for (int64_t e = 0; e < r->out[0].count; e++)
        r->out[0].want[e] = fmax(1, cap);
}

static void right_capacity(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int32_t e = r->in[0].i[i];
        int64_t ahead = 0;
        for (int64_t j = 0; j < r->out[0].count; j++) {
            bool equal = !r->in[1].f || r->in[1].f[j] == r->in[1].f[i];
            if (r->in[0].i[j] == e) ahead += equal ? j < i : r->in[1].f[j] > r->in[1].f[i];
        }
        r->out[0].want[i] = e >= 0 && (double)(ahead + 1) <= r->in[2].f[e] ? e : -1;
    }
}

/* Five tokens, top-1, three experts. Tokens 0, 1, 2, 4 choose expert 0, whose capacity is two;
 * token 3 chooses expert 1. By importance token 4 comes before token 2, so it gets expert 1:
 * prob / (1 + load) is 0.4 / 2, more than 0.1 / 1 of expert 2. Then expert 1 is full, and token
 * 2 gets expert 2, although its probability for expert 1 is higher. */
static const int32_t five_chosen[] = {0, 0, 0, 1, 0}, five_admitted[] = {0, 0, -1, 1, -1};
static const float five_prob[] = {0.9f, 0.05f, 0.05f, 0.8f, 0.1f, 0.1f, 0.6f, 0.3f,
                                  0.1f, 0.1f,  0.8f,  0.1f, 0.5f, 0.4f, 0.1f};
static const float five_importance[] = {5, 4, 1, 3, 2}, five_cap[] = {2, 2, 2.9f};

static void expect(ot_run *r, const int32_t *to, double moved)
{
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = to[i];
    r->out[1].want[0] = moved;
}
static void right_five(ot_run *r)
{
    expect(r, (const int32_t[]){0, 0, 2, 1, 1}, 2);
}
/* Token 2 comes before token 4 and gets expert 1: prob / (1 + load) is 0.3 / 2, more than 0.1 /
 * 1 of expert 2. Expert 1 is then full, so token 4 gets expert 2. */
static void right_five_in_row_order(ot_run *r)
{
    expect(r, (const int32_t[]){0, 0, 1, 1, 2}, 2);
}
static void right_five_one_move(ot_run *r)
{
    expect(r, (const int32_t[]){0, 0, -1, 1, 1}, 1);
}

/* Two tokens, top-2, three experts. The assignment of token 1 to expert 0 was dropped. The
 * token already has expert 1, so only expert 2 remains. The assignment of token 0 to expert
 * 2 was dropped. The token has expert 0, and expert 1 is full, so the assignment
 * stays dropped. */
static const int32_t two_chosen[] = {0, 2, 1, 0}, two_admitted[] = {0, -1, 1, -1};
static const float two_prob[] = {0.5f, 0.1f, 0.4f, 0.4f, 0.5f, 0.1f}, two_cap[] = {1, 1, 1};
static void right_two(ot_run *r)
{
    expect(r, (const int32_t[]){0, -1, 1, 2}, 1);
}

/* ---- dispatch ---- */

/* Computes places by counting the assignments that come before assignment i: those of lower
 * experts; of the same expert, those of lower tokens; of the same token, those with a
 * lower index. */
static void right_group(ot_run *r)
{
    const int64_t rows = r->in[0].count, experts = r->attr->i[1], k = r->attr->i[0];
    for (int64_t e = 0; e <= experts; e++)
        r->out[1].want[e] = 0;
    for (int64_t i = 0; i < rows; i++)
        r->out[0].want[i] = r->out[2].want[i] = r->out[3].want[i] = -1;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t e = r->in[0].i[i], t = token_of(r, 1, i, k);
        int64_t p = 0;
        if (e < 0) continue;
        for (int64_t j = 0; j < rows; j++) {
            const int64_t f = r->in[0].i[j], u = token_of(r, 1, j, k);
            p += (f >= 0 && f < e) || (f == e && (u < t || (u == t && j < i)));
        }
        for (int64_t above = e + 1; above <= experts; above++)
            r->out[1].want[above]++;
        r->out[0].want[p] = (double)i;
        r->out[2].want[p] = (double)t;
        r->out[3].want[i] = (double)p;
    }
}

static void right_dispatch(ot_run *r)
{
    int64_t d = r->in[0].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++) {
        int32_t t = r->in[1].i[i / d];
        r->out[0].want[i] = t < 0 ? 0 : r->in[0].f[t * d + i % d];
    }
}

static void right_combine(ot_run *r)
{
    int64_t d = r->in[0].shape.dim[1], rows = r->in[0].shape.dim[0];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t t = token_of(r, 3, i, r->attr->i[0]), p = r->in[2].i[i];
        for (int64_t c = 0; t >= 0 && p >= 0 && c < d; c++)
            r->out[0].want[t * d + c] +=
                (r->in[1].f ? (double)r->in[1].f[i] : 1) * r->in[0].f[p * d + c];
    }
}

static void right_return(ot_run *r)
{
    int64_t d = r->in[0].shape.dim[1], rows = r->in[0].shape.dim[0];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t t = token_of(r, 3, i, r->attr->i[0]), p = r->in[2].i[i];
        for (int64_t c = 0; t >= 0 && p >= 0 && c < d; c++)
            r->out[0].want[t * d + c] += r->in[0].f[p * d + c];
    }
}

/* Six assignments of three tokens to the experts 1 0 - 1 0 2. Their grouped order is 1 4 0
 * 3 5. */
static const int32_t six_token[] = {0, 2, 0, 1, 2, -1}, six_place[] = {2, 0, -1, 3, 1, 4};
/* The same assignments with a token list: token 0 has none, token 2 has four, and assignment 4
 * belongs to no token. */
static const int32_t list_of_row[] = {1, 2, 2, 2, -1, 2}, list_token[] = {2, -1, 1, 2, 2, -1};

#define N(...)                                                                                 \
    {                                                                                          \
        .i = { __VA_ARGS__ }                                                                   \
    }
#define GATES(renormalize)                                                                     \
    {                                                                                          \
        .i = {2, renormalize}, .f = { 1.5 }                                                    \
    }

const mf_op_row mf_op_cases_routing[] = {
    {.op = "mask_rows",
     .in = {OT_I(-1, 7, 40), OT_F(20), OT_NO},
     .attr = N(2),
     .right = right_mask},
    {.op = "mask_rows",
     .in = {OT_I(-1, 7, 40), OT_F(13), OT_I(-1, 12, 40)},
     .attr = N(1),
     .right = right_mask},
    {.op = "mask_rows",
     .in = {OT_I(-1, 7, 40), OT_F(19), OT_NO},
     .attr = N(2),
     .refuse = "expected 2 rows for each of 19 tokens, found 40 in all"},
    {.op = "mask_rows",
     .in = {OT_I(-1, 7, 40), OT_F(13), OT_I(13, 13, 40)},
     .attr = N(1),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected token in -1 .. 12, found 13"},

    {.op = "route_select", .in = {OT_F(50, 8), OT_NO}, .attr = N(2), .right = right_select},
    {.op = "route_select", .in = {OT_F(50, 64), OT_F(50)}, .attr = N(5), .right = right_select},
    {.op = "route_select", .in = {OT_F(5, 3), OT_F(5)}, .attr = N(3), .right = right_select},
    {.op = "route_select",
     .in = {OT_F(5, 3), OT_NO},
     .attr = N(4),
     .refuse = "expected k in 1 .. 3, found 4"},
    {.op = "route_select",
     .in = {OT_F(5, 3), OT_F(4)},
     .attr = N(1),
     .refuse = "expected mask of shape [5], found [4]"},

    {.op = "route_gates",
     .in = {OT_POS(30, 8), OT_I(-1, 7, 60), OT_NO},
     .attr = GATES(0),
     .right = right_gates},
    {.op = "route_gates",
     .in = {OT_POS(30, 8), OT_I(-1, 7, 60), OT_NO},
     .attr = GATES(1),
     .right = right_gates},
    {.op = "route_gates",
     .in = {OT_POS(30, 8), OT_I(-1, 7, 60), OT_I(-1, 7, 60)},
     .attr = GATES(1),
     .right = right_gates},
    {.op = "route_gates",
     .in = {OT_F(9000, 4), OT_I(0, 3, 18000), OT_NO},
     .attr = GATES(0),
     .right = right_gates,
     .exact = true},
    {.op = "route_gates",
     .in = {OT_NUMBERS(corners, 4, 3), OT_INDICES(corner_choice, 8), OT_NO},
     .attr = GATES(1),
     .right = right_gates,
     .still = 1},
    {.op = "route_gates",
     .in = {OT_POS(30, 8), OT_I(0, 7, 61), OT_NO},
     .attr = GATES(1),
     .refuse = "expected chosen of shape [60], found [61]"},
    {.op = "route_gates",
     .in = {OT_POS(30, 8), OT_I(0, 7, 60), OT_I(8, 8, 60)},
     .attr = GATES(1),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 7, found 8"},

    {.op = "routing_stats",
     .n_out = 4,
     .attr = N(2, 8, 300),
     .right = right_stats,
     .in = {OT_POS(300, 8), OT_I(-1, 7, 600), OT_I(-1, 7, 600), OT_F(600), OT_F(300), OT_NO}},
    {.op = "routing_stats",
     .n_out = 4,
     .attr = N(1, 5, 700),
     .right = right_stats,
     .in = {OT_NO, OT_I(-1, 4, 700), OT_I(-1, 4, 700), OT_NO, OT_NO, OT_NO}},
    {.op = "routing_stats",
     .n_out = 4,
     .attr = N(1, 5, 70),
     .right = right_stats,
     .in = {OT_POS(70, 5), OT_I(-1, 4, 600), OT_I(-1, 4, 600), OT_F(600), OT_F(70),
            OT_I(-1, 69, 600)}},
    {.op = "routing_stats",
     .n_out = 4,
     .attr = N(2, 5, 7),
     .in = {OT_POS(7, 4), OT_I(0, 4, 14), OT_I(0, 4, 14), OT_NO, OT_NO, OT_NO},
     .refuse = "expected prob of shape [7,5], found [7,4]"},
    {.op = "routing_stats",
     .n_out = 4,
     .attr = N(2, 5, 7),
     .in = {OT_NO, OT_I(0, 4, 15), OT_I(0, 4, 15), OT_NO, OT_NO, OT_NO},
     .refuse = "expected 2 rows for each of 7 tokens, found 15 in all"},
    {.op = "routing_stats",
     .n_out = 4,
     .attr = N(2, 5, 7),
     .in = {OT_NO, OT_I(5, 5, 14), OT_I(0, 4, 14), OT_NO, OT_NO, OT_NO},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 4, found 5"},

    {.op = "joint_count",
     .in = {OT_I(-1, 4, 60), OT_NO, OT_I(-1, 2, 30)},
     .attr = N(2, 5, 3),
     .right = right_joint,
     .exact = true},
    {.op = "joint_count",
     .in = {OT_I(-1, 4, 60), OT_I(-1, 29, 60), OT_I(-1, 2, 30)},
     .attr = N(1, 5, 3),
     .right = right_joint,
     .exact = true},
    {.op = "joint_count",
     .in = {OT_I(-1, 4, 60), OT_NO, OT_I(3, 3, 30)},
     .attr = N(2, 5, 3),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected label in -1 .. 2, found 3"},
    {.op = "joint_count",
     .in = {OT_I(-1, 4, 60), OT_NO, OT_I(0, 2, 31)},
     .attr = N(2, 5, 3),
     .refuse = "expected 2 rows for each of 31 tokens, found 60 in all"},

    {.op = "capacity_of",
     .in = {OT_POS(1), OT_NO},
     .attr = N(100, 2, 8),
     .right = right_capacity_of},
    {.op = "capacity_of",
     .in = {{.kind = OT_POSITIVE}, OT_F(90)},
     .attr = N(90, 1, 4),
     .right = right_capacity_of},
    {.op = "capacity_of",
     .in = {OT_POS(2), OT_NO},
     .attr = N(100, 2, 8),
     .refuse = "expected factor to be one number, found 2"},
    {.op = "capacity_of",
     .in = {OT_POS(1), OT_F(99)},
     .attr = N(100, 2, 8),
     .refuse = "expected mask of shape [100], found [99]"},

    {.op = "admit", .in = {OT_I(-1, 7, 200), OT_NO, OT_F(8)}, .right = right_capacity},
    {.op = "admit",
     .in = {OT_I(-1, 1, 200), OT_F(200), OT_NUMBERS(five_cap, 2)},
     .right = right_capacity},
    {.op = "admit",
     .in = {OT_I(-1, 2, 5), OT_F(5), OT_NUMBERS(five_cap, 3)},
     .right = right_capacity},
    {.op = "admit",
     .in = {OT_I(3, 3, 5), OT_NO, OT_NUMBERS(five_cap, 3)},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 2, found 3"},
    {.op = "admit",
     .in = {OT_I(-2, -2, 5), OT_NO, OT_NUMBERS(five_cap, 3)},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 2, found -2"},
    {.op = "admit",
     .in = {OT_I(0, 2, 5), OT_F(6), OT_NUMBERS(five_cap, 3)},
     .refuse = "expected priority of shape [5], found [6]"},

    {.op = "reassign",
     .n_out = 2,
     .attr = N(1, 0),
     .right = right_five,
     .in = {OT_INDICES(five_chosen, 5), OT_INDICES(five_admitted, 5),
            OT_NUMBERS(five_prob, 5, 3), OT_NUMBERS(five_importance, 5),
            OT_NUMBERS(five_cap, 3)}},
    {.op = "reassign",
     .n_out = 2,
     .attr = N(1, 0),
     .right = right_five_in_row_order,
     .in = {OT_INDICES(five_chosen, 5), OT_INDICES(five_admitted, 5),
            OT_NUMBERS(five_prob, 5, 3), OT_NO, OT_NUMBERS(five_cap, 3)}},
    {.op = "reassign",
     .n_out = 2,
     .attr = N(1, 1),
     .right = right_five_one_move,
     .in = {OT_INDICES(five_chosen, 5), OT_INDICES(five_admitted, 5),
            OT_NUMBERS(five_prob, 5, 3), OT_NUMBERS(five_importance, 5),
            OT_NUMBERS(five_cap, 3)}},
    {.op = "reassign",
     .n_out = 2,
     .attr = N(2, 0),
     .right = right_two,
     .in = {OT_INDICES(two_chosen, 4), OT_INDICES(two_admitted, 4), OT_NUMBERS(two_prob, 2, 3),
            OT_NO, OT_NUMBERS(two_cap, 3)}},
    {.op = "reassign",
     .n_out = 2,
     .attr = N(2, 0),
     .in = {OT_I(0, 2, 4), OT_I(0, 2, 4), OT_F(3, 3), OT_NO, OT_F(3)},
     .refuse = "expected chosen of shape [6], found [4]"},
    {.op = "reassign",
     .n_out = 2,
     .attr = N(1, 0),
     .in = {OT_I(0, 2, 3), OT_I(3, 3, 3), OT_F(3, 3), OT_NO, OT_F(3)},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 2, found 3"},

    {.op = "group_rows",
     .n_out = 4,
     .in = {OT_I(-1, 7, 90), OT_NO},
     .attr = N(3, 8),
     .right = right_group},
    {.op = "group_rows",
     .n_out = 4,
     .in = {OT_I(-1, 2, 90), OT_I(-1, 40, 90)},
     .attr = N(1, 4),
     .right = right_group},
    {.op = "group_rows",
     .n_out = 4,
     .in = {OT_I(-1, -1, 9), OT_NO},
     .attr = N(1, 4),
     .right = right_group},
    {.op = "group_rows",
     .n_out = 4,
     .in = {OT_I(8, 8, 90), OT_NO},
     .attr = N(3, 8),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 7, found 8"},
    {.op = "group_rows",
     .n_out = 4,
     .in = {OT_I(-2, -2, 90), OT_NO},
     .attr = N(3, 8),
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected expert in -1 .. 7, found -2"},
    {.op = "group_rows",
     .n_out = 4,
     .in = {OT_I(0, 7, 90), OT_I(0, 9, 89)},
     .attr = N(3, 8),
     .refuse = "expected token of shape [90], found [89]"},

    {.op = "dispatch_rows",
     .attr = N(2),
     .right = right_dispatch,
     .exact = true,
     .in = {OT_F(3, 37), OT_INDICES(six_token, 6), OT_INDICES(six_place, 6), OT_NO}},
    {.op = "dispatch_rows",
     .attr = N(1),
     .right = right_dispatch,
     .exact = true,
     .in = {OT_F(3, 5), OT_INDICES(list_token, 6), OT_INDICES(six_place, 6),
            OT_INDICES(list_of_row, 6)}},
    {.op = "dispatch_rows",
     .attr = N(2),
     .in = {OT_F(4, 5), OT_INDICES(six_token, 6), OT_INDICES(six_place, 6), OT_NO},
     .refuse = "expected 2 rows for each of 4 tokens, found 6 in all"},
    {.op = "dispatch_rows",
     .attr = N(1),
     .in = {OT_F(2, 5), OT_INDICES(list_token, 6), OT_INDICES(six_place, 6),
            OT_INDICES(list_of_row, 6)},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected token in -1 .. 1, found 2"},
    {.op = "combine_rows",
     .attr = N(2, 3),
     .right = right_combine,
     .exact = true,
     .in = {OT_F(6, 37), OT_F(6), OT_INDICES(six_place, 6), OT_NO}},
    {.op = "combine_rows",
     .attr = N(2, 3),
     .right = right_combine,
     .exact = true,
     .in = {OT_F(6, 5), OT_NO, OT_INDICES(six_place, 6), OT_NO}},
    {.op = "combine_rows",
     .attr = N(1, 3),
     .right = right_combine,
     .exact = true,
     .in = {OT_F(6, 5), OT_F(6), OT_INDICES(six_place, 6), OT_INDICES(list_of_row, 6)}},
    {.op = "combine_rows",
     .attr = N(2, 4),
     .in = {OT_F(6, 5), OT_F(6), OT_INDICES(six_place, 6), OT_NO},
     .refuse = "expected 2 rows for each of 4 tokens, found 6 in all"},
    {.op = "combine_rows",
     .attr = N(2, 3),
     .in = {OT_F(6, 5), OT_F(6), OT_I(6, 6, 6), OT_NO},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected place in -1 .. 5, found 6"},
    {.op = "combine_rows",
     .attr = N(1, 2),
     .in = {OT_F(6, 5), OT_F(6), OT_INDICES(six_place, 6), OT_INDICES(list_of_row, 6)},
     .fails = MF_EPLUGIN,
     .refuse = "row 1: expected token in -1 .. 1, found 2"},
    {.op = "combine_rows",
     .attr = N(2, 3),
     .in = {OT_F(6, 5), OT_F(5), OT_I(0, 5, 6), OT_NO},
     .refuse = "expected gate of shape [6], found [5]"},
    {.op = "return_rows",
     .attr = N(2, 3),
     .right = right_return,
     .exact = true,
     .in = {OT_F(6, 37), OT_INDICES(six_token, 6), OT_INDICES(six_place, 6), OT_NO}},
    {.op = "return_rows",
     .attr = N(1, 3),
     .right = right_return,
     .exact = true,
     .in = {OT_F(6, 5), OT_INDICES(list_token, 6), OT_INDICES(six_place, 6),
            OT_INDICES(list_of_row, 6)}},
    {.op = "return_rows",
     .attr = N(2, 4),
     .in = {OT_F(6, 5), OT_INDICES(six_token, 6), OT_INDICES(six_place, 6), OT_NO},
     .refuse = "expected 2 rows for each of 4 tokens, found 6 in all"},
    {.op = "return_rows",
     .attr = N(2, 3),
     .in = {OT_F(6, 5), OT_INDICES(six_token, 6), OT_I(6, 6, 6), OT_NO},
     .fails = MF_EPLUGIN,
     .refuse = "row 0: expected place in -1 .. 5, found 6"},
    {0}};
