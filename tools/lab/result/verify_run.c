/* Draws runs of a result, repeats them in child processes, and compares them. The folders
 * of the repeated runs stay, so that the user can look into them. */
#include <errno.h>
#include <moefw/version.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/mem.h"
#include "lab/compare/compare_parts.h"
#include "lab/result/result_parts.h"
#include "lab/result/verify_parts.h"
#include "plugin/load/allow.h"
#include "run/folder/rundir.h"

/* ---- choosing ---- */

static uint64_t drawn(uint64_t below)
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v) v = (uint64_t)time(NULL);
    return v % below;
}

/* The step of a checkpoint of the run `from` that has the hashes of the result's, and is not
 * that of the last step; -1: none. */
static int64_t common_step(const mf_json *run, const char *from)
{
    const mf_json *all = mf_json_get(run, "checkpoints");
    mf_rundir *dir = NULL;
    int64_t found = -1;
    if (mf_rundir_read(from, &dir) == MF_OK) {
        for (size_t i = 0; i < mf_json_size(all) && found < 0; i++) {
            const int64_t step = mf_json_int_or_0(mf_json_at(all, i), "step");
            const bool named = dir->step < 0 || dir->step == step;
            if (named && step < mf_json_int_or_0(run, "steps") &&
                mf_result_check_hashes(run, dir->path, step) == MF_OK)
                found = step;
        }
        mf_rundir_close(dir);
    }
    mf_error_clear();
    return found;
}

static bool fits(const mf_json *run, const mf_verify_spec *s)
{
    if (mf_json_get(run, "failed")) return false;
    if (s->router && strcmp(mf_result_text(run, "router"), s->router) != 0) return false;
    if (s->seed >= 0 && mf_json_int_or_0(run, "seed") != s->seed) return false;
    return !s->from || common_step(run, s->from) >= 0;
}

int mf_verify_choose(mf_arena *arena, const mf_result *r, const mf_verify_spec *s,
                     mf_verified_run **ret, int *ret_n)
{
    const size_t all = mf_json_size(r->runs);
    mf_verified_run *list = mf_arena_alloc(arena, (all + 1) * sizeof *list);
    int n = 0;
    *ret = list;
    *ret_n = 0;
    if (!list) return MF_ENOMEM;
    for (size_t i = 0; i < all; i++) {
        const mf_json *run = mf_json_at(r->runs, i);
        if (!fits(run, s)) continue;
        list[n++] = (mf_verified_run){.run = run,
                                      .router = mf_result_text(run, "router"),
                                      .seed = mf_json_int_or_0(run, "seed"),
                                      .steps = mf_json_int_or_0(run, "steps")};
    }
    if (n == 0 && s->from)
        return mf_fail(
            MF_ERUN,
            "no checkpoint in %s, but for that of the last step, has the hashes of a "
            "checkpoint of the result",
            s->from);
    if (n == 0) return mf_fail(MF_EINPUT, "the result has no run of this router and seed");
    for (int i = 0; i < n && i < s->runs; i++) {
        const int k = i + (int)drawn((uint64_t)(n - i));
        const mf_verified_run swap = list[i];
        list[i] = list[k];
        list[k] = swap;
        list[i].from = s->from ? common_step(list[i].run, s->from) : 0;
        list[i].to = list[i].steps;
        if (s->steps > 0 && list[i].from + s->steps < list[i].steps)
            list[i].to = list[i].from + s->steps;
    }
    *ret_n = n < s->runs ? n : s->runs;
    return MF_OK;
}

/* ---- training ---- */

/* Waits for the child. Returns its exit status, or MF_ESIGNAL's if this process must stop. */
static int wait_for(pid_t pid, const mf_verify_spec *s, const char *dir, int64_t to,
                    bool *ret_stopped)
{
    const mf_compare_run run = {.dir = dir};
    int status = 0;
    *ret_stopped = false;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        if (s->tick) s->tick(s->arg, mf_compare_steps_done(&run), to);
        if (s->should_stop && s->should_stop(s->arg) && !*ret_stopped) {
            *ret_stopped = true;
            kill(pid, SIGTERM);
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The words of the program for a run, as mf_compare_command gives them, behind those of the
 * launcher. The launcher is then the parent of the run, so the run cannot be told to end with
 * this process. All plugin files of the configuration are inputs whose hashes are right. */
static const char **command(mf_arena *arena, const mf_verify_spec *s, const char *what,
                            int *ret_n)
{
    if (!s->launch) return mf_compare_command(arena, what, s->threads, ret_n);
    const char **argv =
        mf_arena_alloc(arena, (strlen(s->launch) + 8 + MF_COMPARE_WORDS) * sizeof *argv);
    char *words = mf_arena_strdup(arena, s->launch), *word;
    const char *threads = mf_arena_strf(arena, "%d", s->threads);
    int n = 0;
    if (!argv || !words || !threads) return NULL;
    while ((word = strsep(&words, " ")))
        if (word[0] != '\0') argv[n++] = word;
    argv[n++] = mf_paths_program();
    argv[n++] = "train";
    argv[n++] = what;
    argv[n++] = "--quiet";
    argv[n++] = "--threads";
    argv[n++] = threads;
    if (mf_plugin_allowed_file(0)) argv[n++] = "--allow-config-plugins";
    *ret_n = n;
    return argv;
}

int mf_verify_train(const mf_verify_spec *s, const char *what, const char *dir, int64_t seed,
                    int64_t stop_at, int64_t to)
{
    mf_arena *arena = mf_arena_new();
    char *log = mf_strf("%s.log", dir), *words = NULL;
    pid_t pid;
    int n = 0;
    bool stopped = false;
    const char **argv = arena && log ? command(arena, s, what, &n) : NULL;
    int rc = argv ? MF_OK : MF_ENOMEM;
    if (argv && strcmp(what, dir) == 0) {
        argv[n++] = "--resume";
    } else if (argv) {
        argv[n++] = "--out";
        argv[n++] = dir;
    }
    if (argv && seed >= 0) {
        argv[n++] = "--seed";
        argv[n++] = mf_arena_strf(arena, "%lld", (long long)seed);
        if (!argv[n - 1]) rc = MF_ENOMEM;
    }
    if (argv && stop_at > 0) {
        argv[n++] = "--set";
        argv[n++] = mf_arena_strf(arena, "train.stop_at=%lld", (long long)stop_at);
        if (!argv[n - 1]) rc = MF_ENOMEM;
    }
    if (rc == MF_OK) rc = mf_compare_spawn(argv, log, -1, &pid);
    if (rc == MF_OK) {
        const int status = wait_for(pid, s, dir, to, &stopped);
        const mf_compare_run run = {.log = log};
        if (stopped)
            rc = MF_ESIGNAL;
        else if (status != 0 && status != mf_status_exit(MF_ELIMIT)) {
            words = mf_compare_last_words(&run, status << 8);
            rc = mf_fail(MF_ERUN, "%s: the run failed: %s", dir, words ? words : log);
        }
    }
    mf_free(words);
    mf_free(log);
    mf_arena_free(arena);
    return rc;
}

/* ---- one run ---- */

int mf_verify_prepare(const mf_json *run, const mf_verify_spec *s, const char *ini,
                      char **ret_config)
{
    int rc = mf_result_inputs(run, s->data, s->plugins, s->input, s->arg, ret_config);
    if (rc == MF_OK && !*ret_config)
        rc = mf_fail(MF_EINPUT,
                     "inputs are missing: expected files with the hashes of the result "
                     "below --data (%s), and its plugins installed or below --plugins",
                     s->data);
    if (rc == MF_OK && ini) rc = mf_write_file_atomic(ini, *ret_config, strlen(*ret_config));
    return rc;
}

/* Copies the run with its checkpoint. The user may have named the run, or the folder of the
 * checkpoint in it. */
static int copy_segment(const mf_verify_spec *s, const mf_verified_run *v, const char *config,
                        const char *to)
{
    mf_rundir *dir = NULL;
    int rc = mf_rundir_read(s->from, &dir);
    if (rc == MF_OK) rc = mf_result_copy_segment(v->run, dir->path, v->from, config, to);
    mf_rundir_close(dir);
    return rc;
}

/* The version that trained the run; that of the result wrote the file. */
static bool same_version(const mf_json *run)
{
    return strcmp(mf_result_text(run, "moefw"), MOEFW_VERSION) == 0;
}

int mf_verify_run(const mf_verify_spec *s, int number, mf_verified_run *v)
{
    char *dir = mf_strf("%s/run-%d", s->out, number),
         *ini = mf_strf("%s/run-%d.ini", s->out, number);
    char *config = NULL;
    int rc = dir && ini ? mf_mkdirs(s->out) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_verify_prepare(v->run, s, s->from ? NULL : ini, &config);
    if (rc == MF_OK && s->from) rc = copy_segment(s, v, config, dir);
    if (rc == MF_OK)
        rc = mf_verify_train(s, s->from ? dir : ini, dir, -1, v->to < v->steps ? v->to : 0,
                             v->to);
    if (rc == MF_OK)
        rc = mf_result_judge(v->run, dir, v->from, v->to,
                             s->same_program && same_version(v->run), &v->judgement);
    mf_free(config);
    mf_free(dir);
    mf_free(ini);
    return rc;
}
