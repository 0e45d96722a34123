/* pretrained/weights/types.c: conversion between f32 and the types of files.
 *
 * Conversion of 16-bit types to f32 keeps all bits, also those of NaN. All other conversions
 * round to the nearest, ties to even. */
#include "pretrained/weights/types.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor files are little-endian");

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, mantissa = h & 0x3ff;
    uint32_t exponent = (h >> 10) & 0x1f, m = mantissa;
    if (exponent == 0x1f) return sign | 0x7f800000 | m << 13;
    if (exponent == 0) {
        if (m == 0) return sign;
        /* A subnormal number of the 16-bit type is a normal number in f32. */
        exponent = 1;
        while (!(m & 0x400)) {
            m <<= 1;
            exponent--;
        }
        m &= 0x3ff;
    }
    return sign | (exponent + 112) << 23 | m << 13;
}

/* Removes the last n bits of a magnitude and rounds to the nearest, ties to even. */
static uint32_t drop(uint32_t u, int n)
{
    const uint32_t half = (uint32_t)1 << (n - 1), rest = u & ((half << 1) - 1);
    u >>= n;
    return u + (rest > half || (rest == half && (u & 1)));
}

static uint16_t f16_of_f32(uint32_t u)
{
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    const uint32_t magnitude = u & 0x7fffffff;
    const int exponent = (int)(magnitude >> 23) - 112;
    if (magnitude > 0x7f800000) { /* NaN must not become infinity */
        const uint32_t payload = magnitude >> 13 & 0x3ff;
        return (uint16_t)(sign | 0x7c00 | (payload ? payload : 1));
    }
    if (exponent >= 0x1f) return sign | 0x7c00;
    if (exponent > 0) {
        const uint32_t r = drop((magnitude & 0x7fffff) | (uint32_t)exponent << 23, 13);
        return (uint16_t)(sign | r); /* rounding may carry into the exponent, up to infinity */
    }
    if (exponent < -11) return sign;
    return (uint16_t)(sign | drop((magnitude & 0x7fffff) | 0x800000, 14 - exponent));
}

static uint16_t bf16_of_f32(uint32_t u)
{
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | ((u >> 16 & 0x7f) ? 0 : 1));
    return (uint16_t)drop(u, 16);
}

/* Converts BLOCK numbers at a time, because the compiler makes vectors of a loop with a
 * constant number of rounds. */
static void from_bf16(const uint16_t *h, int64_t n, float *to)
{
    enum { BLOCK = 16 };
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        uint32_t u[BLOCK];
        for (int k = 0; k < BLOCK; k++)
            u[k] = (uint32_t)h[i + k] << 16;
        memcpy(to + i, u, sizeof u);
    }
    for (; i < n; i++)
        to[i] = float_of((uint32_t)h[i] << 16);
}

void mf_types_to_f32(mf_st_dtype dtype, const void *from, int64_t n, float *to)
{
    const uint16_t *h = from;
    if (dtype == MF_ST_F32) memcpy(to, from, (size_t)n * sizeof *to);
    for (int64_t i = 0; dtype == MF_ST_F16 && i < n; i++)
        to[i] = float_of(f32_of_f16(h[i]));
    for (int64_t i = 0; dtype == MF_ST_F64 && i < n; i++) {
        double x;
        memcpy(&x, (const char *)from + i * (int64_t)sizeof x, sizeof x);
        to[i] = (float)x;
    }
    if (dtype == MF_ST_BF16) from_bf16(h, n, to);
}

void mf_types_from_f32(mf_st_dtype dtype, const float *from, int64_t n, void *to)
{
    uint16_t *h = to;
    if (dtype == MF_ST_F32) memcpy(to, from, (size_t)n * sizeof *from);
    for (int64_t i = 0; dtype == MF_ST_F16 && i < n; i++)
        h[i] = f16_of_f32(bits_of(from[i]));
    for (int64_t i = 0; dtype == MF_ST_F64 && i < n; i++)
        memcpy((char *)to + i * (int64_t)sizeof(double), &(const double){(double)from[i]},
               sizeof(double));
    for (int64_t i = 0; dtype == MF_ST_BF16 && i < n; i++)
        h[i] = bf16_of_f32(bits_of(from[i]));
}
