/* stored_value.h: one weight of a type with 4 or 8 bits, decoded by the formula of stored.h.
 * Fast kernels decode many weights at a time; this is their reference, and it decodes weights
 * that an import reads to f32. */
#ifndef MF_STORED_VALUE_H
#define MF_STORED_VALUE_H

#include "bf16.h"
#include "f16.h"
#include "stored.h"

/* A weight is scale times code. The code is an exact number of few bits. */
typedef struct mf_stored_value {
    float scale, code;
} mf_stored_value;

static inline mf_stored_value mf_stored_number(float scale, float code)
{
    const mf_stored_value v = {scale, code};
    return v;
}

static inline float mf_stored_scale(const mf_stored_part *p, int64_t at)
{
    if (p->scale_type == MF_SCALE_F32) return ((const float *)p->scales)[at];
    const uint16_t bits = ((const uint16_t *)p->scales)[at];
    return p->scale_type == MF_SCALE_BF16 ? mf_bf16_to_f32(bits) : mf_f16_to_f32(bits);
}

static inline int mf_stored_bits(const void *words, int64_t word, int64_t from, int bits)
{
    return (int)(((const uint32_t *)words)[word] >> from & ((1u << bits) - 1));
}

/* E4M3 has the exponents of f16 times 2^8, so a shift of its magnitude gives an f16, also for
 * subnormal numbers. */
static inline float mf_f8_to_f32(mf_stored_type type, uint8_t code)
{
    if (type == MF_STORED_F8_E5M2) return mf_f16_to_f32((uint16_t)(code << 8));
    const uint16_t size = (uint16_t)((code & 0x7f) << 7);
    if ((code & 0x7f) == 0x7f) return mf_f16_to_f32(0x7e00);
    return 256 * mf_f16_to_f32((uint16_t)(size | (code & 0x80) << 8));
}

static inline float mf_f4_to_f32(int code)
{
    static const float size[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -size[code & 7] : size[code & 7];
}

/* 2^(code - 127), NaN for 255 */
static inline float mf_e8m0_to_f32(uint8_t code)
{
    const uint32_t bits = code == 0     ? 0x400000u
                          : code == 255 ? 0x7fc00000u
                                        : (uint32_t)code << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* GPTQ4, GPTQ8, AWQ4: the group of input i. */
static inline int64_t mf_stored_group_of(const mf_stored_part *p, int64_t i)
{
    return p->group_of ? p->group_of[i] : i / p->group_size;
}

static inline mf_stored_value mf_stored_gptq(const mf_stored_part *p, int bits, int64_t o,
                                             int64_t i)
{
    const int64_t each = 32 / bits, g = mf_stored_group_of(p, i);
    const int q = mf_stored_bits(p->data, i / each * p->rows + o, bits * (i % each), bits),
              zero = mf_stored_bits(p->zeros, g * (p->rows / each) + o / each,
                                    bits * (o % each), bits);
    return mf_stored_number(mf_stored_scale(p, g * p->rows + o),
                            (float)(q - zero - (p->whole_zeros ? 0 : 1)));
}

static inline mf_stored_value mf_stored_awq(const mf_stored_part *p, int64_t o, int64_t i)
{
    static const int at[] = {0, 4, 1, 5, 2, 6, 3, 7};
    const int64_t words = p->rows / 8, g = mf_stored_group_of(p, i), from = 4 * at[o % 8];
    const int q = mf_stored_bits(p->data, i * words + o / 8, from, 4),
              zero = mf_stored_bits(p->zeros, g * words + o / 8, from, 4);
    return mf_stored_number(mf_stored_scale(p, g * p->rows + o), (float)(q - zero));
}

static inline mf_stored_value mf_stored_int4(const mf_stored_part *p, int64_t in, int64_t o,
                                             int64_t i)
{
    const int64_t g = i / p->group_size;
    const int q = mf_stored_bits(p->data, (o * in + i) / 8, 4 * (i % 8), 4),
              zero = p->zeros ? mf_stored_bits(p->zeros, o / 8 * p->groups + g, 4 * (o % 8), 4)
                              : 8;
    return mf_stored_number(mf_stored_scale(p, o * p->groups + g), (float)(q - zero));
}

/* Returns W[o,i] of a part that is not F32, BF16 or F16. */
static inline mf_stored_value mf_stored_value_of(const mf_stored_part *p, int64_t in, int64_t o,
                                                 int64_t i)
{
    const uint8_t *bytes = (const uint8_t *)p->data;
    const int64_t at = o * in + i;
    switch (p->type) {
    case MF_STORED_GPTQ4:
        return mf_stored_gptq(p, 4, o, i);
    case MF_STORED_GPTQ8:
        return mf_stored_gptq(p, 8, o, i);
    case MF_STORED_AWQ4:
        return mf_stored_awq(p, o, i);
    case MF_STORED_INT4:
        return mf_stored_int4(p, in, o, i);
    case MF_STORED_MXFP4:
        return mf_stored_number(mf_e8m0_to_f32(((const uint8_t *)p->scales)[at / 32]),
                                mf_f4_to_f32(bytes[at / 2] >> (i % 2 ? 4 : 0) & 15));
    default:
        return mf_stored_number(
            mf_stored_scale(p, o / p->scale_rows * p->groups + i / p->group_size),
            mf_f8_to_f32(p->type, bytes[at]));
    }
}

#endif
