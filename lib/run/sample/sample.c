/* run/sample/sample.c: writes and reads samples of routing as JSON, and lists the samples of
 * a run. A file that is not JSON is an error. A member of wrong type or size counts
 * as missing. */
#include "run/sample/sample.h"

#include "base/error.h"
#include "base/file/io.h"
#include "io/json.h"
#include "base/mem.h"
#include "base/text/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_MAX (64 << 20) /* largest size of the file in bytes */

/* ---- writing ---- */

static void put_strings(mf_jw *w, const char *key, int n, const char *const *texts)
{
    if (texts == NULL) return;
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int i = 0; i < n; i++)
        mf_jw_string(w, texts[i]);
    mf_jw_end(w);
}

static void put_prob(mf_jw *w, const mf_sample *s, const mf_sample_layer *l)
{
    mf_jw_key(w, "prob");
    if (l->prob == NULL) {
        mf_jw_null(w);
        return;
    }
    mf_jw_array(w);
    for (int t = 0; t < s->n_tokens; t++) {
        mf_jw_array(w);
        for (int e = 0; e < l->experts; e++)
            mf_jw_float(w, l->prob[t * l->experts + e]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_chosen(mf_jw *w, const mf_sample *s, const mf_sample_layer *l)
{
    if (l->chosen == NULL) return;
    mf_jw_key(w, "chosen");
    mf_jw_array(w);
    for (int t = 0; t < s->n_tokens; t++) {
        mf_jw_array(w);
        for (int k = 0; k < l->top_k; k++)
            mf_jw_int(w, l->chosen[t * l->top_k + k]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_gate(mf_jw *w, const mf_sample *s, const mf_sample_layer *l)
{
    if (l->gate == NULL) return;
    mf_jw_key(w, "gate");
    mf_jw_array(w);
    for (int t = 0; t < s->n_tokens; t++) {
        mf_jw_array(w);
        for (int k = 0; k < l->top_k; k++)
            mf_jw_float(w, l->gate[t * l->top_k + k]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_by_label(mf_jw *w, const mf_sample *s, const mf_sample_layer *l)
{
    if (l->by_label == NULL) return;
    mf_jw_key(w, "by_label");
    mf_jw_array(w);
    for (int e = 0; e < l->experts; e++) {
        mf_jw_array(w);
        for (int i = 0; i < s->n_labels; i++)
            mf_jw_real(w, l->by_label[e * s->n_labels + i]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_attention(mf_jw *w, const mf_sample *s)
{
    if (s->n_heads == 0) return;
    mf_jw_key(w, "attention_weights");
    mf_jw_object(w);
    mf_jw_kv_int(w, "tokens", s->n_seen);
    mf_jw_key(w, "heads");
    mf_jw_array(w);
    for (int i = 0; i < s->n_heads; i++) {
        const mf_sample_head *h = &s->heads[i];
        mf_jw_object(w);
        mf_jw_kv_int(w, "layer", h->layer);
        if (h->expert >= 0) mf_jw_kv_int(w, "expert", h->expert);
        mf_jw_kv_int(w, "head", h->head);
        mf_jw_key(w, "prob");
        mf_jw_array(w);
        for (int t = 0; t < s->n_seen; t++) {
            mf_jw_array(w);
            for (int u = 0; u < s->n_seen; u++)
                mf_jw_float(w, h->prob[t * s->n_seen + u]);
            mf_jw_end(w);
        }
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

static void put_sample(mf_jw *w, const mf_sample *s)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", s->step);
    if (s->evaluation > 0) {
        mf_jw_kv_int(w, "evaluation", s->evaluation);
        mf_jw_kv_int(w, "evaluations", s->evaluations);
    }
    put_strings(w, "labels", s->n_labels, s->labels);
    put_strings(w, "tokens", s->n_tokens, s->tokens);
    if (s->token_labels != NULL) {
        mf_jw_key(w, "token_labels");
        mf_jw_array(w);
        for (int t = 0; t < s->n_tokens; t++)
            mf_jw_int(w, s->token_labels[t]);
        mf_jw_end(w);
    }
    mf_jw_key(w, "layers");
    mf_jw_array(w);
    for (int i = 0; i < s->n_layers; i++) {
        const mf_sample_layer *l = &s->layers[i];
        mf_jw_object(w);
        mf_jw_kv_int(w, "layer", l->layer);
        mf_jw_kv_int(w, "experts", l->experts);
        mf_jw_kv_int(w, "top_k", l->top_k);
        put_prob(w, s, l);
        put_chosen(w, s, l);
        put_gate(w, s, l);
        put_by_label(w, s, l);
        if (!isnan(l->nmi)) mf_jw_kv_real(w, "nmi", l->nmi);
        if (!isnan(l->nmi_random)) mf_jw_kv_real(w, "nmi_random", l->nmi_random);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    put_attention(w, s);
    mf_jw_end(w);
}

int mf_sample_write(const char *path, const mf_sample *s)
{
    size_t n;
    mf_jw *w = mf_jw_new();
    if (w == NULL) return MF_ENOMEM;
    put_sample(w, s);
    const char *text = mf_jw_text(w, &n);
    int rc = text != NULL ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    return rc;
}

/* ---- reading ---- */

/* Types of the elements of a table that is read from an array of arrays. */
typedef enum element { FLOATS, DOUBLES, INTS } element;

static void *read_matrix(mf_arena *arena, const mf_json *rows, int n, int m, element kind)
{
    static const size_t bytes[] = {sizeof(float), sizeof(double), sizeof(int32_t)};
    if (mf_json_typeof(rows) != MF_JSON_ARRAY || mf_json_size(rows) != (size_t)n || m <= 0)
        return NULL;
    char *out = mf_arena_alloc(arena, ((size_t)n * (size_t)m + 1) * bytes[kind]);
    for (int i = 0; out != NULL && i < n; i++) {
        const mf_json *row = mf_json_at(rows, (size_t)i);
        if (mf_json_typeof(row) != MF_JSON_ARRAY || mf_json_size(row) != (size_t)m) return NULL;
        for (int j = 0; j < m; j++) {
            double v;
            const int at = i * m + j;
            if (!mf_json_real(mf_json_at(row, (size_t)j), &v)) v = kind == INTS ? -1 : NAN;
            if (kind == FLOATS)
                ((float *)out)[at] = (float)v;
            else if (kind == DOUBLES)
                ((double *)out)[at] = v;
            else
                ((int32_t *)out)[at] = v >= -1 && v < 1e6 ? (int32_t)v : -1;
        }
    }
    return out;
}

static const char *const *read_strings(mf_arena *arena, const mf_json *array, int *ret_n)
{
    const size_t n = mf_json_typeof(array) == MF_JSON_ARRAY ? mf_json_size(array) : 0;
    *ret_n = 0;
    if (n == 0 || n > 100000) return NULL;
    const char **out = mf_arena_alloc(arena, n * sizeof *out);
    for (size_t i = 0; out != NULL && i < n; i++) {
        const char *text = mf_json_string(mf_json_at(array, i), NULL);
        out[i] = mf_arena_strdup(arena, text != NULL ? text : "");
        if (out[i] == NULL) return NULL;
    }
    if (out != NULL) *ret_n = (int)n;
    return out;
}

static int small_int(const mf_json *object, const char *key)
{
    int64_t v;
    return mf_json_int(mf_json_get(object, key), &v) && v >= 0 && v <= 4096 ? (int)v : 0;
}

static int read_layers(mf_sample *s, const mf_json *array)
{
    const size_t n = mf_json_typeof(array) == MF_JSON_ARRAY ? mf_json_size(array) : 0;
    mf_sample_layer *layers = mf_arena_alloc(s->arena, (n + 1) * sizeof *layers);
    if (layers == NULL) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const mf_json *v = mf_json_at(array, i);
        mf_sample_layer *l = &layers[i];
        l->layer = small_int(v, "layer");
        l->experts = small_int(v, "experts");
        l->top_k = small_int(v, "top_k");
        l->prob =
            read_matrix(s->arena, mf_json_get(v, "prob"), s->n_tokens, l->experts, FLOATS);
        int32_t *chosen =
            read_matrix(s->arena, mf_json_get(v, "chosen"), s->n_tokens, l->top_k, INTS);
        l->chosen = chosen;
        for (int64_t k = 0; chosen && k < (int64_t)s->n_tokens * l->top_k; k++)
            if (chosen[k] >= l->experts) chosen[k] = -1;
        l->gate = read_matrix(s->arena, mf_json_get(v, "gate"), s->n_tokens, l->top_k, FLOATS);
        l->by_label =
            read_matrix(s->arena, mf_json_get(v, "by_label"), l->experts, s->n_labels, DOUBLES);
        l->nmi = mf_json_real_or_nan(v, "nmi");
        l->nmi_random = mf_json_real_or_nan(v, "nmi_random");
    }
    s->layers = layers;
    s->n_layers = (int)n;
    return MF_OK;
}

static int read_attention(mf_sample *s, const mf_json *v)
{
    const mf_json *array = mf_json_get(v, "heads");
    const size_t n = mf_json_typeof(array) == MF_JSON_ARRAY ? mf_json_size(array) : 0;
    mf_sample_head *heads = mf_arena_alloc(s->arena, (n + 1) * sizeof *heads);
    if (heads == NULL) return MF_ENOMEM;
    s->n_seen = small_int(v, "tokens");
    if (s->n_seen > s->n_tokens) return MF_OK; /* damaged: there are too few tokens */
    for (size_t i = 0; i < n; i++) {
        const mf_json *h = mf_json_at(array, i);
        const float *prob =
            read_matrix(s->arena, mf_json_get(h, "prob"), s->n_seen, s->n_seen, FLOATS);
        if (prob == NULL) continue;
        const bool of_expert = mf_json_get(h, "expert") != NULL;
        heads[s->n_heads++] = (mf_sample_head){small_int(h, "layer"), small_int(h, "head"),
                                               of_expert ? small_int(h, "expert") : -1, prob};
    }
    s->heads = heads;
    return MF_OK;
}

static int read_sample(mf_sample *s, const mf_json *v)
{
    const mf_json *labels = mf_json_get(v, "token_labels");
    s->step = mf_json_int_or_0(v, "step");
    s->evaluation = mf_json_int_or_0(v, "evaluation");
    s->evaluations = mf_json_int_or_0(v, "evaluations");
    s->labels = read_strings(s->arena, mf_json_get(v, "labels"), &s->n_labels);
    s->tokens = read_strings(s->arena, mf_json_get(v, "tokens"), &s->n_tokens);
    if (mf_json_typeof(labels) == MF_JSON_ARRAY && (int)mf_json_size(labels) == s->n_tokens) {
        int32_t *out = mf_arena_alloc(s->arena, ((size_t)s->n_tokens + 1) * sizeof *out);
        if (out == NULL) return MF_ENOMEM;
        for (int t = 0; t < s->n_tokens; t++) {
            int64_t x;
            out[t] = mf_json_int(mf_json_at(labels, (size_t)t), &x) && x >= 0 && x < s->n_labels
                         ? (int32_t)x
                         : -1;
        }
        s->token_labels = out;
    }
    int rc = read_attention(s, mf_json_get(v, "attention_weights"));
    return rc == MF_OK ? read_layers(s, mf_json_get(v, "layers")) : rc;
}

int mf_sample_read(const char *path, mf_sample **ret)
{
    char *text;
    size_t size;
    mf_json *v = NULL;
    *ret = NULL;
    int rc = mf_read_file(path, SAMPLE_MAX, &text, &size);
    if (rc != MF_OK) return rc;
    rc = mf_json_parse(path, text, size, &v);
    mf_free(text);
    if (rc != MF_OK) return rc;
    mf_sample *s = mf_alloc(1, sizeof *s);
    if (s != NULL) s->arena = mf_arena_new();
    rc = s != NULL && s->arena != NULL ? read_sample(s, v) : MF_ENOMEM;
    mf_json_free(v);
    if (rc == MF_OK)
        *ret = s;
    else
        mf_sample_free(s);
    return rc;
}

void mf_sample_free(mf_sample *s)
{
    if (s == NULL) return;
    mf_arena *arena = s->arena;
    mf_arena_free(arena);
    mf_free(s);
}

/* ---- a folder of samples ---- */

char *mf_sample_path(const char *folder, int64_t step)
{
    return mf_strf("%s/step-%lld.json", folder, (long long)step);
}

static bool step_of(const char *name, int64_t *ret)
{
    char word[24];
    long long step;
    const size_t n = strlen(name);
    if (n < 11 || n - 10 >= sizeof word || strncmp(name, "step-", 5) != 0 ||
        strcmp(name + n - 5, ".json") != 0)
        return false;
    memcpy(word, name + 5, n - 10);
    word[n - 10] = '\0';
    if (!mf_parse_i64(word, &step) || step < 0) return false;
    *ret = step;
    return true;
}

static int rising(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int mf_sample_list(const char *folder, int64_t **ret_steps, int *ret_n)
{
    char **names;
    int n;
    *ret_steps = NULL;
    *ret_n = 0;
    if (!mf_is_dir(folder)) return MF_OK;
    int rc = mf_list_dir(folder, &names, &n);
    if (rc != MF_OK) return rc;
    int64_t *steps = mf_alloc((size_t)n + 1, sizeof *steps);
    for (int i = 0; steps != NULL && i < n; i++)
        *ret_n += step_of(names[i], &steps[*ret_n]);
    mf_list_free(names, n);
    if (steps == NULL) return MF_ENOMEM;
    qsort(steps, (size_t)*ret_n, sizeof *steps, rising);
    *ret_steps = steps;
    return MF_OK;
}
