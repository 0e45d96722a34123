/* random.c: random numbers of a stream. Word i of a stream is word i % 4 of its block i / 4, so
 * any number can be drawn independently. */
#include <math.h>

#include "kernels/ref/ref.h"

static float uniform_of(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static uint32_t word_of(const mf_kctx *x, uint64_t stream, int64_t i)
{
    uint32_t block[4];
    x->rng_block(x->key->seed, stream, x->key->step, (uint64_t)i / 4, block);
    return block[i % 4];
}

static void uniform(const mf_kctx *x, uint64_t stream, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = uniform_of(word_of(x, stream, i));
}

/* Box-Muller: words 2j and 2j + 1 become two normals, number 2j by the cosine and 2j + 1 by
 * the sine. */
static void normal(const mf_kctx *x, uint64_t stream, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        double u = ((double)word_of(x, stream, i & ~(int64_t)1) + 1) * 0x1p-32;
        double angle = 6.283185307179586476925 * ((double)word_of(x, stream, i | 1) * 0x1p-32);
        double r = sqrt(-2 * log(u));
        out[i] = (float)(r * (i % 2 ? sin(angle) : cos(angle)));
    }
}

void mf_ref_random(const mf_kctx *x, const mf_random_args *a)
{
    if (a->kind == MF_RANDOM_UNIFORM)
        uniform(x, a->stream, a->n, a->out);
    else
        normal(x, a->stream, a->n, a->out);
}

void mf_ref_dropout(const mf_kctx *x, const mf_dropout_args *a)
{
    float scale = 1 / (1 - a->p);
    for (int64_t i = 0; i < a->n; i++)
        a->out[i] = uniform_of(word_of(x, a->stream, i)) >= a->p ? a->in[i] * scale : 0;
}
