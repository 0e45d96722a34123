/* Cases of check_kernels: attention of bf16, and of f32 that may be rounded to bf16. A device
 * or an instruction set may have special kernels for them. The numbers of both are bf16.
 *
 * Bounds: a kernel may round weights, gradients of scores and results to bf16, each by at most
 * 2^-9 of the value. A result is a sum over keys or queries. So the first rounding adds an
 * error of at most 2^-9 of the sum of absolute values, and the second rounding 2^-9 of the
 * result. Numbers of both signs make the sum of absolute values larger than the result, but
 * their errors cancel, too. The bound 8e-3, or 2^-7 of the largest result, holds for all cases.
 * If all weights are 1, or powers of 2 with sums that bf16 can represent, nothing is rounded,
 * and whole numbers must be exact. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernel_case.h"

/* Which keys a query sees, and the layout of the arrays. */
enum {
    CAUSAL = 1,
    MASK = 2,
    KV_LEN = 4,
    PACKED = 8,
    REACH = 16,
    SINCE = 32,
    FIRST = 64, /* the first query sees 63 keys, the others all keys */
    LATE = 128  /* from query 31 on, no query sees the first key */
};

typedef struct {
    int batch, t, s, heads, kv_heads, head_dim, window;
    unsigned how;
    float scale;
} attention_case;

/* One element; several tiles in both directions with ends in the middle of a tile and of a
 * row's 16 bytes; heads that share keys; a cache; widths up to 64, 128 and 256; arrays that are
 * not aligned, heads that are too wide, or a negative scale, for which f32 kernels are used;
 * documents that begin after the last key; tiles in which a single query does not see a single
 * key; a window over several tiles. */
static const attention_case cases[] = {
    {1, 1, 1, 1, 1, 8, 0, 0, .25f},
    {2, 70, 70, 4, 2, 16, 0, CAUSAL | PACKED, .25f},
    {2, 9, 300, 2, 1, 8, 0, MASK, .25f},
    {3, 1, 200, 4, 4, 32, 0, CAUSAL | KV_LEN, .25f},
    {2, 150, 150, 3, 3, 64, 0, CAUSAL | MASK | KV_LEN | PACKED, .125f},
    {1, 130, 260, 2, 2, 40, 0, CAUSAL | MASK, .25f},
    {2, 7, 50, 2, 2, 8, 0, MASK | REACH, .25f},
    {2, 140, 300, 2, 1, 16, 0, REACH, .25f},
    {2, 150, 150, 3, 3, 64, 40, CAUSAL | KV_LEN | PACKED, .125f},
    {1, 200, 350, 2, 2, 24, 130, CAUSAL | MASK, .25f},
    {2, 150, 150, 3, 3, 64, 0, CAUSAL | PACKED | SINCE, .125f},
    {2, 8, 70, 2, 2, 8, 0, CAUSAL | KV_LEN | SINCE, .25f},
    {1, 200, 200, 2, 1, 128, 0, CAUSAL | PACKED, .125f},
    {2, 70, 90, 2, 1, 120, 0, MASK | SINCE, .125f},
    {1, 70, 100, 2, 1, 200, 0, CAUSAL, .125f},
    {1, 40, 40, 2, 2, 256, 9, CAUSAL | PACKED | MASK, .125f},
    {1, 20, 30, 2, 1, 20, 0, CAUSAL, .25f},
    {1, 5, 40, 1, 1, 264, 0, CAUSAL | MASK, .125f},
    {2, 20, 30, 2, 1, 16, 0, CAUSAL, -.25f},
    {2, 80, 80, 2, 1, 16, 0, CAUSAL | PACKED | KV_LEN | SINCE, .25f},
    {1, 128, 128, 2, 1, 8, 0, FIRST, .25f},
    {1, 128, 128, 2, 1, 8, 0, LATE, .25f},
    {1, 260, 260, 1, 1, 136, 200, CAUSAL, .125f},
    {1, 333, 401, 4, 1, 24, 75, CAUSAL, .25f},
    {2, 261, 261, 3, 1, 7, 0, CAUSAL | PACKED | SINCE, .25f},
    {1, 100, 140, 3, 1, 576, 0, CAUSAL, .0625f}};
enum { CASES = sizeof cases / sizeof *cases };

/* Numbers of kt_f32 as bf16, or rounded to bf16. The return type is float *, because the
 * kernel's arguments have this type. */
static float *numbers(mf_kt *t, const mf_attention_args *p, int64_t n)
{
    float *from = kt_f32(t, n);
    mf_bf16 *to = kt_work(t, (size_t)n * sizeof *to);
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = n, .from = MF_CAST_F32, .to = MF_CAST_BF16,
           .in = from, .out = to);
    if (p->bf16) return (float *)(void *)to;
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = n, .from = MF_CAST_BF16, .to = MF_CAST_F32,
           .in = to, .out = from);
    return from;
}

/* Element i of an array. */
static float *at(const mf_attention_args *p, const float *from, int64_t i)
{
    const int64_t size = p->bf16 ? sizeof(mf_bf16) : sizeof(float);
    return (float *)(void *)((char *)(uintptr_t)from + i * size);
}

static void put_nan(const mf_attention_args *p, const float *to, int64_t i)
{
    if (p->bf16)
        *(mf_bf16 *)(void *)at(p, to, i) = 0x7fc0;
    else
        *at(p, to, i) = NAN;
}

/* Adds the output of a kernel to the results, as f32. */
static void give(mf_kt *t, const mf_attention_args *p, int64_t n, const float *from)
{
    MF_RUN(&mf_kernels_ref, t->x, cast, .n = n, .from = p->bf16 ? MF_CAST_BF16 : MF_CAST_F32,
           .to = MF_CAST_F32, .in = from, .out = kt_result(t, n));
}

/* Returns the arguments of the variant's case of n cases: first all with bf16, then all with
 * as_bf16. */
static mf_attention_args args_of(mf_kt *t, const attention_case *list, int n)
{
    const attention_case *c = &list[t->variant % n];
    const int64_t width = (c->heads + 2 * c->kv_heads) * c->head_dim;
    mf_attention_args p = {.bf16 = t->variant < n,
                           .as_bf16 = t->variant >= n,
                           .batch = c->batch,
                           .t = c->t,
                           .s = c->s,
                           .heads = c->heads,
                           .kv_heads = c->kv_heads,
                           .head_dim = c->head_dim,
                           .causal = c->how & CAUSAL,
                           .window = c->window,
                           .scale = c->scale};
    if (c->how & PACKED) {
        p.q = numbers(t, &p, p.batch * p.t * width);
        p.k = at(&p, p.q, p.heads * p.head_dim), p.v = at(&p, p.k, p.kv_heads * p.head_dim);
        p.ldq = p.ldk = p.ldv = width;
    } else {
        p.ldq = p.heads * p.head_dim + 8, p.ldk = p.kv_heads * p.head_dim + 16;
        p.ldv = p.kv_heads * p.head_dim;
        p.q = numbers(t, &p, p.batch * p.t * p.ldq);
        p.k = numbers(t, &p, p.batch * p.s * p.ldk);
        p.v = numbers(t, &p, p.batch * p.s * p.ldv);
    }
    /* masks all keys of the first of several sequences, and some keys of the others */
    if (c->how & MASK) {
        float *mask = kt_f32(t, p.batch * p.s);
        for (int64_t i = 0; i < p.batch * p.s; i++)
            mask[i] = (p.batch == 1 || i >= p.s) && i % 3 != 1;
        p.mask = mask;
    }
    if (c->how & KV_LEN) p.kv_len = kt_i32(t, p.batch, 0, p.s);
    if (c->how & REACH) { /* the first queries see no key; some limits occur twice */
        int32_t *reach = kt_i32(t, p.batch * p.t, 0, 0);
        for (int64_t i = 0; i < p.batch * p.t; i++)
            reach[i] = (int32_t)(i % p.t / 2 * 2 * p.s / p.t) - 1;
        p.reach = reach;
    }
    if (c->how & SINCE) { /* documents, some of which begin after the last visible key */
        int32_t *since = kt_i32(t, p.batch * p.t, 0, 0);
        for (int64_t i = 0; i < p.batch * p.t; i++)
            since[i] = (int32_t)(i % p.t / 37 * 37);
        p.since = since;
    }
    if (c->how & FIRST) {
        int32_t *reach = kt_i32(t, p.batch * p.t, 0, 0);
        for (int64_t i = 0; i < p.batch * p.t; i++)
            reach[i] = (int32_t)(i % p.t == 0 ? 62 : p.s - 1);
        p.reach = reach;
    }
    if (c->how & LATE) {
        int32_t *since = kt_i32(t, p.batch * p.t, 0, 0);
        for (int64_t i = 0; i < p.batch * p.t; i++)
            since[i] = i % p.t >= 31;
        p.since = since;
    }
    return p;
}

static void forward(mf_kt *t, mf_attention_args *p, bool lse)
{
    const int64_t n = p->batch * p->t * p->heads;
    p->y = numbers(t, p, n * p->head_dim);
    if (lse) p->lse = kt_result(t, n);
    t->k->attention(t->x, p);
    give(t, p, n * p->head_dim, p->y);
}

enum { LOW_LSE = 8 };

/* Compares gradients for a y that ref computes. without: its bits 1, 2 and 4 mean that dq, dk
 * and dv are not requested; LOW_LSE lowers lse of some queries. */
static void backward(mf_kt *t, mf_attention_args *p, bool dlse, unsigned without)
{
    const int64_t n = p->batch * p->t * p->heads;
    const bool packed = p->k == at(p, p->q, p->heads * p->head_dim);
    p->dy = numbers(t, p, n * p->head_dim), p->y = numbers(t, p, n * p->head_dim);
    p->lse = kt_f32(t, n);
    if (dlse) p->dlse = kt_f32(t, n);
    mf_kernels_ref.attention(t->x, p);
    for (int64_t i = 0; i < n && without & LOW_LSE; i += 5)
        p->lse[i] -= 1000;
    float *dq = numbers(t, p, p->batch * p->t * p->ldq), *dk = NULL, *dv = NULL;
    if (!packed)
        dk = numbers(t, p, p->batch * p->s * p->ldk),
        dv = numbers(t, p, p->batch * p->s * p->ldv);
    p->dq = without & 1 ? NULL : dq;
    p->dk = without & 2 ? NULL : packed ? at(p, dq, p->heads * p->head_dim) : dk;
    p->dv = without & 4 ? NULL
            : packed    ? at(p, dq, (p->heads + p->kv_heads) * p->head_dim)
                        : dv;
    t->k->attention_backward(t->x, p);
    give(t, p, p->batch * p->t * p->ldq, dq);
    if (packed) return;
    give(t, p, p->batch * p->s * p->ldk, dk);
    give(t, p, p->batch * p->s * p->ldv, dv);
}

static void run_attention(mf_kt *t)
{
    mf_attention_args p = args_of(t, cases, CASES);
    forward(t, &p, t->variant % CASES != 3);
}

/* Compares only ln sum e^score, which is never rounded to bf16. */
static void run_lse(mf_kt *t)
{
    mf_attention_args p = args_of(t, cases, CASES);
    const int64_t n = p.batch * p.t * p.heads;
    p.y = numbers(t, &p, n * p.head_dim), p.lse = kt_result(t, n);
    t->k->attention(t->x, &p);
}

static void run_attention_backward(mf_kt *t)
{
    static const unsigned without[] = {0, 0, 1, 2, 0, 6, 4};
    mf_attention_args p = args_of(t, cases, CASES);
    backward(t, &p, t->variant % 2 == 0, without[t->variant % CASES % 7]);
}

/* Each query sees only its own key, whose weight is 1. Heads share keys. */
static const attention_case alone[] = {{2, 70, 70, 4, 2, 16, 1, CAUSAL, .25f},
                                       {1, 140, 150, 2, 1, 128, 1, CAUSAL, .25f},
                                       {1, 35, 35, 3, 1, 200, 1, CAUSAL | PACKED, .25f}};
/* 16 keys have the same score, so the weight of each is 1/16. */
static const attention_case even[] = {{2, 70, 16, 4, 2, 16, 0, 0, .25f},
                                      {1, 140, 16, 2, 1, 128, 0, 0, .25f},
                                      {1, 20, 16, 2, 1, 256, 0, 0, .25f}};

static void run_alone(mf_kt *t)
{
    mf_attention_args p = args_of(t, alone, 3);
    forward(t, &p, false);
}

static void run_alone_backward(mf_kt *t)
{
    mf_attention_args p = args_of(t, alone, 3);
    backward(t, &p, false, 0);
}

static void run_even(mf_kt *t)
{
    mf_attention_args p = args_of(t, even, 3);
    for (int64_t i = 1; i < p.batch * p.s; i++)
        memcpy(at(&p, p.k, i * p.ldk), p.k,
               (size_t)((char *)at(&p, p.k, p.kv_heads * p.head_dim) - (char *)p.k));
    forward(t, &p, false);
}

/* The keys of one head are NaN. No other head may be affected. */
static void run_nan_beside(mf_kt *t)
{
    static const attention_case c = {1, 200, 200, 2, 2, 40, 0, CAUSAL | PACKED, .25f};
    mf_attention_args p = args_of(t, &c, 1);
    for (int64_t i = 0; i < p.s; i++)
        put_nan(&p, p.k, i * p.ldk + c.head_dim);
    forward(t, &p, true);
}

/* A query with a NaN has only NaN results; no other query has any. */
static void run_of_nan(mf_kt *t)
{
    const attention_case two[] = {cases[1], cases[7]};
    mf_attention_args p = args_of(t, two, 2);
    put_nan(&p, p.q, 30 * p.ldq + 5);
    forward(t, &p, true);
}

/* The value of a hidden key is NaN. No gradient may be affected. */
static void run_backward_of_nan(mf_kt *t)
{
    const attention_case two[] = {cases[5], cases[13]};
    mf_attention_args p = args_of(t, two, 2);
    const int64_t key = t->variant % 2 == 0 ? 61 : p.s + 61;
    put_nan(&p, p.v, key * p.ldv + 5);
    ((float *)(uintptr_t)p.mask)[key] = 0;
    backward(t, &p, false, 0);
}

/* lse is too small for some queries. A score above lse counts as lse, so the weights of all
 * keys that these queries see are 1. */
static void run_backward_of_low_lse(mf_kt *t)
{
    const attention_case two[] = {cases[1], cases[12]};
    mf_attention_args p = args_of(t, two, 2);
    backward(t, &p, false, LOW_LSE);
}

static void run_cache_append(mf_kt *t)
{
    int32_t *pos = kt_i32(t, 3, 0, t->variant == 0 ? 6 : 0);
    float *a = kt_f32(t, 3 * 4 * 5), *cache = kt_result(t, 3 * 10 * 5);
    if (t->variant == 1) pos[1] = 7; /* one row too many for the cache */
    if (t->variant == 2) pos[2] = -1;
    KT_RUN(t, cache_append, .batch = 3, .s = 10, .t = 4, .n = 5, .pos = pos, .a = a,
           .cache = cache);
    kt_faulted(t);
}

const mf_kernel_row mf_kernel_cases_attention[] = {
    {"attention", run_attention, 2 * CASES, false, 8e-3},
    {"attention", run_lse, 2 * CASES, false, 2e-6},
    {"attention", run_alone, 6, true, 8e-3},
    {"attention", run_even, 6, true, 8e-3},
    {"attention", run_of_nan, 4, false, 8e-3},
    {"attention", run_nan_beside, 2, false, 8e-3},
    {"attention_backward", run_attention_backward, 2 * CASES, false, 8e-3},
    {"attention_backward", run_backward_of_nan, 4, false, 8e-3},
    {"attention_backward", run_backward_of_low_lse, 4, false, 8e-3},
    {"attention_backward", run_alone_backward, 6, true, 8e-3},
    {"cache_append", run_cache_append, 3, true, 0},
    {0},
};
