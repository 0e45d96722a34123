/* report and configuration when memory or the disk fail: an error, nothing left behind, never a
 * crash; and the report of runs with odd contents. */
#include "check_main.h"

#include "base/error.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "model/config.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char metrics[] =
    "{\"step\":1,\"split\":\"train\",\"loss\":3,\"task_loss\":2.5,\"lr\":0.1,\"grad_norm\":1,"
    "\"tokens\":10,\"tokens_per_s\":5,"
    "\"wall_s\":1,\"regularizers\":{\"b\":1},\"controllers\":{\"c\":{\"x\":1}},\"moe\":[{"
    "\"layer\":0,\"entropy\":1,\"load\":[0.5,0.5],"
    "\"importance\":[0.5,0.5],\"load_cv\":0,\"drop_rate\":0.5,\"reassigned\":1,\"empty\":0}],"
    "\"turns\":[{\"step\":1,\"option\":\"a.b\","
    "\"from\":1,\"to\":2,\"by\":\"controller.c\",\"reason\":\"r\"}]}\n"
    "{\"step\":2,\"split\":\"val\",\"loss\":2,\"task_loss\":2,\"accuracy\":0.5,\"macro_f1\":0."
    "4,\"heads\":{\"active\":3,\"total\":4},\"moe\":[]}\n";
static const char sample[] =
    "{\"step\":2,\"labels\":[\"a\",\"b\"],\"tokens\":[\"x\",\" "
    "y\"],\"token_labels\":[0,1],\"layers\":[{\"layer\":0,\"experts\":2,\"top_k\":1,"
    "\"prob\":null,\"chosen\":[[0],[1]],\"by_label\":[[1,2],[3,0]],\"nmi\":0.3}]}";

static const char *write_run(const char *name, const char *text)
{
    static char folder[512];
    char path[600];
    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    scratch_write(path, text, strlen(text));
    snprintf(path, sizeof path, "%s/routing_sample.json", folder);
    scratch_write(path, sample, sizeof sample - 1);
    snprintf(path, sizeof path, "%s/config.ini", folder);
    scratch_write(path, "[router]\nplugin = r\n", 20);
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    scratch_write(path, "{\"params\":5}", 12);
    return folder;
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

START_TEST(a_report_without_memory)
{
    const char *const runs[] = {write_run("run", metrics)};
    const char *out = scratch_path("memory.html");
    for (long n = 1;; n += n < 60 ? 1 : 7) {
        fault_alloc(n, n % 2 ? FAULT_ONCE : FAULT_FROM);
        int rc = mf_report_write(1, runs, out);
        bool hit = fault_hit();
        long live = fault_alloc_live();
        fault_off();
        ck_assert_msg(live == 0, "allocation %ld: %ld blocks left", n, live);
        if (!hit) {
            ck_assert_int_eq(rc, MF_OK);
            break;
        }
        ck_assert_msg(rc == MF_ENOMEM, "allocation %ld: %d, %s", n, rc, mf_error_message());
        ck_assert(!exists(out));
    }
    ck_assert(exists(out));
}
END_TEST

START_TEST(a_report_on_a_failing_disk)
{
    const char *const runs[] = {write_run("run", metrics)};
    const char *out = scratch_path("disk.html");
    for (long n = 1;; n++) {
        remove(out);
        fault_io(n, FAULT_ONCE, EIO);
        int rc = mf_report_write(1, runs, out);
        bool hit = fault_hit();
        long open = fault_io_open();
        fault_off();
        ck_assert_int_eq(open, 0);
        if (!hit) {
            ck_assert_int_eq(rc, MF_OK);
            break;
        }
        if (rc != MF_OK) ck_assert_str_ne(mf_error_message(), "");
        if (rc == MF_OK) { /* then what failed was an input, and the page is whole */
            size_t size;
            char *text = scratch_read(out, &size);
            ck_assert_ptr_nonnull(text);
            ck_assert_ptr_nonnull(strstr(text, "</html>"));
            free(text);
        }
    }
}
END_TEST

START_TEST(a_configuration_without_memory)
{
    const char *set[] = {"train.lr=0.5", "regularizer.mine.plugin=p"};
    for (long n = 1;; n += n < 100 ? 1 : 5) {
        mf_config *c;
        fault_alloc(n, n % 2 ? FAULT_ONCE : FAULT_FROM);
        int rc = mf_config_load(NULL, 2, set, &c);
        bool hit = fault_hit();
        if (rc == MF_OK) mf_config_free(c);
        long live = fault_alloc_live();
        fault_off();
        ck_assert_msg(live == 0, "allocation %ld: %ld blocks left", n, live);
        if (!hit) {
            ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
            break;
        }
        if (rc != MF_OK) ck_assert_ptr_null(c);
    }
}
END_TEST

/* Whatever stands in metrics.jsonl, as long as there is one record, becomes a page. */
START_TEST(odd_records)
{
    static const char *const texts[] = {
        "{\"step\":0,\"split\":\"train\"}\n",
        "{\"step\":-5,\"split\":\"val\",\"loss\":null}\n{\"step\":9007199254740993,\"split\":"
        "\"val\",\"task_loss\":1e308}\n",
        "{\"step\":1,\"split\":\"<b>\",\"moe\":[{},{},{}]}\n",
        "{\"step\":1,\"split\":\"train\",\"loss\":1,\"moe\":[{\"layer\":-7,\"load\":[]}]}\n",
        "{\"step\":1,\"split\":\"train\",\"loss\":1,\"moe\":[{\"layer\":0,\"load\":[1]}]}\n"
        "{\"step\":1,\"split\":\"train\",\"loss\":1,\"moe\":[{\"layer\":0,\"load\":[0.5,0.5]},{"
        "\"layer\":1,\"load\":[1,0,0]}]}\n",
        "{\"step\":3,\"split\":\"train\",\"loss\":-1,\"lr\":0,\"grad_norm\":0,\"tokens_per_s\":"
        "0,\"wall_s\":0}\n",
        "{\"step\":3,\"split\":\"train\",\"turns\":[{},{\"option\":\"<i>\"}]}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t size;
        const char *const runs[] = {write_run("odd", texts[i])};
        int rc = mf_report_write(1, runs, scratch_path("odd.html"));
        ck_assert_msg(rc == MF_OK, "%zu: %s", i, mf_error_message());
        char *text = scratch_read(scratch_path("odd.html"), &size);
        ck_assert_ptr_nonnull(strstr(text, "</html>"));
        ck_assert_ptr_null(strstr(text, "<i>"));
        ck_assert_ptr_null(strstr(text, ">nan<"));
        free(text);
    }
}
END_TEST

START_TEST(too_many_runs)
{
    const char *runs[100];
    for (int i = 0; i < 100; i++)
        runs[i] = "x";
    ck_assert_int_eq(mf_report_write(100, runs, scratch_path("no.html")), MF_EUSAGE);
    ck_assert_int_eq(mf_report_write(0, runs, scratch_path("no.html")), MF_EUSAGE);
    ck_assert(!exists(scratch_path("no.html")));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report");
    TCase *c = tcase_create("report");
    tcase_add_test(c, a_report_without_memory);
    tcase_add_test(c, a_report_on_a_failing_disk);
    tcase_add_test(c, a_configuration_without_memory);
    tcase_add_test(c, odd_records);
    tcase_add_test(c, too_many_runs);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
