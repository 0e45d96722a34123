/* packed.c: stored weights of four bits (MF_STORED_GPTQ4, MF_STORED_MXFP4), decoded by the
 * formulas of kernels/stored.h. */
#include "kernels/cpu/simd/stored/stored.h"
#include "kernels/cpu/simd/vec.h"

static float gptq_at(const mf_stored_part *p, int64_t o, int64_t i)
{
    const uint32_t *data = p->data, *zeros = p->zeros;
    const int64_t g = p->group_of ? p->group_of[i] : i / p->group_size;
    const int q = data[i / 8 * p->rows + o] >> 4 * (i % 8) & 15,
              zero = zeros[g * (p->rows / 8) + o / 8] >> 4 * (o % 8) & 15;
    return mf_f16_to_f32(((const mf_f16 *)p->scales)[g * p->rows + o]) * (float)(q - zero - 1);
}

static float mxfp4_at(const mf_stored_part *p, int64_t in, int64_t o, int64_t i)
{
    static const float values[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    const int bits = ((const uint8_t *)p->data)[(o * in + i) / 2] >> (i % 2 ? 4 : 0) & 15;
    const int exponent = ((const uint8_t *)p->scales)[(o * in + i) / 32] - 127;
    return ldexpf(bits & 8 ? -values[bits & 7] : values[bits & 7], exponent);
}

void MF_SIMD(stored_unpack_gptq4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                  int64_t i0, int64_t i1, float *out, int64_t ld)
{
    (void)in;
    for (int64_t o = o0; o < o1; o++)
        for (int64_t i = i0; i < i1; i++)
            out[(o - o0) * ld + i - i0] = gptq_at(p, o, i);
}

void MF_SIMD(stored_unpack_mxfp4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                  int64_t i0, int64_t i1, float *out, int64_t ld)
{
    for (int64_t o = o0; o < o1; o++)
        for (int64_t i = i0; i < i1; i++)
            out[(o - o0) * ld + i - i0] = mxfp4_at(p, in, o, i);
}

/* Blocks of inputs are unpacked, and multiplied with all rows. */
static void few(stored_unpack *unpack, const mf_stored_part *p, int64_t in, int64_t o0,
                int64_t o1, int64_t rows, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    enum { INPUTS = 512 };
    float w[INPUTS] __attribute__((aligned(64)));
    for (int64_t o = o0; o < o1; o++)
        for (int64_t i = 0; i < in; i += INPUTS) {
            const int64_t n = in - i < INPUTS ? in - i : INPUTS;
            unpack(p, in, o, o + 1, i, i + n, w, INPUTS);
            for (int64_t r = 0; r < rows; r++) {
                float *to = &y[r * ldy + o - o0];
                *to = (i > 0 ? *to : 0) + v_dot(n, x + r * ldx + i, w);
            }
        }
}

void MF_SIMD(stored_few_gptq4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                               int64_t rows, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    few(MF_SIMD(stored_unpack_gptq4), p, in, o0, o1, rows, x, ldx, y, ldy);
}

void MF_SIMD(stored_few_mxfp4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                               int64_t rows, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    few(MF_SIMD(stored_unpack_mxfp4), p, in, o0, o1, rows, x, ldx, y, ldy);
}
