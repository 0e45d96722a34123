/* packed.c: few rows as integers (digits.h), whose dot products with weights of few bits are
 * exact; and weights of four bits (MF_STORED_GPTQ4, MF_STORED_MXFP4) as f32. GPTQ weights are
 * converted to f32 in registers in three cases: their inputs are not ordered by group, their
 * groups have other sizes, or the instruction set cannot multiply bytes. */
#include "kernels/cpu/simd/stored/stored.h"
#include "kernels/cpu/simd/stored/four_bits.h"
#define ENGINE_BF16 0
#include "kernels/cpu/simd/gemm/pack.h"
#if VL > 4
#define DOTS_VNNI 0
#include "kernels/cpu/simd/stored/packed_few.h"
#include "kernels/cpu/simd/stored/mx_dots.h"
#include "kernels/cpu/simd/stored/packed_units.h"
#endif

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t group_at(const mf_stored_part *p, int64_t i)
{
    return p->group_of ? p->group_of[i] : i / p->group_size;
}

/* ---- few rows: integers ---- */

#if VL == 16 && defined(MF_HAVE_AVX512BF16)
#define HAS_VNNI     __builtin_cpu_supports("avx512vnni")
#define VNNI(name)   MF_SIMD(name##_vnni)
#define CHOOSE(name) (HAS_VNNI ? VNNI(name) : name)
#else
#define HAS_VNNI     false
#define VNNI(name)   NULL
#define CHOOSE(name) name
#endif

bool MF_SIMD(stored_takes_digits)(const mf_stored_part *p, int64_t in)
{
    switch (p->type) {
    case MF_STORED_MXFP4:
        return VL > 4;
    case MF_STORED_GPTQ4:
        return VL > 4 && stored_has_spans(p);
    case MF_STORED_GPTQ8:
    case MF_STORED_INT4:
        return HAS_VNNI && stored_has_spans(p);
    case MF_STORED_AWQ4:
        return HAS_VNNI && stored_has_spans(p) && in % 8 == 0;
    default:
        return false;
    }
}

#if VL > 4
#define MOST_SPANS 512 /* maximum number of spans on the stack */

static packed_few *few_of(mf_stored_type type)
{
    return type == MF_STORED_GPTQ4   ? CHOOSE(gptq_few)
           : type == MF_STORED_MXFP4 ? CHOOSE(mx_few)
           : type == MF_STORED_GPTQ8 ? VNNI(gptq8_few)
           : type == MF_STORED_AWQ4  ? VNNI(awq_few)
                                     : VNNI(int4_few);
}

void MF_SIMD(stored_few_digits)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                int64_t rows, int nd, const float *x, int64_t ldx,
                                const void *digits, float *y, int64_t ldy)
{
    packed_few *few = few_of(p->type);
    if (digits) {
        few(p, in, o0, o1, rows, nd, digits, y, ldy);
        return;
    }
    const int64_t each = spans_of(in), most = each < MOST_SPANS ? MOST_SPANS / each : 1,
                  some = min64(most, rows);
    span *to = __builtin_alloca_with_align((size_t)(some * each) * sizeof *to, 512);
    for (int64_t r = 0; r < rows; r += some) {
        const int64_t n = min64(some, rows - r);
        spans_fill(n, in, x + r * ldx, ldx, nd, to);
        few(p, in, o0, o1, n, nd, to, y + r * ldy, ldy);
    }
}
#else
void MF_SIMD(stored_few_digits)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                int64_t rows, int nd, const float *x, int64_t ldx,
                                const void *digits, float *y, int64_t ldy)
{
    (void)p, (void)in, (void)o0, (void)o1, (void)rows, (void)nd;
    (void)x, (void)ldx, (void)digits, (void)y, (void)ldy;
}
#endif

int64_t MF_SIMD(stored_digits_size)(int64_t in)
{
#if VL > 4
    return spans_of(in) * (int64_t)sizeof(span);
#else
    (void)in;
    return 0;
#endif
}

void MF_SIMD(stored_digits)(int64_t in, int nd, const float *x, void *to)
{
#if VL > 4
    spans_fill(1, in, x, in, nd, to);
#else
    (void)in, (void)nd, (void)x, (void)to;
#endif
}

/* ---- few rows: f32 ---- */

#define FEW_VECTORS 2 /* number of vectors of outputs at a time */
#define FEW_ROWS    4
#define FEW_OUTPUTS (FEW_VECTORS * VL)

/* Scale and shift of a group: W = scale q + shift, both exact in f32. */
typedef struct gptq_group {
    float scale[FEW_OUTPUTS], shift[FEW_OUTPUTS];
} gptq_group;

/* Computes groups first .. first + count - 1 for outputs o .. o + n - 1. */
static void gptq_groups(const mf_stored_part *p, int64_t first, int64_t count, int64_t o,
                        int64_t n, gptq_group *to)
{
    for (int64_t g = 0; g < count; g++)
        for (int64_t v = 0; v < n; v += VL) {
            const int64_t some = min64(VL, n - v);
            const vf scale = gptq_scales(p, first + g, o + v, some),
                     zero = gptq_zeros(p, first + g, o + v, some);
            v_store(to[g].scale + v, scale);
            v_store(to[g].shift + v, -zero * scale);
        }
}

V_INLINE void gptq_floats(int mr, const mf_stored_part *p, int64_t in, int64_t o, int64_t n,
                          const gptq_group *groups, const float *x, int64_t ldx, float *y,
                          int64_t ldy)
{
    const uint32_t *data = (const uint32_t *)p->data + o;
    vf sum[FEW_ROWS][FEW_VECTORS];
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int v = 0; v < FEW_VECTORS; v++)
            sum[r][v] = (vf){0};
    }
    for (int64_t w = 0; w < in / 8; w++) {
        uint32_t words[FEW_OUTPUTS] = {0};
        memcpy(words, data + w * p->rows, n == FEW_OUTPUTS ? sizeof words : (size_t)n * 4);
        for (int v = 0; v < FEW_VECTORS; v++)
            prefetch_weights(data + w * p->rows + FEW_OUTPUTS + v * VL);
        V_UNROLL
        for (int j = 0; j < 8; j++) {
            const gptq_group *g = &groups[group_at(p, 8 * w + j)];
            V_UNROLL
            for (int v = 0; v < FEW_VECTORS; v++) {
                const vi q = (v_loadi((const int32_t *)words + v * VL) >> 4 * j) & 15;
                const vf weight = v_fma(__builtin_convertvector(q, vf),
                                        v_load(g->scale + v * VL), v_load(g->shift + v * VL));
                V_UNROLL
                for (int r = 0; r < mr; r++)
                    sum[r][v] = v_fma(weight, v_set(x[r * ldx + 8 * w + j]), sum[r][v]);
            }
        }
    }
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < FEW_VECTORS && v * VL < n; v++) {
            if (n - v * VL < VL)
                v_store_n(y + r * ldy + v * VL, sum[r][v], n - v * VL);
            else
                v_store(y + r * ldy + v * VL, sum[r][v]);
        }
}

void MF_SIMD(stored_few_gptq4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                               int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                               int64_t ldy)
{
    (void)bf16;
    gptq_group *groups = __builtin_alloca_with_align((size_t)p->groups * sizeof *groups, 512);
    for (int64_t o = o0; o < o1; o += FEW_OUTPUTS) {
        const int64_t n = min64(FEW_OUTPUTS, o1 - o);
        gptq_groups(p, 0, p->groups, o, n, groups);
        for (int64_t r = 0; r < rows;) {
            const float *from = x + r * ldx;
            float *to = y + r * ldy + o - o0;
            if (rows - r >= FEW_ROWS) {
                gptq_floats(FEW_ROWS, p, in, o, n, groups, from, ldx, to, ldy);
                r += FEW_ROWS;
            } else {
                gptq_floats(1, p, in, o, n, groups, from, ldx, to, ldy);
                r++;
            }
        }
    }
}

void MF_SIMD(stored_few_mxfp4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                               int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                               int64_t ldy)
{
    (void)bf16;
    enum { INPUTS = 512 };
    float w[INPUTS] __attribute__((aligned(64)));
    for (int64_t o = o0; o < o1; o++)
        for (int64_t i = 0; i < in; i += INPUTS) {
            const int64_t n = min64(INPUTS, in - i);
            MF_SIMD(stored_unpack_mxfp4)(p, in, o, o + 1, i, i + n, w, INPUTS);
            for (int64_t r = 0; r < rows; r++) {
                float *to = &y[r * ldy + o - o0];
                *to = (i > 0 ? *to : 0) + v_dot(n, x + r * ldx + i, w);
            }
        }
}

/* ---- unpacked ---- */

/* Returns the weights of VL inputs and VL outputs: w[j] has those of input i + j, or zeros from
 * input i1 on. groups: the groups from `first` on. */
V_INLINE void gptq_square(const mf_stored_part *p, int64_t i, int64_t i1, int64_t o, int64_t n,
                          const gptq_group *groups, int64_t first, int64_t at, vf w[VL])
{
    vi word = {0};
    V_UNROLL
    for (int j = 0; j < VL; j++) {
        if (i + j >= i1) {
            w[j] = (vf){0};
            continue;
        }
        if (j == 0 || (i + j) % 8 == 0) {
            const uint32_t *from = (const uint32_t *)p->data + (i + j) / 8 * p->rows + o;
            word = n < VL ? (vi)v_load_n((const float *)(const void *)from, n)
                          : v_loadi((const void *)from);
        }
        const gptq_group *g = &groups[group_at(p, i + j) - first];
        const vi q = (word >> (int)(4 * ((i + j) % 8))) & 15;
        w[j] =
            v_fma(__builtin_convertvector(q, vf), v_load(g->scale + at), v_load(g->shift + at));
    }
}

void MF_SIMD(stored_unpack_gptq4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                  int64_t i0, int64_t i1, float *out, int64_t ld)
{
    const int64_t first = p->group_of ? 0 : i0 / p->group_size,
                  end = p->group_of ? p->groups : (i1 - 1) / p->group_size + 1;
    (void)in;
    if (i1 <= i0) return;
    gptq_group *groups =
        __builtin_alloca_with_align((size_t)(end - first) * sizeof *groups, 512);
    for (int64_t o = o0; o < o1; o += VL) {
        const int64_t at = (o - o0) % FEW_OUTPUTS, n = min64(VL, o1 - o);
        if (at == 0) gptq_groups(p, first, end - first, o, min64(FEW_OUTPUTS, o1 - o), groups);
        for (int64_t i = i0; i < i1; i += VL) {
            const int64_t some = min64(VL, i1 - i);
            float *to = out + (o - o0) * ld + i - i0;
            vf w[VL];
            gptq_square(p, i, i1, o, n, groups, first, at, w);
            transpose(w);
            for (int64_t r = 0; r < n; r++) {
                if (some < VL)
                    v_store_n(to + r * ld, w[r], some);
                else
                    v_store(to + r * ld, w[r]);
            }
        }
    }
}

void MF_SIMD(stored_unpack_mxfp4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                  int64_t i0, int64_t i1, float *out, int64_t ld)
{
    for (int64_t o = o0; o < o1; o++)
        for (int64_t i = i0; i < i1; i += 32) {
            const float scale = mx_power(((const uint8_t *)p->scales)[(o * in + i) / 32]);
            const uint8_t *from = (const uint8_t *)p->data + (o * in + i) / 2;
            for (int64_t j = 0; j < 32; j += VL)
                v_store(out + (o - o0) * ld + i - i0 + j, mx_inputs(from + j / 2) * scale);
        }
}
