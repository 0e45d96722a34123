/* vecmath.h: functions of vectors other than e^x. For NaN they return NaN, and for Inf the
 * limit of the function.
 *
 * The polynomials are our own minimax approximations for the relative error of the result
 * (Remez, 40 digits). The bounds below are in units of 2^-23 of the result. They were measured
 * against libm in double over all f32 arguments in the named ranges;
 * tests/unit/graph/check_functions.c checks them. */
#ifndef MF_SIMD_VECMATH_H
#define MF_SIMD_VECMATH_H

#include "kernels/cpu/simd/vec.h"

V_INLINE vf v_abs(vf x)
{
    return (vf)((vi)x & v_seti(0x7fffffff));
}
V_INLINE vf v_copysign(vf magnitude, vf sign)
{
    const vi top = v_seti((int32_t)0x80000000u);
    return (vf)(((vi)magnitude & ~top) | ((vi)sign & top));
}
/* Loads n < VL floats; all other lanes are `rest`. */
V_INLINE vf v_load_pad(const float *p, int64_t n, float rest)
{
#if defined(__AVX512F__)
    return _mm512_mask_loadu_ps(v_set(rest), (__mmask16)((1u << n) - 1), p);
#else
    float t[VL];
    for (int i = 0; i < VL; i++)
        t[i] = i < n ? p[i] : rest;
    return v_load(t);
#endif
}

/* Returns ln x: bound 1, also for subnormal numbers; -Inf at 0, NaN below 0. x = 2^e m with m
 * in [sqrt 1/2, sqrt 2), ln m = f - f^2 / 2 + f^3 P(f) with f = m - 1. */
V_INLINE vf v_log(vf x)
{
    const vf inf = v_set(INFINITY);
    vi small = x < v_set(0x1p-126f);
    vu bits = (vu)v_select(small, x * 0x1p23f, x);
    vi e = (vi)(bits - 0x3f3504f3u) >> 23;
    vf f = (vf)(bits - ((vu)e << 23)) - 1.0f;
    vf ef = __builtin_convertvector(e, vf) - (vf)(small & (vi)v_set(23.0f));
    vf p = v_set(-0.076345282444f), q = f * f;
    p = v_fma(p, f, v_set(0.12761594469f));
    p = v_fma(p, f, v_set(-0.13160177848f));
    p = v_fma(p, f, v_set(0.14201754842f));
    p = v_fma(p, f, v_set(-0.16623357515f));
    p = v_fma(p, f, v_set(0.2000122706f));
    p = v_fma(p, f, v_set(-0.25000821034f));
    p = v_fma(p, f, v_set(0.33333331704f));
    vf r = v_fma(q * f, p, ef * 1.42860677e-6f); /* ln 2 = 0.693145751953125 + this constant */
    r = f + v_fma(q, v_set(-0.5f), r);
    r = v_fma(ef, v_set(0.693145751953125f), r);
    r = v_select(x == inf, inf, r);
    r = v_select(x == 0.0f, -inf, r);
    return v_select((x < 0.0f) | (x != x), v_set(NAN), r);
}

/* Returns ln(1 + z) for z in [0,1]: bound 2. The rounding error of 1 + z is added back. */
V_INLINE vf v_log1p(vf z)
{
    vf u = 1.0f + z;
    return v_log(u) + (z - (u - 1.0f)) / u;
}

/* Returns 1 / (1 + e^-x): bound 2, down to x at which e^x is 0. */
V_INLINE vf v_sigmoid(vf x)
{
    vf z = v_exp(-v_abs(x));
    return v_select(x < 0.0f, z, v_set(1.0f)) / (1.0f + z);
}

/* Returns the sigmoid of x; *ret_rest is 1 minus the sigmoid, computed without cancellation. */
V_INLINE vf v_sigmoids(vf x, vf *ret_rest)
{
    vf z = v_exp(-v_abs(x)), large = 1.0f / (1.0f + z), small = z * large;
    *ret_rest = v_select(x < 0.0f, large, small);
    return v_select(x < 0.0f, small, large);
}

/* Returns tanh x: bound 2. */
V_INLINE vf v_tanh(vf x)
{
    vf a = v_abs(x), s = a * a, z = v_exp(-2.0f * a);
    vf p = v_set(-0.0057170416392f);
    p = v_fma(p, s, v_set(0.02065058432f));
    p = v_fma(p, s, v_set(-0.053743497223f));
    p = v_fma(p, s, v_set(0.13331491278f));
    p = v_fma(p, s, v_set(-0.33333283925f));
    vf near = v_fma(a * s, p, a), far = (1.0f - z) / (1.0f + z);
    return v_copysign(v_select(a < 0.625f, near, far), x);
}

/* Returns Phi(x), the integral of the normal density up to x; *ret_exp = e^(-x^2 / 2). Bound 5,
 * also in the lower tail. The tail beyond a = |x| is e^(-a^2 / 2) t P(t) with
 * t = 1 / (1 + 0.21 a). The square is split, because its rounding error would change
 * e^(-a^2 / 2) by up to a^2 / 4 units. */
V_INLINE vf v_normal(vf x, vf *ret_exp)
{
    vf a = v_abs(x);
    a = v_select(a > 20.0f, v_set(20.0f), a); /* above 20, e^(-a^2 / 2) is 0; a NaN is kept */
    vf head = (vf)((vi)a & v_seti((int32_t)0xfffff000u)); /* has 12 bits, so its square
                                                           * is exact */
    vf rest = (a - head) * (a + head) * 0.5f; /* below 0.06 while the result is normal */
    vf e = v_exp(head * head * -0.5f);
    vf q = v_fma(rest, v_set(1.0f / 24), v_set(-1.0f / 6));
    q = v_fma(q, rest, v_set(0.5f));
    q = v_fma(q, rest, v_set(-1.0f));
    q = v_fma(q, rest, v_set(1.0f));
    vf t = 1.0f / v_fma(a, v_set(0.21f), v_set(1.0f));
    vf p = v_set(-0.071223981518f);
    p = v_fma(p, t, v_set(0.28145527939f));
    p = v_fma(p, t, v_set(-0.32575792257f));
    p = v_fma(p, t, v_set(0.3441248937f));
    p = v_fma(p, t, v_set(-0.090158627146f));
    p = v_fma(p, t, v_set(0.12320018254f));
    p = v_fma(p, t, v_set(0.069642769535f));
    p = v_fma(p, t, v_set(0.085001580442f));
    p = v_fma(p, t, v_set(0.083715835446f));
    e = e * q;
    *ret_exp = e;
    vf tail = e * t * p;
    return v_select(x < 0.0f, tail, 1.0f - tail);
}

#endif
