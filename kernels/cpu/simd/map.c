/* map.c: functions of one value and their derivatives (formulas: mf_map1_fn in kernel.h).
 *
 * Some functions x f(x) are 0 at -Inf. They clamp x to a number at which f is already 0, so
 * that the result at -Inf is 0 and not Inf times 0. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

typedef struct map {
    int fn;
    int64_t n;
    float a, b;
    const void *in, *out, *dout;
    void *to;
} map;

V_INLINE vf at_least(vf x, float lo)
{
    return v_select(x < lo, v_set(lo), x);
}

V_INLINE vf within(vf x, float most)
{
    return at_least(v_select(x > most, v_set(most), x), -most);
}

V_INLINE vf sign_of(vf x)
{
    vf one = v_select(x > 0.0f, v_set(1.0f), v_set(-1.0f));
    return v_select((x > 0.0f) | (x < 0.0f), one, v_select(x == 0.0f, v_set(0), x));
}

/* Returns 2 u of the tanh approximation: (1 + tanh u) / 2 is the sigmoid of 2 u. */
V_INLINE vf gelu_tanh_arg(vf x)
{
    return x * v_fma(x * x, v_set(2 * 0.79788456f * 0.044715f), v_set(2 * 0.79788456f));
}

V_INLINE vf softplus(vf x)
{
    return v_select(x < 0.0f, v_set(0), x) + v_log1p(v_exp(-v_abs(x)));
}

V_INLINE vf gelu(vf x)
{
    vf e;
    return at_least(x, -20) * v_normal(x, &e);
}

V_INLINE vf normal_cdf(vf x)
{
    vf e;
    return v_normal(x, &e);
}

V_INLINE vf normal_pdf(vf x)
{
    vf e;
    v_normal(x, &e);
    return e * 0.39894228f;
}

V_INLINE vf gelu_slope(vf x)
{
    vf e, cdf = v_normal(x, &e);
    return v_fma(within(x, 20), e * 0.39894228f, cdf);
}

V_INLINE vf gelu_tanh_slope(vf x)
{
    x = within(x, 30);
    vf rest, s = v_sigmoids(gelu_tanh_arg(x), &rest);
    vf du = v_fma(x * x, v_set(6 * 0.79788456f * 0.044715f), v_set(2 * 0.79788456f));
    return v_fma(s * rest, x * du, s);
}

V_INLINE vf silu_slope(vf x)
{
    x = within(x, 104);
    vf rest, s = v_sigmoids(x, &rest);
    return s * v_fma(x, rest, v_set(1.0f));
}

/* The loop over a tile for one function. `expression` is the result; in it the element of
 * `from` has the name v. */
#define LOOP(v, from, expression)                                                              \
    for (; j + VL <= to; j += VL) {                                                            \
        vf v = v_get(from, j, bf16);                                                           \
        v_put(p->to, j, expression, bf16);                                                     \
    }                                                                                          \
    if (j < to) {                                                                              \
        vf v = v_get_n(from, j, to - j, bf16);                                                 \
        v_put_n(p->to, j, expression, to - j, bf16);                                           \
    }                                                                                          \
    break;

V_INLINE void map1_part(const map *p, int64_t tile, bool bf16)
{
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    const vf a = v_set(p->a), b = v_set(p->b), zero = v_set(0);
    switch ((mf_map1_fn)p->fn) {
    case MF_MAP_EXP:
        LOOP(x, p->in, v_exp(x))
    case MF_MAP_LOG:
        LOOP(x, p->in, v_log(x))
    case MF_MAP_SQRT:
        LOOP(x, p->in, v_sqrt(x))
    case MF_MAP_SQUARE:
        LOOP(x, p->in, x * x)
    case MF_MAP_RECIPROCAL:
        LOOP(x, p->in, 1.0f / x)
    case MF_MAP_ABS:
        LOOP(x, p->in, v_abs(x))
    case MF_MAP_RELU:
        LOOP(x, p->in, v_select(x < zero, zero, x))
    case MF_MAP_GELU:
        LOOP(x, p->in, gelu(x))
    case MF_MAP_GELU_TANH:
        LOOP(x, p->in, at_least(x, -30) * v_sigmoid(gelu_tanh_arg(x)))
    case MF_MAP_SILU:
        LOOP(x, p->in, at_least(x, -104) * v_sigmoid(x))
    case MF_MAP_SIGMOID:
        LOOP(x, p->in, v_sigmoid(x))
    case MF_MAP_TANH:
        LOOP(x, p->in, v_tanh(x))
    case MF_MAP_SOFTPLUS:
        LOOP(x, p->in, softplus(x))
    case MF_MAP_NORMAL_CDF:
        LOOP(x, p->in, normal_cdf(x))
    case MF_MAP_XLOGX:
        LOOP(x, p->in, v_select(x == zero, zero, x * v_log(x)))
    case MF_MAP_SIGN:
        LOOP(x, p->in, sign_of(x))
    case MF_MAP_AFFINE:
        LOOP(x, p->in, v_fma(a, x, b))
    case MF_MAP_CLAMP:
        LOOP(x, p->in, v_select(x < a, a, v_select(x > b, b, x)))
    case MF_MAP1_COUNT:
        break;
    }
}

static void map1_tile(void *arg, int64_t tile)
{
    map1_part(arg, tile, false);
}

static void map1_bf16_tile(void *arg, int64_t tile)
{
    map1_part(arg, tile, true);
}

/* Like LOOP, for gradients: `expression` may also use g, the gradient of the result. */
#define SLOPE(v, from, expression)                                                             \
    for (; j + VL <= to; j += VL) {                                                            \
        vf v = v_get(from, j, bf16), g = v_get(p->dout, j, bf16);                              \
        v_put(p->to, j, expression, bf16);                                                     \
    }                                                                                          \
    if (j < to) {                                                                              \
        vf v = v_get_n(from, j, to - j, bf16), g = v_get_n(p->dout, j, to - j, bf16);          \
        v_put_n(p->to, j, expression, to - j, bf16);                                           \
    }                                                                                          \
    break;

V_INLINE void map1_grad_part(const map *p, int64_t tile, bool bf16)
{
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    const vf a = v_set(p->a), b = v_set(p->b), zero = v_set(0);
    switch ((mf_map1_fn)p->fn) {
    case MF_MAP_EXP:
        SLOPE(y, p->out, g * y)
    case MF_MAP_LOG:
        SLOPE(x, p->in, g / x)
    case MF_MAP_SQRT:
        SLOPE(y, p->out, g * 0.5f / y)
    case MF_MAP_SQUARE:
        SLOPE(x, p->in, g * (x + x))
    case MF_MAP_RECIPROCAL:
        SLOPE(y, p->out, -g * (y * y))
    case MF_MAP_ABS:
        SLOPE(x, p->in, g * sign_of(x))
    case MF_MAP_RELU:
        SLOPE(y, p->out, v_select(y <= zero, zero, g))
    case MF_MAP_GELU:
        SLOPE(x, p->in, g * gelu_slope(x))
    case MF_MAP_GELU_TANH:
        SLOPE(x, p->in, g * gelu_tanh_slope(x))
    case MF_MAP_SILU:
        SLOPE(x, p->in, g * silu_slope(x))
    case MF_MAP_SIGMOID:
        SLOPE(y, p->out, g * (y * (1.0f - y)))
    case MF_MAP_TANH:
        SLOPE(y, p->out, g * v_fma(-y, y, v_set(1.0f)))
    case MF_MAP_SOFTPLUS:
        SLOPE(x, p->in, g * v_sigmoid(x))
    case MF_MAP_NORMAL_CDF:
        SLOPE(x, p->in, g * normal_pdf(x))
    case MF_MAP_XLOGX:
        SLOPE(x, p->in, v_select(x == zero, zero, g * (v_log(x) + 1.0f)))
    case MF_MAP_SIGN:
        LOOP(g, p->dout, g * zero)
    case MF_MAP_AFFINE:
        LOOP(g, p->dout, g * a)
    case MF_MAP_CLAMP:
        SLOPE(x, p->in, v_select((x < a) | (x > b), zero, g))
    case MF_MAP1_COUNT:
        break;
    }
}

static void map1_grad_tile(void *arg, int64_t tile)
{
    map1_grad_part(arg, tile, false);
}

static void map1_grad_bf16_tile(void *arg, int64_t tile)
{
    map1_grad_part(arg, tile, true);
}

void MF_SIMD(map1)(const mf_kctx *x, const mf_map1_args *a)
{
    map p = {.fn = a->fn, .n = a->n, .a = a->a, .b = a->b, .in = a->in, .to = a->out};
    x->parallel((a->n + ROWS_TILE - 1) / ROWS_TILE,
                a->type == MF_CAST_BF16 ? map1_bf16_tile : map1_tile, &p);
}

void MF_SIMD(map1_grad)(const mf_kctx *x, const mf_map1_grad_args *a)
{
    map p = {.fn = a->fn,
             .n = a->n,
             .a = a->a,
             .b = a->b,
             .in = a->in,
             .out = a->out,
             .dout = a->dout,
             .to = a->din};
    x->parallel((a->n + ROWS_TILE - 1) / ROWS_TILE,
                a->type == MF_CAST_BF16 ? map1_grad_bf16_tile : map1_grad_tile, &p);
}
