/* run/metrics/metrics_read.c: reads metrics.jsonl, for reports and for a resume. Damaged
 * lines are skipped and counted; a value that is missing in a line is NaN, 0 or NULL. */
#include "base/error.h"
#include "base/mem.h"
#include "run/metrics/metrics.h"

#include <math.h>
#include <string.h>

typedef struct reader {
    mf_metrics_history *h;
    size_t room;
} reader;

static const char *copy(mf_arena *arena, const mf_json *v)
{
    const char *text = mf_json_string(v, NULL);
    return mf_arena_strdup(arena, text != NULL ? text : "");
}

/* Reads {NAME: number, ...}; a value that is not a number is NaN. NULL: not enough memory. */
static const mf_named_value *values(mf_arena *arena, const mf_json *object, int *ret_n)
{
    const size_t n = mf_json_typeof(object) == MF_JSON_OBJECT ? mf_json_size(object) : 0;
    mf_named_value *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    const char *key;
    const mf_json *value;
    *ret_n = 0;
    for (size_t i = 0; out != NULL && i < n && mf_json_member(object, i, &key, &value); i++) {
        out[i] = (mf_named_value){mf_arena_strdup(arena, key), NAN};
        mf_json_real(value, &out[i].value);
        if (out[i].name == NULL) return NULL;
        *ret_n = (int)i + 1;
    }
    return out;
}

/* Reads the numbers of an array of length n; NULL if the value is not such an array. */
static const float *floats(mf_arena *arena, const mf_json *array, size_t n)
{
    if (mf_json_typeof(array) != MF_JSON_ARRAY || mf_json_size(array) != n) return NULL;
    float *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    for (size_t i = 0; out != NULL && i < n; i++) {
        double v;
        out[i] = mf_json_real(mf_json_at(array, i), &v) ? (float)v : NAN;
    }
    return out;
}

/* The same as floats, for doubles. */
static const double *counts(mf_arena *arena, const mf_json *array, size_t n)
{
    if (mf_json_typeof(array) != MF_JSON_ARRAY || mf_json_size(array) != n) return NULL;
    double *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    for (size_t i = 0; out != NULL && i < n; i++)
        if (!mf_json_real(mf_json_at(array, i), &out[i])) out[i] = NAN;
    return out;
}

static bool read_layers(mf_arena *arena, const mf_json *moe, mf_metrics_record *r)
{
    const size_t n = mf_json_typeof(moe) == MF_JSON_ARRAY ? mf_json_size(moe) : 0;
    mf_layer_stats *layers = mf_arena_alloc(arena, (n + 1) * sizeof *layers);
    if (layers == NULL) return false;
    for (size_t i = 0; i < n; i++) {
        const mf_json *v = mf_json_at(moe, i), *load = mf_json_get(v, "load");
        mf_layer_stats *s = &layers[i];
        const size_t experts = mf_json_typeof(load) == MF_JSON_ARRAY ? mf_json_size(load) : 0;
        s->size = sizeof *s;
        s->layer = (int32_t)mf_json_int_or_0(v, "layer");
        s->experts = (int32_t)experts;
        s->load = floats(arena, load, experts);
        s->count = counts(arena, mf_json_get(v, "count"), experts);
        s->demand = floats(arena, mf_json_get(v, "demand"), experts);
        s->importance = floats(arena, mf_json_get(v, "importance"), experts);
        s->prob_sum = floats(arena, mf_json_get(v, "prob_sum"), experts);
        s->entropy = mf_json_real_or_nan(v, "entropy");
        s->load_entropy = mf_json_real_or_nan(v, "load_entropy");
        s->gate_entropy = mf_json_real_or_nan(v, "gate_entropy");
        s->top_prob = mf_json_real_or_nan(v, "top_prob");
        s->max_prob = mf_json_real_or_nan(v, "max_prob");
        s->load_cv = mf_json_real_or_nan(v, "load_cv");
        s->drop_rate = mf_json_real_or_nan(v, "drop_rate");
        s->reassigned = mf_json_real_or_nan(v, "reassigned");
        s->empty = (int32_t)mf_json_int_or_0(v, "empty");
        s->nmi = mf_json_real_or_nan(v, "nmi");
    }
    r->layers = layers;
    r->n_layers = (int)n;
    return true;
}

static bool read_heads(mf_arena *arena, const mf_json *layers, mf_metrics_record *r)
{
    const size_t n = mf_json_typeof(layers) == MF_JSON_ARRAY ? mf_json_size(layers) : 0;
    mf_head_stats *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    if (out == NULL) return false;
    for (size_t i = 0; i < n; i++) {
        const mf_json *v = mf_json_at(layers, i), *gate = mf_json_get(v, "gate");
        const size_t heads = mf_json_typeof(gate) == MF_JSON_ARRAY ? mf_json_size(gate) : 0;
        out[i] =
            (mf_head_stats){.size = sizeof *out,
                            .layer = (int32_t)mf_json_int_or_0(v, "layer"),
                            .heads = (int32_t)heads,
                            .gate = floats(arena, gate, heads),
                            .active = floats(arena, mf_json_get(v, "active"), heads),
                            .entropy = floats(arena, mf_json_get(v, "entropy"), heads),
                            .grad_norm = floats(arena, mf_json_get(v, "grad_norm"), heads),
                            .importance = floats(arena, mf_json_get(v, "importance"), heads)};
    }
    r->heads = out;
    r->n_head_layers = (int)n;
    return true;
}

static bool read_tasks(mf_arena *arena, const mf_json *object, mf_metrics_record *r)
{
    const size_t n = mf_json_typeof(object) == MF_JSON_OBJECT ? mf_json_size(object) : 0;
    mf_task_score *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    const char *key;
    const mf_json *v;
    for (size_t i = 0; out != NULL && i < n && mf_json_member(object, i, &key, &v); i++) {
        const char *task = copy(arena, mf_json_get(v, "task"));
        out[i] = (mf_task_score){.name = mf_arena_strdup(arena, key),
                                 .number = task != NULL && strcmp(task, "regress") == 0,
                                 .weight = mf_json_real_or_nan(v, "weight"),
                                 .loss = mf_json_real_or_nan(v, "loss"),
                                 .rows = mf_json_int_or_0(v, "rows"),
                                 .accuracy = mf_json_real_or_nan(v, "accuracy"),
                                 .macro_f1 = mf_json_real_or_nan(v, "macro_f1"),
                                 .mse = mf_json_real_or_nan(v, "mse"),
                                 .pearson = mf_json_real_or_nan(v, "pearson"),
                                 .spearman = mf_json_real_or_nan(v, "spearman")};
        if (out[i].name == NULL || task == NULL) return false;
        r->n_tasks = (int)i + 1;
    }
    r->tasks = out;
    return out != NULL;
}

static bool read_controllers(mf_arena *arena, const mf_json *object, mf_metrics_record *r)
{
    const size_t n = mf_json_typeof(object) == MF_JSON_OBJECT ? mf_json_size(object) : 0;
    mf_controller_record *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    const char *key;
    const mf_json *value;
    for (size_t i = 0; out != NULL && i < n && mf_json_member(object, i, &key, &value); i++) {
        out[i].name = mf_arena_strdup(arena, key);
        out[i].values = values(arena, value, &out[i].n);
        if (out[i].name == NULL || out[i].values == NULL) return false;
        r->n_controllers = (int)i + 1;
    }
    r->controllers = out;
    return out != NULL;
}

static bool read_turns(mf_arena *arena, const mf_json *array, mf_metrics_record *r)
{
    const size_t n = mf_json_typeof(array) == MF_JSON_ARRAY ? mf_json_size(array) : 0;
    mf_change *out = mf_arena_alloc(arena, (n + 1) * sizeof *out);
    for (size_t i = 0; out != NULL && i < n; i++) {
        const mf_json *v = mf_json_at(array, i);
        out[i] = (mf_change){.step = mf_json_int_or_0(v, "step"),
                             .option = copy(arena, mf_json_get(v, "option")),
                             .by = copy(arena, mf_json_get(v, "by")),
                             .reason = copy(arena, mf_json_get(v, "reason")),
                             .from = mf_json_real_or_nan(v, "from"),
                             .to = mf_json_real_or_nan(v, "to")};
        if (out[i].option == NULL || out[i].by == NULL || out[i].reason == NULL) return false;
        r->n_turns = (int)i + 1;
    }
    r->turns = out;
    return out != NULL;
}

static void read_curve(const mf_json *v, mf_metrics_curve *c)
{
    c->batches = mf_json_int_or_0(v, "curve_batches");
    c->tokens = mf_json_int_or_0(v, "curve_tokens");
    c->loss = mf_json_real_or_nan(v, "curve_loss");
    c->task_loss = mf_json_real_or_nan(v, "curve_task_loss");
    c->ppl = mf_json_real_or_nan(v, "curve_ppl");
    c->bits_per_byte = mf_json_real_or_nan(v, "curve_bits_per_byte");
    c->accuracy = mf_json_real_or_nan(v, "curve_accuracy");
    c->macro_f1 = mf_json_real_or_nan(v, "curve_macro_f1");
    c->mse = mf_json_real_or_nan(v, "curve_mse");
    c->pearson = mf_json_real_or_nan(v, "curve_pearson");
    c->spearman = mf_json_real_or_nan(v, "curve_spearman");
}

void mf_metrics_read_quality(const mf_json *line, mf_metrics_record *ret)
{
    mf_metrics_record_init(ret);
    ret->split = "val";
    ret->step = mf_json_int_or_0(line, "step");
    ret->tokens = mf_json_int_or_0(line, "tokens");
    ret->batches = mf_json_int_or_0(line, "batches");
    mf_json_bool(mf_json_get(line, "final"), &ret->final);
    ret->loss = mf_json_real_or_nan(line, "loss");
    ret->task_loss = mf_json_real_or_nan(line, "task_loss");
    ret->accuracy = mf_json_real_or_nan(line, "accuracy");
    read_curve(line, &ret->curve);
}

/* Reads a record. Returns false if there is not enough memory. */
static bool read_record(mf_arena *arena, const mf_json *v, mf_metrics_record *r)
{
    const mf_json *heads = mf_json_get(v, "heads");
    mf_metrics_record_init(r);
    r->step = mf_json_int_or_0(v, "step");
    r->split = copy(arena, mf_json_get(v, "split"));
    r->loss = mf_json_real_or_nan(v, "loss");
    r->task_loss = mf_json_real_or_nan(v, "task_loss");
    r->lr = mf_json_real_or_nan(v, "lr");
    r->grad_norm = mf_json_real_or_nan(v, "grad_norm");
    r->tokens = mf_json_int_or_0(v, "tokens");
    r->batches = mf_json_int_or_0(v, "batches");
    mf_json_bool(mf_json_get(v, "final"), &r->final);
    r->tokens_per_s = mf_json_real_or_nan(v, "tokens_per_s");
    r->wall_s = mf_json_real_or_nan(v, "wall_s");
    r->ppl = mf_json_real_or_nan(v, "ppl");
    r->ppl_batch_mean = mf_json_real_or_nan(v, "ppl_batch_mean");
    r->bits_per_byte = mf_json_real_or_nan(v, "bits_per_byte");
    r->accuracy = mf_json_real_or_nan(v, "accuracy");
    r->macro_f1 = mf_json_real_or_nan(v, "macro_f1");
    r->mse = mf_json_real_or_nan(v, "mse");
    r->pearson = mf_json_real_or_nan(v, "pearson");
    r->spearman = mf_json_real_or_nan(v, "spearman");
    r->train_loss = mf_json_real_or_nan(v, "train_loss");
    r->train_accuracy = mf_json_real_or_nan(v, "train_accuracy");
    r->gap_loss = mf_json_real_or_nan(v, "gap_loss");
    r->gap_accuracy = mf_json_real_or_nan(v, "gap_accuracy");
    /* before 0.3 this number had the key drop_rate, which now is another number of a layer */
    r->dropped_per_token = mf_json_real_or_nan(
        v, mf_json_get(v, "dropped_per_token") ? "dropped_per_token" : "drop_rate");
    r->reassigned = mf_json_real_or_nan(v, "reassigned");
    r->floor = mf_json_real_or_nan(v, "floor");
    read_curve(v, &r->curve);
    r->heads_active = mf_json_int_or_0(heads, "active");
    r->heads_total = mf_json_int_or_0(heads, "total");
    r->params_active = mf_json_int_or_0(mf_json_get(v, "efficiency"), "params_active");
    r->regularizers = values(arena, mf_json_get(v, "regularizers"), &r->n_regularizers);
    r->metrics = values(arena, mf_json_get(v, "plugin_metrics"), &r->n_metrics);
    return r->split != NULL && r->regularizers != NULL && r->metrics != NULL &&
           read_tasks(arena, mf_json_get(v, "tasks"), r) &&
           read_controllers(arena, mf_json_get(v, "controllers"), r) &&
           read_layers(arena, mf_json_get(v, "moe"), r) &&
           read_heads(arena, mf_json_get(heads, "layers"), r) &&
           read_turns(arena, mf_json_get(v, "turns"), r);
}

static int add_line(void *arg, const mf_json *v, bool *ret_damaged)
{
    reader *rd = arg;
    mf_metrics_history *h = rd->h;
    if (mf_json_typeof(mf_json_get(v, "step")) != MF_JSON_INT ||
        mf_json_typeof(mf_json_get(v, "split")) != MF_JSON_STRING) {
        *ret_damaged = true;
        return MF_OK;
    }
    if ((size_t)h->n == rd->room) {
        const size_t room = rd->room > 0 ? 2 * rd->room : 256;
        mf_metrics_record *larger =
            mf_realloc(h->records, rd->room * sizeof *larger, room * sizeof *larger);
        if (larger == NULL) return MF_ENOMEM;
        h->records = larger;
        rd->room = room;
    }
    if (!read_record(h->arena, v, &h->records[h->n])) return MF_ENOMEM;
    h->n++;
    return MF_OK;
}

int mf_metrics_read(const char *path, mf_metrics_history **ret)
{
    *ret = NULL;
    mf_metrics_history *h = mf_alloc(1, sizeof *h);
    if (h == NULL) return MF_ENOMEM;
    reader rd = {h, 0};
    h->arena = mf_arena_new();
    int rc = h->arena != NULL ? mf_step_file_read(path, add_line, &rd, &h->damage) : MF_ENOMEM;
    if (rc == MF_ENOTFOUND) rc = mf_fail(MF_EINPUT, "%s: no such file", path);
    if (rc == MF_OK)
        *ret = h;
    else
        mf_metrics_history_free(h);
    return rc;
}

void mf_metrics_history_free(mf_metrics_history *h)
{
    if (h == NULL) return;
    mf_free(h->records);
    mf_arena_free(h->arena);
    mf_free(h);
}
