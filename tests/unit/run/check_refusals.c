/* refusals: what sessions, trainers and trace recorders refuse, with their messages. Also rare
 * settings of a run: the measure of the best checkpoint, steps that take minutes, scores. */
#include "check_main.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "generate/generator.h"
#include "tests/lib/expect.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "tests/lib/small.h"
#include "run/device_use.h"
#include "run/load.h"
#include "run/folder/provenance.h"
#include "train/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static time_t ahead; /* seconds by which the monotonic clock is ahead of the system's */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && clock == CLOCK_MONOTONIC) t->tv_sec += ahead;
    return rc;
}

static const char *const small[] = {"data.path=builtin:topics?bytes=5000",
                                    "model.layers=1",
                                    "model.dim=8",
                                    "model.heads=2",
                                    "model.seq=16",
                                    "expert.hidden=8",
                                    "moe.experts=4",
                                    "train.batch=2",
                                    "train.steps=3",
                                    "train.eval_every=0",
                                    "train.save_every=0",
                                    "train.eval_batches=1",
                                    "train.eval_context=0",
                                    "report.enabled=no",
                                    "report.samples=0"};
enum { SMALL = sizeof small / sizeof *small };

static mf_session *session_with(int n, const char *const *more)
{
    return small_session(small_config(SMALL, small, n, more), NULL);
}
#define SESSION(...)                                                                           \
    session_with(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *),                         \
                 (const char *const[]){__VA_ARGS__})

static mf_trainer *trainer_of(mf_session *s, mf_rundir *dir)
{
    return small_trainer(s, &(mf_training_options){.dir = dir});
}

/* ---- sessions ---- */

static void no_session(const char *const *set, int n, bool no_data, const char *part)
{
    const mf_session_options o = {.training = true, .no_data = no_data};
    mf_session *s = NULL;
    expect_failure(mf_session_open(small_config(SMALL, small, n, set), &o, &s), MF_ECONFIG,
                   part);
    ck_assert_ptr_null(s);
}

START_TEST(vocabularies_that_cannot_be)
{
    static const char *const few[] = {"model.vocab=5"}, *const none[] = {"model.vocab=auto"};
    no_session(few, 1, false, "model.vocab = 5, but the data use ");
    no_session(none, 1, true, "model.vocab = auto needs data or a tokenizer");
}
END_TEST

START_TEST(routers_with_too_many_options)
{
    static const char first[] = "hash:a=1";
    char router[2048];
    size_t n = (size_t)snprintf(router, sizeof router, "%s", first);
    for (int i = 0; i < 80; i++)
        n += (size_t)snprintf(router + n, sizeof router - n, ",a%d=1", i);
    mf_rundir *dir = small_rundir("options");
    static const char manifest[] = "{\"vocab\":5,\"labels\":0,\"classes\":0}";
    scratch_write(dir->config, "", 0);
    scratch_write(dir->manifest, manifest, sizeof manifest - 1);
    const mf_load_change change = {.router = router, .step = -1};
    const mf_session_options o = {.no_data = true};
    mf_session *s = NULL;
    int64_t step;
    expect_failure(mf_load_run_as(dir->path, &o, &change, &s, &step), MF_EUSAGE,
                   "router hash: expected at most 62 options");
    ck_assert_ptr_null(s);
    mf_rundir_close(dir);
}
END_TEST

/* ---- steps ---- */

static int count_to_ten(void *self, mf_trainer *t, mf_step_result *r)
{
    int *n = self;
    (void)t, (void)r;
    ahead++; /* each micro-batch takes a second */
    return ++*n < 10 ? MF_OK : mf_fail(MF_EINVAL, "enough");
}

/* The lines that are logged while the function runs. The caller frees the text. */
static char *logged(int (*work)(void *arg), void *arg, int *ret_rc)
{
    const char *path = scratch_path("log");
    fflush(stderr);
    const int saved = dup(2);
    ck_assert_ptr_nonnull(freopen(path, "w", stderr));
    *ret_rc = work(arg);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    return scratch_read(path, NULL);
}

static int take_step(void *t)
{
    return mf_trainer_step(t, NULL, NULL);
}

START_TEST(a_step_of_minutes_is_foretold)
{
    static const mf_observer counting = {.name = "counter", .after_batch = count_to_ten};
    int n = 0, rc;
    long long seconds, runs;
    mf_session *s = SESSION("train.accumulate=4096");
    mf_trainer *t = trainer_of(s, NULL);
    ck_assert_int_eq(mf_trainer_observe(t, &counting, &n), MF_OK);
    ck_assert_int_eq(mf_trainer_status(t), MF_OK);
    char *log = logged(take_step, t, &rc);
    ck_assert_int_eq(rc, MF_EINVAL);
    const char *warning = strstr(log, "a step will take about ");
    ck_assert_msg(warning != NULL, "%s", log);
    ck_assert_int_eq(
        sscanf(warning, "a step will take about %lld s: %lld runs of", &seconds, &runs), 2);
    ck_assert_int_eq(runs, 4096);
    ck_assert_int_ge(seconds, 2048);
    ck_assert_ptr_null(strstr(warning + 1, "a step will take about ")); /* once */
    free(log);
    mf_error_clear();
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

static int diverge(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)self, (void)t, (void)r;
    return mf_fail(MF_ENONFINITE, "no number");
}

/* The status is that of the call that ended training. A refused call does not end training. */
START_TEST(the_status_of_a_trainer)
{
    static const mf_observer ending = {.name = "ending", .after_step = diverge};
    mf_session *s = SESSION("train.steps=3");
    mf_trainer *t = trainer_of(s, NULL);
    ck_assert_int_eq(mf_trainer_observe(t, &ending, NULL), MF_OK);
    ck_assert_int_eq(mf_training_save(t), MF_EUSAGE);
    ck_assert_int_eq(mf_trainer_status(t), MF_OK);
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_ENONFINITE);
    ck_assert_int_eq(mf_trainer_status(t), MF_ENONFINITE);
    mf_error_clear();
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

/* ---- the best checkpoint ---- */

enum { MEASURES = 6, VALIDATIONS = 16 };
static const char *const measures[MEASURES] = {"loss", "accuracy", "macro_f1",
                                               "mse",  "pearson",  "spearman"};

typedef struct seen {
    double value[VALIDATIONS][MEASURES];
    int64_t step[VALIDATIONS];
    int n;
} seen;

static int look(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    seen *all = self;
    ck_assert_int_eq(r->n_tasks, 2);
    const mf_task_score *class = &r->tasks[0], *number = &r->tasks[1];
    const double value[MEASURES] = {r->task_loss, class->accuracy, class->macro_f1,
                                    number->mse,  number->pearson, number->spearman};
    ck_assert_int_lt(all->n, VALIDATIONS);
    memcpy(all->value[all->n], value, sizeof value);
    all->step[all->n++] = mf_trainer_steps(t);
    return MF_OK;
}

/* The step of the best value of measure m. Of equal values the first is the best, and any
 * number is better than a missing one. */
static int64_t best_of(const seen *all, int m)
{
    const bool less = m == 0 || m == 3;
    int best = 0;
    for (int i = 1; i < all->n; i++) {
        const double now = all->value[i][m], then = all->value[best][m];
        if (isnan(then) || (less ? now < then : now > then)) best = i;
    }
    return all->step[best];
}

static const char *rows(void)
{
    static char path[600];
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "sentence\tlabel\tscore\n");
    for (int i = 0; i < 24; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%c %c\t%d\t%d\n", 'a' + i % 5,
                              'a' + i % 3, 'a' + i % 7, i % 2, (7 * i) % 11);
    scratch_write(scratch_path("rows.tsv"), text, n);
    snprintf(path, sizeof path, "data.path=%s", scratch_path("rows.tsv"));
    return path;
}

START_TEST(the_best_checkpoint_is_that_of_the_measure)
{
    static const mf_observer looking = {.name = "look", .after_eval = look};
    const char *name = measures[_i];
    char by[64];
    snprintf(by, sizeof by, "train.best_by=%s", name);
    seen all = {.n = 0};
    int64_t *steps;
    int n;
    mf_rundir *dir = small_rundir(name);
    mf_session *s =
        SESSION(rows(), "data.format=tsv", "model.task=classify", "task.score.task=regress",
                "data.split=0.5", "train.keep_best=yes", "train.eval_every=1", "train.steps=6",
                "train.lr=0.1", "train.warmup=0", "train.eval_batches=9", "train.batch=4", by);
    mf_trainer *t = trainer_of(s, dir);
    ck_assert_int_eq(mf_trainer_observe(t, &looking, &all), MF_OK);
    ck_assert_msg(mf_trainer_run(t) == MF_OK, "%s", mf_error_message());
    ck_assert_int_ge(all.n, 6);
    ck_assert_int_eq(mf_ckpt_list(dir->best, &steps, &n), MF_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_msg(steps[0] == best_of(&all, _i), "%s: %lld", name, (long long)steps[0]);
    mf_free(steps);
    mf_trainer_free(t);
    mf_session_close(s);
    mf_rundir_close(dir);
}
END_TEST

/* ---- resume ---- */

/* Resumes in a new session, because a session can have only one trainer. */
static int resume(mf_rundir *dir)
{
    mf_session *s = SESSION("train.steps=3");
    const mf_training_options o = {.dir = dir, .resume = true};
    mf_trainer *t = NULL;
    int rc = mf_training_new(s, &o, &t);
    if (rc == MF_OK) rc = mf_trainer_begin(t);
    mf_trainer_free(t);
    mf_session_close(s);
    return rc;
}

/* Saves a checkpoint of step 2 that contains only a part of a run's state. */
static void save_part(const mf_session *s, const mf_rundir *dir, bool position)
{
    static const char *const names[] = {"step", "tokens", "skipped"};
    mf_state *state = mf_state_new();
    for (int i = 0; position && i < 3; i++)
        ck_assert_int_eq(mf_state_set_int(state, names[i], 2 - i), MF_OK);
    ck_assert_msg(mf_ckpt_save(dir->ckpt, 2, s->model->store, NULL, state, mf_provenance_of(s),
                               5) == MF_OK,
                  "%s", mf_error_message());
    mf_state_free(state);
}

START_TEST(runs_that_cannot_go_on)
{
    mf_session *s = SESSION("train.steps=3");
    mf_rundir *dir = small_rundir("resumed");
    expect_failure(resume(NULL), MF_EUSAGE, "resume: expected a run directory, found none");
    mf_trainer *t = trainer_of(s, dir);
    ck_assert_int_eq(mf_trainer_step(t, NULL, NULL), MF_OK);
    ck_assert_int_eq(mf_training_save(t), MF_OK);
    /* The folder belongs to the run. So a file that is missing was removed after the run had
     * written it. */
    ck_assert_int_eq(mf_trainer_judge(t, MF_OK), MF_OK);
    expect_failure(
        mf_trainer_judge(t, mf_fail(MF_ENOTFOUND, "model.safetensors: gone")), MF_ERUN,
        "a file that the run has just written is missing or damaged: model.safetensors");
    expect_failure(mf_trainer_judge(t, mf_fail(MF_EIO, "full")), MF_EIO, "full");
    expect_failure(mf_trainer_judge(t, mf_fail(MF_ENONFINITE, "x")), MF_ENONFINITE, "x");
    mf_trainer_free(t);
    ck_assert_msg(resume(dir) == MF_OK, "%s", mf_error_message());
    save_part(s, dir, false);
    expect_failure(resume(dir), MF_ECHECKPOINT, "the checkpoint lacks the position of the run");
    save_part(s, dir, true);
    expect_failure(resume(dir), MF_ECHECKPOINT,
                   "the checkpoint lacks the last validation loss");
    /* the mark that the run has ended, which is removed when the run continues */
    char path[640];
    snprintf(path, sizeof path, "%s/ckpt/step-2", dir->path);
    ck_assert_int_eq(mf_remove_tree(path), MF_OK);
    snprintf(path, sizeof path, "%s/%s", dir->path, MF_RUN_ENDED);
    ck_assert_int_eq(mf_mkdir(path), MF_OK);
    expect_failure(resume(dir), MF_EIO, "cannot remove ");
    mf_session_close(s);
    mf_rundir_close(dir);
}
END_TEST

/* Damaged members of a manifest that describe a model's outputs. */
START_TEST(manifests_that_are_damaged)
{
    static const char *const texts[] = {
        "{\"vocab\":0,\"labels\":0,\"classes\":0}",
        "{\"vocab\":5,\"labels\":0,\"classes\":2,\"tasks\":[{},{\"classes\":-1}]}",
        "{\"vocab\":5,\"labels\":0,\"classes\":2,\"tasks\":[{},{},{\"classes\":\"2\"}]}"};
    static const char *const parts[] = {"expected a whole number \"vocab\"",
                                        "\"tasks\"[1]: expected a whole number \"classes\"",
                                        "\"tasks\"[2]: expected a whole number \"classes\""};
    static const char names[] = "{\"class_names\":[\"a\",7]}",
                      good[] = "{\"vocab\":5,\"labels\":0,\"classes\":2,\"tasks\":[{},"
                               "{\"classes\":3}],\"class_names\":[\"a\",\"b\"]}";
    const char *path = scratch_path("manifest.json"), **name;
    mf_model_dims dims;
    int32_t n;
    for (int i = 0; i < 3; i++) {
        scratch_write(path, texts[i], strlen(texts[i]));
        expect_failure(mf_provenance_read_dims(path, &dims), MF_EINPUT, parts[i]);
    }
    scratch_write(path, names, sizeof names - 1);
    expect_failure(mf_provenance_read_classes(path, &name, &n), MF_EINPUT,
                   "manifest.json: \"class_names\": expected strings");
    scratch_write(path, good, sizeof good - 1);
    ck_assert_int_eq(mf_provenance_read_dims(path, &dims), MF_OK);
    ck_assert(dims.vocab == 5 && dims.classes == 2 && dims.more_classes[0] == 3);
    ck_assert_int_eq(mf_provenance_read_classes(path, &name, &n), MF_OK);
    ck_assert(n == 2 && strcmp(name[1], "b") == 0);
    mf_free(name);
}
END_TEST

/* If a part of the manifest cannot be obtained, no manifest is written. */
START_TEST(a_manifest_without_memory)
{
    mf_session *s = SESSION("regularizer.balance.weight=0.5");
    const char *path = scratch_path("whole.json");
    int rc = MF_ENOMEM;
    mf_provenance_of(s); /* this result is computed only once */
    for (long nth = 1; rc != MF_OK; nth++) {
        fault_alloc(nth, FAULT_ONCE);
        rc = mf_provenance_write(path, s, "[model]\n");
        const bool hit = fault_hit();
        fault_off();
        ck_assert_msg(rc == (hit ? MF_ENOMEM : MF_OK), "allocation %ld: %d, %s", nth, rc,
                      mf_error_message());
        ck_assert_int_eq(mf_exists(path), rc == MF_OK);
    }
    mf_session_close(s);
}
END_TEST

/* A live option is found in a checkpoint of a version in which the option had another name. */
START_TEST(live_options_under_their_old_names)
{
    double scale;
    mf_session *s = SESSION("adapter.skip.plugin=unet_skip", "model.layers=2");
    mf_plughost *h = s->model->plugins;
    mf_state *state = mf_state_new();
    ck_assert_int_eq(mf_state_set_real(state, MF_LIVE_STATE "model.skip_scale", 0.25), MF_OK);
    ck_assert_int_eq(mf_load_live(h, state, NULL), MF_OK);
    ck_assert_int_eq(mf_live_get(h, "adapter.skip.scale", &scale), MF_OK);
    ck_assert_double_eq(scale, 0.25);
    ck_assert_int_eq(mf_state_set_real(state, MF_LIVE_STATE "adapter.skip.scale", 0.5), MF_OK);
    ck_assert_int_eq(mf_load_live(h, state, NULL), MF_OK);
    ck_assert_int_eq(mf_live_get(h, "adapter.skip.scale", &scale), MF_OK);
    ck_assert_double_eq(scale, 0.5); /* the present name takes precedence */
    mf_state_free(state);
    mf_session_close(s);
}
END_TEST

/* ---- texts about a device ---- */

START_TEST(what_is_known_of_a_device)
{
    const size_t gib = (size_t)1 << 30;
    static const char *const texts[][2] = {
        {"MFU 31.2 %, 4.0 of 8.0 GiB",
         "MFU 31.2 % of 100 TFLOP/s in bf16; 4.0 of 8.0 GiB of memory in use"},
        {"4.0 of 8.0 MiB",
         "MFU not known: no peak of this device in f32; 4.0 of 8.0 MiB of memory in use"},
        {"memory not known", "MFU not known; memory not known"}};
    const mf_device_use of[] = {
        {.mfu = 0.312, .peak = 1e14, .bf16 = true, .used = 4 * gib, .total = 8 * gib},
        {.mfu = NAN, .used = 4 * gib >> 10, .total = 8 * gib >> 10},
        {.mfu = NAN, .peak = 1e14}};
    for (int i = 0; i < 3; i++) {
        char text[MF_DEVICE_USE_TEXT];
        mf_device_use_short(&of[i], text);
        ck_assert_str_eq(text, texts[i][0]);
        mf_device_use_text(&of[i], text);
        ck_assert_str_eq(text, texts[i][1]);
    }
}
END_TEST

/* ---- text, and own batches ---- */

START_TEST(tokens_outside_the_vocabulary)
{
    const mf_session_options o = {.no_data = true};
    static const char *const set[] = {"model.vocab=32"};
    static const int32_t good[] = {1, 31}, high[] = {1, 32}, low[] = {-1, 2};
    const float *logits;
    int64_t n;
    mf_session *s = NULL;
    mf_generator *g;
    ck_assert_int_eq(mf_session_open(small_config(SMALL, small, 1, set), &o, &s), MF_OK);
    for (long nth = 1, rc = MF_ENOMEM; rc != MF_OK; nth++) {
        fault_alloc(nth, FAULT_ONCE);
        rc = mf_generator_new(s->model, true, &g);
        const bool hit = fault_hit();
        const long live = fault_alloc_live();
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        if (hit) ck_assert_int_eq(live, 0);
    }
    expect_failure(mf_generator_feed(g, high, 2, &logits), MF_EINPUT,
                   "token id 32 is outside the vocabulary 0..31");
    expect_failure(mf_generator_feed(g, low, 2, &logits), MF_EINPUT, "token id -1 is outside");
    mf_generator_cached(g, &n);
    ck_assert_int_eq(n, 0); /* no ids were appended */
    ck_assert_int_eq(mf_generator_feed(g, good, 2, &logits), MF_OK);
    mf_generator_free(g);
    mf_session_close(s);
}
END_TEST

/* A caller's batch may have the length of any bucket. */
START_TEST(own_batches_of_any_bucket)
{
    mf_session *s = SESSION(rows(), "data.format=tsv", "model.task=classify", "data.split=0.5",
                            "data.padding=batch");
    mf_trainer *t = trainer_of(s, NULL);
    static const int32_t lengths[] = {8, 16, 12};
    for (int i = 0; i < 3; i++) {
        mf_batch *own;
        ck_assert_int_eq(mf_batch_new(2, lengths[i], &own), MF_OK);
        mf_batcher_fill(s->train, 0, own);
        const mf_batch *const batches[] = {own};
        const int rc = mf_trainer_step(t, batches, NULL);
        if (i < 2) ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
        if (i == 2)
            expect_failure(rc, MF_EINVAL,
                           "a batch of 2 examples of 12 positions: expected 2 examples");
        mf_batch_free(own);
    }
    ck_assert_int_eq(mf_trainer_steps(t), 2);
    mf_trainer_free(t);
    mf_session_close(s);
}
END_TEST

/* ---- traces ---- */

static mf_evaluator *record(mf_session *s, mf_trace_recorder *r)
{
    mf_evaluator *e;
    mf_metrics_record of;
    ck_assert_int_eq(mf_evaluator_new(s, MF_SPLIT_VAL, NULL, &e), MF_OK);
    ck_assert_int_eq(mf_evaluator_record(e, r, 1), MF_OK);
    ck_assert_int_eq(mf_evaluator_run(e, 0, 1, &of), MF_OK);
    ck_assert_int_eq(mf_trace_recorder_batches(r), 1);
    return e;
}

/* A trace contains the scores of the selection if they are not the probabilities. sigmoid_bias
 * selects by sigmoid(logit) + bias. */
START_TEST(a_trace_has_the_scores)
{
    enum { TOKENS = 2 * 16, EXPERTS = 4, ALL = TOKENS * EXPERTS };
    float logits[ALL], score[ALL];
    const mf_trace_about about = {.run = "r", .split = "val"};
    mf_trace_recorder *r;
    mf_st_file *f;
    const char *path = scratch_path("scores.safetensors");
    mf_session *s = SESSION("router.plugin=sigmoid_bias");
    mf_param *bias = mf_store_find(s->model->store, "layers.0.router.bias");
    ck_assert_ptr_nonnull(bias);
    for (int e = 0; e < EXPERTS; e++)
        bias->value[e] = 0.25f * (float)e;
    ck_assert_int_eq(mf_trace_recorder_new(s, &about, &r), MF_OK);
    mf_evaluator *e = record(s, r);
    /* a file that a killed process has left is replaced */
    scratch_write(scratch_path("scores.safetensors.tmp"), "half", 4);
    ck_assert_msg(mf_trace_recorder_write(r, path, 3) == MF_OK, "%s", mf_error_message());
    ck_assert(!mf_exists(scratch_path("scores.safetensors.tmp")));
    ck_assert_int_eq(mf_st_open(path, &f), MF_OK);
    const mf_st_tensor *of[] = {mf_st_find(f, "layers.0.logits"),
                                mf_st_find(f, "layers.0.score")};
    ck_assert(of[0] && of[1] && of[0]->count == ALL && of[1]->count == ALL);
    ck_assert_int_eq(mf_st_read(f, of[0], logits, sizeof logits), MF_OK);
    ck_assert_int_eq(mf_st_read(f, of[1], score, sizeof score), MF_OK);
    for (int i = 0; i < ALL; i++)
        ck_assert_float_eq_tol(
            score[i], 1 / (1 + expf(-logits[i])) + 0.25f * (float)(i % EXPERTS), 1e-5f);
    mf_st_close(f);
    expect_failure(mf_trace_recorder_write(r, path, 3), MF_EINPUT, "nothing to record");
    mf_evaluator_free(e);
    mf_trace_recorder_free(r);
    mf_session_close(s);
}
END_TEST

START_TEST(batches_that_a_trace_does_not_take)
{
    const mf_trace_about about = {.split = "val"};
    const mf_model_shape shape = {.mode = MF_MODE_EVAL, .batch = 2, .seq = 16};
    mf_trace_recorder *r;
    mf_batch *b, *odd;
    mf_model_graph *mg;
    mf_session *s = SESSION("train.batch=2");
    ck_assert_int_eq(mf_trace_recorder_new(s, &about, &r), MF_OK);
    mf_evaluator *e = record(s, r);
    ck_assert_int_eq(mf_batch_new(2, 16, &b), MF_OK);
    ck_assert_int_eq(mf_batch_new(3, 16, &odd), MF_OK);
    mf_batcher_fill(s->train, 0, b);
    ck_assert_msg(mf_model_graph_new(s->model, &shape, &mg) == MF_OK, "%s", mf_error_message());
    expect_failure(mf_trace_recorder_add(r, 1, odd, mg), MF_EINVAL,
                   "a trace of batches of 2 x 16 tokens cannot take one of 3 x 16");
    expect_failure(mf_trace_recorder_add(r, INT32_MAX / 2, b, mg), MF_EINPUT,
                   "a trace holds at most 2147483647 tokens");
    expect_failure(mf_trace_recorder_add(r, 1, b, mg), MF_EINVAL,
                   "does not keep it for a trace");
    ck_assert_int_eq(mf_trace_recorder_batches(r), 1);
    mf_model_graph_free(mg);
    mf_batch_free(b);
    mf_batch_free(odd);
    mf_evaluator_free(e);
    mf_trace_recorder_free(r);
    mf_session_close(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("refusals");
    TCase *c = tcase_create("refusals");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, vocabularies_that_cannot_be);
    tcase_add_test(c, routers_with_too_many_options);
    tcase_add_test(c, a_step_of_minutes_is_foretold);
    tcase_add_test(c, the_status_of_a_trainer);
    tcase_add_loop_test(c, the_best_checkpoint_is_that_of_the_measure, 0, MEASURES);
    tcase_add_test(c, runs_that_cannot_go_on);
    tcase_add_test(c, manifests_that_are_damaged);
    tcase_add_test(c, a_manifest_without_memory);
    tcase_add_test(c, live_options_under_their_old_names);
    tcase_add_test(c, what_is_known_of_a_device);
    tcase_add_test(c, tokens_outside_the_vocabulary);
    tcase_add_test(c, own_batches_of_any_bucket);
    tcase_add_test(c, a_trace_has_the_scores);
    tcase_add_test(c, batches_that_a_trace_does_not_take);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
