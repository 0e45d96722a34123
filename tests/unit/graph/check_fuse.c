/* fuse: on a device whose gemms have an epilogue, the gemm of gated experts and its activation
 * become one node; on every device, casts that change no bit have no node; on a device that
 * fuses, which the strict device does not, sums with the residual stream have none. The device
 * of this test has no epilogue: its set of kernels only claims to have one. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "kernels/bf16.h"
#include "ops/gemm.h"
#include "ops/layers/attention.h"
#include "ops/moe/dispatch.h"
#include "ops/ops.h"
#include "ops/state.h"
#include "tests/lib/device.h"

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

static mf_kernels one_node;

static bool never_in_one_kernel(const mf_gemm *g)
{
    (void)g;
    return false;
}

static const mf_kernels *one_node_set(mf_device *d, const mf_kernels *host)
{
    (void)host;
    one_node = *d->kernels;
    one_node.can_swiglu = never_in_one_kernel;
    return &one_node;
}

/* Computes swiglu(x w^T) of two experts. as_metric: the activation runs only for metrics, so it
 * must not become part of the gemm's node. Returns the number of nodes that were merged
 * into others. */
static int experts_on(mf_device *d, bool as_metric, float y[6])
{
    static const int32_t groups[] = {0, 1, 3};
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d});
    float numbers[24];
    for (int i = 0; i < 24; i++)
        numbers[i] = (float)(i % 5) - 1.5f;
    mf_tensor *x = mf_graph_const(g, MF_F32, mf_shape2(3, 3), numbers),
              *w = mf_graph_const(g, MF_F32, mf_shape3(2, 4, 3), numbers),
              *offset = mf_graph_const(g, MF_I32, mf_shape1(3), groups),
              *h = mf_grouped_linear(g, x, w, offset, NULL);
    mf_graph_keep(h);
    mf_graph_metrics(g, as_metric);
    mf_tensor *out = mf_swiglu(g, h, NULL);
    mf_graph_keep(out);
    must(mf_graph_finish(g));
    must(mf_graph_run(g, &(mf_run){.metrics = true}));
    must(mf_tensor_read(out, y, 0, 6 * sizeof *y));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    return info.dead;
}

START_TEST(an_activation_for_metrics_is_a_node_of_its_own)
{
    float on_host[6], y[6];
    mf_device *d = mf_test_device();
    const mf_device_ops *before = d->ops;
    mf_device_ops ops = *before;
    ops.kernels_like = one_node_set;
    d->ops = &ops;
    ck_assert_int_eq(experts_on(NULL, false, on_host), 0);
    ck_assert_float_ne(on_host[5], 0);
    for (int as_metric = 0; as_metric < 2; as_metric++) {
        ck_assert_int_eq(experts_on(d, as_metric, y), !as_metric);
        ck_assert_mem_eq(y, on_host, sizeof y);
    }
    d->ops = before;
}
END_TEST

/* ---- casts ---- */

enum { NONE, OTHER_READER, KEPT, F32_GEMM, CAST_KEPT }; /* why a cast is needed */

/* Computes what queries of attention and their gradients go through: a gemm whose f32 is cast
 * to bf16, that bf16 as f32, its sum, and the cast back, which a gemm reads. Returns the number
 * of nodes that no step runs. */
static int casts_on(mf_device *d, int why, float y[28])
{
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d, .bf16 = true});
    float numbers[32];
    for (int i = 0; i < 32; i++)
        numbers[i] = 1 / (float)(i + 3);
    mf_tensor *x = mf_graph_const(g, MF_F32, mf_shape2(4, 8), numbers),
              *w = mf_graph_const(g, MF_F32, mf_shape2(4, 8), numbers), *other = NULL;
    mf_graph_set_bf16(g, why != F32_GEMM);
    mf_tensor *h = mf_linear_as(g, x, w, NULL, MF_F32);
    mf_graph_set_bf16(g, true);
    mf_tensor *h16 = mf_cast(g, h, MF_BF16), *h32 = mf_cast(g, h16, MF_F32),
              *sum = mf_sum(g, h32, 1u, false),
              *again = mf_cast(g, mf_reshape(g, h32, mf_shape2(2, 8)), MF_BF16),
              *out = mf_linear_as(g, again, w, NULL, MF_F32);
    if (why == OTHER_READER) other = mf_scale(g, h, 3);
    if (why == KEPT) other = h;
    if (why == CAST_KEPT) other = again;
    if (other) mf_graph_keep(other);
    mf_graph_keep(sum);
    mf_graph_keep(out);
    must(mf_graph_finish(g));
    for (int run = 0; run < 2; run++)
        must(mf_graph_run(g, &(mf_run){0}));
    memset(y, 0, 28 * sizeof *y);
    must(mf_tensor_read(sum, y, 0, 4 * sizeof *y));
    must(mf_tensor_read(out, y + 4, 0, 8 * sizeof *y));
    if (other)
        must(mf_tensor_read(other, y + 12, 0, 16 * (why == CAST_KEPT ? sizeof(mf_bf16) : 4)));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    return info.dead;
}

START_TEST(casts_that_change_no_bit_are_not_run)
{
    static const int dead[] = {
        [NONE] = 4, [OTHER_READER] = 3, [KEPT] = 3, [F32_GEMM] = 3, [CAST_KEPT] = 1};
    float on_host[28], y[28];
    for (int why = NONE; why <= CAST_KEPT; why++) {
        ck_assert_int_eq(casts_on(NULL, why, on_host), 0);
        ck_assert_float_ne(on_host[4], 0);
        /* a device that fuses does not cast few rows of x either */
        const bool fuses = mf_device_kernels(mf_test_device(), NULL)->fuses;
        ck_assert_int_eq(casts_on(mf_test_device(), why, y),
                         dead[why] + (fuses && why != F32_GEMM));
        ck_assert_mem_eq(y, on_host, sizeof y);
    }
}
END_TEST

/* ---- residuals ---- */

static mf_kernels separate;

static const mf_kernels *separate_set(mf_device *d, const mf_kernels *host)
{
    (void)host;
    separate = *d->kernels;
    separate.fuses = false;
    return &separate;
}

enum { ROWS = 21, WIDTH = 36, HIDDEN = 40, BLOCKS = 2, ALL_GRADS = 16384 };
enum { USUAL, GEMM_KEPT, GEMM_READ, NO_BIAS, ODD_CASES }; /* what the last block is like */

/* The values and gradients of blocks y = x + w2 gelu(w1 norm(x) + b1) + b2, where x of the
 * first block is a parameter. Returns the number of nodes that no step runs. */
static int residuals_on(mf_device *d, bool bf16, bool layer, int odd, float *grads, float *y)
{
    mf_store *s = mf_store_new();
    const mf_init normal = {.kind = MF_INIT_NORMAL, .a = 0.3};
    const mf_shape of[] = {mf_shape1(WIDTH),         mf_shape1(WIDTH),
                           mf_shape2(HIDDEN, WIDTH), mf_shape1(HIDDEN),
                           mf_shape2(WIDTH, HIDDEN), mf_shape1(WIDTH)};
    mf_param *first, *p[BLOCKS][6];
    if (bf16) mf_store_want_bf16(s);
    mf_store_put_on(s, d);
    must(mf_store_declare(s, "x", mf_shape2(ROWS, WIDTH), normal, false, &first));
    for (int i = 0; i < BLOCKS * 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        must(mf_store_declare(s, name, of[i % 6], normal, false, &p[i / 6][i % 6]));
    }
    must(mf_store_seal(s, 7, true));
    mf_graph *g = mf_graph_new(
        &(mf_graph_options){.device = d, .bf16 = bf16, .training = true, .no_reuse = true});
    const mf_dtype type = bf16 ? MF_BF16 : MF_F32;
    mf_tensor *x = mf_graph_param(g, first), *w[6];
    for (int i = 0; i < BLOCKS; i++) {
        for (int j = 0; j < 6; j++)
            w[j] = mf_graph_param(g, p[i][j]);
        const bool last = i == BLOCKS - 1;
        mf_tensor *h =
            layer ? mf_layernorm(g, x, w[0], w[1], 1e-5) : mf_rmsnorm(g, x, w[0], 1e-5, false);
        h = mf_gelu(g, mf_linear_as(g, h, w[2], last && odd == NO_BIAS ? NULL : w[3], type));
        h = mf_linear_as(g, h, w[4], last && odd == NO_BIAS ? NULL : w[5], MF_F32);
        if (last && odd == GEMM_KEPT) mf_graph_keep(h);
        x = mf_add(g, x, h);
        if (last && odd == GEMM_READ) x = mf_add(g, x, mf_square(g, h));
    }
    x = mf_rmsnorm(g, x, NULL, 1e-5, false);
    mf_graph_keep(x);
    mf_tensor *squares = mf_square(g, mf_affine(g, x, 1, 0.5));
    must(mf_graph_backward(g, mf_mean(g, squares, MF_ALL, false), 0, NULL));
    must(mf_graph_finish(g));
    for (int run = 0; run < 2; run++)
        must(mf_graph_run(g, &(mf_run){0}));
    must(mf_tensor_read(x, y, 0, ROWS * WIDTH * sizeof *y));
    const size_t bytes =
        mf_param_offset(p[BLOCKS - 1][5], MF_BLOCK_GRADS) + WIDTH * sizeof *grads;
    ck_assert_uint_le(bytes, ALL_GRADS * sizeof *grads);
    memset(grads, 0, ALL_GRADS * sizeof *grads);
    must(mf_store_read(s, MF_BLOCK_GRADS, grads, 0, bytes));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    mf_store_free(s);
    return info.dead;
}

static void near(const float *a, const float *b, int n, float bound)
{
    float most = 0, off = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(b[i]) > most) most = fabsf(b[i]);
        if (!(fabsf(a[i] - b[i]) <= off)) off = fabsf(a[i] - b[i]);
    }
    ck_assert_float_gt(most, 0);
    ck_assert_msg(off <= bound * most, "off by %g of %g", (double)off, (double)most);
}

/* The nodes that become parts of others: the sums of the residual stream and of its gradient,
 * sums of columns behind norms and GELU, and casts to bf16. */
static int residual_nodes(bool bf16, int odd)
{
    const int all = 2 + 2 + 2 + 2 + (bf16 ? 2 : 0);
    /* what reads a gemm's result twice also adds to its gradient, of which there is one more */
    if (odd == GEMM_READ) return all - 2 - bf16;
    return odd == USUAL ? all : odd == NO_BIAS ? all - 2 : all - 1;
}

/* Fused and not, on the same device: a sum is rounded once less, in bf16 a gradient may then be
 * one step off. Nodes of the last block that must stay are counted. */
START_TEST(sums_of_residuals_are_computed_where_their_terms_are)
{
    static float grads[2][ALL_GRADS], y[2][ROWS * WIDTH];
    mf_device *d = mf_test_device();
    const mf_device_ops *before = d->ops;
    mf_device_ops ops = *before;
    const bool fuses = mf_device_kernels(d, NULL)->fuses;
    ops.kernels_like = separate_set;
    for (int which = 0; which < 4 * ODD_CASES; which++) {
        const bool bf16 = which & 1, layer = which & 2;
        const int odd = which / 4;
        d->ops = &ops;
        const int apart = residuals_on(d, bf16, layer, odd, grads[0], y[0]);
        d->ops = before;
        const int fused = residuals_on(d, bf16, layer, odd, grads[1], y[1]) - apart;
        ck_assert_msg(fused == (fuses ? residual_nodes(bf16, odd) : 0), "%d: %d", which, fused);
        near(y[1], y[0], ROWS * WIDTH, fuses ? bf16 ? 4e-3f : 2e-6f : 0);
        near(grads[1], grads[0], ALL_GRADS, fuses ? bf16 ? 8e-3f : 4e-6f : 0);
    }
}
END_TEST

/* ---- a token of each sequence ---- */

enum { WIDE = 32, HEADS = 4, KV_HEADS = 2, HEAD = 8, CACHED = 40, EXPERTS = 5, CHOSEN = 2 };
enum { MOST = 17, ONES = 32 * WIDE };
enum {
    PLAIN,
    LAYER_NORM,
    NO_ROPE,
    DIVIDED,
    NORM_KEPT,
    MANY,
    CACHE_READ,
    PROB_READ,
    TOKEN_CASES,
    APART /* the router reads values through which no gradient passes */
};

/* Makes n parameters, of which the first `buffers` are buffers; parameter `router` has larger
 * values than the others. */
static mf_store *params_on(mf_device *d, int n, const mf_shape *of, int buffers, int router,
                           bool training, mf_param **ret)
{
    mf_store *s = mf_store_new();
    mf_store_want_bf16(s);
    mf_store_put_on(s, d);
    for (int i = 0; i < n; i++) {
        const mf_init init = {.kind = MF_INIT_NORMAL, .a = i == router ? 1 : 0.3};
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        must(mf_store_declare(s, name, of[i], init, i < buffers, &ret[i]));
    }
    must(mf_store_seal(s, 7, training));
    return s;
}

static mf_tensor *norm_before(mf_graph *g, int odd, mf_tensor *x, mf_tensor *w)
{
    const mf_attr attr = {.i = {0, MF_AS(MF_BF16)}, .f = {1e-5}};
    mf_tensor *y = odd == LAYER_NORM ? mf_op3(g, "layernorm", x, w, w, &attr)
                                     : mf_op2(g, "rmsnorm", x, w, &attr);
    if (odd == NORM_KEPT) mf_graph_keep(mf_scale(g, y, 2));
    return y;
}

static mf_tensor *attended(mf_graph *g, int odd, int tokens, mf_tensor *qkv,
                           mf_tensor *const *p)
{
    int32_t at[MOST], length[MOST];
    for (int i = 0; i < tokens; i++)
        at[i] = i % CACHED, length[i] = at[i] + 1;
    const mf_shape each = mf_shape1(tokens);
    mf_tensor *pos = mf_graph_const(g, MF_I32, each, at);
    if (odd != NO_ROPE) {
        const mf_attr attr = {.i = {HEAD, HEADS + KV_HEADS, 1}, .f = {10000, 1}};
        qkv = mf_op2(g, "rope", qkv, pos, &attr);
    }
    const int64_t n = HEADS * HEAD, kv = KV_HEADS * HEAD;
    mf_tensor *k = mf_cache_append(g, p[0], mf_slice(g, qkv, 1, n, kv), pos),
              *v = mf_cache_append(g, p[1], mf_slice(g, qkv, 1, n + kv, kv), pos);
    if (odd == CACHE_READ) mf_graph_keep(mf_scale(g, k, 2));
    const mf_attend_args args = {.q = mf_slice(g, qkv, 1, 0, n),
                                 .k = k,
                                 .v = v,
                                 .kv_len = mf_graph_const(g, MF_I32, each, length),
                                 .batch = tokens,
                                 .heads = HEADS,
                                 .kv_heads = KV_HEADS,
                                 .causal = true,
                                 .scale = 0.3};
    return mf_attend(g, &args, NULL);
}

static mf_tensor *expert_sum(mf_graph *g, int odd, int tokens, mf_tensor *x,
                             mf_tensor *const *p)
{
    const float half = 0.5f;
    mf_graph_set_bf16(g, false);
    mf_tensor *read = mf_graph_to_f32(g, x);
    if (odd == APART) read = mf_stop_gradient(g, read);
    mf_tensor *logits = mf_linear(g, read, p[0], NULL);
    if (odd == DIVIDED)
        logits = mf_div(g, logits, mf_graph_const(g, MF_F32, mf_shape1(1), &half));
    mf_tensor *prob = mf_softmax(g, logits);
    if (odd == PROB_READ) mf_graph_keep(mf_scale(g, prob, 2));
    mf_tensor *chosen = mf_route_select(g, mf_stop_gradient(g, prob), NULL, CHOSEN),
              *gate = mf_route_gates(g, prob, chosen, NULL, CHOSEN, true, 1);
    mf_graph_keep(prob);
    mf_graph_set_bf16(g, true);
    const mf_row_groups groups = mf_group_rows(g, chosen, NULL, CHOSEN, EXPERTS),
                        rows = {.token = groups.order, .place = groups.place};
    gate =
        mf_dispatch_rows(g, mf_reshape(g, gate, mf_shape2(tokens * CHOSEN, 1)), &rows, NULL, 1);
    mf_tensor *h = mf_grouped_linear(g, mf_dispatch_rows(g, x, &groups, NULL, CHOSEN), p[1],
                                     groups.offset, NULL);
    h = mf_grouped_linear(g, mf_swiglu_gated(g, h, NULL, gate), p[2], groups.offset, NULL);
    return mf_return_rows(g, h, &groups, NULL, tokens, CHOSEN);
}

/* Computes a block with attention and experts for a token of each sequence. Returns the number
 * of nodes that no step runs. */
static int token_on(mf_device *d, int odd, float *y, float *caches)
{
    enum { KEYS, VALUES, ROUTER, FIRST, LAST, QKV, OUT, NORM, PARAMS };
    const int tokens = odd == MANY ? MOST : 3, kv = KV_HEADS * HEAD;
    const mf_shape of[PARAMS] = {
        mf_shape2(tokens * CACHED, kv), mf_shape2(tokens * CACHED, kv),
        mf_shape2(EXPERTS, WIDE),       mf_shape3(EXPERTS, 2 * WIDE, WIDE),
        mf_shape3(EXPERTS, WIDE, WIDE), mf_shape2(HEADS * HEAD + 2 * kv, WIDE),
        mf_shape2(WIDE, HEADS * HEAD),  mf_shape1(WIDE)};
    float numbers[ONES];
    for (int i = 0; i < ONES; i++)
        numbers[i] = (float)(i * 37 % 101) / 50 - 1;
    mf_param *p[PARAMS];
    mf_tensor *w[PARAMS];
    mf_store *s = params_on(d, PARAMS, of, ROUTER, ROUTER, false, p);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d, .bf16 = true});
    for (int i = 0; i < PARAMS; i++)
        w[i] = mf_graph_param(g, p[i]);
    mf_tensor *x = mf_graph_const(g, MF_F32, mf_shape2(tokens, WIDE), numbers), *h;
    h = mf_linear_as(g, norm_before(g, odd, x, w[NORM]), w[QKV], NULL, MF_F32);
    h = attended(g, odd, tokens, h, &w[KEYS]);
    x = mf_add(g, x, mf_linear_as(g, h, w[OUT], NULL, MF_F32));
    h = norm_before(g, odd, x, w[NORM]);
    x = mf_add(g, x, expert_sum(g, odd, tokens, h, &w[ROUTER]));
    mf_graph_keep(x);
    must(mf_graph_finish(g));
    must(mf_graph_run(g, &(mf_run){0}));
    must(mf_tensor_read(x, y, 0, (size_t)(tokens * WIDE) * sizeof *y));
    for (int i = 0; i < 2; i++)
        must(mf_store_read(s, MF_BLOCK_BUFFERS, caches + i * tokens * CACHED * kv,
                           mf_param_offset(p[i], MF_BLOCK_BUFFERS),
                           (size_t)(tokens * CACHED * kv) * sizeof *caches));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    mf_store_free(s);
    return info.dead;
}

/* Fused and not, on the same device. Nodes that become parts of others: two norms and a cast
 * for the router, a cast before the output, the router, its softmax, choice, gates and their
 * rows with a handle of them; rope, three slices, two appends; rows of experts and their sum;
 * two sums of the residual stream. In the last cases some must stay. */
START_TEST(a_token_needs_few_launches)
{
    enum { ALL_PARTS = 21 };
    static const int less[TOKEN_CASES] = {[NO_ROPE] = 1, [DIVIDED] = -1,   [NORM_KEPT] = 2,
                                          [MANY] = 18,   [CACHE_READ] = 6, [PROB_READ] = 8};
    static float y[2][MOST * WIDE], cache[2][2 * MOST * CACHED * KV_HEADS * HEAD];
    mf_device *d = mf_test_device();
    const mf_device_ops *before = d->ops;
    mf_device_ops ops = *before;
    const mf_kernels *k = mf_device_kernels(d, NULL);
    const bool fuses = k->fuses && k->can_swiglu;
    ops.kernels_like = separate_set;
    for (int odd = PLAIN; odd < TOKEN_CASES; odd++) {
        d->ops = &ops;
        const int apart = token_on(d, odd, y[0], cache[0]);
        d->ops = before;
        const int fused = token_on(d, odd, y[1], cache[1]) - apart;
        ck_assert_msg(fused == (fuses ? ALL_PARTS - less[odd] : 0), "%d: %d", odd, fused);
        near(y[1], y[0], MOST * WIDE, fuses ? 8e-3f : 0);
        near(cache[1], cache[0], 2 * MOST * CACHED * KV_HEADS * HEAD, fuses ? 8e-3f : 0);
    }
}
END_TEST

/* ---- rotations in bf16, and gradients of dispatched rows ---- */

enum { LEARNED = 12, ALL_PAIRS = 32768, QKV_WIDTH = (HEADS + 2 * KV_HEADS) * HEAD };
enum { BOTH, ROTATED_READ, ROUTER_APART, PAIR_CASES }; /* what must stay as it is */

/* The values and gradients of attention with rope, then of experts, over the tokens of a
 * sequence. Returns the number of nodes that no step runs. */
static int pairs_on(mf_device *d, int odd, float *grads, float *y)
{
    enum { X, ROUTER, FIRST, LAST, QKV, OUT, NORM, PARAMS };
    const mf_shape of[PARAMS] = {mf_shape2(LEARNED, WIDE),
                                 mf_shape2(EXPERTS, WIDE),
                                 mf_shape3(EXPERTS, 2 * WIDE, WIDE),
                                 mf_shape3(EXPERTS, WIDE, WIDE),
                                 mf_shape2(QKV_WIDTH, WIDE),
                                 mf_shape2(WIDE, HEADS * HEAD),
                                 mf_shape1(WIDE)};
    int32_t at[LEARNED];
    mf_param *p[PARAMS];
    mf_tensor *w[PARAMS];
    mf_store *s = params_on(d, PARAMS, of, 0, ROUTER, true, p);
    mf_graph *g = mf_graph_new(&(mf_graph_options){
        .device = d, .bf16 = true, .bf16_attention = true, .training = true, .no_reuse = true});
    for (int i = 0; i < PARAMS; i++)
        w[i] = mf_graph_param(g, p[i]);
    for (int i = 0; i < LEARNED; i++)
        at[i] = 3 * i;
    mf_tensor *x = w[X], *h = norm_before(g, PLAIN, x, w[NORM]);
    const mf_attr turn = {.i = {HEAD, HEADS + KV_HEADS, 1}, .f = {10000, 1}};
    h = mf_linear_as(g, h, w[QKV], NULL, MF_F32);
    h = mf_op2(g, "rope", h, mf_graph_const(g, MF_I32, mf_shape1(LEARNED), at), &turn);
    if (odd == ROTATED_READ) mf_graph_keep(mf_scale(g, h, 2));
    const mf_attend_args args = {
        .q = h, .batch = 1, .heads = HEADS, .kv_heads = KV_HEADS, .causal = true, .scale = 0.3};
    h = mf_linear_as(g, mf_attend(g, &args, NULL), w[OUT], NULL, MF_F32);
    x = mf_add(g, x, h);
    h = norm_before(g, PLAIN, x, w[NORM]);
    x = mf_add(g, x,
               expert_sum(g, odd == ROUTER_APART ? APART : PLAIN, LEARNED, h, &w[ROUTER]));
    mf_graph_keep(x);
    mf_tensor *squares = mf_square(g, mf_affine(g, x, 1, 0.5));
    must(mf_graph_backward(g, mf_mean(g, squares, MF_ALL, false), 0, NULL));
    must(mf_graph_finish(g));
    for (int run = 0; run < 2; run++)
        must(mf_graph_run(g, &(mf_run){0}));
    must(mf_tensor_read(x, y, 0, LEARNED * WIDE * sizeof *y));
    memset(grads, 0, ALL_PAIRS * sizeof *grads);
    const size_t bytes = mf_param_offset(p[NORM], MF_BLOCK_GRADS) + WIDE * sizeof *grads;
    ck_assert_uint_le(bytes, ALL_PAIRS * sizeof *grads);
    must(mf_store_read(s, MF_BLOCK_GRADS, grads, 0, bytes));
    mf_graph_info info;
    mf_graph_get_info(g, &info);
    mf_graph_free(g);
    mf_store_free(s);
    return info.dead;
}

/* Fused and not, on the same device. Nodes that become parts of others: the cast behind rope,
 * and two around its gradient; the sum of a router's gradient and that of dispatched rows, with
 * a cast; six of the residual stream and its gradient. Where rotated values are read in f32,
 * the first stays; without a gradient of the router, the next two do not exist. */
START_TEST(rope_is_in_bf16_and_dispatch_adds_the_routers_gradient)
{
    static const int parts[] = {[BOTH] = 11, [ROTATED_READ] = 10, [ROUTER_APART] = 9};
    static float grads[2][ALL_PAIRS], y[2][LEARNED * WIDE];
    mf_device *d = mf_test_device();
    const mf_device_ops *before = d->ops;
    mf_device_ops ops = *before;
    const bool fuses = mf_device_kernels(d, NULL)->fuses;
    ops.kernels_like = separate_set;
    for (int odd = BOTH; odd < PAIR_CASES; odd++) {
        d->ops = &ops;
        const int apart = pairs_on(d, odd, grads[0], y[0]);
        d->ops = before;
        const int fused = pairs_on(d, odd, grads[1], y[1]) - apart;
        ck_assert_msg(fused == (fuses ? parts[odd] : 0), "%d: %d", odd, fused);
        near(y[1], y[0], LEARNED * WIDE, fuses ? 8e-3f : 0);
        near(grads[1], grads[0], ALL_PAIRS, fuses ? 2e-2f : 0);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("fuse");
    TCase *c = tcase_create("fuse");
    tcase_add_test(c, an_activation_for_metrics_is_a_node_of_its_own);
    tcase_add_test(c, casts_that_change_no_bit_are_not_run);
    tcase_add_test(c, sums_of_residuals_are_computed_where_their_terms_are);
    tcase_add_test(c, a_token_needs_few_launches);
    tcase_add_test(c, rope_is_in_bf16_and_dispatch_adds_the_routers_gradient);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    setenv("MOEFW_TEST_DEVICE", "strict", 0);
    mf_test_find_strict(false);
    return check_run(suite(), CK_NOFORK);
}
