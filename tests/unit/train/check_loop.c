/* loop: after the first training steps, log lines and evaluations, later ones allocate no
 * memory. Only checkpoints allocate. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 24, SETTLED = 3 };

/* Number of allocations at the end of each step, and other events of that step. */
typedef struct watch {
    uint64_t at[STEPS + 1];
    bool logged[STEPS + 1], evaluated[STEPS + 1], saved[STEPS + 1];
    int64_t step;
} watch;

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    watch *w = self;
    (void)t;
    w->step = r->step;
    w->logged[r->step] = r->record != NULL;
    w->at[r->step] = mf_alloc_count();
    return MF_OK;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    watch *w = self;
    (void)t, (void)r;
    w->evaluated[w->step] = true;
    return MF_OK;
}

static int on_save(void *self, mf_trainer *t)
{
    watch *w = self;
    w->saved[mf_trainer_steps(t)] = true;
    return MF_OK;
}

static void train(watch *w, const char *path, const char *more)
{
    static const char *const small[] = {
        "data.path=builtin:topics?bytes=40000", "model.layers=2", "model.dim=32",
        "model.seq=32", "expert.hidden=32", "train.batch=4", "train.steps=24",
        "train.log_every=4", "train.eval_every=3", "train.eval_batches=2",
        "train.eval_context=0", "train.save_every=11",
        /* no samples, because they may allocate */
        "report.samples=0"};
    enum { SMALL = sizeof small / sizeof *small };
    const char *set[SMALL + 1];
    const mf_session_options training = {.training = true};
    static const mf_observer observer = {.name = "watch",
                                         .after_step = after_step,
                                         .after_eval = after_eval,
                                         .on_save = on_save};
    mf_config *config = NULL;
    mf_session *s = NULL;
    mf_rundir *dir = NULL;
    mf_trainer *t = NULL;
    memcpy(set, small, sizeof small);
    set[SMALL] = more;
    int rc = mf_config_load("default", SMALL + 1, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &training, &s);
    if (rc == MF_OK) rc = mf_rundir_create_at(scratch_path(path), &dir);
    const mf_training_options o = {.dir = dir};
    if (rc == MF_OK) rc = mf_training_new(s, &o, &t);
    if (rc == MF_OK) rc = mf_trainer_observe(t, &observer, w);
    if (rc == MF_OK) rc = mf_trainer_run(t);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    mf_trainer_free(t);
    mf_rundir_close(dir);
    mf_session_close(s);
}

static void judge(const watch *w)
{
    int logged = 0, evaluated = 0;
    for (int i = SETTLED + 1; i < STEPS; i++) {
        if (w->saved[i]) continue;
        ck_assert_msg(w->at[i + 1] == w->at[i], "%d allocations in step %d%s%s",
                      (int)(w->at[i + 1] - w->at[i]), i + 1, w->logged[i + 1] ? ", logged" : "",
                      w->evaluated[i] ? ", behind an evaluation" : "");
        logged += w->logged[i + 1];
        evaluated += w->evaluated[i];
    }
    ck_assert_int_gt(logged, 2);
    ck_assert_int_gt(evaluated, 1);
}

START_TEST(steps_do_not_allocate)
{
    watch w = {0};
    train(&w, "plain", "train.recompute=none");
    judge(&w);
}
END_TEST

START_TEST(nor_do_sums_of_runs)
{
    watch w = {0};
    train(&w, "sums", "train.accumulate=2");
    judge(&w);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("loop");
    TCase *c = tcase_create("loop");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, steps_do_not_allocate);
    tcase_add_test(c, nor_do_sums_of_runs);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
