#include "train/session.h"
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/io.h"
#include "base/mem.h"
#include "train/rundir.h"

static int load_corpus(mf_session *s, const mf_session_options *o)
{
    const mf_config *c = s->config;
    mf_corpus_spec spec;
    mf_corpus_defaults(&spec);
    spec.path = c->data.path;
    spec.val_path = c->data.val_path;
    spec.format = c->data.format;
    spec.tokenizer = c->data.tokenizer;
    spec.given = s->tokenizer;
    spec.split = c->data.split;
    spec.task = (mf_task)c->model.task;
    spec.classes = (int32_t)c->model.classes;
    if (o->data) {
        spec.path = spec.val_path = o->data;
        spec.split = 1;
        s->other_data = true;
    }
    int rc = mf_corpus_load(&spec, &s->corpus);
    if (rc == MF_ENOTFOUND)
        rc = mf_fail_context(MF_EINPUT, o->data ? "--data" : "data.path (--data FILE names another)");
    if (rc == MF_OK && !s->tokenizer) s->tokenizer = s->corpus->tokenizer;
    return rc;
}

static int facts_of(const mf_session *s, const mf_session_options *o, mf_model_facts *ret)
{
    if (o->facts) {
        *ret = *o->facts;
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
    *ret = (mf_model_facts){.vocab = (int32_t)(c->model.vocab ? c->model.vocab : needed),
                            .labels = corpus ? corpus->n_labels : 0,
                            .classes = corpus ? corpus->n_classes : (int32_t)c->model.classes,
                            .train_steps = s->steps};
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
    ret->stride = c->data.stride;
    ret->deal = dealt ? c->data.split : 0;
}

static int new_train_batcher(mf_session *s)
{
    mf_batch_spec spec;
    mf_session_batch_spec(s, MF_SPLIT_TRAIN, &spec);
    return mf_batcher_new(s->corpus, &spec, &s->train);
}

/* steps, or as many as the epochs hold. */
static void count_steps(mf_session *s)
{
    const mf_train_config *t = &s->config->train;
    s->steps = t->steps;
    if (t->steps > 0 || !s->train) return;
    const double per_epoch = (double)mf_batcher_count(s->train) / (double)t->accumulate;
    s->steps = (int64_t)ceil(t->epochs * per_epoch);
    if (s->steps < 1) s->steps = 1;
}

/* What the configuration asks for and this build or machine cannot do. */
static int judge_machine(const mf_config *c)
{
    if (strcmp(c->train.device, "cpu") != 0)
        return mf_fail(MF_EDEP, "train.device = %s: this moefw has no backend for it; expected cpu",
                       c->train.device);
    if (c->train.dtype != 0)
        return mf_fail(MF_EDEP,
                       "train.dtype = bf16: this moefw computes in f32 only; expected f32");
    return mf_backend_init();
}

/* The run's own tokenizer, or that of the run whose weights it begins with: the same text gives the
 * same ids. */
static int open_tokenizer(mf_session *s, const mf_session_options *o)
{
    const char *from = s->config->train.from, *file = o->tokenizer_file;
    mf_rundir *dir = NULL;
    int rc = MF_OK;
    if (!file && from[0] != '\0' && o->training) {
        rc = mf_rundir_read(from, &dir);
        if (rc != MF_OK) return mf_fail_context(rc, "train.from");
        if (mf_exists(dir->tokenizer)) file = dir->tokenizer;
    }
    if (file) rc = mf_tokenizer_load(file, &s->own_tokenizer);
    if (file && rc == MF_OK) s->tokenizer = s->own_tokenizer;
    mf_rundir_close(dir);
    return rc;
}

/* Codes of data that cannot be read, in contrast to a configuration that is wrong. */
static bool no_data(int rc)
{
    return rc == MF_EINPUT || rc == MF_EIO || rc == MF_ENOTFOUND;
}

static int open_parts(mf_session *s, const mf_session_options *o)
{
    mf_model_facts facts;
    mf_session_options without;
    int rc = judge_machine(s->config);
    if (rc == MF_OK) rc = open_tokenizer(s, o);
    const bool opened = rc == MF_OK;
    if (opened && !o->no_data) rc = load_corpus(s, o);
    if (opened && no_data(rc) && o->spare) {
        without = *o;
        without.training = false;
        without.facts = o->spare;
        o = &without;
        rc = MF_OK;
        mf_error_clear();
    }
    if (rc == MF_OK && o->training) rc = new_train_batcher(s);
    if (rc != MF_OK) return rc;
    count_steps(s);
    rc = facts_of(s, o, &facts);
    facts.bare = o->bare;
    return rc == MF_OK ? mf_model_new(s->config, &facts, o->training, &s->model) : rc;
}

int mf_session_open(mf_config *config, const mf_session_options *options, mf_session **ret)
{
    mf_session *s = mf_alloc(1, sizeof *s);
    if (!s) {
        mf_config_free(config);
        return MF_ENOMEM;
    }
    s->config = config;
    int rc = open_parts(s, options);
    if (rc != MF_OK) {
        mf_session_close(s);
        return rc;
    }
    *ret = s;
    return MF_OK;
}

void mf_session_close(mf_session *s)
{
    if (!s) return;
    mf_batcher_free(s->train);
    mf_model_free(s->model);
    mf_tokenizer_free(s->own_tokenizer);
    mf_corpus_free(s->corpus);
    mf_config_free(s->config);
    mf_free(s);
}

double mf_session_floor(mf_session *s)
{
    if (!s->floor_known)
        s->floor = s->corpus ? mf_corpus_floor(s->corpus, MF_SPLIT_VAL, MF_FLOOR_PAST, 0, 0)
                             : (double)NAN;
    s->floor_known = true;
    return s->floor;
}

static void copy(const mf_tensor *to, const void *from, int64_t n)
{
    void *data = to ? mf_tensor_data(to) : NULL;
    if (data) memcpy(data, from, (size_t)n * 4);
}

void mf_session_feed(const mf_batch *b, mf_model_graph *mg)
{
    const int64_t n = (int64_t)b->rows * b->seq;
    copy(mg->tokens, b->tokens, n);
    copy(mg->positions, b->positions, n);
    copy(mg->sequence_ids, b->sequence, n);
    copy(mg->targets, mg->by_row ? b->classes : b->targets, mg->by_row ? b->rows : n);
    copy(mg->mask, b->mask, n);
    copy(mg->labels, b->labels, n);
}
