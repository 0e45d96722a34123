/* train/length_buckets.c: the bucket of each batch, and the graph of each bucket. A batch goes
 * into the shortest bucket in which it fits; earlier batches have no influence. */
#include "train/length_buckets.h"
#include "base/error.h"
#include "base/mem.h"

enum { MOST = 16, SHORTEST = 8 };

struct mf_length_buckets {
    mf_model *model;
    mf_model_shape shape; /* shape of the longest bucket */
    int n;
    int32_t length[MOST]; /* lengths in increasing order */
    mf_batch *batch[MOST];
    mf_model_graph *graph[MOST];
};

/* Sets the lengths of the buckets: the multiples of one number, which is a multiple of
 * SHORTEST, and finally the full length. one: only the full length. */
static void set_lengths(mf_length_buckets *l, bool one)
{
    const int32_t seq = l->shape.seq;
    const int32_t step = (seq / MOST + SHORTEST - 1) / SHORTEST * SHORTEST;
    for (int32_t w = step; !one && w > 0 && w < seq && l->n < MOST - 1; w += step)
        l->length[l->n++] = w;
    l->length[l->n++] = seq;
}

static int build(mf_length_buckets *l, int i)
{
    mf_model_shape shape = l->shape;
    shape.seq = l->length[i];
    /* Only one graph runs at a time. So shorter graphs of evaluation reuse the arena of the
     * longest graph, unless all of them reuse the arena of another graph. */
    if (shape.mode == MF_MODE_EVAL && !shape.arena_of && i < l->n - 1)
        shape.arena_of = l->graph[l->n - 1]->g;
    return mf_model_graph_new(l->model, &shape, &l->graph[i]);
}

static void drop_graphs(mf_length_buckets *l)
{
    for (int i = 0; i < l->n; i++) {
        mf_model_graph_free(l->graph[i]);
        l->graph[i] = NULL;
    }
}

int mf_length_buckets_new(mf_model *m, const mf_model_shape *shape, bool one,
                          mf_length_buckets **ret)
{
    mf_length_buckets *l = mf_alloc(1, sizeof *l);
    if (!l) return MF_ENOMEM;
    l->model = m;
    l->shape = *shape;
    set_lengths(l, one);
    int rc = mf_batch_new(shape->batch, shape->seq, &l->batch[l->n - 1]);
    if (rc == MF_OK) rc = build(l, l->n - 1);
    if (rc != MF_OK) {
        mf_length_buckets_free(l);
        return rc;
    }
    *ret = l;
    return MF_OK;
}

void mf_length_buckets_free(mf_length_buckets *l)
{
    if (!l) return;
    drop_graphs(l);
    for (int i = 0; i < l->n; i++)
        mf_batch_free(l->batch[i]);
    mf_free(l);
}

int mf_length_buckets_rebuild(mf_length_buckets *l)
{
    drop_graphs(l);
    return build(l, l->n - 1);
}

/* Makes batch and graph of bucket i when they are first needed. */
static int open_bucket(mf_length_buckets *l, int i)
{
    int rc = MF_OK;
    if (!l->batch[i]) rc = mf_batch_new(l->shape.batch, l->length[i], &l->batch[i]);
    return rc == MF_OK && !l->graph[i] ? build(l, i) : rc;
}

const mf_batch *mf_length_buckets_look(mf_length_buckets *l, mf_batch_source source,
                                       int64_t number)
{
    source.fill(source.self, number, l->batch[l->n - 1]);
    return l->batch[l->n - 1];
}

int mf_length_buckets_take(mf_length_buckets *l, mf_batch_source source, int64_t number,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph)
{
    int i = l->n - 1;
    const int32_t longest = i > 0 ? source.longest(source.self, number) : 0;
    while (i > 0 && l->length[i - 1] >= longest)
        i--;
    const int rc = open_bucket(l, i);
    if (rc != MF_OK) return rc;
    source.fill(source.self, number, l->batch[i]);
    mf_batch_feed(l->batch[i], l->graph[i]);
    *ret_batch = l->batch[i];
    *ret_graph = l->graph[i];
    return MF_OK;
}

/* Returns the index of the bucket that has the shape of the batch; -1: none. */
static int bucket_of(const mf_length_buckets *l, const mf_batch *own)
{
    int i = l->n - 1;
    while (i >= 0 && l->length[i] != own->seq)
        i--;
    return own->rows == l->shape.batch ? i : -1;
}

int mf_length_buckets_judge(const mf_length_buckets *l, const mf_batch *own)
{
    if (bucket_of(l, own) >= 0) return MF_OK;
    return mf_fail(
        MF_EINVAL, "a batch of %d examples of %d positions: expected %d examples of %d",
        (int)own->rows, (int)own->seq, (int)l->shape.batch, (int)l->length[l->n - 1]);
}

int mf_length_buckets_feed(mf_length_buckets *l, const mf_batch *own,
                           const mf_batch **ret_batch, mf_model_graph **ret_graph)
{
    const int i = bucket_of(l, own);
    int rc = i < 0 ? mf_length_buckets_judge(l, own) : MF_OK;
    if (rc == MF_OK && !l->graph[i]) rc = build(l, i);
    if (rc != MF_OK) return rc;
    mf_batch_feed(own, l->graph[i]);
    *ret_batch = own;
    *ret_graph = l->graph[i];
    return MF_OK;
}

mf_model_graph *mf_length_buckets_graph(const mf_length_buckets *l)
{
    return l->graph[l->n - 1];
}
