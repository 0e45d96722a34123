/* api/run.c: makes and frees handles, and keeps the errors and log lines of a handle.
 *
 * Handles share only what belongs to the process (moefw/run.h). base/ keeps the log sink and
 * the number of threads for each thread. Both are set when a call enters the library and
 * restored when the call returns. */
#include "api/run_internal.h"

#include <moefw/version.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "io/json.h"

const char *moefw_version(void)
{
    return MOEFW_VERSION;
}

int moefw_version_number(void)
{
    return MOEFW_VERSION_MAJOR * 10000 + MOEFW_VERSION_MINOR * 100 + MOEFW_VERSION_PATCH;
}

moefw_run *moefw_run_new(void)
{
    moefw_run *run = mf_alloc(1, sizeof *run);
    return run;
}

void mf_run_forget(moefw_run *run)
{
    mf_generator_free(run->generator);
    mf_model_graph_free(run->own);
    run->generator = NULL;
    run->own = NULL;
    run->drawn = 0;
}

static void free_batches(moefw_run *run)
{
    for (int64_t i = 0; run->batches && i < run->session->config->train.accumulate; i++)
        mf_batch_free(run->batches[i]);
    mf_free(run->batches);
    run->batches = NULL;
}

void mf_run_close(moefw_run *run)
{
    mf_run_forget(run);
    mf_sampler_free(run->sampler);
    mf_evaluator_free(run->evaluator);
    mf_trainer_free(run->trainer);
    free_batches(run);
    mf_session_close(run->session);
    mf_rundir_close(run->dir);
    mf_jw_free(run->json);
    mf_free(run->directory);
    run->sampler = NULL;
    run->evaluator = NULL;
    run->trainer = NULL;
    run->session = NULL;
    run->dir = NULL;
    run->json = NULL;
    run->directory = NULL;
    run->finished = run->failed = run->reported = run->generate_only = false;
    run->state = run->config ? MF_RUN_CONFIGURED : MF_RUN_NEW;
}

static void tell(void *arg, mf_log_level level, const char *text)
{
    const moefw_run *run = arg;
    run->log(run->log_arg, (int)level, text);
}

static int enter(moefw_run *run, mf_run_scope *scope)
{
    if (!run) return mf_fail(MF_EINVAL, "expected a handle, found NULL");
    if (atomic_exchange(&run->busy, true)) {
        snprintf(run->message, sizeof run->message,
                 "the handle is in use: expected one thread at a time, callbacks that call no "
                 "function of their handle, and no exception that leaves a callback");
        return run->code = MF_EUSAGE;
    }
    run->sink.line = run->log ? tell : NULL;
    run->sink.arg = run;
    scope->outer = mf_log_redirect(&run->sink);
    run->sink.outer = scope->outer;
    scope->threads = mf_parallel_threads();
    mf_parallel_set_threads(run->threads);
    return MF_OK;
}

void moefw_run_free(moefw_run *run)
{
    mf_run_scope scope;
    /* A handle in use, for example inside one of its own callbacks, is not freed. */
    if (!run || enter(run, &scope) != MF_OK) return;
    mf_run_close(run);
    mf_world_close(run->world);
    mf_ini_free(run->resolved);
    mf_config_free(run->config);
    mf_arena_free(run->texts);
    mf_free(run->assignments);
    (void)mf_run_leave(run, &scope, MF_OK);
    mf_free(run);
}

/* ---- calls into the library ---- */

void moefw_run_on_log(moefw_run *run, int highest, moefw_log_fn line, void *arg)
{
    if (!run) return;
    run->log = line;
    run->log_arg = arg;
    run->sink.highest = highest < MF_LOG_ERROR   ? MF_LOG_ERROR
                        : highest > MF_LOG_DEBUG ? MF_LOG_DEBUG
                                                 : (mf_log_level)highest;
}

int mf_run_enter(moefw_run *run, mf_run_scope *scope)
{
    const int rc = enter(run, scope);
    /* The error of an earlier call must not be reported for this one. */
    if (rc == MF_OK) mf_error_clear();
    return rc;
}

int mf_run_null(const char *call, const char *what)
{
    return mf_fail(MF_EINVAL, "%s: expected %s, found NULL", call, what);
}

int mf_run_leave(moefw_run *run, mf_run_scope *scope, int rc)
{
    static const char set[] = "(set): ";
    mf_parallel_set_threads(scope->threads);
    mf_log_redirect(scope->outer);
    if (rc != MF_OK) {
        const char *why = mf_error_message();
        if (strncmp(why, set, sizeof set - 1) == 0) why += sizeof set - 1;
        snprintf(run->message, sizeof run->message, "%s", why[0] ? why : mf_status_text(rc));
        run->code = rc;
    }
    atomic_store(&run->busy, false);
    return rc;
}

int moefw_run_code(const moefw_run *run)
{
    return run ? run->code : MF_ENOMEM;
}

const char *moefw_run_message(const moefw_run *run)
{
    return run ? run->message : mf_status_text(MF_ENOMEM);
}

int mf_run_expect(const moefw_run *run, const char *what, unsigned states)
{
    static const char *const names[] = {"new", "configured", "training", "reading"};
    char expected[64] = "";
    if (!run->failed && (states & MF_RUN_IS(run->state))) return MF_OK;
    if (run->failed)
        return mf_fail(MF_EUSAGE, "%s: the run failed before (%s)", what, run->message);
    for (int i = 0; i < 4; i++)
        if (states & (1u << i))
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%s",
                     expected[0] ? " or " : "", names[i]);
    return mf_fail(MF_EUSAGE, "%s: expected a handle that is %s, found one that is %s", what,
                   expected, names[run->state]);
}

int mf_run_fill(void *to, const void *from, size_t known)
{
    size_t size;
    if (!to) return MF_OK;
    memcpy(&size, to, sizeof size);
    if (size < sizeof size || size > (size_t)1 << 16)
        return mf_fail(MF_EINVAL, "size of a struct: expected its sizeof, found %zu", size);
    if (size > known) memset((char *)to + known, 0, size - known);
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
           (size < known ? size : known) - sizeof size);
    return MF_OK;
}
