/* lab/trace/trace_import.c: reads answers of inference engines, and writes their routes as a
 * trace. Every id is checked here, since a wrong one would train other experts in silence. */
#include "lab/trace/trace_import.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "data/tokenizer/tokenizer.h"
#include "io/base64.h"
#include "io/json.h"
#include "lab/trace/npy.h"
#include "run/sample/trace.h"

/* One sequence: its tokens, and the experts of rows first .. first + rows - 1. */
typedef struct routed {
    mf_ids ids;
    int32_t *chosen; /* [ids.n, n_moe, k_most], -1: none */
} routed;

typedef struct importer {
    mf_routes_from from;
    const char *path;
    const mf_model *model;
    int32_t k; /* of all layers */
    int64_t step;
    routed *all;
    size_t n, cap, longest;
    char where[512]; /* file and line */
} importer;

static int wrong(const importer *x, const char *what)
{
    return mf_fail(MF_EINPUT, "%s: expected %s", x->where, what);
}

/* ---- arrays ---- */

/* Appends the numbers of nested lists; sets the shape by the first element of each axis. */
static int flatten(const importer *x, const mf_json *v, int axis, mf_npy *a, size_t *cap)
{
    int64_t value;
    const size_t n = mf_json_size(v);
    if (mf_json_typeof(v) != MF_JSON_ARRAY) {
        if (axis != a->rank || !mf_json_int(v, &value) || value < INT32_MIN ||
            value > INT32_MAX)
            return wrong(x, "lists of whole numbers, all of the same depth");
        if (a->count == *cap) {
            const size_t more = 2 * *cap + 1024;
            int32_t *data = mf_realloc(a->data, *cap * sizeof *data, more * sizeof *data);
            if (!data) return MF_ENOMEM;
            a->data = data;
            *cap = more;
        }
        a->data[a->count++] = (int32_t)value;
        return MF_OK;
    }
    if (axis == MF_NPY_RANK_MAX) return wrong(x, "lists of at most 4 axes");
    if (axis == a->rank && a->count == 0) a->shape[a->rank++] = (int64_t)n;
    if (axis >= a->rank || a->shape[axis] != (int64_t)n)
        return wrong(x, "lists of the same length");
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < n; i++)
        rc = flatten(x, mf_json_at(v, i), axis + 1, a, cap);
    return rc;
}

/* An array in any of its forms. Raw int32 has rank 1. */
static int read_array(const importer *x, const mf_json *v, mf_npy *ret)
{
    size_t n, size = 0, cap = 0;
    char *bytes = NULL;
    const char *text = mf_json_string(v, &n);
    *ret = (mf_npy){0};
    if (!text && mf_json_typeof(v) == MF_JSON_ARRAY) return flatten(x, v, 0, ret, &cap);
    if (!text)
        return wrong(x,
                     "routes (an array), found none: the engine must be told to return them");
    int rc = mf_base64_read(x->where, text, n, &bytes, &size);
    if (rc == MF_OK)
        rc = x->from == MF_ROUTES_SGLANG && (size == 0 || bytes[0] != '\x93')
                 ? mf_npy_read_raw(x->where, bytes, size, ret)
                 : mf_npy_read(x->where, bytes, size, ret);
    mf_free(bytes);
    return rc;
}

/* ---- rows ---- */

static int judge_row(const importer *x, size_t token, int i, const int32_t *e)
{
    const mf_moe_layer *l = &x->model->moe[i];
    bool zeros = x->k > 1;
    for (int32_t a = 0; a < x->k; a++)
        zeros = zeros && e[a] == 0;
    if (zeros)
        return mf_fail(
            MF_EINPUT,
            "%s: token %zu, layer %d: all experts are 0: the engine did not record it",
            x->where, token, (int)l->layer);
    for (int32_t a = 0; a < x->k; a++) {
        if (e[a] < 0 || e[a] >= l->config.experts)
            return mf_fail(MF_EINPUT, "%s: token %zu, layer %d: expert %d; expected 0 to %d",
                           x->where, token, (int)l->layer, (int)e[a],
                           (int)l->config.experts - 1);
        for (int32_t b = 0; b < a; b++)
            if (e[a] == e[b])
                return mf_fail(MF_EINPUT, "%s: token %zu, layer %d: expert %d twice", x->where,
                               token, (int)l->layer, (int)e[a]);
    }
    return MF_OK;
}

/* Puts an array at token `first` of a sequence. */
static int put_rows(const importer *x, routed *r, const mf_npy *a, size_t first)
{
    const mf_model *m = x->model;
    const int64_t all = m->config->model.layers, n_moe = m->n_moe, k = x->k;
    const bool raw = a->rank == 1;
    const int64_t layers = x->from == MF_ROUTES_MEGATRON                  ? n_moe
                           : !raw && a->rank == 3 && a->shape[1] == n_moe ? n_moe
                                                                          : all;
    const int64_t rows = raw ? (int64_t)a->count / (layers * k) : a->shape[0];
    if ((raw && (int64_t)a->count % (layers * k) != 0) ||
        (!raw && (a->rank != 3 || a->shape[1] != layers || a->shape[2] != k)))
        return mf_fail(MF_EINPUT,
                       "%s: expected routes of [tokens, %lld layers, %lld experts], found "
                       "[%lld, %lld, %lld]",
                       x->where, (long long)layers, (long long)k, (long long)a->shape[0],
                       (long long)a->shape[1], (long long)a->shape[2]);
    if (first + (size_t)rows > r->ids.n)
        return mf_fail(MF_EINPUT, "%s: routes of tokens %zu to %zu, of %zu tokens", x->where,
                       first, first + (size_t)rows - 1, r->ids.n);
    int rc = MF_OK;
    for (int64_t t = 0; rc == MF_OK && t < rows; t++)
        for (int i = 0; rc == MF_OK && i < n_moe; i++) {
            const int64_t row = layers == n_moe ? i : m->moe[i].layer;
            const int32_t *e = a->data + (t * layers + row) * k;
            rc = judge_row(x, first + (size_t)t, i, e);
            memcpy(r->chosen + (((int64_t)first + t) * n_moe + i) * k, e,
                   (size_t)k * sizeof *e);
        }
    return rc;
}

static int add_array(const importer *x, routed *r, const mf_json *v, size_t first,
                     size_t *ret_rows)
{
    mf_npy a;
    int rc = read_array(x, v, &a);
    if (rc == MF_OK) rc = put_rows(x, r, &a, first);
    if (ret_rows) *ret_rows = a.rank > 1 ? (size_t)a.shape[0] : 0;
    mf_free(a.data);
    return rc;
}

static int add_ids(const importer *x, routed *r, const mf_json *list, const char *name)
{
    const int32_t vocab = x->model->dims.vocab;
    int rc = MF_OK;
    if (mf_json_typeof(list) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "%s: expected \"%s\", a list of ids", x->where, name);
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
        int64_t id;
        if (!mf_json_int(mf_json_at(list, i), &id) || id < 0 || id >= vocab)
            return mf_fail(MF_EINPUT, "%s: \"%s\": entry %zu: expected an id from 0 to %d",
                           x->where, name, i, (int)vocab - 1);
        rc = mf_ids_push(&r->ids, (int32_t)id, 0);
    }
    return rc;
}

static const mf_json *either(const mf_json *a, const mf_json *b, const char *key)
{
    const mf_json *v = mf_json_get(a, key);
    return mf_json_typeof(v) != MF_JSON_NULL ? v : mf_json_get(b, key);
}

/* The fields of a sequence: the ids of its two parts and their arrays. */
static int take(importer *x, const char *ids[2], const mf_json *lists[2], const mf_json *front,
                const mf_json *rest, int64_t start)
{
    if (x->n == x->cap) {
        const size_t cap = 2 * x->cap + 64;
        routed *all = mf_realloc(x->all, x->cap * sizeof *all, cap * sizeof *all);
        if (!all) return MF_ENOMEM;
        x->all = all;
        x->cap = cap;
    }
    routed *r = &x->all[x->n++];
    *r = (routed){0};
    size_t rows = 0;
    int rc = add_ids(x, r, lists[0], ids[0]);
    if (rc == MF_OK) rc = add_ids(x, r, lists[1], ids[1]);
    if (rc == MF_OK && r->ids.n == 0) rc = wrong(x, "tokens");
    if (rc != MF_OK) return rc;
    const size_t n = r->ids.n * (size_t)x->model->n_moe * (size_t)x->k;
    r->chosen = mf_alloc(n, sizeof *r->chosen);
    if (!r->chosen) return MF_ENOMEM;
    memset(r->chosen, 0xff, n * sizeof *r->chosen);
    if (start < 0 || start > INT32_MAX) return wrong(x, "a start of at least 0");
    if (r->ids.n > x->longest) x->longest = r->ids.n;
    const bool two = mf_json_typeof(front) != MF_JSON_NULL;
    if (two) rc = add_array(x, r, front, 0, &rows);
    return rc == MF_OK ? add_array(x, r, rest, two ? rows : (size_t)start, NULL) : rc;
}

static int take_vllm(importer *x, const mf_json *v)
{
    const char *ids[2] = {"prompt_token_ids", "token_ids"};
    const mf_json *choices = mf_json_get(v, "choices");
    int rc = MF_OK;
    if (mf_json_typeof(choices) != MF_JSON_ARRAY || mf_json_size(choices) == 0)
        return wrong(x, "\"choices\", a list");
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(choices); i++) {
        const mf_json *c = mf_json_at(choices, i);
        const mf_json *lists[2] = {either(c, v, ids[0]), mf_json_get(c, ids[1])};
        int64_t start = 0;
        (void)mf_json_int(either(c, v, "routed_experts_prompt_start"), &start);
        rc = take(x, ids, lists, either(c, v, "prompt_routed_experts"),
                  mf_json_get(c, "routed_experts"), start);
    }
    return rc;
}

static int take_line(importer *x, const mf_json *v)
{
    const char *sglang[2] = {"input_ids", "output_ids"},
               *megatron[2] = {"prompt_tokens", "generated_tokens"};
    if (x->from == MF_ROUTES_VLLM) return take_vllm(x, v);
    const bool sg = x->from == MF_ROUTES_SGLANG;
    const char **ids = sg ? sglang : megatron;
    const mf_json *lists[2] = {mf_json_get(v, ids[0]), mf_json_get(v, ids[1])};
    return sg ? take(x, ids, lists, NULL,
                     mf_json_get(mf_json_get(v, "meta_info"), "routed_experts"), 0)
              : take(x, ids, lists, mf_json_get(v, "prompt_moe_topk_indices"),
                     mf_json_get(v, "moe_topk_indices"), 0);
}

static int read_lines(importer *x, const char *text, size_t size)
{
    int line = 0, rc = MF_OK;
    for (size_t at = 0; rc == MF_OK && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - text) - at : size - at;
        mf_json *v = NULL;
        snprintf(x->where, sizeof x->where, "%s:%d", x->path, ++line);
        if (n > strspn(text + at, " \t\r")) {
            rc = mf_json_parse(x->where, text + at, n, &v);
            if (rc == MF_OK) rc = take_line(x, v);
            mf_json_free(v);
        }
        at += n + 1;
    }
    return rc == MF_OK && x->n == 0
               ? mf_fail(MF_EINPUT, "%s: expected answers, one a line, found none", x->path)
               : rc;
}

/* ---- the trace ---- */

static int describe(const importer *x, mf_st_writer *w, const char *run)
{
    const mf_model *m = x->model;
    char layers[16384], experts[16384], number[32];
    size_t at = 0, at_e = 0;
    static const char *const engines[] = {"vLLM", "SGLang", "Megatron"};
    layers[0] = experts[0] = '\0';
    for (int32_t i = 0; i < m->n_moe && at < sizeof layers - 32; i++) {
        at += (size_t)snprintf(layers + at, sizeof layers - at, "%s%d", i ? "," : "",
                               (int)m->moe[i].layer);
        at_e += (size_t)snprintf(experts + at_e, sizeof experts - at_e, "%s%lld", i ? "," : "",
                                 (long long)m->moe[i].config.experts);
    }
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"step", x->step},
                   {"seed", 0},
                   {"batches", (int64_t)x->n},
                   {"rows", 1},
                   {"seq", (int64_t)x->longest},
                   {"first_batch", 0},
                   {"last_batch", (int64_t)x->n - 1},
                   {"vocab", m->dims.vocab},
                   {"top_k", x->k}};
    const struct {
        const char *key, *value;
    } texts[] = {{"format", MF_TRACE_FORMAT},
                 {"version", MF_TRACE_VERSION},
                 {"program", engines[x->from]},
                 {"run", run},
                 {"split", "import"},
                 {"forced", ""},
                 {"router", ""},
                 {"targets", "token"},
                 {"reach", "sequence"},
                 {"kernels", ""},
                 {"task_loss", "nan"},
                 {"layers", layers},
                 {"experts_by_layer", experts}};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(number, sizeof number, "%lld", (long long)numbers[i].value);
        rc = mf_st_writer_meta(w, numbers[i].key, number);
    }
    for (size_t i = 0; rc == MF_OK && i < sizeof texts / sizeof *texts; i++)
        rc = mf_st_writer_meta(w, texts[i].key, texts[i].value);
    return rc;
}

enum { TOKEN, TARGET, POSITION, SEQUENCE, FIELDS };
static const char *const fields[] = {"token", "target", "position", "sequence"};

/* Element `which` of a token: i of sequence s; beyond its end is padding. */
static int32_t field_of(const importer *x, int which, size_t s, size_t i)
{
    const mf_ids *ids = &x->all[s].ids;
    if (which == SEQUENCE) return (int32_t)s;
    if (which == POSITION) return (int32_t)i;
    if (which == TARGET) return i + 1 < ids->n ? ids->id[i + 1] : -1;
    return i < ids->n ? ids->id[i] : -1;
}

/* Writes tensor `which`: a field, or the chosen experts of layer which - FIELDS. */
static int put_tensor(const importer *x, mf_st_writer *w, size_t which)
{
    const size_t k = (size_t)x->k, n_moe = (size_t)x->model->n_moe;
    const size_t width = which < FIELDS ? 1 : k;
    int32_t *row = mf_alloc(x->longest * width, sizeof *row);
    int rc = row ? MF_OK : MF_ENOMEM;
    for (size_t s = 0; rc == MF_OK && s < x->n; s++) {
        for (size_t i = 0; i < x->longest * width; i++) {
            const size_t t = i / width;
            row[i] = which < FIELDS ? field_of(x, (int)which, s, t)
                     : t < x->all[s].ids.n
                         ? x->all[s].chosen[(t * n_moe + which - FIELDS) * k + i % width]
                         : -1;
        }
        rc = mf_st_writer_put(w, row, x->longest * width * sizeof *row);
    }
    mf_free(row);
    return rc;
}

static int write_trace(const importer *x, const char *run, const char *out)
{
    mf_st_writer *w = mf_st_writer_new();
    const int64_t shape[2] = {(int64_t)(x->n * x->longest), x->k};
    char name[64];
    size_t which;
    int rc = w ? describe(x, w, run) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < FIELDS; i++)
        rc = mf_st_writer_add(w, fields[i], MF_ST_I32, 1, shape);
    for (int i = 0; rc == MF_OK && i < x->model->n_moe; i++) {
        snprintf(name, sizeof name, "layers.%d.chosen", (int)x->model->moe[i].layer);
        rc = mf_st_writer_add(w, name, MF_ST_I32, 2, shape);
    }
    if (rc == MF_OK) rc = mf_st_writer_begin(w, out);
    while (rc == MF_OK && mf_st_writer_due(w, &which))
        rc = put_tensor(x, w, which);
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    return rc;
}

static void count(const importer *x, mf_imported_routes *ret)
{
    *ret = (mf_imported_routes){.sequences = (int64_t)x->n};
    for (size_t s = 0; s < x->n; s++) {
        ret->tokens += (int64_t)x->all[s].ids.n;
        for (size_t t = 0; t < x->all[s].ids.n; t++)
            ret->recorded += x->all[s].chosen[t * (size_t)x->model->n_moe * (size_t)x->k] >= 0;
    }
}

int mf_trace_import(mf_routes_from from, const char *path, const mf_model *m, const char *run,
                    int64_t step, const char *out, mf_imported_routes *ret)
{
    importer x = {.from = from, .path = path, .model = m, .step = step};
    char *text = NULL;
    size_t size = 0;
    if (m->n_moe == 0) return mf_fail(MF_EUSAGE, "%s: expected a run with experts", run);
    x.k = (int32_t)m->moe[0].config.top_k;
    for (int i = 1; i < m->n_moe; i++)
        if (m->moe[i].config.top_k != x.k)
            return mf_fail(MF_EINPUT, "%s: expected the same moe.top_k in all layers", run);
    int rc = mf_read_input(path, 0, &text, &size);
    if (rc == MF_OK) rc = read_lines(&x, text, size);
    if (rc == MF_OK && (int64_t)x.n > INT32_MAX / (int64_t)x.longest)
        rc = mf_fail(MF_EINPUT, "%s: more tokens than a trace can hold", path);
    if (rc == MF_OK) rc = write_trace(&x, run, out);
    if (rc == MF_OK) count(&x, ret);
    for (size_t i = 0; i < x.n; i++) {
        mf_ids_free(&x.all[i].ids);
        mf_free(x.all[i].chosen);
    }
    mf_free(x.all);
    mf_free(text);
    return rc;
}
