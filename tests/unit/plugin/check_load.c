/* plugin/load: the bytes that are judged, hashed and mapped are the same. The files are copies
 * of built plugins, which are exchanged while they are read. A damaged descriptor and a child
 * that cannot start are errors. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/scratch.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "check_main.h"
#include "plugin/load/child.h"
#include "plugin/load/judge.h"
#include "plugin/load/open.h"

static char here[4096], other[4096];
static enum { NEVER, RENAME, APPEND } change;

/* Copies a router of the build folder into the scratch folder. */
static void copy(const char *router, char path[4096], const char *name)
{
    char from[4096], *bytes;
    size_t n;
    const char *build = getenv("builddir");
    snprintf(from, sizeof from, "%s/plugins/routers/%s.so", build ? build : ".", router);
    snprintf(path, 4096, "%s/%s", scratch_dir(), name);
    ck_assert_int_eq(mf_read_file(from, 0, &bytes, &n), MF_OK);
    ck_assert_int_eq(mf_write_file_atomic(path, bytes, n), MF_OK);
    mf_free(bytes);
}

/* Changes the file after its first large read, which is that of all its bytes. */
static ssize_t changing_pread(int fd, void *to, size_t n, off_t offset)
{
    const ssize_t got = mf_io_default()->pread(fd, to, n, offset);
    if (n < 4096 || change == NEVER) return got;
    if (change == RENAME) {
        ck_assert_int_eq(rename(other, here), 0);
    } else {
        FILE *f = fopen(here, "ab");
        ck_assert(f && fputc(0, f) == 0 && fclose(f) == 0);
    }
    change = NEVER;
    return got;
}

static int load(const mf_loaded **ret)
{
    mf_io_table table = *mf_io_default();
    table.pread = changing_pread;
    mf_io_set_table(&table);
    const int rc = mf_plugin_load(MF_ROUTER, here, NULL, 0, ret);
    mf_io_set_table(NULL);
    return rc;
}

START_TEST(exchanged_while_it_is_read)
{
    const mf_loaded *p;
    copy("linear", here, "here.so");
    copy("hash", other, "other.so");
    change = _i == 0 ? RENAME : APPEND;
    ck_assert_int_eq(load(&p), MF_EPLUGIN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "it changed while it was loaded"));
}
END_TEST

/* Folders that are exchanged while the dynamic linker maps the file, and back. */
static char folder[4096], strange[4096];
static bool exchange;

static void exchange_folders(void)
{
    char aside[4200];
    snprintf(aside, sizeof aside, "%s.aside", folder);
    ck_assert_int_eq(rename(folder, aside), 0);
    ck_assert_int_eq(rename(strange, folder), 0);
    ck_assert_int_eq(rename(aside, strange), 0);
}

/* Takes the place of the library's function in this program. */
void *dlopen(const char *file, int mode)
{
    void *(*real)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &symbol, sizeof real);
    if (exchange) exchange_folders();
    void *handle = real(file, mode);
    if (exchange) exchange_folders();
    return handle;
}

START_TEST(a_folder_that_is_exchanged_around_dlopen)
{
    const mf_loaded *p;
    change = NEVER;
    snprintf(folder, sizeof folder, "%s/folder", scratch_dir());
    snprintf(strange, sizeof strange, "%s/strange", scratch_dir());
    ck_assert(mkdir(folder, 0700) == 0 && mkdir(strange, 0700) == 0);
    copy("hash", other, "strange/p.so");
    copy("linear", here, "folder/p.so");
    exchange = true;
    ck_assert_int_eq(load(&p), MF_EPLUGIN);
    exchange = false;
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "found others in memory"));
}
END_TEST

START_TEST(a_new_file_under_an_old_name)
{
    const mf_loaded *first, *second, *again;
    char hash[33];
    copy("linear", here, "here.so");
    change = NEVER;
    ck_assert_int_eq(load(&first), MF_OK);
    ck_assert_str_eq(first->name, "linear");
    copy("hash", other, "other.so");
    ck_assert_int_eq(mf_hash_file(other, hash), MF_OK);
    ck_assert_int_eq(rename(other, here), 0);
    ck_assert_int_eq(load(&second), MF_OK);
    ck_assert_str_eq(second->name, "hash");
    ck_assert_str_eq(second->hash, hash);
    ck_assert_str_ne(first->hash, hash);
    ck_assert_int_eq(load(&again), MF_OK);
    ck_assert_ptr_eq(again, second);
}
END_TEST

/* No child has tried the descriptor first, so nothing else protects from its name. */
START_TEST(a_damaged_descriptor_of_another_kind)
{
    mf_loaded loaded;
    const mf_plugin d = {.magic = MF_MAGIC,
                         .abi = MF_ABI,
                         .size = sizeof(mf_plugin),
                         .host_size = sizeof(mf_host),
                         .option_size = sizeof(mf_option),
                         .kind = MF_EXPERT,
                         .name = (const char *)8};
    ck_assert_int_eq(mf_judge(&d, sizeof d, MF_ROUTER, NULL, NULL, NULL, &loaded), MF_EPLUGIN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "name: expected the address of memory"));
}
END_TEST

static void ignore(void *arg, char *line)
{
    (void)arg;
    (void)line;
}

/* Room for the two ends of a pipe, but not for a copy of one. */
START_TEST(no_descriptor_is_left_for_a_child)
{
    struct rlimit before, few;
    mf_child_end end;
    const mf_child_limits limits = {5, 5};
    const int first = dup(STDERR_FILENO), second = dup(STDERR_FILENO);
    ck_assert_int_ge(first, 3);
    ck_assert_int_gt(second, first); /* others may be open between the two */
    close(first);
    close(second);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)second + 1;
    mf_child_program("/bin/true");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    const int rc = mf_child_run("x", 0, NULL, limits, ignore, NULL, &end);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    mf_child_program("");
    ck_assert_int_eq(rc, MF_ERUN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "cannot copy a descriptor"));
    const int again = dup(STDERR_FILENO);
    ck_assert_int_eq(again, first); /* none is left open */
    close(again);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("plugin/load");
    TCase *c = tcase_create("files");
    tcase_add_loop_test(c, exchanged_while_it_is_read, 0, 2);
    tcase_add_test(c, a_new_file_under_an_old_name);
    tcase_add_test(c, a_folder_that_is_exchanged_around_dlopen);
    tcase_add_test(c, a_damaged_descriptor_of_another_kind);
    tcase_add_test(c, no_descriptor_is_left_for_a_child);
    suite_add_tcase(s, c);
    return s;
}
MF_CHECK_MAIN(suite)
