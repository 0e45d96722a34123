/* rundir: names are chosen without races, a run has only one writer at a time, and other runs
 * are never overwritten. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"
#include "run/folder/restart.h"
#include "run/folder/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool message_has(const char *part)
{
    return strstr(mf_error_message(), part) != NULL;
}

START_TEST(numbers_count_up)
{
    const char *parent = scratch_path("runs/deep");
    mf_rundir *a, *b, *c;
    ck_assert_int_eq(mf_rundir_create(parent, "default", &a), MF_OK);
    ck_assert_int_eq(mf_rundir_create(parent, "default", &b), MF_OK);
    ck_assert_int_eq(mf_rundir_create(parent, "../my run", &c), MF_OK);
    ck_assert_str_eq(a->path, scratch_path("runs/deep/default-1"));
    ck_assert_str_eq(b->path, scratch_path("runs/deep/default-2"));
    ck_assert_str_eq(c->path, scratch_path("runs/deep/-.-my-run-1"));
    ck_assert(mf_is_dir(b->path));
    ck_assert_str_eq(a->metrics, scratch_path("runs/deep/default-1/metrics.jsonl"));
    mf_rundir_close(a);
    mf_rundir_close(b);
    mf_rundir_close(c);
}
END_TEST

START_TEST(a_directory_of_ones_choice)
{
    const char *path = scratch_path("chosen/here");
    mf_rundir *a, *b;
    ck_assert_int_eq(mf_rundir_create_at(path, &a), MF_OK);
    ck_assert_int_eq(mf_rundir_create_at(path, &b), MF_ERUN); /* empty but locked */
    char pid[64];
    snprintf(pid, sizeof pid, "process %ld on ", (long)getpid());
    ck_assert(message_has(path) && message_has(pid));
    mf_rundir_close(a);
    /* the directory is still empty, so it can be used */
    ck_assert_int_eq(mf_rundir_create_at(path, &a), MF_OK);
    scratch_write(a->config, "", 0);
    mf_rundir_close(a);
    ck_assert_int_eq(mf_rundir_create_at(path, &b), MF_EUSAGE);
    ck_assert(message_has("config.ini"));
    scratch_write(scratch_path("file"), "x", 1);
    ck_assert_int_eq(mf_rundir_create_at(scratch_path("file"), &b), MF_EUSAGE);
    ck_assert(message_has("found a file"));
}
END_TEST

START_TEST(going_on)
{
    const char *path = scratch_path("old");
    mf_rundir *a, *b;
    ck_assert_int_eq(mf_rundir_open(path, &a), MF_EINPUT);
    ck_assert(message_has("no such run"));
    ck_assert_int_eq(mf_mkdirs(path), MF_OK);
    ck_assert(!mf_rundir_is(path));
    ck_assert_int_eq(mf_rundir_open(path, &a), MF_EINPUT);
    ck_assert(message_has("config.ini"));
    scratch_write(scratch_path("old/config.ini"), "", 0);
    ck_assert(mf_rundir_is(path));
    ck_assert_int_eq(mf_rundir_open(path, &a), MF_OK);
    ck_assert_int_eq(mf_rundir_open(path, &b), MF_ERUN);
    ck_assert_ptr_null(b);
    ck_assert_int_eq(mf_rundir_read(path, &b), MF_OK); /* readers need no lock */
    ck_assert_int_eq(b->lock, -1);
    mf_rundir_close(b);
    mf_rundir_close(a);
}
END_TEST

/* A path within a run leads to the run, also if the current folder is within the run. */
START_TEST(paths_in_a_run)
{
    static const struct {
        const char *from, *path, *run;
        int64_t step;
    } of[] = {{"inside", "ckpt", ".", -1},
              {"inside", "config.ini", ".", -1},
              {"inside", "ckpt/step-7/", ".", 7},
              {"inside", "best", ".", -1},
              {".", "inside/ckpt/step-7", "inside", 7},
              {".", "inside/", "inside", -1}};
    char before[4096];
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(mf_mkdirs(scratch_path("inside")), MF_OK);
    scratch_write(scratch_path("inside/config.ini"), "", 0);
    scratch_write(scratch_path("inside/manifest.json"), "{}", 2);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        mf_rundir *d;
        ck_assert_int_eq(chdir(scratch_path(of[i].from)), 0);
        ck_assert(mf_rundir_readable(of[i].path));
        ck_assert_msg(mf_rundir_read(of[i].path, &d) == MF_OK, "%s", mf_error_message());
        ck_assert_str_eq(d->path, of[i].run);
        ck_assert_int_eq(d->step, of[i].step);
        mf_rundir_close(d);
    }
    ck_assert_int_eq(chdir(before), 0);
}
END_TEST

static int all_taken(const char *path, int mode)
{
    if (!strstr(path, "/full-")) return mf_io_default()->mkdir(path, (mode_t)mode);
    errno = EEXIST;
    return -1;
}

START_TEST(a_million_runs_of_one_name)
{
    mf_rundir *d;
    mf_io_table full = *mf_io_default();
    full.mkdir = all_taken;
    mf_io_set_table(&full);
    const int rc = mf_rundir_create(scratch_path("many"), "full", &d);
    mf_io_set_table(NULL);
    ck_assert_int_eq(rc, MF_EIO);
    ck_assert_ptr_null(d);
    ck_assert(message_has("many: there are 1000000 runs named full"));
}
END_TEST

/* Runs work in n processes at the same time. Returns how many exited with 0. */
static int race(int n, int (*work)(void))
{
    int gate[2], won = 0;
    ck_assert_int_eq(pipe(gate), 0);
    for (int i = 0; i < n; i++)
        if (fork() == 0) {
            char byte;
            close(gate[1]);
            while (read(gate[0], &byte, 1) != 0) /* returns when the parent closes its end */
                ;
            _exit(work());
        }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < n; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        won += WEXITSTATUS(status) == 0;
    }
    return won;
}

static int make_numbered(void)
{
    mf_rundir *d;
    return mf_rundir_create(scratch_path("race"), "r", &d) == MF_OK ? 0 : 2;
}

/* Returns 0 if this process gets the run directory, 1 if another process has or had it. The
 * winner writes a file, so that later processes see that the directory is in use. */
static int make_chosen(void)
{
    mf_rundir *d;
    int rc = mf_rundir_create_at(scratch_path("one"), &d);
    if (rc == MF_OK) scratch_write(d->config, "", 0);
    return rc == MF_OK ? 0 : rc == MF_ERUN || rc == MF_EUSAGE ? 1 : 2;
}

START_TEST(races)
{
    char **names;
    int n;
    scratch_dir();
    ck_assert_int_eq(race(50, make_numbered), 50);
    ck_assert_int_eq(mf_list_dir(scratch_path("race"), &names, &n), MF_OK);
    ck_assert_int_eq(n, 50);
    mf_list_free(names, n);
    ck_assert(mf_is_dir(scratch_path("race/r-50")));
    ck_assert_int_eq(race(50, make_chosen), 1);
}
END_TEST

/* The lock ends with its process, even if the process is killed. */
START_TEST(killed_writer)
{
    const char *path = scratch_path("killed");
    int ready[2];
    char byte;
    mf_rundir *d;
    ck_assert_int_eq(mf_mkdirs(path), MF_OK);
    scratch_write(scratch_path("killed/config.ini"), "", 0);
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (mf_rundir_open(path, &d) != MF_OK || write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(mf_rundir_open(path, &d), MF_ERUN);
    char pid[64];
    snprintf(pid, sizeof pid, "process %ld on ", (long)child);
    ck_assert(message_has(pid));
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(mf_rundir_open(path, &d), MF_OK);
    mf_rundir_close(d);
}
END_TEST

START_TEST(failing_calls)
{
    for (long nth = 1;; nth++) {
        mf_rundir *d = NULL;
        char name[32];
        snprintf(name, sizeof name, "io%ld", nth);
        fault_io(nth, FAULT_FROM, EROFS);
        int rc = mf_rundir_create(scratch_path(name), "r", &d);
        bool hit = fault_hit();
        ck_assert_int_eq(rc == MF_OK, d != NULL);
        ck_assert_msg(rc == MF_OK || rc == MF_EIO, "call %ld: %d", nth, rc);
        mf_rundir_close(d);
        ck_assert_int_eq(fault_io_open(), 0);
        fault_off();
        if (!hit) break;
    }
    for (long nth = 1;; nth++) {
        mf_rundir *d = NULL;
        ck_assert_int_eq(mf_remove_tree(scratch_path("oom")), MF_OK);
        fault_alloc(nth, FAULT_ONCE);
        int rc = mf_rundir_create(scratch_path("oom"), "r", &d);
        bool hit = fault_hit();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        ck_assert_int_eq(rc == MF_OK, d != NULL);
        mf_rundir_close(d);
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        if (!hit) break;
    }
}
END_TEST

/* ---- runs that begin again ---- */

static bool begins_again(const mf_rundir *d, int64_t save_every, int64_t steps)
{
    bool again;
    ck_assert_int_eq(mf_restart_possible(d, save_every, steps, &again), MF_OK);
    return again;
}

/* A run with the metrics of two steps and half of a line, without a checkpoint. */
static mf_rundir *run_of_two_steps(const char *name)
{
    static const char lines[] = "{\"step\":1,\"split\":\"train\"}\n"
                                "{\"step\":2,\"split\":\"train\"}\n{\"step\":9,";
    mf_rundir *d;
    ck_assert_int_eq(mf_rundir_create_at(scratch_path(name), &d), MF_OK);
    scratch_write(d->config, "", 0);
    scratch_write(d->metrics, lines, sizeof lines - 1);
    return d;
}

START_TEST(what_begins_again)
{
    mf_rundir *d = run_of_two_steps("again");
    ck_assert(begins_again(d, 3, 8) && begins_again(d, 0, 3));
    /* the line of step 2 is written before its checkpoint, and the folder of checkpoints only
     * at that time */
    ck_assert(!begins_again(d, 2, 8) && !begins_again(d, 0, 2) && !begins_again(d, 1, 8));
    ck_assert_int_eq(mf_mkdirs(d->ckpt), MF_OK);
    ck_assert(begins_again(d, 2, 8) && !begins_again(d, 1, 8));
    ck_assert_int_eq(mf_mkdirs(scratch_path("again/ckpt/step-2")), MF_OK);
    ck_assert(!begins_again(d, 3, 8));
    ck_assert_int_eq(mf_remove_tree(d->ckpt), MF_OK);
    ck_assert_int_eq(unlink(d->metrics), 0);
    ck_assert(begins_again(d, 1, 8) && begins_again(d, 0, 0));
    ck_assert_int_eq(mf_error_code(), MF_OK);
    mf_rundir_close(d);
}
END_TEST

/* If metrics cannot be read, it is unknown how far the run was. Then it must not begin again,
 * which would remove its files. */
START_TEST(unreadable_metrics_do_not_begin_again)
{
    mf_rundir *d = run_of_two_steps("unread");
    bool again;
    ck_assert_int_eq(mf_mkdirs(d->ckpt), MF_OK);
    for (long nth = 1;; nth++) {
        fault_io(nth, FAULT_ONCE, EIO);
        const int rc = mf_restart_possible(d, 3, 8, &again);
        const bool hit = fault_hit();
        ck_assert_int_eq(fault_io_open(), 0);
        fault_off();
        ck_assert_msg(rc == MF_OK || rc == MF_EIO, "call %ld: %d", nth, rc);
        ck_assert_msg(rc == MF_OK || !again, "call %ld", nth);
        ck_assert_msg(rc == MF_EIO || !hit || strcmp(fault_hit_call(), "close") == 0,
                      "call %ld, %s: no error", nth, fault_hit_call());
        if (!hit) break;
    }
    for (long nth = 1;; nth++) {
        fault_alloc(nth, FAULT_ONCE);
        const int rc = mf_restart_possible(d, 3, 8, &again);
        const bool hit = fault_hit();
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        ck_assert_int_eq(again, !hit);
        if (!hit) break;
    }
    ck_assert_int_eq(unlink(d->metrics), 0);
    ck_assert_int_eq(mf_mkdirs(d->metrics), MF_OK);
    const int rc = mf_restart_possible(d, 3, 8, &again);
    ck_assert(rc == MF_EINPUT || rc == MF_EIO);
    ck_assert(!again && message_has("metrics.jsonl"));
    mf_rundir_close(d);
}
END_TEST

/* Each file and folder that a run writes. If a link has its name, the run is refused before
 * anything is written. The message contains the name. Links with other names are allowed. */
START_TEST(links_in_a_run)
{
    static const char *const names[] = {"config.ini",
                                        "manifest.json",
                                        "metrics.jsonl",
                                        "memory.jsonl",
                                        "tokenizer.json",
                                        "report.html",
                                        "samples",
                                        "routing_sample.json",
                                        "weights.json",
                                        "stored.json",
                                        "ckpt",
                                        "trace",
                                        "best",
                                        "tensorboard",
                                        "ended.txt",
                                        "mlflow.json",
                                        ".lock",
                                        "ckpt/step-5",
                                        "samples/step-5.txt"};
    const char *run = scratch_path("linked"), *target = scratch_path("target");
    mf_rundir *d;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        ck_assert_int_eq(mf_remove_tree(run), MF_OK);
        ck_assert_int_eq(mf_rundir_create_at(run, &d), MF_OK);
        scratch_write(d->config, "x", 1);
        ck_assert_int_eq(mf_mkdir(d->ckpt), MF_OK);
        ck_assert_int_eq(mf_mkdir(d->samples), MF_OK);
        mf_rundir_close(d);
        scratch_write(target, "precious", 8);
        char *link = mf_path_join(run, names[i]);
        ck_assert_int_eq(mf_remove_tree(link), MF_OK);
        ck_assert_int_eq(symlink(target, link), 0);
        ck_assert_int_eq(mf_rundir_open(run, &d), MF_EINPUT);
        ck_assert_ptr_null(d);
        ck_assert(message_has(link) && message_has("a symbolic link"));
        char *text = scratch_read(target, &n);
        ck_assert(text && n == 8);
        free(text);
        ck_assert_int_eq(mf_remove_tree(link), MF_OK);
        scratch_write(scratch_path("linked/config.ini"), "x", 1);
        ck_assert(symlink(target, scratch_path("linked/notes")) == 0);
        ck_assert_int_eq(mf_rundir_open(run, &d), MF_OK);
        mf_rundir_close(d);
        mf_free(link);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rundir");
    TCase *t = tcase_create("rundir");
    tcase_add_test(t, numbers_count_up);
    tcase_add_test(t, a_directory_of_ones_choice);
    tcase_add_test(t, going_on);
    tcase_add_test(t, paths_in_a_run);
    tcase_add_test(t, a_million_runs_of_one_name);
    tcase_add_test(t, races);
    tcase_add_test(t, killed_writer);
    tcase_add_test(t, failing_calls);
    tcase_add_test(t, what_begins_again);
    tcase_add_test(t, unreadable_metrics_do_not_begin_again);
    tcase_add_test(t, links_in_a_run);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
