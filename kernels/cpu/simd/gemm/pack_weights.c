/* pack_weights.c: packs weights in place into the panels that packed.h reads. This is possible
 * because the rows of a panel have as many bytes as the panel. */
#define ENGINE_BF16 0
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/gemm/pack.h"

#define MOST_WORDS 8192 /* maximum number of words of the inner index */

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
    const gemm_side s = {w, MF_CAST_F32, p->words, true, NULL, p->words, false};
    pack_along(&s, false, 0, width, 0, p->words, panel);
    for (int64_t q = 0; q < p->words; q++)
        memcpy(w + q * width, panel + q * LANES, (size_t)width * sizeof *w);
}

static bool has_pairs(void)
{
#if defined(MF_HAVE_AVX512BF16)
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

bool MF_SIMD(can_pack)(int type, int64_t n, int64_t k)
{
    const int64_t per = type == MF_CAST_F32 ? 1 : 2;
    if (mf_library_chosen(VL > 4) || n <= 0 || n % VL != 0 || k <= 0 || k / per > MOST_WORDS)
        return false;
    /* In bf16, the f32 engine converts whole pairs, one block of the inner index at a time. */
    return per == 1 || (has_pairs() && k % 2 == 0 && div_up(k, div_up(k, KC)) % 2 == 0);
}

void MF_SIMD(pack_weights)(const mf_kctx *x, const mf_pack_weights_args *a)
{
    const packing p = {a->n, a->k / (a->type == MF_CAST_F32 ? 1 : 2), a->w};
    if (MF_SIMD(can_pack)(a->type, a->n, a->k))
        x->parallel(a->parts * div_up(a->n, LANES), pack_tile, (void *)&p);
}
