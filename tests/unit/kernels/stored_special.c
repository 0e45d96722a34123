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
