/* gptq: rounding of matrices to four and eight bits, compared with the reader of such
 * weights (packed.h). GPTQ is compared with rounding to nearest by the error that it
 * minimizes: sum over rows of d H d^T, where d is the difference of old and new values. */
#include "check_main.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "pretrained/weights/packed.h"
#include "pretrained/quantize/gptq.h"

enum { OUT = 40, IN = 200, TOKENS = 400 };

static float drawn(uint64_t stream, int64_t i)
{
    return 2 * mf_rng_uniform(3, stream, 0, (uint64_t)i) - 1;
}

static void draw(float *w)
{
    for (int64_t i = 0; i < OUT * IN; i++)
        w[i] = drawn(1, i) * (i % 37 == 0 ? 3 : 1);
}

/* The Hessian of inputs that are correlated with their neighbours and have different sizes.
 * Only the lower half is written. */
static void hessian_of(double *h)
{
    static float x[IN];
    memset(h, 0, (size_t)(IN * IN) * sizeof *h);
    for (int t = 0; t < TOKENS; t++) {
        float last = 0;
        for (int i = 0; i < IN; i++) {
            last = 0.7f * last + drawn(2, t * IN + i);
            x[i] = last * (float)(1 + i * 7 % 11);
        }
        for (int i = 0; i < IN; i++)
            for (int j = 0; j <= i; j++)
                h[i * IN + j] += (double)x[i] * (double)x[j];
    }
}

static double error_of(const double *h, const float *a, const float *b)
{
    double sum = 0;
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++)
            for (int j = 0; j < IN; j++)
                sum += (double)(a[o * IN + i] - b[o * IN + i]) *
                       (double)(a[o * IN + j] - b[o * IN + j]) *
                       (i > j ? h[i * IN + j] : h[j * IN + i]);
    return sum;
}

/* Readers of the layout must decode the packed words to the same values, bit for bit. */
static void same_as_read(const mf_gptq *w, const float *values)
{
    const mf_packed p = {.out = w->out,
                         .in = w->in,
                         .part = {.type = w->bits == 8 ? MF_STORED_GPTQ8 : MF_STORED_GPTQ4,
                                  .rows = w->out,
                                  .groups = w->groups,
                                  .data = w->words,
                                  .zeros = w->zeros,
                                  .scales = w->scales,
                                  .group_of = w->group_of}};
    ck_assert_int_eq(mf_packed_judge(&p, "w"), MF_OK);
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++)
            ck_assert_msg(mf_packed_at(&p, 0, o, i) == values[o * IN + i], "at %d, %d", o, i);
}

static const int64_t groups[] = {32, 64, 128, IN, 8};

START_TEST(values_are_rounded_to_the_nearest)
{
    static float old[OUT * IN], new[OUT * IN];
    const int64_t group = groups[_i / 2];
    const int bits = _i % 2 ? 8 : 4;
    mf_gptq *w = mf_gptq_new(bits, OUT, IN, group);
    draw(old);
    memcpy(new, old, sizeof new);
    memset(new + 5 * IN, 0, IN * sizeof *new); /* a row of zeros must stay a row of zeros */
    mf_gptq_round(w, new);
    same_as_read(w, new);
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++) {
            float largest = 0;
            for (int64_t j = i / group * group; j < IN && j < (i / group + 1) * group; j++)
                largest = fmaxf(largest, fabsf(old[o * IN + j]));
            /* at most half a step of 2 largest / 15 or 255; a row of zeros is exact. The f16
             * of the scale adds a part of 2^-11. */
            const float off = fabsf(new[o * IN + i] - (o == 5 ? 0 : old[o * IN + i]));
            const float half = largest / (bits == 8 ? 255 : 15);
            ck_assert_msg(off <= (o == 5 ? 0 : half * (bits == 8 ? 1.13f : 1.01f)),
                          "at %d, %d: %g", o, i, (double)off);
        }
    mf_gptq_free(w);
}
END_TEST

START_TEST(gptq_has_the_lower_error)
{
    static float old[OUT * IN], near[OUT * IN], new[OUT * IN], again[OUT * IN];
    static double h[IN * IN], used[IN * IN];
    const bool act_order = _i % 2;
    const int64_t group = groups[_i / 2];
    mf_gptq_inputs x;
    mf_gptq *w = mf_gptq_new(4, OUT, IN, group);
    draw(old);
    hessian_of(h);
    memcpy(near, old, sizeof near);
    memcpy(new, old, sizeof new);
    memcpy(again, old, sizeof again);
    mf_gptq_round(w, near);
    memcpy(used, h, sizeof used);
    ck_assert_int_eq(mf_gptq_inputs_of(IN, used, 0.01, act_order, &x), MF_OK);
    ck_assert_int_eq(mf_gptq_compensate(w, &x, new), MF_OK);
    same_as_read(w, new);
    const double rounded = error_of(h, old, near), balanced = error_of(h, old, new);
    ck_assert_msg(balanced < 0.8 * rounded, "GPTQ %g, to nearest %g", balanced, rounded);
    /* another number of threads must lead to the same bits */
    mf_parallel_set_threads(3);
    ck_assert_int_eq(mf_gptq_compensate(w, &x, again), MF_OK);
    ck_assert_mem_eq(again, new, sizeof new);
    mf_gptq_inputs_free(&x);
    mf_gptq_free(w);
}
END_TEST

/* U^T U must be the inverse of H with an increased diagonal. */
START_TEST(the_inverse_is_one)
{
    enum { N = 24 };
    static double h[N * N], used[N * N];
    mf_gptq_inputs x;
    double mean = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            h[i * N + j] = 0;
            for (int t = 0; t < 50; t++)
                h[i * N + j] += (double)drawn(4, t * N + i) * (double)drawn(4, t * N + j);
        }
    for (int i = 0; i < N; i++)
        mean += h[i * N + i] / N;
    memcpy(used, h, sizeof h);
    ck_assert_int_eq(mf_gptq_inputs_of(N, used, 0.1, _i, &x), MF_OK);
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            double sum = 0; /* element of (H U^T U)[a,b] */
            for (int c = 0; c < N; c++) {
                const int p = x.order[a], q = x.order[c];
                const double own =
                    (p > q ? h[p * N + q] : h[q * N + p]) + (p == q ? 0.1 * mean : 0);
                for (int k = 0; k < N; k++)
                    sum += own * (double)x.upper[k * N + c] * (double)x.upper[k * N + b];
            }
            ck_assert_double_eq_tol(sum, a == b, 1e-4);
        }
    mf_gptq_inputs_free(&x);
}
END_TEST

START_TEST(sums_that_are_not_finite_have_no_inverse)
{
    double h[4] = {NAN, 0, 0, 1};
    mf_gptq_inputs x;
    ck_assert_int_eq(mf_gptq_inputs_of(2, h, 0.01, false, &x), MF_ENONFINITE);
    ck_assert_ptr_null(x.order);
}
END_TEST

/* The order is by size, and by index for inputs of the same size. */
START_TEST(the_order_of_inputs_of_one_size)
{
    static const int32_t expected[] = {1, 3, 0, 2, 4};
    double h[25] = {[0] = 1, [6] = 4, [12] = 1, [18] = 4, [24] = 1};
    mf_gptq_inputs x;
    ck_assert_int_eq(mf_gptq_inputs_of(5, h, 0.01, true, &x), MF_OK);
    ck_assert_mem_eq(x.order, expected, sizeof expected);
    mf_gptq_inputs_free(&x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gptq");
    TCase *c = tcase_create("gptq");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, values_are_rounded_to_the_nearest, 0, 10);
    tcase_add_loop_test(c, gptq_has_the_lower_error, 0, 10);
    tcase_add_loop_test(c, the_inverse_is_one, 0, 2);
    tcase_add_test(c, the_order_of_inputs_of_one_size);
    tcase_add_test(c, sums_that_are_not_finite_have_no_inverse);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
