/* pretrained: imports and exports, also of adapters, in which an allocation or a call of the
 * system fails. The result must be the error of that failure, and no incomplete run or folder
 * may look complete. */
#include "check_main.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "pretrained/import.h"
#include "run/load.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

enum { PATH = 1024, EVERY_CALL_TO = 40 };

static const char *model(void)
{
    static char path[PATH];
    const char *source = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/pretrained/mixtral/hf", source ? source : ".");
    return path;
}

/* The number of the next call that fails: every call at first, then with growing distances. */
static long after(long n)
{
    return n < EVERY_CALL_TO ? n + 1 : n + n / 3;
}

static int import(const char *run)
{
    mf_import_report r = {0};
    const int rc = mf_import(model(), NULL, run, &r);
    mf_free(r.run);
    return rc;
}

static int export(const char *run, const char *to)
{
    int64_t n;
    const mf_export_options as_it_is = {.adapters = MF_EXPORT_MERGED};
    return mf_export_hf(run, to, &as_it_is, &n);
}

static void judge(int rc, int expected, bool hit, const char *to, long n)
{
    /* If settings or a plugin cannot be read, this is an error of the configuration or
     * the plugin. */
    const bool settings = expected == MF_EIO && (rc == MF_ECONFIG || rc == MF_EINPUT ||
                                                 rc == MF_EPLUGIN || rc == MF_ECHECKPOINT);
    /* A failure without consequences is allowed, such as a failure to write a file that is only
     * for information. */
    ck_assert_msg(rc == MF_OK || (hit && (rc == expected || settings)),
                  "call %ld of %s: %d: %s", n, fault_hit_call(), rc, mf_error_message());
    ck_assert_msg(mf_exists(to) == (rc == MF_OK), "call %ld: %s after %d", n, to, rc);
    mf_remove_tree(to);
}

START_TEST(allocations_of_an_import)
{
    const char *run = scratch_path("run");
    /* loads the files and libraries that a process loads only once */
    ck_assert_int_eq(import(run), MF_OK);
    mf_remove_tree(run);
    bool hit = true;
    for (long n = 1; hit; n = after(n)) {
        fault_alloc(n, FAULT_ONCE);
        const int rc = import(run);
        hit = fault_hit();
        fault_off();
        judge(rc, MF_ENOMEM, hit, run, n);
    }
}
END_TEST

START_TEST(calls_of_an_import)
{
    const char *run = scratch_path("run");
    bool hit = true;
    for (long n = 1; hit; n = after(n)) {
        fault_io(n, FAULT_ONCE, EIO);
        const int rc = import(run);
        hit = fault_hit();
        fault_off();
        judge(rc, MF_EIO, hit, run, n);
        ck_assert_int_eq(fault_io_open(), 0);
    }
}
END_TEST

START_TEST(failures_of_an_export)
{
    const char *run = scratch_path("run"), *to = scratch_path("out");
    bool hit = true;
    ck_assert_int_eq(import(run), MF_OK);
    for (long n = 1; hit; n = after(n)) {
        fault_alloc(n, FAULT_ONCE);
        const int rc = export(run, to);
        hit = fault_hit();
        fault_off();
        judge(rc, MF_ENOMEM, hit, to, n);
    }
    hit = true;
    for (long n = 1; hit; n = after(n)) {
        fault_io(n, FAULT_ONCE, EIO);
        const int rc = export(run, to);
        hit = fault_hit();
        fault_off();
        judge(rc, MF_EIO, hit, to, n);
        ck_assert_int_eq(fault_io_open(), 0);
    }
    mf_remove_tree(run);
}
END_TEST

static int import_adapter(const char *base, const char *run)
{
    char adapter[2 * PATH];
    mf_import_report r = {0};
    snprintf(adapter, sizeof adapter, "%s/../../peft/exchanged", model());
    const int rc = mf_import_adapter(adapter, base, run, &r);
    mf_free(r.run);
    return rc;
}

static int export_adapter(const char *run, const char *to)
{
    int64_t n;
    return mf_export_peft(run, to, &n);
}

/* Calls `what` repeatedly. Each time a later call fails: first of the allocations, then of the
 * calls of the system. */
static void fail_all(int (*what)(const char *from, const char *to), const char *from,
                     const char *to)
{
    for (int io = 0; io < 2; io++) {
        bool hit = true;
        for (long n = 1; hit; n = after(n)) {
            if (io)
                fault_io(n, FAULT_ONCE, EIO);
            else
                fault_alloc(n, FAULT_ONCE);
            const int rc = what(from, to);
            hit = fault_hit();
            fault_off();
            judge(rc, io ? MF_EIO : MF_ENOMEM, hit, to, n);
            if (io) ck_assert_int_eq(fault_io_open(), 0);
        }
    }
}

START_TEST(failures_with_adapters)
{
    const char *base = scratch_path("run"), *run = scratch_path("adapted"),
               *to = scratch_path("out");
    ck_assert_int_eq(import(base), MF_OK);
    fail_all(import_adapter, base, run);
    ck_assert_int_eq(import_adapter(base, run), MF_OK);
    fail_all(export_adapter, run, to);
    mf_remove_tree(run);
    mf_remove_tree(base);
}
END_TEST

/* The first steps of `quantize` and `swap`. */
static int load_changed(const char *run)
{
    static const mf_assignment set[] = {{"train.batch=1", "test"}};
    const mf_session_options options = {.no_data = true};
    const mf_load_change change = {
        .step = -1, .router = "linear", .dtype = "f32", .n_set = 1, .set = set};
    mf_session *s = NULL;
    int64_t step;
    const int rc = mf_load_run_as(run, &options, &change, &s, &step);
    if (rc == MF_OK) mf_session_close(s);
    return rc;
}

START_TEST(allocations_of_a_load)
{
    const char *run = scratch_path("run");
    ck_assert_int_eq(import(run), MF_OK);
    ck_assert_int_eq(load_changed(run), MF_OK);
    bool hit = true;
    for (long n = 1; hit; n++) {
        fault_alloc(n, FAULT_ONCE);
        const int rc = load_changed(run);
        hit = fault_hit();
        fault_off();
        ck_assert_msg(rc == MF_OK || (hit && rc == MF_ENOMEM), "call %ld: %d: %s", n, rc,
                      mf_error_message());
    }
    mf_remove_tree(run);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pretrained_faults");
    TCase *t = tcase_create("faults");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, allocations_of_an_import);
    tcase_add_test(t, calls_of_an_import);
    tcase_add_test(t, allocations_of_a_load);
    tcase_add_test(t, failures_of_an_export);
    tcase_add_test(t, failures_with_adapters);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
