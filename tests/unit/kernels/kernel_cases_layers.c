/* Cases of check_kernels: norms, positions, attention, tokens and loss, gates, optimizer. */
#include <check.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel_case.h"

static const int64_t rows_of[] = {1, 40, 300}, width_of[] = {3, 37, 200};

/* kind, groups */
static const int64_t norm_of[][2] = {{MF_NORM_FN_RMS, 0},
                                     {MF_NORM_FN_LAYER, 0},
                                     {MF_NORM_FN_L2, 0},
                                     {MF_NORM_FN_LAYER, 5},
                                     {MF_NORM_FN_RMS, 3}};
#define NORMS 5

/* The variant selects one of 3 sizes, the kind of norm, and whether there are weights. */
static mf_norm_args norm_args(mf_kt *t)
{
    const int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    const int64_t *s = norm_of[t->variant / 6], groups = s[1] > 0 ? s[1] : 1;
    const bool weights = t->variant / 3 % 2 == 0 && s[0] != MF_NORM_FN_L2;
    mf_norm_args args = {.kind = (mf_norm_fn)s[0],
                         .rows = rows,
                         .n = n,
                         .eps = s[0] == MF_NORM_FN_L2 && t->variant % 2 ? 20 : 1e-3f,
                         .eps_outside = s[0] == MF_NORM_FN_RMS && t->variant % 2,
                         .a = kt_f32(t, rows * n),
                         .w = weights ? kt_f32(t, groups * n) : NULL,
                         .groups = s[1],
                         .offset = s[1] > 0 ? kt_offsets(t, groups, rows) : NULL};
    if (args.offset && t->variant % 2 && groups > 1) args.groups--, args.offset++;
    if (weights && s[0] == MF_NORM_FN_LAYER) args.b = kt_f32(t, groups * n);
    if (s[0] == MF_NORM_FN_L2 && t->variant % 2 == 0) /* then the last row has a NaN */
        ((float *)args.a)[(rows - 1) * n] = NAN;
    if (args.eps_outside) /* then row 0 is 0, and its gradient a limit */
        memset((float *)args.a, 0, (size_t)n * sizeof *args.a);
    return args;
}

static void norm(mf_kt *t, mf_norm_args args)
{
    args.y = kt_result(t, args.rows * args.n);
    t->k->norm(t->x, &args);
}

/* da, db: whether these gradients are requested. */
static void norm_backward(mf_kt *t, mf_norm_args args, bool da, bool db)
{
    const int64_t groups = args.offset ? args.groups : 1;
    args.dy = kt_f32(t, args.rows * args.n);
    if (da) args.da = kt_result(t, args.rows * args.n);
    if (args.w) args.dw = kt_result(t, groups * args.n);
    if (args.b && db) args.db = kt_result(t, groups * args.n);
    args.work = kt_work(t, mf_norm_work(args.n));
    if (!args.da && !args.dw && !args.db) args.da = kt_result(t, args.rows * args.n);
    t->k->norm_backward(t->x, &args);
}

static void run_norm(mf_kt *t)
{
    norm(t, norm_args(t));
}

static void run_norm_backward(mf_kt *t)
{
    norm_backward(t, norm_args(t), t->variant != 1 && t->variant != 8, t->variant != 7);
}

/* Widths of rows. On a GPU the registers of a warp, in two sizes, or those of a block hold the
 * row, or it is too long for registers. Some widths are not multiples of four. */
static const int64_t wide_of[] = {36, 768, 1024, 3000, 1100, 1101, 5000};
#define WIDTHS 7

static mf_norm_args wide_norm_args(mf_kt *t, int kind, int64_t n)
{
    const int64_t rows = 37;
    return (mf_norm_args){.kind = (mf_norm_fn)kind,
                          .rows = rows,
                          .n = n,
                          .eps = 1e-3f,
                          .a = kt_f32(t, rows * n),
                          .w = kind != MF_NORM_FN_L2 ? kt_f32(t, n) : NULL,
                          .b = kind == MF_NORM_FN_LAYER ? kt_f32(t, n) : NULL};
}

/* The variant selects the kind and the width, except the last width, at which sums are
 * rounded more. */
static void run_norm_of_wide_rows(mf_kt *t)
{
    const int widths = WIDTHS - 1;
    norm(t, wide_norm_args(t, t->variant / widths, wide_of[t->variant % widths]));
}

static void run_norm_of_widest_rows(mf_kt *t)
{
    norm(t, wide_norm_args(t, t->variant, wide_of[WIDTHS - 1]));
}

static void run_norm_backward_of_wide_rows(mf_kt *t)
{
    const mf_norm_args args =
        wide_norm_args(t, t->variant / WIDTHS, wide_of[t->variant % WIDTHS]);
    norm_backward(t, args, true, true);
}

/* da is the memory of dy. The variant selects one of 3 sizes, and the kind. */
static void run_norm_backward_in_place(mf_kt *t)
{
    static const int64_t sizes[][2] = {{1, 3}, {300, 37}, {9, 1100}};
    const int64_t rows = sizes[t->variant % 3][0], n = sizes[t->variant % 3][1];
    const mf_norm_fn kind = (mf_norm_fn)(t->variant / 3);
    const bool weights = kind != MF_NORM_FN_L2;
    float *da = kt_result(t, rows * n);
    const mf_norm_args args = {.kind = kind,
                               .rows = rows,
                               .n = n,
                               .eps = 1e-3f,
                               .a = kt_f32(t, rows * n),
                               .w = weights ? kt_f32(t, n) : NULL,
                               .dy = da,
                               .da = da,
                               .dw = weights ? kt_result(t, n) : NULL,
                               .db = kind == MF_NORM_FN_LAYER ? kt_result(t, n) : NULL,
                               .work = kt_work(t, mf_norm_work(n))};
    t->k->norm_backward(t->x, &args);
}

static void run_l2_of_zeros(mf_kt *t)
{
    const int64_t rows = rows_of[t->variant], n = width_of[t->variant];
    float *a = kt_f32(t, rows * n);
    for (int64_t j = 0; j < n; j++)
        a[j] = 0;
    const mf_norm_args args = {.kind = MF_NORM_FN_L2,
                               .rows = rows,
                               .n = n,
                               .eps = 1e-6f,
                               .a = a,
                               .y = kt_result(t, rows * n)};
    t->k->norm(t->x, &args);
}

static void run_rope(mf_kt *t)
{
    static const int64_t size[][3] = {{5, 2, 1}, {40, 64, 3}, {70, 10, 4}, {3, 512, 2}};
    int64_t rows = size[t->variant / 4][0], hd = size[t->variant / 4][1];
    int64_t heads = size[t->variant / 4][2], width = heads * hd + 5;
    int32_t *position = kt_i32(t, rows, 0, t->variant == 7 ? 1000000 : 3000);
    float *a = kt_f32(t, rows * width), *y = kt_result(t, rows * width);
    const bool part = t->variant % 4 == 3; /* rotate a part of each head, with factors */
    const int64_t turned = part ? hd / 4 * 2 : hd;
    const mf_rope_args args = {.rows = rows,
                               .width = width,
                               .head_dim = hd,
                               .n_heads = heads,
                               .first = t->variant == 15 ? hd - turned : 0,
                               .turned = turned,
                               .half = t->variant & 1,
                               .inverse = t->variant & 2,
                               .theta = 10000,
                               .magnitude = part ? 1.25 : 1,
                               .position = position,
                               .factor = part ? kt_f32(t, turned / 2 + 1) : NULL,
                               .a = t->variant == 4 ? y : a,
                               .y = y};
    t->k->rope(t->x, &args);
}

/* batch, T, S, heads, kv_heads, head_dim, causal, mask, kv_len, packed, reach, window, since */
static const int64_t attention_of[][13] = {{1, 1, 1, 1, 1, 4, 0, 0, 0, 0, 0},
                                           {2, 70, 70, 4, 2, 16, 1, 0, 0, 1, 0},
                                           {2, 9, 300, 2, 1, 8, 0, 1, 0, 0, 0},
                                           {3, 1, 600, 4, 4, 32, 1, 0, 1, 0, 0},
                                           {2, 150, 150, 3, 3, 64, 1, 1, 1, 1, 0},
                                           {1, 130, 520, 2, 2, 20, 1, 1, 0, 0, 0},
                                           {2, 7, 50, 2, 2, 8, 0, 1, 0, 0, 1},
                                           {2, 140, 300, 2, 1, 16, 0, 0, 0, 0, 1},
                                           {2, 150, 150, 3, 3, 64, 1, 0, 1, 1, 0, 40},
                                           {1, 200, 450, 2, 2, 20, 1, 1, 0, 0, 0, 130},
                                           {3, 5, 600, 4, 2, 32, 1, 1, 1, 0, 0, 20},
                                           {2, 150, 150, 3, 3, 64, 1, 0, 0, 1, 0, 0, 1},
                                           {2, 300, 300, 2, 1, 20, 1, 1, 0, 0, 0, 0, 1},
                                           {2, 8, 70, 2, 2, 8, 1, 0, 1, 0, 0, 0, 1},
                                           {1, 20, 40, 2, 1, 96, 1, 1, 0, 0, 0},
                                           {1, 5, 1100, 2, 2, 16, 1, 0, 0, 0, 0},
                                           {1, 3, 40, 1, 1, 576, 1, 0, 0, 0, 0, 1}};
#define ATTENTIONS 17

static mf_attention_args attention(mf_kt *t)
{
    const int64_t *s = attention_of[t->variant];
    int64_t batch = s[0], nt = s[1], ns = s[2], h = s[3], kv = s[4], hd = s[5],
            ld = (h + 2 * kv) * hd;
    mf_attention_args p = {.batch = batch,
                           .t = nt,
                           .s = ns,
                           .heads = h,
                           .kv_heads = kv,
                           .head_dim = hd,
                           .causal = s[6],
                           .window = s[11],
                           .scale = 0.25f};
    if (s[9]) {
        p.q = kt_f32(t, batch * nt * ld);
        p.k = p.q + h * hd;
        p.v = p.k + kv * hd;
        p.ldq = p.ldk = p.ldv = ld;
    } else {
        p.ldq = h * hd + 1, p.ldk = kv * hd + 2, p.ldv = kv * hd;
        p.q = kt_f32(t, batch * nt * p.ldq);
        p.k = kt_f32(t, batch * ns * p.ldk);
        p.v = kt_f32(t, batch * ns * p.ldv);
    }
    if (s[7]) { /* masks all keys of the first sequence, and some of the others */
        float *mask = kt_f32(t, batch * ns);
        for (int64_t i = 0; i < batch * ns; i++)
            mask[i] = i < ns ? 0 : (float)(i % 3 != 0);
        if (batch == 1) mask[ns / 2] = mask[3] = 1;
        p.mask = mask;
    }
    if (s[8]) p.kv_len = kt_i32(t, batch, 0, ns);
    if (s[10]) { /* the first queries see no key; some limits are skipped, some occur twice */
        int32_t *reach = kt_i32(t, batch * nt, 0, 0);
        for (int64_t i = 0; i < batch * nt; i++)
            reach[i] = (int32_t)(i % nt / 2 * 2 * ns / nt) - 1;
        p.reach = reach;
    }
    /* documents of several lengths, some of which begin after the last visible key */
    if (s[12]) {
        int32_t *since = kt_i32(t, batch * nt, 0, 0);
        for (int64_t i = 0; i < batch * nt; i++)
            since[i] = (int32_t)(i % nt / 37 * 37);
        p.since = since;
    }
    return p;
}

static void run_attention(mf_kt *t)
{
    mf_attention_args p = attention(t);
    p.y = kt_result(t, p.batch * p.t * p.heads * p.head_dim);
    p.lse = t->variant == 3 ? NULL : kt_result(t, p.batch * p.t * p.heads);
    t->k->attention(t->x, &p);
}

/* A query with a NaN has only NaN results; no other query has any. */
static void run_attention_of_nan(mf_kt *t)
{
    const int64_t n = 70, d = 16;
    float *q = kt_f32(t, n * d);
    q[30 * d + 5] = NAN;
    const mf_attention_args p = {.batch = 1,
                                 .t = n,
                                 .s = n,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_dim = d,
                                 .ldq = d,
                                 .ldk = d,
                                 .ldv = d,
                                 .causal = t->variant == 1,
                                 .scale = 0.25f,
                                 .q = q,
                                 .k = kt_f32(t, n * d),
                                 .v = kt_f32(t, n * d),
                                 .y = kt_result(t, n * d),
                                 .lse = kt_result(t, n)};
    t->k->attention(t->x, &p);
}

static void run_attention_backward(mf_kt *t)
{
    mf_attention_args p = attention(t);
    int64_t count = p.batch * p.t * p.heads * p.head_dim;
    p.dy = kt_f32(t, count);
    p.y = kt_f32(t, count);
    p.lse = kt_f32(t, p.batch * p.t * p.heads);
    if (t->variant % 2 == 0) p.dlse = kt_f32(t, p.batch * p.t * p.heads);
    mf_kernels_ref.attention(t->x, &p);
    if (attention_of[t->variant][9]) {
        p.dq = kt_result(t, p.batch * p.t * p.ldq);
        p.dk = p.dq + p.heads * p.head_dim;
        p.dv = p.dk + p.kv_heads * p.head_dim;
    } else {
        p.dq = kt_result(t, p.batch * p.t * p.ldq);
        p.dk = kt_result(t, p.batch * p.s * p.ldk);
        p.dv = kt_result(t, p.batch * p.s * p.ldv);
    }
    if (t->variant == 2) p.dq = NULL;
    if (t->variant == 5) p.dk = p.dv = NULL;
    t->k->attention_backward(t->x, &p);
}

static void run_embedding(mf_kt *t)
{
    int64_t vocab = 90, n = 33, count = 1200;
    int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    float *table = kt_f32(t, vocab * n), *y = kt_result(t, count * n);
    if (t->variant == 1) ids[17] = (int32_t)vocab;
    if (t->variant == 2) ids[900] = -1;
    KT_RUN(t, check_index, .what = MF_WHAT_ID, .n = count, .index = ids, .lo = 0, .hi = vocab);
    KT_RUN(t, embedding, .vocab = vocab, .n = n, .count = count, .table = table, .ids = ids,
           .y = y);
    kt_faulted(t);
}

static void run_embedding_grad(mf_kt *t)
{
    int64_t vocab = t->variant == 0 ? 1 : 2000, n = 33, count = t->variant == 2 ? 0 : 500;
    int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    float *dy = kt_f32(t, count * n), *dtable = kt_result(t, vocab * n);
    for (int64_t i = 0; i < vocab * n && t->variant == 3; i++)
        dtable[i] = (float)(i % 19) - 9;
    KT_RUN(t, embedding_grad, .vocab = vocab, .n = n, .count = count, .add = t->variant == 3,
           .ids = ids, .dy = dy, .dtable = dtable,
           .work = kt_work(t, mf_kernel_embedding_work(vocab, count)));
}

/* rows, n. Variants from 3 on have weights and some rows without a target. From 6 on, no row
 * has a target. */
static const int64_t entropy_of[][2] = {{1, 1}, {70, 40}, {9, 3001}};

static void run_cross_entropy(mf_kt *t)
{
    int64_t rows = entropy_of[t->variant % 3][0], n = entropy_of[t->variant % 3][1];
    float *logits = kt_f32(t, rows * n),
          *weight = t->variant >= 3 ? kt_positive(t, rows) : NULL;
    int32_t *target = kt_i32(t, rows,
                             t->variant >= 6   ? -1
                             : t->variant >= 3 ? -2
                                               : 0,
                             t->variant >= 6 ? -1 : n - 1);
    if (t->variant == 8) target[4] = (int32_t)n;
    float *loss = kt_result(t, 1), *row_loss = kt_result(t, rows), *lse = kt_result(t, rows);
    KT_RUN(t, check_index, .what = MF_WHAT_TARGET, .n = rows, .index = target, .lo = INT32_MIN,
           .hi = n);
    KT_RUN(t, cross_entropy, .rows = rows, .n = n, .logits = logits, .target = target,
           .weight = weight, .loss = loss, .row_loss = row_loss, .lse = lse);
    kt_faulted(t);
}

static void run_cross_entropy_backward(mf_kt *t)
{
    int64_t rows = entropy_of[t->variant % 3][0], n = entropy_of[t->variant % 3][1];
    float *logits = kt_f32(t, rows * n),
          *weight = t->variant >= 3 ? kt_positive(t, rows) : NULL;
    int32_t *target = kt_i32(t, rows,
                             t->variant >= 6   ? -1
                             : t->variant >= 3 ? -2
                                               : 0,
                             t->variant >= 6 ? -1 : n - 1);
    float *loss = kt_f32(t, 1), *row_loss = kt_f32(t, rows), *lse = kt_f32(t, rows);
    float *dloss = t->variant == 2 ? NULL : kt_f32(t, 1);
    float *drow = t->variant % 2 ? NULL : kt_f32(t, rows);
    MF_RUN(&mf_kernels_ref, t->x, cross_entropy, .rows = rows, .n = n, .logits = logits,
           .target = target, .weight = weight, .loss = loss, .row_loss = row_loss, .lse = lse);
    float *dlogits = kt_result(t, rows * n), *dweight = kt_result(t, rows);
    KT_RUN(t, cross_entropy_backward, .rows = rows, .n = n, .logits = logits, .target = target,
           .weight = weight, .loss = loss, .row_loss = row_loss, .lse = lse, .dloss = dloss,
           .drow = drow, .dlogits = dlogits, .dweight = weight != NULL ? dweight : NULL);
}

/* rows, width, vocabulary: one chunk, several chunks. Variants differ in most_logits, in how
 * many rows have a target (all, some or none), in weights, and in the requested gradients. On a
 * GPU, each row of more than 1,024 logits is processed by a block of threads. */
static const int64_t head_of[][3] = {{1, 3, 1}, {9, 20, 1030}, {1100, 9, 600}};

static void run_head(mf_kt *t, int type)
{
    const int v = t->variant;
    const int64_t *s = head_of[v % 3], rows = s[0], d = s[1], vocab = s[2];
    const bool dx = v / 3 % 2, dbias = v / 3 % 3 != 2;
    const size_t size = (size_t)mf_cast_size(type);
    float *x = kt_f32(t, rows * d), *w = kt_f32(t, vocab * d);
    void *x_typed = kt_work(t, (size_t)(rows * d) * size),
         *w_typed = kt_work(t, (size_t)(vocab * d) * size);
    void *dx_typed = kt_work(t, (size_t)(rows * d) * size);
    int32_t *target = kt_i32(t, rows, v >= 15 ? -1 : v >= 6 ? -2 : 0, v >= 15 ? -1 : vocab - 1);
    mf_linear_cross_entropy_args args = {.rows = rows,
                                         .d = d,
                                         .vocab = vocab,
                                         .type = (mf_cast_type)type,
                                         .x = x_typed,
                                         .w = w_typed,
                                         .most_logits = v < 12 ? 0 : 4 * vocab * 700,
                                         .bias = dbias ? kt_f32(t, vocab) : NULL,
                                         .target = target,
                                         .weight = v >= 9 ? kt_positive(t, rows) : NULL,
                                         .loss = kt_result(t, 1),
                                         .row_loss = kt_result(t, rows),
                                         .dx = dx ? dx_typed : NULL};
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = rows * d, .from = MF_CAST_F32, .to = type, .in = x,
           .out = x_typed);
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = vocab * d, .from = MF_CAST_F32, .to = type,
           .in = w, .out = w_typed);
    if (v / 3 % 3 != 0)
        args.dw = v == 8 && !kt_gemms_stop() ? kt_work(t, (size_t)(vocab * d) * sizeof(float))
                                             : kt_result(t, vocab * d);
    if (dbias && args.dw) args.dbias = kt_result(t, vocab);
    args.work = kt_work(t, mf_linear_cross_entropy_work(rows, d, vocab, type, args.most_logits,
                                                        dx, args.dbias != NULL));
    if (v == 8) target[4] = (int32_t)vocab;
    KT_RUN(t, check_index, .what = MF_WHAT_TARGET, .n = rows, .index = target, .lo = INT32_MIN,
           .hi = vocab);
    t->k->linear_cross_entropy(t->x, &args);
    kt_faulted(t);
    if (dx && v != 8)
        MF_RUN(&mf_kernels_ref, t->x, cast, .n = rows * d, .from = type, .to = MF_CAST_F32,
               .in = dx_typed, .out = kt_result(t, rows * d));
}

static void run_linear_cross_entropy(mf_kt *t)
{
    run_head(t, MF_CAST_F32);
}

static void run_linear_cross_entropy_bf16(mf_kt *t)
{
    run_head(t, MF_CAST_BF16);
}

/* ---- attention of assignments ---- */

/* rows, experts, batch, s, heads, head_dim, own, causal, mask */
static const int64_t grouped_of[][9] = {
    {5, 1, 1, 3, 1, 4, 0, 0, 0},   {90, 3, 4, 12, 2, 8, 0, 1, 0},
    {90, 3, 4, 12, 2, 8, 0, 0, 1}, {300, 5, 2, 100, 1, 16, 0, 1, 1},
    {60, 4, 1, 1, 2, 8, 1, 0, 0},  {40, 2, 2, 10, 1, 4, 0, 1, 0}};
#define GROUPEDS 6

static mf_grouped_attention_args grouped(mf_kt *t)
{
    const int64_t *s = grouped_of[t->variant], rows = s[0], experts = s[1],
                  tokens = s[2] * s[3];
    const int64_t width = s[4] * s[5];
    const bool own = s[6] != 0;
    int32_t *offset = kt_offsets(t, experts, rows), *token = kt_i32(t, rows, 0, 0);
    mf_grouped_attention_args p = {.rows = rows,
                                   .experts = experts,
                                   .batch = s[2],
                                   .s = s[3],
                                   .heads = s[4],
                                   .head_dim = s[5],
                                   .own = own,
                                   .causal = s[7] != 0,
                                   .scale = 0.25f,
                                   .offset = offset,
                                   .token = token,
                                   .q = kt_f32(t, rows * width)};
    p.kv = kt_f32(t, own ? rows * 2 * width : tokens * experts * 2 * width);
    for (int64_t e = 0; e < experts; e++) /* in order; some may occur twice */
        for (int64_t r = offset[e], n = offset[e + 1] - r, i = 0; i < n; i++)
            token[r + i] = (int32_t)(i * tokens / n);
    if (t->variant == 5) token[offset[1] - 1] = 0; /* out of order */
    if (s[8]) {
        float *mask = kt_f32(t, tokens);
        for (int64_t i = 0; i < tokens; i++)
            mask[i] = i % 3 != 1;
        p.mask = mask;
    }
    p.work = kt_work(t, mf_grouped_attention_work(rows, experts, own ? 1 : s[2]));
    return p;
}

static void run_grouped_attention(mf_kt *t)
{
    mf_grouped_attention_args p = grouped(t);
    p.y = kt_result(t, p.rows * p.heads * p.head_dim);
    p.lse = kt_result(t, p.rows * p.heads);
    t->k->grouped_attention(t->x, &p);
    kt_faulted(t);
}

static void run_grouped_attention_backward(mf_kt *t)
{
    mf_grouped_attention_args p = grouped(t);
    const int64_t width = p.heads * p.head_dim, tokens = p.batch * p.s;
    p.y = kt_f32(t, p.rows * width);
    p.lse = kt_f32(t, p.rows * p.heads);
    p.dy = kt_f32(t, p.rows * width);
    mf_kernels_ref.grouped_attention(t->x, &p);
    p.dq = kt_result(t, p.rows * width);
    if (t->variant != 2)
        p.dkv = kt_result(t, p.own ? p.rows * 2 * width : tokens * p.experts * 2 * width);
    t->k->grouped_attention_backward(t->x, &p);
    kt_faulted(t);
}

static void run_swiglu(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    int64_t ld = t->variant < 3 ? n : 2 * n;
    float *a = kt_f32(t, rows * ld), *b = t->variant < 3 ? kt_f32(t, rows * n) : a + n;
    const float *gate = t->variant < 6 ? NULL : kt_f32(t, rows);
    KT_RUN(t, swiglu, .type = MF_CAST_F32, .rows = rows, .n = n, .a = a, .lda = ld, .b = b,
           .ldb = ld, .gate = gate, .y = kt_result(t, rows * n));
}

static void run_swiglu_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    int64_t ld = t->variant < 3 ? n : 2 * n;
    float *a = kt_f32(t, rows * ld), *b = t->variant < 3 ? kt_f32(t, rows * n) : a + n;
    float *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * ld);
    float *db = t->variant < 3 ? kt_result(t, rows * n) : da + n;
    const float *gate = t->variant < 6 ? NULL : kt_f32(t, rows);
    KT_RUN(t, swiglu_backward, .type = MF_CAST_F32, .rows = rows, .n = n, .a = a, .lda = ld,
           .b = b, .ldb = ld, .gate = gate, .dy = dy, .da = t->variant == 1 ? NULL : da,
           .db = t->variant == 2 ? NULL : db,
           .dgate = t->variant < 6 ? NULL : kt_result(t, rows),
           .y = t->variant < 3 ? NULL : kt_result(t, rows * n));
}

/* Rows so long that a set may use more threads than a warp for each of them. */
static void run_swiglu_backward_of_long_rows(mf_kt *t)
{
    const int64_t rows = 9, n = 1100;
    float *a = kt_f32(t, rows * n), *b = kt_f32(t, rows * n), *gate = kt_f32(t, rows);
    float *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * n), *db = kt_result(t, rows * n);
    KT_RUN(t, swiglu_backward, .type = MF_CAST_F32, .rows = rows, .n = n, .a = a, .lda = n,
           .b = b, .ldb = n, .gate = gate, .dy = dy, .da = da, .db = db,
           .dgate = kt_result(t, rows), .y = kt_result(t, rows * n));
}

static const int64_t count_of[] = {1, 999, 70003};

static void run_adamw(mf_kt *t)
{
    int64_t n = count_of[t->variant % 3];
    mf_update_now now = {.lr = 0.1,
                         .weight_decay = 0.1,
                         .grad_scale = 0.5,
                         .correction1 = 1 - 0.81,
                         .correction2 = 1 - 0.9025};
    mf_update_args args = {.beta1 = 0.9,
                           .beta2 = 0.95,
                           .eps = 1e-8,
                           .lr_scale = 1,
                           .decay_scale = 1,
                           .l2 = t->variant == 7};
    float *grad = kt_f32(t, n), *value = kt_result(t, n), *m = kt_result(t, n);
    float *v = kt_positive(t, n), *v_result = kt_result(t, n);
    for (int64_t i = 0; i < n; i++)
        v_result[i] = v[i];
    double sumsq[] = {100};
    float loss[] = {2};
    if (t->variant >= 3) now.clip = 1;
    if (t->variant == 4) now.clip = 1000;      /* larger than the norm */
    if (t->variant == 5) sumsq[0] = INFINITY;  /* the step is skipped */
    if (t->variant == 6) loss[0] = (float)NAN; /* the step is skipped */
    args.now = kt_given(t, &now, sizeof now);
    if (t->variant >= 3) {
        args.sumsq = kt_given(t, sumsq, sizeof sumsq);
        args.loss = kt_given(t, loss, sizeof loss);
    }
    if (t->variant == 8) t->fault.kind = MF_FAULT_RANGE; /* the step is skipped */
    KT_RUN(t, adamw, .count = n, .update = args, .value = value, .grad = grad, .m = m,
           .v = v_result);
}

/* The settings of an optimizer step; variant 3 skips it. */
static mf_update_args update_args(mf_kt *t)
{
    const mf_update_now now = {
        .lr = 0.1, .weight_decay = 0.1, .grad_scale = 0.5, .clip = 1, .step = 3};
    const double sumsq = t->variant == 3 ? INFINITY : 100;
    return (mf_update_args){.beta1 = 0.9,
                            .beta2 = 0.75,
                            .lr_scale = 2,
                            .decay_scale = 1,
                            .now = kt_given(t, &now, sizeof now),
                            .sumsq = kt_given(t, &sumsq, sizeof sumsq)};
}

/* Moments and gradients have the same sign, because the sign of a sum near 0 would depend
 * on rounding. */
static void run_lion(mf_kt *t)
{
    const int64_t n = count_of[t->variant % 3];
    const mf_update_args args = update_args(t);
    float *grad = kt_positive(t, n), *value = kt_result(t, n), *m = kt_result(t, n);
    for (int64_t i = 0; i < n; i++) {
        if (i % 2) grad[i] = -grad[i];
        m[i] = i % 3 == 2 ? 0 : grad[i] / 2;
        if (i % 7 == 5) grad[i] = m[i] = 0;
    }
    KT_RUN(t, lion, .count = n, .update = args, .value = value, .grad = grad, .m = m);
}

static void run_momentum(mf_kt *t)
{
    const int64_t n = count_of[t->variant % 3];
    const mf_update_args args = update_args(t);
    KT_RUN(t, momentum, .count = n, .update = args, .grad = kt_f32(t, n), .m = kt_result(t, n),
           .u = kt_result(t, n));
}

static void run_descend(mf_kt *t)
{
    const int64_t n = count_of[t->variant % 3];
    const mf_update_args args = update_args(t);
    KT_RUN(t, descend, .count = n, .update = args, .scale = 0.3, .u = kt_f32(t, n),
           .value = kt_result(t, n));
}

static void run_adafactor(mf_kt *t)
{
    static const int64_t shapes[][3] = {{1, 7, 5},  {3, 40, 33}, {2, 0, 300},   {1, 3, 4},
                                        {1, 1, 64}, {1, 64, 1},  {1, 300, 300}, {2, 40, 33}};
    const int64_t *s = shapes[t->variant], n = s[0] * (s[1] > 0 ? s[1] : 1) * s[2];
    const mf_update_args args = update_args(t);
    const int64_t kept = s[0] * mf_adafactor_state(s[1], s[2]);
    float *start = kt_positive(t, kept), *v = kt_result(t, kept);
    for (int64_t i = 0; i < kept; i++)
        v[i] = t->variant == 7 ? start[i] / 4096 : start[i]; /* 7: the step is clipped */
    float *value = kt_f32(t, n), *grad = kt_f32(t, n), *u = kt_result(t, n);
    KT_RUN(t, adafactor, .groups = s[0], .rows = s[1], .columns = s[2], .update = args,
           .value = value, .grad = grad, .v = v, .u = u,
           .work = kt_work(t, mf_adafactor_work(s[0], s[2])));
}

static void run_sumsq(mf_kt *t)
{
    static const int64_t n[] = {0, 1, 999, 70003, 5000000};
    double *sum = kt_given(t, &(double){3}, sizeof *sum);
    KT_RUN(t, sumsq, .count = n[t->variant % 5], .a = kt_f32(t, n[t->variant % 5]),
           .add = t->variant >= 5, .sum = sum, .work = kt_work(t, MF_SUMSQ_WORK));
    *kt_result(t, 1) = (float)*sum;
}

/* Computes the sums of two to six tiles at a time, beginning with the last tiles. In order,
 * these sums add up to the whole sum. */
static void run_sumsq_by_tiles(mf_kt *t)
{
    static const int64_t n[] = {1, 999, 70003, 5000000, 9000001};
    const int64_t count = n[t->variant];
    const float *a = kt_f32(t, count);
    double part[MF_SUMSQ_TILES], sum = 0, *whole = kt_given(t, &sum, sizeof sum);
    int64_t tile = count;
    KT_RUN(t, sumsq, .count = count, .a = a, .add = false, .sum = whole,
           .work = kt_work(t, MF_SUMSQ_WORK));
    if (t->k->sumsq_tiles) {
        t->k->sumsq_tiles(t->x, count, 0, 0, a, &tile, NULL);
        const int64_t tiles = (count + tile - 1) / tile;
        ck_assert_int_le(tiles, MF_SUMSQ_TILES);
        for (int64_t at = tiles; at > 0;) {
            const int64_t some = at % 5 + 2 < at ? at % 5 + 2 : at;
            at -= some;
            t->k->sumsq_tiles(t->x, count, at, some, a, &tile, part + at);
        }
        for (int64_t i = 0; i < tiles; i++)
            sum += part[i];
        ck_assert(memcmp(&sum, whole, sizeof sum) == 0);
    }
    *kt_result(t, 1) = (float)*whole;
}

static void run_scale_inplace(mf_kt *t)
{
    int64_t n = count_of[t->variant];
    KT_RUN(t, scale_inplace, .count = n, .factor = 3, .a = kt_result(t, n));
}

const mf_kernel_row mf_kernel_cases_layers[] = {
    {"norm", run_norm, 6 * NORMS, false, 1e-6},
    {"norm", run_norm_of_wide_rows, 3 * (WIDTHS - 1), false, 1e-6},
    {"norm", run_norm_of_widest_rows, 3, false, 2e-6},
    {"norm", run_l2_of_zeros, 3, false, 1e-6},
    {"norm_backward", run_norm_backward, 6 * NORMS, false, 5e-6},
    {"norm_backward", run_norm_backward_of_wide_rows, 3 * WIDTHS, false, 5e-6},
    {"norm_backward", run_norm_backward_in_place, 9, false, 5e-6},
    {"rope", run_rope, 16, false, 2e-7},
    {"attention", run_attention, ATTENTIONS, false, 2e-6},
    {"attention", run_attention_of_nan, 2, false, 2e-6},
    /* without the widest heads, whose long sums exceed this bound */
    {"attention_backward", run_attention_backward, ATTENTIONS - 1, false, 4e-6},
    {"embedding", run_embedding, 3, true, 0},
    {"embedding_grad", run_embedding_grad, 4, true, 1e-6},
    {"cross_entropy", run_cross_entropy, 9, false, 1e-6},
    {"cross_entropy_backward", run_cross_entropy_backward, 9, false, 1e-6},
    {"linear_cross_entropy", run_linear_cross_entropy, 18, false, 4e-6},
    {"linear_cross_entropy", run_linear_cross_entropy_bf16, 18, false, 1e-2},
    {"grouped_attention", run_grouped_attention, GROUPEDS, false, 2e-6},
    {"grouped_attention_backward", run_grouped_attention_backward, GROUPEDS, false, 4e-6},
    {"swiglu", run_swiglu, 9, false, 1e-6},
    {"swiglu_backward", run_swiglu_backward, 9, false, 1e-6},
    {"swiglu_backward", run_swiglu_backward_of_long_rows, 1, false, 1e-6},
    {"adamw", run_adamw, 9, false, 1e-6},
    {"lion", run_lion, 4, false, 1e-6},
    {"momentum", run_momentum, 4, false, 1e-6},
    {"descend", run_descend, 4, false, 1e-6},
    {"adafactor", run_adafactor, 8, false, 2e-6},
    {"sumsq", run_sumsq, 10, true, 1e-6},
    {"sumsq", run_sumsq_by_tiles, 5, true, 1e-6},
    {"scale_inplace", run_scale_inplace, 3, true, 0},
    {0},
};
