/* map.c: elementwise functions. map1 and its gradient are computed in double and rounded once
 * to f32, and from there to bf16 if the arrays are bf16. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

static const double sqrt_half = 0.70710678118654752440, sqrt_2_pi = 0.79788456080286535588,
                    rsqrt_2pi = 0.39894228040143267794;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * sqrt_half);
}

static double normal_pdf(double x)
{
    return rsqrt_2pi * exp(-0.5 * x * x);
}

static double gelu_tanh_of(double x)
{
    return tanh(sqrt_2_pi * (x + 0.044715 * x * x * x));
}

/* Returns x f, but 0 if x is infinite and f is 0. In this case f falls faster than 1 / |x|, so
 * the limit is 0, while x f would be NaN. */
static double times(double x, double f)
{
    return f == 0 && isinf(x) ? 0 : x * f;
}

static double map1(int fn, double x, double a, double b)
{
    switch ((mf_map1_fn)fn) {
    case MF_MAP_EXP:
        return exp(x);
    case MF_MAP_LOG:
        return log(x);
    case MF_MAP_SQRT:
        return sqrt(x);
    case MF_MAP_SQUARE:
        return x * x;
    case MF_MAP_RECIPROCAL:
        return 1 / x;
    case MF_MAP_ABS:
        return fabs(x);
    case MF_MAP_RELU:
        return x < 0 ? 0 : x;
    case MF_MAP_GELU:
        return times(x, normal_cdf(x));
    case MF_MAP_GELU_TANH:
        return times(x, 0.5 * (1 + gelu_tanh_of(x)));
    case MF_MAP_SILU:
        return times(x, sigmoid(x));
    case MF_MAP_SIGMOID:
        return sigmoid(x);
    case MF_MAP_TANH:
        return tanh(x);
    case MF_MAP_SOFTPLUS:
        return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case MF_MAP_NORMAL_CDF:
        return normal_cdf(x);
    case MF_MAP_XLOGX:
        return x == 0 ? 0 : x * log(x);
    case MF_MAP_SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case MF_MAP_AFFINE:
        return a * x + b;
    case MF_MAP_CLAMP:
        return x < a ? a : x > b ? b : x;
    case MF_MAP1_COUNT:
        break;
    }
    return NAN;
}

static double derivative(int fn, double x, double y, double a, double b)
{
    switch ((mf_map1_fn)fn) {
    case MF_MAP_EXP:
        return y;
    case MF_MAP_LOG:
        return 1 / x;
    case MF_MAP_SQRT:
        return 0.5 / y;
    case MF_MAP_SQUARE:
        return 2 * x;
    case MF_MAP_RECIPROCAL:
        return -y * y;
    case MF_MAP_ABS:
        return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case MF_MAP_RELU:
        return y <= 0 ? 0 : 1;
    case MF_MAP_GELU:
        return normal_cdf(x) + times(x, normal_pdf(x));
    case MF_MAP_GELU_TANH: {
        double t = gelu_tanh_of(x), slope = sqrt_2_pi * (1 + 3 * 0.044715 * x * x);
        return 0.5 * (1 + t) + (t * t == 1 ? 0 : 0.5 * x * (1 - t * t) * slope);
    }
    case MF_MAP_SILU:
        return sigmoid(x) + times(x, sigmoid(x) * (1 - sigmoid(x)));
    case MF_MAP_SIGMOID:
        return y * (1 - y);
    case MF_MAP_TANH:
        return 1 - y * y;
    case MF_MAP_SOFTPLUS:
        return sigmoid(x);
    case MF_MAP_NORMAL_CDF:
        return normal_pdf(x);
    case MF_MAP_XLOGX:
        return x == 0 ? 0 : log(x) + 1;
    case MF_MAP_SIGN:
        return 0;
    case MF_MAP_AFFINE:
        return a;
    case MF_MAP_CLAMP:
        return x < a || x > b ? 0 : 1;
    case MF_MAP1_COUNT:
        break;
    }
    return NAN;
}

void mf_ref_map1(const mf_kctx *x, const mf_map1_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->n; i++)
        ref_store(a->type, a->out, i,
                  (float)map1(a->fn, ref_load(a->type, a->in, i), a->a, a->b));
}

void mf_ref_map1_grad(const mf_kctx *x, const mf_map1_grad_args *a)
{
    (void)x;
    for (int64_t i = 0; i < a->n; i++) {
        double d = derivative(a->fn, a->in ? ref_load(a->type, a->in, i) : 0,
                              a->out ? ref_load(a->type, a->out, i) : 0, a->a, a->b);
        ref_store(a->type, a->din, i, (float)(d * ref_load(a->type, a->dout, i)));
    }
    for (int64_t j = 0; a->sum && j < a->width; j++) {
        double sum = 0;
        for (int64_t i = j; i < a->n; i += a->width)
            sum += ref_load(a->type, a->din, i);
        a->sum[j] = (float)sum;
    }
}

static float map2(int fn, float a, float b)
{
    switch ((mf_map2_fn)fn) {
    case MF_MAP_ADD:
        return a + b;
    case MF_MAP_SUB:
        return a - b;
    case MF_MAP_MUL:
        return a * b;
    case MF_MAP_DIV:
        return a / b;
    case MF_MAP_MAXIMUM:
        return isnan(a) || a >= b ? a : b;
    case MF_MAP_MINIMUM:
        return isnan(a) || a <= b ? a : b;
    case MF_MAP_GREATER:
        return a > b;
    case MF_MAP2_COUNT:
        break;
    }
    return NAN;
}

/* a + b, a - b and a b wrap modulo 2^32. Division is signed and rounds towards zero,
 * and a / 0 = 0. */
static int32_t map2_i32(int fn, int32_t a, int32_t b)
{
    const uint32_t u = (uint32_t)a, v = (uint32_t)b;
    switch ((mf_map2_fn)fn) {
    case MF_MAP_ADD:
        return (int32_t)(u + v);
    case MF_MAP_SUB:
        return (int32_t)(u - v);
    case MF_MAP_MUL:
        return (int32_t)(u * v);
    case MF_MAP_DIV:
        return b == 0 ? 0 : b == -1 ? (int32_t)(0 - u) : a / b;
    case MF_MAP_MAXIMUM:
        return a > b ? a : b;
    case MF_MAP_MINIMUM:
        return a < b ? a : b;
    case MF_MAP_GREATER:
        return a > b;
    case MF_MAP2_COUNT:
        break;
    }
    return 0;
}

void mf_ref_map2(const mf_kctx *x, const mf_map2_args *a)
{
    int64_t at = 0;
    (void)x;
    for (int64_t i = 0; i < a->dim[0]; i++)
        for (int64_t j = 0; j < a->dim[1]; j++)
            for (int64_t k = 0; k < a->dim[2]; k++)
                for (int64_t l = 0; l < a->dim[3]; l++) {
                    int64_t at_a = i * a->stride_a[0] + j * a->stride_a[1] +
                                   k * a->stride_a[2] + l * a->stride_a[3];
                    int64_t at_b = i * a->stride_b[0] + j * a->stride_b[1] +
                                   k * a->stride_b[2] + l * a->stride_b[3];
                    if (a->type == MF_CAST_I32)
                        ((int32_t *)a->out)[at++] =
                            map2_i32(a->fn, ((const int32_t *)a->a)[at_a],
                                     ((const int32_t *)a->b)[at_b]);
                    else
                        ref_store(a->type, a->out, at++,
                                  map2(a->fn, ref_load(a->type, a->a, at_a),
                                       ref_load(a->type, a->b, at_b)));
                }
}

static float read_as_float(const void *in, int64_t i, int type)
{
    switch ((mf_cast_type)type) {
    case MF_CAST_F32:
        return ((const float *)in)[i];
    case MF_CAST_BF16:
        return mf_bf16_to_f32(((const mf_bf16 *)in)[i]);
    case MF_CAST_I32:
        return (float)((const int32_t *)in)[i];
    case MF_CAST_U8:
        return ((const uint8_t *)in)[i];
    }
    return NAN;
}

static int64_t integer_of(float value, int64_t lo, int64_t hi)
{
    if (isnan(value)) return 0;
    return value <= (float)lo ? lo : value >= (float)hi ? hi : (int64_t)value;
}

void mf_ref_cast(const mf_kctx *x, const mf_cast_args *a)
{
    (void)x;
    if (a->from == MF_CAST_I32 &&
        a->to == MF_CAST_I32) { /* a float cannot represent every integer */
        memcpy(a->out, a->in, (size_t)a->n * sizeof(int32_t));
        return;
    }
    for (int64_t i = 0; i < a->n; i++) {
        float value = read_as_float(a->in, i, a->from);
        switch ((mf_cast_type)a->to) {
        case MF_CAST_F32:
            ((float *)a->out)[i] = value;
            break;
        case MF_CAST_BF16:
            ((mf_bf16 *)a->out)[i] = mf_bf16_from_f32(value);
            break;
        case MF_CAST_I32:
            ((int32_t *)a->out)[i] = (int32_t)integer_of(value, INT32_MIN, INT32_MAX);
            break;
        case MF_CAST_U8:
            ((uint8_t *)a->out)[i] = (uint8_t)integer_of(value, 0, 255);
            break;
        }
    }
}
