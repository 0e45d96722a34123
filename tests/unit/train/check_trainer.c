/* trainer: the order of hooks in a step, and the state of observers over a resume. Steps with
 * the caller's batches, or without a run directory, must equal the steps of a run. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "tests/lib/small.h"
#include "run/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "plugin/tallies.h"

static const char *const small[] = {"data.path=builtin:topics?bytes=20000",
                                    "model.layers=2",
                                    "model.dim=16",
                                    "model.heads=2",
                                    "model.seq=16",
                                    "expert.hidden=16",
                                    "moe.experts=4",
                                    "train.batch=2",
                                    "train.steps=8",
                                    "train.log_every=100",
                                    "train.eval_every=0",
                                    "train.save_every=0",
                                    "train.eval_batches=1",
                                    "train.eval_context=0",
                                    "report.samples=0"};
enum { SMALL = sizeof small / sizeof *small };

/* more: one setting, or NULL */
static mf_config *config_of(const char *more)
{
    return small_config(SMALL, small, more != NULL, &more);
}

static mf_session *session_of(const char *more)
{
    return small_session(config_of(more), NULL);
}

static mf_rundir *reopen(const char *name)
{
    mf_rundir *dir = NULL;
    const int rc = mf_rundir_open(scratch_path(name), &dir);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return dir;
}

/* Hash of all trained parameters of a session. */
static uint64_t weights(const mf_session *s)
{
    int64_t n;
    const unsigned char *v = (const unsigned char *)mf_store_values(s->model->store, &n);
    uint64_t h = 1469598103934665603u;
    for (int64_t i = 0; i < n * (int64_t)sizeof(float); i++)
        h = (h ^ v[i]) * 1099511628211u;
    return h;
}

/* ---- the order of hooks ---- */

typedef struct teller {
    char mark; /* prefix of each call */
    char *log; /* shared by all observers */
} teller;

enum { LOG = 4096 };

static int tell(const teller *o, const char *what)
{
    const size_t n = strlen(o->log);
    snprintf(o->log + n, LOG - n, "%c.%s ", o->mark, what);
    return MF_OK;
}

static int begin(void *o, mf_trainer *t)
{
    (void)t;
    return tell(o, "begin");
}

static unsigned wants(void *o, const mf_trainer *t, int64_t step)
{
    ck_assert_int_eq(step, mf_trainer_steps(t) + 1);
    tell(o, "wants");
    return 0;
}

static int before_step(void *o, mf_trainer *t, mf_step_result *r)
{
    ck_assert_int_eq(r->step, mf_trainer_steps(t) + 1);
    return tell(o, "before");
}

static int after_batch(void *o, mf_trainer *t, mf_step_result *r)
{
    ck_assert_int_eq(r->step, mf_trainer_steps(t) + 1);
    return tell(o, "batch");
}

static int after_step(void *o, mf_trainer *t, mf_step_result *r)
{
    ck_assert_int_eq(r->step, mf_trainer_steps(t));
    ck_assert(isfinite(r->loss) && isfinite(r->grad_norm) && r->lr > 0 && r->tokens > 0);
    return tell(o, "after");
}

static int between(void *o, mf_trainer *t)
{
    (void)t;
    return tell(o, "between");
}

static int after_eval(void *o, mf_trainer *t, const mf_metrics_record *r)
{
    ck_assert_int_eq(r->step, mf_trainer_steps(t));
    return tell(o, r->split);
}

static int on_save(void *o, mf_trainer *t)
{
    (void)t;
    return tell(o, "saved");
}

static int end(void *o, mf_trainer *t)
{
    (void)t;
    return tell(o, "end");
}

static int save(void *o, mf_trainer *t, mf_state *s)
{
    (void)t, (void)s;
    return tell(o, "save");
}

static void gone(void *self)
{
    tell(self, "free");
}

static const mf_observer telling = {.name = "teller",
                                    .begin = begin,
                                    .wants = wants,
                                    .before_step = before_step,
                                    .after_batch = after_batch,
                                    .after_step = after_step,
                                    .between = between,
                                    .after_eval = after_eval,
                                    .on_save = on_save,
                                    .end = end,
                                    .save = save,
                                    .free = gone};

START_TEST(observers_are_told_in_order)
{
    char log[LOG] = "";
    teller a = {'a', log}, b = {'b', log};
    mf_rundir *dir = small_rundir("order");
    mf_session *s = session_of("train.accumulate=2");
    s->config->train.eval_train = 1;
    s->config->train.eval_every = 2;
    s->config->train.save_every = 2;
    s->steps = 3;
    const mf_training_options o = {.dir = dir};
    mf_trainer *t = small_trainer(s, &o);
    ck_assert_int_eq(mf_trainer_observe(t, &telling, &a), MF_OK);
    ck_assert_int_eq(mf_trainer_observe(t, &telling, &b), MF_OK);
    ck_assert_str_eq(log, "");
    ck_assert_int_eq(mf_trainer_begin(t), MF_OK);
    ck_assert_int_eq(mf_trainer_begin(t), MF_OK); /* a second call has no effect */
    ck_assert_str_eq(log, "a.begin b.begin ");
    log[0] = '\0';
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_OK);
    ck_assert_str_eq(log, "a.wants b.wants a.before b.before a.batch b.batch a.batch b.batch "
                          "a.after b.after a.between b.between ");
    log[0] = '\0';
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_OK);
    ck_assert_str_eq(log, "a.wants b.wants a.before b.before a.batch b.batch a.batch b.batch "
                          "a.after b.after a.train_eval b.train_eval a.val b.val "
                          "a.save b.save a.saved b.saved a.between b.between ");
    ck_assert(!mf_trainer_done(t));
    ck_assert_int_eq(mf_trainer_run(t), MF_OK);
    ck_assert(mf_trainer_done(t));
    ck_assert_ptr_nonnull(strstr(log, "b.between a.end b.end "));
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_EUSAGE); /* all steps are done */
    log[0] = '\0';
    mf_trainer_free(t);
    ck_assert_str_eq(log, "b.free a.free ");
    mf_rundir_close(dir);
    mf_session_close(s);
}
END_TEST

START_TEST(late_observers_are_refused_and_freed)
{
    char log[LOG] = "";
    teller a = {'a', log};
    mf_session *s = session_of(NULL);
    mf_trainer *t = small_trainer(s, NULL);
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_OK);
    ck_assert_int_eq(mf_trainer_observe(t, &telling, &a), MF_EUSAGE);
    ck_assert_str_eq(log, "a.free ");
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

static int refuse(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)self, (void)t, (void)r;
    return mf_fail(MF_EINVAL, "no more");
}

START_TEST(a_failing_observer_ends_the_run)
{
    static const mf_observer refusing = {.name = "refuse", .after_step = refuse};
    mf_session *s = session_of(NULL);
    mf_trainer *t = small_trainer(s, NULL);
    ck_assert_int_eq(mf_trainer_observe(t, &refusing, NULL), MF_OK);
    ck_assert_int_eq(mf_trainer_run(t), MF_EINVAL);
    ck_assert_str_eq(mf_error_message(), "no more");
    ck_assert_int_eq(mf_trainer_steps(t), 1);
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

/* ---- only requested statistics are computed ---- */

static unsigned routing_at_3(void *self, const mf_trainer *t, int64_t step)
{
    (void)self, (void)t;
    return step == 3 ? MF_WANT_ROUTING : 0;
}

START_TEST(statistics_are_of_the_steps_that_want_them)
{
    static const mf_observer third = {.name = "third", .wants = routing_at_3};
    mf_session *s = session_of(NULL);
    mf_trainer *t = small_trainer(s, NULL);
    const mf_step_result *r = NULL;
    double load[3][4];
    ck_assert_int_eq(mf_trainer_observe(t, &third, NULL), MF_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(mf_trainer_step(t, NULL, &r), MF_OK);
        ck_assert_uint_eq(r->wanted, i == 0 ? MF_WANT_ROUTING | MF_WANT_HEADS | MF_WANT_METRICS
                                     : i == 2 ? MF_WANT_ROUTING
                                              : 0);
        ck_assert_int_eq(r->n_layers, 2);
        for (int e = 0; e < 4; e++)
            load[i][e] = r->layers[1].count[e];
        if (i != 1) ck_assert_double_eq(load[i][0] + load[i][1] + load[i][2] + load[i][3], 64);
    }
    /* The second step did not request statistics, so it shows those of the first step. */
    ck_assert_mem_eq(load[0], load[1], sizeof load[0]);
    ck_assert_mem_ne(load[0], load[2], sizeof load[0]);
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

/* The bias of a router that all blocks share changes once per step, by the load of
 * all blocks. */
START_TEST(shared_routers_are_updated_once)
{
    enum { EXPERTS = 4, LAYERS = 2 };
    static const char *const set[] = {"model.share_layers=yes", "router.plugin=sigmoid_bias",
                                      "router.rate=0.25", "router.init_std=1"};
    const float rate = 0.25f;
    mf_session *s = small_session(small_config(SMALL, small, 4, set), NULL);
    mf_trainer *t = small_trainer(s, NULL);
    const mf_param *b = mf_store_find(s->model->store, "layers.0.router.bias");
    ck_assert_ptr_nonnull(b);
    for (int step = 0; step < 3; step++) {
        float before[EXPERTS];
        const mf_step_result *r = NULL;
        memcpy(before, b->value, sizeof before);
        ck_assert_int_eq(mf_trainer_step(t, NULL, &r), MF_OK);
        ck_assert_int_eq(r->n_layers, LAYERS);
        for (int e = 0; e < EXPERTS; e++) {
            double load = 0;
            for (int l = 0; l < LAYERS; l++)
                load += (double)r->layers[l].demand[e] / LAYERS;
            const int sign = load < 0.25 - 1e-6 ? 1 : load > 0.25 + 1e-6 ? -1 : 0;
            ck_assert_msg(b->value[e] == before[e] + (float)sign * rate,
                          "expert %d, load %g: from %g to %g", e, load, (double)before[e],
                          (double)b->value[e]);
        }
    }
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

/* ---- state over a resume ---- */

typedef struct counter {
    int64_t steps, loaded, recalled;
    int stop_at; /* 0: never stops */
    double losses;
} counter;

static int count_step(void *self, mf_trainer *t, mf_step_result *r)
{
    counter *o = self;
    (void)t;
    o->steps++;
    o->losses += r->loss;
    return MF_OK;
}

static int count_save(void *self, mf_trainer *t, mf_state *s)
{
    const counter *o = self;
    (void)t;
    const int rc = mf_state_set_int(s, "counter/steps", o->steps);
    return rc == MF_OK ? mf_state_set_real(s, "counter/losses", o->losses) : rc;
}

static int count_load(void *self, mf_trainer *t, const mf_state *s)
{
    counter *o = self;
    ck_assert(mf_training_resumed(t));
    ck_assert(mf_state_int(s, "counter/steps", &o->steps));
    ck_assert(mf_state_real(s, "counter/losses", &o->losses));
    o->loaded = o->steps;
    return MF_OK;
}

static int count_recall(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    ck_assert_int_le(r->step, mf_trainer_steps(t));
    ((counter *)self)->recalled++;
    return MF_OK;
}

static const mf_observer counting = {.name = "counter",
                                     .after_step = count_step,
                                     .save = count_save,
                                     .load = count_load,
                                     .recall = count_recall};

static int stop_asked(void *arg)
{
    counter *o = arg;
    return o->stop_at > 0 && o->steps >= o->stop_at ? 15 : 0;
}

static int run_counted(const char *name, bool resume, counter *c, uint64_t *ret_weights)
{
    mf_rundir *dir = resume ? reopen(name) : small_rundir(name);
    mf_session *s = session_of("train.log_every=2");
    const mf_training_options o = {
        .dir = dir, .resume = resume, .arg = c, .should_stop = stop_asked};
    mf_trainer *t = small_trainer(s, &o);
    ck_assert_int_eq(mf_trainer_observe(t, &counting, c), MF_OK);
    const int rc = mf_trainer_run(t);
    *ret_weights = weights(s);
    mf_trainer_free(t);
    mf_rundir_close(dir);
    mf_session_close(s);
    return rc;
}

START_TEST(state_of_observers_survives)
{
    counter whole = {0}, first = {.stop_at = 5}, second = {0};
    uint64_t of_whole, of_first, of_second;
    ck_assert_int_eq(run_counted("whole", false, &whole, &of_whole), MF_OK);
    ck_assert_int_eq(run_counted("parts", false, &first, &of_first), MF_ESIGNAL);
    ck_assert_str_eq(mf_error_message(), "stopped by signal 15 at step 5");
    ck_assert_int_eq(run_counted("parts", true, &second, &of_second), MF_OK);
    ck_assert_int_eq(first.steps, 5);
    ck_assert_int_eq(second.loaded, 5);
    ck_assert_int_eq(second.recalled, 3); /* called for the steps 1, 2, 4 */
    ck_assert_int_eq(second.steps, 8);
    ck_assert_double_eq(second.losses, whole.losses); /* the losses have the same bits */
    ck_assert_uint_ne(of_first, of_whole);
    ck_assert_uint_eq(of_second, of_whole);
}
END_TEST

/* ---- steps that are not finite ---- */

typedef struct spoiler {
    mf_session *s;
    mf_batch *own; /* NULL: the batch is not changed */
} spoiler;

/* Makes the loss NaN. */
static int spoil_weights(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t, (void)r;
    int64_t n;
    float *v = mf_store_values(((spoiler *)self)->s->model->store, &n);
    for (int64_t i = 0; i < n; i++)
        v[i] = NAN;
    return MF_OK;
}

/* Makes the batch wrong after the step's own run. So only the search for the first value that
 * is not finite finds a token outside the vocabulary. */
static int spoil_batch(void *self, mf_trainer *t, mf_step_result *r)
{
    spoiler *x = self;
    (void)t, (void)r;
    if (x->own) x->own->tokens[0] = 1 << 20;
    return MF_OK;
}

static int step_with(bool wrong_batch)
{
    static const mf_observer spoiling = {
        .name = "spoiler", .before_step = spoil_weights, .after_batch = spoil_batch};
    mf_session *s = session_of("train.nan_policy=skip");
    mf_batch *own;
    ck_assert_int_eq(mf_batch_new(2, 16, &own), MF_OK);
    mf_batcher_fill(s->train, 0, own);
    spoiler x = {s, wrong_batch ? own : NULL};
    mf_trainer *t = small_trainer(s, NULL);
    const mf_batch *const batches[] = {own};
    const mf_step_result *r = NULL;
    ck_assert_int_eq(mf_trainer_observe(t, &spoiling, &x), MF_OK);
    const int rc = mf_trainer_step(t, batches, &r);
    if (rc == MF_OK) ck_assert(r->skipped);
    mf_error_clear();
    mf_batch_free(own);
    mf_trainer_free(t);
    mf_session_close(s);
    return rc;
}

/* Makes the loss of the first step NaN. */
static int spoil_first(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t;
    const mf_param *p = mf_store_find(((mf_session *)self)->model->store, "norm.weight");
    const float value = r->step == 1 ? NAN : 1;
    mf_param_write((mf_param *)p, &value, 0, sizeof value);
    return MF_OK;
}

/* In a skipped step sums are 0, although every part has values. The router keeps its biases. */
START_TEST(a_skipped_step_has_no_sums)
{
    static const mf_observer spoiling = {.name = "spoiler", .before_step = spoil_first};
    static const char *const set[] = {"train.nan_policy=skip", "router.plugin=quantile"};
    mf_session *s = small_session(small_config(SMALL, small, 2, set), NULL);
    mf_trainer *t = small_trainer(s, NULL);
    const mf_param *b = mf_store_find(s->model->store, "layers.0.router.bias");
    const mf_tally_numbers n = mf_tallies_numbers(s->model->plugins);
    const mf_step_result *r = NULL;
    ck_assert_int_eq(mf_trainer_observe(t, &spoiling, s), MF_OK);
    for (int step = 0; step < 2; step++) {
        double all = 0;
        ck_assert_int_eq(mf_trainer_step(t, NULL, &r), MF_OK);
        ck_assert_int_eq(r->skipped, step == 0);
        for (int64_t i = 0; i < n.whole; i++)
            all += mf_tallies_sums(s->model->plugins).whole[i];
        ck_assert_double_eq(all, step == 0 ? 0 : (double)(2 * 4 * r->tokens));
        for (int e = 0; e < 4; e++)
            ck_assert_int_eq(b->value[e] == 0, step == 0);
    }
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

START_TEST(only_values_that_are_not_finite_are_skipped)
{
    ck_assert_int_eq(step_with(false), MF_OK);
    const int rc = step_with(true);
    ck_assert_msg(rc != MF_OK && rc != MF_ENONFINITE, "%d", rc);
}
END_TEST

/* If a model's gradients are only measured, it needs no moments. */
START_TEST(measured_gradients_need_no_moments)
{
    const mf_session_options measured = {.gradients = true};
    mf_session *s = NULL, *trained = session_of(NULL);
    ck_assert_int_eq(mf_session_open(config_of(NULL), &measured, &s), MF_OK);
    const mf_store *a = s->model->store, *b = trained->model->store;
    ck_assert(mf_store_has(a, MF_BLOCK_GRADS) && !mf_store_has(a, MF_BLOCK_MOMENT1) &&
              !mf_store_has(a, MF_BLOCK_MOMENT2));
    ck_assert(mf_store_has(b, MF_BLOCK_GRADS) && mf_store_has(b, MF_BLOCK_MOMENT2));
    ck_assert_uint_eq(mf_store_bytes(a), mf_store_bytes(b) / 2);
    mf_session_close(s);
    mf_session_close(trained);
}
END_TEST

/* ---- step by step ---- */

static uint64_t of_a_run(void)
{
    mf_session *s = session_of("train.accumulate=2");
    mf_trainer *t = small_trainer(s, NULL);
    const int rc = mf_trainer_run(t);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    ck_assert(isfinite(mf_training_result(t)->val_loss));
    const uint64_t h = weights(s);
    mf_trainer_free(t);
    mf_session_close(s);
    return h;
}

/* Trains with the batches that the session `like` would use. Returns the hash of
 * the weights. */
static uint64_t of_own_batches(mf_session *s, mf_session *like)
{
    mf_trainer *t = small_trainer(s, NULL);
    mf_batch *own[2], *odd;
    const mf_step_result *r = NULL;
    double loss = 0;
    ck_assert_int_eq(mf_batch_new(2, 16, &own[0]), MF_OK);
    ck_assert_int_eq(mf_batch_new(2, 16, &own[1]), MF_OK);
    ck_assert_int_eq(mf_batch_new(3, 16, &odd), MF_OK);
    for (int64_t step = 0; !mf_trainer_done(t); step++) {
        mf_batcher_fill(like->train, 2 * step, own[0]);
        mf_batcher_fill(like->train, 2 * step + 1, own[1]);
        const mf_batch *const wrong[] = {own[0], odd};
        ck_assert_int_eq(mf_trainer_step(t, wrong, NULL), MF_EINVAL);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "expected 2 examples of 16"));
        mf_error_clear();
        const int rc = mf_trainer_step(t, (const mf_batch *const *)own, &r);
        ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
        ck_assert_int_eq(r->step, step + 1);
        ck_assert_int_eq(r->tokens, 64);
        loss = r->loss;
    }
    ck_assert_int_eq(mf_trainer_steps(t), 8);
    ck_assert_int_eq(mf_trainer_finish(t), MF_OK);
    ck_assert_double_eq(mf_training_result(t)->loss, loss);
    const uint64_t h = weights(s);
    mf_batch_free(own[0]);
    mf_batch_free(own[1]);
    mf_batch_free(odd);
    mf_trainer_free(t);
    return h;
}

START_TEST(own_batches_make_the_same_steps)
{
    mf_session *s = session_of("train.accumulate=2");
    ck_assert_uint_eq(of_own_batches(s, s), of_a_run());
    mf_session_close(s);
}
END_TEST

/* Without data the graph has a mask, whose values are all 1 in this test. */
START_TEST(own_batches_need_no_data)
{
    const mf_session_options bare = {.training = true, .no_data = true};
    mf_session *data = session_of("train.accumulate=2"), *s = NULL;
    mf_config *config = config_of("train.accumulate=2");
    config->model.vocab = data->model->dims.vocab;
    ck_assert_int_eq(mf_session_open(config, &bare, &s), MF_OK);
    mf_trainer *t = small_trainer(s, NULL);
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "expected own batches"));
    mf_error_clear();
    ck_assert_int_eq(mf_training_evaluate(t, 0, NULL), MF_EUSAGE);
    mf_error_clear();
    mf_trainer_free(t);
    mf_session_close(s);
    config = config_of("train.accumulate=2");
    config->model.vocab = data->model->dims.vocab;
    ck_assert_int_eq(mf_session_open(config, &bare, &s), MF_OK);
    ck_assert(of_own_batches(s, data) != 0);
    mf_session_close(s);
    mf_session_close(data);
}
END_TEST

START_TEST(without_a_directory_nothing_is_saved)
{
    mf_session *s = session_of("train.eval_every=2");
    mf_trainer *t = small_trainer(s, NULL);
    mf_metrics_record r;
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_OK);
    ck_assert(isnan(mf_training_val_loss(t)));
    ck_assert_int_eq(mf_training_evaluate(t, 1, &r), MF_OK);
    ck_assert_double_eq(r.task_loss, mf_training_val_loss(t));
    ck_assert_str_eq(r.split, "val");
    ck_assert_int_eq(mf_training_save(t), MF_EUSAGE);
    mf_error_clear();
    const char *folder = scratch_path("aside");
    ck_assert_int_eq(mf_training_save_in(t, folder, 1), MF_OK);
    int64_t *steps, at;
    int n;
    ck_assert_int_eq(mf_ckpt_list(folder, &steps, &n), MF_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(steps[0], 1);
    mf_free(steps);
    const uint64_t saved = weights(s);
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_OK);
    ck_assert_uint_ne(weights(s), saved);
    ck_assert_int_eq(mf_ckpt_load(folder, -1, s->model->store, &at), MF_OK);
    ck_assert_uint_eq(weights(s), saved);
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer");
    TCase *c = tcase_create("trainer");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, observers_are_told_in_order);
    tcase_add_test(c, late_observers_are_refused_and_freed);
    tcase_add_test(c, a_failing_observer_ends_the_run);
    tcase_add_test(c, statistics_are_of_the_steps_that_want_them);
    tcase_add_test(c, shared_routers_are_updated_once);
    tcase_add_test(c, state_of_observers_survives);
    tcase_add_test(c, a_skipped_step_has_no_sums);
    tcase_add_test(c, only_values_that_are_not_finite_are_skipped);
    tcase_add_test(c, measured_gradients_need_no_moments);
    tcase_add_test(c, own_batches_make_the_same_steps);
    tcase_add_test(c, own_batches_need_no_data);
    tcase_add_test(c, without_a_directory_nothing_is_saved);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
