/* gguf/gguf_blocks.c: the types of GGUF whose values can be read. A block has one scale d,
 * as f16, and a few bits for each of its elements:
 *
 *   Q4_0   32 elements   d (q - 8); first the low halves of 16 bytes, then the high ones
 *   Q4_1   32            d q + m
 *   Q5_0   32            d (q - 16); the fifth bits are in a word before the halves
 *   Q5_1   32            d q + m
 *   Q8_0   32            d q
 *   Q4_K  256            d s q - m t, for each 32 of them s and t of 6 bits
 *   Q5_K  256            the same; bit j of byte i is the fifth bit of element i of part j
 *   Q6_K  256            d s (q - 32), for each 16 of them s of 8 bits
 *   MXFP4  32            2^(e - 127) v, v one of 0, .5, 1, 1.5, 2, 3, 4, 6 with a sign
 *
 * The layouts are those of ggml (ggml-common.h, ggml-quants.c). */
#include "pretrained/gguf/gguf_read.h"

#include <string.h>
#include "kernels/kernel.h"

enum {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    BF16 = 30,
    MXFP4 = 39
};

static const struct {
    uint32_t type;
    const char *name;
    int elements, bytes; /* 0: cannot be read */
} types[] = {{F32, "F32", 1, 4},       {F16, "F16", 1, 2},       {Q4_0, "Q4_0", 32, 18},
             {Q4_1, "Q4_1", 32, 20},   {Q5_0, "Q5_0", 32, 22},   {Q5_1, "Q5_1", 32, 24},
             {Q8_0, "Q8_0", 32, 34},   {9, "Q8_1", 0, 0},        {10, "Q2_K", 0, 0},
             {11, "Q3_K", 0, 0},       {Q4_K, "Q4_K", 256, 144}, {Q5_K, "Q5_K", 256, 176},
             {Q6_K, "Q6_K", 256, 210}, {15, "Q8_K", 0, 0},       {16, "IQ2_XXS", 0, 0},
             {17, "IQ2_XS", 0, 0},     {18, "IQ3_XXS", 0, 0},    {19, "IQ1_S", 0, 0},
             {20, "IQ4_NL", 0, 0},     {21, "IQ3_S", 0, 0},      {22, "IQ2_S", 0, 0},
             {23, "IQ4_XS", 0, 0},     {24, "I8", 0, 0},         {25, "I16", 0, 0},
             {26, "I32", 0, 0},        {27, "I64", 0, 0},        {28, "F64", 0, 0},
             {29, "IQ1_M", 0, 0},      {BF16, "BF16", 1, 2},     {34, "TQ1_0", 0, 0},
             {35, "TQ2_0", 0, 0},      {MXFP4, "MXFP4", 32, 17}};
enum { TYPES = sizeof types / sizeof *types };

const char *mf_gguf_type_name(uint32_t type)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].type == type) return types[i].name;
    return NULL;
}

bool mf_gguf_block(uint32_t type, int64_t *ret_elements, int64_t *ret_bytes)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].type == type && types[i].bytes > 0) {
            *ret_elements = types[i].elements;
            *ret_bytes = types[i].bytes;
            return true;
        }
    return false;
}

static float f16_at(const unsigned char *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return mf_f16_to_f32(bits);
}

/* Blocks of 32 with halves of bytes at `low`. high: fifth bits, NULL: none. */
static void pairs(const unsigned char *low, const unsigned char *high, float d, int less,
                  float add, float *to)
{
    for (int i = 0; i < 16; i++) {
        int a = low[i] & 15, b = low[i] >> 4;
        if (high) {
            a |= (high[i / 8] >> i % 8 & 1) << 4;
            b |= (high[2 + i / 8] >> i % 8 & 1) << 4;
        }
        to[i] = d * (float)(a - less) + add;
        to[16 + i] = d * (float)(b - less) + add;
    }
}

static void q8_0(const unsigned char *at, float *to)
{
    const float d = f16_at(at);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(signed char)at[2 + i];
}

/* The factor and the minimum of part j of 8, 6 bits each: their low bits, or 4 low ones and 2
 * high ones in bytes of other parts. */
static void parts_of_q4_k(const unsigned char *s, int j, int *ret_scale, int *ret_least)
{
    if (j < 4) {
        *ret_scale = s[j] & 63;
        *ret_least = s[j + 4] & 63;
    } else {
        *ret_scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *ret_least = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

/* high: 32 bytes with the fifth bits, NULL: none. */
static void parts_of_32(const unsigned char *at, const unsigned char *high,
                        const unsigned char *q, float *to)
{
    const float d = f16_at(at), m = f16_at(at + 2);
    const unsigned char *scales = at + 4;
    for (int j = 0; j < 8; j++) {
        int scale, least;
        parts_of_q4_k(scales, j, &scale, &least);
        const float by = d * (float)scale, less = m * (float)least;
        for (int i = 0; i < 32; i++) {
            const unsigned char pair = q[j / 2 * 32 + i];
            const int fifth = high ? (high[i] >> j & 1) << 4 : 0;
            to[j * 32 + i] = by * (float)((j % 2 ? pair >> 4 : pair & 15) | fifth) - less;
        }
    }
}

static void q6_k(const unsigned char *at, float *to)
{
    const unsigned char *low = at, *high = at + 128;
    const signed char *scale = (const signed char *)(at + 192);
    const float d = f16_at(at + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, scale += 8, to += 128)
        for (int part = 0; part < 4; part++)
            for (int i = 0; i < 32; i++) {
                const unsigned char pair = low[part % 2 * 32 + i];
                const int q = (part < 2 ? pair & 15 : pair >> 4) | (high[i] >> (2 * part) & 3)
                                                                       << 4;
                to[part * 32 + i] = d * (float)scale[2 * part + i / 16] * (float)(q - 32);
            }
}

static void mxfp4(const unsigned char *at, float *to)
{
    const float d = mf_e8m0_to_f32(at[0]);
    for (int i = 0; i < 16; i++) {
        to[i] = d * mf_f4_to_f32(at[1 + i] & 15);
        to[16 + i] = d * mf_f4_to_f32(at[1 + i] >> 4);
    }
}

static void number(uint32_t type, const unsigned char *at, float *to)
{
    uint16_t bits;
    if (type == F32) {
        memcpy(to, at, sizeof *to);
        return;
    }
    memcpy(&bits, at, sizeof bits);
    *to = type == F16 ? mf_f16_to_f32(bits) : mf_bf16_to_f32(bits);
}

void mf_gguf_decode(uint32_t type, const void *from, int64_t n, float *to)
{
    const unsigned char *at = from;
    int64_t elements = 0, bytes = 0;
    if (!mf_gguf_block(type, &elements, &bytes)) return;
    for (int64_t i = 0; i < n; i += elements, at += bytes) {
        switch (type) {
        case Q4_0:
            pairs(at + 2, NULL, f16_at(at), 8, 0, to + i);
            break;
        case Q4_1:
            pairs(at + 4, NULL, f16_at(at), 0, f16_at(at + 2), to + i);
            break;
        case Q5_0:
            pairs(at + 6, at + 2, f16_at(at), 16, 0, to + i);
            break;
        case Q5_1:
            pairs(at + 8, at + 4, f16_at(at), 0, f16_at(at + 2), to + i);
            break;
        case Q8_0:
            q8_0(at, to + i);
            break;
        case Q4_K:
            parts_of_32(at, NULL, at + 16, to + i);
            break;
        case Q5_K:
            parts_of_32(at, at + 16, at + 48, to + i);
            break;
        case Q6_K:
            q6_k(at, to + i);
            break;
        case MXFP4:
            mxfp4(at, to + i);
            break;
        default:
            number(type, at, to + i);
        }
    }
}
