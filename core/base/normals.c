/* base/normals.c: many normals at once, several in each instruction. The formulas are those of
 * mf_rng_normal_pair, and so are the bits: logarithm, sine and cosine are computed in double by
 * series of our own, whose results differ from those of the math library by a few units in the
 * last place, and rounding to float hides that. Where a result is so close to the middle
 * between two floats that it might not, the pair is computed by that function.
 *
 * The loops have a constant number of turns and no branch, so compilers vectorize them for any
 * processor at -O2. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { PAIRS = MF_RNG_PAIRS };

static inline uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double of_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* A whole number below 2^52 as a double. Few processors convert 64-bit integers, but all have
 * these bits. */
static inline double whole(uint64_t n)
{
    return of_bits(n | UINT64_C(0x4330000000000000)) - 0x1p52;
}

/* Returns log(n / 2^32) for n from 1 to 2^32. n = 2^k m with m in [sqrt(1/2), sqrt(2)), and
 * log m = 2 artanh(q), q = (m - 1) / (m + 1). As q^2 < .0295, terms behind q^19 are less than
 * 2^-53 of the sum. */
static inline double log_of(uint64_t n)
{
    const uint64_t root = UINT64_C(0x3fe6a09e667f3bcd), x = bits_of(whole(n)); /* sqrt(1/2) */
    const uint64_t k = (x - root) >> 52;
    const double m = of_bits(x - (k << 52)), q = (m - 1) / (m + 1), z = q * q;
    double sum = 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return (whole(k) - 32) * 0.69314718055994530942 + 2 * (q + q * z * sum);
}

/* Computes cosine and sine of angle = 2 pi n / 2^32. The angle is reduced to y in
 * [-pi/4, pi/4] by q pi/2. The double nearest to pi/2 ends with three zero bits, so its
 * multiples and the first difference are exact; the rest of pi/2 is the second number. Taylor's
 * series up to y^15 and y^16. */
static inline void turn(uint32_t n, double *cosine, double *sine)
{
    const double angle = 6.283185307179586476925 * (whole(n) * 0x1p-32);
    const uint64_t quarter = ((uint64_t)n + (1u << 29)) >> 30;
    const double q = whole(quarter);
    const double y = (angle - q * 1.57079632679489661923) - q * 6.123233995736766e-17;
    const double z = y * y;
    double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = y + y * z * s;
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = 1 - z * (0.5 - z * c);
    /* odd quarters exchange both; the sign is that of the quarter */
    const uint64_t odd = 0 - (quarter & 1), u = bits_of(c), v = bits_of(s);
    *cosine = of_bits(((u & ~odd) | (v & odd)) ^ ((quarter + 1) & 2) << 62);
    *sine = of_bits(((v & ~odd) | (u & odd)) ^ (quarter & 2) << 62);
}

/* Returns 1 if x is so close to the middle between two floats that an error of 64 units in its
 * last place might round it to the other one, else 0. A float has 29 bits less. */
static inline uint64_t unsure(double x)
{
    const uint64_t cut = (bits_of(x) - (1u << 28) + 64) & ((1u << 29) - 1);
    return (cut - 128) >> 63;
}

void mf_rng_normal_pairs(const uint32_t a[MF_RNG_PAIRS], const uint32_t b[MF_RNG_PAIRS],
                         float out[2 * MF_RNG_PAIRS])
{
    double r[PAIRS], cosine[PAIRS], sine[PAIRS];
    float first[PAIRS], second[PAIRS];
    uint64_t doubt[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        r[i] = -2.0 * log_of((uint64_t)a[i] + 1);
    for (int i = 0; i < PAIRS; i++)
        r[i] = sqrt(r[i]);
    for (int i = 0; i < PAIRS; i++)
        turn(b[i], &cosine[i], &sine[i]);
    for (int i = 0; i < PAIRS; i++) {
        const double x = r[i] * cosine[i], y = r[i] * sine[i];
        first[i] = (float)x;
        second[i] = (float)y;
        doubt[i] = unsure(x) | unsure(y);
    }
    for (int i = 0; i < PAIRS; i++) {
        out[2 * i] = first[i];
        out[2 * i + 1] = second[i];
        if (doubt[i]) mf_rng_normal_pair(a[i], b[i], out + 2 * i);
    }
}

void mf_rng_normals(uint64_t seed, uint64_t stream, uint64_t step, uint64_t from, float *out,
                    size_t n)
{
    for (size_t at = 0; at < n; at += 2 * PAIRS) {
        uint32_t a[PAIRS], b[PAIRS], w[4];
        float all[2 * PAIRS];
        for (uint64_t i = 0; i < PAIRS / 2; i++) {
            mf_rng_block(seed, stream, step, (from + at) / 4 + i, w);
            a[2 * i] = w[0], b[2 * i] = w[1], a[2 * i + 1] = w[2], b[2 * i + 1] = w[3];
        }
        mf_rng_normal_pairs(a, b, all);
        memcpy(out + at, all, (n - at < 2 * PAIRS ? n - at : 2 * PAIRS) * sizeof *out);
    }
}
