/* attention_bf16_forward.h: attention of bf16 by blocks of queries and keys, as attention.c
 * computes it in f32. A tile is a few blocks of queries that use the same keys; their number
 * changes no result. */
#define BLOCK_KEYS 128
#include "kernels/cpu/simd/attention/attention_bf16.h"
#include "kernels/cpu/simd/vecmath.h"

typedef struct attention {
    const mf_attention_args *args;
    int64_t items, each, parts; /* blocks of queries for one key head; a tile has `each` */
} attention;

/* One block of queries. */
typedef struct queries {
    int64_t h, t0, nt, begin, end; /* begin, end: its keys */
    float *turned, *y;             /* [words, QUERIES], and its sums */
    float m[QUERIES], l[QUERIES];
} queries;

static void load_queries(const mf_attention_args *p, const head_size *head, int64_t b,
                         queries *c)
{
    const int64_t row = b * p->t + c->t0;
    c->nt = attention_min(p->t - c->t0, QUERIES);
    c->end = attention_seen(p, b, c->t0 + c->nt - 1);
    c->begin = attention_min(attention_first(p, b, c->t0) / BLOCK_KEYS * BLOCK_KEYS, c->end);
    pack_turned(c->nt, head, p->scale, p->q + row * p->ldq + c->h * head->n, p->ldq, c->turned);
    for (int64_t t = 0; t < QUERIES; t++) {
        c->m[t] = -INFINITY;
        c->l[t] = 0;
    }
    if (c->begin == c->end) clear_sums(c->nt, head, c->y);
}

/* Processes a block of scores for the VL queries of one vector: replaces them by words of
 * e^(score - m), and updates m and l. Returns the factor by which y must be multiplied. */
V_INLINE vf take_columns(attention_view v, const float *mask, float *score, float *m, float *l)
{
    const vf before = v_load(m);
    attention_hide(v, mask, score);
    const vf max = attention_largest(v.some, score, before), shift = attention_shift(max);
    vf sum[2] = {{0}, {0}};
    if (v.some % 2 != 0) v_store(score + v.some * QUERIES, v_set(-INFINITY));
    for (int64_t s = 0; s < v.some; s += 2) {
        const vf a = v_exp_low(v_load(score + s * QUERIES) - shift);
        const vf b = v_exp_low(v_load(score + (s + 1) * QUERIES) - shift);
        v_store(score + s / 2 * QUERIES, words_of_halves(both_as_bf16(a, b)));
        sum[0] += a;
        sum[1] += b;
    }
    const vf shrink = v_exp_low(before - shift);
    v_store(l, v_load(l) * shrink + (sum[0] + sum[1]));
    v_store(m, max);
    return shrink;
}

static void add_keys(const mf_attention_args *p, const head_size *head, int64_t b, int64_t s0,
                     const float *rows, const float *values, float *score, queries *c)
{
    _Alignas(64) float shrink[QUERIES];
    const int64_t skip = attention_skip(p, b, c->t0, s0, SKIP);
    const int64_t ns = attention_min(c->end - s0, BLOCK_KEYS) - skip;
    const float *mask = p->mask != NULL ? p->mask + b * p->s + s0 + skip : NULL;
    const bool first = s0 == c->begin;
    const attention_views v = attention_look_all(p, b, c->t0, c->nt, s0 + skip, ns);
    scores_of(&v, head, rows + skip * head->row, c->turned, score);
    for (int i = 0; i < v.n; i++)
        v_store(shrink + i * VL,
                take_columns(v.of[i], mask, score + i * VL, c->m + i * VL, c->l + i * VL));
    if (!first) shrink_sums(c->nt, head, shrink, c->y);
    words_to_queries(&v, c->nt, head, score, values, skip, !first, c->y);
}

static void put_queries(const mf_attention_args *p, const head_size *head, int64_t b,
                        queries *c)
{
    const int64_t ldy = p->heads * head->n, row = b * p->t + c->t0;
    _Alignas(64) float factor[QUERIES];
    for (int64_t t = 0; t < c->nt; t += VL) {
        const vf l = v_load(c->l + t);
        v_store(factor + t, v_select(l == 0.0f, v_set(1), 1 / l));
        v_store(c->m + t, v_load(c->m + t) + v_log(l)); /* -inf if there is no key */
    }
    put_sums(c->nt, head, factor, c->y, p->y + row * ldy + c->h * head->n, ldy);
    for (int64_t t = 0; t < c->nt && p->lse != NULL; t++)
        p->lse[(row + t) * p->heads + c->h] = c->m[t];
}

static void tile(void *arg, int64_t at)
{
    const attention *job = arg;
    const mf_attention_args *p = job->args;
    const head_size head = head_size_of(p->head_dim);
    const int64_t part = at % job->parts, kv = at / job->parts % p->kv_heads,
                  b = at / job->parts / p->kv_heads, share = p->heads / p->kv_heads;
    const int64_t first = part * job->each,
                  count = attention_min(job->items - first, job->each);
    float *room = mf_cpu_room(MF_ROOM_TILE);
    float *rows = take_room(&room, BLOCK_KEYS * head.row),
          *score = take_room(&room, BLOCK_KEYS * QUERIES),
          *values = take_room(&room, BLOCK_KEYS / 2 * head.wide);
    queries item[ITEMS];
    int64_t begin = INT64_MAX, end = 0;
    tiles_begin();
    for (int64_t i = 0; i < count; i++) {
        queries *c = &item[i];
        c->h = kv * share + (first + i) % share;
        c->t0 = (first + i) / share * QUERIES;
        c->turned = take_room(&room, head.words * QUERIES);
        c->y = take_room(&room, head.wide * QUERIES);
        load_queries(p, &head, b, c);
        if (c->begin == c->end) continue;
        begin = attention_min(begin, c->begin);
        end = end > c->end ? end : c->end;
    }
    for (int64_t s0 = begin; s0 < end; s0 += BLOCK_KEYS) {
        const int64_t ns = attention_min(end - s0, BLOCK_KEYS), row = b * p->s + s0;
        pack_rows(ns, &head, p->k + row * p->ldk + kv * head.n, p->ldk, rows);
        pack_values(ns, &head, p->v + row * p->ldv + kv * head.n, p->ldv, values);
        for (int64_t i = 0; i < count; i++)
            if (s0 >= item[i].begin && s0 < item[i].end)
                add_keys(p, &head, b, s0, rows, values, score, &item[i]);
    }
    for (int64_t i = 0; i < count; i++)
        put_queries(p, &head, b, &item[i]);
    tiles_end();
}

void FORWARD(const mf_kctx *x, const mf_attention_args *args)
{
    const int64_t heads = args->batch * args->kv_heads,
                  wanted = 4 * (x->threads > 0 ? x->threads : 8);
    attention job = {.args = args, .items = items_of(args)};
    job.each = heads * job.items / wanted;
    job.each = job.each < 1 ? 1 : attention_min(job.each, most_items(args));
    job.parts = (job.items + job.each - 1) / job.each;
    x->parallel(heads * job.parts, tile, &job);
}
