/* Tests numbers that are not finite, or far from 1, in stored weights and in x, with many rows
 * of bf16. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernel_case.h"
#include "kernels/ref/ref.h"

enum { ROWS = 61, OUT = 40, IN = 64, TOTAL = OUT * IN };

static const mf_kctx serial = {.parallel = mf_parallel};

static uint32_t drawn(int i, uint32_t below)
{
    return (uint32_t)mf_rng_below(8, 1, 0, (uint64_t)i, below);
}

static mf_stored_gemm_args args_of(const mf_stored *w, bool back, const uint16_t *x, float *y)
{
    const int64_t n = back ? w->in : w->out, k = back ? w->out : w->in;
    return (mf_stored_gemm_args){.w = w,
                                 .back = back,
                                 .rows = ROWS,
                                 .x = x,
                                 .bf16 = true,
                                 .ldx = k,
                                 .alpha = 1,
                                 .y = y,
                                 .ldy = n};
}

/* Compares y with ref. Numbers that are not finite must be equal, others nearly equal. */
static void compare(const mf_kernels *k, const mf_stored *w, const uint16_t *x,
                    const char *name)
{
    float y[ROWS * IN], right[ROWS * IN];
    for (int back = 0; back < 2; back++) {
        const mf_stored_gemm_args g = args_of(w, back, x, y);
        mf_stored_gemm_args r = g;
        r.y = right;
        memset(y, 0xff, sizeof y);
        k->stored_gemm(&serial, &g);
        mf_ref_stored_gemm(&serial, &r);
        for (int i = 0; i < ROWS * (back ? IN : OUT); i++) {
            const double at = (double)right[i], off = fabs((double)y[i] - at);
            ck_assert_msg(isfinite(right[i]) ? off <= 1e-5 + 1e-5 * fabs(at)
                          : isnan(right[i])  ? isnan(y[i])
                                             : y[i] == right[i],
                          "%s, type %d, back %d: element %d is %g, expected %g", name,
                          (int)w->part[0].type, back, i, (double)y[i], at);
        }
    }
}

/* An infinity or a NaN in x makes all numbers of its own row not finite, and affects no
 * other row. */
static void spoil_rows(const mf_kernels *k, const mf_stored *w, uint16_t *x, const char *name)
{
    static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0};
    enum { ROW = 37, AT = 33 };
    float y[ROWS * IN], other[ROWS * IN];
    for (int back = 0; back < 2; back++)
        for (int b = 0; b < 3; b++) {
            const int n = back ? IN : OUT, d = back ? OUT : IN;
            const mf_stored_gemm_args g = args_of(w, back, x, y);
            mf_stored_gemm_args h = g;
            h.y = other;
            k->stored_gemm(&serial, &g);
            const uint16_t before = x[ROW * d + AT];
            x[ROW * d + AT] = bad[b];
            k->stored_gemm(&serial, &h);
            x[ROW * d + AT] = before;
            for (int j = 0; j < n; j++)
                ck_assert_msg(!isfinite(other[ROW * n + j]), "%s, type %d, back %d: %g", name,
                              (int)w->part[0].type, back, (double)other[ROW * n + j]);
            memcpy(other + ROW * n, y + ROW * n, (size_t)n * sizeof *y);
            ck_assert_mem_eq(other, y, (size_t)(ROWS * n) * sizeof *y);
        }
}

/* Computes head and loss of x [ROWS,IN], with the gradient dx. */
static void head(const mf_kernels *k, const mf_stored *w, bool as_bf16, const float *x,
                 float losses[ROWS], float dx[ROWS * IN])
{
    int32_t target[ROWS];
    float loss;
    void *work =
        mf_alloc(mf_linear_cross_entropy_work(ROWS, IN, OUT, MF_CAST_F32, 0, true, false), 1);
    const mf_linear_cross_entropy_args args = {.rows = ROWS,
                                               .d = IN,
                                               .vocab = OUT,
                                               .type = MF_CAST_F32,
                                               .x = x,
                                               .stored = w,
                                               .as_bf16 = as_bf16,
                                               .target = target,
                                               .loss = &loss,
                                               .row_loss = losses,
                                               .dx = dx,
                                               .work = work};
    ck_assert_ptr_nonnull(work);
    for (int i = 0; i < ROWS; i++)
        target[i] = (int32_t)drawn(i, OUT);
    k->linear_cross_entropy(&serial, &args);
    mf_free(work);
}

/* With as_bf16 the kernel sets of the CPU round rows and gradients of logits to bf16. */
static void round_head(const mf_kernels *k, const mf_stored *w, const char *name)
{
    float x[ROWS * IN], rounded[ROWS * IN];
    float exact[ROWS], once[ROWS], twice[ROWS], f32[ROWS];
    float dx[ROWS * IN], d_once[ROWS * IN], d_twice[ROWS * IN], d_f32[ROWS * IN];
    for (int i = 0; i < ROWS * IN; i++) {
        x[i] = ((float)drawn(i, 1 << 20) - (float)(1 << 19)) * 0x1p-22f;
        rounded[i] = mf_bf16_to_f32(mf_bf16_from_f32(x[i]));
    }
    head(k, w, false, x, exact, dx);
    head(k, w, false, rounded, f32, d_f32);
    head(k, w, true, x, once, d_once);
    head(k, w, true, rounded, twice, d_twice);
    ck_assert_mem_eq(once, twice, sizeof once);
    ck_assert_mem_eq(d_once, d_twice, sizeof d_once);
    for (int i = 0; i < ROWS; i++)
        ck_assert_msg(fabsf(once[i] - f32[i]) <= 1e-5f * (1 + fabsf(f32[i])),
                      "%s: loss %d is %g, of rounded rows %g", name, i, (double)once[i],
                      (double)f32[i]);
    ck_assert(memcmp(exact, once, sizeof exact) != 0);
    double most = 0, off = 0;
    for (int i = 0; i < ROWS * IN; i++) {
        most = fmax(most, fabs((double)d_f32[i]));
        off = fmax(off, fabs((double)d_f32[i] - d_once[i]));
    }
    ck_assert_msg(off > 1e-5 * most && off < 1e-2 * most,
                  "%s: gradients differ by %g of %g, expected the rounding of bf16", name, off,
                  most);
}

/* ---- few rows of bf16 ---- */

enum { FEW = 5, FEW_OUT = 136, FEW_IN = 264, SIZE = 64, GROUPS = (FEW_IN + SIZE - 1) / SIZE };

/* Largest difference of y from the formula, as a share of the largest number. Every 128 numbers
 * of x are rounded to multiples of one power of 2, with factors of at most m, unless m is 0. */
static double distance(const mf_stored *w, const uint16_t *x, double m, const float *y)
{
    double row[FEW_IN], most = 0, off = 0;
    for (int i = 0; i < FEW_IN; i += 128) {
        const int end = i + 128 < FEW_IN ? i + 128 : FEW_IN;
        double largest = 0, s = 1;
        for (int k = i; k < end; k++)
            largest = fmax(largest, fabs((double)mf_bf16_to_f32(x[k])));
        while (m > 0 && largest > m * s)
            s *= 2;
        while (largest > 0 && 2 * largest <= m * s)
            s /= 2;
        for (int k = i; k < end; k++) {
            row[k] = (double)mf_bf16_to_f32(x[k]);
            if (m > 0) row[k] = s * rint(row[k] / s);
        }
    }
    for (int j = 0; j < FEW_OUT; j++) {
        double sum = 0;
        for (int i = 0; i < FEW_IN; i++)
            sum += row[i] * mf_ref_stored_weight(w, 0, j, i);
        most = fmax(most, fabs(sum));
        off = fmax(off, fabs(sum - (double)y[j]));
    }
    return off / most;
}

/* Rows with numbers of very different sizes. Only with weights of four bits they may be rounded
 * to MF_STORED_MOST_DIGITS. A row has the bits that it has alone. */
void mf_test_stored_few(const mf_kernels *k, const char *name)
{
    static uint32_t words[FEW_IN / 4 * FEW_OUT], zeros[GROUPS * FEW_OUT / 4];
    static uint32_t scales[GROUPS * FEW_OUT];
    uint16_t x[FEW * FEW_IN];
    float y[FEW * FEW_OUT], alone[FEW_OUT];
    for (int i = 0; i < FEW * FEW_IN; i++) {
        const float u = (float)drawn(i, 2000) - 999.5f, v = (float)drawn(i + 5555, 1000) / 125;
        x[i] = mf_bf16_from_f32(u * expf(-v));
    }
    for (mf_stored_type type = MF_STORED_GPTQ4; type < MF_STORED_TYPES; type++) {
        if (type == MF_STORED_MXFP4) continue; /* its inputs are whole blocks */
        const bool eight =
            type == MF_STORED_GPTQ8 || type == MF_STORED_F8_E4M3 || type == MF_STORED_F8_E5M2;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            words[i] = (drawn((int)i, 1 << 16) << 16 | drawn((int)i + 777777, 1 << 16)) &
                       (eight && type != MF_STORED_GPTQ8 ? 0xbfbfbfbf : 0xffffffff);
        for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
            zeros[i] = drawn((int)i, 1 << 16) << 16 | drawn((int)i + 99, 1 << 16);
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) /* f16 */
            scales[i] = 0x1c001c00 + drawn((int)i, 1024);
        const mf_stored_part part = {.type = type,
                                     .rows = FEW_OUT,
                                     .data = words,
                                     .scales = scales,
                                     .zeros = zeros,
                                     .groups = GROUPS,
                                     .group_size = SIZE,
                                     .scale_rows = 1};
        const mf_stored w = {1, FEW_OUT, FEW_IN, 1, &part, NULL};
        for (int rows = 1; rows <= FEW; rows++) {
            mf_stored_gemm_args g = {.w = &w,
                                     .rows = rows,
                                     .x = x,
                                     .bf16 = true,
                                     .ldx = FEW_IN,
                                     .alpha = 1,
                                     .y = y,
                                     .ldy = FEW_OUT};
            k->stored_gemm(&serial, &g);
            for (int r = 0; r < rows; r++) {
                const uint16_t *from = x + r * FEW_IN;
                const double exact = distance(&w, from, 0, y + r * FEW_OUT),
                             rounded =
                                 distance(&w, from, MF_STORED_MOST_DIGITS, y + r * FEW_OUT);
                ck_assert_msg((eight ? exact : fmin(exact, rounded)) < 3e-6,
                              "%s, type %d, row %d of %d: off by %g and %g", name, (int)type, r,
                              rows, exact, rounded);
                g.rows = 1;
                g.x = from;
                g.y = alone;
                k->stored_gemm(&serial, &g);
                ck_assert_mem_eq(alone, y + r * FEW_OUT, sizeof alone);
            }
        }
    }
}

void mf_test_stored_special(const mf_kernels *k, const char *name)
{
    static union {
        float f32[TOTAL];
        uint32_t bits[TOTAL];
        uint16_t h[TOTAL];
        uint8_t b[TOTAL];
    } w;
    static uint8_t scales[OUT * IN / 32];
    static uint16_t x[ROWS * IN];
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (uint16_t)(0x3f00 + drawn(i, 256) + drawn(i + 9999, 2) * 0x8000);
    for (mf_stored_type type = MF_STORED_F32; type <= MF_STORED_MXFP4; type++) {
        const bool four = type == MF_STORED_MXFP4;
        mf_stored_part part = {.type = type,
                               .rows = OUT,
                               .ld = IN,
                               .data = &w,
                               .scales = four ? scales : NULL,
                               .group_size = four ? 32 : 0};
        const mf_stored all = {1, OUT, IN, 1, &part, NULL};
        if (type == MF_STORED_GPTQ4) continue; /* all weights of this type are finite */
        for (int layout = 0; layout < (four ? 2 : 4); layout++) {
            part.pairs = layout % 2;
            part.transposed = layout >= 2;
            part.ld = part.transposed ? OUT : IN;
            for (int i = 0; i < TOTAL; i++) {
                const uint32_t sign = drawn(i, 2) << 31, more = drawn(i + 7777, 1 << 20);
                if (type == MF_STORED_F32) w.bits[i] = sign | (0x3f000000 + 8 * more);
                if (type == MF_STORED_BF16)
                    w.h[i] = (uint16_t)(sign >> 16 | (0x3f00 + more % 256));
                if (type == MF_STORED_F16)
                    w.h[i] = (uint16_t)(sign >> 16 | (0x3800 + more % 2048));
                if (four && i < TOTAL / 2) /* no value is 0 */
                    w.b[i] = (uint8_t)((1 + more % 7) | (9 + more / 7 % 7) << 4);
            }
            for (int i = 0; i < OUT * IN / 32; i++)
                scales[i] = (uint8_t)(125 + drawn(i, 4));
            spoil_rows(k, &all, x, name);
            if (type == MF_STORED_BF16 && !part.pairs) round_head(k, &all, name);
            if (type == MF_STORED_F32) {
                w.bits[7 * 64 + 5] = 0x7f800000; /* infinity */
                w.bits[20 * 64 + 6] = 0xff800000;
                w.bits[30 * 64 + 40] = 0x7f800001; /* NaN: the lowest bit is set */
                w.bits[31 * 64 + 40] = 1;          /* the smallest number */
                /* its lower bf16 planes are below the smallest bf16 number */
                w.bits[32 * 64 + 40] = 0x00ffffff;
            } else if (!four) {
                w.h[7 * 64 + 5] = type == MF_STORED_F16 ? 0x7c00 : 0x7f80;
                w.h[20 * 64 + 6] = type == MF_STORED_F16 ? 0xfc00 : 0xff80;
                w.h[30 * 64 + 40] = type == MF_STORED_F16 ? 0x7c01 : 0x7f81;
                w.h[31 * 64 + 40] = 1;
                w.h[32 * 64 + 40] = 0x83ff; /* as f16, the largest subnormal number */
            } else {
                scales[5] = 255;
                scales[40] = 0;
                scales[41] = 1;
                scales[60] = 253; /* its block gets a single value, which f32 can represent */
                memset(&w.b[30 * IN / 2], 0, 16);
                w.b[30 * IN / 2 + 3] = 0x10;
            }
            compare(k, &all, x, name);
        }
    }
}
