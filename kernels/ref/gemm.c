/* gemm.c: any gemm that mf_gemm describes. Each element of c is one sum in double, in the order
 * of the inner index, rounded once. Operands are copied to doubles in blocks. This saves time,
 * because finding an element (type, transposition, selected row) takes longer than multiplying
 * it, and checks by differences spend most of their time here. */
#include "kernels/ref/ref.h"

/* Rows and columns of the block of c whose sums are computed together, and the inner indices
 * for which operands are copied at a time. */
enum { ROWS = 32, COLS = 16, INNER = 32 };

/* A block of a stored matrix; a negative selected row is all zeros. */
typedef struct block {
    const mf_gemm_operand *from;
    bool as_bf16; /* round the elements to bf16 */
    int64_t row, rows, col, cols;
} block;

static double element(const mf_gemm_operand *o, int64_t i, bool as_bf16)
{
    const float f = ref_load((int)o->type, o->data, i);
    return (double)(as_bf16 ? mf_bf16_to_f32(mf_bf16_from_f32(f)) : f);
}

/* Writes element (i, j) of the block to to[i * by_row + j * by_col]. */
static void copy(const block *b, double *to, int64_t by_row, int64_t by_col)
{
    const mf_gemm_operand *o = b->from;
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t row = o->row != NULL ? o->row[b->row + i] : b->row + i;
        const int64_t at = row * o->ld + b->col;
        for (int64_t j = 0; j < b->cols; j++)
            to[i * by_row + j * by_col] = row < 0 ? 0 : element(o, at + j, b->as_bf16);
    }
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

/* Returns block [rows, cols] of op(o), which begins at (row, col). */
static block block_of(const mf_gemm *g, const mf_gemm_operand *o, int64_t row, int64_t rows,
                      int64_t col, int64_t cols)
{
    const bool bf16 = g->as_bf16 || g->a.type == MF_CAST_BF16 || g->b.type == MF_CAST_BF16;
    return o->trans ? (block){o, bf16, col, cols, row, rows}
                    : (block){o, bf16, row, rows, col, cols};
}

/* Adds to sum the terms of inner indices q .. q + inner - 1. */
static void add_inner(const mf_gemm *g, const part *p, int64_t i, int64_t rows, int64_t j,
                      int64_t cols, int64_t q, int64_t inner, double sum[ROWS][COLS])
{
    double a[ROWS][INNER], b[INNER][COLS];
    const block from_a = block_of(g, &p->a, i, rows, q, inner),
                from_b = block_of(g, &p->b, q, inner, j, cols);
    /* sums of columns that do not exist are then sums of zeros */
    if (cols < COLS) memset(b, 0, sizeof b);
    copy(&from_a, a[0], p->a.trans ? 1 : INNER, p->a.trans ? INNER : 1);
    copy(&from_b, b[0], p->b.trans ? 1 : COLS, p->b.trans ? COLS : 1);
    for (int64_t r = 0; r < rows; r++) {
        double s[COLS];
        memcpy(s, sum[r], sizeof s);
        for (int64_t t = 0; t < inner; t++)
            for (int c = 0; c < COLS; c++)
                s[c] += a[r][t] * b[t][c];
        memcpy(sum[r], s, sizeof s);
    }
}

static void store(const mf_gemm *g, const part *p, int64_t i, int64_t j, double sum)
{
    sum = (double)g->alpha * sum + (p->bias != NULL ? (double)p->bias[j] : 0);
    const void *from = g->from != NULL ? (const void *)g->from : p->c;
    if (g->beta != 0) sum += (double)ref_load((int)g->c.type, from, i * g->c.ld + j);
    ref_store((int)g->c.type, p->c, i * g->c.ld + j, (float)sum);
}

static int64_t at_most(int64_t n, int64_t limit)
{
    return n < limit ? n : limit;
}

static void multiply(const mf_gemm *g, const part *p)
{
    for (int64_t i = p->i0; i < p->i1; i += ROWS)
        for (int64_t j = 0; j < g->n; j += COLS) {
            double sum[ROWS][COLS] = {{0}};
            const int64_t rows = at_most(p->i1 - i, ROWS), cols = at_most(g->n - j, COLS);
            for (int64_t q = p->k0; q < p->k1; q += INNER)
                add_inner(g, p, i, rows, j, cols, q, at_most(p->k1 - q, INNER), sum);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < cols; c++)
                    store(g, p, i + r, j + c, sum[r][c]);
        }
}

void mf_ref_gemm(const mf_kctx *x, const mf_gemm *g)
{
    const int64_t groups = g->groups > 0 ? g->groups : 1;
    if (mf_kctx_failed(x)) return;
    if (g->norms || g->epilogue == MF_EPILOGUE_SUM) {
        if (g->norms)
            mf_ref_gemm_normed(x, g);
        else
            mf_ref_gemm_summed(g);
        return;
    }
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
