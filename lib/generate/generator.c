/* generate/generator.c: continues a text with a model. Keys and values of earlier tokens
 * stay in a cache. The logits are the same as in a run without the cache; a test compares
 * the two. */
#include "generate/generator.h"
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "graph/device/recorder.h"
#include "model/heads.h"

struct mf_generator {
    mf_model *model;
    mf_cache *cache;       /* NULL: the whole text runs again for each token */
    mf_model_graph *one;   /* graph for one token */
    mf_model_graph *many;  /* graph for a prompt of many->shape.seq tokens */
    mf_recorder *recorder; /* recording of the graph for one token; NULL: nothing is recorded */
    const mf_model_graph *last;
    mf_model_graph *whole;                       /* graph for mf_generator_review */
    int (*steer)(void *arg, mf_model_graph *mg); /* NULL: graphs have no inputs of probes */
    void *steer_arg;
    bool stale;    /* the cache belongs to an earlier state of the model */
    int32_t *past; /* [cap] all tokens so far */
    int64_t n, cap;
    int64_t cached; /* number of tokens that the model sees: the last `cached` tokens of past */
};

static int64_t cache_room(const mf_model *m)
{
    return m->config->model.seq + m->config->model.cache_start;
}

int mf_generator_new(mf_model *m, bool use_cache, mf_generator **ret)
{
    if (mf_task_by_row(m->config->model.task))
        return mf_fail(MF_ECONFIG,
                       "model.task = %s: such a model writes no text; expected one of task lm",
                       m->config->model.task == MF_TASK_REGRESS ? "regress" : "classify");
    mf_generator *g = mf_alloc(1, sizeof *g);
    if (!g) return MF_ENOMEM;
    g->model = m;
    if (mf_model_sees_sequences(m)) use_cache = false;
    int rc = use_cache ? mf_cache_new(m, 1, (int)cache_room(m), &g->cache) : MF_OK;
    if (rc == MF_OK && g->cache && m->options.record)
        rc = mf_recorder_new(mf_store_device(m->store), &g->recorder);
    if (rc != MF_OK) {
        mf_generator_free(g);
        return rc;
    }
    *ret = g;
    return MF_OK;
}

void mf_generator_free(mf_generator *g)
{
    if (!g) return;
    mf_recorder_free(g->recorder);
    mf_model_graph_free(g->one);
    mf_model_graph_free(g->many);
    mf_model_graph_free(g->whole);
    mf_cache_free(g->cache);
    mf_free(g->past);
    mf_free(g);
}

void mf_generator_reset(mf_generator *g)
{
    g->n = g->cached = 0;
}

int mf_generator_refresh(mf_generator *g)
{
    mf_model_graph **graphs[] = {&g->one, &g->many, &g->whole};
    mf_recorder_clear(g->recorder);
    for (int i = 0; i < 3; i++) {
        mf_model_graph_free(*graphs[i]);
        *graphs[i] = NULL;
    }
    g->last = NULL;
    g->stale = true;
    if (!g->cache) return MF_OK;
    mf_cache_free(g->cache);
    g->cache = NULL;
    return mf_cache_new(g->model, 1, (int)cache_room(g->model), &g->cache);
}

int mf_generator_steer(mf_generator *g, int (*fill)(void *arg, mf_model_graph *mg), void *arg)
{
    g->steer = fill;
    g->steer_arg = arg;
    return mf_generator_refresh(g);
}

static int append(mf_generator *g, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->model->dims.vocab)
            return mf_fail(MF_EINPUT, "token id %d is outside the vocabulary 0..%d",
                           (int)ids[i], (int)g->model->dims.vocab - 1);
    if (g->n + n > g->cap) {
        const int64_t cap = 2 * (g->n + n) + 256;
        int32_t *past =
            mf_realloc(g->past, (size_t)g->cap * sizeof *past, (size_t)cap * sizeof *past);
        if (!past) return MF_ENOMEM;
        g->past = past;
        g->cap = cap;
    }
    memcpy(g->past + g->n, ids, (size_t)n * sizeof *ids);
    g->n += n;
    return MF_OK;
}

/* Finds or builds the graph that processes n tokens at once. */
static int graph_for(mf_generator *g, int64_t n, mf_model_graph **ret)
{
    mf_model_graph **slot = n == 1 ? &g->one : &g->many;
    if (*slot && (*slot)->shape.seq != n) {
        mf_model_graph_free(*slot);
        *slot = NULL;
    }
    if (!*slot) {
        const mf_model_shape shape = {.mode = MF_MODE_GENERATE,
                                      .batch = 1,
                                      .seq = (int32_t)n,
                                      .cache = g->cache,
                                      .want_prob = true,
                                      .probe = g->steer != NULL};
        int rc = mf_model_graph_new(g->model, &shape, slot);
        if (rc != MF_OK) return rc;
    }
    *ret = *slot;
    return MF_OK;
}

/* Whether later graphs may read only some rows of this parameter. This happens if heads are
 * pruned later. */
static bool picked_from(const mf_model *m, const mf_param *p)
{
    for (int32_t i = 0; m->head_switches && i < m->config->model.layers; i++)
        if (p == mf_head_weights(m, i, "qkv.weight") ||
            p == mf_head_weights(m, i, "out.weight"))
            return true;
    return false;
}

int mf_generator_pack_weights(mf_generator *g)
{
    mf_store *store = g->model->store;
    const mf_model_shape shapes[] = {
        {.mode = MF_MODE_GENERATE, .batch = 1, .seq = 1, .cache = g->cache, .want_prob = true},
        {.mode = MF_MODE_GENERATE, .batch = 1, .seq = 2, .cache = g->cache, .want_prob = true},
        {.mode = MF_MODE_GENERATE, .batch = 1, .seq = 2, .want_prob = true}};
    mf_model_graph *graphs[3] = {NULL};
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < 3; i++)
        rc = mf_model_graph_new(g->model, &shapes[i], &graphs[i]);
    for (int i = 0; rc == MF_OK && i < mf_store_count(store); i++) {
        mf_param *p = mf_store_at(store, i);
        bool read = false, multiplied = !picked_from(g->model, p);
        for (int j = 0; j < 3; j++) {
            read = read || mf_graph_reads(graphs[j]->g, p);
            multiplied = multiplied && mf_graph_multiplies(graphs[j]->g, p);
        }
        if (!read) mf_store_release_f32(store, p);
        if (multiplied) mf_store_pack(store, p);
    }
    for (int i = 0; i < 3; i++)
        mf_model_graph_free(graphs[i]);
    return rc;
}

static void set(mf_tensor *input, int32_t value)
{
    int32_t *data = input ? mf_tensor_input(input) : NULL;
    if (data) *data = value;
}

/* Runs the last n tokens of past, which follow `before` cached tokens. */
static int run_graph(const mf_generator *g, mf_model_graph *mg, int64_t n, int64_t before)
{
    int32_t *tokens = mf_tensor_input(mg->tokens), *positions = mf_tensor_input(mg->positions);
    int32_t *labels = mg->labels ? mf_tensor_input(mg->labels) : NULL;
    int32_t *sequence = mf_tensor_input(mg->sequence_ids);
    int32_t *segments = mg->segments ? mf_tensor_input(mg->segments) : NULL;
    /* Entries before the start of the cache are never written: they stay zero. */
    const int64_t start = g->cache ? g->model->config->model.cache_start : 0;
    for (int64_t i = 0; i < n; i++) {
        if (tokens) tokens[i] = g->past[g->n - n + i];
        if (positions) positions[i] = (int32_t)(before + start + i);
        if (labels) labels[i] = -1;
        if (sequence) sequence[i] = 0;
        if (segments) segments[i] = 0;
    }
    set(mg->last, (int32_t)n - 1);
    set(mg->cache_pos, (int32_t)(before + start));
    set(mg->kv_len, (int32_t)(before + start + n));
    /* Everything that changes from token to token (its id, its position, the length of the
     * cache) is in memory of the device, so one recording serves all tokens. */
    const mf_capture capture = {{(int64_t)(uintptr_t)mg}};
    mf_recorder *recorder = mg == g->one ? g->recorder : NULL;
    const mf_run r = {.forward_only = true,
                      .queued = recorder != NULL,
                      .recorder = recorder,
                      .capture = &capture};
    int rc = g->steer ? g->steer(g->steer_arg, mg) : MF_OK;
    if (rc == MF_OK) rc = mf_graph_run(mg->g, &r);
    if (rc != MF_OK) mf_recorder_cancel(recorder);
    const int ended = rc == MF_OK ? mf_recorder_end(recorder) : rc;
    return ended == MF_OK && recorder ? mf_graph_wait(mg->g) : ended;
}

static int run(mf_generator *g, int64_t n, int64_t before, const float **ret_logits)
{
    mf_model_graph *mg;
    int rc = graph_for(g, n, &mg);
    if (rc == MF_OK) rc = run_graph(g, mg, n, before);
    if (rc != MF_OK) return rc;
    g->last = mg;
    *ret_logits = mf_tensor_host(mg->logits);
    return MF_OK;
}

int mf_generator_review(mf_generator *g, const mf_model_graph **ret_graph, int64_t *ret_first)
{
    const int64_t room = g->model->config->model.seq, n = g->n < room ? g->n : room;
    const mf_model_shape shape = {.mode = MF_MODE_GENERATE,
                                  .batch = 1,
                                  .seq = (int32_t)n,
                                  .want_prob = true,
                                  .probe = g->steer != NULL};
    if (n < 1) return mf_fail(MF_EINPUT, "there is no text yet");
    mf_model_graph_free(g->whole);
    g->whole = NULL;
    int rc = mf_model_graph_new(g->model, &shape, &g->whole);
    if (rc == MF_OK) rc = run_graph(g, g->whole, n, 0);
    *ret_graph = g->whole;
    *ret_first = g->n - n;
    return rc;
}

int mf_generator_feed(mf_generator *g, const int32_t *ids, int64_t n, const float **ret_logits)
{
    const int64_t room = g->model->config->model.seq;
    if (n < 1) return mf_fail(MF_EINPUT, "nothing to continue: expected at least one token");
    int rc = append(g, ids, n);
    if (rc != MF_OK) return rc;
    if (g->cache && !g->stale && g->cached + n <= room) {
        const int64_t before = g->cached;
        g->cached += n;
        return run(g, n, before, ret_logits);
    }
    /* The text runs again from position 0 if there is no cache, or if the cache is full or
     * stale. If the text is longer than the sequence, only its end runs. With a cache, this end
     * is half of a sequence, so that the cache is not full again at the next token. */
    int64_t keep = g->n;
    if (keep > room) keep = g->cache ? (room + 1) / 2 : room;
    g->cached = keep;
    g->stale = false;
    return run(g, keep, 0, ret_logits);
}

const int32_t *mf_generator_cached(const mf_generator *g, int64_t *ret_n)
{
    *ret_n = g->n;
    return g->past;
}

const mf_model_graph *mf_generator_graph(const mf_generator *g)
{
    return g->last;
}
