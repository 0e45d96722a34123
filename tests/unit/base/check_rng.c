/* rng: published test vectors, the mapping from indices to words, and simple statistics. Most
 * bounds are 5 or 6 standard deviations. */
#include "check_main.h"

#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* kat_vectors of Random123 1.14, lines "philox4x32 10". */
START_TEST(known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
               {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                {0xffffffff, 0xffffffff},
                {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
               {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                {0xa4093822, 0x299f31d0},
                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        mf_philox4x32_10(kat[i].counter, kat[i].key, out);
        for (int j = 0; j < 4; j++)
            ck_assert_uint_eq(out[j], kat[i].out[j]);
    }
}
END_TEST

/* FNV-1a 64 of "", "a" and "foobar" (published test vectors of Fowler, Noll, Vo). */
START_TEST(stream_names)
{
    ck_assert(mf_rng_stream("") == 0xcbf29ce484222325u);
    ck_assert(mf_rng_stream("a") == 0xaf63dc4c8601ec8cu);
    ck_assert(mf_rng_stream("foobar") == 0x85944171f73967e8u);
}
END_TEST

/* Block: key = seed, counter = (block, step ^ fold(stream)); fold(0) = 0. */
START_TEST(block_layout)
{
    uint32_t got[4], want[4];
    const uint32_t counter[4] = {0x55667788, 0x11223344, 0xddeeff00, 0x99aabbcc};
    const uint32_t key[2] = {0x89abcdef, 0x01234567};
    mf_philox4x32_10(counter, key, want);
    mf_rng_block(0x0123456789abcdefu, 0, 0x99aabbccddeeff00u, 0x1122334455667788u, got);
    ck_assert_int_eq(memcmp(got, want, sizeof got), 0);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(mf_rng_u32(7, 8, 9, 4 * 5 + i),
                          (mf_rng_block(7, 8, 9, 5, got), got[i]));
}
END_TEST

/* Corners: the largest and the smallest logarithm, quarter turns and their neighbours, eighths,
 * where the quarter changes; then many drawn numbers. One pair, found by a search over two
 * billion numbers, is so close to the middle between two floats that the series alone round it
 * to the other one than glibc does. */
START_TEST(normals_at_once_have_the_bits_of_single_ones)
{
    static const uint32_t corner[] = {
        0,          1,          0xffffffff, 0xfffffffe, 0x20000000, 0x1fffffff, 0x40000000,
        0x3fffffff, 0x40000001, 0x60000000, 0x80000000, 0x7fffffff, 0xa0000000, 0xc0000000,
        0xc0000001, 0xe0000000, 0xb504f332, 0xb504f333, 0x5a827999, 0xdfffffff};
    enum { CORNERS = sizeof corner / sizeof *corner, DRAWS = 20000 };
    for (uint64_t d = 0; d < CORNERS + DRAWS; d++) {
        uint32_t a[MF_RNG_PAIRS], b[MF_RNG_PAIRS];
        float many[2 * MF_RNG_PAIRS], one[2];
        for (uint64_t i = 0; i < MF_RNG_PAIRS; i++) {
            const uint64_t at = d * MF_RNG_PAIRS + i;
            a[i] = d < CORNERS ? corner[d] : mf_rng_u32(1, 2, 0, at);
            b[i] = d < 2 * CORNERS ? corner[at % CORNERS] : mf_rng_u32(1, 3, 0, at);
        }
        if (d == CORNERS) a[3] = 0x67ecddaf, b[3] = 0xd5abfd2e;
        mf_rng_normal_pairs(a, b, many);
        for (int i = 0; i < MF_RNG_PAIRS; i++) {
            mf_rng_normal_pair(a[i], b[i], one);
            ck_assert_msg(memcmp(one, many + 2 * i, sizeof one) == 0, "words %x, %x", a[i],
                          b[i]);
        }
    }
}
END_TEST

START_TEST(fills_equal_single_draws)
{
    enum { N = 103 };
    float u[N + 1], g[N + 1];
    for (size_t n = 0; n <= N; n += n < 9 ? 1 : 47) {
        u[n] = g[n] = 77;
        mf_rng_uniforms(3, 4, 5, 0, u, n);
        mf_rng_fill_normal(3, 4, 5, g, n);
        for (size_t i = 0; i < n; i++) {
            ck_assert(u[i] == mf_rng_uniform(3, 4, 5, i));
            ck_assert(g[i] == mf_rng_normal(3, 4, 5, i));
        }
        ck_assert(u[n] == 77 && g[n] == 77); /* nothing is written beyond the end */
    }
}
END_TEST

START_TEST(uniform_is_uniform)
{
    enum { N = 1 << 18, BINS = 64 };
    static float u[N];
    double mean = 0, chi2 = 0, lag = 0;
    int count[BINS] = {0};
    mf_rng_uniforms(1, mf_rng_stream("test"), 0, 0, u, N);
    for (int i = 0; i < N; i++) {
        ck_assert(u[i] >= 0 && u[i] < 1);
        count[(int)(u[i] * BINS)]++;
        mean += u[i];
        if (i) lag += (u[i] - 0.5) * (u[i - 1] - 0.5);
    }
    for (int b = 0; b < BINS; b++)
        chi2 += pow(count[b] - N / BINS, 2) / (N / BINS);
    ck_assert_double_lt(fabs(mean / N - 0.5), 0.003); /* 5 standard deviations */
    ck_assert_double_lt(fabs(lag / N * 12), 0.01);    /* 5 standard deviations */
    ck_assert_double_lt(chi2, 63 + 5 * sqrt(2.0 * 63));
}
END_TEST

START_TEST(normal_is_normal)
{
    enum { N = 1 << 18 };
    static float g[N];
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, pairs = 0, largest = 0;
    mf_rng_fill_normal(2, mf_rng_stream("test"), 1, g, N);
    for (int i = 0; i < N; i++) {
        double x = g[i];
        m1 += x / N;
        m2 += x * x / N;
        m3 += x * x * x / N;
        m4 += x * x * x * x / N;
        if (i % 2) pairs += x * g[i - 1] * 2 / N;
        largest = fmax(largest, fabs(x));
    }
    ck_assert_double_lt(fabs(m1), 0.01);
    ck_assert_double_lt(fabs(m2 - 1), 0.014);
    ck_assert_double_lt(fabs(m3), 0.04);
    ck_assert_double_lt(fabs(m4 - 3), 0.1);
    ck_assert_double_lt(fabs(pairs), 0.014);
    ck_assert(largest > 3.9 && largest < 6.7);
}
END_TEST

/* Changing one bit of any input changes about half of the output bits. */
START_TEST(streams_are_independent)
{
    const uint64_t base[4] = {42, mf_rng_stream("data.window"), 1000, 7};
    for (int what = 0; what < 4; what++)
        for (int bit = 0; bit < 64; bit++) {
            uint64_t a[4];
            uint32_t x[4], y[4];
            int changed = 0;
            memcpy(a, base, sizeof a);
            a[what] ^= (uint64_t)1 << bit;
            mf_rng_block(base[0], base[1], base[2], base[3], x);
            mf_rng_block(a[0], a[1], a[2], a[3], y);
            for (int i = 0; i < 4; i++)
                changed += __builtin_popcount(x[i] ^ y[i]);
            ck_assert_int_gt(changed, 64 - 34); /* 6 standard deviations of 128 coin flips */
            ck_assert_int_lt(changed, 64 + 34);
        }
}
END_TEST

/* Streams with small numbers must not overlap at small steps. */
START_TEST(small_streams_do_not_meet)
{
    enum { N = 64 };
    static uint32_t seen[N * N][4];
    for (unsigned s = 0; s < N; s++)
        for (unsigned t = 0; t < N; t++)
            mf_rng_block(1, s, t, 0, seen[s * N + t]);
    for (unsigned i = 0; i < N * N; i++)
        for (unsigned j = 0; j < i; j++)
            ck_assert(memcmp(seen[i], seen[j], sizeof seen[i]) != 0);
}
END_TEST

START_TEST(below_stays_below)
{
    enum { N = 60000, SIDES = 6 };
    static const uint64_t bounds[] = {
        1, 2, 3, 1000003, (uint64_t)1 << 32, ((uint64_t)1 << 63) + 12345, UINT64_MAX};
    int count[SIDES] = {0};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (uint64_t i = 0; i < 1000; i++)
            ck_assert(mf_rng_below(1, 2, 3, i, bounds[b]) < bounds[b]);
    for (uint64_t i = 0; i < N; i++)
        count[mf_rng_below(1, 2, 3, i, SIDES)]++;
    for (int i = 0; i < SIDES; i++)
        ck_assert_int_lt(abs(count[i] - N / SIDES), 460); /* 5 standard deviations */
    /* Different indices have different draws. */
    uint64_t a = mf_rng_below(1, 2, 3, 0, UINT64_MAX), b = mf_rng_below(1, 2, 3, 1, UINT64_MAX);
    ck_assert(a != b);
}
END_TEST

START_TEST(permutations)
{
    enum { N = 1000 };
    static int32_t p[N], q[N];
    static bool seen[N];
    int fixed = 0, same = 0;
    mf_rng_permutation(5, 6, 7, p, N);
    mf_rng_permutation(5, 6, 8, q, N);
    for (int i = 0; i < N; i++) {
        ck_assert(p[i] >= 0 && p[i] < N && !seen[p[i]]);
        seen[p[i]] = true;
        fixed += p[i] == i;
        same += p[i] == q[i];
    }
    ck_assert_int_lt(fixed, 8);
    ck_assert_int_lt(same, 8);
    mf_rng_permutation(5, 6, 7, q, N);
    ck_assert_int_eq(memcmp(p, q, sizeof p), 0);
    mf_rng_permutation(5, 6, 7, NULL, 0);
    mf_rng_permutation(5, 6, 7, q, 1);
    ck_assert_int_eq(q[0], 0);
}
END_TEST

/* All 24 permutations of four are about equally frequent. */
START_TEST(permutations_are_fair)
{
    enum { N = 24000 };
    int count[256] = {0}, kinds = 0;
    for (uint64_t step = 0; step < N; step++) {
        int32_t p[4];
        mf_rng_permutation(9, 1, step, p, 4);
        count[p[0] << 6 | p[1] << 4 | p[2] << 2 | p[3]]++;
    }
    for (int i = 0; i < 256; i++)
        if (count[i]) {
            kinds++;
            ck_assert_int_lt(abs(count[i] - N / 24), 160); /* 5 standard deviations */
        }
    ck_assert_int_eq(kinds, 24);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rng");
    TCase *c = tcase_create("rng");
    tcase_add_test(c, known_answers);
    tcase_add_test(c, stream_names);
    tcase_add_test(c, block_layout);
    tcase_add_test(c, fills_equal_single_draws);
    tcase_add_test(c, normals_at_once_have_the_bits_of_single_ones);
    tcase_add_test(c, uniform_is_uniform);
    tcase_add_test(c, normal_is_normal);
    tcase_add_test(c, streams_are_independent);
    tcase_add_test(c, small_streams_do_not_meet);
    tcase_add_test(c, below_stays_below);
    tcase_add_test(c, permutations);
    tcase_add_test(c, permutations_are_fair);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
