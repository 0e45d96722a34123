/* check_kernels: compares every kernel of `cpu` with `ref` (see kernel_case.h). */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernel_case.h"
#include "kernels/ref/ref.h"
#include "amx_emulated.h"
#include "tests/lib/device.h"

/* One array for each family of kernels. Each array ends with an entry whose name is NULL. */
static const struct family {
    const char *name;
    const mf_kernel_row *rows;
    int every; /* one of so many variants is tested; with MOEFW_SLOW all are */
} families[] = {
    {"aligned", mf_kernel_cases_aligned, 1},
    {"attention", mf_kernel_cases_attention, 1},
    {"bf16", mf_kernel_cases_bf16, 1},
    {"gemm", mf_kernel_cases_gemm, 1},
    {"layers", mf_kernel_cases_layers, 1},
    {"maps", mf_kernel_cases_maps, 1},
    {"routing", mf_kernel_cases_routing, 1},
    {"stored", mf_kernel_cases_stored, 3}, /* its types are many, and their order has no 3 */
    {"token", mf_kernel_cases_token, 1},
    {"wide", mf_kernel_cases_wide, 1},
};

static const char *const names[] = {
#define MF_KERNEL(fn, ...) #fn,
#include "kernels/kernels.def"
};

/* ---- runs and comparison ---- */

/* Runs a case. faulted: an earlier launch has recorded a fault. */
static void run_after(mf_kt *t, const mf_kernel_row *row, const mf_kernels *k, int variant,
                      bool whole, bool faulted)
{
    static const mf_draw_key key = {.seed = 7, .step = 3};
    static mf_kctx x;
    memset(t, 0, sizeof *t);
    x = (mf_kctx){.parallel = mf_parallel,
                  .rng_block = mf_rng_block,
                  .key = &key,
                  .threads = mf_parallel_threads(),
                  .fault = &t->fault,
                  .node = 5};
    t->k = k == &mf_kernels_ref ? k : mf_kernels_launched(t, k);
    t->x = &x;
    t->variant = variant;
    t->whole = whole;
    if (faulted) t->fault = (mf_fault){.kind = MF_FAULT_RANGE, .node = 1};
    row->run(t);
}

static void run(mf_kt *t, const mf_kernel_row *row, const mf_kernels *k, int variant,
                bool whole)
{
    run_after(t, row, k, variant, whole, false);
}

static void drop(mf_kt *t)
{
    for (int i = 0; i < t->n_blocks; i++)
        mf_free(t->block[i]);
}

static bool same_bits(const mf_kt *a, const mf_kt *b)
{
    bool same = a->n_results == b->n_results;
    for (int i = 0; same && i < a->n_results; i++)
        same =
            a->result[i].count == b->result[i].count &&
            memcmp(a->result[i].data, b->result[i].data, (size_t)a->result[i].count * 4) == 0;
    return same;
}

/* Returns the largest difference, relative to the largest element of its result. Integers must
 * be equal, and NaN and Inf must be at the same positions. Otherwise it returns infinity. */
static double difference(const mf_kt *a, const mf_kt *b)
{
    double worst = 0;
    for (int i = 0; i < a->n_results; i++) {
        if (a->result[i].is_int) {
            if (memcmp(a->result[i].data, b->result[i].data, (size_t)a->result[i].count * 4) !=
                0)
                return INFINITY;
            continue;
        }
        const float *u = a->result[i].data, *v = b->result[i].data;
        double largest = 1e-30, off = 0;
        for (int64_t j = 0; j < a->result[i].count; j++) {
            if (isfinite(u[j]) && fabs(u[j]) > largest) largest = fabs(u[j]);
            if (isnan(u[j]) != isnan(v[j]) || (!isfinite(u[j]) && !isnan(u[j]) && u[j] != v[j]))
                return INFINITY;
            if (isfinite(u[j])) off = fmax(off, fabs((double)u[j] - v[j]));
        }
        worst = fmax(worst, off / largest);
    }
    return worst;
}

static void compare_with(mf_kt *ref, const mf_kernel_row *row, int variant, bool whole,
                         const char *isa)
{
    static const int threads[] = {1, 2, 4};
    mf_kt first, t;
    const int counts = mf_test_device() ? 1 : 3; /* a device does not use these threads */
    for (int i = 0; i < counts; i++) {
        mf_parallel_set_threads(threads[i]);
        run(&t, row, mf_kernels_cpu_for(isa), variant, whole);
        if (i == 0) {
            first = t;
            const bool rounds = row->tol > 1e-3 && kt_by_library(row);
            const bool exact = whole && row->exact && !rounds;
            double off = difference(ref, &t), tol = exact ? 0 : row->tol;
            ck_assert_msg(off <= tol,
                          "%s variant %d, %s, %s numbers: off by %g, expected <= %g",
                          row->kernel, variant, isa, whole ? "whole" : "broken", off, tol);
            ck_assert_msg(!exact || same_bits(ref, &t) || off == 0,
                          "%s variant %d, %s: other bits than ref", row->kernel, variant, isa);
            continue;
        }
        ck_assert_msg(same_bits(&first, &t),
                      "%s variant %d, %s: %d threads give other bits than 1", row->kernel,
                      variant, isa, threads[i]);
        drop(&t);
    }
    drop(&first);
}

/* Compares the instruction sets `isas`, a list that ends with NULL, with ref. ref is the
 * slowest, so it runs only once for all of them. */
static void compare(const mf_kernel_row *row, int variant, bool whole, const char *const *isas)
{
    mf_kt ref;
    run(&ref, row, &mf_kernels_ref, variant, whole);
    ck_assert_msg(ref.n_results > 0, "%s: the row names no result", row->kernel);
    for (; *isas != NULL; isas++)
        compare_with(&ref, row, variant, whole, *isas);
    drop(&ref);
}

/* After a fault, a kernel that follows indices or offsets must write nothing, like ref. */
static void compare_after_fault(const mf_kernel_row *row, const char *isa)
{
    mf_kt ref, t;
    run_after(&ref, row, &mf_kernels_ref, 0, true, true);
    run_after(&t, row, mf_kernels_cpu_for(isa), 0, true, true);
    double off = difference(&ref, &t);
    if (off > row->tol && kt_by_library(row)) {
        drop(&ref);
        run(&ref, row, &mf_kernels_ref, 0, true);
        off = difference(&ref, &t);
    }
    ck_assert_msg(off <= row->tol, "%s, %s, after a fault: off by %g, expected <= %g",
                  row->kernel, isa, off, row->tol);
    drop(&t);
    drop(&ref);
}

/* A number from the environment, but not less than `least`. Without the variable it
 * is `least`. */
static int setting(const char *name, int least)
{
    const int value = getenv(name) ? atoi(getenv(name)) : least;
    return value > least ? value : least;
}

/* Compares one of `every` variants. MOEFW_TEST_EVERY=N: one of N of these. MOEFW_TEST_PART=P:
 * run P of 0 to 5; each run uses other variants if there are enough. */
static void compare_sets(const mf_kernel_row *row, const char *const *isas, int every)
{
    const int step = every * setting("MOEFW_TEST_EVERY", 1);
    const int part = setting("MOEFW_TEST_PART", 0);
    const int room = row->variants < step ? row->variants : step;
    const int from = room < 6 ? part % room : part * room / 6;
    ck_assert_int_lt(part, 6);
    for (const char *const *isa = isas; *isa != NULL; isa++)
        compare_after_fault(row, *isa);
    for (int variant = from; variant < row->variants; variant += step)
        for (int whole = 0; whole < 2; whole++)
            compare(row, variant, whole != 0, isas);
}

static void compare_some(const mf_kernel_row *row, const char *isa, int every)
{
    const char *const one[] = {isa, NULL};
    compare_sets(row, one, every);
}

static void compare_row(const mf_kernel_row *row, int every)
{
    const char *const *isas = mf_kernels_isas();
    if (getenv("MOEFW_SLOW")) every = 1;
    if (mf_test_device())
        compare_some(row, isas[0], every); /* a device has one set of instructions */
    else
        compare_sets(row, isas, every);
}

/* Compares bf16 gemms by Intel's AMX, with loops instead of its instructions, with ref. */
START_TEST(gemms_by_amx)
{
    if (!mf_amx_emulate(true)) return;
    ck_assert(mf_amx_emulated_works());
    for (const mf_kernel_row *row = mf_kernel_cases_gemm; row->kernel != NULL; row++)
        if (strcmp(row->kernel, "gemm") == 0 && row->tol > 1e-3) compare_some(row, "avx512", 1);
    mf_amx_emulate(false);
}
END_TEST

/* The same comparison for gemms with stored weights. */
START_TEST(stored_gemms_by_amx)
{
    if (!mf_amx_emulate(true)) return;
    mf_test_stored_special(mf_kernels_cpu_for("avx512"), "emulation");
    for (const mf_kernel_row *row = mf_kernel_cases_stored; row->kernel != NULL; row++)
        if (strcmp(row->kernel, "stored_gemm") == 0 && row->tol > 1e-4)
            compare_some(row, "avx512", 3);
    compare_some(mf_kernel_cases_stored_many, "avx512", 7);
    mf_amx_emulate(false);
}
END_TEST

/* The same comparison for attention of bf16 and its gradient. */
START_TEST(attention_by_amx)
{
    if (!mf_amx_emulate(true)) return;
    for (const mf_kernel_row *row = mf_kernel_cases_attention; row->kernel != NULL; row++)
        if (strncmp(row->kernel, "attention", 9) == 0) compare_some(row, "avx512", 1);
    mf_amx_emulate(false);
}
END_TEST

/* Stored gemms with many rows of bf16, with the instructions of this processor. */
START_TEST(many_rows_of_stored_gemms)
{
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++)
        mf_test_stored_special(mf_kernels_cpu_for(*isa), *isa);
    compare_some(mf_kernel_cases_stored_many, mf_kernels_isas()[0], 3);
}
END_TEST

START_TEST(few_rows_are_rounded_as_promised)
{
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++)
        mf_test_stored_few(mf_kernels_cpu_for(*isa), *isa);
}
END_TEST

/* For each BLAS library that can be loaded: its gemms must agree with the reference kernels.
 * This includes gemms for which our own kernels are used instead of the library. */
START_TEST(gemms_by_library)
{
    const char *name = mf_kernels_gemms()[_i];
    mf_kernel_row row;
    mf_kernels_cpu();
    ck_assert_msg(mf_kernels_use_gemm(name), "%s is missing", name);
    ck_assert_str_eq(mf_kernels_gemm(), name);
    for (int i = 0; mf_kernel_cases_gemm[i].kernel != NULL; i++) {
        row = mf_kernel_cases_gemm[i];
        row.tol *= 4; /* a library may compute a long sum as one chain */
        compare_some(&row, mf_kernels_isas()[0], 1);
    }
    for (int i = 0; mf_kernel_cases_many[i].kernel != NULL; i++)
        compare_some(&mf_kernel_cases_many[i], mf_kernels_isas()[0], 1);
    ck_assert(mf_kernels_use_gemm(NULL));
}
END_TEST

START_TEST(libraries_are_chosen_by_name)
{
    mf_kernels_cpu();
    ck_assert(!mf_kernels_use_gemm("mkl"));
    ck_assert_ptr_null(mf_kernels_gemm_refused());
    ck_assert(mf_kernels_use_gemm("openblas"));
    ck_assert_str_eq(mf_kernels_gemm(), "openblas");
    ck_assert(mf_kernels_use_gemm(""));
}
END_TEST

/* Whether this run tests a kernel. MOEFW_TEST_KERNELS lists names, separated by blanks; without
 * it all are tested. */
static bool chosen(const char *name)
{
    const char *list = getenv("MOEFW_TEST_KERNELS"), *at = list;
    const size_t n = strlen(name);
    if (!list) return true;
    for (; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
    return false;
}

START_TEST(kernel)
{
    const char *only = getenv("MOEFW_TEST_FAMILY"); /* chooses the cases of one file */
    int found = 0, known = !only;
    if (!chosen(names[_i])) return;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        known = known || strcmp(only, families[f].name) == 0;
        for (const mf_kernel_row *row = families[f].rows; row->kernel != NULL; row++)
            if (strcmp(row->kernel, names[_i]) == 0) {
                if (!only || strcmp(only, families[f].name) == 0)
                    compare_row(row, families[f].every);
                found++;
            }
    }
    ck_assert_msg(known, "MOEFW_TEST_FAMILY: no cases are named %s", only);
    ck_assert_msg(
        found > 0,
        "kernel %s has no case in tests/unit/kernels/kernel_cases_*.c (see kernel_case.h)",
        names[_i]);
}
END_TEST

/* Short rows are processed VL at a time, one per lane, or one by one if they are few. Both
 * methods must compute the same bits. */
START_TEST(short_rows_have_the_bits_that_they_have_alone)
{
    enum { ROWS = 37, LONGEST = 33, K = 3 };
    const mf_kctx x = {.parallel = mf_parallel};
    float in[ROWS * LONGEST], all[ROWS * LONGEST], one[LONGEST];
    int32_t best[ROWS * K], best_one[K];
    for (int i = 0; i < ROWS * LONGEST; i++) /* the values contain ties */
        in[i] = (float)mf_rng_below(5, 6, 0, (uint64_t)i, 9) * 0.37f - 1;
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        for (int n = K; n <= LONGEST; n++) {
            MF_RUN(k, &x, row_map, .fn = MF_ROW_SOFTMAX, .rows = ROWS, .n = n, .in = in,
                   .out = all);
            MF_RUN(k, &x, topk, .n = ROWS, .width = n, .k = K, .in = in, .out = best);
            for (int r = 0; r < ROWS; r++) {
                MF_RUN(k, &x, row_map, .fn = MF_ROW_SOFTMAX, .rows = 1, .n = n,
                       .in = in + r * n, .out = one);
                MF_RUN(k, &x, topk, .n = 1, .width = n, .k = K, .in = in + r * n,
                       .out = best_one);
                ck_assert_mem_eq(one, all + r * n, (size_t)n * sizeof *one);
                ck_assert_mem_eq(best_one, best + r * K, sizeof best_one);
            }
        }
    }
}
END_TEST

/* Scores of 2e10 have an ulp of 2048. So a recomputed score can be far above the lse of the
 * forward pass. */
START_TEST(gradients_of_huge_scores_are_finite)
{
    enum { T = 70, HD = 64, N = T * HD };
    const mf_kctx x = {.parallel = mf_parallel};
    static float q[N], k[N], v[N], y[N], dy[N], dq[N], dk[N], dv[N], lse[T];
    for (int i = 0; i < N; i++) {
        q[i] = ((float)mf_rng_below(1, 1, 0, (uint64_t)i, 2001) - 1000) * 100;
        k[i] = ((float)mf_rng_below(2, 1, 0, (uint64_t)i, 2001) - 1000) * 100;
        v[i] = (float)mf_rng_below(3, 1, 0, (uint64_t)i, 9) - 4;
        dy[i] = (float)mf_rng_below(4, 1, 0, (uint64_t)i, 9) - 4;
    }
    bool as_bf16 = false;
    for (const char *const *isa = mf_kernels_isas();; isa += as_bf16, as_bf16 = !as_bf16) {
        const mf_kernels *set = *isa ? mf_kernels_cpu_for(*isa) : &mf_kernels_ref;
        mf_attention_args p = {.as_bf16 = as_bf16,
                               .batch = 1,
                               .t = T,
                               .s = T,
                               .heads = 1,
                               .kv_heads = 1,
                               .head_dim = HD,
                               .ldq = HD,
                               .ldk = HD,
                               .ldv = HD,
                               .causal = true,
                               .scale = 1,
                               .q = q,
                               .k = k,
                               .v = v,
                               .y = y,
                               .lse = lse};
        set->attention(&x, &p);
        p.dy = dy, p.dq = dq, p.dk = dk, p.dv = dv;
        set->attention_backward(&x, &p);
        float most = 0;
        for (int i = 0; i < N; i++) {
            ck_assert_msg(isfinite(dq[i]) && isfinite(dk[i]) && isfinite(dv[i]), "%s",
                          *isa ? *isa : "ref");
            most = fmaxf(most, fabsf(dv[i]));
        }
        ck_assert_float_gt(most, 1);
        if (!*isa) break;
    }
}
END_TEST

/* Files align tensors only to the size of their elements. So a matrix may begin anywhere in a
 * cache line and may end at the end of the mapping. The results must have the same bits at
 * every alignment, and no byte outside the matrix may be used. */
START_TEST(stored_rows_have_the_same_bits_wherever_they_lie)
{
    enum { PAGE = 65536, OUT = 5, IN = 203, ROWS = 3 };
    const mf_kctx x = {.parallel = mf_parallel};
    float in[ROWS * IN], y[ROWS * OUT], first[ROWS * OUT];
    char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    for (int i = 0; i < ROWS * IN; i++)
        in[i] = (float)mf_rng_uniform(5, 9, 0, (uint64_t)i) - 0.5f;
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++)
        for (mf_stored_type type = MF_STORED_F32; type <= MF_STORED_F16; type++) {
            const int size = type == MF_STORED_F32 ? 4 : 2;
            for (int shift = 0; shift <= 64 / size; shift++) {
                /* the shift is from the beginning of the pages; the last case ends at
                 * their end */
                char *at = pages + PAGE + shift * size;
                if (shift * size == 64) at = pages + 2 * PAGE - OUT * IN * size;
                for (int i = 0; i < OUT * IN; i++) { /* values 1.xx and 2.xx in each type */
                    const uint32_t bits = (uint32_t)mf_rng_below(5, 10, 0, (uint64_t)i, 512);
                    const uint16_t h = (uint16_t)(0x3f80 + bits % 256);
                    if (size == 2)
                        memcpy(at + 2 * i, &h, 2);
                    else
                        memcpy(at + 4 * i, &(float){1 + (float)bits / 512}, 4);
                }
                const mf_stored_part part = {.type = type, .rows = OUT, .ld = IN, .data = at};
                const mf_stored w = {
                    .groups = 1, .out = OUT, .in = IN, .parts = 1, .part = &part};
                mf_kernels_cpu_for(*isa)->stored_gemm(&x, &(mf_stored_gemm_args){.w = &w,
                                                                                 .rows = ROWS,
                                                                                 .x = in,
                                                                                 .ldx = IN,
                                                                                 .alpha = 1,
                                                                                 .y = y,
                                                                                 .ldy = OUT});
                if (shift == 0) memcpy(first, y, sizeof y);
                ck_assert_mem_eq(first, y, sizeof y);
                memset(pages + PAGE, 0x7f, PAGE); /* bytes beside the matrix, which are NaN if
                                                   * they are used */
            }
        }
    munmap(pages, 3 * PAGE);
}
END_TEST

/* ---- bf16 inputs with GPTQ weights: kernels may round the inputs (kernels/stored.h) ---- */

enum { BF16_GROUPS = 3, BF16_ROWS = 86, BF16_OUT = 1096, BF16_IN = 264, BF16_SIZE = 64 };
/* the second group is empty; the first has more rows than a kernel processes at once */
static const int32_t bf16_offset[] = {0, 71, 71, BF16_ROWS};

/* Numbers of very different sizes. */
static uint16_t bf16_number(int i)
{
    const double u = mf_rng_uniform(6, 1, 0, (uint64_t)i),
                 v = mf_rng_uniform(6, 2, 0, (uint64_t)i);
    return mf_bf16_from_f32((float)((u - 0.5) * exp(-8 * v)));
}

/* Converts a row of x to doubles, rounded in the way kernels may round it: every group of 128
 * numbers is rounded to multiples of one power of 2, with factors of at most about m. m = 0:
 * not rounded. */
static void bf16_row(const uint16_t *x, double m, double *to)
{
    for (int i = 0; i < BF16_IN; i += 128) {
        const int end = i + 128 < BF16_IN ? i + 128 : BF16_IN;
        double largest = 0, s = 1;
        for (int k = i; k < end; k++) {
            to[k] = (double)mf_bf16_to_f32(x[k]);
            largest = fmax(largest, fabs(to[k]));
        }
        while (m > 0 && largest > m * s)
            s *= 2;
        while (largest > 0 && 2 * largest <= m * s)
            s /= 2;
        for (int k = i; m > 0 && k < end; k++)
            to[k] = s * rint(to[k] / s);
    }
}

static void bf16_run(const mf_kernels *k, const mf_stored *w, int groups, int first, int rows,
                     const uint16_t *x, float *y)
{
    const mf_kctx c = {.parallel = mf_parallel};
    const mf_stored all = {groups, w->out, w->in, 1, w->part + (groups > 1 ? 0 : first), NULL};
    const mf_stored_gemm_args g = {.w = &all,
                                   .rows = rows,
                                   .x = x,
                                   .bf16 = true,
                                   .ldx = w->in,
                                   .offset = groups > 1 ? bf16_offset : NULL,
                                   .alpha = 1,
                                   .y = y,
                                   .ldy = w->out};
    k->stored_gemm(&c, &g);
}

/* Largest difference of row r of y from the formula, as a share of the row's largest number. */
static double bf16_distance(const mf_stored *w, int r, const uint16_t *x, const float *y,
                            double m)
{
    double row[BF16_IN], most = 0, off = 0;
    bf16_row(x + r * BF16_IN, m, row);
    for (int j = 0; j < BF16_OUT; j++) {
        double sum = 0;
        for (int i = 0; i < BF16_IN; i++)
            sum += row[i] * mf_ref_stored_weight(w, r < bf16_offset[1] ? 0 : 2, j, i);
        most = fmax(most, fabs(sum));
        off = fmax(off, fabs(sum - (double)y[r * BF16_OUT + j]));
    }
    return off / most;
}

START_TEST(rows_of_bf16_are_rounded_as_promised)
{
    enum { WORDS = BF16_IN / 8 * BF16_OUT, SIZES = (BF16_IN + BF16_SIZE - 1) / BF16_SIZE };
    uint32_t *words = malloc(BF16_GROUPS * WORDS * sizeof *words);
    uint32_t *zeros = malloc(SIZES * BF16_OUT / 8 * sizeof *zeros);
    uint16_t *scales = malloc(SIZES * BF16_OUT * sizeof *scales),
             *x = malloc(BF16_ROWS * BF16_IN * sizeof *x);
    float *y = malloc(2 * BF16_ROWS * BF16_OUT * sizeof *y), *alone = y + BF16_ROWS * BF16_OUT;
    mf_stored_part part[BF16_GROUPS];
    const mf_stored w = {BF16_GROUPS, BF16_OUT, BF16_IN, 1, part, NULL};
    for (int i = 0; i < BF16_GROUPS * WORDS; i++)
        words[i] = (uint32_t)mf_rng_below(6, 3, 0, (uint64_t)i, 1u << 31) << 1;
    for (int i = 0; i < SIZES * BF16_OUT / 8; i++)
        zeros[i] = (uint32_t)mf_rng_below(6, 4, 0, (uint64_t)i, 1u << 31) << 1;
    for (int i = 0; i < SIZES * BF16_OUT; i++) /* f16 from 1/256 to 1/64 */
        scales[i] = (uint16_t)(0x1c00 + mf_rng_below(6, 5, 0, (uint64_t)i, 0x800));
    for (int i = 0; i < BF16_ROWS * BF16_IN; i++)
        x[i] = bf16_number(i);
    for (int e = 0; e < BF16_GROUPS; e++)
        part[e] = (mf_stored_part){.type = MF_STORED_GPTQ4,
                                   .rows = BF16_OUT,
                                   .data = words + e * WORDS,
                                   .zeros = zeros,
                                   .scales = scales,
                                   .groups = SIZES,
                                   .group_size = BF16_SIZE};
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        bf16_run(k, &w, BF16_GROUPS, 0, BF16_ROWS, x, y);
        for (int r = 0; r < BF16_ROWS; r += 5) {
            const double exact = bf16_distance(&w, r, x, y, 0),
                         rounded = bf16_distance(&w, r, x, y, MF_STORED_MOST),
                         less = bf16_distance(&w, r, x, y, MF_STORED_MOST_16);
            ck_assert_msg(fmin(exact, fmin(rounded, less)) < 2e-6,
                          "%s, row %d: off by %g, %g and %g", *isa, r, exact, rounded, less);
        }
        /* the last group, and 14 rows of the first group, have the same bits if they are
         * computed alone */
        bf16_run(k, &w, 1, 2, BF16_ROWS - 71, x + 71 * BF16_IN, alone);
        ck_assert_mem_eq(alone, y + 71 * BF16_OUT, 15 * BF16_OUT * sizeof *y);
        bf16_run(k, &w, 1, 0, 14, x + 50 * BF16_IN, alone);
        ck_assert_mem_eq(alone, y + 50 * BF16_OUT, 14 * BF16_OUT * sizeof *y);
        /* for few rows: the same rows alone have the same bits */
        for (int n = 1; n <= 7; n++) {
            float *few = alone + 50 * BF16_OUT;
            bf16_run(k, &w, 1, 0, n, x + 50 * BF16_IN, few);
            for (int r = 50; r < 50 + n; r++) {
                const double exact = bf16_distance(&w, r, x, alone, 0),
                             rounded = bf16_distance(&w, r, x, alone, MF_STORED_MOST_DIGITS);
                ck_assert_msg(fmin(exact, rounded) < 2e-6, "%s, %d rows: off by %g and %g",
                              *isa, n, exact, rounded);
            }
            bf16_run(k, &w, 1, 0, 1, x + (49 + n) * BF16_IN, alone);
            ck_assert_mem_eq(alone, few + (n - 1) * BF16_OUT, BF16_OUT * sizeof *y);
        }
        /* a number that is not finite affects only its row */
        const uint16_t before = x[60 * BF16_IN + 200];
        x[60 * BF16_IN + 200] = 0x7f80;
        bf16_run(k, &w, BF16_GROUPS, 0, BF16_ROWS, x, alone);
        x[60 * BF16_IN + 200] = before;
        for (int j = 0; j < BF16_OUT; j++)
            ck_assert(!isfinite(alone[60 * BF16_OUT + j]));
        memcpy(alone + 60 * BF16_OUT, y + 60 * BF16_OUT, BF16_OUT * sizeof *y);
        ck_assert_mem_eq(alone, y, BF16_ROWS * BF16_OUT * sizeof *y);
    }
    free(words), free(zeros), free(scales), free(x), free(y);
}
END_TEST

/* Packed and unpacked weights lead to the same bits, with few rows and with many. */
START_TEST(packing_changes_no_bit)
{
    enum { ROWS = 29, N = 80, K = 1300 };
    const mf_kctx x = {.parallel = mf_parallel};
    float *a = mf_alloc(ROWS * K, sizeof *a), *w = mf_alloc(N * K, sizeof *w);
    float *plain = mf_alloc(ROWS * N, sizeof *plain), *all = mf_alloc(ROWS * N, sizeof *all);
    bool any = false;
    for (const char *const *isa = mf_kernels_isas(); *isa != NULL; isa++) {
        const mf_kernels *k = mf_kernels_cpu_for(*isa);
        float few[3 * N];
        mf_gemm p = {.m = ROWS,
                     .n = N,
                     .k = K,
                     .a = {.data = a, .ld = K},
                     .b = {.data = w, .trans = true, .ld = K},
                     .c = {.data = plain, .ld = N},
                     .alpha = 1};
        for (int i = 0; i < ROWS * K; i++)
            a[i] = (float)mf_rng_uniform(5, 7, 0, (uint64_t)i) - 0.5f;
        for (int i = 0; i < N * K; i++)
            w[i] = (float)mf_rng_uniform(5, 8, 0, (uint64_t)i) - 0.5f;
        k->gemm(&x, &p);
        p.b.packed = k->can_pack(MF_CAST_F32, N, K);
        if (!p.b.packed) continue; /* the library computes this gemm */
        MF_RUN(k, &x, pack_weights, .type = MF_CAST_F32, .parts = 1, .n = N, .k = K, .w = w);
        any = true;
        p.c.data = all;
        k->gemm(&x, &p);
        ck_assert_mem_eq(plain, all, ROWS * N * sizeof *all);
        p.c.data = few;
        for (p.m = 1; p.m <= 3; p.m++) {
            p.a.data = a + 7 * K;
            k->gemm(&x, &p);
            ck_assert_mem_eq(few, all + 7 * N, (size_t)p.m * N * sizeof *few);
        }
    }
    ck_assert(any || mf_kernels_isas()[1] == NULL);
    mf_free(a);
    mf_free(w);
    mf_free(plain);
    mf_free(all);
}
END_TEST

START_TEST(sets_are_complete_and_chosen_by_name)
{
    ck_assert_ptr_eq(mf_kernels_select("ref"), &mf_kernels_ref);
    ck_assert_ptr_eq(mf_kernels_select(""), mf_kernels_cpu());
    ck_assert_ptr_eq(mf_kernels_select(NULL), mf_kernels_cpu());
    ck_assert_ptr_null(mf_kernels_select("cpo"));
    ck_assert_ptr_null(mf_kernels_cpu_for("avx1024"));
    ck_assert_str_eq(mf_kernels_ref.name, "ref");
    ck_assert_str_eq(mf_kernels_cpu()->name, "cpu");
    ck_assert_ptr_nonnull(strstr(mf_kernels_blas(), "OpenBLAS"));
#define MF_KERNEL(fn, ...) ck_assert(mf_kernels_ref.fn != NULL && mf_kernels_cpu()->fn != NULL);
#include "kernels/kernels.def"
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("kernels");
    TCase *c = tcase_create("table");
    tcase_add_test(c, sets_are_complete_and_chosen_by_name);
    tcase_add_test(c, libraries_are_chosen_by_name);
    tcase_add_test(c, packing_changes_no_bit);
    tcase_add_test(c, stored_rows_have_the_same_bits_wherever_they_lie);
    tcase_add_test(c, rows_of_bf16_are_rounded_as_promised);
    tcase_add_test(c, few_rows_are_rounded_as_promised);
    tcase_add_test(c, short_rows_have_the_bits_that_they_have_alone);
    tcase_add_test(c, gradients_of_huge_scores_are_finite);
    suite_add_tcase(s, c);
    c = tcase_create("gemms of others");
    tcase_add_test(c, gemms_by_amx);
    tcase_add_test(c, stored_gemms_by_amx);
    tcase_add_test(c, attention_by_amx);
    tcase_add_test(c, many_rows_of_stored_gemms);
    tcase_add_loop_test(c, gemms_by_library, 1, 2);
    suite_add_tcase(s, c);
    c = tcase_create("cpu against ref");
    tcase_add_loop_test(c, kernel, 0, sizeof names / sizeof *names);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
