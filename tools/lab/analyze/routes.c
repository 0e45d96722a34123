/* The tokens and the choices of a trace in the form that analyze.h reads. A trace contains
 * padding, and lists of assignments if experts choose tokens; neither is in the result. */
#include <string.h>

#include "base/error.h"
#include "lab/analyze/run.h"

/* ---- tokens ---- */

static int make_room(mf_arena *arena, int64_t n, bool labels, mf_routed_text *x)
{
    const size_t bytes = ((size_t)n + 1) * sizeof(int32_t);
    int32_t **const arrays[] = {&x->place, &x->id, &x->position, &x->next, &x->label};
    for (size_t i = 0; i < 4 + (size_t)labels; i++)
        if (!(*arrays[i] = mf_arena_alloc(arena, bytes))) return MF_ENOMEM;
    return (x->documents.of = mf_arena_alloc(arena, bytes)) ? MF_OK : MF_ENOMEM;
}

/* Numbers the documents in the order of the tokens: of the corpus, or of a stream whose
 * documents end with a token, or else windows. `batch` is work memory. */
static void walk(const mf_trace *t, const mf_session *s, mf_batcher *b, mf_batch *batch,
                 int32_t end, mf_routed_text *x)
{
    int32_t *of = (int32_t *)x->documents.of;
    const bool lm = !t->by_row && s->config->model.task == MF_TASK_LM, spans = s->corpus->spans;
    int64_t key = -1, filled = -1;
    int32_t n = -1;
    bool ended = true;
    for (int64_t i = 0; i < t->tokens; i++) {
        const int64_t sequence = t->sequence[i], index = sequence / t->rows;
        if (t->token[i] < 0) continue;
        if (x->label && index != filled) mf_batcher_fill(b, filled = index, batch);
        const int64_t now =
            spans ? mf_batcher_document(b, index, (int32_t)(sequence % t->rows)) : sequence;
        if (end >= 0 && !spans ? ended : now != key) n++;
        key = now;
        ended = t->token[i] == end;
        x->place[x->n] = (int32_t)i;
        x->id[x->n] = t->token[i];
        x->position[x->n] = t->position[i];
        x->next[x->n] = lm ? t->target[i] : -1;
        if (x->label) x->label[x->n] = batch->labels[i % ((int64_t)t->rows * t->seq)];
        of[x->n++] = n;
    }
    x->documents.n = n + 1;
}

/* Whether the token occurs in the trace. A tokenizer may have <eos> that its texts do not. */
static bool occurs(const mf_trace *t, int32_t id)
{
    for (int64_t i = 0; id >= 0 && i < t->tokens; i++)
        if (t->token[i] == id) return true;
    return false;
}

int mf_routed_text_of(const mf_trace *t, const mf_session *s, mf_split split, mf_arena *arena,
                      mf_routed_text *ret)
{
    mf_batch_spec spec;
    mf_batcher *b = NULL;
    mf_batch *batch = NULL;
    mf_session_eval_spec(s, split, &spec);
    *ret = (mf_routed_text){.labels = s->corpus->n_labels};
    int rc = make_room(arena, t->tokens, ret->labels > 0, ret);
    if (rc == MF_OK) rc = mf_batcher_new(s->corpus, &spec, &b);
    if (rc == MF_OK) rc = mf_batch_new(t->rows, t->seq, &batch);
    if (rc == MF_OK) {
        const bool ends = occurs(t, spec.document_end);
        walk(t, s, b, batch, ends ? spec.document_end : -1, ret);
        ret->unit = s->corpus->spans || ends ? "documents" : "windows";
        if (ret->n == 0) rc = mf_fail(MF_EINPUT, "the recorded batches hold no tokens");
    }
    mf_batch_free(batch);
    mf_batcher_free(b);
    return rc;
}

/* ---- choices ---- */

static int wrong(const mf_trace *t, int32_t layer, const char *what, int64_t found, int64_t n)
{
    return mf_fail(MF_EINPUT, "%s: layer %d: %s %lld: expected less than %lld",
                   mf_st_path(t->file), (int)layer, what, (long long)found, (long long)n);
}

/* Calls of `each` get the trace's token and the expert of every assignment, in order. */
typedef struct {
    const int32_t *number; /* [T] index among the tokens that are not padding, -1: padding */
    int64_t *begin;
    int64_t *next; /* [N] where the next expert of a token goes; NULL: experts are counted */
    int32_t *expert;
} sink;

/* An expert that a token has twice is kept once. */
static void put(const sink *s, int64_t token, int32_t e)
{
    const int64_t i = s->number[token];
    if (i < 0) return;
    if (!s->next) {
        s->begin[i + 1]++;
        return;
    }
    for (int64_t a = s->begin[i]; a < s->next[i]; a++)
        if (s->expert[a] == e) return;
    s->expert[s->next[i]++] = e;
}

static int scan(const mf_trace *t, const mf_trace_layer *l, const int32_t *chosen,
                const int32_t *token, const sink *s)
{
    for (int64_t r = 0; r < l->rows; r++) {
        if (chosen[r] < 0) continue;
        const int64_t of = token ? token[r] : r / l->top_k;
        if (chosen[r] >= l->experts) return wrong(t, l->layer, "expert", chosen[r], l->experts);
        if (of >= t->tokens) return wrong(t, l->layer, "token", of, t->tokens);
        if (of >= 0) put(s, of, chosen[r]);
    }
    return MF_OK;
}

/* Removes the places of experts that a token had twice. */
static void close_gaps(mf_routes *r, const sink *s)
{
    int64_t at = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t from = s->begin[i], n = s->next[i] - from;
        memmove(s->expert + at, s->expert + from, (size_t)n * sizeof *s->expert);
        s->begin[i] = at;
        at += n;
    }
    s->begin[r->n] = at;
}

int mf_routes_of(const mf_trace *t, int i, const mf_routed_text *x, mf_arena *arena,
                 mf_routes *ret)
{
    const mf_trace_layer *l = &t->layers[i];
    void *chosen = NULL, *token = NULL;
    int32_t *number = mf_alloc((size_t)t->tokens, sizeof *number);
    sink s = {.number = number,
              .begin = mf_arena_alloc(arena, ((size_t)x->n + 1) * sizeof *s.begin),
              .expert = mf_arena_alloc(arena, ((size_t)l->rows + 1) * sizeof *s.expert)};
    int64_t *next = mf_alloc((size_t)x->n + 1, sizeof *next);
    int rc = number && next && s.begin && s.expert ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_trace_read(t, l->chosen, &chosen);
    if (rc == MF_OK) rc = mf_trace_read(t, l->token, &token);
    if (rc == MF_OK) {
        memset(number, -1, (size_t)t->tokens * sizeof *number);
        for (int64_t j = 0; j < x->n; j++)
            number[x->place[j]] = (int32_t)j;
        rc = scan(t, l, chosen, token, &s);
    }
    if (rc == MF_OK) {
        for (int64_t j = 0; j < x->n; j++)
            next[j] = s.begin[j + 1] += s.begin[j];
        for (int64_t j = x->n; j > 0; j--)
            next[j] = next[j - 1];
        next[0] = 0;
        s.next = next;
        rc = scan(t, l, chosen, token, &s);
    }
    *ret = (mf_routes){.layer = l->layer,
                       .experts = l->experts,
                       .n = x->n,
                       .begin = s.begin,
                       .expert = s.expert};
    if (rc == MF_OK) close_gaps(ret, &s);
    mf_free(number);
    mf_free(next);
    mf_free(chosen);
    mf_free(token);
    return rc;
}
