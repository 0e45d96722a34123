/* run/session.c: opens device, tokenizer, data, training batches and model, in this order,
 * because each may need the previous parts. If opening one of them fails, the others
 * are closed. */
#include "run/session.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/hint.h"
#include "io/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/source.h"
#include "plugin/crash.h"
#include "run/backend.h"
#include "train/optim/optim.h"
#include "run/folder/rundir.h"
#include "run/folder/stored_files.h"

static void corpus_spec(const mf_config *c, mf_corpus_spec *ret)
{
    mf_corpus_defaults(ret);
    ret->path = c->data.path;
    ret->val_path = c->data.val_path;
    ret->format = c->data.format;
    ret->tokenizer = c->data.tokenizer;
    ret->split = c->data.split;
    ret->clean = c->data.clean;
    ret->task = (mf_task)c->model.task;
    ret->classes = (int32_t)c->model.classes;
    ret->bin_bits = 16 * (int32_t)c->data.bin_bits;
    ret->cache = c->data.cache;
    ret->limit = c->data.limit;
    ret->pick_random = c->data.pick != 0;
    ret->first_column = c->data.first_column;
    ret->second_column = c->data.second_column;
    ret->label_column = c->data.label_column;
    ret->text_field = c->data.text_field;
    ret->prompt_field = c->data.prompt_field;
    ret->answer_field = c->data.answer_field;
    ret->messages_field = c->data.messages_field;
    ret->labels = c->data.labels;
    ret->labels_path = c->data.labels_path;
    ret->plain_chat = c->data.chat != 0;
    ret->count_all = c->data.loss != 0;
    ret->n_more = c->n_tasks;
    for (int i = 0; i < c->n_tasks; i++)
        ret->more[i] = (mf_corpus_question){.column = c->tasks[i].column,
                                            .number = c->tasks[i].task == MF_FURTHER_REGRESS,
                                            .classes = (int32_t)c->tasks[i].classes};
}

void mf_session_model_options(const mf_config *c, bool training, mf_model_options *ret)
{
    *ret = (mf_model_options){.training = training,
                              .seed = (uint64_t)c->train.seed,
                              .dropout = c->train.dropout,
                              .dropout_embedding = c->train.dropout_embedding != 0,
                              .bf16 = c->train.dtype != MF_F32,
                              .recompute = (mf_recompute)c->train.recompute,
                              .shares = c->train.accumulate > 1,
                              .merge_rows = !c->parallel.exact,
                              .record = c->device.record != 0};
}

/* Warns if a file of examples is read as running text. The model would otherwise train on
 * braces and tabs without an error. Also logs if the content, not the name, decided
 * the format. */
static void judge_format(const mf_corpus_spec *spec)
{
    static const char *const names[] = {"text", "jsonl", "tsv", "bin"};
    mf_format said, found;
    if (spec->labels && strcmp(spec->labels, "folder") == 0) return; /* judged file by file */
    if (mf_format_of(spec->format, spec->path, &said) != MF_OK ||
        mf_format_of("auto", spec->path, &found) != MF_OK)
        return;
    const char *dot = strrchr(spec->path, '.');
    if (found == MF_FORMAT_JSONL && said == found && (!dot || strcmp(dot, ".jsonl") != 0))
        mf_log(MF_LOG_INFO, "%s holds JSON lines (data.format = text reads it as text)",
               spec->path);
    if (said == MF_FORMAT_TEXT && found != said)
        mf_log(MF_LOG_WARN,
               "%s is read as running text, but seems to be %s (data.format = text); "
               "data.format = %s reads it so",
               spec->path, names[found], names[found]);
}

/* Puts the position at which a key was set before the message. */
static int at_key(const mf_config *c, const char *section, const char *key, int rc)
{
    const mf_ini_entry *e = rc == MF_OK ? NULL : mf_ini_get(c->ini, section, key);
    return e ? mf_ini_context(rc, e->file, e->line) : rc;
}

static int wrong_from(const mf_config *c, int rc)
{
    return at_key(c, "train", "from", mf_fail_context(rc, "train.from"));
}

/* Extends the message about a missing file: adds the key or option that names the file, and its
 * position. given: a caller named the file. */
static int name_missing(const mf_config *c, const mf_corpus_spec *spec, bool given)
{
    const char *option = mf_hint_text(MF_HINT_DATA);
    if (given) return mf_fail_context(MF_EINPUT, "%s", option[0] ? option : "data");
    const bool text = !mf_topics_is(spec->path) && !mf_exists(spec->path);
    const bool none = text && strcmp(spec->path, MF_DATA_NONE) == 0;
    const char *key = text                                              ? "path"
                      : spec->val_path[0] && !mf_exists(spec->val_path) ? "val_path"
                                                                        : "tokenizer";
    const mf_ini_entry *at = mf_ini_get(c->ini, "data", key);
    if (none)
        mf_fail(MF_EINPUT, "data.path = " MF_DATA_NONE ": there are no data%s",
                mf_hint_text(MF_HINT_SOME_DATA));
    if (none) return at ? mf_ini_context(MF_EINPUT, at->file, at->line) : MF_EINPUT;
    if (at && !mf_ini_is_file(at->file))
        return mf_fail_context(MF_EINPUT, "%s: data.%s", at->file, key);
    mf_fail_context(MF_EINPUT, "data.%s%s", key, text ? mf_hint_text(MF_HINT_OTHER_DATA) : "");
    return at ? mf_fail_context(MF_EINPUT, "%s:%d", at->file, at->line) : MF_EINPUT;
}

/* Checks the ids of the data. An existing model has a table with a fixed number of ids. Without
 * this check, other ids would be found only in the first batch. */
static int judge_ids(const mf_session *s, const mf_corpus_spec *spec, const mf_model_dims *dims)
{
    if (!dims || s->corpus->vocab <= dims->vocab || s->corpus->tokenizer) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: the largest id is %d: expected less than %d, the model's vocabulary; "
                   "the model has no tokenizer, so that the file must hold ids, as 'moefw "
                   "tokenize encode --bin' writes them",
                   spec->path, (int)s->corpus->vocab - 1, (int)dims->vocab);
}

/* Checks that labels of a text have the numbers with which the model was trained: a router may
 * read them. */
static int judge_labels(const mf_session *s, const mf_session_options *o)
{
    const mf_corpus *c = s->corpus;
    if (!o->dims || o->dims->labels == 0) return MF_OK;
    for (int32_t i = 0; o->label_names && i < c->n_labels; i++)
        if (i >= o->n_label_names || strcmp(c->label_names[i], o->label_names[i]) != 0)
            return mf_fail(
                MF_EINPUT,
                "the data have label \"%s\" as number %d: expected \"%s\", as in the "
                "training data",
                c->label_names[i], (int)i,
                i < o->n_label_names ? o->label_names[i] : "no further label");
    if (!c->given_labels || o->label_names) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "data.labels: the model was trained with labels that the run does not name: "
                   "expected texts without labels, or the run's own data");
}

static int load_corpus(mf_session *s, const mf_session_options *o)
{
    mf_corpus_spec spec;
    corpus_spec(s->config, &spec);
    spec.given = s->tokenizer;
    spec.class_names = o->class_names;
    spec.n_class_names = o->n_class_names;
    spec.label_names = o->label_names;
    spec.n_label_names = o->n_label_names;
    for (int i = 0; o->more_names && i < spec.n_more; i++) {
        spec.more[i].class_names = o->more_names[i].name;
        spec.more[i].n_class_names = o->more_names[i].n;
    }
    if (o->data) {
        spec.path = spec.val_path = o->data;
        spec.split = 1;
        spec.limit = 0;
        spec.labels_optional = !o->labels;
        s->other_data = true;
    }
    if (o->labels) spec.labels = o->labels;
    if (o->labels) spec.labels_path = NULL;
    int rc = mf_corpus_load(&spec, &s->corpus);
    if (rc == MF_OK) rc = judge_ids(s, &spec, o->dims);
    if (rc == MF_OK) rc = judge_labels(s, o);
    if (rc == MF_OK) judge_format(&spec);
    if (rc == MF_ENOTFOUND) rc = name_missing(s->config, &spec, o->data != NULL);
    const char *kind = s->config->data.tokenizer;
    if (rc == MF_ECONFIG && kind[0] && !strpbrk(kind, "./") && !mf_tokenizer_is_kind(kind))
        rc = at_key(s->config, "data", "tokenizer", mf_fail_context(rc, "data.tokenizer"));
    if (rc == MF_OK && !s->tokenizer) s->tokenizer = s->corpus->tokenizer;
    return rc;
}

static int dims_of(const mf_session *s, const mf_session_options *o, mf_model_dims *ret)
{
    if (o->dims) {
        *ret = *o->dims;
        ret->train_steps = s->steps;
        return MF_OK;
    }
    const mf_config *c = s->config;
    const mf_corpus *corpus = s->corpus;
    const int64_t needed = corpus ? corpus->vocab : s->tokenizer ? s->tokenizer->vocab : 0;
    if (c->model.vocab && c->model.vocab < needed)
        return mf_fail(MF_ECONFIG,
                       "model.vocab = %lld, but the data use %lld token ids; expected at "
                       "least that many, or auto",
                       (long long)c->model.vocab, (long long)needed);
    *ret = (mf_model_dims){.vocab = (int32_t)(c->model.vocab ? c->model.vocab : needed),
                           .labels = corpus ? corpus->n_labels : 0,
                           .classes = corpus ? corpus->n_classes : (int32_t)c->model.classes,
                           .train_steps = s->steps};
    if (corpus) ret->mean = corpus->mean;
    for (int i = 0; i < c->n_tasks; i++) {
        ret->more_classes[i] =
            corpus ? corpus->more[i].n_classes : (int32_t)c->tasks[i].classes;
        if (corpus) ret->more_mean[i] = corpus->more[i].mean;
    }
    if (ret->vocab < 1)
        return mf_fail(MF_ECONFIG, "model.vocab = auto needs data or a tokenizer to count ids");
    return MF_OK;
}

void mf_session_batch_spec(const mf_session *s, mf_split split, mf_batch_spec *ret)
{
    const mf_config *c = s->config;
    const bool dealt = c->data.split_windows && !s->other_data && c->data.split < 1;
    mf_batch_defaults(ret);
    ret->split = split;
    ret->task = (mf_task)c->model.task;
    ret->order = split == MF_SPLIT_TRAIN ? MF_ORDER_RANDOM : MF_ORDER_SEQUENTIAL;
    ret->rows = (int32_t)c->train.batch;
    ret->seq = (int32_t)c->model.seq;
    ret->seed = (uint64_t)c->train.seed;
    ret->pad_counts = !c->data.pad_mask;
    ret->stride = c->data.stride;
    ret->epochs = c->data.shuffle != 0;
    ret->document_end = (int32_t)c->data.document_end;
    if (ret->document_end < 0 && s->tokenizer)
        ret->document_end = s->tokenizer->special[MF_SPECIAL_EOS];
    ret->deal = dealt ? c->data.split : 0;
}

void mf_session_eval_spec(const mf_session *s, mf_split split, mf_batch_spec *ret)
{
    mf_session_batch_spec(s, split, ret);
    ret->order = MF_ORDER_SEQUENTIAL;
    ret->context = (int32_t)s->config->train.eval_context;
    if (s->eval_seq > 0) ret->seq = s->eval_seq;
}

bool mf_session_packed(const mf_session *s)
{
    return s->config->data.packing && s->corpus;
}

static int new_train_batcher(mf_session *s)
{
    mf_batch_spec spec;
    mf_session_batch_spec(s, MF_SPLIT_TRAIN, &spec);
    spec.packed = mf_session_packed(s);
    spec.parts = s->config->train.accumulate;
    return mf_batcher_new(s->corpus, &spec, &s->train);
}

static int64_t at_least_1(double steps)
{
    return steps < 1 ? 1 : (int64_t)(steps + 0.5);
}

/* Converts the configured epochs to steps. */
static void count_steps(mf_session *s)
{
    mf_train_config *t = &s->config->train;
    s->steps = t->steps;
    if (!s->train) return;
    const double per_epoch = (double)mf_batcher_count(s->train) / (double)t->accumulate;
    if (t->steps == 0) s->steps = at_least_1(ceil(t->epochs * per_epoch));
    if (t->eval_epochs > 0) t->eval_every = at_least_1(t->eval_epochs * per_epoch);
    if (t->step_epochs > 0) t->step_size = at_least_1(t->step_epochs * per_epoch);
}

/* Opens the device. A bare session computes only sizes and needs no device. */
static int open_device(mf_session *s, const mf_session_options *o)
{
    const char *name = s->config->train.device;
    if (o->bare) return MF_OK;
    const int rc = mf_backend_open(name, &s->device);
    if (s->device) s->device->host_ops_refused = s->config->device.strict;
    if (rc == MF_OK || strcmp(name, "cpu") == 0) return rc;
    return mf_fail_context(rc, "train.device = %s", name);
}

/* Opens the run's own tokenizer, or the tokenizer of the run in train.from, so that the same
 * text has the same ids. Without either, the tokenizer is made from the data. */
static int open_tokenizer(mf_session *s, const mf_session_options *o)
{
    const char *from = s->config->train.from, *file = o->tokenizer_file;
    mf_rundir *dir = NULL;
    int rc = MF_OK;
    if (!file && from[0] != '\0' && o->training) {
        rc = mf_rundir_read(from, &dir);
        if (rc != MF_OK) return wrong_from(s->config, rc);
        if (mf_exists(dir->tokenizer)) file = dir->tokenizer;
    }
    if (file) rc = mf_tokenizer_load(file, &s->own_tokenizer);
    if (file && rc == MF_OK) s->tokenizer = s->own_tokenizer;
    mf_rundir_close(dir);
    return rc;
}

/* ---- weights in files of others ---- */

static int open_stored(mf_session *s, const mf_session_options *o)
{
    const char *from = s->config->train.from;
    mf_rundir *dir = NULL;
    int rc = MF_OK;
    s->stored = o->stored;
    s->stored_given = o->stored != NULL;
    if (o->stored) return MF_OK;
    if (o->stored_file)
        return mf_exists(o->stored_file) ? mf_stored_files_read(o->stored_file, &s->stored)
                                         : MF_OK;
    if (from[0] == '\0' || !o->training) return MF_OK;
    rc = mf_rundir_read(from, &dir);
    if (rc == MF_OK && mf_exists(dir->stored))
        rc = mf_stored_files_read(dir->stored, &s->stored);
    mf_rundir_close(dir);
    return rc == MF_OK ? rc : wrong_from(s->config, rc);
}

/* The argument of the callback `bind`. */
typedef struct binding {
    const mf_session *session;
    const mf_session_options *options;
} binding;

static int freeze(const mf_config *c, mf_model *m)
{
    const int rc = mf_model_freeze(m, c->train.freeze);
    return rc == MF_ECONFIG ? at_key(c, "train", "freeze", rc) : rc;
}

static int bind(void *arg, mf_model *m)
{
    const binding *b = arg;
    const mf_session_options *o = b->options;
    const bool frozen_only = o->bind == MF_BIND_FITTING && (o->training || o->gradients);
    const int rc = freeze(b->session->config, m);
    if (rc != MF_OK || o->bind == MF_BIND_NONE) return rc;
    return mf_stored_files_bind(b->session->stored, m->store, frozen_only, o->bind_but);
}

/* Makes the model. Parameters whose weights are in files outside the run are bound to
 * these files. */
static int new_model(mf_session *s, const mf_session_options *o, const mf_model_dims *dims)
{
    const mf_model_settings settings = mf_config_model(s->config);
    binding b = {s, o};
    mf_model_options options;
    mf_session_model_options(s->config, o->training || o->gradients, &options);
    options.no_moments = !o->training;
    options.moments = mf_optim_want_moments;
    options.moments_arg = &s->config->train;
    options.device = s->device;
    options.expert_rank = o->expert_rank;
    options.expert_ranks = o->expert_ranks;
    if (s->stored) options.bind = bind;
    options.bind_arg = &b;
    int rc = mf_model_new(&settings, dims, &options, &s->model);
    if (rc == MF_OK) rc = freeze(s->config, s->model);
    if (rc == MF_OK && s->stored && !o->bare)
        rc = mf_stored_files_fill(s->stored, s->model->store);
    return rc;
}

/* Whether a code means unreadable data rather than a wrong configuration. */
static bool no_data(int rc)
{
    return rc == MF_EINPUT || rc == MF_EIO || rc == MF_ENOTFOUND;
}

/* Refuses data.packing if a part of the model reads other tokens of a sequence, because it
 * would read other documents. */
static int judge_packing(const mf_session *s)
{
    if (!s->config->data.packing || !mf_model_crosses_documents(s->model)) return MF_OK;
    return mf_fail(MF_ECONFIG,
                   "data.packing = yes: a plugin of this model looks at other tokens "
                   "of a sequence, or model.window does, and would look into other "
                   "documents; expected data.packing = no, or plugins that look at "
                   "single tokens and no window");
}

static int open_parts(mf_session *s, const mf_session_options *o)
{
    mf_model_dims dims;
    mf_session_options without;
    int rc = open_device(s, o);
    if (rc == MF_OK) rc = open_tokenizer(s, o);
    if (rc == MF_OK) rc = open_stored(s, o);
    const bool opened = rc == MF_OK;
    if (opened && !o->no_data) rc = load_corpus(s, o);
    if (opened && no_data(rc) && o->spare) {
        without = *o;
        without.training = false;
        without.dims = o->spare;
        o = &without;
        s->no_data = mf_strdup(mf_error_message());
        rc = s->no_data ? MF_OK : MF_ENOMEM;
        if (rc == MF_OK) mf_error_clear();
    }
    if (rc == MF_OK && o->training && s->corpus) rc = new_train_batcher(s);
    if (rc != MF_OK) return rc;
    count_steps(s);
    rc = dims_of(s, o, &dims);
    dims.bare = o->bare;
    if (rc == MF_OK) rc = new_model(s, o, &dims);
    if (rc == MF_OK && o->training && !o->no_controllers) rc = mf_session_judge_live(s);
    return rc == MF_OK && o->training ? judge_packing(s) : rc;
}

/* Warns about routers that order tokens by the length of the router's input. This input is the
 * output of a norm, RMSNorm or LayerNorm. While the norm's weights are 1, its length is sqrt(d)
 * s / sqrt(s^2 + eps), where s is the root mean square or the standard deviation before the
 * norm. Two such lengths differ only by the rounding errors of their sums, unless s is small,
 * or training has changed the weights. */
static void warn_of_priority(const mf_config *c)
{
    const mf_model_settings all = mf_config_model(c);
    bool limited = false;
    for (int64_t l = 0; l < c->model.layers; l++)
        limited = limited || mf_model_moe(&all, l).capacity_factor > 0;
    if (limited && c->moe.priority == MF_PRIORITY_IMPORTANCE)
        mf_log(MF_LOG_WARN,
               "moe.priority = importance: behind a norm all tokens have nearly the "
               "same length until its weights have grown apart, so that rounding "
               "errors decide which of them an expert admits; expected gate, time, "
               "drawn or position");
}

int mf_session_open(mf_config *config, const mf_session_options *options, mf_session **ret)
{
    mf_session *s = mf_alloc(1, sizeof *s);
    if (!s) {
        mf_config_free(config);
        return MF_ENOMEM;
    }
    s->config = config;
    int rc = mf_crash_patience(config->calls.patience);
    if (rc == MF_OK && options->training && config->log.mlflow[0] != '\0') {
        rc = mf_http_check(); /* checked before the run has any file */
        if (rc != MF_OK) rc = mf_fail_context(rc, "log.mlflow = %s", config->log.mlflow);
    }
    if (rc == MF_OK) rc = open_parts(s, options);
    if (rc != MF_OK) {
        mf_session_close(s);
        return rc;
    }
    if (options->training) warn_of_priority(s->config);
    *ret = s;
    return MF_OK;
}

void mf_session_close(mf_session *s)
{
    if (!s) return;
    mf_batcher_free(s->train);
    mf_model_free(s->model);
    if (!s->stored_given) mf_stored_files_free(s->stored);
    mf_tokenizer_free(s->own_tokenizer);
    mf_corpus_free(s->corpus);
    mf_config_free(s->config);
    mf_free(s->no_data);
    mf_device_close(s->device);
    mf_free(s);
}

bool mf_session_masked(const mf_session *s)
{
    return !s->corpus || s->corpus->spans != NULL;
}

bool mf_session_by_length(const mf_session *s)
{
    return s->config->data.padding != 0 && s->corpus && s->corpus->spans != NULL;
}
