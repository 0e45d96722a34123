/* check_amx.c: bf16 gemms by Intel's AMX, with loops instead of its instructions, and with the
 * instructions if the processor has them. The loops need only AVX-512 BF16. */
#include "check_main.h"

#include <math.h>
#include <string.h>

#include "amx_emulated.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernels/bf16.h"
#include "kernels/kernel.h"

typedef struct shape {
    int64_t m, n, k;
    bool trans_a, trans_b;
    mf_cast_type a, b, c;
} shape;

#define F32  MF_CAST_F32
#define BF16 MF_CAST_BF16

/* The shape determines which operand stays in the cache, which operand is read in place, and
 * how often sums are written (see kernels/cpu/simd/gemm/amx.c and amx_cost.h). */
static const shape shapes[] = {
    {70, 90, 33, false, true, BF16, BF16, F32},
    {70, 90, 34, true, false, BF16, BF16, F32},
    {64, 128, 96, false, true, BF16, BF16, F32},      /* a few lanes; rows are read in place */
    {17, 160, 64, false, true, BF16, BF16, F32},      /* the same with one row too many for
                                                  * a register */
    {48, 48, 64, false, true, BF16, BF16, BF16},      /* in place; c is rounded */
    {300, 40, 64, true, true, BF16, BF16, F32},       /* both operands must be transposed */
    {40, 1100, 64, false, false, BF16, BF16, F32},    /* more lanes than are kept at once */
    {1100, 40, 64, false, true, BF16, BF16, F32},     /* more rows than are kept at once */
    {60, 50, 4500, false, true, BF16, BF16, F32},     /* a long inner dimension: several passes
                                                       * add to c */
    {60, 50, 4500, true, false, BF16, BF16, BF16},    /* the same, but c is rounded once */
    {600, 520, 2080, false, false, BF16, BF16, BF16}, /* the same in several blocks of c */
    {70, 90, 130, false, true, F32, BF16, F32},
    {70, 90, 130, true, false, F32, BF16, BF16},
    {70, 90, 130, true, true, BF16, F32, F32},
};

/* Numbers with few bits, so that f32 sums are rounded little. */
static void *numbers(mf_cast_type type, int64_t count, uint64_t stream)
{
    float *f = mf_alloc((size_t)count, sizeof *f);
    mf_bf16 *h = mf_alloc((size_t)count, sizeof *h);
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(h);
    for (int64_t i = 0; i < count; i++)
        h[i] = mf_bf16_from_f32((float)mf_rng_uniform(3, stream, 0, (uint64_t)i) - 0.5f);
    for (int64_t i = 0; i < count; i++)
        f[i] = mf_bf16_to_f32(h[i]);
    void *kept = type == F32 ? (void *)f : h;
    mf_free(type == F32 ? (void *)h : f);
    return kept;
}

static float seen(mf_cast_type type, const void *c, int64_t i)
{
    return type == F32 ? ((const float *)c)[i] : mf_bf16_to_f32(((const mf_bf16 *)c)[i]);
}

static mf_gemm gemm_of(const shape *s, const void *a, const void *b, void *c)
{
    return (mf_gemm){
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a = {.data = a, .type = s->a, .trans = s->trans_a, .ld = s->trans_a ? s->m : s->k},
        .b = {.data = b, .type = s->b, .trans = s->trans_b, .ld = s->trans_b ? s->k : s->n},
        .c = {.data = c, .type = s->c, .ld = s->n},
        .alpha = 1};
}

static const mf_kctx context = {.parallel = mf_parallel, .threads = 2};

static const mf_kernels *kernels(void)
{
    mf_kernels_cpu();
    return mf_kernels_cpu_for("avx512");
}

/* ---- against ref ---- */

static void against_ref(const mf_kernels *k, const shape *s, float beta)
{
    const int64_t count = s->m * s->n;
    void *a = numbers(s->a, s->m * s->k, 1), *b = numbers(s->b, s->n * s->k, 2);
    void *c = numbers(s->c, count, 3), *expected = numbers(s->c, count, 3);
    float *bias = numbers(F32, s->n, 4);
    mf_gemm g = gemm_of(s, a, b, c);
    g.beta = beta;
    g.alpha = beta == 0 ? 1 : 0.5f;
    if (beta != 0) g.bias = bias;
    k->gemm(&context, &g);
    g.c.data = expected;
    mf_kernels_ref.gemm(&context, &g);
    /* for bf16, step is the relative distance to the next number, to which the sum may
     * be rounded */
    const double step = s->c == F32 ? 1e-6 : 0.0079, room = step * sqrt((double)s->k);
    for (int64_t i = 0; i < count; i++) {
        const double is = seen(s->c, c, i), want = seen(s->c, expected, i);
        ck_assert_msg(fabs(is - want) <= (s->c == F32 ? room : step * (fabs(want) + 0.1)),
                      "%d x %d x %d: element %d is %g, expected %g", (int)s->m, (int)s->n,
                      (int)s->k, (int)i, is, want);
    }
    mf_free(a);
    mf_free(b);
    mf_free(c);
    mf_free(expected);
    mf_free(bias);
}

static void all_against_ref(const mf_kernels *k)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        against_ref(k, &shapes[i], 0);
        against_ref(k, &shapes[i], 1);
    }
}

START_TEST(emulated_gemms_equal_ref)
{
    const mf_kernels *k = kernels();
    if (k == NULL || !mf_amx_emulate(true)) return;
    ck_assert(mf_amx_emulated_works());
    all_against_ref(k);
    mf_amx_emulate(false);
}
END_TEST

/* Uses AMX if the processor has it, else its emulation. */
START_TEST(gemms_equal_ref)
{
    const mf_kernels *k = kernels();
    if (k != NULL) all_against_ref(k);
}
END_TEST

/* ---- the same bits ---- */

/* least: from this number of rows on, bits do not depend on the number. */
static void same_rows(const mf_kernels *k, bool trans_a, mf_cast_type type, int64_t least)
{
    enum { M = 150, N = 96, K = 1300 };
    const shape s = {M, N, K, trans_a, true, BF16, BF16, type};
    const size_t size = type == F32 ? 4 : 2;
    void *a = numbers(BF16, M * K, 5), *b = numbers(BF16, N * K, 6);
    char *all = numbers(type, M * N, 7), *some = numbers(type, M * N, 7);
    mf_gemm g = gemm_of(&s, a, b, all);
    k->gemm(&context, &g);
    /* with fewer rows, tiling, the operand in the cache and the rows read in place change */
    for (int64_t from = 0; from < M - least; from += 23)
        for (int64_t rows = least; from + rows <= M; rows += 30) {
            g.a.data = (const mf_bf16 *)a + from * (trans_a ? 1 : K);
            g.m = rows;
            g.c.data = some;
            k->gemm(&context, &g);
            ck_assert_mem_eq(some, all + (size_t)(from * N) * size, (size_t)(rows * N) * size);
        }
    mf_free(a);
    mf_free(b);
    mf_free(all);
    mf_free(some);
}

static void same_bits(const mf_kernels *k, int64_t least)
{
    for (int i = 0; i < 4; i++)
        same_rows(k, i & 1, i & 2 ? BF16 : F32, least);
}

START_TEST(emulated_bits_depend_on_no_tiling)
{
    const mf_kernels *k = kernels();
    if (k == NULL || !mf_amx_emulate(true)) return;
    same_bits(k, 9);
    mf_amx_emulate(false);
}
END_TEST

START_TEST(bits_depend_on_no_tiling)
{
    const mf_kernels *k = kernels();
    if (k != NULL) same_bits(k, 25);
}
END_TEST

/* Packed weights with an inner dimension of several blocks, whose last words do not fill
 * a register. */
static void same_packed(const mf_kernels *k)
{
    enum { M = 40, N = 48, K = 4420 };
    const shape s = {M, N, K, false, true, BF16, BF16, F32};
    void *a = numbers(BF16, M * K, 11), *b = numbers(BF16, N * K, 12);
    float *plain = numbers(F32, M * N, 13), *packed = numbers(F32, M * N, 13);
    mf_gemm g = gemm_of(&s, a, b, plain);
    k->gemm(&context, &g);
    ck_assert(k->can_pack(BF16, N, K));
    MF_RUN(k, &context, pack_weights, .type = BF16, .parts = 1, .n = N, .k = K, .w = b);
    g.c.data = packed;
    g.b.packed = true;
    k->gemm(&context, &g);
    ck_assert_mem_eq(packed, plain, M * N * sizeof *plain);
    mf_free(a);
    mf_free(b);
    mf_free(plain);
    mf_free(packed);
}

START_TEST(packed_weights_have_the_same_bits)
{
    const mf_kernels *k = kernels();
    if (k == NULL || !mf_amx_emulate(true)) return;
    same_packed(k);
    mf_amx_emulate(false);
    same_packed(k);
}
END_TEST

/* A NaN or an infinity affects only its own row. */
static void keeps_apart(const mf_kernels *k)
{
    enum { M = 37, N = 50, K = 70 };
    const shape s = {M, N, K, false, true, BF16, BF16, F32};
    mf_bf16 *a = numbers(BF16, M * K, 8), *b = numbers(BF16, N * K, 9);
    float *c = numbers(F32, M * N, 10);
    a[20 * K + 69] = 0x7fc0; /* NaN in the last words, beside the zeros of the padding */
    a[36 * K] = 0x7f80;      /* infinity in the last row */
    mf_gemm g = gemm_of(&s, a, b, c);
    k->gemm(&context, &g);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            const float is = c[i * N + j];
            ck_assert_msg(i == 20   ? isnan(is)
                          : i == 36 ? isinf(is)
                                    : isfinite(is),
                          "row %d, column %d: %g", (int)i, (int)j, (double)is);
        }
    mf_free(a);
    mf_free(b);
    mf_free(c);
}

START_TEST(rows_do_not_reach_others)
{
    const mf_kernels *k = kernels();
    if (k == NULL) return;
    keeps_apart(k);
    if (!mf_amx_emulate(true)) return;
    keeps_apart(k);
    mf_amx_emulate(false);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("amx");
    TCase *c = tcase_create("gemms");
    tcase_add_test(c, emulated_gemms_equal_ref);
    tcase_add_test(c, gemms_equal_ref);
    tcase_add_test(c, emulated_bits_depend_on_no_tiling);
    tcase_add_test(c, bits_depend_on_no_tiling);
    tcase_add_test(c, packed_weights_have_the_same_bits);
    tcase_add_test(c, rows_do_not_reach_others);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
