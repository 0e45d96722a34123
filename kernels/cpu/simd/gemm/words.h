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

#if ENGINE_BF16
/* Returns words of which word i is element i of both halves of x. */
V_INLINE vf words_of_halves(__m512i x)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vf)_mm512_permutexvar_epi16(order, x);
}
#endif

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
