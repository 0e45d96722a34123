/* gemm.c: any gemm that mf_gemm describes: for each element of c one sum in double, in the
 * order of the inner index, rounded once. */
#include "kernels/ref/ref.h"

/* Element [row, col] as a double, rounded to bf16 if as_bf16. o->row, if it is given, selects
 * the stored row; a negative one is all zeros. */
static double at(const mf_gemm_operand *o, int64_t row, int64_t col, bool as_bf16)
{
    if (o->row != NULL) row = o->row[row];
    if (row < 0) return 0;
    const float f = ref_load((int)o->type, o->data, row * o->ld + col);
    return as_bf16 ? (double)mf_bf16_to_f32(mf_bf16_from_f32(f)) : (double)f;
}

/* One group: rows i0 .. i1 - 1 of c over the inner indices k0 .. k1 - 1. */
typedef struct part {
    mf_gemm_operand a, b;
    const float *bias;
    void *c;
    int64_t i0, i1, k0, k1;
} part;

static void *step(mf_cast_type type, const void *from, int64_t elements)
{
    return (char *)(uintptr_t)from + elements * mf_cast_size((int)type);
}

static void multiply(const mf_gemm *g, const part *p)
{
    const bool bf16 = g->as_bf16 || g->a.type == MF_CAST_BF16 || g->b.type == MF_CAST_BF16;
    for (int64_t i = p->i0; i < p->i1; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t q = p->k0; q < p->k1; q++)
                sum += at(&p->a, g->a.trans ? q : i, g->a.trans ? i : q, bf16) *
                       at(&p->b, g->b.trans ? j : q, g->b.trans ? q : j, bf16);
            sum = (double)g->alpha * sum + (p->bias != NULL ? (double)p->bias[j] : 0);
            if (g->beta != 0) sum += (double)ref_load((int)g->c.type, p->c, i * g->c.ld + j);
            ref_store((int)g->c.type, p->c, i * g->c.ld + j, (float)sum);
        }
}

void mf_ref_gemm(const mf_kctx *x, const mf_gemm *g)
{
    const int64_t groups = g->groups > 0 ? g->groups : 1;
    if (mf_kctx_failed(x)) return;
    for (int64_t i = 0; i < groups; i++) {
        part p = {.a = g->a, .b = g->b, .c = g->c.data, .i1 = g->m, .k1 = g->k};
        if (g->by != MF_BY_INNER) {
            p.b.data = step(g->b.type, g->b.data, i * g->b.step);
            p.bias = g->bias != NULL ? g->bias + i * g->step_bias : NULL;
        } else {
            p.k0 = g->offset[i];
            p.k1 = g->offset[i + 1];
        }
        if (g->by == MF_BY_BATCH) p.a.data = step(g->a.type, g->a.data, i * g->a.step);
        if (g->by != MF_BY_ROWS) {
            p.c = step(g->c.type, g->c.data, i * g->c.step);
        } else {
            p.i0 = g->offset[i];
            p.i1 = g->offset[i + 1];
        }
        multiply(g, &p);
    }
    if (g->by != MF_BY_ROWS) return;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n && (i < g->offset[0] || i >= g->offset[groups]); j++)
            ref_store((int)g->c.type, g->c.data, i * g->c.ld + j, 0);
}
