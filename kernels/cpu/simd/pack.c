/* pack.c: weights turned into the panels that product_panels.h reads, in place: the LANES rows
 * of a panel take the bytes that it takes. */
#define HALF 0
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/product_words.h"

#define MOST_WORDS 8192 /* of the inner index */

typedef struct packing {
    int64_t n, words;
    float *w;
} packing;

static void pack_tile(void *arg, int64_t t)
{
    const packing *p = arg;
    const int64_t panels = div_up(p->n, LANES), j = t % panels * LANES;
    const int64_t width = p->n - j < LANES ? p->n - j : LANES;
    float panel[MOST_WORDS * LANES] __attribute__((aligned(64)));
    float *w = p->w + (t / panels * p->n + j) * p->words;
    const product_side s = {w, MF_CAST_F32, p->words, true, NULL, p->words, false};
    pack_along(&s, false, 0, width, 0, p->words, panel);
    for (int64_t q = 0; q < p->words; q++)
        memcpy(w + q * width, panel + q * LANES, (size_t)width * sizeof *w);
}

static bool has_pairs(void)
{
#if defined(MF_HAVE_AVX512BF16)
    return __builtin_cpu_supports("avx512bf16") && MF_SIMD(product_tiles) == NULL;
#else
    return false;
#endif
}

bool MF_SIMD(pack_weights)(const mf_kctx *x, mf_cast_type type, int64_t parts, int64_t n,
                           int64_t k, void *w)
{
    const int64_t per = type == MF_CAST_F32 ? 1 : 2;
    const packing p = {n, k / per, w};
    if (mf_library_chosen(VL > 4) != NULL || n <= 0 || n % VL != 0 || k <= 0 ||
        p.words > MOST_WORDS)
        return false;
    /* The engine of f32 widens whole pairs, a block of the inner index at a time. */
    if (per == 2 && (!has_pairs() || k % 2 != 0 || div_up(k, div_up(k, KC)) % 2 != 0))
        return false;
    x->parallel(parts * div_up(n, LANES), pack_tile, (void *)&p);
    return true;
}
