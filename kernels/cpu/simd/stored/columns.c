/* columns.c: weights whose neighbouring outputs are neighbours in memory and that packed.c does
 * not read: MF_STORED_GPTQ8 and MF_STORED_AWQ4. Codes minus zeros are exact in f32. A sum over
 * neighbouring inputs of one group is scaled once. */
#include "kernels/cpu/simd/stored/codes.h"
#include "kernels/cpu/simd/stored/stored.h"
#define ENGINE_BF16 0
#include "kernels/cpu/simd/gemm/pack.h"

#define OUTPUTS 256 /* number of outputs at a time */
#define RUN     8   /* number of inputs of one group at a time */

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Scales and zeros of a group for some outputs. */
typedef struct columns_group {
    float scale[OUTPUTS], zero[OUTPUTS];
} columns_group;

/* Returns the codes of input i for VL outputs from o on, n of which exist. */
V_INLINE vf codes_of(mf_stored_type type, const mf_stored_part *p, int64_t i, int64_t o,
                     int64_t n)
{
    const uint32_t *data = p->data;
    if (type == MF_STORED_AWQ4) return code_floats(awq_codes(data + i * (p->rows / 8), o, n));
    const vi words = code_words(data + i / 4 * p->rows + o, n);
    return code_floats(words >> (int)(8 * (i % 4)) & 255);
}

V_INLINE void load_group(mf_stored_type type, const mf_stored_part *p, int64_t g, int64_t o,
                         int64_t n, columns_group *to)
{
    for (int64_t v = 0; v < n; v += VL) {
        v_store(to->scale + v, gptq_scales(p, g, o + v, min64(VL, n - v)));
        v_store(to->zero + v, code_zeros(type, p, g, o + v, min64(VL, n - v)));
    }
}

/* Adds the inputs i .. i + run - 1, which are of one group, to y for n outputs from o on. */
V_INLINE void add_run(mf_stored_type type, int run, int rows, const mf_stored_part *p,
                      int64_t i, int64_t o, int64_t n, const columns_group *group,
                      const float *x, int64_t ldx, float *y, int64_t ldy)
{
    for (int64_t v = 0; v < n; v += VL) {
        const int64_t some = min64(VL, n - v);
        const vf zero = v_load(group->zero + v), scale = v_load(group->scale + v);
        vf sum[STORED_FEW];
        V_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] = (vf){0};
        V_UNROLL
        for (int j = 0; j < run; j++) {
            const vf w = codes_of(type, p, i + j, o + v, some) - zero;
            V_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r] = v_fma(w, v_set(x[r * ldx + i + j]), sum[r]);
        }
        V_UNROLL
        for (int r = 0; r < rows; r++) {
            float *to = y + r * ldy + v;
            v_store_to(to, v_fma(scale, sum[r], v_load_to(to, some)), some);
        }
    }
}

/* Returns the number of inputs from i on that are of group g, at most RUN. */
static int64_t run_of(const mf_stored_part *p, int64_t in, int64_t i, int64_t g)
{
    int64_t n = 1;
    if (!p->group_of) return min64(min64(in, (g + 1) * p->group_size) - i, RUN);
    while (n < RUN && i + n < in && p->group_of[i + n] == g)
        n++;
    return n;
}

V_INLINE void few(mf_stored_type type, int rows, const mf_stored_part *p, int64_t in, int64_t o,
                  int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    columns_group group;
    const bool awq = type == MF_STORED_AWQ4;
    const int64_t row = awq ? p->rows / 8 : p->rows, each = awq ? 1 : 4,
                  bytes = awq ? n / 2 : 4 * n;
    const uint32_t *data = (const uint32_t *)p->data + (awq ? o / 8 : o);
    int64_t now = -1;
    for (int r = 0; r < rows; r++)
        memset(y + r * ldy, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0, run; i < in; i += run) {
        const int64_t g = mf_stored_group_of(p, i);
        if (g != now) load_group(type, p, now = g, o, n, &group);
        run = run_of(p, in, i, g);
        for (int64_t j = 0; j < RUN; j += each) /* the next rows of the file */
            for (int64_t k = 0; k < bytes; k += 64)
                prefetch_weights((const char *)(data + (i + j + RUN) / each * row) + k);
        if (run == RUN) {
            add_run(type, RUN, rows, p, i, o, n, &group, x, ldx, y, ldy);
        } else {
            for (int64_t j = 0; j < run; j++)
                add_run(type, 1, rows, p, i + j, o, n, &group, x, ldx, y, ldy);
        }
    }
}

#define FEW(type, rows) few(type, rows, p, in, o, n, x, ldx, y + o - o0, ldy)
#define FEW_OF(type)                                                                           \
    (rows == 1   ? FEW(type, 1)                                                                \
     : rows == 2 ? FEW(type, 2)                                                                \
     : rows == 3 ? FEW(type, 3)                                                                \
                 : FEW(type, 4))

void MF_SIMD(stored_few_columns)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                 int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                                 int64_t ldy)
{
    (void)bf16;
    for (int64_t o = o0; o < o1; o += OUTPUTS) {
        const int64_t n = min64(OUTPUTS, o1 - o);
        if (p->type == MF_STORED_AWQ4)
            FEW_OF(MF_STORED_AWQ4);
        else
            FEW_OF(MF_STORED_GPTQ8);
    }
}

V_INLINE void unpack(mf_stored_type type, const mf_stored_part *p, int64_t o0, int64_t o1,
                     int64_t i0, int64_t i1, float *out, int64_t ld)
{
    for (int64_t o = o0; o < o1; o += VL) {
        const int64_t n = min64(VL, o1 - o);
        int64_t now = -1;
        vf scale = {0}, zero = {0};
        for (int64_t i = i0; i < i1; i += VL) {
            const int64_t some = min64(VL, i1 - i);
            float *to = out + (o - o0) * ld + i - i0;
            vf w[VL];
            for (int64_t j = 0; j < VL; j++) {
                const int64_t at = min64(i + j, i1 - 1), g = mf_stored_group_of(p, at);
                if (g != now) {
                    scale = gptq_scales(p, now = g, o, n);
                    zero = code_zeros(type, p, g, o, n);
                }
                w[j] = (codes_of(type, p, at, o, n) - zero) * scale;
            }
            transpose(w);
            for (int64_t r = 0; r < n; r++)
                v_store_to(to + r * ld, w[r], some);
        }
    }
}

void MF_SIMD(stored_unpack_columns)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                    int64_t i0, int64_t i1, float *out, int64_t ld)
{
    (void)in;
    if (p->type == MF_STORED_AWQ4)
        unpack(MF_STORED_AWQ4, p, o0, o1, i0, i1, out, ld);
    else
        unpack(MF_STORED_GPTQ8, p, o0, o1, i0, i1, out, ld);
}
