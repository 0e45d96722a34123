/* bounds: every key of core at its lowest and highest value, and at each of its words. The
 * configuration must be accepted, or refused with a message. Its cost is computed as in config
 * check. If the model is small enough, one step is trained. Each case has a process of its own,
 * so after a crash the case is known. */
#include "check_main.h"

#include "base/error.h"
#include "base/log.h"
#include "base/thread/parallel.h"
#include "tests/lib/program.h"
#include "run/cost.h"
#include "run/training.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The result of a case: the exit status of its process. */
enum { TRAINED = 10, JUDGED, REFUSED, FAULT };

/* Cases are trained if their memory (bytes) and work (multiply-adds) are below these limits. */
static const double memory_most = 256e6, work_most = 3e8;
enum { LAYERS_MOST = 32, SECONDS_MOST = 60 };

static int fault(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, mf_error_message());
    return FAULT;
}

/* A refusal must have a code that a configuration can cause, or name the memory that the
 * machine does not have. */
static int refused(int rc, const char *what)
{
    const bool known = rc == MF_ECONFIG || rc == MF_ENOMEM;
    if (known && mf_error_message()[0] != '\0') return REFUSED;
    return fault(what);
}

static int load(const char *set, mf_config **ret)
{
    const char *const all[] = {"data.path=builtin:topics?bytes=4000",
                               "model.layers=2",
                               "model.dim=8",
                               "model.heads=2",
                               "model.seq=8",
                               "model.ffn_hidden=8",
                               "model.moe_every=1",
                               "expert.hidden=4",
                               "moe.experts=4",
                               "train.batch=2",
                               "train.steps=2",
                               "train.eval_batches=1",
                               "train.eval_context=0",
                               "report.samples=0",
                               set};
    return mf_config_load("default", sizeof all / sizeof *all, all, ret);
}

/* Does the same as config check: opens the model without values, and computes its cost. */
static int judge(const char *set, mf_cost *cost)
{
    const mf_session_options o = {.training = true, .bare = true};
    mf_config *config = NULL;
    mf_session *s = NULL;
    int rc = load(set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &o, &s);
    if (rc == MF_OK) rc = mf_cost_of(s, cost);
    mf_session_close(s);
    return rc;
}

static bool small_enough(const mf_config *c, const mf_cost *cost)
{
    const double tokens =
        (double)c->train.batch * (double)c->model.seq * (double)c->train.accumulate;
    return cost->memory > 0 && (double)cost->memory < memory_most &&
           (double)cost->params_active * tokens < work_most && c->model.layers <= LAYERS_MOST;
}

static int train(mf_config *config)
{
    const mf_session_options o = {.training = true};
    mf_session *s = NULL;
    mf_trainer *t = NULL;
    int rc = mf_session_open(config, &o, &s);
    if (rc == MF_OK) rc = mf_training_new(s, NULL, &t);
    if (rc == MF_OK) rc = mf_trainer_step(t, NULL, NULL);
    if (rc == MF_OK && s->corpus->split[MF_SPLIT_VAL].tokens > 0)
        rc = mf_training_evaluate(t, 1, NULL);
    mf_trainer_free(t);
    mf_session_close(s);
    return rc;
}

static int try(const char *set)
{
    mf_cost cost = {0};
    mf_config *config = NULL;
    mf_log_set_level(MF_LOG_ERROR);
    mf_parallel_set_threads(1); /* starting threads takes longer than these steps */
    int rc = judge(set, &cost);
    if (rc != MF_OK) return refused(rc, "config check");
    if (load(set, &config) != MF_OK) return fault("loads once only");
    if (!small_enough(config, &cost)) {
        mf_config_free(config);
        return JUDGED;
    }
    rc = train(config);
    return rc == MF_OK || rc == MF_ENONFINITE ? TRAINED : refused(rc, "train");
}

static int tried[FAULT + 1];

static void one(const char *section, const char *key, const char *value)
{
    char set[256];
    int status;
    snprintf(set, sizeof set, "%s.%s=%s", section, key, value);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGALRM, SIG_DFL); /* otherwise the handler of Check would end the parent, too */
        alarm(SECONDS_MOST);
        _exit(try(set));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    const int end = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ck_assert_msg(end >= TRAINED && end <= REFUSED, "%s: status %x", set, (unsigned)status);
    tried[end]++;
}

static void every_value(const char *section, const mf_option *o)
{
    char text[64];
    /* The time of planning grows faster than the number of blocks. 1024 blocks would
     * take minutes. */
    const bool blocks = strcmp(o->name, "layers") == 0;
    const double ends[] = {o->lo, blocks ? 2 * LAYERS_MOST : o->hi};
    if (o->type == MF_OPT_STR) return;
    for (int i = 0; o->choices && o->choices[i]; i++)
        one(section, o->name, o->choices[i]);
    if (o->type == MF_OPT_ENUM) return;
    for (int i = 0; i < 2; i++) {
        if (o->type == MF_OPT_BOOL)
            snprintf(text, sizeof text, "%s", i ? "yes" : "no");
        else
            snprintf(text, sizeof text, "%.17g", ends[i]);
        one(section, o->name, text);
    }
}

START_TEST(every_key_at_its_bounds)
{
    for (const mf_section_at *a = mf_config_sections; a->section != NULL; a++) {
        const mf_section *s = a->section;
        if (s->plugin || strchr(s->name, '.')) continue;
        for (const mf_option *o = s->options; o->name != NULL; o++)
            every_value(s->name, o);
    }
    ck_assert_msg(tried[TRAINED] > 150 && tried[JUDGED] > 3 && tried[REFUSED] > 5,
                  "%d trained, %d judged, %d refused", tried[TRAINED], tried[JUDGED],
                  tried[REFUSED]);
}
END_TEST

/* The values of a bare model must not be accessed, because the pages of equal blocks would
 * become resident. */
START_TEST(equal_blocks_of_a_bare_model_have_no_values)
{
    const char *const set[] = {"data.path=builtin:topics?bytes=4000",
                               "model.layers_alike=yes",
                               "model.layers=3",
                               "model.dim=1024",
                               "moe.experts=16",
                               "expert.hidden=2048"};
    const mf_session_options o = {.training = true, .bare = true};
    mf_config *config = NULL;
    mf_session *s = NULL;
    struct rusage before, after;
    ck_assert_int_eq(mf_config_load("default", sizeof set / sizeof *set, set, &config), MF_OK);
    getrusage(RUSAGE_SELF, &before);
    ck_assert_msg(mf_session_open(config, &o, &s) == MF_OK, "%s", mf_error_message());
    getrusage(RUSAGE_SELF, &after);
    ck_assert_uint_gt(mf_store_bytes(s->model->store), (size_t)1 << 30);
    ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 100 << 10); /* in KiB */
    mf_session_close(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("bounds");
    TCase *c = tcase_create("bounds");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, every_key_at_its_bounds);
    tcase_add_test(c, equal_blocks_of_a_bare_model_have_no_values);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
