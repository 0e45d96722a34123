/* export: the content of tables and of MLflow runs. If memory or IO fails, the result must be
 * an error, and no partial target may remain. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/export/export.h"
#include "report/export/flat.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char metrics[] =
    "{\"step\":1,\"split\":\"train\",\"loss\":3,\"lr\":null,\"wall_s\":1.5,\"moe\":[{\"layer\":"
    "2,"
    "\"load\":[0.25,0.75]}],\"turns\":[{\"step\":1,\"option\":\"a.b\",\"from\":1,\"to\":2}]}\n"
    "{\"step\":2,\"split\":\"val\",\"loss\":2,\"heads\":{\"active\":3,\"total\":4}}\n";
static const char memory[] = "{\"step\":2,\"peak_rss_mib\":12.5}\n";
static const char manifest[] =
    "{\"moefw\":\"0.1.0\",\"began\":\"2024-02-29T12:00:01Z\",\"steps\":2,\"classes\":[]}\n";
static const char config[] = "[model]\ndim = 8\n[data]\npath =\n";

/* Makes a run with these metrics and this memory.jsonl. */
static const char *run_of(const char *name, const char *of_metrics, const char *of_memory,
                          const char *of_manifest)
{
    const struct {
        const char *name, *text;
    } files[] = {{"metrics.jsonl", of_metrics},
                 {"memory.jsonl", of_memory},
                 {"manifest.json", of_manifest},
                 {"config.ini", config}};
    const char *folder = scratch_path(name);
    mkdir(folder, 0777);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[640];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        scratch_write(path, files[i].text, strlen(files[i].text));
    }
    return folder;
}

static const char *run_with(const char *name, const char *of_metrics, const char *of_memory)
{
    return run_of(name, of_metrics, of_memory, manifest);
}

static const char *run_folder(void)
{
    return run_with("run", metrics, memory);
}

static void holds(const char *folder, const char *name, const char *text)
{
    char path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *found = scratch_read(path, &n);
    ck_assert_msg(found != NULL, "%s: is not there", path);
    ck_assert_msg(n == strlen(text) && memcmp(found, text, n) == 0,
                  "%s: expected %s, found %.*s", path, text, (int)n, found);
    free(found);
}

START_TEST(what_is_written)
{
    const char *run = run_folder(), *table = scratch_path("table.csv");
    char *path;
    ck_assert_msg(mf_export_csv(1, &run, table) == MF_OK, "%s", mf_error_message());
    holds(scratch_dir(), "table.csv",
          "step,split,loss,wall_s,moe.2.load.0,moe.2.load.1,turns.a.b,heads.active,heads.total,"
          "peak_rss_mib\n"
          "1,train,3,1.5,0.25,0.75,2,,,\n"
          "2,val,2,,,,,3,4,12.5\n");
    const mf_export_mlflow_options o = {scratch_path("store"), "it's", false};
    ck_assert_msg(mf_export_mlflow(run, &o, &path) == MF_OK, "%s", mf_error_message());
    holds(path, "metrics/train/loss", "1709208002500 3 1\n"); /* 2024-02-29 12:00:02.5 UTC */
    holds(path, "metrics/val/loss", "1709208002500 2 2\n");   /* uses the last known wall_s */
    holds(path, "metrics/val/peak_rss_mib", "1709208002500 12.5 2\n");
    holds(path, "metrics/train/moe.2.load.1", "1709208002500 0.75 1\n");
    holds(path, "metrics/train/turns.a.b", "1709208002500 2 1\n");
    holds(path, "params/model.dim", "8");
    holds(path, "params/data.path", "");
    holds(path, "tags/moefw.version", "0.1.0");
    holds(path, "tags/moefw.steps", "2");
    mf_free(path);
}
END_TEST

/* Lines that are not records are counted; the other lines are exported. */
START_TEST(damaged_lines_are_skipped)
{
    static const char damaged[] = "{\"step\":1,\"split\":\"val\",\"loss\":3}\n"
                                  "{\"step\":2}\n{\"split\":\"val\"}\n";
    const char *run =
        run_with("damaged", damaged, "{\"step\":1}\n{\"step\":1,\"peak_rss_mib\":2.5}\n");
    mf_flat f = {0};
    ck_assert_msg(mf_flat_add(&f, run) == MF_OK, "%s", mf_error_message());
    ck_assert_uint_eq(f.n_lines, 1);
    ck_assert_uint_eq(f.n_values, 2); /* loss, peak_rss_mib */
    ck_assert_double_eq(f.values[1].value, 2.5);
    ck_assert_int_eq(f.damaged, 2);
    ck_assert_int_eq(f.damaged_memory, 1);
    run = run_with("none", "{\"step\":2}\n", memory);
    ck_assert_int_eq(mf_flat_add(&f, run), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "metrics.jsonl: no record in it"));
    mf_error_clear();
    mf_flat_free(&f);
}
END_TEST

/* MLflow accepts letters, digits, _, -, . and blanks in names. */
START_TEST(names_are_those_of_mlflow)
{
    const char *run = run_with(
        "named", "{\"step\":1,\"split\":\"train\",\"wall_s\":1,\"regularizers\":{\"a<b\":2}}\n",
        memory);
    const mf_export_mlflow_options o = {scratch_path("named-store"), "e", false};
    char *path;
    ck_assert_msg(mf_export_mlflow(run, &o, &path) == MF_OK, "%s", mf_error_message());
    holds(path, "metrics/train/regularizers.a_b", "1709208002000 2 1\n");
    mf_free(path);
}
END_TEST

/* Times of a run are counted from the date in its manifest. Without a date they are counted
 * from 0. */
START_TEST(without_a_date)
{
    const char *run = run_of("undated", metrics, memory,
                             "{\"moefw\":\"0.1.0\",\"began\":\"today\",\"steps\":2,"
                             "\"classes\":[]}\n");
    const mf_export_mlflow_options o = {scratch_path("undated-store"), "e", false};
    char *path;
    ck_assert_msg(mf_export_mlflow(run, &o, &path) == MF_OK, "%s", mf_error_message());
    holds(path, "metrics/train/loss", "1500 3 1\n");
    mf_free(path);
}
END_TEST

/* The store's address contains the current folder, which another program may have removed. */
START_TEST(in_a_folder_that_is_gone)
{
    const char *run = run_folder(), *gone = scratch_path("gone");
    const mf_export_mlflow_options o = {"store", "e", false};
    char *path = NULL;
    ck_assert_int_eq(mkdir(gone, 0777), 0);
    ck_assert_int_eq(chdir(gone), 0);
    ck_assert_int_eq(rmdir(gone), 0);
    const int rc = mf_export_mlflow(run, &o, &path);
    ck_assert_int_eq(chdir(scratch_dir()), 0);
    ck_assert_int_eq(rc, MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "store: the current folder is not known"));
}
END_TEST

/* An experiment is found by its name, regardless of how its meta.yaml quotes the name. */
START_TEST(experiments_are_found_by_name)
{
    static const char *const quoted[][2] = {
        {"it's", "'it''s'"}, {"a \"b\" \\", "\"a \\\"b\\\" \\\\\""}, {"plain", "plain  "}};
    const char *run = run_folder(), *store = scratch_path("store-of-names");
    mkdir(store, 0777);
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        char folder[640], meta[256], *path;
        const mf_export_mlflow_options o = {store, quoted[i][0], false};
        snprintf(folder, sizeof folder, "%s/%zu", store, i + 7);
        mkdir(folder, 0777);
        snprintf(meta, sizeof meta, "name: %s\nlifecycle_stage: active\n", quoted[i][1]);
        snprintf(folder + strlen(folder), 16, "/meta.yaml");
        scratch_write(folder, meta, strlen(meta));
        ck_assert_msg(mf_export_mlflow(run, &o, &path) == MF_OK, "%s", mf_error_message());
        snprintf(folder, sizeof folder, "%s/%zu/", store, i + 7);
        ck_assert_msg(strncmp(path, folder, strlen(folder)) == 0, "%s: %s", quoted[i][0], path);
        mf_free(path);
    }
}
END_TEST

/* Whether the file is complete. A complete file may remain if only syncing the
 * folder failed. */
static bool is_whole(const char *path)
{
    size_t n;
    char *text = scratch_read(path, &n);
    const bool whole = text && n > 9 && memcmp(text + n - 9, "3,4,12.5\n", 9) == 0;
    free(text);
    return whole;
}

/* Makes each call fail once. */
static void fails_once(bool alloc, const char *run, const char *target, bool csv)
{
    for (long nth = 1;; nth++) {
        char *path = NULL;
        const mf_export_mlflow_options o = {target, "e", false};
        if (alloc)
            fault_alloc(nth, FAULT_ONCE);
        else
            fault_io(nth, FAULT_ONCE, ENOSPC);
        const int rc = csv ? mf_export_csv(1, &run, target) : mf_export_mlflow(run, &o, &path);
        const bool hit = fault_hit();
        mf_free(path);
        ck_assert_int_eq(alloc ? fault_alloc_live() : fault_io_open(), 0);
        fault_off();
        ck_assert_msg(hit || rc == MF_OK, "call %ld: %s", nth, mf_error_message());
        ck_assert_msg(rc == MF_OK || mf_error_message()[0], "call %ld: %d without a word", nth,
                      rc);
        ck_assert_msg(rc == MF_OK || !mf_exists(target) || (csv && is_whole(target)),
                      "call %ld: %s: something is left", nth, mf_error_message());
        ck_assert_int_eq(mf_remove_tree(target), MF_OK);
        if (!hit) break;
    }
}

START_TEST(what_fails_leaves_nothing)
{
    const char *run = run_folder();
    mf_log_set_level(MF_LOG_ERROR);
    for (int alloc = 0; alloc < 2; alloc++) {
        fails_once(alloc, run, scratch_path("half.csv"), true);
        fails_once(alloc, run, scratch_path("half"), false);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("export");
    TCase *t = tcase_create("export");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_written);
    tcase_add_test(t, damaged_lines_are_skipped);
    tcase_add_test(t, names_are_those_of_mlflow);
    tcase_add_test(t, without_a_date);
    tcase_add_test(t, in_a_folder_that_is_gone);
    tcase_add_test(t, experiments_are_found_by_name);
    tcase_add_test(t, what_fails_leaves_nothing);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
