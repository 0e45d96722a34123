/* attention_tiles.h: the gemms of attention_bf16.h with matrix registers of AMX.
 *
 * A register has rows with words along the inner index, or words of neighbouring columns side
 * by side. So scores are rows of keys times turned queries, as they are stored. Sums of queries
 * are transposed, [wide, QUERIES]: values of a block of keys are stored as [wide, keys / 2],
 * which are rows, and words of weights [keys / 2, QUERIES] are columns.
 *
 * All three sizes of a gemm are multiples of 16. Weights of keys that a query does not attend
 * to are 0 there, and so is what they are multiplied with. */
#ifndef MF_SIMD_ATTENTION_TILES_H
#define MF_SIMD_ATTENTION_TILES_H

#include "kernels/cpu/simd/gemm/amx_instructions.h"

#define FORWARD  NAME(attention_by_amx)
#define BACKWARD NAME(attention_by_amx_backward)

attention_fn FORWARD, BACKWARD;

/* Keys may be skipped by this number. */
#define SKIP (2 * TILE_WORDS)

/* Operands of a gemm: a [m, k] and b [k, n] are words, c [m, n] is f32. */
typedef struct tile_gemm {
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
} tile_gemm;

/* Computes up to 32 rows from i on and up to 32 columns from j on. The flags must be constants
 * for the compiler. */
V_INLINE void multiply_some(const tile_gemm *p, int64_t i, int64_t j, bool more_rows,
                            bool more_columns, bool add)
{
    const int64_t down = p->lda * 4, across = p->ldb * 4, next = p->ldc * 4;
    const float *a = p->a + i * p->lda, *b = p->b + j;
    float *c = p->c + i * p->ldc + j, *below = c + TILE_ROWS * p->ldc;
    if (add) {
        TILE_LOAD(0, c, next);
        if (more_columns) TILE_LOAD(1, c + 16, next);
        if (more_rows) TILE_LOAD(2, below, next);
        if (more_rows && more_columns) TILE_LOAD(3, below + 16, next);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (int64_t q = 0; q < p->k; q += TILE_WORDS, a += TILE_WORDS, b += TILE_WORDS * p->ldb) {
        TILE_LOAD(6, b, across);
        TILE_LOAD(4, a, down);
        TILE_DOT(0, 4, 6);
        if (more_columns) {
            TILE_LOAD(7, b + 16, across);
            TILE_DOT(1, 4, 7);
        }
        if (more_rows) {
            TILE_LOAD(5, a + TILE_ROWS * p->lda, down);
            TILE_DOT(2, 5, 6);
            if (more_columns) TILE_DOT(3, 5, 7);
        }
    }
    TILE_STORE(0, c, next);
    if (more_columns) TILE_STORE(1, c + 16, next);
    if (more_rows) TILE_STORE(2, below, next);
    if (more_rows && more_columns) TILE_STORE(3, below + 16, next);
}

/* c = a b, or c += a b. add must be a constant for the compiler. */
V_INLINE void multiply_tiles_as(const tile_gemm *p, bool add)
{
    for (int64_t i = 0; i < p->m; i += 2 * TILE_ROWS)
        for (int64_t j = 0; j < p->n; j += 2 * TILE_ROWS) {
            const bool rows = i + TILE_ROWS < p->m, columns = j + TILE_ROWS < p->n;
            if (rows && columns)
                multiply_some(p, i, j, true, true, add);
            else if (rows)
                multiply_some(p, i, j, true, false, add);
            else if (columns)
                multiply_some(p, i, j, false, true, add);
            else
                multiply_some(p, i, j, false, false, add);
        }
}
static void __attribute__((noinline)) multiply_first(const tile_gemm *p)
{
    multiply_tiles_as(p, false);
}
static void __attribute__((noinline)) multiply_more(const tile_gemm *p)
{
    multiply_tiles_as(p, true);
}

/* Returns the number of keys that some query attends to. */
static inline int64_t most_keys(const attention_views *v)
{
    int64_t most = 0;
    for (int i = 0; i < v->n; i++)
        most = v->of[i].some > most ? v->of[i].some : most;
    return most;
}

/* Writes rows [rows, n] of a block of keys as values, up to the next multiple of 32 rows. */
static inline void pack_values(int64_t rows, const head_size *h, const float *from, int64_t ld,
                               float *to)
{
    for (int64_t r = 0; r < rows; r += 2 * VL)
        for (int64_t c = 0; c < h->n; c += VL) {
            vf x[16];
            V_UNROLL
            for (int i = 0; i < 16; i++) {
                const int64_t at = r + 2 * i;
                x[i] = at < rows ? pair_of(at + 1 < rows, h->n - c, from + at * ld + c, ld)
                                 : (vf){0};
            }
            block_transpose(x);
            V_UNROLL
            for (int i = 0; i < 16; i++)
                v_store(to + (c + i) * BLOCK_KEYS / 2 + r / 2, x[i]);
        }
}

/* score [keys, QUERIES] = rows [keys, words] times turned [words, QUERIES] */
static inline void scores_of(const attention_views *v, const head_size *h, const float *rows,
                             const float *turned, float *score)
{
    const tile_gemm p = {.m = whole_vectors(most_keys(v)),
                         .n = v->n * VL,
                         .k = h->words,
                         .a = rows,
                         .lda = h->row,
                         .b = turned,
                         .ldb = QUERIES,
                         .c = score,
                         .ldc = QUERIES};
    multiply_first(&p);
}

/* to [wide, queries] = the values from key `skip` on times words [keys / 2, QUERIES]. If `add`,
 * the result is added to `to`. Words of keys that a query does not attend to become 0. */
static inline void words_to_queries(const attention_views *v, int64_t nt, const head_size *h,
                                    float *words, const float *values, int64_t skip, bool add,
                                    float *to)
{
    const tile_gemm p = {.m = h->wide,
                         .n = v->n * VL,
                         .k = whole_vectors((most_keys(v) + 1) / 2),
                         .a = values + skip / 2,
                         .lda = BLOCK_KEYS / 2,
                         .b = words,
                         .ldb = QUERIES,
                         .c = to,
                         .ldc = QUERIES};
    (void)nt;
    for (int i = 0; i < v->n; i++)
        for (int64_t q = (v->of[i].some + 1) / 2; q < p.k; q++)
            v_store(words + q * QUERIES + i * VL, (vf){0});
    if (add)
        multiply_more(&p);
    else
        multiply_first(&p);
}

/* to [keys, wide] += words [keys, QUERIES / 2] times pairs [queries / 2, wide]. Words of keys
 * that a query does not attend to become 0. */
static inline void words_to_keys(const attention_views *v, int64_t nt, const head_size *h,
                                 float *words, const float *pairs, float *to)
{
    const tile_gemm p = {.m = whole_vectors(most_keys(v)),
                         .n = h->wide,
                         .k = whole_vectors((nt + 1) / 2),
                         .a = words,
                         .lda = QUERIES / 2,
                         .b = pairs,
                         .ldb = h->wide,
                         .c = to,
                         .ldc = h->wide};
    for (int64_t i = 0; i < 2 * p.k / VL; i++)
        for (int64_t s = i < v->n ? (v->of[i].some + 1) / 2 * 2 : 0; s < p.m; s++)
            memset(words + (s * QUERIES + i * VL) / 2, 0, VL / 2 * sizeof *words);
    multiply_more(&p);
}

static inline void clear_sums(int64_t nt, const head_size *h, float *sums)
{
    (void)nt;
    memset(sums, 0, (size_t)(h->wide * QUERIES) * sizeof *sums);
}

/* Multiplies the sums of each query by its factor. */
static inline void shrink_sums(int64_t nt, const head_size *h, const float *factor, float *sums)
{
    for (int64_t t = 0; t < nt; t += VL) {
        const vf f = v_load(factor + t);
        if (_mm512_cmp_ps_mask(f, v_set(1), _CMP_NEQ_UQ) == 0) continue;
        for (int64_t j = 0; j < h->wide; j++)
            v_store(sums + j * QUERIES + t, v_load(sums + j * QUERIES + t) * f);
    }
}

/* to [nt, n] = the sums of each query times its factor */
static inline void put_sums(int64_t nt, const head_size *h, const float *factor,
                            const float *sums, float *to, int64_t ld)
{
    for (int64_t t = 0; t < nt; t += VL)
        for (int64_t j = 0; j < h->n; j += VL) {
            vf x[16];
            V_UNROLL
            for (int i = 0; i < 16; i++)
                x[i] = v_load(sums + (j + i) * QUERIES + t) * v_load(factor + t);
            block_transpose(x);
            for (int64_t i = 0; i < 16 && t + i < nt; i++)
                store_left(to + (t + i) * ld + j, x[i], h->n - j);
        }
}

#endif
