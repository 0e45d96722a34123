/* pretrained/export_run.c: opens a run for an export and checks it. A model may be written only
 * if the family's files can express all of it. Therefore every setting of model, experts and
 * router is compared with the value that follows from config.json: the family's value, or else
 * the default. A run without a record gets one of a published form (published/published.h). */
#include "pretrained/export_run.h"

#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "pretrained/adapters/lora.h"
#include "pretrained/published/judge.h"
#include "pretrained/published/published.h"
#include "pretrained/weights/values.h"
#include "run/load.h"
#include "run/folder/rundir.h"
#include "run/folder/stored_files.h"

/* ---- settings ---- */

/* Refuses a run whose settings of model, experts or router differ from config.json. */
static int judge_settings(const mf_export_run *x)
{
    mf_differences j = {.config = x->session->config, .keys = &x->record->keys};
    const int rc = mf_judge_settings(&j);
    if (rc != MF_OK || j.faults == 0) return rc;
    return mf_judge_refuse(&j, x->record->family->name);
}

/* ---- the family's router ---- */

/* Whether a block that may have experts has a router plugin other than the family's. */
static bool has_other_router(const mf_config *c, const char *plugin)
{
    const mf_model_settings m = mf_config_model(c);
    for (int64_t l = 0; l < c->model.layers; l++)
        if (strcmp(mf_model_router(&m, l)->plugin, plugin) != 0) return true;
    return false;
}

/* Writes the family's router with its options: "linear:bias=yes,groups=4". */
static char *router_text(const mf_keys *k)
{
    char *text = mf_strdup(mf_keys_setting(k, "router", "plugin"));
    const char *before = ":";
    for (int i = 0; text && i < k->n; i++) {
        const char *option = k->set[i] + sizeof "router." - 1;
        if (strncmp(k->set[i], "router.", sizeof "router." - 1) != 0) continue;
        if (strncmp(option, "plugin=", sizeof "plugin=" - 1) == 0) continue;
        char *longer = mf_strf("%s%s%s", text, before, option);
        mf_free(text);
        text = longer;
        before = ",";
    }
    return text;
}

int mf_export_router(const char *run, char **ret)
{
    mf_record *record = NULL;
    mf_rundir *dir = NULL;
    mf_config *c = NULL;
    *ret = NULL;
    int rc = mf_record_need(run, &record);
    if (rc == MF_OK) rc = mf_rundir_read(run, &dir);
    if (rc == MF_OK) rc = mf_config_load(dir->config, 0, NULL, &c);
    const char *plugin =
        rc == MF_OK ? mf_keys_setting(&record->keys, "router", "plugin") : NULL;
    if (rc == MF_OK && record->keys.experts > 0 && has_other_router(c, plugin) &&
        !(*ret = router_text(&record->keys)))
        rc = MF_ENOMEM;
    mf_config_free(c);
    mf_rundir_close(dir);
    mf_record_free(record);
    return rc;
}

/* ---- tensors outside of the model ---- */

/* Whether two tensors have the same type and shape. */
static bool alike(const mf_st_tensor *a, const mf_st_tensor *b)
{
    bool same =
        a->bytes == b->bytes && a->rank == b->rank && strcmp(a->dtype_name, b->dtype_name) == 0;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

int mf_export_find(const mf_export_run *x, const mf_st_tensor *t, const mf_st_file **ret_file,
                   const mf_st_tensor **ret)
{
    const int32_t n = x->shards ? x->record->n_shards : 0;
    for (int32_t i = -1; i < n; i++) {
        *ret_file = i < 0 ? x->skipped : x->shards[i];
        *ret = *ret_file ? mf_st_find(*ret_file, t->name) : NULL;
        if (*ret && alike(*ret, t)) return MF_OK;
    }
    return mf_fail(MF_EINPUT, "%s/" MF_PRETRAINED_SKIPPED ": tensor '%s' is missing",
                   x->record->folder, t->name);
}

int mf_export_copy(const mf_export_run *x, const mf_st_tensor *t, mf_st_writer *out)
{
    enum { PIECE = 1 << 20 };
    const mf_st_file *file;
    const mf_st_tensor *from;
    int rc = mf_export_find(x, t, &file, &from);
    if (rc != MF_OK) return rc;
    char *room = mf_alloc_raw(PIECE);
    if (!room) return MF_ENOMEM;
    for (uint64_t at = 0; rc == MF_OK && at < t->bytes; at += PIECE) {
        const uint64_t n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
        rc = mf_st_read_part(file, from, room, (size_t)n, at);
        if (rc == MF_OK) rc = mf_st_writer_put(out, room, (size_t)n);
    }
    mf_free(room);
    return rc;
}

int mf_export_packed(const mf_export_run *x, const mf_place *p, mf_source *ret)
{
    int rc = MF_OK;
    *ret = (mf_source){.form = p->form, .packing = x->record->ledger.packing};
    for (int j = 0; rc == MF_OK && j < mf_form_parts(p->form); j++)
        if (p->parts[j] >= 0)
            rc = mf_export_find(x, x->record->tensors[p->parts[j]], &ret->file[j],
                                &ret->tensor[j]);
    return rc;
}

int mf_export_unchanged(const mf_export_run *x, const mf_place *p, bool *ret_same)
{
    mf_source s;
    float *values[2];
    *ret_same = true;
    if (p->param->stored) return MF_OK; /* its values are the values of the file */
    int rc = mf_export_packed(x, p, &s);
    if (rc == MF_OK) rc = mf_export_values(x, p, values);
    return rc == MF_OK ? mf_values_compare(&s, p, values, ret_same) : rc;
}

/* ---- copies of stored weights ---- */

/* Tensors are sorted by name in model folders, so the tensors of the three or four matrices of
 * experts alternate. */
enum { COPIES = 4 };

struct mf_export_copies {
    mf_param *param[COPIES]; /* the most recently used first; NULL: none */
};

/* Moves p to the front. If there are too many copies, frees the least recently used copy. */
static void use_copy(mf_export_copies *c, mf_param *p)
{
    int i = 0;
    while (i < COPIES - 1 && c->param[i] && c->param[i] != p)
        i++;
    if (c->param[i] && c->param[i] != p) mf_param_forget(c->param[i]);
    for (; i > 0; i--)
        c->param[i] = c->param[i - 1];
    c->param[0] = p;
}

int mf_export_values(const mf_export_run *x, const mf_place *p, float *values[2])
{
    mf_param *const both[2] = {p->param, p->other};
    for (int i = 0; i < 2; i++) {
        if (both[i] && both[i]->stored) use_copy(x->copies, both[i]);
        values[i] = mf_values_of(both[i]);
        if (both[i] && !values[i]) return MF_ENOMEM;
    }
    return MF_OK;
}

/* ---- files ---- */

static int open_skipped(mf_export_run *x)
{
    char *path = mf_path_join(x->record->folder, MF_PRETRAINED_SKIPPED);
    int rc = path ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(path)) rc = mf_st_open(path, &x->skipped);
    mf_free(path);
    return rc;
}

/* Opens the shards of the imported folder if a weight is stored as several tensors, or if
 * `packed` is set. The list of their paths is beside the folder pretrained/. Without this list
 * no shard is opened. */
static int open_shards(mf_export_run *x, bool packed)
{
    const mf_record *r = x->record;
    mf_stored_files *files = NULL;
    for (int64_t i = 0; i < r->n; i++)
        packed =
            packed || (r->ledger.places[i].param && r->ledger.places[i].form != MF_FORM_PLAIN);
    char *list = packed ? mf_strf("%s/../" MF_STORED_FILES, r->folder) : NULL;
    if (!packed || (list && !mf_exists(list))) {
        mf_free(list);
        return MF_OK;
    }
    x->shards = mf_alloc((size_t)r->n_shards + 1, sizeof *x->shards);
    int rc = list && x->shards ? mf_stored_files_read(list, &files) : MF_ENOMEM;
    for (int32_t i = 0; rc == MF_OK && i < r->n_shards; i++) {
        const char *path = mf_stored_files_path(files, r->shards[i].file);
        if (path) rc = mf_st_open(path, &x->shards[i]);
    }
    mf_stored_files_free(files);
    mf_free(list);
    return rc;
}

/* ---- the run ---- */

/* Refuses adapters that are not changes of weights. With MF_EXPORT_MERGED, adds the changes to
 * the weights. */
static int settle_adapters(const mf_export_run *x, mf_export_adapters adapters)
{
    mf_arena *arena = mf_arena_new();
    mf_lora_site *sites;
    int n, rc = arena ? mf_lora_sites(x->session->model, arena, &sites, &n) : MF_ENOMEM;
    mf_arena_free(arena);
    if (rc == MF_OK && adapters == MF_EXPORT_MERGED) rc = mf_lora_merge(x->session->model, 1);
    return rc;
}

/* Makes a record in a published form. */
static int publish(const char *run, const mf_export_options *options, mf_export_run *x)
{
    int rc = mf_published_make(x->session, options->as, &x->record);
    if (rc != MF_OK) return rc;
    return mf_published_files(x->session, run, !options->no_tokenizer, x->record);
}

/* Called if the family of an import cannot express the model. Replaces the record by one in a
 * published form. If no published form can express the model, the record stays, and the error
 * of the family is reported again. */
static int publish_instead(const char *run, const mf_export_options *options, mf_export_run *x)
{
    char *why = mf_strdup(mf_error_message());
    mf_record *own = x->record;
    if (!why) return MF_ENOMEM;
    x->record = NULL;
    mf_error_clear();
    int rc = publish(run, options, x);
    if (rc == MF_EINPUT && !x->record) {
        x->record = own;
        rc = mf_fail(MF_EINPUT, "%s", why);
    } else {
        mf_record_free(own);
    }
    mf_free(why);
    return rc;
}

/* Finds the form in which a run is written: the form of its record, or a published form, which
 * options->as may name. options NULL: only the form of the record, which must exist. */
static int find_form(const char *run, const mf_export_options *options, mf_export_run *x)
{
    int rc = MF_OK;
    if (!options)
        rc = mf_record_need(run, &x->record);
    else if (!options->as)
        rc = mf_record_find(run, &x->record);
    if (rc != MF_OK) return rc;
    if (options && !x->record) return publish(run, options, x);
    rc = judge_settings(x);
    if (rc == MF_EINPUT && options) return publish_instead(run, options, x);
    return rc == MF_OK ? mf_record_match(x->record, run, x->session->model->store) : rc;
}

/* Whether a tensor of the record holds the parameter. */
static bool is_written(const mf_record *r, const mf_param *p)
{
    for (int64_t i = 0; i < r->n; i++)
        if (r->ledger.places[i].param == p) return true;
    return false;
}

/* Checks that no bias that moves the choice of experts would be lost. Zeros need no tensor. */
static int judge_biases(const mf_export_run *x)
{
    const mf_store *store = x->session->model->store;
    for (int32_t i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (!p->buffer || is_written(x->record, p)) continue;
        if (!mf_ends_with(p->name, ".moe.select_bias") &&
            !mf_ends_with(p->name, ".router.bias"))
            continue;
        const float *b = mf_param_host(p);
        for (int64_t e = 0; b && e < p->count; e++)
            if (b[e] != 0)
                return mf_fail(MF_EINPUT,
                               "%s is not 0, and the form of %s has no tensor for it", p->name,
                               x->record->family->name);
    }
    return MF_OK;
}

static int open_as(const char *run, const mf_export_options *options, mf_bind bind,
                   mf_export_run *ret)
{
    const mf_export_adapters adapters = options ? options->adapters : MF_EXPORT_MERGED;
    mf_session_options o = {.no_data = true, .bind = bind};
    const mf_load_change change = {.step = -1};
    int64_t step;
    *ret = (mf_export_run){.copies = mf_alloc(1, sizeof *ret->copies)};
    int rc = ret->copies ? mf_load_run_as(run, &o, &change, &ret->session, &step) : MF_ENOMEM;
    /* weights to which changes are added must be in memory, not in their files */
    if (rc == MF_OK && adapters == MF_EXPORT_MERGED && ret->session->config->n_adapters > 0 &&
        ret->session->stored) {
        mf_session_close(ret->session);
        ret->session = NULL;
        o.bind = MF_BIND_NONE;
        rc = mf_load_run_as(run, &o, &change, &ret->session, &step);
    }
    if (rc == MF_OK) rc = find_form(run, options, ret);
    if (rc == MF_OK) rc = judge_biases(ret);
    if (rc == MF_OK) rc = settle_adapters(ret, adapters);
    if (rc == MF_OK && !ret->record->folder)
        mf_log(MF_LOG_INFO, "%s: written in the form of %s", run, ret->record->family->name);
    if (rc == MF_OK && ret->record->folder) rc = open_skipped(ret);
    const bool copies = !options && bind != MF_BIND_NONE; /* weights from file to file */
    return rc == MF_OK && ret->record->folder ? open_shards(ret, copies) : rc;
}

int mf_export_open(const char *run, const mf_export_options *options, mf_export_run *ret)
{
    return open_as(run, options, MF_BIND_FITTING, ret);
}

int mf_export_open_values(const char *run, bool stay, mf_export_run *ret)
{
    return open_as(run, NULL, stay ? MF_BIND_FITTING : MF_BIND_NONE, ret);
}

void mf_export_close(mf_export_run *x)
{
    for (int32_t i = 0; x->shards && i < x->record->n_shards; i++)
        mf_st_close(x->shards[i]);
    mf_free(x->shards);
    mf_free(x->copies);
    mf_st_close(x->skipped);
    mf_record_free(x->record);
    mf_session_close(x->session);
}
