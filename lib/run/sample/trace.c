/* run/sample/trace.c: copies the recorded tensors of each batch to a block of memory, and
 * writes all blocks to one safetensors file at the end. The first batch determines the layout
 * of the fields. */
#include "run/sample/trace.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "io/json.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "data/safetensors/safetensors.h"
#include "plugin/load/open.h"
#include "run/folder/provenance.h"

typedef enum {
    TOKEN,
    TARGET,
    POSITION,
    SEQUENCE,
    LABEL,
    CLASS, /* classes of the examples, in a task other than model.task */
    LOGITS,
    PROB,
    SCORE,
    INPUT,
    GATE,
    MARGIN, /* the last of the f32 values of a layer */
    VALUE,  /* f32 values of the examples */
    CHOSEN,
    ADMITTED,
    ROW_TOKEN /* the last of the i32 values */
} source;

/* One tensor of the file, and the offset of its part in the block of a batch. */
typedef struct {
    char name[64];
    source from;
    int32_t layer; /* index among the MoE layers; -1: a tensor of the batch */
    int task;      /* index of the task, for CLASS and VALUE */
    int rank;
    int64_t dim[2]; /* shape of one batch's part */
    size_t offset, count;
} field;

struct mf_trace_recorder {
    const mf_session *session;
    mf_arena *arena; /* owner of texts and fields */
    mf_trace_about about;
    field *fields;
    int n_fields;
    size_t block; /* number of 4-byte elements per batch */
    int32_t rows, seq;
    int32_t **blocks; /* [n] values of each batch; floats are stored by their bits */
    int64_t n, cap;
    int64_t first, last;
    double loss, targets; /* task loss summed over targets, and their number */
};

int mf_trace_recorder_new(const mf_session *s, const mf_trace_about *about,
                          mf_trace_recorder **ret)
{
    mf_trace_recorder *r = mf_alloc(1, sizeof *r);
    if (!r) return MF_ENOMEM;
    r->session = s;
    r->arena = mf_arena_new();
    if (r->arena) {
        r->about = *about;
        r->about.run = mf_arena_strdup(r->arena, about->run ? about->run : "");
        r->about.split = mf_arena_strdup(r->arena, about->split ? about->split : "");
        r->about.forced = mf_arena_strdup(r->arena, about->forced ? about->forced : "");
    }
    if (!r->arena || !r->about.run || !r->about.split || !r->about.forced) {
        mf_trace_recorder_free(r);
        return MF_ENOMEM;
    }
    *ret = r;
    return MF_OK;
}

static void forget(mf_trace_recorder *r)
{
    for (int64_t i = 0; i < r->n; i++)
        mf_free(r->blocks[i]);
    r->n = 0;
    r->loss = r->targets = 0;
}

void mf_trace_recorder_free(mf_trace_recorder *r)
{
    if (!r) return;
    forget(r);
    mf_free(r->blocks);
    mf_arena_free(r->arena);
    mf_free(r);
}

int64_t mf_trace_recorder_batches(const mf_trace_recorder *r)
{
    return r->n;
}

/* ---- the tensors of a trace ---- */

static void add_field(mf_trace_recorder *r, source from, int32_t layer, const char *name,
                      int64_t rows, int64_t columns)
{
    const mf_model *m = r->session->model;
    field *f = &r->fields[r->n_fields++];
    *f = (field){.from = from,
                 .layer = layer,
                 .rank = columns > 0 ? 2 : 1,
                 .dim = {rows, columns},
                 .offset = r->block};
    f->count = (size_t)(columns > 0 ? rows * columns : rows);
    if (layer < 0)
        snprintf(f->name, sizeof f->name, "%s", name);
    else
        snprintf(f->name, sizeof f->name, "layers.%d.%s", (int)m->moe[layer].layer, name);
    r->block += f->count;
}

/* Adds the tensors of a layer. Assignments are a list if the router lists their tokens.
 * Otherwise they are a table [T,k]. */
static void add_layer(mf_trace_recorder *r, int32_t i, const mf_moe_out *out)
{
    const mf_routing *record = &out->routing;
    const mf_moe_choice *own = &out->own;
    const int64_t T = record->tokens, E = record->experts;
    const bool listed = own->token != NULL;
    const int64_t rows = listed ? own->rows : T, k = listed ? 0 : own->rows / T;
    if (record->logits) add_field(r, LOGITS, i, "logits", T, E);
    if (record->prob) add_field(r, PROB, i, "prob", T, E);
    if (out->score) add_field(r, SCORE, i, "score", T, E);
    add_field(r, CHOSEN, i, "chosen", rows, k);
    if (own->admitted && own->admitted != own->chosen)
        add_field(r, ADMITTED, i, "admitted", rows, k);
    add_field(r, GATE, i, "gate", rows, k);
    if (listed) add_field(r, ROW_TOKEN, i, "token", rows, 0);
    if (!listed && (out->score || record->prob)) add_field(r, MARGIN, i, "margin", T, 0);
    if (r->about.activations) add_field(r, INPUT, i, "x", T, mf_shape_count(out->x->shape) / T);
}

/* Adds the label of each example for each task, except the class that is already
 * in "target". */
static void add_tasks(mf_trace_recorder *r, const mf_batch *b, const mf_model_graph *mg)
{
    for (int i = 0; i < mg->n_tasks; i++) {
        const bool number = mg->tasks[i].values != NULL;
        char name[64];
        if (i == 0 && !number) continue;
        snprintf(name, sizeof name, "tasks.%d.%s", i, number ? "value" : "class");
        add_field(r, number ? VALUE : CLASS, -1, name, b->rows, 0);
        r->fields[r->n_fields - 1].task = i;
    }
}

static int lay_out(mf_trace_recorder *r, const mf_batch *b, const mf_model_graph *mg)
{
    const mf_model *m = r->session->model;
    const int64_t T = (int64_t)b->rows * b->seq;
    if (r->fields) {
        if (b->rows == r->rows && b->seq == r->seq) return MF_OK;
        return mf_fail(MF_EINVAL,
                       "a trace of batches of %d x %d tokens cannot take one of %d x %d",
                       (int)r->rows, (int)r->seq, (int)b->rows, (int)b->seq);
    }
    r->fields = mf_arena_alloc(r->arena, (size_t)(6 + MF_TASKS_MAX + 9 * (m->n_moe + 1)) *
                                             sizeof *r->fields);
    if (!r->fields) return MF_ENOMEM;
    r->rows = b->rows;
    r->seq = b->seq;
    add_field(r, TOKEN, -1, "token", T, 0);
    add_field(r, TARGET, -1, "target", mg->by_row ? b->rows : T, 0);
    add_field(r, POSITION, -1, "position", T, 0);
    add_field(r, SEQUENCE, -1, "sequence", T, 0);
    if (m->dims.labels > 0) add_field(r, LABEL, -1, "label", T, 0);
    add_tasks(r, b, mg);
    for (int32_t i = 0; i < m->n_moe; i++)
        add_layer(r, i, &mg->moe[i]);
    return MF_OK;
}

/* ---- one batch ---- */

float mf_trace_margin(const float *score, int32_t n, int32_t k)
{
    if (k < 1 || k >= n) return INFINITY;
    /* Each pass finds the best expert after the previous one, ordered by score, then
     * by index. */
    int32_t last = -1, at = -1;
    for (int32_t place = 0; place <= k; place++) {
        last = at;
        at = -1;
        for (int32_t i = 0; i < n; i++) {
            const bool after =
                last < 0 || score[i] < score[last] || (score[i] == score[last] && i > last);
            if (after && (at < 0 || score[i] > score[at])) at = i;
        }
        if (at < 0) return NAN; /* NaN scores cannot be ordered */
    }
    return isinf(score[at]) ? INFINITY : score[last] - score[at];
}

/* Computes the margin of a token whose experts the router itself has chosen: the lowest `prob`
 * of a chosen expert minus the highest `prob` of the other experts. Infinite if no expert or
 * every expert is chosen; NaN if another expert has a higher `prob` than a chosen expert. */
static float own_margin(const float *prob, int32_t experts, const int32_t *chosen, int32_t k)
{
    float least = INFINITY, best = -INFINITY;
    for (int32_t e = 0; e < experts; e++) {
        bool taken = false;
        for (int32_t j = 0; j < k; j++)
            taken = taken || chosen[j] == e;
        if (taken && prob[e] < least) least = prob[e];
        if (!taken && prob[e] > best) best = prob[e];
    }
    if (isinf(least) || isinf(best)) return INFINITY;
    return least >= best ? least - best : NAN;
}

static void put_margins(const mf_moe_out *out, const float *mask, float *to)
{
    const mf_routing *record = &out->routing;
    const int32_t E = record->experts, k = out->own.rows / record->tokens;
    const float *score = mf_tensor_host(out->score ? out->score : record->prob);
    const int32_t *chosen = mf_tensor_host(out->own.chosen);
    for (int64_t t = 0; t < record->tokens; t++) {
        if (mask[t] == 0.0f)
            to[t] = NAN;
        else if (record->expert)
            to[t] = own_margin(score + t * E, E, chosen + t * k, k);
        else
            to[t] = mf_trace_margin(score + t * E, E, k);
    }
}

static const mf_tensor *tensor_of(const mf_moe_out *out, source from)
{
    switch (from) {
    case LOGITS:
        return out->routing.logits;
    case PROB:
        return out->routing.prob;
    case SCORE:
        return out->score;
    case INPUT:
        return out->x;
    case GATE:
        return out->own.gate;
    case CHOSEN:
        return out->own.chosen;
    case ADMITTED:
        return out->own.admitted;
    default:
        return NULL;
    }
}

static int put_layer(const mf_trace_recorder *r, const field *f, const mf_batch *b,
                     const mf_moe_out *out, int32_t *to)
{
    if (f->from == MARGIN) {
        put_margins(out, b->mask, (float *)(void *)to);
        return MF_OK;
    }
    if (f->from == ROW_TOKEN) { /* tokens are numbered through the whole trace */
        const int32_t *token = mf_tensor_host(out->own.token);
        for (size_t i = 0; i < f->count; i++)
            to[i] = token[i] < 0 ? -1 : token[i] + (int32_t)(r->n * r->rows * r->seq);
        return MF_OK;
    }
    const mf_tensor *t = tensor_of(out, f->from);
    const void *data = t ? mf_tensor_host(t) : NULL;
    if (!data || (size_t)mf_shape_count(t->shape) != f->count)
        return mf_fail(MF_EINVAL, "%s: the graph does not keep it for a trace", f->name);
    memcpy(to, data, f->count * sizeof *to);
    return MF_OK;
}

static void put_batch(const field *f, int64_t index, const mf_batch *b, bool by_row,
                      int32_t *to)
{
    const int32_t *from = f->from == TARGET     ? b->targets
                          : f->from == POSITION ? b->positions
                          : f->from == LABEL    ? b->labels
                                                : b->tokens;
    const void *answers = NULL; /* [rows] labels of the examples */
    if (f->from == TARGET && by_row) answers = b->classes;
    if (f->from == CLASS) answers = b->more_classes[f->task - 1];
    if (f->from == VALUE) answers = f->task == 0 ? b->values : b->more_values[f->task - 1];
    if (answers) {
        memcpy(to, answers, f->count * sizeof *to);
        return;
    }
    for (size_t t = 0; t < f->count; t++) {
        if (f->from == SEQUENCE)
            to[t] = (int32_t)(index * b->rows) + b->sequence[t];
        else
            to[t] = b->mask[t] == 0.0f ? -1 : from[t];
    }
}

int mf_trace_recorder_add(mf_trace_recorder *r, int64_t index, const mf_batch *b,
                          const mf_model_graph *mg)
{
    int rc = lay_out(r, b, mg);
    if (rc != MF_OK) return rc;
    if ((r->n + 1) * r->rows * r->seq > INT32_MAX || index >= INT32_MAX / r->rows)
        return mf_fail(MF_EINPUT, "a trace holds at most %d tokens; expected fewer batches",
                       (int)INT32_MAX);
    if (r->n == r->cap) {
        const int64_t cap = r->cap ? 2 * r->cap : 16;
        int32_t **more =
            mf_realloc(r->blocks, (size_t)r->cap * sizeof *more, (size_t)cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        r->blocks = more;
        r->cap = cap;
    }
    int32_t *block = mf_alloc(r->block, sizeof *block);
    if (!block)
        return mf_fail(MF_ENOMEM,
                       "no memory for batch %lld of a trace (%zu MiB each): fewer "
                       "batches, or no activations, need less",
                       (long long)r->n + 1, r->block * sizeof *block >> 20);
    for (int i = 0; rc == MF_OK && i < r->n_fields; i++) {
        const field *f = &r->fields[i];
        if (f->layer < 0)
            put_batch(f, index, b, mg->by_row, block + f->offset);
        else
            rc = put_layer(r, f, b, &mg->moe[f->layer], block + f->offset);
    }
    if (rc != MF_OK) {
        mf_free(block);
        return rc;
    }
    const float *loss = mg->task_loss ? mf_tensor_host(mg->task_loss) : NULL;
    if (loss && b->n_targets > 0) r->loss += (double)*loss * (double)b->n_targets;
    r->targets += (double)b->n_targets;
    if (r->n == 0) r->first = index;
    r->last = index;
    r->blocks[r->n++] = block;
    return MF_OK;
}

/* ---- the file ---- */

/* Returns which tokens a choice in an earlier layer can change: only later tokens of the
 * sequence ("sequence"), or any token of the batch ("batch"). */
static const char *reach_of(const mf_model *m)
{
    const mf_model_settings *c = m->config;
    bool later_only = c->model.task == MF_TASK_LM && c->model.causal;
    for (int32_t i = 0; i < m->n_moe; i++) {
        const mf_router *router = mf_loaded_vtable(mf_instance_plugin(m->moe[i].router));
        if (router->flags & MF_ROUTER_NOT_CAUSAL) later_only = false;
        if (m->moe[i].config.capacity_factor > 0) later_only = false;
    }
    return later_only ? "sequence" : "batch";
}

static char *plugins_text(mf_arena *arena, const mf_provenance *id)
{
    mf_jw *w = mf_jw_new();
    if (!w) return NULL;
    mf_jw_array(w);
    for (int i = 0; i < id->n_plugins; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", id->plugins[i].name);
        mf_jw_kv_string(w, "kind", id->plugins[i].kind);
        mf_jw_kv_string(w, "xxh3_128", id->plugins[i].hash);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    const char *text = mf_jw_text(w, NULL);
    char *copy = text ? mf_arena_strdup(arena, text) : NULL;
    mf_jw_free(w);
    return copy;
}

/* Metadata must be UTF-8, but a path need not be. */
static const char *printable(const char *text)
{
    return text && mf_utf8_check(text, strlen(text)) == strlen(text) ? text : "?";
}

/* Writes a number of a layer; if layers differ, the list of the numbers, as KEY_by_layer. A
 * reader that expects one number then refuses the file. */
static int describe_layers(const mf_model *m, mf_st_writer *w, const char *key, bool top_k)
{
    char list[16384], name[64];
    size_t at = 0;
    int64_t first = 0, each;
    bool differ = false;
    list[0] = '\0';
    for (int32_t i = 0; i < m->n_moe && at < sizeof list - 32; i++) {
        each = top_k ? m->moe[i].config.top_k : m->moe[i].config.experts;
        first = i == 0 ? each : first;
        differ = differ || each != first;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", i ? "," : "",
                               (long long)each);
    }
    snprintf(name, sizeof name, "%s%s", key, differ ? "_by_layer" : "");
    if (!differ) list[strcspn(list, ",")] = '\0';
    return mf_st_writer_meta(w, name, list);
}

static int describe(const mf_trace_recorder *r, mf_st_writer *w, int64_t step)
{
    const mf_model *m = r->session->model;
    const mf_config *c = r->session->config;
    const mf_provenance *id = mf_provenance_now(m);
    const char *program = mf_arena_strf(r->arena, "moefw %s", id->version),
               *plugins = plugins_text(r->arena, id);
    if (!program || !plugins) return MF_ENOMEM;
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"step", step},          {"seed", c->train.seed},  {"batches", r->n},
        {"rows", r->rows},       {"seq", r->seq},          {"first_batch", r->first},
        {"last_batch", r->last}, {"vocab", m->dims.vocab}, {"labels", m->dims.labels},
        {"dim", c->model.dim},   {"abi", id->abi},         {"threads", id->threads}};
    const struct {
        const char *key, *value;
    } texts[] = {{"format", MF_TRACE_FORMAT},
                 {"version", MF_TRACE_VERSION},
                 {"program", program},
                 {"run", r->about.run},
                 {"split", r->about.split},
                 {"forced", r->about.forced},
                 {"router", c->router.plugin},
                 {"targets", mf_task_by_row(c->model.task) ? "sequence" : "token"},
                 {"reach", reach_of(m)},
                 {"kernels", id->kernels},
                 {"blas", id->blas ? id->blas : ""},
                 {"cpu", id->cpu},
                 {"plugins", plugins}};
    char number[MF_NUMBER_TEXT], layers[16384];
    size_t at = 0;
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(number, sizeof number, "%lld", (long long)numbers[i].value);
        rc = mf_st_writer_meta(w, numbers[i].key, number);
    }
    if (rc == MF_OK) rc = describe_layers(m, w, "experts", false);
    if (rc == MF_OK) rc = describe_layers(m, w, "top_k", true);
    for (size_t i = 0; rc == MF_OK && i < sizeof texts / sizeof *texts; i++)
        rc = mf_st_writer_meta(w, texts[i].key, printable(texts[i].value));
    mf_format_f64(r->targets > 0 ? r->loss / r->targets : (double)NAN, number);
    if (rc == MF_OK) rc = mf_st_writer_meta(w, "task_loss", number);
    layers[0] = 0;
    for (int32_t i = 0; i < m->n_moe; i++)
        at += (size_t)snprintf(layers + at, sizeof layers - at, "%s%d", i ? "," : "",
                               (int)m->moe[i].layer);
    return rc == MF_OK ? mf_st_writer_meta(w, "layers", layers) : rc;
}

static int put_all(const mf_trace_recorder *r, mf_st_writer *w, const char *path, int64_t step)
{
    const mf_st_tensor *due;
    size_t which;
    int rc = describe(r, w, step);
    for (int i = 0; rc == MF_OK && i < r->n_fields; i++) {
        const field *f = &r->fields[i];
        const int64_t shape[2] = {r->n * f->dim[0], f->dim[1]};
        rc = mf_st_writer_add(w, f->name,
                              f->from < LOGITS || f->from >= CHOSEN ? MF_ST_I32 : MF_ST_F32,
                              f->rank, shape);
    }
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && (due = mf_st_writer_due(w, &which)) != NULL) {
        const field *f = &r->fields[which];
        for (int64_t b = 0; rc == MF_OK && b < r->n; b++)
            rc = mf_st_writer_put(w, r->blocks[b] + f->offset, f->count * sizeof(int32_t));
    }
    return rc == MF_OK ? mf_st_writer_end(w, true) : rc;
}

int mf_trace_recorder_write(mf_trace_recorder *r, const char *path, int64_t step)
{
    if (r->n == 0)
        return mf_fail(MF_EINPUT, "%s: nothing to record: the split has no batch with targets",
                       path);
    if (mf_is_dir(path)) return mf_fail(MF_EUSAGE, "%s is a directory; expected a file", path);
    char *beside = mf_strf("%s.tmp", path);
    mf_st_writer *w = mf_st_writer_new();
    int rc = beside && w ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(beside))
        mf_io()->unlink(beside); /* left by a process that was killed */
    if (rc == MF_OK) {
        rc = put_all(r, w, beside, step);
        mf_st_writer_free(w);
        w = NULL;
        if (rc == MF_OK && mf_io()->rename(beside, path) != 0)
            rc = mf_fail_errno(MF_EIO, "%s: cannot rename to %s", beside, path);
        if (rc != MF_OK) mf_io()->unlink(beside);
    }
    if (rc == MF_OK) forget(r);
    mf_st_writer_free(w);
    mf_free(beside);
    return rc;
}
