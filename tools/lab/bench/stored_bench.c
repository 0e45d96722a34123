/* Times gemms of single rows with stored weights, alternately with a loop that reads the same
 * bytes. The values are drawn. No value is so small that arithmetic with it is slow. */
#include "lab/bench/stored_bench.h"
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/device/device.h"
#include "lab/stats.h"

#define CHOSEN 8
#define IN     2048
#define OUT    2048 /* outputs of the gate and the up matrix together */
#define PARTS  2
#define ROWS   (OUT / PARTS)
#define GROUP  128
#define TOTAL  (256 << 20) /* approximate number of bytes of a pass */
#define PAGE   4096
#define PIECE  (256 << 10) /* bytes that one tile of the reading loop reads */
#define AHEAD  4096        /* prefetch distance in bytes */

/* Names, bits of a code, bytes of the scale of GROUP inputs (F8: of a block of GROUP x GROUP),
 * and bits of a zero point. */
static const struct {
    const char *name;
    int bits, scale, zero;
} types[MF_STORED_TYPES] = {
    [MF_STORED_F32] = {"f32", 32, 0, 0},        [MF_STORED_BF16] = {"bf16", 16, 0, 0},
    [MF_STORED_F16] = {"f16", 16, 0, 0},        [MF_STORED_GPTQ4] = {"int4", 4, 2, 4},
    [MF_STORED_MXFP4] = {"mxfp4", 4, 4, 0},     [MF_STORED_F8_E4M3] = {"f8_e4m3", 8, 4, 0},
    [MF_STORED_F8_E5M2] = {"f8_e5m2", 8, 4, 0}, [MF_STORED_INT4] = {"int4_rows", 4, 2, 4},
    [MF_STORED_GPTQ8] = {"int8", 8, 2, 8},      [MF_STORED_AWQ4] = {"int4_awq", 4, 2, 4},
};

static bool is_f8(mf_stored_type type)
{
    return type == MF_STORED_F8_E4M3 || type == MF_STORED_F8_E5M2;
}

/* Bytes of the arrays of a part. All are multiples of 64. */
typedef struct layout {
    int64_t data, scales, zeros, all;
} layout;

static layout layout_of(mf_stored_type type)
{
    const int64_t count = (int64_t)ROWS * IN;
    layout l = {.data = count * types[type].bits / 8,
                .scales = count / GROUP * types[type].scale,
                .zeros = count / GROUP * types[type].zero / 8};
    if (is_f8(type)) l.scales /= GROUP;
    l.all = l.data + l.scales + l.zeros;
    return l;
}

typedef struct bench {
    mf_stored_type type;
    layout l;
    int64_t experts;
    char *memory; /* [experts, PARTS, l.all] */
    mf_stored w;
    mf_stored_part *part;
    int32_t *offset; /* [experts + 1] */
    float *x, *y;
    uint16_t *x16;  /* x as bf16 */
    uint64_t *sums; /* sums that the reading loop computes, one for each tile */
} bench;

/* ---- values ---- */

/* Draws the values of the first part. */
static void draw(const bench *b)
{
    const mf_stored_part *p = &b->part[0];
    uint32_t *data = (uint32_t *)(uintptr_t)p->data, *scales = (uint32_t *)(uintptr_t)p->scales,
             *zeros = (uint32_t *)(uintptr_t)p->zeros;
    for (int64_t i = 0; i < b->l.data / 4; i++) {
        const uint32_t r = mf_rng_u32(1, mf_rng_stream("bench.stored"), 0, (uint64_t)i);
        /* signs and mantissas are drawn; the exponents are those of numbers from .01 to .03 */
        data[i] = b->type == MF_STORED_F32    ? (r & 0x80ffffff) | 0x3c000000
                  : b->type == MF_STORED_BF16 ? (r & 0x80ff80ff) | 0x3c003c00
                  : b->type == MF_STORED_F16  ? (r & 0x87ff87ff) | 0x20002000
                  : is_f8(b->type)            ? r & 0xbfbfbfbf
                                              : r;
    }
    for (int64_t i = 0; i < b->l.scales / 4; i++)
        scales[i] = b->type == MF_STORED_MXFP4 ? 0x78797a7b
                    : is_f8(b->type)           ? 0x3c000000
                                               : 0x1c001c00;
    for (int64_t i = 0; i < b->l.zeros / 4; i++)
        zeros[i] = 0x77777777;
}

static void copy_part(void *arg, int64_t tile)
{
    const bench *b = arg;
    if (tile > 0) memcpy(b->memory + tile * b->l.all, b->memory, (size_t)b->l.all);
}

static void close(bench *b)
{
    mf_free(b->memory);
    mf_free(b->part);
    mf_free(b->offset);
    mf_free(b->x);
    mf_free(b->x16);
    mf_free(b->y);
    mf_free(b->sums);
}

static int open(mf_stored_type type, bench *b)
{
    *b = (bench){.type = type, .l = layout_of(type)};
    b->experts = TOTAL / (PARTS * b->l.all) / CHOSEN * CHOSEN;
    const int64_t parts = b->experts * PARTS, bytes = parts * b->l.all;
    b->memory = mf_alloc_raw((size_t)bytes);
    b->part = mf_alloc((size_t)parts, sizeof *b->part);
    b->offset = mf_alloc((size_t)b->experts + 1, sizeof *b->offset);
    b->x = mf_alloc(CHOSEN * IN, sizeof *b->x);
    b->x16 = mf_alloc(CHOSEN * IN, sizeof *b->x16);
    b->y = mf_alloc(CHOSEN * OUT, sizeof *b->y);
    b->sums = mf_alloc((size_t)(bytes / PIECE) + 1, sizeof *b->sums);
    if (!b->memory || !b->part || !b->offset || !b->x || !b->x16 || !b->y || !b->sums)
        return MF_ENOMEM;
#ifdef MADV_NOHUGEPAGE
    char *page = b->memory + (PAGE - (uintptr_t)b->memory % PAGE) % PAGE;
    (void)madvise(page, (size_t)(b->memory + bytes - page) / PAGE * PAGE, MADV_NOHUGEPAGE);
#endif
    for (int64_t i = 0; i < parts; i++) {
        const char *at = b->memory + i * b->l.all;
        const bool groups = type > MF_STORED_F16 && type != MF_STORED_MXFP4;
        b->part[i] = (mf_stored_part){.type = type,
                                      .rows = ROWS,
                                      .first = i % PARTS * ROWS,
                                      .ld = IN,
                                      .data = at,
                                      .scales = b->l.scales ? at + b->l.data : NULL,
                                      .zeros = b->l.zeros ? at + b->l.data + b->l.scales : NULL,
                                      .scale_type = is_f8(type) ? MF_SCALE_F32 : MF_SCALE_F16,
                                      .scale_rows = GROUP,
                                      .groups = groups ? IN / GROUP : 0,
                                      .group_size = groups ? GROUP : 32};
    }
    b->w = (mf_stored){b->experts, OUT, IN, PARTS, b->part, NULL};
    mf_rng_fill_normal(1, mf_rng_stream("bench.stored"), 0, b->x, CHOSEN * IN);
    for (int64_t i = 0; i < CHOSEN * IN; i++)
        b->x16[i] = mf_bf16_from_f32(b->x[i]);
    draw(b);
    mf_parallel(parts, copy_part, b);
    return MF_OK;
}

/* ---- passes ---- */

typedef uint64_t line __attribute__((vector_size(64), aligned(8), may_alias));

static void read_piece(void *arg, int64_t tile)
{
    const bench *b = arg;
    const int64_t all = b->experts * PARTS * b->l.all, from = tile * PIECE,
                  to = from + PIECE < all ? from + PIECE : all;
    line sum[2] = {{0}, {0}};
    for (int64_t i = from; i + 128 <= to; i += 128) {
        __builtin_prefetch(b->memory + i + AHEAD, 0, 2);
        __builtin_prefetch(b->memory + i + AHEAD + 64, 0, 2);
        sum[0] += *(const line *)(b->memory + i);
        sum[1] += *(const line *)(b->memory + i + 64);
    }
    sum[0] += sum[1];
    b->sums[tile] = sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3] + sum[0][4] + sum[0][5] +
                    sum[0][6] + sum[0][7];
}

static double read_all(bench *b)
{
    const double began = mf_clock();
    mf_parallel((b->experts * PARTS * b->l.all + PIECE - 1) / PIECE, read_piece, b);
    return mf_clock() - began;
}

static double multiply_all(bench *b, const mf_kernels *k, bool bf16)
{
    const mf_kctx x = mf_device_context(NULL);
    const mf_stored_gemm_args g = {.w = &b->w,
                                   .rows = CHOSEN,
                                   .x = bf16 ? (const void *)b->x16 : b->x,
                                   .bf16 = bf16,
                                   .ldx = IN,
                                   .offset = b->offset,
                                   .alpha = 1,
                                   .y = b->y,
                                   .ldy = OUT};
    const double began = mf_clock();
    for (int64_t first = 0; first < b->experts; first += CHOSEN) {
        for (int64_t e = 0; e <= b->experts; e++)
            b->offset[e] = (int32_t)(e <= first ? 0 : e > first + CHOSEN ? CHOSEN : e - first);
        k->stored_gemm(&x, &g);
    }
    return mf_clock() - began;
}

static int measure(mf_stored_type type, int pairs, bool bf16, mf_stored_bench *ret)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    double *times = mf_alloc((size_t)pairs * 3, sizeof *times);
    bench b = {0};
    int rc = k && times ? open(type, &b) : MF_ENOMEM;
    if (rc == MF_OK) {
        double *plain = times, *whole = times + pairs, *share = times + 2 * pairs;
        const int64_t bytes = b.experts * PARTS * b.l.all;
        for (int i = -1; i < pairs; i++) { /* the first pair wakes the threads */
            const double r = read_all(&b), m = multiply_all(&b, k, bf16);
            if (i < 0) continue;
            plain[i] = r;
            whole[i] = m;
            share[i] = r / m;
        }
        *ret = (mf_stored_bench){.type = types[type].name,
                                 .experts = b.experts,
                                 .out = OUT,
                                 .in = IN,
                                 .bytes = bytes,
                                 .gb = 1e-9 * (double)bytes / mf_median(whole, pairs),
                                 .read_gb = 1e-9 * (double)bytes / mf_median(plain, pairs),
                                 .share = mf_median(share, pairs)};
        ret->share_lo = share[0];
        ret->share_hi = share[pairs - 1];
    }
    close(&b);
    mf_free(times);
    return rc;
}

int mf_stored_bench_run(int pairs, bool bf16, void (*each)(void *arg, const mf_stored_bench *r),
                        void *arg)
{
    for (int t = 0; t < MF_STORED_TYPES; t++) {
        mf_stored_bench r;
        const int rc = measure((mf_stored_type)t, pairs, bf16, &r);
        if (rc != MF_OK) return rc;
        each(arg, &r);
    }
    return MF_OK;
}
