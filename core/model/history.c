/* model/history.c: stores the inputs of routers that read earlier tokens in the cache. Token
 * ids are kept as f32, which represents them exactly below 2^24. */
#include "model/history.h"
#include <stdio.h>
#include "base/error.h"
#include "ops/ops.h"
#include "ops/state.h"

static const char *name_of(char out[64], int32_t layer, const char *what)
{
    snprintf(out, 64, "layers.%d.router.%s", (int)layer, what);
    return out;
}

int mf_history_declare(mf_store *store, int32_t layer, int64_t places, int64_t dim)
{
    char name[64];
    int rc = mf_store_declare(store, name_of(name, layer, "x"), mf_shape2(places, dim),
                              (mf_init){0}, true, NULL);
    return rc != MF_OK ? rc
                       : mf_store_declare(store, name_of(name, layer, "ids"),
                                          mf_shape2(places, 1), (mf_init){0}, true, NULL);
}

/* Writes the run's rows into a buffer of the store. Returns the buffer, which contains all
 * positions of all sequences. */
static mf_tensor *append(const mf_history *h, mf_graph *g, int32_t layer, const char *what,
                         mf_tensor *rows)
{
    char name[64];
    mf_param *kept = mf_store_find(h->store, name_of(name, layer, what));
    if (!kept) {
        mf_graph_fail(g, MF_EINVAL, "the cache has no room for '%s'", name);
        return NULL;
    }
    return mf_cache_append(g, mf_graph_param(g, kept), rows, h->pos);
}

static mf_tensor *whole_number(mf_graph *g, int32_t n)
{
    return mf_graph_const(g, MF_I32, mf_shape2(1, 1), &n);
}

/* Returns 0 .. n-1, as [1,n] or, if `down` is true, as [n,1]. */
static mf_tensor *count(mf_graph *g, int64_t n, bool down)
{
    return mf_reshape(g, mf_arange(g, n), down ? mf_shape2(n, 1) : mf_shape2(1, n));
}

/* [B] -> [B,1] */
static mf_tensor *column(mf_graph *g, mf_tensor *x, int64_t B)
{
    return mf_reshape(g, x, mf_shape2(B, 1));
}

int mf_history_open(const mf_history *h, mf_graph *g, int32_t layer, const mf_router_in *in,
                    mf_router_in *ret_in, mf_tensor **ret_row)
{
    const int64_t B = in->batch, n = in->seq, S = h->places, T = B * n;
    const mf_shape grid = mf_shape2(B, S), all = mf_shape1(B * S);
    mf_tensor *place = count(g, S, false), *sequence = count(g, B, true); /* [1,S], [B,1] */
    mf_tensor *used = mf_greater(g, column(g, h->len, B), place),         /* [B,S] */
        *begun = mf_greater(g, place, whole_number(g, h->start - 1));     /* [1,S] */
    mf_tensor *ids = mf_reshape(g, mf_cast(g, in->token_ids, MF_F32), mf_shape2(T, 1));
    *ret_in = *in;
    ret_in->seq = h->places;
    ret_in->x = append(h, g, layer, "x", in->x);
    ret_in->token_ids = mf_reshape(g, mf_cast(g, append(h, g, layer, "ids", ids), MF_I32), all);
    ret_in->mask = mf_reshape(g, mf_cast(g, mf_mul(g, used, begun), MF_F32), all);
    ret_in->positions = mf_reshape(g, mf_broadcast(g, place, grid), all);
    ret_in->sequence_ids = mf_reshape(g, mf_broadcast(g, sequence, grid), all);
    if (in->labels)
        ret_in->labels = mf_reshape(g, mf_broadcast(g, whole_number(g, -1), grid), all);
    mf_tensor *first =
        mf_add(g, mf_mul(g, sequence, whole_number(g, h->places)), column(g, h->pos, B));
    *ret_row = mf_reshape(g, mf_add(g, first, count(g, n, false)), mf_shape1(T));
    return mf_graph_status(g);
}

/* x [B S, ..] with `width` numbers per token -> [T,width]. Returns NULL if x is NULL. */
static mf_tensor *take(mf_graph *g, mf_tensor *x, int64_t tokens, int64_t width, mf_tensor *row)
{
    if (!x) return NULL;
    return mf_gather_rows(g, mf_reshape(g, x, mf_shape2(tokens, width)), row);
}

int mf_history_take(mf_graph *g, const mf_routing *whole, mf_tensor *row, mf_routing *r)
{
    const int64_t n = whole->tokens, E = whole->experts, k = whole->own_top_k, T = r->tokens;
    if (whole->token || whole->dispatch) {
        mf_graph_fail(
            g, MF_EPLUGIN,
            "a router that says MF_ROUTER_SEQUENCE chooses experts for tokens: expected "
            "neither token nor dispatch");
        return mf_graph_status(g);
    }
    r->logits = take(g, whole->logits, n, E, row);
    r->prob = take(g, whole->prob, n, E, row);
    r->score = take(g, whole->score, n, E, row);
    r->renormalize = whole->renormalize;
    r->gate_scale = whole->gate_scale;
    r->own_top_k = whole->own_top_k;
    if (whole->priority)
        r->priority = mf_reshape(g, take(g, whole->priority, n, 1, row), mf_shape1(T));
    if (!whole->expert) return mf_graph_status(g);
    mf_tensor *expert = take(g, mf_cast(g, whole->expert, MF_F32), n, k, row);
    r->expert = mf_reshape(g, mf_cast(g, expert, MF_I32), mf_shape1(T * k));
    if (whole->gate) r->gate = mf_reshape(g, take(g, whole->gate, n, k, row), mf_shape1(T * k));
    return mf_graph_status(g);
}
