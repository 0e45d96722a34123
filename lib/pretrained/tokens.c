/* pretrained/tokens.c: reads tokens from a file, runs them, and writes the results.
 *
 * Dropout is off, and the router decides the routing. An output file must be new; an existing
 * file is not overwritten. */
#include "pretrained/tokens.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/record.h"
#include "pretrained/weights/values.h"

enum { IGNORED = -100, POSITIONS_MAX = 1 << 24 };

/* ---- reading ---- */

static int read_table(const mf_st_file *f, const char *name, const mf_tokens *t, int64_t **ret)
{
    const mf_st_tensor *x = mf_st_find(f, name);
    *ret = NULL;
    if (!x) return MF_OK;
    if (x->dtype != MF_ST_I64 || x->rank != 2 ||
        (t->rows && (x->shape[0] != t->rows || x->shape[1] != t->width)))
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected I64 of the shape of input_ids",
                       mf_st_path(f), name);
    if (x->count == 0 || x->count > POSITIONS_MAX)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected 1 to %d elements", mf_st_path(f),
                       name, (int)POSITIONS_MAX);
    *ret = mf_alloc(x->count, sizeof **ret);
    return *ret ? mf_st_read(f, x, *ret, (size_t)x->bytes) : MF_ENOMEM;
}

static int new_batch(mf_tokens *t, int64_t rows, int64_t width)
{
    t->rows = (int32_t)rows;
    t->width = (int32_t)width;
    const int rc = mf_batch_new(t->rows, t->width, &t->batch);
    for (int32_t i = 0; rc == MF_OK && i < t->rows * t->width; i++) {
        t->batch->targets[i] = -1;
        t->batch->mask[i] = 1;
        t->batch->positions[i] = i % t->width;
        t->batch->sequence[i] = i / t->width;
        t->batch->labels[i] = -1;
    }
    for (int32_t i = 0; rc == MF_OK && i < t->rows; i++)
        t->batch->classes[i] = -1;
    return rc;
}

static int read_ids(const mf_st_file *f, const mf_session *s, mf_tokens *t)
{
    int64_t *ids = NULL;
    const mf_st_tensor *x = mf_st_find(f, "input_ids");
    int rc = x ? read_table(f, "input_ids", t, &ids)
               : mf_fail(MF_EINPUT, "%s: expected a tensor 'input_ids'", mf_st_path(f));
    if (rc == MF_OK && x->shape[1] > s->config->model.seq)
        rc = mf_fail(MF_EINPUT, "%s: input_ids: expected at most %lld positions, found %lld",
                     mf_st_path(f), (long long)s->config->model.seq, (long long)x->shape[1]);
    if (rc == MF_OK) rc = new_batch(t, x->shape[0], x->shape[1]);
    for (int32_t i = 0; rc == MF_OK && ids && i < t->rows * t->width; i++) {
        if (ids[i] < 0 || ids[i] >= s->model->dims.vocab)
            rc = mf_fail(MF_EINPUT, "%s: input_ids: expected ids from 0 to %d, found %lld",
                         mf_st_path(f), (int)s->model->dims.vocab - 1, (long long)ids[i]);
        t->batch->tokens[i] = (int32_t)ids[i];
    }
    mf_free(ids);
    return rc;
}

static int read_mask(const mf_st_file *f, mf_tokens *t)
{
    int64_t *mask = NULL;
    int rc = read_table(f, "attention_mask", t, &mask);
    t->masked = mask != NULL;
    for (int32_t i = 0; rc == MF_OK && mask && i < t->rows * t->width; i++)
        t->batch->mask[i] = mask[i] != 0 ? 1 : 0;
    mf_free(mask);
    return rc;
}

static int read_segments(const mf_st_file *f, const mf_session *s, mf_tokens *t)
{
    int64_t *types = NULL;
    const int64_t most = s->config->model.token_types;
    int rc = most > 0 ? read_table(f, "token_type_ids", t, &types) : MF_OK;
    for (int32_t i = 0; rc == MF_OK && types && i < t->rows * t->width; i++) {
        if (types[i] < 0 || types[i] >= most)
            rc = mf_fail(MF_EINPUT, "%s: token_type_ids: expected 0 to %lld, found %lld",
                         mf_st_path(f), (long long)most - 1, (long long)types[i]);
        t->batch->segments[i] = (int32_t)types[i];
    }
    mf_free(types);
    return rc;
}

/* Reads the class of each sequence. */
static int read_classes(const mf_st_file *f, const mf_session *s, mf_tokens *t)
{
    const mf_st_tensor *x = mf_st_find(f, "labels");
    const int32_t classes = s->model->dims.classes;
    if (!x) return MF_OK;
    if (x->dtype != MF_ST_I64 || x->rank != 1 || x->shape[0] != t->rows)
        return mf_fail(MF_EINPUT, "%s: tensor 'labels': expected I64 [%d]", mf_st_path(f),
                       (int)t->rows);
    t->labelled = true;
    int rc = MF_OK;
    for (int32_t i = 0; rc == MF_OK && i < t->rows; i++) {
        int64_t label = 0;
        rc = mf_st_read_part(f, x, &label, sizeof label, (uint64_t)i * sizeof label);
        if (rc == MF_OK && label != IGNORED && (label < 0 || label >= classes))
            rc = mf_fail(MF_EINPUT, "%s: labels: expected -100 or 0 to %d, found %lld",
                         mf_st_path(f), (int)classes - 1, (long long)label);
        t->batch->classes[i] = label == IGNORED ? -1 : (int32_t)label;
    }
    return rc;
}

static int read_labels(const mf_st_file *f, const mf_session *s, mf_tokens *t)
{
    int64_t *labels = NULL;
    const int64_t vocab = s->model->dims.vocab;
    int rc = read_table(f, "labels", t, &labels);
    t->labelled = labels != NULL;
    for (int32_t i = 1; rc == MF_OK && labels && i < t->rows * t->width; i++) {
        if (labels[i] != IGNORED && (labels[i] < 0 || labels[i] >= vocab))
            rc = mf_fail(MF_EINPUT,
                         "%s: labels: expected -100 or ids from 0 to %lld, found %lld",
                         mf_st_path(f), (long long)vocab - 1, (long long)labels[i]);
        if (i % t->width != 0 && labels[i] != IGNORED)
            t->batch->targets[i - 1] = (int32_t)labels[i];
    }
    mf_free(labels);
    return rc;
}

int mf_tokens_read(const char *path, const mf_session *s, mf_tokens *ret)
{
    mf_st_file *f = NULL;
    *ret = (mf_tokens){0};
    int rc = mf_st_open(path, &f);
    if (rc == MF_ENOTFOUND) rc = mf_fail(MF_EINPUT, "%s: there is no such file", path);
    if (rc == MF_OK) rc = read_ids(f, s, ret);
    if (rc == MF_OK) rc = read_mask(f, ret);
    if (rc == MF_OK) rc = read_segments(f, s, ret);
    if (rc == MF_OK && s->config->model.task == MF_TASK_LM) rc = read_labels(f, s, ret);
    if (rc == MF_OK && s->config->model.task == MF_TASK_CLASSIFY) rc = read_classes(f, s, ret);
    mf_st_close(f);
    if (rc != MF_OK) mf_tokens_free(ret);
    return rc;
}

/* The tokens of all texts, one text after another, and the end of each text. */
typedef struct texts {
    mf_ids ids, types;
    size_t *end; /* [n] end of each text */
    int64_t n;
} texts;

static int add_text(const mf_session *s, const char *path, const char *line, size_t n, texts *t)
{
    mf_ids plain = {0};
    int rc = mf_tokenizer_encode(s->tokenizer, path, line, n, &plain);
    if (rc == MF_OK) rc = mf_tokenizer_wrap(s->tokenizer, &plain, NULL, &t->ids, &t->types);
    mf_ids_free(&plain);
    t->end[t->n++] = t->ids.n;
    return rc;
}

static int read_texts(const char *path, const mf_session *s, int64_t count, texts *t)
{
    char *text = NULL;
    size_t n = 0;
    int64_t lines = 1;
    int rc = mf_read_file(path, 0, &text, &n);
    if (rc == MF_ENOTFOUND) rc = mf_fail(MF_EINPUT, "%s: there is no such file", path);
    for (size_t i = 0; rc == MF_OK && i < n; i++)
        lines += text[i] == '\n';
    if (count == 0 || count > lines) count = lines;
    t->end = mf_alloc((size_t)count, sizeof *t->end);
    if (rc == MF_OK && !t->end) rc = MF_ENOMEM;
    for (size_t at = 0; rc == MF_OK && at < n && t->n < count;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        const size_t whole = end ? (size_t)(end - line) : n - at;
        const char *tab = memchr(line, '\t', whole);
        const size_t part = tab ? (size_t)(tab - line) : whole;
        if (part > 0) rc = add_text(s, path, line, part, t);
        at += whole + 1;
    }
    mf_free(text);
    if (rc != MF_OK || t->n > 0) return rc;
    return mf_fail(MF_EINPUT, "%s: expected a text in each line, found none", path);
}

/* Fills the batch. If a text is cut, it loses its end, but keeps the last token of
 * the template. */
static void place_texts(const mf_session *s, const texts *x, mf_tokens *t)
{
    const int32_t pad = s->tokenizer->special[MF_SPECIAL_PAD];
    size_t from = 0;
    for (int32_t i = 0; i < t->rows; from = x->end[i++]) {
        const size_t n = x->end[i] - from, most = (size_t)t->width;
        for (size_t j = 0; j < most; j++) {
            const size_t to = (size_t)i * most + j,
                         at = j + 1 == most && n > most ? x->end[i] - 1 : from + j;
            t->batch->mask[to] = j < n;
            t->batch->tokens[to] = j < n ? x->ids.id[at] : pad < 0 ? 0 : pad;
            if (s->config->model.token_types > 0)
                t->batch->segments[to] = j < n ? x->types.id[at] : 0;
        }
    }
}

int mf_tokens_read_lines(const char *path, const mf_session *s, int64_t count, int64_t length,
                         mf_tokens *ret)
{
    texts x = {.n = 0};
    size_t longest = 1, from = 0;
    *ret = (mf_tokens){.masked = true};
    if (!s->tokenizer) return mf_fail(MF_EUSAGE, "the run has no tokenizer to read texts with");
    if (length > s->config->model.seq)
        return mf_fail(MF_EUSAGE, "expected at most %lld positions, which the model has",
                       (long long)s->config->model.seq);
    int rc = read_texts(path, s, count, &x);
    for (int64_t i = 0; rc == MF_OK && i < x.n; from = x.end[i++])
        if (x.end[i] - from > longest) longest = x.end[i] - from;
    if (length <= 0) length = (int64_t)longest;
    if (length > s->config->model.seq) length = s->config->model.seq;
    if (rc == MF_OK && x.n > POSITIONS_MAX / length)
        rc = mf_fail(MF_EINPUT, "%s: expected at most %d positions in all, found %lld x %lld",
                     path, (int)POSITIONS_MAX, (long long)x.n, (long long)length);
    if (rc == MF_OK) rc = new_batch(ret, x.n, length);
    if (rc == MF_OK) place_texts(s, &x, ret);
    mf_ids_free(&x.ids);
    mf_ids_free(&x.types);
    mf_free(x.end);
    if (rc != MF_OK) mf_tokens_free(ret);
    return rc;
}

void mf_tokens_free(mf_tokens *t)
{
    mf_batch_free(t->batch);
    *t = (mf_tokens){0};
}

/* ---- writing ---- */

/* The tensors of an output file, with their values. */
typedef struct output {
    mf_st_writer *writer;
    mf_arena *arena;
    const void **data;
    size_t n, most;
} output;

static int open_output(output *o, size_t most)
{
    *o = (output){.writer = mf_st_writer_new(), .arena = mf_arena_new(), .most = most};
    if (o->arena) o->data = mf_arena_alloc(o->arena, most * sizeof *o->data);
    return o->writer && o->data ? MF_OK : MF_ENOMEM;
}

static void close_output(output *o)
{
    mf_st_writer_free(o->writer);
    mf_arena_free(o->arena);
}

static int add(output *o, const char *name, mf_st_dtype dtype, int rank, const int64_t *shape,
               const void *data)
{
    if (!data || o->n == o->most) return MF_OK;
    o->data[o->n++] = data;
    return mf_st_writer_add(o->writer, name, dtype, rank, shape);
}

static int write_output(output *o, const char *path)
{
    size_t i;
    const mf_st_tensor *t;
    int rc = mf_st_writer_begin(o->writer, path);
    while (rc == MF_OK && (t = mf_st_writer_due(o->writer, &i)))
        rc = mf_st_writer_put(o->writer, o->data[i], (size_t)t->bytes);
    return rc == MF_OK ? mf_st_writer_end(o->writer, false) : rc;
}

/* ---- forward ---- */

/* Sorts the k experts of each token, and the gates in the same order. */
static int sort_choice(output *o, const mf_moe_out *out, int32_t k, const int32_t **ret_expert,
                       const float **ret_gate)
{
    const mf_routing *r = &out->routing;
    const int32_t *chosen = mf_tensor_host(r->chosen);
    const float *gate = mf_tensor_host(out->gate);
    const size_t n = (size_t)r->rows;
    *ret_expert = NULL;
    *ret_gate = NULL;
    if (r->token || !chosen || !gate) return MF_OK;
    int32_t *e = mf_arena_alloc(o->arena, n * sizeof *e);
    float *g = mf_arena_alloc(o->arena, n * sizeof *g);
    if (!e || !g) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const size_t first = i - i % (size_t)k;
        size_t at = i;
        for (; at > first && e[at - 1] > chosen[i]; at--) {
            e[at] = e[at - 1];
            g[at] = g[at - 1];
        }
        e[at] = chosen[i];
        g[at] = gate[i];
    }
    *ret_expert = e;
    *ret_gate = g;
    return MF_OK;
}

static int add_layer(output *o, const mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    const int64_t k = r->token ? 1 : r->rows / r->tokens;
    const int64_t scores[] = {r->tokens, r->experts}, choice[] = {r->tokens, k};
    const int32_t *expert;
    const float *gate;
    const char *name[3];
    static const char *const parts[] = {"logits", "expert", "gate"};
    for (int i = 0; i < 3; i++)
        if (!(name[i] = mf_arena_strf(o->arena, "moe.%d.%s", (int)r->layer, parts[i])))
            return MF_ENOMEM;
    int rc = sort_choice(o, out, (int32_t)k, &expert, &gate);
    if (rc == MF_OK && r->logits)
        rc = add(o, name[0], MF_ST_F32, 2, scores, mf_tensor_host(r->logits));
    if (rc == MF_OK) rc = add(o, name[1], MF_ST_I32, 2, choice, expert);
    return rc == MF_OK ? add(o, name[2], MF_ST_F32, 2, choice, gate) : rc;
}

/* Adds the tokens themselves, in the form of an input file. */
static int add_tokens(output *o, const mf_tokens *t)
{
    const int64_t shape[] = {t->rows, t->width};
    const size_t n = (size_t)t->rows * (size_t)t->width;
    int64_t *ids = mf_arena_alloc(o->arena, n * sizeof *ids),
            *mask = mf_arena_alloc(o->arena, n * sizeof *mask);
    if (!ids || !mask) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        ids[i] = t->batch->tokens[i];
        mask[i] = t->batch->mask[i] != 0;
    }
    const int rc = add(o, "input_ids", MF_ST_I64, 2, shape, ids);
    return rc == MF_OK ? add(o, "attention_mask", MF_ST_I64, 2, shape, mask) : rc;
}

static int collect(output *o, const mf_session *s, const mf_tokens *t, const mf_model_graph *mg)
{
    static const char *const names[] = {"hidden.first", "hidden.last"};
    const mf_model *m = s->model;
    const int64_t hidden[] = {t->rows, t->width, s->config->model.dim},
                  logits[] = {t->rows, t->width, m->dims.vocab};
    int rc = add_tokens(o, t);
    if (rc != MF_OK) return rc;
    if (mg->by_row) {
        const int64_t out[] = {t->rows, mg->logits ? mg->logits->shape.dim[1] : 0};
        if (mg->logits) rc = add(o, "logits", MF_ST_F32, 2, out, mf_tensor_host(mg->logits));
    } else {
        rc = add(o, "logits", MF_ST_F32, 3, logits, mf_tensor_host(mg->logits));
    }
    for (int i = 0; rc == MF_OK && i < 2; i++)
        rc = add(o, names[i], MF_ST_F32, 3, hidden, mf_tensor_host(mg->hidden[i]));
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++)
        rc = add_layer(o, &mg->moe[i]);
    return rc;
}

static int read_loss(const mf_tokens *t, const mf_model_graph *mg, double *ret)
{
    float loss = 0;
    *ret = (double)NAN;
    if (!t->labelled) return MF_OK;
    const int rc = mf_tensor_read(mg->task_loss, &loss, 0, sizeof loss);
    if (rc == MF_OK) *ret = (double)loss;
    return rc;
}

int mf_tokens_save(mf_session *s, const mf_tokens *t, const char *path, double *ret_loss)
{
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = t->rows,
                                  .seq = t->width,
                                  .masked = t->masked,
                                  .want_logits = true,
                                  .want_hidden = true,
                                  .want_prob = true,
                                  .want_trace = true};
    const mf_run plain = {.forward_only = true};
    mf_model_graph *mg = NULL;
    output o = {0};
    int rc = mf_model_graph_new(s->model, &shape, &mg);
    if (rc == MF_OK) {
        mf_batch_feed(t->batch, mg);
        rc = mf_graph_run(mg->g, &plain);
    }
    if (rc == MF_OK) rc = open_output(&o, 5 + 3 * (size_t)s->model->n_moe);
    if (rc == MF_OK) rc = collect(&o, s, t, mg);
    if (rc == MF_OK) rc = write_output(&o, path);
    if (rc == MF_OK) rc = read_loss(t, mg, ret_loss);
    close_output(&o);
    mf_model_graph_free(mg);
    return rc;
}

/* ---- gradients ---- */

/* Adds the gradients of the part of a parameter that a tensor contains, in the order of
 * the tensor. */
static int add_theirs(output *o, const mf_store *store, const char *name, const mf_place *p)
{
    /* the block is only read */
    float *all = (float *)(uintptr_t)mf_store_host(store, MF_BLOCK_GRADS);
    if (!all) return MF_ENOMEM;
    float *part = mf_arena_alloc(o->arena, (size_t)mf_place_count(p) * sizeof *part);
    if (!part) return MF_ENOMEM;
    float *const grads[2] = {all + p->param->offset, p->other ? all + p->other->offset : NULL};
    mf_values_gather(p, grads, part);
    return add(o, name, MF_ST_F32, p->shape_rank, p->shape, part);
}

static int collect_gradients(output *o, const mf_session *s, const mf_record *record)
{
    const mf_store *store = s->model->store;
    const float *all = mf_store_host(store, MF_BLOCK_GRADS);
    int rc = all ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (!p->buffer)
            rc = add(o, p->name, MF_ST_F32, p->shape.rank, p->shape.dim, all + p->offset);
    }
    for (int64_t i = 0; rc == MF_OK && record && i < record->n; i++) {
        const mf_place *p = &record->ledger.places[i];
        char plain[MF_ST_NAME_MAX];
        const char *name = mf_place_plain_name(p, record->tensors[i], plain);
        const bool trained = p->param && !p->param->buffer && !p->tied;
        if (trained && !mf_store_find(store, name)) rc = add_theirs(o, store, name, p);
    }
    return rc;
}

/* Runs the forward and the backward pass, without dropout. The weights of regularizers are 0
 * during the run. */
static int run_back(mf_session *s, const mf_tokens *t, double *ret_loss)
{
    const mf_model_shape shape = {
        .mode = MF_MODE_TRAIN, .batch = t->rows, .seq = t->width, .masked = t->masked};
    const mf_run plain = {.no_dropout = true};
    mf_model_graph *mg = NULL;
    mf_model *m = s->model;
    for (int i = 0; i < m->config->n_regularizers; i++)
        m->regularizer_weights[i] = 0;
    int rc = mf_model_graph_new(m, &shape, &mg);
    if (rc == MF_OK) {
        mf_batch_feed(t->batch, mg);
        rc = mf_graph_run(mg->g, &plain);
    }
    if (rc == MF_OK) rc = read_loss(t, mg, ret_loss);
    mf_model_graph_free(mg);
    return rc;
}

/* Matches the record of a run. *ret is NULL if the run has no record, or if its model is no
 * longer the model of the record, for example with another router. */
static int match_record(const mf_session *s, const char *run, mf_record **ret)
{
    int rc = mf_record_open(run, ret);
    if (rc != MF_OK || !*ret) return rc;
    rc = mf_record_match(*ret, run, s->model->store);
    if (rc == MF_OK) return rc;
    mf_record_free(*ret);
    *ret = NULL;
    if (rc == MF_EINPUT) mf_error_clear();
    return rc == MF_EINPUT ? MF_OK : rc;
}

int mf_tokens_gradients(mf_session *s, const char *run, const mf_tokens *t, const char *path,
                        double *ret_loss)
{
    mf_record *record = NULL;
    output o = {0};
    if (!t->labelled)
        return mf_fail(MF_EINPUT, "gradients need a language model or a classifier, and a "
                                  "tensor 'labels'");
    int rc = match_record(s, run, &record);
    if (rc == MF_OK) rc = run_back(s, t, ret_loss);
    if (rc == MF_OK)
        rc = open_output(&o, (size_t)mf_store_count(s->model->store) +
                                 (record ? (size_t)record->n : 0));
    if (rc == MF_OK) rc = collect_gradients(&o, s, record);
    if (rc == MF_OK) rc = write_output(&o, path);
    close_output(&o);
    mf_record_free(record);
    return rc;
}
