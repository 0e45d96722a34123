/* delta/delta.c: the convolution, and the gated delta rule over chunks of up to 64 tokens.
 * Within a chunk all tokens are computed at once: their writes depend on each other by a
 * triangular matrix, whose inverse is made of blocks of doubling size. From chunk to chunk S
 * goes on. Rows are ordered by chunk, sequence and head, M = N B H groups of C tokens. */
#include "model/delta/delta.h"
#include <math.h>
#include <stdio.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/block.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "ops/state.h"

enum { CHUNK = 64, NAME = 64 };
#define LENGTH_EPS 1e-6 /* added to the squared lengths of q and k */

typedef struct delta {
    const mf_model *m;
    mf_model_graph *mg;
    mf_graph *g;
    const mf_model_config *c;
    const char *kind;                /* names of parameters contain it: "delta" or "conv" */
    int32_t layer, from;             /* from: the block whose parameters are used */
    int64_t taps;                    /* tokens that the convolution sees */
    int64_t B, n, T;                 /* sequences, tokens of each, T = B n */
    int64_t H, K, share, k, v;       /* heads of values and of keys, H / K, widths of a head */
    int64_t C, N, M;                 /* tokens of a chunk, chunks of a sequence, N B H */
    mf_tensor *since, *begun, *same; /* packed: [M,C,1], [M,C,1], [M,C,C]; else NULL */
} delta;

/* Whether the block has the short convolution. */
static bool is_short(const mf_model_config *c, int32_t layer)
{
    bool bad;
    return mf_model_in_layers(c->conv_layers, layer, &bad);
}

bool mf_delta_has(const mf_model_config *c, int32_t layer)
{
    bool bad;
    return is_short(c, layer) || mf_model_in_layers(c->delta_layers, layer, &bad);
}

/* Number of channels of the delta rule's convolution. */
static int64_t channels(const mf_model_config *c)
{
    return 2 * c->delta_key_heads * c->delta_key_dim + c->delta_heads * c->delta_value_dim;
}

int mf_delta_declare(mf_model *m, int32_t layer, mf_init inner, mf_init out)
{
    const mf_model_config *c = &m->config->model;
    const int64_t d = c->dim, H = c->delta_heads, v = H * c->delta_value_dim, n = channels(c);
    const bool conv = is_short(c, layer), bias = conv && c->conv_bias,
               grouped = !conv && c->delta_grouped, apart = !conv && !grouped;
    const int64_t taps = conv ? c->conv_taps : c->delta_taps;
    const mf_init zero = {MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0},
                  one = {MF_INIT_CONST, MF_PARAM_NO_DECAY, 1},
                  by_taps = {MF_INIT_UNIFORM, MF_PARAM_NO_DECAY, 1 / sqrt((double)taps)};
    const struct {
        const char *name;
        mf_shape shape;
        mf_init init;
        bool with; /* whether the block has it */
    } all[] = {{"delta.qkvz.weight", mf_shape2(n + v, d), inner, grouped},
               {"delta.ba.weight", mf_shape2(2 * H, d), inner, grouped},
               {"delta.qkv.weight", mf_shape2(n, d), inner, apart},
               {"delta.z.weight", mf_shape2(v, d), inner, apart},
               {"delta.b.weight", mf_shape2(H, d), inner, apart},
               {"delta.a.weight", mf_shape2(H, d), inner, apart},
               {"delta.conv.weight", mf_shape3(n, 1, taps), by_taps, !conv},
               {"delta.a_log", mf_shape1(H), zero, !conv},
               {"delta.dt_bias", mf_shape1(H), one, !conv},
               {"delta.norm.weight", mf_shape1(c->delta_value_dim), one, !conv},
               {"delta.out.weight", mf_shape2(d, v), out, !conv},
               {"conv.in.weight", mf_shape2(3 * d, d), inner, conv},
               {"conv.in.bias", mf_shape1(3 * d), zero, bias},
               {"conv.conv.weight", mf_shape3(d, 1, taps), by_taps, conv},
               {"conv.conv.bias", mf_shape1(d), zero, bias},
               {"conv.out.weight", mf_shape2(d, d), out, conv},
               {"conv.out.bias", mf_shape1(d), zero, bias}};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof all / sizeof *all; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "layers.%d.%s", (int)layer, all[i].name);
        if (all[i].with)
            rc = mf_store_declare(m->store, name, all[i].shape, all[i].init, false, NULL);
    }
    return rc;
}

static const char *name_in(char out[NAME], const char *kind, int32_t layer, const char *what)
{
    snprintf(out, NAME, "layers.%d.%s.%s", (int)layer, kind, what);
    return out;
}

int mf_delta_cache(const mf_model *m, int32_t layer, mf_cache *cache)
{
    const mf_model_config *c = &m->config->model;
    const int64_t B = cache->batch, rows = c->delta_heads * c->delta_key_dim;
    const bool conv = is_short(c, layer);
    const mf_shape past = conv ? mf_shape2(B * (c->conv_taps - 1), c->dim)
                               : mf_shape2(B * (c->delta_taps - 1), channels(c));
    char name[NAME];
    int rc =
        mf_store_declare(cache->store, name_in(name, conv ? "conv" : "delta", layer, "past"),
                         past, (mf_init){0}, true, NULL);
    if (rc != MF_OK || conv) return rc;
    return mf_store_declare(cache->store, name_in(name, "delta", layer, "state"),
                            mf_shape2(B * rows, c->delta_value_dim), (mf_init){0}, true, NULL);
}

/* ---- what a graph keeps ---- */

/* Returns the buffer of the cache as [B, rows width], 0 where the run begins a text; NULL: the
 * graph has no cache. */
static mf_tensor *kept(const delta *x, const char *what)
{
    const mf_cache *cache = x->mg->shape.cache;
    char name[NAME];
    if (!cache) return NULL;
    mf_param *p = mf_store_find(cache->store, name_in(name, x->kind, x->layer, what));
    const float start = (float)x->c->cache_start;
    mf_tensor *goes_on = mf_greater(x->g, mf_cast(x->g, x->mg->cache_pos, MF_F32),
                                    mf_graph_const(x->g, MF_F32, mf_shape1(1), &start));
    return mf_mul(x->g,
                  mf_reshape(x->g, mf_graph_param(x->g, p), mf_shape2(x->B, p->count / x->B)),
                  mf_reshape(x->g, goes_on, mf_shape2(x->B, 1)));
}

/* Writes the new content of the buffer, if the graph has a cache. */
static void keep(const delta *x, const char *what, mf_tensor *t)
{
    const mf_cache *cache = x->mg->shape.cache;
    char name[NAME];
    if (!cache || !t) return;
    mf_param *p = mf_store_find(cache->store, name_in(name, x->kind, x->layer, what));
    mf_tensor *first =
        mf_cast(x->g, mf_affine(x->g, mf_cast(x->g, x->mg->cache_pos, MF_F32), 0, 0), MF_I32);
    mf_cache_append(x->g, mf_graph_param(x->g, p), mf_reshape(x->g, t, p->shape), first);
}

/* ---- the parts before the rule ---- */

/* Returns NULL if the block has no such parameter. */
static mf_tensor *use(const delta *x, const char *what)
{
    char name[NAME];
    mf_param *p = mf_store_find(x->m->store, name_in(name, x->kind, x->from, what));
    return p ? mf_graph_param(x->g, p) : NULL;
}

static mf_tensor *linear(const delta *x, const char *what, mf_tensor *in)
{
    char site[NAME], weight[NAME], bias[NAME];
    snprintf(site, sizeof site, "%s.%s.weight", x->kind, what);
    snprintf(weight, sizeof weight, "%s.weight", what);
    snprintf(bias, sizeof bias, "%s.bias", what);
    return mf_adapt_linear(x->m->env, site, in,
                           mf_linear_as(x->g, in, use(x, weight), use(x, bias), MF_F32));
}

/* Returns columns from .. from + n - 1 of each group: t [T,groups,.] -> [T,groups n] */
static mf_tensor *columns(const delta *x, mf_tensor *t, int64_t groups, int64_t from, int64_t n)
{
    return mf_reshape(x->g, mf_slice(x->g, t, 2, from, n), mf_shape2(x->T, groups * n));
}

/* Sets the inputs of the convolution, q, k and v [T,.], and z, b and a. */
static void project(const delta *x, mf_tensor *in, mf_tensor **qkv, mf_tensor **z,
                    mf_tensor **b, mf_tensor **a)
{
    const int64_t k = x->k, v = x->share * x->v, r = x->share;
    mf_graph *g = x->g;
    if (!x->c->delta_grouped) {
        *qkv = linear(x, "qkv", in);
        *z = linear(x, "z", in);
        *b = linear(x, "b", in);
        *a = linear(x, "a", in);
        return;
    }
    mf_tensor *all = mf_reshape(g, linear(x, "qkvz", in), mf_shape3(x->T, x->K, 2 * k + 2 * v)),
              *both = mf_reshape(g, linear(x, "ba", in), mf_shape3(x->T, x->K, 2 * r));
    mf_tensor *part[3] = {columns(x, all, x->K, 0, k), columns(x, all, x->K, k, k),
                          columns(x, all, x->K, 2 * k, v)};
    *qkv = mf_concat(g, 3, part, 1);
    *z = columns(x, all, x->K, 2 * k + v, v);
    *b = columns(x, both, x->K, 0, r);
    *a = columns(x, both, x->K, r, r);
}

/* Returns the sum over taps of w_i u(t - taps + 1 + i), plus the bias if the block has one.
 * Tokens before the text, or before the document, count as 0. u [T,channels] */
static mf_tensor *convolve(const delta *x, mf_tensor *u)
{
    const int64_t taps = x->taps, n = u ? u->shape.dim[1] : 1;
    const float zero = 0;
    mf_graph *g = x->g;
    mf_tensor *w = use(x, "conv.weight"), *bias = use(x, "conv.bias"), *past = kept(x, "past"),
              *sum = NULL;
    const mf_shape before = mf_shape3(x->B, taps - 1, n);
    if (past)
        past = mf_reshape(g, past, before);
    else
        past = mf_broadcast(g, mf_graph_const(g, MF_F32, mf_shape3(1, 1, 1), &zero), before);
    mf_tensor *both[2] = {past, mf_reshape(g, u, mf_shape3(x->B, x->n, n))};
    mf_tensor *all = mf_concat(g, 2, both, 1);
    keep(x, "past", mf_slice(g, all, 1, x->n, taps - 1));
    mf_tensor *place =
        mf_reshape(g, mf_cast(g, x->mg->positions, MF_F32), mf_shape3(x->B, x->n, 1));
    for (int64_t i = 0; i < taps; i++) {
        const float back = (float)(taps - 1 - i) - 0.5F;
        mf_tensor *t = mf_mul(g, mf_slice(g, all, 1, i, x->n),
                              mf_reshape(g, mf_slice(g, w, 2, i, 1), mf_shape1(n)));
        if (x->mg->since)
            t = mf_mul(g, t,
                       mf_greater(g, place, mf_graph_const(g, MF_F32, mf_shape1(1), &back)));
        sum = sum ? mf_add(g, sum, t) : t;
    }
    sum = mf_reshape(g, sum, mf_shape2(x->T, n));
    return bias ? mf_add(g, sum, bias) : sum;
}

/* t [T, heads width] -> t of length 1 by head, times s, for each value head: [T, H width] */
static mf_tensor *unit(const delta *x, mf_tensor *t, double s)
{
    const double root = sqrt((double)x->k);
    mf_tensor *y = mf_reshape(x->g, t, mf_shape3(x->T, x->K, x->k));
    y = mf_scale(x->g, mf_rmsnorm(x->g, y, NULL, LENGTH_EPS / (double)x->k, false), s / root);
    y = mf_broadcast(x->g, mf_reshape(x->g, y, mf_shape4(x->T, x->K, 1, x->k)),
                     mf_shape4(x->T, x->K, x->share, x->k));
    return mf_reshape(x->g, y, mf_shape2(x->T, x->H * x->k));
}

/* ---- chunks ---- */

/* t [T, H width] -> [M,C,width], with zeros behind the end of a sequence */
static mf_tensor *arrange(const delta *x, mf_tensor *t, int64_t width)
{
    const int64_t more = x->N * x->C - x->n, w = x->H * width;
    const float zero = 0;
    mf_graph *g = x->g;
    mf_tensor *both[2] = {mf_reshape(g, t, mf_shape3(x->B, x->n, w)), NULL};
    if (more > 0) {
        both[1] = mf_broadcast(g, mf_graph_const(g, MF_F32, mf_shape3(1, 1, 1), &zero),
                               mf_shape3(x->B, more, w));
        both[0] = mf_concat(g, 2, both, 1);
    }
    t = mf_reshape(g, both[0], mf_shape4(x->B * x->N, x->C, x->H, width));
    t = mf_reshape(g, mf_transpose(g, t, 0, 2, 1, 3),
                   mf_shape4(x->B, x->N, x->H, x->C * width));
    return mf_reshape(g, mf_transpose(g, t, 1, 0, 2, 3), mf_shape3(x->M, x->C, width));
}

/* The reverse of arrange: [M,C,width] -> [T, H width] */
static mf_tensor *restored(const delta *x, mf_tensor *t, int64_t width)
{
    mf_graph *g = x->g;
    t = mf_reshape(g, t, mf_shape4(x->N, x->B, x->H, x->C * width));
    t = mf_reshape(g, mf_transpose(g, t, 1, 0, 2, 3),
                   mf_shape4(x->B * x->N, x->H, x->C, width));
    t = mf_reshape(g, mf_transpose(g, t, 0, 2, 1, 3),
                   mf_shape3(x->B, x->N * x->C, x->H * width));
    return mf_reshape(g, mf_slice(g, t, 1, 0, x->n), mf_shape2(x->T, x->H * width));
}

/* Which elements [i,j] of a matrix of a chunk are 1, the others 0. */
typedef enum pattern { UP_TO, BEFORE, ROWS_BY_COLUMNS, CORNERS } pattern;

/* Returns the matrix [C,C] of a pattern. CORNERS: the lower left quarters of blocks of
 * 2 size. */
static mf_tensor *matrix(const delta *x, pattern p, int64_t size)
{
    const int64_t C = x->C;
    float *v = mf_alloc((size_t)(C * C), sizeof *v);
    for (int64_t i = 0; v && i < C; i++)
        for (int64_t j = 0; j < C; j++)
            v[i * C + j] = p == UP_TO    ? j <= i
                           : p == BEFORE ? j < i
                           : p == ROWS_BY_COLUMNS
                               ? i <= j
                               : i / size % 2 == 1 && j / size == i / size - 1;
    mf_tensor *t = v ? mf_graph_const(x->g, MF_F32, mf_shape2(C, C), v) : NULL;
    if (!v) mf_graph_fail(x->g, MF_ENOMEM, "the pattern of a chunk");
    mf_free(v);
    return t;
}

/* Returns (1 + L)^-1 r, where L [M,C,C] is 0 on and above the diagonal, r [M,C,.]. With the
 * inverse W of the blocks of some size on the diagonal, that of blocks of twice the size is
 * W - W E W, where E is what L has in the lower left quarters of these. */
static mf_tensor *solve(const delta *x, mf_tensor *L, mf_tensor *r)
{
    mf_graph *g = x->g;
    mf_tensor *W = NULL;
    for (int64_t size = 1; size < x->C; size *= 2) {
        mf_tensor *E = mf_mul(g, L, matrix(x, CORNERS, size));
        if (W) E = mf_matmul(g, mf_matmul(g, W, false, E, false, 1), false, W, false, 1);
        mf_tensor *one = mf_sub(g, matrix(x, UP_TO, 0), matrix(x, BEFORE, 0));
        W = mf_sub(g, W ? W : one, E);
    }
    return W ? mf_matmul(g, W, false, r, false, 1) : r;
}

/* Sets what documents in one sequence need: which tokens began before their chunk, and which
 * pairs of a chunk are of one document. */
static void divide(delta *x)
{
    const int64_t groups = x->B * x->H;
    mf_graph *g = x->g;
    mf_tensor *s =
        mf_broadcast(g, mf_reshape(g, mf_cast(g, x->mg->since, MF_F32), mf_shape2(x->T, 1)),
                     mf_shape2(x->T, x->H));
    x->since = arrange(x, s, 1);
    mf_tensor *begin = mf_scale(g, mf_cast(g, mf_arange(g, x->N), MF_F32), (double)x->C);
    begin = mf_broadcast(g, mf_reshape(g, begin, mf_shape2(x->N, 1)), mf_shape2(x->N, groups));
    x->begun =
        mf_clamp(g, mf_sub(g, mf_reshape(g, begin, mf_shape3(x->M, 1, 1)), x->since), 0, 1);
    mf_tensor *apart =
        mf_abs(g, mf_sub(g, x->since, mf_reshape(g, x->since, mf_shape3(x->M, 1, x->C))));
    x->same = mf_affine(g, mf_clamp(g, apart, 0, 1), -1, 1);
}

/* a b, or a if b is NULL */
static mf_tensor *times(const delta *x, mf_tensor *a, mf_tensor *b)
{
    return b ? mf_mul(x->g, a, b) : a;
}

/* Joins n values one after another along their first dimension; the list is overwritten. */
static mf_tensor *join(mf_graph *g, mf_tensor **list, int64_t n)
{
    for (int64_t m = 0; n > 1; n = m, m = 0)
        for (int64_t i = 0; i < n; i += MF_OP_MAX_IN, m++) {
            const int64_t left = n - i < MF_OP_MAX_IN ? n - i : MF_OP_MAX_IN;
            list[m] = left > 1 ? mf_concat(g, (int)left, list + i, 0) : list[i];
        }
    return list[0];
}

/* The values of all chunks that go into the steps from chunk to chunk. */
typedef struct chunks {
    mf_tensor *value, *reads; /* [M,C,v], [M,C,k]: writes without S, and their part by S */
    mf_tensor *q, *k;         /* [M,C,k] with the decay from the begin, and up to the end */
    mf_tensor *weights;       /* [M,C,C] */
    mf_tensor *decay;         /* [M,1,1] over the chunk */
} chunks;

/* Returns part i of a value of all chunks. */
static mf_tensor *at(const delta *x, mf_tensor *t, int64_t i)
{
    return mf_slice(x->g, t, 0, i * x->B * x->H, x->B * x->H);
}

/* Runs over the chunks and returns y, [M,C,v]. */
static mf_tensor *steps(const delta *x, const chunks *c)
{
    mf_graph *g = x->g;
    mf_tensor **y = mf_alloc((size_t)x->N, sizeof *y), *S = kept(x, "state"), *all = NULL;
    if (S) S = mf_reshape(g, S, mf_shape3(x->B * x->H, x->k, x->v));
    if (!y) mf_graph_fail(g, MF_ENOMEM, "no memory for %lld chunks", (long long)x->N);
    for (int64_t i = 0; y && i < x->N; i++) {
        mf_tensor *v = at(x, c->value, i);
        if (S) v = mf_sub(g, v, mf_matmul(g, at(x, c->reads, i), false, S, false, 1));
        y[i] = mf_matmul(g, at(x, c->weights, i), false, v, false, 1);
        if (S) y[i] = mf_add(g, y[i], mf_matmul(g, at(x, c->q, i), false, S, false, 1));
        mf_tensor *more = mf_matmul(g, at(x, c->k, i), true, v, false, 1);
        S = S ? mf_add(g, mf_mul(g, S, at(x, c->decay, i)), more) : more;
    }
    keep(x, "state", S);
    if (y && mf_graph_status(g) == MF_OK) all = join(g, y, x->N);
    mf_free(y);
    return all;
}

/* q, k [T, H k], v [T, H v], b and log of decay [T,H] -> y [T, H v] */
static mf_tensor *rule(delta *x, mf_tensor *q, mf_tensor *k, mf_tensor *v, mf_tensor *b,
                       mf_tensor *decay)
{
    mf_graph *g = x->g;
    const int64_t M = x->M, C = x->C;
    if (x->mg->since) divide(x);
    q = arrange(x, q, x->k), k = arrange(x, k, x->k), v = arrange(x, v, x->v);
    b = arrange(x, b, 1);
    decay = mf_reshape(g, arrange(x, decay, 1), mf_shape2(M, C));
    mf_tensor *sum = mf_matmul(g, decay, false, matrix(x, ROWS_BY_COLUMNS, 0), false, 1),
              *down = mf_reshape(g, sum, mf_shape3(M, C, 1)),
              *last = mf_slice(g, down, 1, C - 1, 1);
    /* between tokens j <= i of a chunk */
    mf_tensor *pairs = mf_sub(g, down, mf_reshape(g, sum, mf_shape3(M, 1, C)));
    pairs = mf_mul(g, mf_exp(g, mf_clamp(g, pairs, -1e30, 0)), matrix(x, UP_TO, 0));
    pairs = times(x, pairs, x->same);
    mf_tensor *begin = times(x, mf_exp(g, down), x->begun),
              *end = mf_exp(g, mf_sub(g, last, down)), *kb = mf_mul(g, k, b);
    if (x->same)
        end = mf_mul(g, end,
                     mf_reshape(g, mf_slice(g, x->same, 1, C - 1, 1), mf_shape3(M, C, 1)));
    mf_tensor *L =
        mf_mul(g, mf_mul(g, mf_matmul(g, kb, false, k, true, 1), pairs), matrix(x, BEFORE, 0));
    mf_tensor *both[2] = {mf_mul(g, v, b), mf_mul(g, kb, begin)};
    mf_tensor *solved = solve(x, L, mf_concat(g, 2, both, 2));
    const chunks all = {.value = mf_slice(g, solved, 2, 0, x->v),
                        .reads = mf_slice(g, solved, 2, x->v, x->k),
                        .q = mf_mul(g, q, begin),
                        .k = mf_mul(g, k, end),
                        .weights = mf_mul(g, mf_matmul(g, q, false, k, true, 1), pairs),
                        .decay = mf_slice(g, begin, 1, C - 1, 1)};
    return restored(x, steps(x, &all), x->v);
}

/* b, c and x are the columns of one linear layer, in this order. */
static mf_tensor *short_convolution(const delta *x, mf_tensor *in)
{
    const int64_t d = x->c->dim;
    mf_graph *g = x->g;
    mf_tensor *all = linear(x, "in", in);
    const bool was_bf16 = mf_graph_set_bf16(g, false); /* as the rule, computed in f32 */
    mf_tensor *y =
        convolve(x, mf_mul(g, mf_slice(g, all, 1, 0, d), mf_slice(g, all, 1, 2 * d, d)));
    y = mf_mul(g, mf_slice(g, all, 1, d, d), y);
    mf_graph_set_bf16(g, was_bf16);
    return linear(x, "out", y);
}

mf_tensor *mf_delta_build(const mf_model *m, mf_model_graph *mg, int32_t layer, mf_tensor *in)
{
    const mf_model_config *c = &m->config->model;
    const bool conv = is_short(c, layer);
    mf_graph *g = mg->g;
    delta x = {.m = m,
               .kind = conv ? "conv" : "delta",
               .taps = conv ? c->conv_taps : c->delta_taps,
               .mg = mg,
               .g = g,
               .c = c,
               .layer = layer,
               .B = mg->shape.batch,
               .from = mf_block_attention_source(m, layer),
               .n = mg->shape.seq,
               .H = c->delta_heads,
               .K = c->delta_key_heads,
               .k = c->delta_key_dim,
               .v = c->delta_value_dim,
               .C = 1};
    x.T = x.B * x.n;
    if (conv) return short_convolution(&x, in);
    x.share = x.H / x.K;
    while (x.C < x.n && x.C < CHUNK)
        x.C *= 2;
    x.N = (x.n + x.C - 1) / x.C;
    x.M = x.N * x.B * x.H;
    mf_tensor *qkv, *z, *b, *a;
    project(&x, in, &qkv, &z, &b, &a);
    const bool was_bf16 = mf_graph_set_bf16(g, false); /* the rule is computed in f32 */
    qkv = mf_silu(g, convolve(&x, qkv));
    const int64_t keys = x.K * x.k;
    mf_tensor *q = unit(&x, mf_slice(g, qkv, 1, 0, keys), 1 / sqrt((double)x.k)),
              *k = unit(&x, mf_slice(g, qkv, 1, keys, keys), 1),
              *v = mf_slice(g, qkv, 1, 2 * keys, x.H * x.v);
    mf_tensor *rate = mf_softplus(g, mf_add(g, a, use(&x, "dt_bias"))),
              *decay = mf_scale(g, mf_mul(g, mf_exp(g, use(&x, "a_log")), rate), -1);
    mf_tensor *y = rule(&x, q, k, v, mf_sigmoid(g, b), decay);
    y = mf_rmsnorm(g, mf_reshape(g, y, mf_shape2(x.T * x.H, x.v)), use(&x, "norm.weight"),
                   c->norm_eps, false);
    y = mf_mul(g, mf_reshape(g, y, mf_shape2(x.T, x.H * x.v)), mf_silu(g, z));
    mf_graph_set_bf16(g, was_bf16);
    return linear(&x, "out", y);
}
