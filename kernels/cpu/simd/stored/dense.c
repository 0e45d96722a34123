/* dense.c: stored weights of F32, BF16 and F16, which are converted in registers. Loops are
 * written once and compiled for each type. */
#include "kernels/cpu/simd/stored/stored.h"
#include "kernels/cpu/simd/stored/ahead.h"
#if VL == 16
#include "kernels/cpu/simd/stored/lines.h"
#endif

#define AT_ONCE 4 /* number of rows of W that are read side by side */

static int64_t size_of(mf_stored_type type)
{
    return type == MF_STORED_F32 ? 4 : 2;
}

V_INLINE vf f16_load(const uint16_t *p)
{
#if VL == 16
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
#elif VL == 8
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#else
    uint16_t h[VL];
    float f[VL];
    memcpy(h, p, sizeof h);
    for (int i = 0; i < VL; i++)
        f[i] = mf_f16_to_f32(h[i]);
    return v_load(f);
#endif
}

V_INLINE const char *address(mf_stored_type type, const void *data, int64_t i)
{
    return (const char *)data + i * (type == MF_STORED_F32 ? 4 : 2);
}

/* Returns elements i .. i + VL - 1. The type must be a constant for the compiler. */
V_INLINE vf elements(mf_stored_type type, const void *data, int64_t i)
{
    if (type == MF_STORED_F32) return v_load((const float *)data + i);
    if (type == MF_STORED_BF16) return v_load_bf16((const uint16_t *)data + i);
    return f16_load((const uint16_t *)data + i);
}

/* Returns elements i .. i + n - 1, n < VL, followed by zeros. */
V_INLINE vf elements_n(mf_stored_type type, const void *data, int64_t i, int64_t n)
{
    uint16_t h[VL] = {0};
    if (type == MF_STORED_F32) return v_load_n((const float *)data + i, n);
    for (int64_t q = 0; q < n; q++)
        h[q] = ((const uint16_t *)data)[i + q];
    return type == MF_STORED_BF16 ? v_load_bf16(h) : f16_load(h);
}

V_INLINE void convert(mf_stored_type type, int64_t n, const void *from, float *to)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(to + i, elements(type, from, i));
    if (i < n) v_store_n(to + i, elements_n(type, from, i, n - i), n - i);
}

static void convert_run(mf_stored_type type, int64_t n, const void *from, float *to)
{
    if (type == MF_STORED_F32)
        convert(MF_STORED_F32, n, from, to);
    else if (type == MF_STORED_BF16)
        convert(MF_STORED_BF16, n, from, to);
    else
        convert(MF_STORED_F16, n, from, to);
}

void MF_SIMD(stored_unpack_dense)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                  int64_t i0, int64_t i1, float *out, int64_t ld)
{
    enum { LINE = 64 };
    float line[LINE];
    const char *data = p->data;
    const int64_t size = size_of(p->type);
    (void)in;
    for (int64_t o = o0; !p->transposed && o < o1; o++)
        convert_run(p->type, i1 - i0, data + (o * p->ld + i0) * size, out + (o - o0) * ld);
    for (int64_t i = i0; p->transposed && i < i1; i++)
        for (int64_t o = o0; o < o1; o += LINE) {
            const int64_t n = o1 - o < LINE ? o1 - o : LINE;
            convert_run(p->type, n, data + (i * p->ld + o) * size, line);
            for (int64_t q = 0; q < n; q++)
                out[(o + q - o0) * ld + i - i0] = line[q];
        }
}

/* ---- few rows ---- */

#if VL == 16
/* Computes y[r] for `rows` rows of x and one row of W. lines: x in the order of line_split. */
V_INLINE void dots(mf_stored_type type, int rows, int64_t in, const char *w, int64_t ahead,
                   const float *x, int64_t ldx, const float *lines, int64_t ldl, float *y,
                   int64_t ldy)
{
    const int64_t each = line_numbers(type);
    int64_t i = in / each * each;
    vf sum[STORED_FEW][2];
    V_UNROLL
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = (vf){0};
    lines_dot(type, rows, in / each, w, ahead, lines, ldl, sum);
    for (; i < in; i += VL) {
        const int64_t n = in - i < VL ? in - i : VL;
        const vf v = elements_n(type, w, i, n);
        for (int r = 0; r < rows; r++)
            sum[r][0] = v_fma(v_load_n(x + r * ldx + i, n), v, sum[r][0]);
    }
    V_UNROLL
    for (int r = 0; r < rows; r++)
        y[r * ldy] = v_sum(sum[r][0] + sum[r][1]);
}

V_INLINE void few_along(mf_stored_type type, int rows, int64_t in, int64_t n, const char *w,
                        int64_t ld, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    const int64_t each = line_numbers(type), row = ld * size_of(type),
                  ahead = row > 0 && row < LINE_AHEAD ? LINE_AHEAD / row * row : LINE_AHEAD;
    const float *lines = x;
    int64_t ldl = ldx;
    if (type == MF_STORED_BF16) {
        float *to = __builtin_alloca_with_align((size_t)(rows * in) * sizeof *to, 512);
        for (int r = 0; r < rows; r++)
            line_order(in / each * each, x + r * ldx, to + r * in);
        lines = to;
        ldl = in;
    }
    for (int64_t o = 0; o < n; o++)
        dots(type, rows, in, w + o * row, ahead, x, ldx, lines, ldl, y + o, ldy);
}
#else
/* Computes y[r,j] for `rows` rows of x and nr rows of W. The next rows of W are prefetched,
 * because the processor's own prefetch stops at each page. */
V_INLINE void dots(mf_stored_type type, int rows, int nr, int64_t in, const void *w, int64_t ld,
                   const float *x, int64_t ldx, float *y, int64_t ldy)
{
    vf s[STORED_FEW][AT_ONCE];
    V_UNROLL
    for (int r = 0; r < rows; r++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            s[r][j] = (vf){0};
    }
    int64_t i = 0;
    for (; i + VL <= in; i += VL) {
        vf v[AT_ONCE];
        V_UNROLL
        for (int j = 0; j < nr; j++) {
            v[j] = elements(type, w, j * ld + i);
            prefetch_weights(address(type, w, (j + 2 * nr) * ld + i));
        }
        V_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf a = v_load(x + r * ldx + i);
            V_UNROLL
            for (int j = 0; j < nr; j++)
                s[r][j] = v_fma(a, v[j], s[r][j]);
        }
    }
    for (int j = 0; i < in && j < nr; j++) {
        const vf v = elements_n(type, w, j * ld + i, in - i);
        for (int r = 0; r < rows; r++)
            s[r][j] = v_fma(v_load_n(x + r * ldx + i, in - i), v, s[r][j]);
    }
    V_UNROLL
    for (int r = 0; r < rows; r++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            y[r * ldy + j] = v_sum(s[r][j]);
    }
}

V_INLINE void few_along(mf_stored_type type, int rows, int64_t in, int64_t n, const char *w,
                        int64_t ld, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    int64_t o = 0;
    for (; o + AT_ONCE <= n; o += AT_ONCE)
        dots(type, rows, AT_ONCE, in, address(type, w, o * ld), ld, x, ldx, y + o, ldy);
    for (; o < n; o++)
        dots(type, rows, 1, in, address(type, w, o * ld), ld, x, ldx, y + o, ldy);
}
#endif

/* For weights stored as [in,rows]: the sums of nv VL outputs stay in registers. With nv = 1 the
 * last vector has n outputs. */
V_INLINE void sweep(mf_stored_type type, int rows, int nv, int64_t in, int64_t n, const void *w,
                    int64_t ld, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    vf s[STORED_FEW][AT_ONCE];
    V_UNROLL
    for (int r = 0; r < rows; r++) {
        V_UNROLL
        for (int j = 0; j < nv; j++)
            s[r][j] = (vf){0};
    }
    for (int64_t i = 0; i < in; i++) {
        vf v[AT_ONCE];
        V_UNROLL
        for (int j = 0; j < nv; j++) {
            v[j] = n >= nv * VL ? elements(type, w, i * ld + j * VL)
                                : elements_n(type, w, i * ld, n);
            prefetch_weights(address(type, w, (i + 16) * ld + j * VL));
        }
        V_UNROLL
        for (int r = 0; r < rows; r++) {
            V_UNROLL
            for (int j = 0; j < nv; j++)
                s[r][j] = v_fma(v_set(x[r * ldx + i]), v[j], s[r][j]);
        }
    }
    V_UNROLL
    for (int r = 0; r < rows; r++) {
        V_UNROLL
        for (int j = 0; j < nv; j++)
            n >= nv *VL ? v_store(y + r * ldy + j * VL, s[r][j])
                        : v_store_n(y + r * ldy, s[r][j], n);
    }
}

V_INLINE void few_across(mf_stored_type type, int rows, int64_t in, int64_t n, const char *w,
                         int64_t ld, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    int64_t o = 0;
    for (; o + AT_ONCE * VL <= n; o += AT_ONCE * VL)
        sweep(type, rows, AT_ONCE, in, n - o, address(type, w, o), ld, x, ldx, y + o, ldy);
    for (; o < n; o += VL)
        sweep(type, rows, 1, in, n - o, address(type, w, o), ld, x, ldx, y + o, ldy);
}

#define FEW(type, rows)                                                                        \
    (across ? few_across(type, rows, in, n, w, p->ld, x, ldx, y, ldy)                          \
            : few_along(type, rows, in, n, w, p->ld, x, ldx, y, ldy))
#define FEW_OF(type, name)                                                                     \
    static void name(const mf_stored_part *p, bool across, int64_t in, int64_t n,              \
                     const char *w, int64_t rows, const float *x, int64_t ldx, float *y,       \
                     int64_t ldy)                                                              \
    {                                                                                          \
        rows == 1   ? FEW(type, 1)                                                             \
        : rows == 2 ? FEW(type, 2)                                                             \
        : rows == 3 ? FEW(type, 3)                                                             \
                    : FEW(type, 4);                                                            \
    }
FEW_OF(MF_STORED_F32, few_f32)
FEW_OF(MF_STORED_BF16, few_bf16)
FEW_OF(MF_STORED_F16, few_f16)

void MF_SIMD(stored_few_dense)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                               int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                               int64_t ldy)
{
    (void)bf16;
    const bool across = p->transposed;
    const char *w = (const char *)p->data + (across ? o0 : o0 * p->ld) * size_of(p->type);
    if (p->type == MF_STORED_F32)
        few_f32(p, across, in, o1 - o0, w, rows, x, ldx, y, ldy);
    else if (p->type == MF_STORED_BF16)
        few_bf16(p, across, in, o1 - o0, w, rows, x, ldx, y, ldy);
    else
        few_f16(p, across, in, o1 - o0, w, rows, x, ldx, y, ldy);
}
