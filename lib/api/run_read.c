/* api/run_read.c: opens runs for reading, and evaluates any run.
 *
 * During training, the trainer evaluates in the arena of the training graph. A run that is only
 * read has its own evaluator, for the split of the last request. */
#include "api/run_internal.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "run/load.h"
#include "run/modules.h"

#define READY (MF_RUN_IS(MF_RUN_TRAINING) | MF_RUN_IS(MF_RUN_READING))

/* ---- opening ---- */

static int open_untrained(moefw_run *run, const moefw_open_options *o)
{
    mf_config *config;
    const mf_session_options options = {
        .no_data = !o->data, .data = o->path, .gradients = o->gradients != 0};
    int rc = mf_run_expect(run, "open", MF_RUN_IS(MF_RUN_CONFIGURED));
    if (rc == MF_OK) rc = mf_run_config(run, &config);
    return rc == MF_OK ? mf_session_open(config, &options, &run->session) : rc;
}

static int open_run(moefw_run *run, const char *dir, const moefw_open_options *o)
{
    const mf_session_options options = {
        .no_data = !o->data, .data = o->path, .gradients = o->gradients != 0};
    const mf_load_change change = {.step = o->step, .dtype = o->dtype, .device = o->device};
    if (!(run->directory = mf_strdup(dir))) return MF_ENOMEM;
    return mf_load_run_as(dir, &options, &change, &run->session, &run->step);
}

static int open_reading(moefw_run *run, const char *dir, const moefw_open_options *asked)
{
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    int rc = mf_run_expect(run, "open", MF_RUN_IS(MF_RUN_NEW) | MF_RUN_IS(MF_RUN_CONFIGURED));
    if (rc != MF_OK) return rc;
    if (asked && (asked->size < sizeof asked->size || asked->size > (size_t)1 << 16))
        return mf_fail(MF_EINVAL, "open: options: expected their size, found %zu", asked->size);
    if (asked) memcpy(&o, asked, asked->size < sizeof o ? asked->size : sizeof o);
    if (o.threads || !run->config) run->threads = o.threads;
    mf_parallel_set_threads(run->threads);
    rc = dir ? open_run(run, dir, &o) : open_untrained(run, &o);
    if (rc == MF_OK && dir) rc = mf_run_usual(dir, &run->usual);
    if (rc != MF_OK) {
        mf_run_close(run);
        return rc;
    }
    run->generate_only = o.generate_only != 0;
    run->state = MF_RUN_READING;
    mf_ini_free(run->resolved);
    run->resolved = NULL;
    return MF_OK;
}

int moefw_run_open(moefw_run *run, const char *dir, const moefw_open_options *options)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, open_reading(run, dir, options));
}

/* Returns the number of experts of each block, 0 for a block without MoE. The model owns the
 * array. NULL: not enough memory. */
static const int32_t *layer_experts(moefw_run *run)
{
    mf_model *m = run->session->model;
    const int32_t n = (int32_t)m->config->model.layers;
    if (m->layer_experts) return m->layer_experts;
    int32_t *all = mf_arena_alloc(m->arena, (size_t)n * sizeof *all);
    for (int32_t l = 0; all && l < n; l++)
        all[l] = m->moe_of_layer[l] < 0 ? 0 : (int32_t)mf_model_moe(m->config, l).experts;
    return m->layer_experts = all;
}

static int info(moefw_run *run, moefw_info *ret)
{
    int rc = mf_run_expect(run, "info", READY);
    if (rc != MF_OK) return rc;
    const mf_model *m = run->session->model;
    const mf_config *c = run->session->config;
    const int32_t *experts = layer_experts(run);
    if (!experts) return MF_ENOMEM;
    moefw_info known = {.size = sizeof known,
                        .step = run->trainer ? mf_trainer_steps(run->trainer) : run->step,
                        .steps = run->session->steps,
                        .vocab = m->dims.vocab,
                        .seq = (int32_t)c->model.seq,
                        .layers = (int32_t)c->model.layers,
                        .moe_layers = m->n_moe,
                        .experts = mf_model_most_experts(m->config),
                        .top_k = (int32_t)mf_model_moe(m->config, -1).top_k,
                        .batch = (int32_t)c->train.batch,
                        .accumulate = (int32_t)c->train.accumulate,
                        .directory = run->directory,
                        .layer_experts = experts};
    mf_model_count(m, &known.params, &known.params_active);
    return mf_run_fill(ret, &known, sizeof known);
}

int moefw_run_info(moefw_run *run, moefw_info *ret)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, ret ? info(run, ret) : mf_run_null("info", "a struct"));
}

/* ---- evaluation ---- */

int mf_run_metrics(moefw_run *run, const mf_metrics_record *r, moefw_metrics *ret)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_metrics_json(w, r);
    const char *text = mf_jw_text(w, NULL);
    if (!text) {
        mf_jw_free(w);
        return MF_ENOMEM;
    }
    mf_jw_free(run->json);
    run->json = w;
    *ret = (moefw_metrics){.size = sizeof *ret,
                           .step = r->step,
                           .split = r->split,
                           .loss = r->loss,
                           .task_loss = r->task_loss,
                           .perplexity = r->ppl,
                           .accuracy = r->accuracy,
                           .lr = r->lr,
                           .grad_norm = r->grad_norm,
                           .floor = r->floor,
                           .tokens_per_s = r->tokens_per_s,
                           .tokens = r->tokens,
                           .json = text};
    return MF_OK;
}

static int split_of(const char *name, mf_split *ret)
{
    *ret = MF_SPLIT_VAL;
    for (int i = 0; name && i < MF_SPLITS; i++)
        if (strcmp(mf_split_name((mf_split)i), name) == 0) {
            *ret = (mf_split)i;
            return MF_OK;
        }
    return name ? mf_fail(MF_EINVAL, "split: expected train, val or test, found '%s'", name)
                : MF_OK;
}

static int evaluator_for(moefw_run *run, mf_split split)
{
    if (run->evaluator && run->evaluated == split) return MF_OK;
    mf_evaluator_free(run->evaluator);
    run->evaluator = NULL;
    run->evaluated = split;
    return mf_evaluator_new(run->session, split, NULL, &run->evaluator);
}

/* The weights of a run that only generates are packed for generation, so nothing else can
 * read them. */
static int expect_evaluation(const moefw_run *run)
{
    int rc = mf_run_expect(run, "evaluate", READY);
    if (rc == MF_OK && run->generate_only)
        rc = mf_fail(MF_EUSAGE, "evaluate: the run was opened to generate only");
    return rc;
}

/* Evaluates a split; the result is run->record. */
static int evaluate_split(moefw_run *run, mf_split split, int64_t batches)
{
    int rc = expect_evaluation(run);
    if (rc != MF_OK) return rc;
    if (!run->session->corpus)
        return mf_fail(MF_EUSAGE,
                       "evaluate: the run has no data; expected one opened with data");
    if (run->trainer) {
        if (split != MF_SPLIT_VAL)
            return mf_fail(MF_EUSAGE,
                           "evaluate: expected split val while a run trains, found %s",
                           mf_split_name(split));
        return mf_training_evaluate(run->trainer, batches, &run->record);
    }
    rc = evaluator_for(run, split);
    return rc == MF_OK ? mf_evaluator_run(run->evaluator, run->step, batches, &run->record)
                       : rc;
}

static int evaluate(moefw_run *run, const char *name, int64_t batches, moefw_metrics *ret)
{
    mf_split split;
    moefw_metrics known;
    int rc = split_of(name, &split);
    if (rc == MF_OK && batches < 0)
        rc = mf_fail(MF_EINVAL, "evaluate: expected at least 0 batches, found %lld",
                     (long long)batches);
    if (rc == MF_OK) rc = evaluate_split(run, split, batches);
    if (rc == MF_OK) rc = mf_run_metrics(run, &run->record, &known);
    return rc == MF_OK ? mf_run_fill(ret, &known, sizeof known) : rc;
}

int moefw_run_evaluate(moefw_run *run, const char *split, int64_t batches, moefw_metrics *ret)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, evaluate(run, split, batches, ret));
}

/* ---- a batch of the caller ---- */

static int evaluate_batch(moefw_run *run, const moefw_batch *b, double *ret_loss)
{
    mf_batch *copy = NULL;
    int rc = expect_evaluation(run);
    if (rc == MF_OK && (!b || !ret_loss))
        rc = mf_fail(MF_EINVAL, "evaluate: no batch, or no result");
    if (rc == MF_OK) rc = mf_run_judge_batch(run, b);
    if (rc == MF_OK && b->width > run->session->config->model.seq)
        rc = mf_fail(MF_EINVAL, "batch: expected at most %lld tokens in a row, found %d",
                     (long long)run->session->config->model.seq, (int)b->width);
    if (rc != MF_OK) return rc;
    if (!run->own || run->own->shape.batch != b->rows || run->own->shape.seq != b->width) {
        const mf_model_shape shape = {
            .mode = MF_MODE_EVAL, .batch = b->rows, .seq = b->width, .masked = true};
        mf_model_graph_free(run->own);
        run->own = NULL;
        rc = mf_model_graph_new(run->session->model, &shape, &run->own);
    }
    if (rc == MF_OK) rc = mf_batch_new(b->rows, b->width, &copy);
    if (rc == MF_OK) {
        const mf_run plain = {.forward_only = true};
        mf_run_copy_batch(copy, b);
        mf_batch_feed(copy, run->own);
        rc = mf_graph_run(run->own->g, &plain);
    }
    float loss = 0;
    if (rc == MF_OK) rc = mf_tensor_read(run->own->task_loss, &loss, 0, sizeof loss);
    if (rc == MF_OK) *ret_loss = (double)loss;
    mf_batch_free(copy);
    return rc;
}

int moefw_run_evaluate_batch(moefw_run *run, const moefw_batch *batch, double *ret_loss)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, evaluate_batch(run, batch, ret_loss));
}
