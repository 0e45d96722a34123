/* words.h: what is multiplied at a time, a word: one f32 or, in files that define ENGINE_BF16
 * as 1, two bf16 that are neighbours along the inner index. Sums are f32. */
#ifndef MF_SIMD_WORDS_H
#define MF_SIMD_WORDS_H

#include "kernels/cpu/simd/vec.h"

#ifndef ENGINE_BF16
#define ENGINE_BF16 0
#endif

/* Returns sum plus, in each lane, the dot product of a word of a and a word of b. */
V_INLINE vf word_dot(vf a, vf b, vf sum)
{
#if ENGINE_BF16
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
    return v_fma(a, b, sum);
#endif
}

V_INLINE vf word_spread(float word)
{
#if defined(__AVX512F__)
    /* The bits of a NaN may be two bf16, so no arithmetic is allowed on them. */
    return _mm512_set1_ps(word);
#else
    return v_set(word);
#endif
}

V_INLINE vf word_spread_from(const char *p)
{
    float word;
    memcpy(&word, p, sizeof word);
    return word_spread(word);
}

#endif
