/* pretrained/import.c: the order of an import.
 *
 * First everything is checked with a model without values. Only then is memory for values
 * allocated, and the files of the run are written. If the import fails, the run directory that
 * it created is removed. */
#include "pretrained/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "pretrained/checksums.h"
#include "generate/generation.h"
#include "pretrained/folder.h"
#include "pretrained/gguf/gguf_in.h"
#include "pretrained/quantized.h"
#include "pretrained/record.h"
#include "pretrained/stored.h"
#include "pretrained/upcycle.h"
#include "pretrained/weights/values.h"
#include "run/checkpoint/checkpoint.h"
#include "run/observers/observers.h"
#include "run/load.h"
#include "run/modules.h"
#include "run/folder/provenance.h"
#include "run/folder/rundir.h"

typedef struct import_work {
    mf_folder *folder;
    const mf_family *family;
    mf_keys keys;
    const mf_st_tensor **tensors; /* [folder->n] sorted by name */
    mf_ledger ledger;
    bool tokenizer; /* whether the folder has a readable tokenizer */
    mf_rundir *dir;
    bool made; /* whether this import created the run directory */
    mf_session *session;
    bool copy;               /* all weights are read to f32 */
    mf_stored_files *stored; /* weights that stay in the files of the folder */
    /* the run keeps no record of the folder: the model differs from the folder's model, or the
     * folder was unpacked from a file */
    bool alone;
    mf_family unpacked; /* the family, with the places of GGUF */
} import_work;

/* ---- reading ---- */

static int read_folder(import_work *im, const char *path)
{
    int rc = mf_folder_open(path, &im->folder);
    if (rc != MF_OK) return rc;
    mf_folder *f = im->folder;
    rc = mf_family_of(f->config_path, f->config, &im->family);
    if (rc != MF_OK) return rc;
    rc = mf_keys_read(im->family, f->config_path, f->config, f->arena, &im->keys);
    if (rc != MF_OK) return rc;
    mf_generation unused;
    rc = mf_generation_read(f->path, &unused);
    if (rc != MF_OK) return rc;
    im->tensors = mf_arena_alloc(f->arena, ((size_t)f->n + 1) * sizeof *im->tensors);
    if (!im->tensors) return MF_ENOMEM;
    for (int64_t i = 0; i < f->n; i++)
        im->tensors[i] = f->tensors[i].tensor;
    return MF_OK;
}

/* Without a tokenizer the run accepts only files of ids, because another tokenizer would make
 * wrong ids. */
static int without_tokenizer(import_work *im)
{
    mf_keys_set(&im->keys, "data.format=bin");
    mf_keys_set(&im->keys, "data.path=" MF_DATA_NONE);
    return im->keys.rc;
}

/* Finds out whether the folder has a tokenizer. A tokenizer that cannot be read is an error.
 * The run could not read texts, and the person who imports the folder must learn this now. */
static int find_tokenizer(import_work *im, bool wanted)
{
    mf_tokenizer *t = NULL;
    const unsigned long faults = mf_faults();
    if (!wanted) return without_tokenizer(im);
    int rc = mf_tokenizer_load(im->folder->path, &t);
    /* the folder's files could not be examined */
    if (rc == MF_EINPUT && mf_faults() != faults) {
        const char *why = mf_fault_last(&rc);
        return mf_fail(rc, "%s", why);
    }
    const int32_t ids = rc == MF_OK ? t->vocab : 0;
    im->tokenizer = rc == MF_OK;
    mf_tokenizer_free(t);
    /* Such tokenizers exist in published folders. Most texts never need the last ids. */
    if (ids > im->keys.vocab)
        mf_log(MF_LOG_WARN,
               "%s: the tokenizer has ids up to %d, but vocab_size of config.json is %lld: "
               "texts with the ids above cannot be read",
               im->folder->path, (int)ids - 1, (long long)im->keys.vocab);
    if (rc == MF_EINPUT)
        return mf_fail(rc, "%s; --no-tokenizer imports the weights alone", mf_error_message());
    if (rc != MF_OK && rc != MF_ENOTFOUND) return rc;
    mf_error_clear();
    return im->tokenizer ? MF_OK : without_tokenizer(im);
}

/* Writes the settings of training into the run's configuration. Training begins with the
 * imported weights, and uses the usual rate for all weights of such a model. Dropout is read
 * from config.json; missing values are those of transformers. Dropout of attention weights has
 * no counterpart here. */
static int set_training(import_work *im)
{
    mf_keys *k = &im->keys;
    const char *name = im->family->name;
    const bool old = strcmp(name, "gpt2") == 0 || strcmp(name, "bert") == 0;
    const double absent = old ? 0.1 : 0;
    const double p =
        mf_keys_real_or(k, "resid_pdrop|hidden_dropout_prob|hidden_dropout", absent);
    const double embedding = mf_keys_real_or(k, "embd_pdrop|emb_pdrop", p);
    const double head = mf_keys_real_or(k, "classifier_dropout", p);
    if (!mf_keys_setting(k, "train", "lr")) mf_keys_set(k, "train.lr=1e-5");
    if (p > 0 && p < 0.99) mf_keys_set(k, "train.dropout=%.17g", p);
    if (!(embedding > 0)) mf_keys_set(k, "train.dropout_embedding=no");
    if (k->classes > 0 && head > 0 && head < 0.99)
        mf_keys_set(k, "model.head_dropout=%.17g", head);
    return k->rc;
}

/* Compares the files with the checksums that were recorded for them. */
static int verify(const import_work *im, bool verified, const char *run)
{
    char *own = mf_path_join(im->folder->path, MF_CHECKSUMS),
         *ours = mf_strf("%s/" MF_PRETRAINED_FOLDER "/" MF_CHECKSUMS, run ? run : "");
    int rc = own && ours ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && !verified && mf_exists(own))
        rc = mf_checksums_verify(own, im->folder->path);
    if (rc == MF_OK && run && mf_exists(ours)) rc = mf_checksums_verify(ours, im->folder->path);
    mf_free(own);
    mf_free(ours);
    return rc;
}

/* Returns the last part of a path, without slashes at its end. */
static const char *base_name(mf_arena *arena, const char *path)
{
    char *copy = mf_arena_strdup(arena, path);
    if (!copy) return NULL;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/';)
        copy[--n] = '\0';
    char *slash = strrchr(copy, '/');
    return slash && slash[1] ? slash + 1 : copy;
}

/* ---- the model ---- */

/* Opens a session with the family's settings. bare: only compute sizes. An error of the
 * configuration is an error of config.json, and so is a size that no model can have. */
static int open_session(import_work *im, bool bare, mf_session **ret)
{
    mf_config *c = NULL;
    const mf_keys *k = &im->keys;
    const mf_model_dims dims = {.vocab = (int32_t)k->vocab, .classes = (int32_t)k->classes};
    const mf_session_options o = {.training = !bare,
                                  .bare = bare,
                                  .no_data = true,
                                  .dims = &dims,
                                  .stored = bare ? NULL : im->stored,
                                  .bind = MF_BIND_ALL,
                                  .tokenizer_file =
                                      im->tokenizer && !bare ? im->folder->path : NULL};
    mf_assignment given[MF_KEYS_SET_MAX];
    for (int i = 0; i < k->n; i++)
        given[i] = (mf_assignment){k->set[i], "settings"};
    int rc = mf_config_load_from(im->dir->config, k->n, given, NULL, &c);
    if (rc == MF_OK && !(c->name = base_name(c->arena, im->folder->path))) {
        mf_config_free(c);
        return MF_ENOMEM;
    }
    if (rc == MF_OK) rc = mf_session_open(c, &o, ret); /* frees c if it fails */
    if (rc != MF_ECONFIG && rc != MF_EINVAL) return rc;
    return mf_fail_context(MF_EINPUT, "%s", im->folder->config_path);
}

static int match(import_work *im)
{
    mf_session *s = NULL;
    int rc = mf_match_layers(im->family, &im->keys, im->tensors, im->folder->n);
    if (rc == MF_OK) rc = open_session(im, true, &s);
    if (rc == MF_OK)
        rc = mf_match_tensors(im->family, &im->keys, s->model->store, im->folder->path,
                              im->tensors, im->folder->n, &im->ledger);
    if (rc == MF_OK) rc = mf_quantized_judge_zeros(im->folder, &im->ledger);
    if (rc == MF_OK && !im->copy)
        rc = mf_stored_of_folder(im->folder, &im->ledger, s->model->store, &im->stored);
    mf_session_close(s);
    return rc;
}

/* Changes the places so that they point to the parameters of another store of the
 * same model. */
static void move_places(import_work *im)
{
    const mf_store *store = im->session->model->store;
    for (int64_t i = 0; i < im->ledger.n; i++) {
        mf_place *p = &im->ledger.places[i];
        if (p->param) p->param = mf_store_at(store, p->index);
        if (p->other) p->other = mf_store_at(store, p->other_index);
    }
}

static mf_source source_of(const import_work *im, int64_t i)
{
    const mf_folder *f = im->folder;
    const mf_place *p = &im->ledger.places[i];
    mf_source s = {.form = p->form, .packing = im->ledger.packing};
    for (int j = 0; j < mf_form_parts(p->form); j++) {
        const int64_t at = p->form == MF_FORM_PLAIN ? i : p->parts[j];
        if (at < 0) continue;
        s.file[j] = f->shards[f->tensors[at].shard];
        s.tensor[j] = f->tensors[at].tensor;
    }
    return s;
}

static int read_values(import_work *im)
{
    const mf_folder *f = im->folder;
    int rc = MF_OK;
    for (int tied = 0; rc == MF_OK && tied < 2; tied++)
        for (int64_t i = 0; rc == MF_OK && i < f->n; i++) {
            const mf_place *p = &im->ledger.places[i];
            bool same = true;
            if (!p->param || p->tied != (tied == 1)) continue;
            if (p->param->stored && !tied) continue;
            float *const values[2] = {tied ? mf_values_of(p->param) : mf_param_edit(p->param),
                                      p->other ? mf_param_edit(p->other) : NULL};
            const mf_source source = source_of(im, i);
            if (!values[0] || (p->other && !values[1])) return MF_ENOMEM;
            rc = tied ? mf_values_compare(&source, p, values, &same)
                      : mf_values_read(&source, p, values);
            if (rc == MF_OK && !same)
                rc = mf_fail(MF_EINPUT,
                             "%s: tensor '%s' differs from the embedding, but config.json "
                             "says that they are tied",
                             f->path, im->tensors[i]->name);
        }
    return rc;
}

/* Writes the factors of rope that config.json lists into their buffer. */
static int fill_rope(import_work *im)
{
    mf_keys *k = &im->keys;
    mf_param *p = mf_store_find(im->session->model->store, "rope.factor");
    if (!p) return MF_OK;
    if (p->count != k->n_rope_factors)
        return mf_fail(MF_EINPUT,
                       "%s: short_factor: expected %lld numbers, one for each pair of "
                       "rotated values of a head, found %lld",
                       k->path, (long long)p->count, (long long)k->n_rope_factors);
    float *values = mf_param_edit(p);
    if (!values) return MF_ENOMEM;
    for (int64_t i = 0; i < p->count; i++)
        values[i] = (float)k->rope_factors[i];
    const int64_t positions = mf_keys_int(k, "max_position_embeddings", 1, INT32_MAX);
    if (positions > k->seq)
        mf_log(MF_LOG_WARN,
               "%s: model.seq = %lld of %lld positions: longer sequences have other factors of "
               "rope (long_factor), and a run has one list",
               k->path, (long long)k->seq, (long long)positions);
    return k->rc;
}

/* ---- the run ---- */

/* The config.ini of a run until its import is complete. The model is described completely by
 * config.json: system and user settings add nothing. */
static const char seed[] = "; import" MF_CONFIG_COMPLETE "\n";

/* Removes the files that an interrupted import left in the folder, so the same command can
 * be repeated. */
static int remove_left(const char *run)
{
    char *path = mf_path_join(run, "config.ini"), *text = NULL, *kept = NULL;
    size_t n = 0;
    int rc = path ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_rundir_is(run)) rc = mf_read_file(path, 0, &text, &n);
    if (rc == MF_OK && text && n == sizeof seed - 1 && memcmp(text, seed, n) == 0) {
        rc = mf_run_remove(run, &kept);
        if (rc == MF_OK)
            mf_log(MF_LOG_WARN, "%s: removed: left of an import that did not end", run);
    }
    mf_free(kept);
    mf_free(text);
    mf_free(path);
    return rc;
}

static int make_dir(import_work *im, const char *run)
{
    const char *name = base_name(im->folder->arena, im->folder->path);
    int rc = name ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && run) rc = remove_left(run);
    im->made = rc == MF_OK && (!run || !mf_exists(run));
    if (rc == MF_OK)
        rc =
            run ? mf_rundir_create_at(run, &im->dir) : mf_rundir_create("runs", name, &im->dir);
    if (rc == MF_OK) rc = mf_write_file_atomic(im->dir->config, seed, sizeof seed - 1);
    return rc;
}

/* Removes everything that the import has written. The recorded error stays. run: as
 * in mf_import. */
static void undo(const import_work *im, const char *run)
{
    const int rc = mf_error_code();
    const bool broken = rc == MF_EIO || rc == MF_ENOMEM;
    char why[2048];
    if (!im->dir && !(run && im->made && broken)) return;
    snprintf(why, sizeof why, "%s", mf_error_message());
    if (im->made) {
        mf_remove_tree(im->dir ? im->dir->path : run);
    } else {
        char **names = NULL;
        int n = 0;
        if (mf_list_dir(im->dir->path, &names, &n) == MF_OK)
            for (int i = 0; i < n; i++) {
                char *path = mf_path_join(im->dir->path, names[i]);
                if (path) mf_remove_tree(path);
                mf_free(path);
            }
        mf_list_free(names, n);
    }
    mf_fail(rc, "%s", why);
}

/* Sets the configuration so that training with it begins with the run's own weights and uses
 * the run's own tokenizer. */
static int stand_for_itself(import_work *im)
{
    mf_config *c = im->session->config;
    char *folder = realpath(im->dir->path, NULL);
    const char *name = strrchr(im->dir->tokenizer, '/');
    if (!folder || !name) {
        free(folder);
        return mf_fail_errno(MF_EIO, "%s", im->dir->path);
    }
    c->train.from = mf_arena_strdup(c->arena, folder);
    if (im->tokenizer) c->data.tokenizer = mf_arena_strf(c->arena, "%s%s", folder, name);
    free(folder);
    return c->train.from && c->data.tokenizer ? MF_OK : MF_ENOMEM;
}

static int write_run(import_work *im)
{
    mf_session *s = im->session;
    mf_state *state = mf_state_new();
    int rc = state ? stand_for_itself(im) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_run_files_write(s, im->dir);
    if (rc == MF_OK) rc = mf_write_file_atomic(im->dir->metrics, "", 0);
    if (rc == MF_OK && !im->alone)
        rc = mf_record_write(im->dir->path, im->family, im->folder, im->tensors, &im->ledger);
    if (rc == MF_OK)
        rc = mf_ckpt_save(im->dir->ckpt, 0, s->model->store, NULL, state, mf_provenance_of(s),
                          0);
    mf_state_free(state);
    return rc;
}

/* Returns the type of most values. */
static const char *main_dtype(const import_work *im)
{
    uint64_t count[MF_ST_U64 + 1] = {0};
    int most = MF_ST_F32;
    for (int64_t i = 0; i < im->folder->n; i++)
        if (im->ledger.places[i].param) count[im->tensors[i]->dtype] += im->tensors[i]->count;
    for (int t = 0; t <= MF_ST_U64; t++)
        if (count[t] > count[most]) most = t;
    return mf_st_dtype_name((mf_st_dtype)most);
}

static int report(const import_work *im, mf_import_report *ret)
{
    *ret = (mf_import_report){.stored = mf_store_bound(im->session->model->store),
                              .run = mf_strdup(im->dir->path),
                              .family = im->family->name,
                              .dtype = main_dtype(im),
                              .used = im->ledger.used,
                              .skipped = im->ledger.skipped,
                              .tokenizer = im->session->tokenizer != NULL};
    mf_model_count(im->session->model, &ret->params, &ret->params_active);
    return ret->run ? MF_OK : MF_ENOMEM;
}

/* Replaces the dense model by a model with experts. */
static int upcycle(import_work *im, const char *text)
{
    mf_session *dense = im->session, *experts = NULL;
    int rc = mf_upcycle_settings(dense, text, &im->keys);
    if (rc == MF_OK) {
        rc = open_session(im, false, &experts);
        /* config.json was read before, so an error now comes from the text. */
        if (rc == MF_EINPUT) rc = MF_EUSAGE;
        if (rc != MF_OK) rc = mf_fail_context(rc, "--upcycle");
    }
    if (rc == MF_OK) rc = mf_upcycle_fill(dense, experts);
    if (rc != MF_OK) {
        mf_session_close(experts);
        return rc;
    }
    im->session = experts;
    im->alone = true;
    mf_session_close(dense);
    return MF_OK;
}

/* rules: the places of the tensors of a folder that was unpacked from GGUF; NULL: those of
 * its family. */
static int import_folder(const char *folder, const mf_family_rule *rules,
                         const mf_import_options *o, const char *run, mf_import_report *ret)
{
    const char *text = o->upcycle;
    import_work im = {.copy = o->copy || text || rules, .alone = rules != NULL};
    int rc = read_folder(&im, folder);
    if (rc == MF_OK && rules) {
        im.unpacked = *im.family;
        im.unpacked.rules = rules;
        im.family = &im.unpacked;
    }
    if (rc == MF_OK) rc = verify(&im, o->verified, run);
    if (rc == MF_OK) rc = find_tokenizer(&im, !o->no_tokenizer);
    if (rc == MF_OK) rc = set_training(&im);
    if (rc == MF_OK) rc = make_dir(&im, run);
    if (rc == MF_OK) rc = match(&im);
    if (rc == MF_OK) rc = open_session(&im, false, &im.session);
    if (rc == MF_OK) move_places(&im);
    if (rc == MF_OK) rc = fill_rope(&im);
    if (rc == MF_OK) rc = read_values(&im);
    if (rc == MF_OK && text) rc = upcycle(&im, text);
    if (rc == MF_OK) rc = write_run(&im);
    if (rc == MF_OK) rc = report(&im, ret);
    if (rc != MF_OK) undo(&im, run);
    mf_session_close(im.session);
    mf_stored_files_free(im.stored);
    mf_rundir_close(im.dir);
    mf_free(im.ledger.places);
    mf_folder_close(im.folder);
    return rc;
}

/* Unpacks the file into a folder beside the new run. The folder has the name of the file, so
 * that the run gets this name; it is removed at the end. */
static int import_gguf(const char *path, const mf_import_options *o, const char *run,
                       mf_import_report *ret)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *end = run ? strrchr(run, '/') : NULL;
    char *beside = !run  ? mf_strdup("runs")
                   : end ? mf_strndup(run, (size_t)(end - run) + (end == run))
                         : mf_strdup("."),
         *temporary = beside ? mf_strf("%s/.gguf-XXXXXX", beside) : NULL, *folder = NULL;
    const mf_family_rule *rules = NULL;
    int rc = temporary ? mf_mkdirs(beside) : MF_ENOMEM;
    const bool made = rc == MF_OK && mkdtemp(temporary);
    if (rc == MF_OK && !made) rc = mf_fail_errno(MF_EIO, "%s", temporary);
    if (made) {
        folder = mf_strf("%s/%.*s", temporary, (int)(strlen(name) - strlen(".gguf")), name);
        rc = folder ? mf_mkdirs(folder) : MF_ENOMEM;
    }
    if (rc == MF_OK) rc = mf_gguf_unpack(path, folder, !o->no_tokenizer, &rules);
    if (rc == MF_OK) rc = import_folder(folder, rules, o, run, ret);
    if (made) {
        char *why = rc != MF_OK ? mf_strdup(mf_error_message()) : NULL;
        mf_remove_tree(temporary);
        if (why) mf_fail(rc, "%s", why);
        mf_free(why);
    }
    mf_free(folder);
    mf_free(temporary);
    mf_free(beside);
    return rc;
}

int mf_import(const char *path, const mf_import_options *options, const char *run,
              mf_import_report *ret)
{
    const mf_import_options none = {0}, *o = options ? options : &none;
    return mf_gguf_is_file(path) ? import_gguf(path, o, run, ret)
                                 : import_folder(path, NULL, o, run, ret);
}
