/* attention_pairs.h: the gemms of attention_bf16.h with the instruction that multiplies pairs
 * of bf16. Sums of queries are [QUERIES, wide]; values of a block of keys are words along keys,
 * [keys / 2, wide]. */
#ifndef MF_SIMD_ATTENTION_PAIRS_H
#define MF_SIMD_ATTENTION_PAIRS_H

#define FORWARD  MF_SIMD(attention_by_pairs)
#define BACKWARD MF_SIMD(attention_by_pairs_backward)

static inline void tiles_begin(void) {}
static inline void tiles_end(void) {}

/* Keys may be skipped by this number. */
#define SKIP 2

/* Writes rows [rows, n] of a block of keys as values. */
static inline void pack_values(int64_t rows, const head_size *h, const float *from, int64_t ld,
                               float *to)
{
    pack_pairs(rows, h, from, ld, to);
}

/* score [keys, QUERIES] = rows [keys, words] times turned [words, QUERIES], where queries
 * attend to keys */
static inline void scores_of(const attention_views *v, const head_size *h, const float *rows,
                             const float *turned, float *score)
{
    attention_scores(v, h->words, rows, h->row, turned, score);
}

/* to [queries, wide] = words [keys / 2, QUERIES] transposed times the values from key `skip`
 * on. If `add`, the result is added to `to`. */
static inline void words_to_queries(const attention_views *v, int64_t nt, const head_size *h,
                                    float *words, const float *values, int64_t skip, bool add,
                                    float *to)
{
    for (int i = 0; i < v->n; i++)
        block_columns(attention_min(nt - i * VL, VL), h->wide, (v->of[i].some + 1) / 2,
                      words + i * VL, QUERIES, values + skip / 2 * h->wide, h->wide, add,
                      to + i * VL * h->wide, h->wide);
}

/* to [keys, wide] += words [keys, QUERIES / 2] times pairs [queries / 2, wide] */
static inline void words_to_keys(const attention_views *v, int64_t nt, const head_size *h,
                                 float *words, const float *pairs, float *to)
{
    int64_t from = 0;
    for (int i = 0; i < v->n; i++) {
        const int64_t end = v->of[i].some, at = i * VL / 2;
        block_rows(end - from, h->wide, (nt - i * VL + 1) / 2, words + from * QUERIES / 2 + at,
                   QUERIES / 2, pairs + at * h->wide, h->wide, true, to + from * h->wide,
                   h->wide);
        from = end > from ? end : from;
    }
}

static inline void clear_sums(int64_t nt, const head_size *h, float *sums)
{
    memset(sums, 0, (size_t)(nt * h->wide) * sizeof *sums);
}

/* Multiplies the sums of each query by its factor. */
static inline void shrink_sums(int64_t nt, const head_size *h, const float *factor, float *sums)
{
    for (int64_t t = 0; t < nt; t++, sums += h->wide)
        for (int64_t i = 0; i < h->wide && factor[t] != 1; i += VL)
            v_store(sums + i, v_load(sums + i) * factor[t]);
}

/* to [nt, n] = the sums of each query times its factor */
static inline void put_sums(int64_t nt, const head_size *h, const float *factor,
                            const float *sums, float *to, int64_t ld)
{
    for (int64_t t = 0; t < nt; t++, sums += h->wide, to += ld)
        for (int64_t j = 0; j < h->n; j += VL)
            store_left(to + j, v_load(sums + j) * factor[t], h->n - j);
}

#endif
