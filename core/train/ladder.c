#include "train/ladder.h"
#include "base/error.h"
#include "base/mem.h"

enum { RUNGS = 16, NARROWEST = 8 };

struct mf_ladder {
    mf_session *session;
    mf_model_shape shape; /* of the widest */
    int n;
    int32_t width[RUNGS]; /* rising */
    mf_batch *batch[RUNGS];
    mf_model_graph *graph[RUNGS];
};

/* Equal steps of whole vectors up to the full width. */
static void place_rungs(mf_ladder *l, bool one)
{
    const int32_t seq = l->shape.seq;
    const int32_t step = (seq / RUNGS + NARROWEST - 1) / NARROWEST * NARROWEST;
    for (int32_t w = step; !one && w > 0 && w < seq && l->n < RUNGS - 1; w += step)
        l->width[l->n++] = w;
    l->width[l->n++] = seq;
}

static int build(mf_ladder *l, int i)
{
    mf_model_shape shape = l->shape;
    shape.seq = l->width[i];
    /* One of them runs at a time: without gradients the narrow ones fit into the widest's
     * memory. */
    if (shape.mode == MF_MODE_EVAL && !shape.lender && i < l->n - 1)
        shape.lender = l->graph[l->n - 1]->g;
    return mf_model_graph_new(l->session->model, &shape, &l->graph[i]);
}

static void drop_graphs(mf_ladder *l)
{
    for (int i = 0; i < l->n; i++) {
        mf_model_graph_free(l->graph[i]);
        l->graph[i] = NULL;
    }
}

int mf_ladder_new(mf_session *s, const mf_model_shape *shape, bool one_rung, mf_ladder **ret)
{
    mf_ladder *l = mf_alloc(1, sizeof *l);
    if (!l) return MF_ENOMEM;
    l->session = s;
    l->shape = *shape;
    place_rungs(l, one_rung || s->config->data.padding == 0 || s->corpus->spans == NULL);
    int rc = mf_batch_new(shape->batch, shape->seq, &l->batch[l->n - 1]);
    if (rc == MF_OK) rc = build(l, l->n - 1);
    if (rc != MF_OK) {
        mf_ladder_free(l);
        return rc;
    }
    *ret = l;
    return MF_OK;
}

void mf_ladder_free(mf_ladder *l)
{
    if (!l) return;
    drop_graphs(l);
    for (int i = 0; i < l->n; i++)
        mf_batch_free(l->batch[i]);
    mf_free(l);
}

int mf_ladder_rebuild(mf_ladder *l)
{
    drop_graphs(l);
    return build(l, l->n - 1);
}

int mf_ladder_take(mf_ladder *l, mf_batcher *batcher, int64_t step, mf_batch **ret_batch,
                   mf_model_graph **ret_graph)
{
    int i = l->n - 1, rc = MF_OK;
    const int32_t longest = i > 0 ? mf_batcher_longest(batcher, step) : 0;
    while (i > 0 && l->width[i - 1] >= longest)
        i--;
    if (!l->batch[i]) rc = mf_batch_new(l->shape.batch, l->width[i], &l->batch[i]);
    if (rc == MF_OK && !l->graph[i]) rc = build(l, i);
    if (rc != MF_OK) return rc;
    mf_batcher_fill(batcher, step, l->batch[i]);
    mf_session_feed(l->batch[i], l->graph[i]);
    *ret_batch = l->batch[i];
    *ret_graph = l->graph[i];
    return MF_OK;
}

mf_batch *mf_ladder_batch(const mf_ladder *l)
{
    return l->batch[l->n - 1];
}

mf_model_graph *mf_ladder_graph(const mf_ladder *l)
{
    return l->graph[l->n - 1];
}
