/* stored_packed.c: one weight of a type with four bits (MF_STORED_GPTQ4, MF_STORED_MXFP4),
 * decoded by the formula of stored.h. */
#include "kernels/ref/ref.h"

static double gptq(const mf_stored_part *p, int64_t o, int64_t i)
{
    const uint32_t *data = p->data, *zeros = p->zeros;
    const int64_t g = p->group_of ? p->group_of[i] : i / p->group_size;
    const int q = data[i / 8 * p->rows + o] >> 4 * (i % 8) & 15,
              zero = zeros[g * (p->rows / 8) + o / 8] >> 4 * (o % 8) & 15;
    return (double)mf_f16_to_f32(((const mf_f16 *)p->scales)[g * p->rows + o]) * (q - zero - 1);
}

static double mxfp4(const mf_stored_part *p, int64_t in, int64_t o, int64_t i)
{
    static const double values[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    const int bits = ((const uint8_t *)p->data)[(o * in + i) / 2] >> (i % 2 ? 4 : 0) & 15;
    const int exponent = ((const uint8_t *)p->scales)[(o * in + i) / 32];
    if (exponent == 255) return NAN;
    return ldexp(bits & 8 ? -values[bits & 7] : values[bits & 7], exponent - 127);
}

double mf_ref_stored_packed(const mf_stored_part *p, int64_t in, int64_t o, int64_t i)
{
    return p->type == MF_STORED_GPTQ4 ? gptq(p, o, i) : mxfp4(p, in, o, i);
}
