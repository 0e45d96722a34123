/* run/training.c: a session as a job of the training loop, the observers of every run, and the
 * functions of the owner that the loop calls. */
#include "run/training_internal.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/start.h"

/* ---- what the loop asks ---- */

static int save_early(void *self)
{
    const mf_training *g = self;
    const bool due = mf_training_keeps(g->loop) && g->saved != mf_trainer_steps(g->loop);
    return due ? mf_training_save(g->loop) : MF_OK;
}

static int should_stop(void *self)
{
    const mf_training_options *o = &((const mf_training *)self)->options;
    return o->should_stop ? o->should_stop(o->arg) : 0;
}

static bool should_save(void *self)
{
    const mf_training_options *o = &((const mf_training *)self)->options;
    return o->should_save && o->should_save(o->arg);
}

static void free_training(void *self)
{
    mf_training *g = self;
    mf_state_free(g->resumed);
    mf_routes_close(g->routes);
    mf_free(g);
}

/* ---- construction ---- */

/* Adds the observers of every run, in the order in which they are called. */
static int add_observers(mf_training *g)
{
    mf_trainer *t = g->loop;
    int rc = mf_observe_routing(t);
    if (rc == MF_OK) rc = mf_observe_routes(t, g->routes);
    if (rc == MF_OK) rc = mf_observe_heads(t);
    if (rc == MF_OK) rc = mf_observe_predictions(t);
    if (rc == MF_OK) rc = mf_observe_gradients(t);
    if (rc == MF_OK) rc = mf_observe_evaluation(t, &g->evaluation);
    if (rc == MF_OK) rc = mf_observe_traces(t);
    if (rc == MF_OK) rc = mf_observe_controllers(t);
    if (rc == MF_OK) rc = mf_observe_run_files(t);
    if (rc == MF_OK) rc = mf_observe_metrics_log(t);
    if (rc == MF_OK) rc = mf_observe_memory_log(t);
    if (rc == MF_OK) rc = mf_observe_tensorboard(t);
    if (rc == MF_OK) rc = mf_observe_history(t);
    if (rc == MF_OK) rc = mf_observe_checkpoints(t);
    if (rc == MF_OK) rc = mf_observe_samples(t);
    if (rc == MF_OK) rc = mf_observe_limits(t);
    /* It must be the last observer: all numbers that it sends at the end are then complete. */
    return rc == MF_OK ? mf_observe_mlflow(t) : rc;
}

mf_train_job mf_training_job(const mf_session *s)
{
    const mf_config *c = s->config;
    return (mf_train_job){.model = s->model,
                          .train = &c->train,
                          .parallel = &c->parallel,
                          .record = c->device.record,
                          .steps = s->steps,
                          .source = mf_batcher_source(s->train),
                          .masked = mf_session_masked(s),
                          .packed = mf_session_packed(s),
                          .by_length = mf_session_by_length(s)};
}

static int open_routes(mf_training *g)
{
    const char *path = g->session->config->train.routes_from;
    const int rc = mf_routes_open(path, g->session->model, &g->routes);
    if (rc == MF_OK)
        mf_log(MF_LOG_INFO, "routes of %lld sequences from %s; gates are the router's",
               (long long)mf_routes_sequences(g->routes), path);
    return rc;
}

static int open_loop(mf_training *g)
{
    mf_session *s = g->session;
    mf_train_job job = mf_training_job(s);
    const mf_trainer_owner owner = {.self = g,
                                    .recall = g->options.resume ? mf_training_recall : NULL,
                                    .judge = mf_training_judge,
                                    .save = save_early,
                                    .should_stop = should_stop,
                                    .should_save = should_save,
                                    .free = free_training};
    const bool starts = !g->options.resume && s->config->train.from[0] != '\0';
    int rc = starts ? mf_start_from(s) : MF_OK;
    if (rc == MF_OK && s->config->train.routes) rc = open_routes(g);
    if (g->routes) job.given = mf_routes_given(g->routes);
    return rc == MF_OK ? mf_trainer_new(&job, g->options.world, &owner, &g->loop) : rc;
}

int mf_training_new(mf_session *s, const mf_training_options *options, mf_trainer **ret)
{
    mf_training *g = mf_alloc(1, sizeof *g);
    if (!g) return MF_ENOMEM;
    g->session = s;
    if (options) g->options = *options;
    g->saved = -1;
    int rc = open_loop(g);
    if (rc != MF_OK) {
        mf_routes_close(g->routes);
        mf_free(g);
        return rc;
    }
    rc = add_observers(g);
    if (rc == MF_OK) mf_evaluation_nmi(g->evaluation, &g->result.nmi, &g->result.nmi_random);
    if (rc == MF_OK && g->options.resume) rc = mf_training_resume(g);
    if (rc != MF_OK) {
        mf_trainer_free(g->loop);
        return rc;
    }
    *ret = g->loop;
    return MF_OK;
}

/* ---- evaluation ---- */

int64_t mf_training_last_batches(const mf_trainer *t)
{
    const mf_training *g = mf_trainer_owner_of(t);
    return mf_evaluation_last(g->evaluation, t);
}

int mf_training_evaluate(mf_trainer *t, int64_t batches, mf_metrics_record *ret)
{
    const mf_training *g = mf_trainer_owner_of(t);
    mf_metrics_record train, r;
    bool measured = false;
    if (!mf_evaluation_evaluator(g->evaluation))
        return mf_fail(MF_EUSAGE, "there is no validation split to evaluate");
    int rc = mf_trainer_begin(t);
    if (rc == MF_OK) rc = mf_evaluation_train(g->evaluation, t, &train, &measured);
    if (measured) MF_TELL(t, rc, after_eval, t, &train);
    if (rc == MF_OK) rc = mf_evaluation_val(g->evaluation, t, batches, &r);
    const bool done = mf_trainer_done(t);
    MF_TELL(t, rc, judge_eval, t, &r);
    if (rc == MF_OK && !done && mf_trainer_done(t))
        rc = mf_evaluation_val_last(g->evaluation, t, batches, &r);
    MF_TELL(t, rc, after_eval, t, &r);
    if (rc == MF_OK && ret) *ret = r;
    return rc == MF_OK ? rc : mf_trainer_note(t, mf_trainer_judge(t, rc));
}

/* ---- access ---- */

mf_session *mf_training_session(const mf_trainer *t)
{
    return ((const mf_training *)mf_trainer_owner_of(t))->session;
}

mf_rundir *mf_training_dir(const mf_trainer *t)
{
    const mf_training *g = mf_trainer_owner_of(t);
    return mf_world_rank(g->options.world) == 0 ? g->options.dir : NULL;
}

bool mf_training_keeps(const mf_trainer *t)
{
    const mf_training *g = mf_trainer_owner_of(t);
    return g->options.dir || g->options.keeps;
}

bool mf_training_resumed(const mf_trainer *t)
{
    return ((const mf_training *)mf_trainer_owner_of(t))->options.resume;
}

double mf_training_val_loss(const mf_trainer *t)
{
    return mf_evaluation_loss(((const mf_training *)mf_trainer_owner_of(t))->evaluation);
}

mf_evaluator *mf_training_evaluator(const mf_trainer *t)
{
    return mf_evaluation_evaluator(((const mf_training *)mf_trainer_owner_of(t))->evaluation);
}

const mf_train_result *mf_training_result(const mf_trainer *t)
{
    mf_training *g = mf_trainer_owner_of(t);
    mf_train_result *r = &g->result;
    r->step = mf_trainer_steps(t);
    r->tokens = mf_trainer_tokens(t);
    r->tokens_per_s = mf_trainer_speed(t);
    r->loss = mf_trainer_loss(t);
    r->val_loss = mf_evaluation_loss(g->evaluation);
    r->wall_s = mf_trainer_where(t).wall_s;
    r->floor = mf_evaluation_floor(g->evaluation);
    r->bits_per_byte = mf_evaluation_bits(g->evaluation);
    r->n_layers = g->session->model->n_moe;
    return r;
}
