/* Rows of check_kernels: norms, positions, attention, tokens and loss, gates, optimizer. */
#include <stddef.h>

#include "kernel_case.h"

static const int64_t rows_of[] = {1, 40, 300}, width_of[] = {3, 37, 200};

static void run_rmsnorm(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *a = kt_f32(t, rows * n), *w = t->variant < 6 ? kt_f32(t, n) : NULL;
    float *y = kt_result(t, rows * n);
    t->k->rmsnorm(t->x, rows, n, 1e-3f, t->variant % 2, a, w, y);
}

static void run_rmsnorm_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *a = kt_f32(t, rows * n), *w = t->variant < 6 ? kt_f32(t, n) : NULL;
    float *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * n), *dw = kt_result(t, n);
    void *work = kt_work(t, mf_kernel_norm_work(n));
    t->k->rmsnorm_backward(t->x, rows, n, 1e-3f, t->variant % 2, a, w, dy, da,
                           w != NULL ? dw : NULL, work);
    if (t->variant == 5)
        t->k->rmsnorm_backward(t->x, rows, n, 1e-3f, true, a, w, dy, NULL, dw, work);
}

static void run_layernorm(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *a = kt_f32(t, rows * n), *w = t->variant < 6 ? kt_f32(t, n) : NULL;
    float *b = t->variant < 3 ? kt_f32(t, n) : NULL, *y = kt_result(t, rows * n);
    t->k->layernorm(t->x, rows, n, 1e-3f, a, w, b, y);
}

static void run_layernorm_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *a = kt_f32(t, rows * n), *w = t->variant < 3 ? kt_f32(t, n) : NULL;
    float *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * n), *dw = kt_result(t, n);
    float *db = kt_result(t, n);
    void *work = kt_work(t, mf_kernel_norm_work(n));
    t->k->layernorm_backward(t->x, rows, n, 1e-3f, a, w, dy, t->variant == 2 ? NULL : da,
                             w != NULL ? dw : NULL, t->variant == 1 ? NULL : db, work);
}

static void run_l2_normalize(mf_kt *t)
{
    int64_t rows = rows_of[t->variant], n = width_of[t->variant];
    float *a = kt_f32(t, rows * n), *y = kt_result(t, rows * n);
    for (int64_t j = 0; j < n; j++)
        a[j] = 0;
    t->k->l2_normalize(t->x, rows, n, 1e-6f, a, y);
}

static void run_l2_normalize_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    float *a = kt_f32(t, rows * n), *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * n);
    t->k->l2_normalize_backward(t->x, rows, n, t->variant < 3 ? 0.5f : 20, a, dy, da);
}

static void run_rope(mf_kt *t)
{
    static const int64_t size[][3] = {{5, 2, 1}, {40, 64, 3}, {70, 10, 4}, {3, 512, 2}};
    int64_t rows = size[t->variant / 4][0], hd = size[t->variant / 4][1];
    int64_t heads = size[t->variant / 4][2], width = heads * hd + 5;
    int32_t *position = kt_i32(t, rows, 0, t->variant == 7 ? 1000000 : 3000);
    float *a = kt_f32(t, rows * width), *y = kt_result(t, rows * width);
    t->k->rope(t->x, rows, width, hd, heads, t->variant & 1, t->variant & 2, 10000, position,
               t->variant == 4 ? y : a, y);
}

/* batch, T, S, heads, kv_heads, head_dim, causal, mask, kv_len, packed, reach */
static const int64_t attention_of[][11] = {
    {1, 1, 1, 1, 1, 4, 0, 0, 0, 0, 0},      {2, 70, 70, 4, 2, 16, 1, 0, 0, 1, 0},
    {2, 9, 300, 2, 1, 8, 0, 1, 0, 0, 0},    {3, 1, 600, 4, 4, 32, 1, 0, 1, 0, 0},
    {2, 150, 150, 3, 3, 64, 1, 1, 1, 1, 0}, {1, 130, 520, 2, 2, 20, 1, 1, 0, 0, 0},
    {2, 7, 50, 2, 2, 8, 0, 1, 0, 0, 1},     {2, 140, 300, 2, 1, 16, 0, 0, 0, 0, 1}};
#define ATTENTIONS 8

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
    if (s[7]) { /* the first sequence has none left, the others some */
        float *mask = kt_f32(t, batch * ns);
        for (int64_t i = 0; i < batch * ns; i++)
            mask[i] = i < ns ? 0 : (float)(i % 3 != 0);
        if (batch == 1) mask[ns / 2] = mask[3] = 1;
        p.mask = mask;
    }
    if (s[8]) p.kv_len = kt_i32(t, batch, 0, ns);
    if (s[10]) { /* the first queries see nothing, places are left out and come twice */
        int32_t *reach = kt_i32(t, batch * nt, 0, 0);
        for (int64_t i = 0; i < batch * nt; i++)
            reach[i] = (int32_t)(i % nt / 2 * 2 * ns / nt) - 1;
        p.reach = reach;
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

static void run_attention_backward(mf_kt *t)
{
    mf_attention_args p = attention(t);
    int64_t count = p.batch * p.t * p.heads * p.head_dim;
    p.dy = kt_f32(t, count);
    p.y = kt_f32(t, count);
    p.lse = kt_f32(t, p.batch * p.t * p.heads);
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

static void run_cache_append(mf_kt *t)
{
    int32_t *pos = kt_i32(t, 3, 0, t->variant == 0 ? 6 : 0);
    float *a = kt_f32(t, 3 * 4 * 5), *cache = kt_result(t, 3 * 10 * 5);
    if (t->variant == 1) pos[1] = 7; /* one row too far */
    if (t->variant == 2) pos[2] = -1;
    kt_returned(t, (double)t->k->cache_append(t->x, 3, 10, 4, 5, pos, a, cache));
}

static void run_embedding(mf_kt *t)
{
    int64_t vocab = 90, n = 33, count = 1200;
    int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    float *table = kt_f32(t, vocab * n), *y = kt_result(t, count * n);
    if (t->variant == 1) ids[17] = (int32_t)vocab;
    if (t->variant == 2) ids[900] = -1;
    kt_returned(t, (double)t->k->embedding(t->x, vocab, n, count, table, ids, y));
}

static void run_embedding_grad(mf_kt *t)
{
    int64_t vocab = t->variant == 0 ? 1 : 2000, n = 33, count = t->variant == 2 ? 0 : 500;
    int32_t *ids = kt_i32(t, count, 0, vocab - 1);
    float *dy = kt_f32(t, count * n), *dtable = kt_result(t, vocab * n);
    for (int64_t i = 0; i < vocab * n && t->variant == 3; i++)
        dtable[i] = (float)(i % 19) - 9;
    t->k->embedding_grad(t->x, vocab, n, count, t->variant == 3, ids, dy, dtable,
                         kt_work(t, mf_kernel_embedding_work(vocab, count)));
}

/* rows, n; variants past these: weights, rows that do not count, no row that counts */
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
    kt_returned(t, (double)t->k->cross_entropy(t->x, rows, n, logits, target, weight, loss,
                                               row_loss, lse));
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
    mf_kernels_ref.cross_entropy(t->x, rows, n, logits, target, weight, loss, row_loss, lse);
    float *dlogits = kt_result(t, rows * n), *dweight = kt_result(t, rows);
    t->k->cross_entropy_backward(t->x, rows, n, logits, target, weight, loss, row_loss, lse,
                                 dloss, drow, dlogits, weight != NULL ? dweight : NULL);
}

static void run_cross_entropy_over(mf_kt *t)
{
    int64_t rows = entropy_of[t->variant][0], n = entropy_of[t->variant][1];
    float *given = kt_f32(t, rows * n), *g = kt_f32(t, rows);
    int32_t *target = kt_i32(t, rows, 0, n - 1);
    float *logits = kt_result(t, rows * n), *row_loss = kt_result(t, rows);
    for (int64_t i = 0; i < rows * n; i++)
        logits[i] = given[i];
    t->k->cross_entropy_over(t->x, rows, n, logits, target, g, row_loss);
}

static void run_swiglu(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    int64_t ld = t->variant < 3 ? n : 2 * n;
    float *a = kt_f32(t, rows * ld), *b = t->variant < 3 ? kt_f32(t, rows * n) : a + n;
    const float *gate = t->variant < 6 ? NULL : kt_f32(t, rows);
    t->k->swiglu(t->x, rows, n, a, ld, b, ld, gate, kt_result(t, rows * n));
}

static void run_swiglu_backward(mf_kt *t)
{
    int64_t rows = rows_of[t->variant % 3], n = width_of[t->variant % 3];
    int64_t ld = t->variant < 3 ? n : 2 * n;
    float *a = kt_f32(t, rows * ld), *b = t->variant < 3 ? kt_f32(t, rows * n) : a + n;
    float *dy = kt_f32(t, rows * n), *da = kt_result(t, rows * ld);
    float *db = t->variant < 3 ? kt_result(t, rows * n) : da + n;
    const float *gate = t->variant < 6 ? NULL : kt_f32(t, rows);
    t->k->swiglu_backward(t->x, rows, n, a, ld, b, ld, gate, dy, t->variant == 1 ? NULL : da,
                          t->variant == 2 ? NULL : db,
                          t->variant < 6 ? NULL : kt_result(t, rows),
                          t->variant < 3 ? NULL : kt_result(t, rows * n));
}

static const int64_t count_of[] = {1, 999, 70003};

static void run_adamw(mf_kt *t)
{
    int64_t n = count_of[t->variant];
    mf_adamw_args args = {.lr = 0.1,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .eps = 1e-8,
                          .weight_decay = 0.1,
                          .grad_scale = 0.5,
                          .correction1 = 1 - 0.81,
                          .correction2 = 1 - 0.9025};
    float *grad = kt_f32(t, n), *value = kt_result(t, n), *m = kt_result(t, n);
    float *v = kt_positive(t, n), *v_result = kt_result(t, n);
    for (int64_t i = 0; i < n; i++)
        v_result[i] = v[i];
    t->k->adamw(t->x, n, &args, value, grad, m, v_result);
}

static void run_sumsq(mf_kt *t)
{
    static const int64_t n[] = {0, 1, 999, 70003, 5000000};
    kt_returned(t, t->k->sumsq(t->x, n[t->variant], kt_f32(t, n[t->variant])));
}

static void run_scale_inplace(mf_kt *t)
{
    int64_t n = count_of[t->variant];
    t->k->scale_inplace(t->x, n, 3, kt_result(t, n));
}

const mf_kernel_row mf_kernel_rows_layers[] = {
    {"rmsnorm", run_rmsnorm, 9, false, 1e-6},
    {"rmsnorm_backward", run_rmsnorm_backward, 9, false, 2e-6},
    {"layernorm", run_layernorm, 9, false, 1e-6},
    {"layernorm_backward", run_layernorm_backward, 6, false, 5e-6},
    {"l2_normalize", run_l2_normalize, 3, false, 1e-6},
    {"l2_normalize_backward", run_l2_normalize_backward, 6, false, 2e-6},
    {"rope", run_rope, 16, false, 2e-7},
    {"attention", run_attention, ATTENTIONS, false, 2e-6},
    {"attention_backward", run_attention_backward, ATTENTIONS, false, 4e-6},
    {"cache_append", run_cache_append, 3, true, 0},
    {"embedding", run_embedding, 3, true, 0},
    {"embedding_grad", run_embedding_grad, 4, true, 1e-6},
    {"cross_entropy", run_cross_entropy, 9, false, 1e-6},
    {"cross_entropy_backward", run_cross_entropy_backward, 9, false, 1e-6},
    {"cross_entropy_over", run_cross_entropy_over, 3, false, 1e-6},
    {"swiglu", run_swiglu, 9, false, 1e-6},
    {"swiglu_backward", run_swiglu_backward, 9, false, 1e-6},
    {"adamw", run_adamw, 3, false, 1e-6},
    {"sumsq", run_sumsq, 5, true, 1e-6},
    {"scale_inplace", run_scale_inplace, 3, true, 0},
    {0},
};
