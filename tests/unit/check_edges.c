/* check_edges: what the fast kernels do where numbers end: exp to its last digit, Inf and NaN,
 * rows that must not depend on their neighbours. */
#include "check_main.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "kernels/kernel.h"

static const mf_kctx x = {
    .parallel = mf_parallel, .rng_block = mf_rng_block, .seed = 1, .step = 1};

static void fill(float *a, int64_t n, const char *stream)
{
    mf_rng_fill_normal(3, mf_rng_stream(stream), 0, a, (size_t)n);
}

static bool same(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Numbers of a row that are not finite. */
static int lost(const float *a, int64_t n)
{
    int count = 0;
    for (int64_t i = 0; i < n; i++)
        count += !isfinite(a[i]);
    return count;
}

/* ---- exp ---- */

enum { POINTS = 1 << 16 };
static float points[POINTS], results[POINTS];

START_TEST(exp_is_exact_to_two_units)
{
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        for (int i = 0; i < POINTS; i++)
            points[i] = -87.33f + 176.0f * (float)i / POINTS;
        mf_kernels_cpu_for(*isa)->map1(&x, MF_MAP_EXP, POINTS, 0, 0, points, results);
        for (int i = 0; i < POINTS; i++) {
            double want = exp((double)points[i]),
                   unit = nextafterf((float)want, INFINITY) - (float)want;
            ck_assert_msg(fabs(results[i] - want) <= 2 * unit, "%s: exp(%.9g) = %.9g", *isa,
                          (double)points[i], (double)results[i]);
        }
    }
}
END_TEST

START_TEST(exp_has_its_limits)
{
    const float in[] = {NAN, INFINITY, -INFINITY, 89, 1e30f, -88, -104, -1e30f, 0, -0.0f};
    const float want[] = {NAN, INFINITY, 0, INFINITY, INFINITY, 0, 0, 0, 1, 1};
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        float y[10];
        mf_kernels_cpu_for(*isa)->map1(&x, MF_MAP_EXP, 10, 0, 0, in, y);
        for (int i = 0; i < 10; i++)
            ck_assert_msg(isnan(want[i]) ? isnan(y[i]) : y[i] == want[i], "%s: exp(%g) = %g",
                          *isa, (double)in[i], (double)y[i]);
    }
}
END_TEST

/* ---- NaN and Inf ---- */

enum { ROWS = 40, N = 50 };

/* Row 7 of a is spoilt: row 7 of the result is, and nothing else. */
static void check_row_7(const char *what, const char *isa, const float *y, int64_t n)
{
    ck_assert_msg(lost(y + 7 * n, n) > 0, "%s, %s: NaN is lost", what, isa);
    ck_assert_msg(lost(y, 7 * n) == 0 && lost(y + 8 * n, (ROWS - 8) * n) == 0,
                  "%s, %s: NaN reaches rows that have none", what, isa);
}

START_TEST(nan_stays_in_its_row)
{
    static float a[ROWS * N], w[N * N], y[ROWS * N], lse[ROWS], row_loss[ROWS];
    static int32_t target[ROWS], position[ROWS];
    const float spoil[] = {NAN, INFINITY};
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++)
        for (int s = 0; s < 2; s++) {
            const mf_kernels *k = mf_kernels_cpu_for(*isa);
            float loss;
            fill(a, ROWS * N, "a");
            fill(w, N * N, "w");
            a[7 * N + 3] = spoil[s];
            k->linear(&x, ROWS, N, N, a, w, NULL, y);
            check_row_7("linear", *isa, y, N);
            k->linear(&x, 9, N, N, a, w, NULL, y);
            ck_assert(lost(y, 7 * N) == 0 && lost(y + 7 * N, N) > 0 && lost(y + 8 * N, N) == 0);
            k->rmsnorm(&x, ROWS, N, 1e-5f, false, a, w, y);
            check_row_7("rmsnorm", *isa, y, N);
            k->layernorm(&x, ROWS, N, 1e-5f, a, w, w, y);
            check_row_7("layernorm", *isa, y, N);
            k->l2_normalize(&x, ROWS, N, 1e-5f, a, y);
            check_row_7("l2_normalize", *isa, y, N);
            k->swiglu(&x, ROWS, N, a, N, a, N, NULL, y);
            check_row_7("swiglu", *isa, y, N);
            k->rope(&x, ROWS, N, N, 1, true, false, 10000, position, a, y);
            check_row_7("rope", *isa, y, N);
            k->cross_entropy(&x, ROWS, N, a, target, NULL, &loss, row_loss, lse);
            check_row_7("cross_entropy", *isa, row_loss, 1);
            ck_assert_msg(!isfinite(loss), "cross_entropy, %s: NaN is lost in the mean", *isa);
            memcpy(y, a, sizeof y);
            k->cross_entropy_over(&x, ROWS, N, y, target, w, row_loss);
            check_row_7("cross_entropy_over", *isa, row_loss, 1);
            check_row_7("cross_entropy_over", *isa, y, N);
        }
}
END_TEST

START_TEST(nan_goes_through_attention)
{
    enum { T = 90, HD = 16 };
    static float q[T * 3 * HD], y[T * HD], lse[T];
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++)
        for (int few = 0; few < 2; few++) {
            mf_attention_args p = {.batch = 1,
                                   .t = few ? 5 : T,
                                   .s = few ? 5 : T,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head_dim = HD,
                                   .ldq = 3 * HD,
                                   .ldk = 3 * HD,
                                   .ldv = 3 * HD,
                                   .causal = true,
                                   .scale = 0.25f,
                                   .q = q,
                                   .k = q + HD,
                                   .v = q + 2 * HD,
                                   .y = y,
                                   .lse = lse};
            fill(q, T * 3 * HD, "q");
            q[3 * 3 * HD] = NAN; /* query 3: its own row alone */
            mf_kernels_cpu_for(*isa)->attention(&x, &p);
            ck_assert_int_eq(lost(y + 3 * HD, HD), HD);
            ck_assert_int_eq(lost(y, p.t * HD), HD);
            fill(q, T * 3 * HD, "q");
            q[3 * 3 * HD + HD] = NAN; /* key 3: all that see it */
            mf_kernels_cpu_for(*isa)->attention(&x, &p);
            ck_assert_int_eq(lost(y + 3 * HD, (p.t - 3) * HD), (int)(p.t - 3) * HD);
            ck_assert_int_eq(lost(y, 3 * HD), 0);
        }
}
END_TEST

/* ---- a row alone ---- */

START_TEST(a_row_has_the_same_bits_alone)
{
    static float a[ROWS * N], w[N], y[ROWS * N], one[N];
    static int32_t position[ROWS];
    fill(a, ROWS * N, "a");
    fill(w, N, "w");
    for (int i = 0; i < ROWS; i++)
        position[i] = 3 * i;
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        k->rmsnorm(&x, ROWS, N, 1e-5f, false, a, w, y);
        k->rmsnorm(&x, 1, N, 1e-5f, false, a + 9 * N, w, one);
        ck_assert(same(one, y + 9 * N, N));
        k->layernorm(&x, ROWS, N, 1e-5f, a, w, w, y);
        k->layernorm(&x, 1, N, 1e-5f, a + 9 * N, w, w, one);
        ck_assert(same(one, y + 9 * N, N));
        k->swiglu(&x, ROWS, N, a, N, a, N, NULL, y);
        k->swiglu(&x, 1, N, a + 9 * N, N, a + 9 * N, N, NULL, one);
        ck_assert(same(one, y + 9 * N, N));
        for (int gated = 0; gated < 2; gated++) { /* backward gives again what forward gave */
            float again[ROWS * N], da[ROWS * N], db[ROWS * N];
            k->swiglu(&x, ROWS, N, a, N, a, N, gated ? w : NULL, y);
            memcpy(again, a, sizeof again); /* over the gradient that it reads */
            k->swiglu_backward(&x, ROWS, N, a, N, a, N, gated ? w : NULL, again, da, db, NULL,
                               again);
            ck_assert(same(again, y, ROWS * N));
        }
        k->rope(&x, ROWS, N, 10, 4, false, false, 10000, position, a, y);
        k->rope(&x, 1, N, 10, 4, false, false, 10000, position + 9, a + 9 * N, one);
        ck_assert(same(one, y + 9 * N, N));
    }
}
END_TEST

/* Turning by p and back again gives what was there. */
START_TEST(rope_turns_back)
{
    static float a[ROWS * N], y[ROWS * N];
    static int32_t position[ROWS];
    fill(a, ROWS * N, "a");
    for (int i = 0; i < ROWS; i++)
        position[i] = 1000003 * i; /* far out: the angle is still known to 1e-7 */
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        k->rope(&x, ROWS, N, 10, 5, true, false, 10000, position, a, y);
        ck_assert(!same(a, y, ROWS * N));
        k->rope(&x, ROWS, N, 10, 5, true, true, 10000, position, y, y);
        for (int i = 0; i < ROWS * N; i++)
            ck_assert_float_eq_tol(y[i], a[i], 2e-6f);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("edges");
    TCase *c = tcase_create("exp");
    tcase_add_test(c, exp_is_exact_to_two_units);
    tcase_add_test(c, exp_has_its_limits);
    suite_add_tcase(s, c);
    c = tcase_create("not finite");
    tcase_add_test(c, nan_stays_in_its_row);
    tcase_add_test(c, nan_goes_through_attention);
    suite_add_tcase(s, c);
    c = tcase_create("rows");
    tcase_add_test(c, a_row_has_the_same_bits_alone);
    tcase_add_test(c, rope_turns_back);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
