/* f16.h: converts one number from f16 (IEEE 754 binary16) to f32. The conversion is exact, and
 * a NaN stays a NaN with the same payload. */
#ifndef MF_F16_H
#define MF_F16_H

#include <stdint.h>
#include <string.h>

#include "bf16.h"

typedef uint16_t mf_f16;

MF_ON_DEVICE static inline float mf_f16_to_f32(mf_f16 number)
{
    const uint32_t sign = (uint32_t)(number & 0x8000) << 16, rest = number & 0x7fff;
    uint32_t bits = rest << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f; /* the exponents of the formats differ by 112; subnormal numbers
                        * become normal */
    memcpy(&bits, &value, sizeof bits);
    if (rest >= 0x7c00) bits = 0x7f800000 | rest << 13;
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
