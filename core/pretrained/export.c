/* pretrained/export.c: writes a model folder of an imported run, or of one trained from it.
 *
 * What the parameters do not hold comes from the record. Adapters of linear layers are part of
 * the weights that are written; the run itself stays as it is. */
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "pretrained/beside.h"
#include "pretrained/checksums.h"
#include "pretrained/export_run.h"
#include "pretrained/import.h"
#include "pretrained/weights/values.h"

typedef struct export
{
    mf_export_run run;
    const char *to; /* the folder that is written */
    const mf_export_options *options;
}
export;

/* The type in which a tensor is written. */
static mf_st_dtype type_of(const export *x, int64_t i)
{
    const mf_place *p = &x->run.record->ledger.places[i];
    const bool held = p->param && p->form == MF_FORM_PLAIN;
    return held && x->options->dtype ? x->options->dtype : x->run.record->tensors[i]->dtype;
}

/* ---- files ---- */

static bool is_ours(const char *name)
{
    return strcmp(name, MF_PRETRAINED_LEDGER) == 0 ||
           strcmp(name, MF_PRETRAINED_SKIPPED) == 0 || strcmp(name, MF_CHECKSUMS) == 0;
}

/* Writes the type of the weights into the text of a config.json, which has it as torch_dtype or
 * dtype, or not at all. */
static int name_type(mf_st_dtype dtype, char **data, size_t *size)
{
    static const char *const keys[] = {"\"torch_dtype\": \"", "\"dtype\": \""};
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

/* Writes the size of all tensors into the text of an index, which may have it. */
static int name_size(const export *x, char **data, size_t *size)
{
    static const char key[] = "\"total_size\": ";
    uint64_t total = 0;
    char *found = strstr(*data, key);
    if (!found) return MF_OK;
    for (int64_t i = 0; i < x->run.record->n; i++)
        total += x->run.record->tensors[i]->count * mf_st_dtype_size(type_of(x, i));
    found += sizeof key - 1;
    char *text = mf_strf("%.*s%llu%s", (int)(found - *data), *data, (unsigned long long)total,
                         found + strspn(found, "0123456789."));
    if (!text) return MF_ENOMEM;
    mf_free(*data);
    *data = text;
    *size = strlen(text);
    return MF_OK;
}

/* Copies the small files that the record keeps. */
static int copy_files(const export *x)
{
    char **names = NULL;
    int n = 0, rc = mf_list_dir(x->run.record->folder, &names, &n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *data = NULL;
        size_t size = 0;
        if (is_ours(names[i])) continue;
        char *from = mf_path_join(x->run.record->folder, names[i]),
             *to = mf_path_join(x->to, names[i]);
        rc = from && to ? mf_read_file(from, 0, &data, &size) : MF_ENOMEM;
        if (rc == MF_OK && x->options->dtype && strcmp(names[i], MF_FOLDER_CONFIG) == 0)
            rc = name_type(x->options->dtype, &data, &size);
        if (rc == MF_OK && x->options->dtype && strcmp(names[i], MF_FOLDER_INDEX) == 0)
            rc = name_size(x, &data, &size);
        if (rc == MF_OK) rc = mf_write_file_atomic(to, data, size);
        mf_free(data);
        mf_free(from);
        mf_free(to);
    }
    mf_list_free(names, n);
    return rc;
}

static int declare_shard(const export *x, int32_t shard, mf_st_writer *w)
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
        const mf_st_tensor *t = r->tensors[i];
        if (r->shard_of[i] == shard)
            rc = mf_st_writer_add(w, t->name, type_of(x, i), t->rank, t->shape);
    }
    return rc;
}

/* Checks that a weight of four bits still has the values that its tensors say. */
static int judge_packed(const export *x, const mf_place *p, const mf_st_tensor *first)
{
    bool same = true;
    const int rc = mf_export_unchanged(&x->run, p, &same);
    if (rc != MF_OK || same) return rc;
    return mf_fail(MF_EINPUT,
                   "tensor '%s': %s was trained, and its form of four bits cannot say the new "
                   "values",
                   first->name, p->param->name);
}

/* Writes the values of the tensor that is due: tensors are sorted by name. */
static int put_tensor(const export *x, mf_st_writer *w, const mf_st_tensor *due)
{
    const mf_record *r = x->run.record;
    int64_t lo = 0, hi = r->n - 1;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (strcmp(r->tensors[mid]->name, due->name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    const mf_place *p = &r->ledger.places[lo];
    if (p->form != MF_FORM_PLAIN && p->param) {
        const int rc = judge_packed(x, p, due);
        if (rc != MF_OK) return rc;
    }
    if (!p->param || p->form != MF_FORM_PLAIN) return mf_export_copy(&x->run, due, w);
    float *values[2];
    const int rc = mf_export_values(&x->run, p, values);
    return rc == MF_OK ? mf_values_write(w, due, p, values) : rc;
}

static int write_shard(const export *x, int32_t shard)
{
    const mf_st_tensor *due;
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(x->to, x->run.record->shards[shard].file);
    int rc = w && path ? declare_shard(x, shard, w) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && (due = mf_st_writer_due(w, NULL)))
        rc = put_tensor(x, w, due);
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    mf_free(path);
    return rc;
}

static int write_checksums(const export *x)
{
    char **names = NULL, *list = mf_path_join(x->to, MF_CHECKSUMS);
    int n = 0, rc = list ? mf_list_dir(x->to, &names, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_checksums_write(x->to, (const char *const *)names, n, list);
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
    return rc == MF_OK ? write_checksums(x) : rc;
}

int mf_export_hf(const char *run, const char *folder, const mf_export_options *options,
                 int64_t *ret_tensors)
{
    export x = {.options = options};
    if (mf_exists(folder))
        return mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", folder);
    int rc = mf_export_open(run, options->adapters, &x.run);
    if (rc == MF_OK) rc = mf_write_beside(folder, write_folder, &x);
    if (rc == MF_OK) *ret_tensors = x.run.record->n;
    mf_export_close(&x.run);
    return rc;
}
