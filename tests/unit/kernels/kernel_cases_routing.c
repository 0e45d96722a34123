/* Cases of check_kernels: indices, routing, dispatch. */
#include <math.h>
#include <stddef.h>

#include "kernel_case.h"

#define SIZES 4
/* tokens, assignments per token, experts, width */
static const int64_t size_of[SIZES][4] = {
    {1, 1, 1, 3}, {50, 2, 8, 37}, {700, 4, 16, 70}, {1500, 1, 5, 9}};
#define SIZE(t)                                                                                \
    const int64_t *size = size_of[(t)->variant % SIZES];                                       \
    const int64_t tokens = size[0], k = size[1], experts = size[2], d = size[3];               \
    const int64_t rows = tokens * k;                                                           \
    (void)tokens, (void)k, (void)experts, (void)d, (void)rows

/* An expert for each assignment; -1 for some. */
static int32_t *experts_of(mf_kt *t, int64_t rows, int64_t experts)
{
    int32_t *e = kt_i32(t, rows, 0, experts - 1);
    for (int64_t i = 3; i < rows; i += 7)
        e[i] = -1;
    return e;
}

/* Experts for assignments. The k experts of a token differ. Some tokens have no experts. */
static int32_t *choices(mf_kt *t, int64_t tokens, int64_t k, int64_t experts)
{
    int32_t *e = kt_i32(t, tokens * k, 0, experts - 1);
    for (int64_t r = 0; r < tokens * k; r++)
        e[r] = (int32_t)((e[r / k * k] * 3 / 4 + r % k) % experts);
    for (int64_t token = 5; token < tokens; token += 11)
        for (int64_t j = 0; j < k; j++)
            e[token * k + j] = -1;
    return e;
}

/* Indices of assignments in grouped order, computed by index_lists and group_rows. */
static int32_t *places(mf_kt *t, const int32_t *expert, int64_t rows, int64_t experts)
{
    int32_t *offset = kt_i32(t, experts + 1, 0, 0), *order = kt_i32(t, rows, 0, 0);
    int32_t *token = kt_i32(t, rows, 0, 0), *place = kt_i32(t, rows, 0, 0);
    MF_RUN(&mf_kernels_ref, t->x, index_lists, .m = rows, .n = experts, .index = expert,
           .offset = offset, .list = order);
    MF_RUN(&mf_kernels_ref, t->x, group_rows, .rows = rows, .k = 1, .experts = experts,
           .offset = offset, .order = order, .token = token, .place = place);
    return place;
}

/* ---- indices ---- */

static void run_check_index(mf_kt *t)
{
    static const int64_t bad_at[] = {-1, 0, 999, 64, 993, 17};
    int32_t *index = kt_i32(t, 1000, -1, 9);
    if (bad_at[t->variant] >= 0) index[bad_at[t->variant]] = t->variant % 2 ? 10 : -2;
    KT_RUN(t, check_index, .what = MF_WHAT_TOKEN, .n = 1000, .index = index, .lo = -1,
           .hi = 10);
    /* only the first fault is kept */
    KT_RUN(t, check_index, .what = MF_WHAT_PLACE, .n = 1000, .index = index, .lo = 0, .hi = 5);
    kt_faulted(t);
    KT_RUN(t, check_index, .what = MF_WHAT_INDEX, .n = 1000, .index = index, .lo = INT32_MIN,
           .hi = 10);
    kt_faulted(t);
    KT_RUN(t, check_index, .what = MF_WHAT_INDEX, .n = 1000, .index = index, .lo = INT32_MIN,
           .hi = (int64_t)1 << 40);
    kt_faulted(t);
}

/* More indices than a block of any set reads at once. Two are wrong, and the first of them must
 * be found. */
static void run_check_many_indices(mf_kt *t)
{
    static const int64_t bad_at[][2] = {{3071, 8999}, {1030, 2054}, {4100, 8196}, {8998, 8998}};
    int32_t *index = kt_i32(t, 9000, 0, 9);
    for (int i = 0; i < 2; i++)
        index[bad_at[t->variant][i]] = 10 + i;
    KT_RUN(t, check_index, .what = MF_WHAT_TOKEN, .n = 9000, .index = index, .lo = 0, .hi = 10);
    kt_faulted(t);
}

static void run_check_many_offsets(mf_kt *t)
{
    static const int64_t bad_at[][2] = {{2100, 3124}, {4096, 6000}};
    int32_t *offset = kt_offsets(t, 6000, 9000);
    for (int i = 0; i < 2; i++)
        offset[bad_at[t->variant][i]] = offset[bad_at[t->variant][i] - 1] - 1;
    KT_RUN(t, check_offset, .groups = 6000, .offset = offset, .rows = 9000);
    kt_faulted(t);
}

static void run_check_offset(mf_kt *t)
{
    int32_t *offset = kt_offsets(t, 40, 1000);
    if (t->variant == 1) offset[0] = -1;
    if (t->variant == 2) offset[7] = offset[6] - 1;
    if (t->variant == 3) offset[40] = 1001;
    KT_RUN(t, check_offset, .groups = 40, .offset = offset, .rows = 1000);
    kt_faulted(t);
}

static void run_gather_rows(mf_kt *t)
{
    SIZE(t);
    int32_t *index = experts_of(t, rows, tokens);
    float *in = kt_f32(t, tokens * d), *out = kt_result(t, rows * d);
    KT_RUN(t, gather_rows, .type = MF_CAST_F32, .m = rows, .d = d, .in = in, .index = index,
           .out = out);
}

static void run_index_lists(mf_kt *t)
{
    SIZE(t);
    int32_t *index = experts_of(t, rows, experts), *offset = kt_result_i32(t, experts + 1);
    KT_RUN(t, index_lists, .m = rows, .n = experts, .index = index, .offset = offset,
           .list = kt_result_i32(t, rows));
}

/* Numbers of values: as many as a block has threads; more than a set may assign to a warp
 * each, some with long lists, which a set sorts or reads again; more than a block counts at
 * a time. */
static void run_index_lists_of_many(mf_kt *t)
{
    static const int64_t values_of[] = {256, 1025, 1500, 20000};
    const int64_t m = 3000, n = values_of[t->variant];
    int32_t *index = experts_of(t, m, n), *offset = kt_result_i32(t, n + 1);
    for (int64_t i = 0; t->variant == 2 && i < m; i += 2)
        index[i] = i % 40 ? 7 : 11;
    KT_RUN(t, index_lists, .m = m, .n = n, .index = index, .offset = offset,
           .list = kt_result_i32(t, m));
}

static void run_sum_rows(mf_kt *t)
{
    SIZE(t);
    int32_t *expert = choices(t, tokens, k, experts), *place = places(t, expert, rows, experts);
    int32_t *offset = kt_i32(t, tokens + 1, 0, 0), *list = kt_i32(t, rows, 0, 0);
    int32_t *token = kt_i32(t, rows, -1, tokens / 4); /* few tokens with many assignments */
    float *gate = kt_f32(t, rows), *in = kt_f32(t, rows * d), *out = kt_result(t, tokens * d);
    MF_RUN(&mf_kernels_ref, t->x, index_lists, .m = rows, .n = tokens, .index = token,
           .offset = offset, .list = list);
    switch (t->variant / SIZES) {
    case 0:
        KT_RUN(t, sum_rows, .type_in = MF_CAST_F32, .type_out = MF_CAST_F32, .n = tokens,
               .d = d, .k = k, .place = place, .gate = gate, .in = in, .out = out);
        break;
    case 1:
        KT_RUN(t, sum_rows, .type_in = MF_CAST_F32, .type_out = MF_CAST_F32, .n = tokens,
               .d = d, .k = k, .place = place, .in = in, .out = out);
        break;
    case 2:
        KT_RUN(t, sum_rows, .type_in = MF_CAST_F32, .type_out = MF_CAST_F32, .n = tokens,
               .d = d, .k = 0, .offset = offset, .list = list, .place = place, .gate = gate,
               .in = in, .out = out);
        break;
    case 3:
        KT_RUN(t, sum_rows, .type_in = MF_CAST_F32, .type_out = MF_CAST_F32, .n = tokens,
               .d = d, .k = 0, .offset = offset, .list = list, .in = in, .out = out);
        break;
    }
}

static void run_take(mf_kt *t)
{
    SIZE(t);
    int32_t *index = experts_of(t, rows, experts);
    float *in = kt_f32(t, tokens * experts), *out = kt_result(t, rows);
    KT_RUN(t, take, .n = tokens, .width = experts, .k = k, .in = in, .index = index,
           .out = out);
}

static void run_put(mf_kt *t)
{
    SIZE(t);
    int32_t *index = experts_of(t, rows, experts);
    float *in = kt_f32(t, rows), *out = kt_result(t, tokens * experts);
    KT_RUN(t, put, .n = tokens, .width = experts, .k = k, .in = in, .index = index, .out = out);
}

static void run_topk(mf_kt *t)
{
    static const int64_t width_of[] = {1, 8, 37, 200, 300, 2048},
                         k_of[] = {1, 2, 8, 5, 299, 512};
    const int v = t->variant % 6;
    int64_t n = v < 4 ? 500 : 50, width = width_of[v], k = k_of[v];
    float *in = kt_f32(t, n * width), *mask = t->variant < 6 ? NULL : kt_f32(t, n);
    for (int64_t i = 0; v == 4 && i < n * width; i++) /* many equal values, and both zeros */
        in[i] = in[i] > 0 ? ceilf(in[i]) : floorf(in[i] + 1) * -1;
    for (int64_t i = 0; i < n && width > 1; i++) {
        if (i % 5 == 1) in[i * width + i % width] = NAN;
        if (i % 5 == 2) in[i * width + i % width] = -INFINITY;
        if (i % 9 == 3) in[i * width] = in[i * width + width - 1] = INFINITY;
        for (int64_t j = 1; i % 25 == 4 && j < width; j++)
            in[i * width + j] = NAN;
        if (mask) mask[i] = i % 3 != 0;
    }
    KT_RUN(t, topk, .n = n, .width = width, .k = k, .in = in, .mask = mask,
           .out = kt_result_i32(t, n * k));
}

static void run_one_hot(mf_kt *t)
{
    SIZE(t);
    int32_t *index = experts_of(t, rows, experts + 2); /* some indices are too large */
    KT_RUN(t, one_hot, .m = rows, .n = experts, .index = index,
           .out = kt_result(t, rows * experts));
}

static void run_bincount(mf_kt *t)
{
    static const int64_t m_of[] = {1, 300, 20000, 200000}, n_of[] = {1, 9, 64, 3000};
    int64_t m = m_of[t->variant % 4], n = n_of[t->variant % 4];
    int32_t *index = experts_of(t, m, n);
    float *weight = t->variant < 4 ? kt_f32(t, m) : NULL, *out = kt_result(t, n);
    KT_RUN(t, bincount, .m = m, .n = n, .index = index, .weight = weight, .out = out,
           .work = kt_work(t, mf_count_work(m, n)));
}

static void run_score_bins(mf_kt *t)
{
    static const int64_t m_of[] = {1, 300, 2000, 0}, n_of[] = {1, 9, 64, 3};
    const int64_t m = m_of[t->variant % 4], n = n_of[t->variant % 4], bins = 20 + m;
    float *in = kt_f32(t, m * n), *mask = t->variant < 4 ? kt_f32(t, m) : NULL,
          *bias = t->variant < 4 ? NULL : kt_f32(t, n);
    for (int64_t i = 0; mask && i < m; i++)
        mask[i] = i % 4 != 1;
    for (int64_t i = 7; i < m * n; i += 50)
        in[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    KT_RUN(t, score_bins, .tokens = m, .experts = n, .bins = bins, .lo = -0.9, .hi = 1.1,
           .in = in, .mask = mask, .bias = bias, .out = kt_result(t, n * bins),
           .work = kt_work(t, mf_score_bins_work(n, bins)));
}

/* ---- routing ---- */

static float *half_mask(mf_kt *t, int64_t n)
{
    float *mask = kt_f32(t, n);
    for (int64_t i = 0; i < n; i++)
        mask[i] = i % 4 != 1;
    return mask;
}

static void run_mask_rows(mf_kt *t)
{
    SIZE(t);
    int32_t *expert = experts_of(t, rows, experts), *token = NULL;
    float *mask = half_mask(t, tokens);
    if (t->variant >= SIZES) token = kt_i32(t, rows, -1, tokens - 1);
    KT_RUN(t, mask_rows, .rows = rows, .k = k, .expert = expert, .token = token, .mask = mask,
           .out = kt_result_i32(t, rows));
}

/* Probabilities. Those of some tokens are 0 or 1e-22, so their sum is below 1e-20. */
static float *probabilities(mf_kt *t, int64_t tokens, int64_t experts)
{
    float *prob = kt_positive(t, tokens * experts);
    for (int64_t i = 2; i < tokens; i += 9)
        for (int64_t e = 0; e < experts; e++)
            prob[i * experts + e] = i % 2 ? 0 : 1e-22f;
    return prob;
}

static void run_route_gates(mf_kt *t)
{
    SIZE(t);
    int32_t *chosen = choices(t, tokens, k, experts), *admitted = NULL;
    float *prob = probabilities(t, tokens, experts), *gate = kt_result(t, rows);
    if (t->variant / SIZES & 1) admitted = experts_of(t, rows, experts);
    KT_RUN(t, route_gates, .tokens = tokens, .experts = experts, .k = k, .prob = prob,
           .chosen = chosen, .admitted = admitted, .renormalize = t->variant >= 2 * SIZES,
           .scale = 2.5, .gate = gate);
}

static void run_route_gates_grad(mf_kt *t)
{
    SIZE(t);
    int32_t *chosen = choices(t, tokens, k, experts), *admitted = NULL;
    float *prob = probabilities(t, tokens, experts), *dgate = kt_f32(t, rows);
    float *dprob = kt_result(t, tokens * experts);
    if (t->variant / SIZES & 1) admitted = experts_of(t, rows, experts);
    KT_RUN(t, route_gates_grad, .tokens = tokens, .experts = experts, .k = k, .prob = prob,
           .chosen = chosen, .admitted = admitted, .renormalize = t->variant >= 2 * SIZES,
           .scale = 2.5, .dgate = dgate, .dprob = dprob);
}

static void run_routing_stats(mf_kt *t)
{
    SIZE(t);
    int how = t->variant / SIZES; /* its bits select: no prob and no gate; a mask; a
                                   * token list */
    int32_t *chosen = choices(t, tokens, k, experts), *admitted = kt_i32(t, rows, 0, 0);
    int32_t *token = how & 4 ? kt_i32(t, rows, -1, tokens - 1) : NULL;
    float *prob = how & 1 ? NULL : kt_positive(t, tokens * experts);
    float *gate = how & 1 ? NULL : kt_f32(t, rows),
          *mask = how & 2 ? half_mask(t, tokens) : NULL;
    for (int64_t r = 0; r < rows; r++)
        admitted[r] = r % 5 == 2 ? -1 : chosen[r];
    float *a = kt_result(t, experts), *b = kt_result(t, experts), *c = kt_result(t, experts);
    KT_RUN(t, routing_stats, .tokens = tokens, .rows = rows, .experts = experts, .k = k,
           .prob = prob, .chosen = chosen, .admitted = admitted, .gate = gate, .mask = mask,
           .token = token, .chosen_sum = a, .admitted_sum = b, .importance = c,
           .scalars = kt_result(t, MF_STATS_SUMS),
           .work = kt_work(t, mf_routing_stats_work(tokens, rows, experts)));
}

static void run_joint_count(mf_kt *t)
{
    SIZE(t);
    int32_t *expert = experts_of(t, rows, experts), *label = experts_of(t, tokens, 7);
    int32_t *token = t->variant < SIZES ? NULL : kt_i32(t, rows, -1, tokens - 1);
    KT_RUN(t, joint_count, .rows = rows, .k = k, .experts = experts, .labels = 7,
           .expert = expert, .token = token, .label = label, .out = kt_result(t, experts * 7),
           .work = kt_work(t, mf_count_work(rows, experts * 7)));
}

/* ---- dispatch ---- */

static void run_capacity_of(mf_kt *t)
{
    static const float factor_of[] = {1.25f, 0, 3, NAN};
    SIZE(t);
    float *factor = kt_f32(t, 1), *mask = t->variant & 1 ? half_mask(t, tokens) : NULL;
    *factor = factor_of[t->variant / SIZES];
    KT_RUN(t, capacity_of, .tokens = tokens, .k = k, .experts = experts, .factor = factor,
           .mask = mask, .cap = kt_result(t, experts));
}

/* Capacity for about half of the assignments. With more than 4 experts, one expert has capacity
 * 0 and one NaN. */
static float *capacities(mf_kt *t, int64_t rows, int64_t experts)
{
    float *cap = kt_f32(t, experts);
    for (int64_t e = 0; e < experts; e++)
        cap[e] = (float)(rows / experts) * (e % 4 == 3 ? 1.5f : 0.4f);
    if (experts > 4) cap[2] = 0, cap[4] = NAN;
    return cap;
}

static void run_capacity(mf_kt *t)
{
    SIZE(t);
    int32_t *chosen = choices(t, tokens, k, experts);
    float *cap = capacities(t, rows, experts), *priority = NULL;
    if (t->variant >= SIZES) priority = kt_f32(t, rows);
    if (priority && rows > 20) priority[1] = priority[20] = NAN, priority[9] = INFINITY;
    KT_RUN(t, capacity, .rows = rows, .experts = experts, .chosen = chosen,
           .priority = priority, .cap = cap, .admitted = kt_result_i32(t, rows),
           .work = kt_work(t, mf_capacity_work(rows, experts)));
}

static void run_reassign(mf_kt *t)
{
    SIZE(t);
    int32_t *chosen = choices(t, tokens, k, experts), *admitted = kt_i32(t, rows, 0, 0);
    float *cap = capacities(t, rows, experts), *prob = kt_positive(t, tokens * experts);
    float *importance = t->variant / SIZES & 1 ? kt_f32(t, rows) : NULL;
    void *work = kt_work(t, mf_capacity_work(rows, experts));
    MF_RUN(&mf_kernels_ref, t->x, capacity, .rows = rows, .experts = experts, .chosen = chosen,
           .priority = importance, .cap = cap, .admitted = admitted, .work = work);
    if (experts > 4) prob[4 * experts + 3] = NAN;
    for (int64_t e = 0; e < experts; e++) /* increases the capacity of the experts */
        cap[e] *= 1.5f;
    int32_t *out = kt_result_i32(t, rows);
    KT_RUN(t, reassign, .tokens = tokens, .experts = experts, .k = k,
           .most = t->variant < 2 * SIZES ? 0 : 5, .chosen = chosen, .admitted = admitted,
           .prob = prob, .importance = importance, .cap = cap, .out = out,
           .moved = kt_result(t, 1), .work = kt_work(t, mf_reassign_work(rows, experts)));
}

static void run_group_rows(mf_kt *t)
{
    SIZE(t);
    int32_t *expert = experts_of(t, rows, experts), *offset = kt_i32(t, experts + 1, 0, 0);
    int32_t *order = kt_result_i32(t, rows), *list = NULL;
    MF_RUN(&mf_kernels_ref, t->x, index_lists, .m = rows, .n = experts, .index = expert,
           .offset = offset, .list = order);
    if (t->variant >= SIZES) list = kt_i32(t, rows, -1, tokens - 1);
    int32_t *token = kt_result_i32(t, rows), *place = kt_result_i32(t, rows);
    KT_RUN(t, group_rows, .rows = rows, .k = k, .experts = experts, .offset = offset,
           .token_of_row = list, .order = order, .token = token, .place = place,
           .work = kt_work(t, (size_t)rows * sizeof *order));
}

static void run_combine_grad(mf_kt *t)
{
    SIZE(t);
    int how = t->variant / SIZES; /* 0: all gradients; 1: no gate; 2: token list; 3: only dy; 4:
                                   * only dgate */
    int32_t *expert = choices(t, tokens, k, experts), *place = places(t, expert, rows, experts);
    int32_t *token = how == 2 ? kt_i32(t, rows, -1, tokens - 1) : NULL;
    float *y = kt_f32(t, rows * d), *gate = how == 1 ? NULL : kt_f32(t, rows);
    float *dout = kt_f32(t, tokens * d), *dy = kt_result(t, rows * d),
          *dgate = kt_result(t, rows);
    KT_RUN(t, combine_grad, .type = MF_CAST_F32, .rows = rows, .k = k, .d = d, .y = y,
           .gate = gate, .place = place, .token = token, .dout = dout,
           .dy = how == 4 ? NULL : dy, .dgate = how == 3 ? NULL : dgate);
}

const mf_kernel_row mf_kernel_cases_routing[] = {
    {"check_index", run_check_index, 6, true, 0},
    {"check_index", run_check_many_indices, 4, true, 0},
    {"check_offset", run_check_offset, 4, true, 0},
    {"check_offset", run_check_many_offsets, 2, true, 0},
    {"gather_rows", run_gather_rows, SIZES, true, 0},
    {"index_lists", run_index_lists_of_many, 4, true, 0},
    {"index_lists", run_index_lists, SIZES, true, 0},
    {"sum_rows", run_sum_rows, 4 * SIZES, true, 1e-6},
    {"take", run_take, SIZES, true, 0},
    {"put", run_put, SIZES, true, 0},
    {"topk", run_topk, 12, true, 0},
    {"one_hot", run_one_hot, SIZES, true, 0},
    {"bincount", run_bincount, 8, true, 1e-6},
    {"score_bins", run_score_bins, 8, true, 0},
    {"mask_rows", run_mask_rows, 2 * SIZES, true, 0},
    {"route_gates", run_route_gates, 4 * SIZES, true, 1e-6},
    {"route_gates_grad", run_route_gates_grad, 4 * SIZES, true, 1e-6},
    {"routing_stats", run_routing_stats, 8 * SIZES, false, 1e-6},
    {"joint_count", run_joint_count, 2 * SIZES, true, 0},
    {"capacity_of", run_capacity_of, 4 * SIZES, true, 0},
    {"capacity", run_capacity, 2 * SIZES, true, 0},
    {"reassign", run_reassign, 4 * SIZES, true, 0},
    {"group_rows", run_group_rows, 2 * SIZES, true, 0},
    {"combine_grad", run_combine_grad, 5 * SIZES, true, 2e-6},
    {NULL, NULL, 0, false, 0}};
