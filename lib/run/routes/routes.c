/* run/routes/routes.c: finds the record of each token. The sequences of the trace are sorted by
 * their tokens, so the sequence that shares most of an example's beginning is next to the
 * place where the example would stand. */
#include "run/routes/routes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "data/safetensors/safetensors.h"
#include "run/sample/trace.h"

enum { NONE = 65535 }; /* no expert */

typedef struct sequence {
    const int32_t *id; /* [n] */
    int32_t n;
    int64_t first; /* index of its first token in the trace */
} sequence;

typedef struct layer {
    int32_t experts, k;
    uint16_t *chosen; /* [tokens, k]; NONE in front: the token has no record */
} layer;

struct mf_routes {
    const mf_model *model;
    const char *path;
    mf_st_file *file; /* NULL after it was read */
    struct mf_arena *arena;
    int64_t tokens, seq;
    int32_t *token; /* [tokens] */
    layer *layers;  /* [n_moe] */
    sequence *sequences;
    int64_t n, recorded;
    bool other_k;
    mf_given_routes given;
};

/* ---- reading ---- */

static int number_of(const mf_routes *r, const char *key, int64_t *ret)
{
    long long value;
    const char *text = mf_st_meta(r->file, key);
    if (!text || !mf_parse_i64(text, &value) || value < 1 || value > INT32_MAX)
        return mf_fail(MF_EINPUT, "%s: metadata \"%s\" is %s; expected a number above 0",
                       r->path, key, text ? text : "absent");
    *ret = value;
    return MF_OK;
}

static int read_head(mf_routes *r)
{
    int64_t batches, rows;
    const char *format = mf_st_meta(r->file, "format"),
               *version = mf_st_meta(r->file, "version");
    if (!format || strcmp(format, MF_TRACE_FORMAT) != 0 || !version ||
        strcmp(version, MF_TRACE_VERSION) != 0)
        return mf_fail(MF_EINPUT,
                       "%s: expected a trace of version " MF_TRACE_VERSION
                       ", as moefw trace makes it",
                       r->path);
    int rc = number_of(r, "batches", &batches);
    if (rc == MF_OK) rc = number_of(r, "rows", &rows);
    if (rc == MF_OK) rc = number_of(r, "seq", &r->seq);
    if (rc != MF_OK) return rc;
    if (rows > INT32_MAX / r->seq || batches > INT32_MAX / (rows * r->seq))
        return mf_fail(MF_EINPUT, "%s: more tokens than a trace can hold", r->path);
    r->tokens = batches * rows * r->seq;
    return MF_OK;
}

/* Reads an I32 tensor [tokens] or [tokens,k] into new memory. */
static int read_tensor(const mf_routes *r, const char *name, int32_t k, int32_t **ret)
{
    const mf_st_tensor *x = mf_st_find(r->file, name);
    if (!x || x->dtype != MF_ST_I32 || x->rank != (k ? 2 : 1) || x->shape[0] != r->tokens ||
        (k && x->shape[1] != k))
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected I32 of %lld tokens%s%.0d%s",
                       r->path, name, (long long)r->tokens, k ? " and " : "", (int)k,
                       k ? " experts each, as the model has" : "");
    *ret = mf_alloc((size_t)x->count + 1, sizeof **ret);
    return *ret ? mf_st_read(r->file, x, *ret, (size_t)x->bytes) : MF_ENOMEM;
}

/* Takes the record of a token; a token with fewer than k experts has none. */
static int take(const mf_routes *r, layer *l, const char *name, int64_t t, const int32_t *from)
{
    uint16_t *to = l->chosen + t * l->k;
    bool all = true;
    for (int32_t i = 0; i < l->k; i++) {
        if (from[i] < -1 || from[i] >= l->experts)
            return mf_fail(MF_EINPUT, "%s: tensor '%s': token %lld: expert %d of %d", r->path,
                           name, (long long)t, (int)from[i], (int)l->experts);
        for (int32_t j = 0; j < i && from[i] >= 0; j++)
            if (from[j] == from[i])
                return mf_fail(MF_EINPUT, "%s: tensor '%s': token %lld: expert %d twice",
                               r->path, name, (long long)t, (int)from[i]);
        all = all && from[i] >= 0;
        to[i] = (uint16_t)from[i];
    }
    if (!all) to[0] = NONE;
    return MF_OK;
}

static int read_layer(mf_routes *r, int i)
{
    char name[64];
    const mf_moe_layer *m = &r->model->moe[i];
    layer *l = &r->layers[i];
    int32_t *chosen = NULL;
    *l = (layer){.experts = (int32_t)m->config.experts, .k = (int32_t)m->config.top_k};
    snprintf(name, sizeof name, "layers.%d.token", (int)m->layer);
    if (mf_st_find(r->file, name))
        return mf_fail(MF_EINPUT,
                       "%s: layer %d: expected k experts for each token, found a "
                       "list of assignments",
                       r->path, (int)m->layer);
    if (l->experts >= NONE)
        return mf_fail(MF_EINPUT, "%s: expected fewer than %d experts", r->path, (int)NONE);
    snprintf(name, sizeof name, "layers.%d.chosen", (int)m->layer);
    int rc = read_tensor(r, name, l->k, &chosen);
    l->chosen = mf_arena_alloc(r->arena, ((size_t)r->tokens * (size_t)l->k + 1) * 2);
    if (rc == MF_OK && !l->chosen) rc = MF_ENOMEM;
    for (int64_t t = 0; rc == MF_OK && t < r->tokens; t++)
        rc = take(r, l, name, t, chosen + t * l->k);
    mf_free(chosen);
    return rc;
}

/* The trace must have the model's layers, no more and no less. */
static int read_layers(mf_routes *r)
{
    char list[16384];
    size_t at = 0;
    const mf_model *m = r->model;
    const char *text = mf_st_meta(r->file, "layers");
    list[0] = '\0';
    for (int32_t i = 0; i < m->n_moe && at < sizeof list - 32; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", i ? "," : "",
                               (int)m->moe[i].layer);
    if (!text || strcmp(text, list) != 0)
        return mf_fail(MF_EINPUT, "%s: routes of the layers %s; the model has experts in %s",
                       r->path, text ? text : "(none)", m->n_moe ? list : "none");
    r->layers = mf_arena_alloc(r->arena, ((size_t)m->n_moe + 1) * sizeof *r->layers);
    int rc = r->layers ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < m->n_moe; i++)
        rc = read_layer(r, i);
    return rc;
}

/* ---- sequences ---- */

/* The number of equal tokens at the beginning. */
static int32_t shared(const sequence *s, const int32_t *id, int32_t n)
{
    int32_t i = 0;
    while (i < n && i < s->n && s->id[i] == id[i])
        i++;
    return i;
}

static int order(const sequence *s, const int32_t *id, int32_t n)
{
    const int32_t i = shared(s, id, n);
    if (i < n && i < s->n) return s->id[i] < id[i] ? -1 : 1;
    return s->n < n ? -1 : s->n > n;
}

static int by_tokens(const void *a_, const void *b_)
{
    const sequence *a = a_, *b = b_;
    const int o = order(a, b->id, b->n);
    return o != 0 ? o : a->first < b->first ? -1 : a->first > b->first;
}

static int sort(mf_routes *r)
{
    const int64_t n = r->tokens / r->seq;
    r->sequences = mf_arena_alloc(r->arena, (size_t)n * sizeof *r->sequences);
    if (!r->sequences) return MF_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        sequence s = {.id = r->token + i * r->seq, .first = i * r->seq};
        while (s.n < r->seq && s.id[s.n] >= 0)
            s.n++;
        if (s.n > 0) r->sequences[r->n++] = s;
    }
    if (r->n == 0) return mf_fail(MF_EINPUT, "%s: expected sequences, found none", r->path);
    qsort(r->sequences, (size_t)r->n, sizeof *r->sequences, by_tokens);
    return MF_OK;
}

/* The sequence that shares most tokens with the beginning of an example; of several the first.
 * *ret_n: how many. */
static const sequence *find(const mf_routes *r, const int32_t *id, int32_t n, int32_t *ret_n)
{
    int64_t lo = 0, hi = r->n;
    const sequence *best = NULL;
    *ret_n = 0;
    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (order(&r->sequences[middle], id, n) < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    for (int64_t i = lo - 1; i <= lo; i++) {
        const int32_t m = i < 0 || i >= r->n ? 0 : shared(&r->sequences[i], id, n);
        if (m > *ret_n) {
            *ret_n = m;
            best = &r->sequences[i];
        }
    }
    return best;
}

/* ---- batches ---- */

/* Fills the rows of one layer for an example, of which n tokens are those of sequence s. */
static void give(const layer *l, const sequence *s, int32_t n, int64_t *count, float *to)
{
    for (int32_t t = 0; t < n; t++, to += l->experts) {
        const uint16_t *chosen = l->chosen + (s->first + t) * l->k;
        if (chosen[0] == NONE) continue;
        for (int32_t e = 0; e < l->experts; e++)
            to[e] = -INFINITY;
        for (int32_t i = 0; i < l->k; i++)
            to[chosen[i]] = 0;
        ++*count;
    }
}

static void fill(void *self, const mf_batch *b, mf_model_graph *mg)
{
    mf_routes *r = self;
    int64_t count = 0;
    for (int32_t i = 0; i < r->model->n_moe; i++) {
        float *to = mf_tensor_input(mg->moe[i].given);
        r->other_k = r->other_k || mg->moe[i].routing.top_k != r->layers[i].k;
        if (to) memset(to, 0, (size_t)(b->rows * b->seq * r->layers[i].experts) * sizeof *to);
    }
    for (int32_t row = 0; row < b->rows && !r->other_k; row++) {
        int32_t n;
        const int64_t at = (int64_t)row * b->seq;
        const sequence *s = find(r, b->tokens + at, b->seq, &n);
        for (int32_t i = 0; s && i < r->model->n_moe; i++) {
            float *to = mf_tensor_input(mg->moe[i].given);
            int64_t ignored = 0;
            if (to)
                give(&r->layers[i], s, n, i == 0 ? &count : &ignored,
                     to + at * r->layers[i].experts);
        }
    }
    r->recorded = count;
}

/* ---- opening ---- */

int mf_routes_open(const char *path, const mf_model *m, mf_routes **ret)
{
    if (!m->config->model.causal || m->config->model.task != MF_TASK_LM)
        return mf_fail(
            MF_ECONFIG,
            "train.routes = trace: expected a causal language model, whose tokens go "
            "by the tokens before them");
    if (m->n_moe == 0)
        return mf_fail(MF_ECONFIG, "train.routes = trace: expected a model with experts");
    mf_routes *r = mf_alloc(1, sizeof *r);
    if (!r) return MF_ENOMEM;
    r->model = m;
    r->given = (mf_given_routes){.self = r, .fill = fill};
    r->arena = mf_arena_new();
    r->path = r->arena ? mf_arena_strdup(r->arena, path) : NULL;
    int rc = r->path ? mf_st_open(path, &r->file) : MF_ENOMEM;
    if (rc == MF_OK) rc = read_head(r);
    if (rc == MF_OK) rc = read_tensor(r, "token", 0, &r->token);
    if (rc == MF_OK) rc = read_layers(r);
    if (rc == MF_OK) rc = sort(r);
    mf_st_close(r->file);
    r->file = NULL;
    if (rc == MF_OK)
        *ret = r;
    else
        mf_routes_close(r);
    return rc == MF_ENOTFOUND ? mf_fail_context(MF_EINPUT, "train.routes_from") : rc;
}

void mf_routes_close(mf_routes *r)
{
    if (!r) return;
    mf_free(r->token);
    mf_arena_free(r->arena);
    mf_free(r);
}

const mf_given_routes *mf_routes_given(const mf_routes *r)
{
    return &r->given;
}

int64_t mf_routes_sequences(const mf_routes *r)
{
    return r->n;
}

int64_t mf_routes_recorded(const mf_routes *r)
{
    return r->recorded;
}

int mf_routes_status(const mf_routes *r)
{
    if (!r->other_k) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: moe.top_k changed: expected as many experts of a token as the "
                   "trace has",
                   r->path);
}
