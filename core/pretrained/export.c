/* pretrained/export.c: writes a model folder of an imported run, or of one trained from it.
 *
 * What the parameters do not hold comes from the record. Adapters of linear layers are part of
 * the weights that are written; the run itself stays as it is. */
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "pretrained/beside.h"
#include "pretrained/checksums.h"
#include "pretrained/import.h"
#include "pretrained/adapters/lora.h"
#include "pretrained/record.h"
#include "pretrained/values.h"
#include "train/run/load.h"

typedef struct export
{
    mf_session *session;
    mf_record *record;
    mf_st_file *skipped; /* NULL: no tensor was skipped */
    const char *to;      /* the folder that is written */
    const mf_export_options *options;
}
export;

/* ---- settings ---- */

/* The value of our setting as text, NULL if the configuration has none. */
static const char *value_of(mf_ini *ini, const char *assignment)
{
    char section[64], key[64];
    const char *equals = strchr(assignment, '='), *dot = equals;
    while (dot && dot > assignment && *dot != '.')
        dot--;
    if (!dot || dot == assignment || (size_t)(dot - assignment) >= sizeof section ||
        (size_t)(equals - dot) > sizeof key)
        return NULL;
    memcpy(section, assignment, (size_t)(dot - assignment));
    section[dot - assignment] = '\0';
    memcpy(key, dot + 1, (size_t)(equals - dot - 1));
    key[equals - dot - 1] = '\0';
    const mf_ini_entry *e = mf_ini_get(ini, section, key);
    return e ? e->value : NULL;
}

/* Compares two values. An INI file says "" for an empty text. */
static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (strcmp(a, "\"\"") == 0) a = "";
    if (strcmp(a, b) == 0) return true;
    return mf_parse_f64(a, &x) && mf_parse_f64(b, &y) && x == y;
}

/* Refuses a run whose settings of model, experts or router are not those of config.json. */
static int judge_settings(const export *x)
{
    static const char *const sections[] = {"model.", "moe.", "router.", "expert."};
    const mf_keys *k = &x->record->keys;
    for (int i = 0; i < k->n; i++) {
        const char *expected = strchr(k->set[i], '=') + 1, *found;
        bool judged = false;
        for (size_t s = 0; s < sizeof sections / sizeof *sections; s++)
            judged = judged || strncmp(k->set[i], sections[s], strlen(sections[s])) == 0;
        if (!judged) continue;
        found = value_of(x->session->config->ini, k->set[i]);
        if (found && !same_value(found, expected) && strncmp(k->set[i], "model.seq=", 10) != 0)
            return mf_fail(MF_EINPUT,
                           "%.*s = %s cannot be said in the form of %s: its config.json means "
                           "%s",
                           (int)(expected - 1 - k->set[i]), k->set[i], found,
                           x->record->family->name, expected);
    }
    return MF_OK;
}

/* The type in which a tensor is written. */
static mf_st_dtype type_of(const export *x, int64_t i)
{
    const mf_place *p = &x->record->ledger.places[i];
    const bool held = p->param && p->form == MF_FORM_PLAIN;
    return held && x->options->dtype ? x->options->dtype : x->record->tensors[i]->dtype;
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
    for (int64_t i = 0; i < x->record->n; i++)
        total += x->record->tensors[i]->count * mf_st_dtype_size(type_of(x, i));
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
    int n = 0, rc = mf_list_dir(x->record->folder, &names, &n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *data = NULL;
        size_t size = 0;
        if (is_ours(names[i])) continue;
        char *from = mf_path_join(x->record->folder, names[i]),
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

/* Whether two tensors have the same type and shape. */
static bool alike(const mf_st_tensor *a, const mf_st_tensor *b)
{
    bool same =
        a->bytes == b->bytes && a->rank == b->rank && strcmp(a->dtype_name, b->dtype_name) == 0;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

static int copy_skipped(const export *x, mf_st_writer *w, const mf_st_tensor *t)
{
    enum { PIECE = 1 << 20 };
    const mf_st_tensor *from = x->skipped ? mf_st_find(x->skipped, t->name) : NULL;
    if (!from || !alike(from, t))
        return mf_fail(MF_EINPUT, "%s/" MF_PRETRAINED_SKIPPED ": tensor '%s' is missing",
                       x->record->folder, t->name);
    char *room = mf_alloc_raw(PIECE);
    int rc = room ? MF_OK : MF_ENOMEM;
    for (uint64_t at = 0; rc == MF_OK && at < t->bytes; at += PIECE) {
        const uint64_t n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
        rc = mf_st_read_part(x->skipped, from, room, (size_t)n, at);
        if (rc == MF_OK) rc = mf_st_writer_put(w, room, (size_t)n);
    }
    mf_free(room);
    return rc;
}

static int declare_shard(const export *x, int32_t shard, mf_st_writer *w)
{
    const mf_record *r = x->record;
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
    const mf_record *r = x->record;
    mf_source s = {.form = p->form};
    bool same = true;
    for (int j = 0; j < mf_form_parts(p->form); j++) {
        s.file[j] = x->skipped;
        s.tensor[j] = x->skipped ? mf_st_find(x->skipped, r->tensors[p->parts[j]]->name) : NULL;
        if (!s.tensor[j] || !alike(s.tensor[j], r->tensors[p->parts[j]]))
            return mf_fail(MF_EINPUT, "%s/" MF_PRETRAINED_SKIPPED ": tensor '%s' is missing",
                           r->folder, r->tensors[p->parts[j]]->name);
    }
    float *const values[2] = {mf_param_edit(p->param),
                              p->other ? mf_param_edit(p->other) : NULL};
    int rc = values[0] && (values[1] || !p->other) ? mf_values_compare(&s, p, values, &same)
                                                   : MF_ENOMEM;
    if (rc == MF_OK && !same)
        rc = mf_fail(MF_EINPUT,
                     "tensor '%s': %s was trained, and its form of four bits cannot say the "
                     "new values",
                     first->name, p->param->name);
    return rc;
}

/* Writes the values of the tensor that is due: tensors are sorted by name. */
static int put_tensor(const export *x, mf_st_writer *w, const mf_st_tensor *due)
{
    const mf_record *r = x->record;
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
    if (!p->param || p->form != MF_FORM_PLAIN) return copy_skipped(x, w, due);
    float *const values[2] = {mf_param_edit(p->param),
                              p->other ? mf_param_edit(p->other) : NULL};
    if (!values[0] || (p->other && !values[1])) return MF_ENOMEM;
    return mf_values_write(w, due, p, values);
}

static int write_shard(const export *x, int32_t shard)
{
    const mf_st_tensor *due;
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(x->to, x->record->shards[shard].file);
    int rc = w && path ? declare_shard(x, shard, w) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && (due = mf_st_writer_due(w, NULL)))
        rc = put_tensor(x, w, due);
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    mf_free(path);
    return rc;
}

static int open_skipped(export *x)
{
    char *path = mf_path_join(x->record->folder, MF_PRETRAINED_SKIPPED);
    int rc = path ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(path)) rc = mf_st_open(path, &x->skipped);
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
    if (rc == MF_OK) rc = open_skipped(x);
    for (int32_t s = 0; rc == MF_OK && s < x->record->n_shards; s++)
        rc = write_shard(x, s);
    return rc == MF_OK ? write_checksums(x) : rc;
}

/* Refuses adapters that are no changes of weights, and puts those that are into the weights. */
static int settle_adapters(const export *x, mf_export_adapters adapters)
{
    mf_arena *arena = mf_arena_new();
    mf_lora_site *sites;
    int n, rc = arena ? mf_lora_sites(x->session->model, arena, &sites, &n) : MF_ENOMEM;
    mf_arena_free(arena);
    if (rc == MF_OK && adapters == MF_EXPORT_MERGED) rc = mf_lora_merge(x->session->model, 1);
    return rc;
}

int mf_export_hf(const char *run, const char *folder, const mf_export_options *options,
                 int64_t *ret_tensors)
{
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    int64_t step;
    export x = {.options = options};
    if (mf_exists(folder))
        return mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", folder);
    int rc = mf_load_run_as(run, &o, &change, &x.session, &step);
    if (rc == MF_OK) rc = mf_record_need(run, &x.record);
    if (rc == MF_OK) rc = judge_settings(&x);
    if (rc == MF_OK) rc = mf_record_match(x.record, run, x.session->model->store);
    if (rc == MF_OK) rc = settle_adapters(&x, options->adapters);
    if (rc == MF_OK) rc = mf_write_beside(folder, write_folder, &x);
    if (rc == MF_OK) *ret_tensors = x.record->n;
    mf_st_close(x.skipped);
    mf_record_free(x.record);
    mf_session_close(x.session);
    return rc;
}
