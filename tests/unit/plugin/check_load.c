/* plugin/load: the same bytes are checked, hashed and mapped. The files are copies of built
 * plugins, and are exchanged while they are read. A damaged descriptor and a child that cannot
 * start are errors. */
#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/scratch.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "check_main.h"
#include "plugin/load/child.h"
#include "plugin/load/file.h"
#include "plugin/load/judge.h"
#include "plugin/load/open.h"
#include "plugin/load/symbols.h"

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

/* Changes the file after the first large read, which reads all its bytes. */
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

/* Folders that are exchanged while the dynamic linker maps the file, and exchanged
 * back afterwards. */
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

/* Replaces the library's function in this program. */
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

static bool silent;

/* Replaces the library's function in this program. */
int dlinfo(void *handle, int request, void *to)
{
    int (*real)(void *, int, void *);
    void *symbol = dlsym(RTLD_NEXT, "dlinfo");
    memcpy(&real, &symbol, sizeof real);
    return silent ? -1 : real(handle, request, to);
}

START_TEST(a_linker_that_does_not_tell_where)
{
    const mf_loaded *p;
    change = NEVER;
    copy("linear", here, "silent.so");
    silent = true;
    ck_assert_int_eq(load(&p), MF_EPLUGIN);
    silent = false;
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "the dynamic linker does not tell where it is mapped"));
}
END_TEST

/* A file with a hole, which needs no space on the disk. */
START_TEST(a_file_that_is_too_large)
{
    const mf_loaded *p;
    char expected[96];
    change = NEVER;
    copy("linear", here, "large.so");
    ck_assert_int_eq(truncate(here, (off_t)MF_PLUGIN_FILE_MAX + 1), 0);
    ck_assert_int_eq(load(&p), MF_EPLUGIN);
    snprintf(expected, sizeof expected, "its file has %lld bytes: expected at most %d",
             (long long)MF_PLUGIN_FILE_MAX + 1, MF_PLUGIN_FILE_MAX);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), expected));
}
END_TEST

/* The dynamic symbol `moefw_plugin` in the bytes of a shared object. */
static Elf64_Sym *descriptor_symbol(char *bytes)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(void *)bytes;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(void *)(bytes + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const char *names = bytes + sections[sections[i].sh_link].sh_offset;
        Elf64_Sym *list = (Elf64_Sym *)(void *)(bytes + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *list; k++)
            if (strcmp(names + list[k].st_name, "moefw_plugin") == 0) return &list[k];
    }
    ck_abort_msg("no symbol moefw_plugin");
    return NULL;
}

/* The tables of the file contain the symbol, but the dynamic linker does not find
 * local symbols. */
START_TEST(a_local_symbol)
{
    const mf_loaded *p;
    char *bytes;
    size_t n;
    change = NEVER;
    copy("linear", here, "local.so");
    ck_assert_int_eq(mf_read_file(here, 0, &bytes, &n), MF_OK);
    descriptor_symbol(bytes)->st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
    ck_assert_int_eq(mf_write_file_atomic(here, bytes, n), MF_OK);
    mf_free(bytes);
    ck_assert_int_eq(load(&p), MF_EPLUGIN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(),
                                 "no symbol: expected an exported constant 'moefw_plugin', "
                                 "found none"));
}
END_TEST

/* A file whose only hash table has the older format. Addresses are offsets in the file. */
static const struct older {
    Elf64_Ehdr header;
    Elf64_Phdr all, dynamic;
    Elf64_Dyn entries[4];
    Elf64_Sym symbols[3];
    uint32_t hash[2]; /* numbers of buckets and of symbols */
    uint32_t descriptor[8];
    char names[32];
} older = {
    .header = {.e_phoff = offsetof(struct older, all), .e_phnum = 2},
    .all = {.p_type = PT_LOAD, .p_filesz = sizeof older},
    .dynamic = {.p_type = PT_DYNAMIC,
                .p_offset = offsetof(struct older, entries),
                .p_filesz = sizeof older.entries},
    .entries = {{DT_SYMTAB, {offsetof(struct older, symbols)}},
                {DT_STRTAB, {offsetof(struct older, names)}},
                {DT_HASH, {offsetof(struct older, hash)}}},
    .symbols = {[1] = {.st_name = 0, .st_shndx = 1},
                [2] = {.st_name = 6,
                       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                       .st_shndx = 1,
                       .st_value = offsetof(struct older, descriptor)}},
    .hash = {1, 3},
    .descriptor = {MF_MAGIC, [offsetof(mf_plugin, kind) / 4] = MF_EXPERT},
    .names = "other\0moefw_plugin",
};

static int symbols_of(const struct older *file, size_t n)
{
    return mf_plugin_symbols((const unsigned char *)file, n);
}

START_TEST(symbols_of_an_older_hash_table)
{
    struct older file = older;
    const unsigned char *bytes = (const unsigned char *)&file;
    uint32_t kind;
    ck_assert_int_eq(symbols_of(&file, sizeof file), MF_OK);
    ck_assert(mf_plugin_symbols_kind(bytes, sizeof file, &kind));
    ck_assert_int_eq(kind, MF_EXPERT);
    ck_assert(mf_symbols_export(bytes, sizeof file, "other"));
    ck_assert(!mf_symbols_export(bytes, sizeof file, "moefw_backend"));
    file.symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    ck_assert_int_eq(symbols_of(&file, sizeof file), MF_EPLUGIN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "expected a constant, found a function"));
    /* The number of symbols exceeds the file, or the table itself is outside the file. */
    file.hash[1] = 1u << 31;
    ck_assert(!mf_symbols_export(bytes, sizeof file, "moefw_backend"));
    file.entries[2].d_un.d_ptr = sizeof file - 4;
    ck_assert_int_eq(symbols_of(&file, sizeof file), MF_EPLUGIN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "no symbol: expected"));
    ck_assert_int_eq(symbols_of(&file, 63), MF_EPLUGIN);
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "truncated ELF file: expected a header, found 63 bytes"));
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

/* No child process has tried the descriptor first. So only these checks protect against a
 * damaged name. */
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

static const char *const few_texts[] = {"cannot make a pipe to a child process",
                                        "cannot copy a descriptor for a child process"};

/* _i selects the number of free descriptors. 0: enough for one end of a pipe only; 1: for both
 * ends, but not for a copy of one of them. */
START_TEST(no_descriptor_is_left_for_a_child)
{
    struct rlimit before, few;
    mf_child_end end;
    const mf_child_limits limits = {5, 5};
    const int first = dup(STDERR_FILENO), second = dup(STDERR_FILENO);
    ck_assert_int_ge(first, 3);
    ck_assert_int_gt(second, first); /* other descriptors may be open between the two */
    close(first);
    close(second);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)(_i == 0 ? first : second) + 1;
    mf_child_program("/bin/true");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    const int rc = mf_child_run("x", 0, NULL, limits, ignore, NULL, &end);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    mf_child_program("");
    ck_assert_int_eq(rc, MF_ERUN);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), few_texts[_i]));
    const int again = dup(STDERR_FILENO);
    ck_assert_int_eq(again, first); /* no descriptor is left open */
    close(again);
}
END_TEST

/* Writes a shell script and sets it as the program that child processes run. */
static void child_is(const char *commands)
{
    char text[1024];
    const char *path = scratch_path("child");
    snprintf(text, sizeof text, "#!/bin/sh\n%s", commands);
    scratch_write(path, text, strlen(text));
    ck_assert_int_eq(chmod(path, 0700), 0);
    mf_child_program(path);
}

START_TEST(a_child_that_a_signal_ends)
{
    const struct {
        const char *commands, *text;
    } ends[] = {{"kill -9 $$\n", "killed by SIGKILL"},
                {"kill -40 $$\n", "killed by signal 40"}, /* signal 40 has no name */
                {"exit 3\n", "ended the process with status 3"}};
    mf_child_end end;
    const mf_child_limits limits = {60, 0};
    child_is(ends[_i].commands);
    const int rc = mf_child_run("x", 0, NULL, limits, ignore, NULL, &end);
    mf_child_program("");
    ck_assert_int_eq(rc, MF_OK);
    ck_assert(end.in_time);
    ck_assert_str_eq(end.text, ends[_i].text);
}
END_TEST

START_TEST(a_child_without_its_descriptor)
{
    char program[] = "moefw", verb[] = "--verb", word[] = "word", high[] = "9999", last[] = "x";
    char *argv[] = {program, verb, _i == 1 ? word : high, last, NULL};
    ck_assert_int_eq(mf_child_begin(_i == 0 ? 3 : 4, argv, 1), MF_EUSAGE);
    ck_assert_str_eq(mf_error_message(), "usage: moefw --verb DESCRIPTOR ARGUMENT...");
}
END_TEST

/* A file that two lines name is tried only once. The message contains the line that names
 * it first. */
START_TEST(one_file_that_is_wanted_twice)
{
    change = NEVER;
    copy("linear", here, "twice.so");
    copy("hash", other, "second.so");
    const mf_want wants[] = {{MF_ROUTER, here, "a.ini", 3},
                             {MF_ROUTER, here, "a.ini", 5},
                             {MF_ROUTER, other, "a.ini", 7}};
    char report[128];
    snprintf(report, sizeof report,
             "[ $# -eq 4 ] && echo bad 1 %d not today >/proc/self/fd/$2\n", MF_EPLUGIN);
    child_is(report);
    const int rc = mf_plugins_try(wants, 3);
    mf_child_program("");
    ck_assert_int_eq(rc, MF_EPLUGIN);
    char expected[4200];
    snprintf(expected, sizeof expected, "a.ini:7: plugin '%s' refused: not today", other);
    ck_assert_str_eq(mf_error_message(), expected);
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
    tcase_add_test(c, a_linker_that_does_not_tell_where);
    tcase_add_test(c, a_file_that_is_too_large);
    tcase_add_test(c, a_local_symbol);
    tcase_add_test(c, symbols_of_an_older_hash_table);
    tcase_add_loop_test(c, no_descriptor_is_left_for_a_child, 0, 2);
    tcase_add_loop_test(c, a_child_that_a_signal_ends, 0, 3);
    tcase_add_loop_test(c, a_child_without_its_descriptor, 0, 3);
    tcase_add_test(c, one_file_that_is_wanted_twice);
    suite_add_tcase(s, c);
    return s;
}
MF_CHECK_MAIN(suite)
