/* attention_bf16_backward.h: the gradient of attention of bf16, as attention_backward.c
 * computes it in f32. A tile is one key head of one sequence with all its query heads. Of each
 * block of keys, the sums over several blocks of queries are added to dk and dv together. */
#define BLOCK_KEYS KEYS
#include "kernels/cpu/simd/attention/attention_bf16.h"

/* One block of queries. */
typedef struct queries {
    int64_t h, t0, nt, begin, end;  /* begin, end: its keys */
    float *turned_q, *turned_dy;    /* [words, QUERIES], with the factor scale */
    float *pairs_q, *pairs_dy, *dq; /* [QUERIES / 2, wide], and sums */
    float lse[QUERIES], delta[QUERIES];
} queries;

/* A block of keys, and values of one block of queries and keys. */
typedef struct keys {
    int64_t b, kv, s0;
    float *rows_k, *rows_v, *values; /* [KEYS, row], and k as values */
    float *dk, *dv;                  /* [KEYS, wide] */
    float *w, *dw;                   /* [KEYS, QUERIES] */
    float *words_w, *words_dw;       /* [KEYS, QUERIES / 2] */
} keys;

static void load_queries(const mf_attention_args *p, const head_size *head, int64_t b,
                         queries *c)
{
    const int64_t hd = head->n, ldy = p->heads * hd, row = b * p->t + c->t0;
    const float *q = p->q + row * p->ldq + c->h * hd, *dy = p->dy + row * ldy + c->h * hd;
    c->nt = attention_min(p->t - c->t0, QUERIES);
    c->end = attention_seen(p, b, c->t0 + c->nt - 1);
    c->begin = attention_min(attention_first(p, b, c->t0) / KEYS * KEYS, c->end);
    pack_turned(c->nt, head, p->scale, q, p->ldq, c->turned_q);
    pack_turned(c->nt, head, p->scale, dy, ldy, c->turned_dy);
    if (p->dk != NULL) pack_pairs(c->nt, head, q, p->ldq, c->pairs_q);
    if (p->dv != NULL) pack_pairs(c->nt, head, dy, ldy, c->pairs_dy);
    attention_statistics(p, b, c->h, c->t0, c->nt, c->lse, c->delta);
    if (c->begin == c->end) clear_sums(c->nt, head, c->dq);
}

/* Stores the bf16 of two rows of VL numbers. */
V_INLINE void put_two(__m512i two, float *to)
{
    _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(two));
    _mm256_storeu_si256((void *)(to + QUERIES / 2), _mm512_extracti64x4_epi64(two, 1));
}

/* For the VL queries of one vector: computes weights e^(score - lse) from w, and with
 * dw = scale v dy^T gradients of scores, weight (dw - delta). Both become words along queries;
 * the gradients also replace dw as words along keys. */
V_INLINE void weight_columns(attention_view v, const float *mask, vf lse, vf delta, float *w,
                             float *dw, float *words_w, float *words_dw)
{
    const vf shift = attention_shift(lse);
    attention_hide(v, mask, w);
    for (int64_t s = 0; mask != NULL && s < v.some; s++)
        if (mask[s] == 0) /* the gradient of a hidden key must be 0, even if v is NaN */
            v_store(dw + s * QUERIES, delta);
    if (v.some % 2 != 0) {
        v_store(w + v.some * QUERIES, v_set(-INFINITY));
        v_store(dw + v.some * QUERIES, delta);
    }
    for (int64_t s = 0; s < v.some; s += 2) {
        vf e[2], d[2];
        V_UNROLL
        for (int i = 0; i < 2; i++) {
            const int64_t at = (s + i) * QUERIES;
            const vf above = v_load(w + at) - shift;
            /* kernels.def describes this limit, at attention. */
            const __mmask16 low = _mm512_cmp_ps_mask(above, v_set(1), _CMP_NGT_UQ);
            e[i] = v_exp_low(_mm512_maskz_mov_ps(low, above));
            d[i] = e[i] * (v_load(dw + at) - delta);
        }
        const __m512i two = both_as_bf16(d[0], d[1]);
        put_two(both_as_bf16(e[0], e[1]), words_w + s * QUERIES / 2);
        put_two(two, words_dw + s * QUERIES / 2);
        v_store(dw + s / 2 * QUERIES, words_of_halves(two));
    }
}

/* Adds to the sums of a block of queries and a block of keys. */
static void add_block(const mf_attention_args *p, const head_size *head, const keys *k,
                      const queries *c)
{
    const int64_t skip = attention_skip(p, k->b, c->t0, k->s0, SKIP), wide = head->wide;
    const int64_t ns = attention_min(c->end - k->s0, KEYS) - skip;
    const attention_views v = attention_look_all(p, k->b, c->t0, c->nt, k->s0 + skip, ns);
    const float *mask = p->mask != NULL ? p->mask + k->b * p->s + k->s0 + skip : NULL;
    const int64_t row = skip * head->row;
    scores_of(&v, head, k->rows_k + row, c->turned_q, k->w);
    scores_of(&v, head, k->rows_v + row, c->turned_dy, k->dw);
    for (int i = 0; i < v.n; i++)
        weight_columns(v.of[i], mask, v_load(c->lse + i * VL),
                       v_load(c->delta + i * VL) * p->scale, k->w + i * VL, k->dw + i * VL,
                       k->words_w + i * VL / 2, k->words_dw + i * VL / 2);
    if (p->dv != NULL)
        words_to_keys(&v, c->nt, head, k->words_w, c->pairs_dy, k->dv + skip * wide);
    if (p->dk != NULL)
        words_to_keys(&v, c->nt, head, k->words_dw, c->pairs_q, k->dk + skip * wide);
    if (p->dq != NULL)
        words_to_queries(&v, c->nt, head, k->dw, k->values, skip, k->s0 > c->begin, c->dq);
}

/* to [rows, n] += from [rows, wide] */
static void add_rows(int64_t rows, const head_size *head, const float *from, float *to,
                     int64_t ld)
{
    for (int64_t r = 0; r < rows; r++, from += head->wide, to += ld)
        for (int64_t j = 0; j < head->n; j += VL)
            store_left(to + j, v_load(from + j) + load_left(to + j, head->n - j), head->n - j);
}

/* Computes the gradients of the queries of `count` blocks, and adds their parts to dk
 * and dv. */
static void add_items(const mf_attention_args *p, const head_size *head, keys *k, queries *item,
                      int64_t count)
{
    const size_t bytes = (size_t)(KEYS * head->wide) * sizeof(float);
    const int64_t column = k->kv * head->n;
    _Alignas(64) float ones[QUERIES];
    int64_t begin = INT64_MAX, end = 0;
    for (int64_t t = 0; t < QUERIES; t++)
        ones[t] = 1;
    for (int64_t i = 0; i < count; i++) {
        load_queries(p, head, k->b, &item[i]);
        if (item[i].begin == item[i].end) continue;
        begin = attention_min(begin, item[i].begin);
        end = end > item[i].end ? end : item[i].end;
    }
    for (int64_t s0 = begin; s0 < end; s0 += KEYS) {
        const int64_t ns = attention_min(end - s0, KEYS), row = k->b * p->s + s0;
        const int64_t at_k = row * p->ldk + column, at_v = row * p->ldv + column;
        k->s0 = s0;
        pack_rows(ns, head, p->k + at_k, p->ldk, k->rows_k);
        pack_rows(ns, head, p->v + at_v, p->ldv, k->rows_v);
        if (p->dq != NULL) pack_values(ns, head, p->k + at_k, p->ldk, k->values);
        memset(k->dk, 0, bytes);
        memset(k->dv, 0, bytes);
        for (int64_t i = 0; i < count; i++)
            if (s0 >= item[i].begin && s0 < item[i].end) add_block(p, head, k, &item[i]);
        if (p->dk != NULL) add_rows(ns, head, k->dk, p->dk + at_k, p->ldk);
        if (p->dv != NULL) add_rows(ns, head, k->dv, p->dv + at_v, p->ldv);
    }
    for (int64_t i = 0; i < count && p->dq != NULL; i++)
        put_sums(item[i].nt, head, ones, item[i].dq,
                 p->dq + (k->b * p->t + item[i].t0) * p->ldq + item[i].h * head->n, p->ldq);
}

static void tile(void *arg, int64_t at)
{
    const mf_attention_args *p = arg;
    const head_size head = head_size_of(p->head_dim);
    const int64_t items = items_of(p), each = most_items(p), share = p->heads / p->kv_heads;
    const size_t bytes = (size_t)head.n * sizeof(float);
    float *room = mf_cpu_room(MF_ROOM_TILE);
    queries item[ITEMS];
    keys k = {.b = at / p->kv_heads,
              .kv = at % p->kv_heads,
              .rows_k = take_room(&room, KEYS * head.row),
              .rows_v = take_room(&room, KEYS * head.row),
              .values = take_room(&room, KEYS / 2 * head.wide),
              .dk = take_room(&room, KEYS * head.wide),
              .dv = take_room(&room, KEYS * head.wide),
              .w = take_room(&room, KEYS * QUERIES),
              .dw = take_room(&room, KEYS * QUERIES),
              .words_w = take_room(&room, KEYS * QUERIES / 2),
              .words_dw = take_room(&room, KEYS * QUERIES / 2)};
    for (int64_t i = 0; i < each; i++) {
        item[i].turned_q = take_room(&room, head.words * QUERIES);
        item[i].turned_dy = take_room(&room, head.words * QUERIES);
        item[i].pairs_q = take_room(&room, QUERIES / 2 * head.wide);
        item[i].pairs_dy = take_room(&room, QUERIES / 2 * head.wide);
        item[i].dq = take_room(&room, QUERIES * head.wide);
    }
    for (int64_t s = k.b * p->s; s < (k.b + 1) * p->s; s++) {
        if (p->dk != NULL) memset(p->dk + s * p->ldk + k.kv * head.n, 0, bytes);
        if (p->dv != NULL) memset(p->dv + s * p->ldv + k.kv * head.n, 0, bytes);
    }
    tiles_begin();
    for (int64_t first = 0; first < items; first += each) {
        const int64_t count = attention_min(items - first, each);
        for (int64_t i = 0; i < count; i++) {
            item[i].h = k.kv * share + (first + i) % share;
            item[i].t0 = (first + i) / share * QUERIES;
        }
        add_items(p, &head, &k, item, count);
    }
    tiles_end();
}

void BACKWARD(const mf_kctx *x, const mf_attention_args *args)
{
    mf_attention_args p = *args;
    x->parallel(p.batch * p.kv_heads, tile, &p);
}
