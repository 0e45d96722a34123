/* bf16.h: converts one number from f32 to bf16 and back.
 *
 * A bf16 is the upper half of an f32. Conversion to bf16 rounds to nearest, ties to even. A NaN
 * remains a NaN: its quiet bit is set, because without the lower half it could become infinite.
 * kernels/cpu/simd/vec.h has the same conversion for vectors, with the same bits. */
#ifndef MF_BF16_H
#define MF_BF16_H

#include <stdint.h>
#include <string.h>

/* Marks functions that CUDA kernels also call. The CUDA compiler translates them twice, for
 * host and device. */
#ifdef __CUDACC__
#define MF_ON_DEVICE __host__ __device__
#else
#define MF_ON_DEVICE
#endif

typedef uint16_t mf_bf16;

MF_ON_DEVICE static inline float mf_bf16_to_f32(mf_bf16 number)
{
    uint32_t bits = (uint32_t)number << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

MF_ON_DEVICE static inline mf_bf16 mf_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return (mf_bf16)(bits >> 16 | 0x40);
    return (mf_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
