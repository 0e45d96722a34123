/* edges: the fast kernels at limits of numbers: the accuracy of exp, Inf and NaN, and that rows
 * do not depend on their neighbours. */
#include "check_main.h"

#include <math.h>
#include <string.h>

#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernels/kernel.h"

static const mf_kctx x = {
    .parallel = mf_parallel, .rng_block = mf_rng_block, .key = &(mf_draw_key){1, 1}};

static void fill(float *a, int64_t n, const char *stream)
{
    mf_rng_fill_normal(3, mf_rng_stream(stream), 0, a, (size_t)n);
}

static bool same(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Number of elements that are not finite. */
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
        MF_RUN(mf_kernels_cpu_for(*isa), &x, map1, .fn = MF_MAP_EXP, .type = MF_CAST_F32,
               .n = POINTS, .a = 0, .b = 0, .in = points, .out = results);
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
        MF_RUN(mf_kernels_cpu_for(*isa), &x, map1, .fn = MF_MAP_EXP, .type = MF_CAST_F32,
               .n = 10, .a = 0, .b = 0, .in = in, .out = y);
        for (int i = 0; i < 10; i++)
            ck_assert_msg(isnan(want[i]) ? isnan(y[i]) : y[i] == want[i], "%s: exp(%g) = %g",
                          *isa, (double)in[i], (double)y[i]);
    }
}
END_TEST

/* ---- NaN and Inf ---- */

enum { ROWS = 40, N = 50 };

/* Row 7 of a contains a NaN or Inf. Only row 7 of the result may contain values that are
 * not finite. */
static void check_row_7(const char *what, const char *isa, const float *y, int64_t n)
{
    ck_assert_msg(lost(y + 7 * n, n) > 0, "%s, %s: NaN is lost", what, isa);
    ck_assert_msg(lost(y, 7 * n) == 0 && lost(y + 8 * n, (ROWS - 8) * n) == 0,
                  "%s, %s: NaN reaches rows that have none", what, isa);
}

/* Computes y [rows,N] = a w^T. */
static void linear(const mf_kernels *k, int64_t rows, const float *a, const float *w, float *y)
{
    const mf_gemm g = {.m = rows,
                       .n = N,
                       .k = N,
                       .a = {.data = a, .ld = N},
                       .b = {.data = w, .trans = true, .ld = N},
                       .c = {.data = y, .ld = N},
                       .alpha = 1};
    k->gemm(&x, &g);
}

/* Rotates the first `heads` heads of the rows of a [rows,N]. how: HALF: pairs are (i, i +
 * head_dim / 2); BACK: the rotation is inverse. */
enum { HALF = 1, BACK = 2 };
static void rope(const mf_kernels *k, int64_t rows, int64_t head_dim, int64_t heads, int how,
                 const int32_t *position, const float *a, float *y)
{
    const mf_rope_args args = {.rows = rows,
                               .width = N,
                               .head_dim = head_dim,
                               .n_heads = heads,
                               .turned = head_dim,
                               .half = how & HALF,
                               .inverse = how & BACK,
                               .theta = 10000,
                               .magnitude = 1,
                               .position = position,
                               .a = a,
                               .y = y};
    k->rope(&x, &args);
}

static void norm(const mf_kernels *k, mf_norm_fn kind, int64_t rows, const float *a,
                 const float *w, float *y)
{
    const mf_norm_args args = {.kind = kind,
                               .rows = rows,
                               .n = N,
                               .eps = 1e-5f,
                               .a = a,
                               .w = w,
                               .b = kind == MF_NORM_FN_LAYER ? w : NULL,
                               .y = y};
    k->norm(&x, &args);
}

/* Computes the mean loss of a head whose weight is the identity, and the gradient of a. */
static void head(const mf_kernels *k, const float *a, const int32_t *target, float *dx,
                 float *loss)
{
    static float identity[N * N], work[ROWS * (3 * N + 5) + N + 512];
    for (int i = 0; i < N; i++)
        identity[i * N + i] = 1;
    ck_assert_uint_le(mf_linear_cross_entropy_work(ROWS, N, N, MF_CAST_F32, 0, true, false),
                      sizeof work);
    const mf_linear_cross_entropy_args args = {.rows = ROWS,
                                               .d = N,
                                               .vocab = N,
                                               .x = a,
                                               .w = identity,
                                               .target = target,
                                               .loss = loss,
                                               .dx = dx,
                                               .work = work};
    k->linear_cross_entropy(&x, &args);
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
            linear(k, ROWS, a, w, y);
            check_row_7("linear", *isa, y, N);
            linear(k, 9, a, w, y);
            ck_assert(lost(y, 7 * N) == 0 && lost(y + 7 * N, N) > 0 && lost(y + 8 * N, N) == 0);
            norm(k, MF_NORM_FN_RMS, ROWS, a, w, y);
            check_row_7("rmsnorm", *isa, y, N);
            norm(k, MF_NORM_FN_LAYER, ROWS, a, w, y);
            check_row_7("layernorm", *isa, y, N);
            norm(k, MF_NORM_FN_L2, ROWS, a, NULL, y);
            check_row_7("l2_normalize", *isa, y, N);
            MF_RUN(k, &x, swiglu, .type = MF_CAST_F32, .rows = ROWS, .n = N, .a = a, .lda = N,
                   .b = a, .ldb = N, .y = y);
            check_row_7("swiglu", *isa, y, N);
            rope(k, ROWS, N, 1, HALF, position, a, y);
            check_row_7("rope", *isa, y, N);
            MF_RUN(k, &x, cross_entropy, .rows = ROWS, .n = N, .logits = a, .target = target,
                   .loss = &loss, .row_loss = row_loss, .lse = lse);
            check_row_7("cross_entropy", *isa, row_loss, 1);
            ck_assert_msg(!isfinite(loss), "cross_entropy, %s: NaN is lost in the mean", *isa);
            head(k, a, target, y, &loss);
            check_row_7("linear_cross_entropy", *isa, y, N);
            ck_assert_msg(!isfinite(loss), "linear_cross_entropy, %s: NaN is lost", *isa);
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
            q[3 * 3 * HD] = NAN; /* changes only the output of query 3 */
            mf_kernels_cpu_for(*isa)->attention(&x, &p);
            ck_assert_int_eq(lost(y + 3 * HD, HD), HD);
            ck_assert_int_eq(lost(y, p.t * HD), HD);
            fill(q, T * 3 * HD, "q");
            q[3 * 3 * HD + HD] = NAN; /* changes the outputs of all queries that see key 3 */
            mf_kernels_cpu_for(*isa)->attention(&x, &p);
            ck_assert_int_eq(lost(y + 3 * HD, (p.t - 3) * HD), (int)(p.t - 3) * HD);
            ck_assert_int_eq(lost(y, 3 * HD), 0);
        }
}
END_TEST

/* ---- a single row ---- */

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
        norm(k, MF_NORM_FN_RMS, ROWS, a, w, y);
        norm(k, MF_NORM_FN_RMS, 1, a + 9 * N, w, one);
        ck_assert(same(one, y + 9 * N, N));
        norm(k, MF_NORM_FN_LAYER, ROWS, a, w, y);
        norm(k, MF_NORM_FN_LAYER, 1, a + 9 * N, w, one);
        ck_assert(same(one, y + 9 * N, N));
        MF_RUN(k, &x, swiglu, .type = MF_CAST_F32, .rows = ROWS, .n = N, .a = a, .lda = N,
               .b = a, .ldb = N, .y = y);
        MF_RUN(k, &x, swiglu, .type = MF_CAST_F32, .rows = 1, .n = N, .a = a + 9 * N, .lda = N,
               .b = a + 9 * N, .ldb = N, .y = one);
        ck_assert(same(one, y + 9 * N, N));
        /* backward recomputes the same bits as forward */
        for (int gated = 0; gated < 2; gated++) {
            float again[ROWS * N], da[ROWS * N], db[ROWS * N];
            MF_RUN(k, &x, swiglu, .type = MF_CAST_F32, .rows = ROWS, .n = N, .a = a, .lda = N,
                   .b = a, .ldb = N, .gate = gated ? w : NULL, .y = y);
            memcpy(again, a, sizeof again); /* first the gradient of y, in place, then y */
            MF_RUN(k, &x, swiglu_backward, .type = MF_CAST_F32, .rows = ROWS, .n = N, .a = a,
                   .lda = N, .b = a, .ldb = N, .gate = gated ? w : NULL, .dy = again, .da = da,
                   .db = db, .y = again);
            ck_assert(same(again, y, ROWS * N));
        }
        rope(k, ROWS, 10, 4, 0, position, a, y);
        rope(k, 1, 10, 4, 0, position + 9, a + 9 * N, one);
        ck_assert(same(one, y + 9 * N, N));
    }
}
END_TEST

/* Rotation by p and by -p restores the values. */
START_TEST(rope_turns_back)
{
    static float a[ROWS * N], y[ROWS * N];
    static int32_t position[ROWS];
    fill(a, ROWS * N, "a");
    for (int i = 0; i < ROWS; i++)
        position[i] = 1000003 * i; /* far positions: the angle is still exact to 1e-7 */
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        rope(k, ROWS, 10, 5, HALF, position, a, y);
        ck_assert(!same(a, y, ROWS * N));
        rope(k, ROWS, 10, 5, HALF | BACK, position, y, y);
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
