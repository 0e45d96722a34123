/* product.c: any product that mf_product describes. */
#include <string.h>

#include "kernels/ref/ref.h"

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) /* a NaN stays one */
        bits |= 0x00400000u;
    else
        bits += 0x7fffu + (bits >> 16 & 1);
    return (uint16_t)(bits >> 16);
}

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float get(mf_cast_type type, const void *from, int64_t i)
{
    return type == MF_CAST_F32 ? ((const float *)from)[i]
                               : from_bf16(((const uint16_t *)from)[i]);
}

static void put(mf_cast_type type, void *to, int64_t i, float f)
{
    if (type == MF_CAST_F32)
        ((float *)to)[i] = f;
    else
        ((uint16_t *)to)[i] = to_bf16(f);
}

/* Element [row, col] of what is stored, rows through the index. */
static double at(mf_cast_type type, const void *from, int64_t ld, const int32_t *index,
                 int64_t row, int64_t col, bool as_bf16)
{
    if (index != NULL) row = index[row];
    if (row < 0) return 0;
    float f = get(type, from, row * ld + col);
    return as_bf16 ? (double)from_bf16(to_bf16(f)) : (double)f;
}

static const void *step(mf_cast_type type, const void *from, int64_t elements)
{
    return (const char *)from + elements * (type == MF_CAST_F32 ? 4 : 2);
}

/* Rows i0 .. i1 of c over the inner indices k0 .. k1. */
static void part(const mf_product *p, const void *a, const void *b, const float *bias, void *c,
                 int64_t i0, int64_t i1, int64_t k0, int64_t k1)
{
    const bool half = p->as_bf16 || p->type_a == MF_CAST_BF16 || p->type_b == MF_CAST_BF16;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t q = k0; q < k1; q++) {
                double u = p->trans_a ? at(p->type_a, a, p->lda, p->row_a, q, i, half)
                                      : at(p->type_a, a, p->lda, p->row_a, i, q, half);
                double v = p->trans_b ? at(p->type_b, b, p->ldb, p->row_b, j, q, half)
                                      : at(p->type_b, b, p->ldb, p->row_b, q, j, half);
                sum += u * v;
            }
            sum = (double)p->alpha * sum + (bias != NULL ? (double)bias[j] : 0);
            if (p->beta != 0) sum += (double)get(p->type_c, c, i * p->ldc + j);
            put(p->type_c, c, i * p->ldc + j, (float)sum);
        }
}

void mf_ref_product(const mf_kctx *x, const mf_product *p)
{
    int64_t parts = p->parts > 0 ? p->parts : 1;
    (void)x;
    for (int64_t i = 0; i < parts; i++) {
        const void *a = p->a, *b = p->b;
        void *c = p->c;
        const float *bias = p->bias != NULL ? p->bias + i * p->step_bias : NULL;
        if (p->by != MF_BY_INNER) b = step(p->type_b, b, i * p->step_b);
        if (p->by != MF_BY_ROWS)
            c = (char *)c + i * p->step_c * (p->type_c == MF_CAST_F32 ? 4 : 2);
        if (p->by == MF_BY_BATCH)
            part(p, step(p->type_a, a, i * p->step_a), b, bias, c, 0, p->m, 0, p->k);
        else if (p->by == MF_BY_ROWS)
            part(p, a, b, bias, c, p->offset[i], p->offset[i + 1], 0, p->k);
        else
            part(p, a, b, NULL, c, 0, p->m, p->offset[i], p->offset[i + 1]);
    }
    if (p->by != MF_BY_ROWS) return;
    for (int64_t i = p->offset[parts]; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            put(p->type_c, p->c, i * p->ldc + j, 0);
}
