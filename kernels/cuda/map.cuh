/* map.cuh: elementwise kernels, and copies of elements in four dimensions. Functions are
 * computed in f32; a thread has four elements next to each other, and with one or two operands
 * as many again in a second turn, so that more of memory is under way. */
#pragma once
#include "base.cuh"
#include "sum.cuh"

constexpr int MF_EACH = 4, MF_TURNS = 2;

static const double mf_sqrt_half = 0.70710678118654752440,
                    mf_sqrt_2_pi = 0.79788456080286535588,
                    mf_rsqrt_2pi = 0.39894228040143267794;

MF_INLINE float mf_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}
MF_INLINE float mf_normal_cdf(float x)
{
    return 0.5f * erfcf(-x * (float)mf_sqrt_half);
}
MF_INLINE float mf_normal_pdf(float x)
{
    return (float)mf_rsqrt_2pi * expf(-0.5f * x * x);
}
/* The same for results in bf16. Phi(x) = 1 / (1 + e^-L(x)), of which the odd polynomial L has a
 * relative error of at most 6.3e-4 in Phi up to |x| = 4.5, a third of what bf16 rounds, and
 * rises everywhere. erfc would take three times as long as memory allows. */
constexpr float MF_LOG2E = 1.44269504f;
MF_INLINE float mf_near_cdf(float x)
{
    const float t = x * x;
    float l = fmaf(t, MF_LOG2E * 3.39810299e-07f, MF_LOG2E * -6.07909886e-06f);
    l = fmaf(t, l, MF_LOG2E * -0.00076818701f);
    l = fmaf(t, l, MF_LOG2E * 0.0747020917f);
    l = fmaf(t, l, MF_LOG2E * 1.59408111f);
    return mf_reciprocal(1 + mf_exp2(-x * l));
}
MF_INLINE float mf_near_pdf(float x)
{
    return (float)mf_rsqrt_2pi * mf_exp2(-0.5f * MF_LOG2E * x * x);
}
/* (1 + tanh u) / 2 of the argument u that GELU has, which is the sigmoid of 2 u. */
MF_INLINE float mf_gelu_share(float x)
{
    return mf_sigmoid(2 * (float)mf_sqrt_2_pi * (x + 0.044715f * x * x * x));
}
/* x f, but 0 where x is infinite and f is 0, which is the limit. */
MF_INLINE float mf_times(float x, float f)
{
    return f == 0 && isinf(x) ? 0 : x * f;
}
MF_INLINE float mf_sign(float x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
}

/* NEAR: the result is rounded to bf16. */
template <bool NEAR> MF_INLINE float mf_map1_of(int fn, float x, float a, float b)
{
    switch (fn) {
    case MF_MAP_EXP:
        return expf(x);
    case MF_MAP_LOG:
        return logf(x);
    case MF_MAP_SQRT:
        return sqrtf(x);
    case MF_MAP_SQUARE:
        return x * x;
    case MF_MAP_RECIPROCAL:
        return 1 / x;
    case MF_MAP_ABS:
        return fabsf(x);
    case MF_MAP_RELU:
        return x < 0 ? 0 : x;
    case MF_MAP_GELU:
        return mf_times(x, NEAR ? mf_near_cdf(x) : mf_normal_cdf(x));
    case MF_MAP_GELU_TANH:
        return mf_times(x, mf_gelu_share(x));
    case MF_MAP_SILU:
        return mf_times(x, mf_sigmoid(x));
    case MF_MAP_SIGMOID:
        return mf_sigmoid(x);
    case MF_MAP_TANH:
        return tanhf(x);
    case MF_MAP_SOFTPLUS:
        return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
    case MF_MAP_NORMAL_CDF:
        return mf_normal_cdf(x);
    case MF_MAP_XLOGX:
        return x == 0 ? 0 : x * logf(x);
    case MF_MAP_SIGN:
        return mf_sign(x);
    case MF_MAP_AFFINE:
        return (float)((double)a * x + b); /* rounded once, as in other sets */
    default:                               /* MF_MAP_CLAMP */
        return x < a ? a : x > b ? b : x;
    }
}

template <bool NEAR> MF_INLINE float mf_map1_slope(int fn, float x, float y, float a, float b)
{
    switch (fn) {
    case MF_MAP_EXP:
        return y;
    case MF_MAP_LOG:
        return 1 / x;
    case MF_MAP_SQRT:
        return 0.5f / y;
    case MF_MAP_SQUARE:
        return 2 * x;
    case MF_MAP_RECIPROCAL:
        return -y * y;
    case MF_MAP_ABS:
        return mf_sign(x);
    case MF_MAP_RELU:
        return y <= 0 ? 0 : 1;
    case MF_MAP_GELU:
        return NEAR ? mf_near_cdf(x) + mf_times(x, mf_near_pdf(x))
                    : mf_normal_cdf(x) + mf_times(x, mf_normal_pdf(x));
    case MF_MAP_GELU_TANH: {
        const float g = mf_gelu_share(x), both = g * (1 - g),
                    slope = (float)mf_sqrt_2_pi * (1 + 3 * 0.044715f * x * x);
        return g + (both == 0 ? 0 : 2 * x * both * slope);
    }
    case MF_MAP_SILU: {
        const float s = mf_sigmoid(x);
        return s + mf_times(x, s * (1 - s));
    }
    case MF_MAP_SIGMOID:
        return y * (1 - y);
    case MF_MAP_TANH:
        return 1 - y * y;
    case MF_MAP_SOFTPLUS:
        return mf_sigmoid(x);
    case MF_MAP_NORMAL_CDF:
        return mf_normal_pdf(x);
    case MF_MAP_XLOGX:
        return x == 0 ? 0 : logf(x) + 1;
    case MF_MAP_SIGN:
        return 0;
    case MF_MAP_AFFINE:
        return a;
    default: /* MF_MAP_CLAMP */
        return x < a || x > b ? 0 : 1;
    }
}

/* ---- kernels ---- */

__global__ void __launch_bounds__(MF_THREADS) mf_cu_set(int64_t n, float value, float *out)
{
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        out[i] = value;
}

__global__ void __launch_bounds__(MF_THREADS) mf_cu_scale(int64_t n, float factor, float *a)
{
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        a[i] *= factor;
}

/* A function as a constant, so that the choice is made once for all elements of a thread. */
template <int FN> struct mf_fn {
    MF_METHOD operator int() const { return FN; }
};
/* Calls use with the function: as a constant if it is one that models have for each element. */
template <class F> MF_INLINE void mf_with_map1(int fn, F use)
{
    switch (fn) {
    case MF_MAP_RELU:
        return use(mf_fn<MF_MAP_RELU>());
    case MF_MAP_GELU:
        return use(mf_fn<MF_MAP_GELU>());
    case MF_MAP_GELU_TANH:
        return use(mf_fn<MF_MAP_GELU_TANH>());
    case MF_MAP_SILU:
        return use(mf_fn<MF_MAP_SILU>());
    default:
        return use(fn);
    }
}

/* The first element of this thread; those of its second turn are MF_THREADS * EACH further. */
template <int EACH> MF_INLINE int64_t mf_first_element()
{
    return ((int64_t)blockIdx.x * MF_THREADS * MF_TURNS + threadIdx.x) * EACH;
}
/* The elements of this thread of n; 0 for those behind the end, or without an array. */
template <class T>
MF_INLINE void mf_get_turns(const T *p, int64_t n, bool wide, float (&v)[MF_TURNS][MF_EACH])
{
    MF_UNROLL
    for (int t = 0; t < MF_TURNS; t++) {
        const int64_t i = mf_first_element<MF_EACH>() + t * MF_THREADS * MF_EACH;
        if (p && wide && i + MF_EACH <= n) {
            mf_get4(p + i, v[t]);
            continue;
        }
        MF_UNROLL
        for (int j = 0; j < MF_EACH; j++)
            v[t][j] = p && i + j < n ? mf_get(p + i + j) : 0;
    }
}
template <class T>
MF_INLINE void mf_put_turns(T *p, int64_t n, bool wide, const float (&v)[MF_TURNS][MF_EACH])
{
    MF_UNROLL
    for (int t = 0; t < MF_TURNS; t++) {
        const int64_t i = mf_first_element<MF_EACH>() + t * MF_THREADS * MF_EACH;
        if (wide && i + MF_EACH <= n) {
            mf_put4(p + i, v[t]);
            continue;
        }
        MF_UNROLL
        for (int j = 0; j < MF_EACH; j++)
            if (i + j < n) mf_put(p + i + j, v[t][j]);
    }
}

template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_map1(int fn, bool wide, int64_t n, float a, float b, const T *in, T *out)
{
    float v[MF_TURNS][MF_EACH];
    mf_get_turns(in, n, wide, v);
    mf_with_map1(fn, [&](auto f) {
        MF_UNROLL
        for (int j = 0; j < MF_TURNS * MF_EACH; j++) {
            float *x = &v[j / MF_EACH][j % MF_EACH];
            *x = mf_map1_of<sizeof(T) == 2>(f, *x, a, b);
        }
    });
    mf_put_turns(out, n, wide, v);
}

template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_map1_grad(int fn, bool wide, int64_t n, float a, float b, const T *in, const T *out,
                    const T *dout, T *din)
{
    float x[MF_TURNS][MF_EACH], y[MF_TURNS][MF_EACH], v[MF_TURNS][MF_EACH];
    mf_get_turns(in, n, wide, x);
    mf_get_turns(out, n, wide, y);
    mf_get_turns(dout, n, wide, v);
    mf_with_map1(fn, [&](auto f) {
        MF_UNROLL
        for (int j = 0; j < MF_TURNS * MF_EACH; j++) {
            const int t = j / MF_EACH, i = j % MF_EACH;
            v[t][i] *= mf_map1_slope<sizeof(T) == 2>(f, x[t][i], y[t][i], a, b);
        }
    });
    mf_put_turns(din, n, wide, v);
}

/* The same for rows of `width`, of whose columns it writes sums to part [MF_SUM_TILES, width]:
 * a warp has four columns of each lane, of the rows of its block in turn. Sums are those of
 * what is written. */
constexpr int MF_GRAD_COLUMNS = MF_EACH * MF_WARP, MF_GRAD_ROWS = MF_THREADS / MF_WARP;
template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_map1_grad_sum(int fn, int64_t rows, int64_t width, float a, float b, const T *in,
                        const T *out, const T *dout, T *din, float *part)
{
    MF_SHARED(float, sums, [MF_GRAD_ROWS][MF_GRAD_COLUMNS]);
    const int own = (int)threadIdx.x / MF_WARP, lane = (int)threadIdx.x % MF_WARP;
    const int64_t j = (int64_t)blockIdx.x * MF_GRAD_COLUMNS + lane * MF_EACH;
    const int64_t step = (int64_t)gridDim.y * MF_GRAD_ROWS;
    const int64_t first = j < width ? (int64_t)blockIdx.y * MF_GRAD_ROWS + own : rows;
    float sum[MF_EACH] = {};
    mf_with_map1(fn, [&](auto f) {
        MF_UNROLL_BY(1)
        for (int64_t r = first; r < rows; r += MF_TURNS * step) {
            float x[MF_TURNS][MF_EACH] = {}, y[MF_TURNS][MF_EACH] = {}, v[MF_TURNS][MF_EACH];
            MF_UNROLL
            for (int t = 0; t < MF_TURNS; t++) { /* loads of all rows before they are used */
                const int64_t at = (r + t * step < rows ? r + t * step : r) * width + j;
                if (in) mf_get4(in + at, x[t]);
                if (out) mf_get4(out + at, y[t]);
                mf_get4(dout + at, v[t]);
            }
            MF_UNROLL
            for (int t = 0; t < MF_TURNS; t++) {
                if (r + t * step >= rows) continue;
                MF_UNROLL
                for (int k = 0; k < MF_EACH; k++) {
                    T written;
                    v[t][k] *= mf_map1_slope<sizeof(T) == 2>(f, x[t][k], y[t][k], a, b);
                    mf_put(&written, v[t][k]);
                    sum[k] += mf_get(&written);
                }
                mf_put4(din + (r + t * step) * width + j, v[t]);
            }
        }
    });
    mf_put4(sums[own] + lane * MF_EACH, sum);
    __syncthreads();
    const int64_t column = (int64_t)blockIdx.x * MF_GRAD_COLUMNS + threadIdx.x;
    if (threadIdx.x >= MF_GRAD_COLUMNS || column >= width) return;
    float all = sums[0][threadIdx.x];
    for (int row = 1; row < MF_GRAD_ROWS; row++)
        all += sums[row][threadIdx.x];
    part[(int64_t)blockIdx.y * width + column] = all;
}

/* Four dimensions, of which those that follow each other in all arrays were joined. */
typedef struct mf_shape4 {
    int64_t dim[4], a[4], b[4];
} mf_shape4;

/* Where element i is in the two arrays. */
MF_INLINE void mf_place4(const mf_shape4 &s, int64_t i, int64_t *at_a, int64_t *at_b)
{
    int64_t a = 0, b = 0;
    if (i < 0x7fffffff) { /* divisions of 32 bits are much faster */
        uint32_t rest = (uint32_t)i;
        MF_UNROLL
        for (int d = 3; d > 0; d--) {
            /* rest is less than the bound of a longer dimension */
            const uint32_t n = s.dim[d] < 0x7fffffff ? (uint32_t)s.dim[d] : 0x7fffffffu,
                           at = n == 1 ? 0 : rest % n;
            rest = n == 1 ? rest : rest / n;
            a += at * s.a[d], b += at * s.b[d];
        }
        i = rest;
    } else
        for (int d = 3; d > 0; d--) {
            const int64_t at = i % s.dim[d];
            i /= s.dim[d];
            a += at * s.a[d], b += at * s.b[d];
        }
    *at_a = a + i * s.a[0], *at_b = b + i * s.b[0];
}

MF_INLINE float mf_map2_of(int fn, float a, float b)
{
    switch (fn) {
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
    default: /* MF_MAP_GREATER */
        return a > b ? 1 : 0;
    }
}
MF_INLINE int32_t mf_map2_i32(int fn, int32_t a, int32_t b)
{
    const uint32_t u = (uint32_t)a, v = (uint32_t)b;
    switch (fn) {
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
    default: /* MF_MAP_GREATER */
        return a > b;
    }
}

template <class F> MF_INLINE void mf_with_map2(int fn, F use)
{
    switch (fn) {
    case MF_MAP_ADD:
        return use(mf_fn<MF_MAP_ADD>());
    case MF_MAP_SUB:
        return use(mf_fn<MF_MAP_SUB>());
    case MF_MAP_MUL:
        return use(mf_fn<MF_MAP_MUL>());
    default:
        return use(fn);
    }
}

/* Elements of a line next to each other, or one that repeats. */
template <class T> MF_INLINE void mf_get_line(const T *p, int64_t, float (&v)[1])
{
    v[0] = mf_get(p);
}
template <class T> MF_INLINE void mf_get_line(const T *p, int64_t stride, float (&v)[4])
{
    if (stride == 0)
        v[0] = v[1] = v[2] = v[3] = mf_get(p);
    else
        mf_get4(p, v);
}

/* EACH: four, if lines are whole fours that can be moved at once, or one. */
template <int EACH, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_map2(int fn, int64_t n, mf_shape4 s, const T *a, const T *b, T *out)
{
    const int64_t first = mf_first_element<EACH>();
    float u[MF_TURNS][EACH] = {}, v[MF_TURNS][EACH] = {};
    MF_UNROLL
    for (int t = 0; t < MF_TURNS; t++) {
        const int64_t i = first + t * MF_THREADS * EACH;
        int64_t at_a, at_b;
        if (i >= n) continue;
        mf_place4(s, i, &at_a, &at_b);
        mf_get_line(a + at_a, s.a[3], u[t]);
        mf_get_line(b + at_b, s.b[3], v[t]);
    }
    mf_with_map2(fn, [&](auto f) {
        MF_UNROLL
        for (int j = 0; j < MF_TURNS * EACH; j++) {
            const int t = j / EACH, i = j % EACH;
            u[t][i] = mf_map2_of(f, u[t][i], v[t][i]);
        }
    });
    MF_UNROLL
    for (int t = 0; t < MF_TURNS; t++) {
        const int64_t i = first + t * MF_THREADS * EACH;
        if (i < n) mf_put_each(out + i, u[t]);
    }
}
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_map2_i32(int fn, int64_t n, mf_shape4 s, const int32_t *a, const int32_t *b,
                   int32_t *out)
{
    for (int64_t i = mf_thread(); i < n; i += mf_threads()) {
        int64_t at_a, at_b;
        mf_place4(s, i, &at_a, &at_b);
        out[i] = mf_map2_i32(fn, a[at_a], b[at_b]);
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_copy4(int64_t n, mf_shape4 s, const uint32_t *in, uint32_t *out)
{
    for (int64_t i = mf_thread(); i < n; i += mf_threads()) {
        int64_t from, to;
        mf_place4(s, i, &from, &to);
        out[to] = in[from];
    }
}

MF_INLINE float mf_as_float(const void *in, int64_t i, int type)
{
    switch (type) {
    case MF_CAST_F32:
        return ((const float *)in)[i];
    case MF_CAST_BF16:
        return mf_bf16_to_f32(((const mf_bf16 *)in)[i]);
    case MF_CAST_I32:
        return (float)((const int32_t *)in)[i];
    default: /* MF_CAST_U8 */
        return ((const uint8_t *)in)[i];
    }
}
MF_INLINE int64_t mf_as_integer(float value, int64_t lo, int64_t hi)
{
    if (isnan(value)) return 0;
    return value <= (float)lo ? lo : value >= (float)hi ? hi : (int64_t)value;
}

template <class FROM, class TO> MF_INLINE void mf_cast4(const void *in, void *out, int64_t i)
{
    float v[MF_EACH];
    mf_get4((const FROM *)in + i, v);
    mf_put4((TO *)out + i, v);
}
/* A thread has four elements next to each other, so that no two of them share a word of u8.
 * wide: it moves them at once, from f32 to bf16 or back. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_cast(int64_t n, int from, int to, bool wide, const void *in, void *out)
{
    const int64_t first = mf_thread() * MF_EACH;
    if (wide && first + MF_EACH <= n) {
        if (from == MF_CAST_F32)
            mf_cast4<float, mf_bf16>(in, out, first);
        else
            mf_cast4<mf_bf16, float>(in, out, first);
        return;
    }
    for (int64_t i = first; i < first + MF_EACH && i < n; i++) {
        if (from == MF_CAST_I32 && to == MF_CAST_I32) { /* a float cannot be every integer */
            ((int32_t *)out)[i] = ((const int32_t *)in)[i];
            continue;
        }
        const float value = mf_as_float(in, i, from);
        if (to == MF_CAST_F32)
            ((float *)out)[i] = value;
        else if (to == MF_CAST_BF16)
            ((mf_bf16 *)out)[i] = mf_bf16_from_f32(value);
        else if (to == MF_CAST_I32)
            ((int32_t *)out)[i] = (int32_t)mf_as_integer(value, INT32_MIN, INT32_MAX);
        else
            ((uint8_t *)out)[i] = (uint8_t)mf_as_integer(value, 0, 255);
    }
}

/* ---- launches ---- */

/* Joins dimensions that follow each other in both arrays, so that fewer are divided by. */
static mf_shape4 mf_joined(const int64_t dim[4], const int64_t a[4], const int64_t b[4])
{
    mf_shape4 s;
    int at = 3;
    for (int d = 0; d < 4; d++)
        s.dim[d] = 1, s.a[d] = s.b[d] = 0;
    s.dim[3] = dim[3], s.a[3] = a[3], s.b[3] = b[3];
    for (int d = 2; d >= 0; d--) {
        if (dim[d] == 1) continue;
        if (s.dim[at] == 1) {
            s.dim[at] = dim[d], s.a[at] = a[d], s.b[at] = b[d];
        } else if (a[d] == s.a[at] * s.dim[at] && b[d] == s.b[at] * s.dim[at]) {
            s.dim[at] *= dim[d];
        } else {
            at--;
            s.dim[at] = dim[d], s.a[at] = a[d], s.b[at] = b[d];
        }
    }
    return s;
}

/* Whether each four elements of a line are at an address that is aligned to all of them, or are
 * one that repeats. */
static bool mf_in_fours(const int64_t stride[4], int type, const void *data)
{
    if (stride[3] == 0) return true;
    return stride[3] == 1 && (stride[0] | stride[1] | stride[2]) % MF_EACH == 0 &&
           mf_aligned(type, data);
}

extern "C" void mf_cuda_set(const mf_kctx *x, const mf_set_args *a)
{
    if (a->n > 0)
        MF_LAUNCH(mf_cu_set, mf_grid(a->n, MF_THREADS), dim3(MF_THREADS), 0, x, a->n, a->value,
                  a->out);
}

extern "C" void mf_cuda_scale_inplace(const mf_kctx *x, const mf_scale_inplace_args *a)
{
    if (a->count > 0)
        MF_LAUNCH(mf_cu_scale, mf_grid(a->count, MF_THREADS), dim3(MF_THREADS), 0, x, a->count,
                  a->factor, a->a);
}

extern "C" void mf_cuda_map1(const mf_kctx *x, const mf_map1_args *a)
{
    const bool wide = mf_aligned(a->type, a->in, a->out);
    if (a->n <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        typedef decltype(of) T;
        MF_LAUNCH(mf_cu_map1<T>, mf_grid(a->n, MF_THREADS * MF_TURNS * MF_EACH),
                  dim3(MF_THREADS), 0, x, a->fn, wide, a->n, a->a, a->b, (const T *)a->in,
                  (T *)a->out);
    });
}

extern "C" void mf_cuda_map1_grad(const mf_kctx *x, const mf_map1_grad_args *a)
{
    const bool wide = mf_aligned(a->type, a->in, a->out, a->dout, a->din);
    if (a->n <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        typedef decltype(of) T;
        if (a->sum) {
            const int64_t rows = a->n / a->width;
            const int64_t tiles = (rows + MF_GRAD_ROWS - 1) / MF_GRAD_ROWS;
            const int most = (int)(tiles < MF_SUM_TILES ? tiles : MF_SUM_TILES);
            MF_LAUNCH(mf_cu_map1_grad_sum<T>,
                      dim3(mf_grid(a->width, MF_GRAD_COLUMNS).x, (unsigned)most),
                      dim3(MF_THREADS), 0, x, a->fn, rows, a->width, a->a, a->b,
                      (const T *)a->in, (const T *)a->out, (const T *)a->dout, (T *)a->din,
                      (float *)a->work);
            mf_add_tiles(x, NULL, a->width, most, a->work, a->sum, NULL, NULL);
            return;
        }
        MF_LAUNCH(mf_cu_map1_grad<T>, mf_grid(a->n, MF_THREADS * MF_TURNS * MF_EACH),
                  dim3(MF_THREADS), 0, x, a->fn, wide, a->n, a->a, a->b, (const T *)a->in,
                  (const T *)a->out, (const T *)a->dout, (T *)a->din);
    });
}

extern "C" void mf_cuda_map2(const mf_kctx *x, const mf_map2_args *a)
{
    const int64_t n = a->dim[0] * a->dim[1] * a->dim[2] * a->dim[3];
    const mf_shape4 s = mf_joined(a->dim, a->stride_a, a->stride_b);
    const bool fours = s.dim[3] % MF_EACH == 0 && mf_aligned(a->type, a->out) &&
                       mf_in_fours(s.a, a->type, a->a) && mf_in_fours(s.b, a->type, a->b);
    if (n <= 0) return;
    if (a->type == MF_CAST_I32) {
        MF_LAUNCH(mf_cu_map2_i32, mf_grid(n, MF_THREADS), dim3(MF_THREADS), 0, x, a->fn, n, s,
                  (const int32_t *)a->a, (const int32_t *)a->b, (int32_t *)a->out);
        return;
    }
    mf_by_type(a->type, [&](auto of) {
        typedef decltype(of) T;
        mf_by_each(fours, [&](auto each) {
            constexpr int EACH = decltype(each)::each;
            MF_LAUNCH((mf_cu_map2<EACH, T>), mf_grid(n, MF_THREADS * MF_TURNS * EACH),
                      dim3(MF_THREADS), 0, x, a->fn, n, s, (const T *)a->a, (const T *)a->b,
                      (T *)a->out);
        });
    });
}

extern "C" void mf_cuda_copy4(const mf_kctx *x, const mf_copy4_args *a)
{
    const int64_t n = a->dim[0] * a->dim[1] * a->dim[2] * a->dim[3];
    if (n > 0)
        MF_LAUNCH(mf_cu_copy4, mf_grid(n, MF_THREADS), dim3(MF_THREADS), 0, x, n,
                  mf_joined(a->dim, a->stride_in, a->stride_out), (const uint32_t *)a->in,
                  (uint32_t *)a->out);
}

extern "C" void mf_cuda_cast(const mf_kctx *x, const mf_cast_args *a)
{
    const bool both = (a->from == MF_CAST_F32 && a->to == MF_CAST_BF16) ||
                      (a->from == MF_CAST_BF16 && a->to == MF_CAST_F32);
    const bool wide = both && mf_aligned(a->from, a->in) && mf_aligned(a->to, a->out);
    if (a->n > 0)
        MF_LAUNCH(mf_cu_cast, mf_grid(a->n, MF_THREADS * MF_EACH), dim3(MF_THREADS), 0, x, a->n,
                  a->from, a->to, wide, a->in, a->out);
}
