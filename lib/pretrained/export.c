/* pretrained/export.c: writes a model folder from a run.
 *
 * Tensors that are not in parameters come from the record. Changes of adapters of linear layers
 * are added to the weights that are written. The run itself does not change. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "pretrained/adapters/lora.h"
#include "pretrained/beside.h"
#include "pretrained/checksums.h"
#include "pretrained/export_run.h"
#include "pretrained/import.h"
#include "pretrained/published/published.h"
#include "pretrained/weights/values.h"

typedef struct export
{
    mf_export_run run;
    const char *to; /* path of the new folder */
    const mf_export_options *options;
}
export;

/* A tensor as it is written. If a type is requested, a weight of few bits is written in plain
 * form, as one tensor instead of its parts. */
typedef struct written {
    char name[MF_ST_NAME_MAX], plain[MF_ST_NAME_MAX];
    mf_st_dtype dtype;
    int rank;
    const int64_t *shape;
} written;

/* Describes tensor i as it is written. Returns false if the tensor is not written. */
static bool written_of(const export *x, int64_t i, written *ret)
{
    const mf_place *p = &x->run.record->ledger.places[i];
    const mf_st_tensor *t = x->run.record->tensors[i];
    const bool typed = x->options->dtype && (p->param || p->form != MF_FORM_PLAIN);
    *ret = (written){
        .dtype = typed ? x->options->dtype : t->dtype, .rank = t->rank, .shape = t->shape};
    snprintf(ret->name, sizeof ret->name, "%s", t->name);
    if (!typed || p->form == MF_FORM_PLAIN) return true;
    if (!p->param) return false; /* another part of the weight */
    snprintf(ret->name, sizeof ret->name, "%s", mf_place_plain_name(p, t, ret->plain));
    ret->rank = p->shape_rank;
    ret->shape = p->shape;
    return true;
}

/* Whether weights of few bits are written in plain form. */
static bool unpacks(const export *x)
{
    for (int64_t i = 0; x->options->dtype && i < x->run.record->n; i++)
        if (!mf_form_has_numbers(x->run.record->ledger.places[i].form)) return true;
    return false;
}

/* ---- files ---- */

static bool is_ours(const char *name)
{
    return strcmp(name, MF_PRETRAINED_LEDGER) == 0 ||
           strcmp(name, MF_PRETRAINED_SKIPPED) == 0 || strcmp(name, MF_CHECKSUMS) == 0;
}

/* Writes the type of the weights into the text of a config.json. The key is torch_dtype or
 * dtype; if neither exists, nothing is written. */
static int name_type(mf_st_dtype dtype, char **data, size_t *size)
{
    static const char *const keys[] = {"\"torch_dtype\": \"", "\"dtype\": \"",
                                       "\"torch_dtype\":\""};
    const char *name = dtype == MF_ST_F32   ? "float32"
                       : dtype == MF_ST_F16 ? "float16"
                                            : "bfloat16";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *found = strstr(*data, keys[i]), *end;
        if (!found || !(end = strchr(found + strlen(keys[i]), '"'))) continue;
        char *text =
            mf_strf("%.*s%s%s", (int)(found + strlen(keys[i]) - *data), *data, name, end);
        if (!text) return MF_ENOMEM;
        mf_free(*data);
        *data = text;
        *size = strlen(text);
    }
    return MF_OK;
}

static uint64_t size_of_all(const export *x)
{
    uint64_t total = 0;
    written w;
    for (int64_t i = 0; i < x->run.record->n; i++) {
        uint64_t count = 1;
        if (!written_of(x, i, &w)) continue;
        for (int d = 0; d < w.rank; d++)
            count *= (uint64_t)w.shape[d];
        total += count * mf_st_dtype_size(w.dtype);
    }
    return total;
}

/* Returns the end of a value in a JSON text that was parsed successfully before. */
static const char *end_of_value(const char *at)
{
    int depth = 0;
    bool in_string = false;
    for (; *at; at++) {
        if (in_string) {
            if (*at == '\\' && at[1]) at++;
            in_string = *at != '"';
        } else if (*at == '"') {
            in_string = true;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (depth == 0) return at; /* end of the surrounding object */
            if (--depth == 0) return at + 1;
        } else if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return at;
}

/* Removes a key, which is in quotes, and its value from the text of a config.json. */
static int drop_key(const char *key, char **data, size_t *size)
{
    char *found = strstr(*data, key);
    const char *colon = found ? strchr(found + strlen(key), ':') : NULL;
    if (!colon) return MF_OK;
    const char *end = end_of_value(colon + 1 + strspn(colon + 1, " \t\r\n"));
    const size_t blanks = strspn(end, " \t\r\n");
    size_t before = (size_t)(found - *data);
    if (end[blanks] == ',') {
        end += blanks + 1;
        end += strspn(end, " \t\r\n");
    } else { /* it is the last key */
        while (before > 0 && strchr(" \t\r\n", (*data)[before - 1]))
            before--;
        if (before > 0 && (*data)[before - 1] == ',') before--;
    }
    char *text = mf_strf("%.*s%s", (int)before, *data, end);
    if (!text) return MF_ENOMEM;
    mf_free(*data);
    *data = text;
    *size = strlen(text);
    return MF_OK;
}

static int drop_packing(char **data, size_t *size)
{
    const int rc = drop_key("\"quantization_config\"", data, size);
    return rc == MF_OK ? drop_key("\"compression_config\"", data, size) : rc;
}

/* Whether the file only repeats quantization_config. */
static bool repeats_packing(const char *name)
{
    return strcmp(name, "quantize_config.json") == 0 || strcmp(name, "quant_config.json") == 0;
}

/* Makes an index of the tensors that are written. */
static int new_index(const export *x, char **data, size_t *size)
{
    const mf_record *r = x->run.record;
    mf_jw *w = mf_jw_new();
    written one;
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_key(w, "metadata");
    mf_jw_object(w);
    mf_jw_kv_int(w, "total_size", (int64_t)size_of_all(x));
    mf_jw_end(w);
    mf_jw_key(w, "weight_map");
    mf_jw_object(w);
    for (int64_t i = 0; i < r->n; i++)
        if (written_of(x, i, &one))
            mf_jw_kv_string(w, one.name, r->shards[r->shard_of[i]].file);
    mf_jw_end(w);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, size);
    char *copy = text ? mf_strdup(text) : NULL;
    mf_jw_free(w);
    if (!copy) return MF_ENOMEM;
    mf_free(*data);
    *data = copy;
    return MF_OK;
}

/* Writes the size of all tensors into the text of an index, if the index has this key. */
static int name_size(const export *x, char **data, size_t *size)
{
    static const char key[] = "\"total_size\": ";
    uint64_t total;
    char *found = strstr(*data, key);
    if (!found) return MF_OK;
    total = size_of_all(x);
    found += sizeof key - 1;
    char *text = mf_strf("%.*s%llu%s", (int)(found - *data), *data, (unsigned long long)total,
                         found + strspn(found, "0123456789."));
    if (!text) return MF_ENOMEM;
    mf_free(*data);
    *data = text;
    *size = strlen(text);
    return MF_OK;
}

/* Writes the small files that the record has in memory. */
static int write_files(const export *x)
{
    const mf_record *r = x->run.record;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < r->n_files; i++) {
        char *path = mf_path_join(x->to, r->files[i].name),
             *data = mf_memdup(r->files[i].text, r->files[i].n + 1);
        size_t size = r->files[i].n;
        rc = path && data ? MF_OK : MF_ENOMEM;
        if (rc == MF_OK && x->options->dtype && strcmp(r->files[i].name, MF_FOLDER_CONFIG) == 0)
            rc = name_type(x->options->dtype, &data, &size);
        if (rc == MF_OK) rc = mf_write_file_atomic(path, data, size);
        mf_free(data);
        mf_free(path);
    }
    return rc;
}

/* Copies a small file, with the changes that the types of the tensors ask for. plain: weights
 * of few bits are written as plain ones. */
static int copy_file(const export *x, const char *name, bool plain)
{
    char *data = NULL, *from = mf_path_join(x->run.record->folder, name),
         *to = mf_path_join(x->to, name);
    const bool config = strcmp(name, MF_FOLDER_CONFIG) == 0,
               index = strcmp(name, MF_FOLDER_INDEX) == 0;
    size_t size = 0;
    int rc = from && to ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && !mf_is_dir(from)) {
        rc = mf_read_file(from, 0, &data, &size);
        if (rc == MF_OK && x->options->dtype && config)
            rc = name_type(x->options->dtype, &data, &size);
        if (rc == MF_OK && plain && config) rc = drop_packing(&data, &size);
        if (rc == MF_OK && x->options->dtype && index)
            rc = plain ? new_index(x, &data, &size) : name_size(x, &data, &size);
        if (rc == MF_OK) rc = mf_write_file_atomic(to, data, size);
    }
    mf_free(data);
    mf_free(from);
    mf_free(to);
    return rc;
}

/* Copies the small files that the record keeps. */
static int copy_files(const export *x)
{
    char **names = NULL;
    if (!x->run.record->folder) return write_files(x);
    int n = 0, rc = mf_list_dir(x->run.record->folder, &names, &n);
    const bool plain = unpacks(x);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        if (x->options->no_tokenizer && mf_published_is_tokenizer(names[i])) continue;
        if (!is_ours(names[i]) && !(plain && repeats_packing(names[i])))
            rc = copy_file(x, names[i], plain);
    }
    mf_list_free(names, n);
    return rc;
}

/* Declares the texts and the tensors of a shard. order: receives the indices of the tensors, in
 * the order of declaration. Adds their number to *ret_n. */
static int declare_shard(const export *x, int32_t shard, mf_st_writer *w, int64_t *order,
                         int64_t *ret_n)
{
    const mf_record *r = x->run.record;
    const mf_json *meta = r->shards[shard].metadata, *value;
    const char *key;
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && mf_json_member(meta, i, &key, &value); i++) {
        const char *text = mf_json_string(value, NULL);
        if (text) rc = mf_st_writer_meta(w, key, text);
    }
    for (int64_t i = 0; rc == MF_OK && i < r->n; i++) {
        written one;
        if (r->shard_of[i] != shard || !written_of(x, i, &one)) continue;
        rc = mf_st_writer_add(w, one.name, one.dtype, one.rank, one.shape);
        order[*ret_n] = i;
        *ret_n += rc == MF_OK;
    }
    return rc;
}

/* Whether a weight still has the values of its stored tensors, which are then copied. Values of
 * few bits that were trained are an error, because their form cannot say the new values. */
static int judge_packed(const export *x, const mf_place *p, const mf_st_tensor *first,
                        bool *ret_same)
{
    const int rc = mf_export_unchanged(&x->run, p, ret_same);
    if (rc != MF_OK || *ret_same || p->form == MF_FORM_F64) return rc;
    return mf_fail(MF_EINPUT,
                   "tensor '%s': %s was trained, and its form of few bits cannot say the new "
                   "values; --dtype writes plain weights",
                   first->name, p->param->name);
}

/* Writes the values of tensor i of the record, which is due. */
static int put_tensor(const export *x, mf_st_writer *w, const mf_st_tensor *due, int64_t i)
{
    const mf_place *p = &x->run.record->ledger.places[i];
    bool copied = !p->param;
    if (p->form != MF_FORM_PLAIN && !x->options->dtype) {
        copied = true;
        const int rc = p->param ? judge_packed(x, p, due, &copied) : MF_OK;
        if (rc != MF_OK) return rc;
    }
    if (copied) return mf_export_copy(&x->run, due, w);
    float *values[2];
    const int rc = mf_export_values(&x->run, p, values);
    return rc == MF_OK ? mf_values_write(w, due, p, values) : rc;
}

static int write_shard(const export *x, int32_t shard)
{
    const mf_st_tensor *due;
    size_t at;
    int64_t n = 0, *order = mf_alloc((size_t)x->run.record->n + 1, sizeof *order);
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(x->to, x->run.record->shards[shard].file);
    int rc = w && path && order ? declare_shard(x, shard, w, order, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && (due = mf_st_writer_due(w, &at)))
        rc = put_tensor(x, w, due, order[at]);
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    mf_free(order);
    mf_free(path);
    return rc;
}

static int write_checksums(const export *x)
{
    char **names = NULL, *list = mf_path_join(x->to, MF_CHECKSUMS);
    int n = 0, rc = list ? mf_list_dir(x->to, &names, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_checksums_write(x->to, (const char *const *)names, n, NULL, list);
    mf_list_free(names, n);
    mf_free(list);
    return rc;
}

static int write_folder(void *arg, const char *to)
{
    export *x = arg;
    x->to = to;
    int rc = copy_files(x);
    for (int32_t s = 0; rc == MF_OK && s < x->run.record->n_shards; s++)
        rc = write_shard(x, s);
    if (rc == MF_OK) rc = write_checksums(x);
    if (rc == MF_OK && x->run.record->folder) rc = mf_modules_copy(x->run.record->folder, to);
    return rc;
}

/* Warns of rounding. Changes of adapters are small, and may be below half a step of the
 * weights' type. */
static int tell_rounding(const export *x)
{
    mf_lora_site *sites;
    int n = 0, rounded = 0;
    mf_st_dtype type = MF_ST_F32;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? mf_lora_sites(x->run.session->model, arena, &sites, &n) : MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < x->run.record->n; i++) {
        written one;
        const mf_param *param = x->run.record->ledger.places[i].param;
        bool changed = false;
        for (int s = 0; param && s < n; s++)
            changed = changed || sites[s].weight == param;
        if (!changed || !written_of(x, i, &one)) continue;
        if (one.dtype != MF_ST_BF16 && one.dtype != MF_ST_F16) continue;
        type = one.dtype;
        rounded++;
    }
    mf_arena_free(arena);
    if (rounded > 0)
        mf_log(MF_LOG_WARN,
               "the changes of adapters are merged into %d tensors, which are rounded to %s: "
               "this loses some of what was trained; --dtype f32 keeps it",
               rounded, mf_st_dtype_name(type));
    return rc;
}

int mf_export_hf(const char *run, const char *folder, const mf_export_options *options,
                 int64_t *ret_tensors)
{
    export x = {.options = options};
    if (mf_exists(folder))
        return mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", folder);
    int rc = mf_export_open(run, options, &x.run);
    if (rc == MF_OK && options->adapters == MF_EXPORT_MERGED) rc = tell_rounding(&x);
    if (rc == MF_OK) rc = mf_write_beside(folder, write_folder, &x);
    if (rc == MF_OK) *ret_tensors = x.run.record->n;
    mf_export_close(&x.run);
    return rc;
}
