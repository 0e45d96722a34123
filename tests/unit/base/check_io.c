/* io: whole files, the writer, directories, hashes. Tests with faults repeat their work; in
 * each repetition another IO call or allocation fails. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/file/io_raw.h"
#include "base/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_content(const char *path, const char *want, size_t n)
{
    size_t got;
    char *data = scratch_read(path, &got);
    ck_assert_msg(data != NULL, "%s is missing", path);
    ck_assert_uint_eq(got, n);
    ck_assert_int_eq(memcmp(data, want, n), 0);
    free(data);
}

/* Returns the number of names in a folder, without . and .. */
static int entries(const char *path)
{
    char **names;
    int n;
    ck_assert_int_eq(mf_list_dir(path, &names, &n), MF_OK);
    mf_list_free(names, n);
    return n;
}

static const char *fresh_dir(const char *name)
{
    const char *path = scratch_path(name);
    ck_assert_int_eq(mf_remove_tree(path), MF_OK);
    ck_assert_int_eq(mf_mkdirs(path), MF_OK);
    return path;
}

START_TEST(read_whole_files)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 300001};
    static char big[300001];
    const char *path = scratch_path("read");
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 31 % 253);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *data;
        size_t n;
        scratch_write(path, big, sizes[i]);
        ck_assert_int_eq(mf_read_file(path, 0, &data, &n), MF_OK);
        ck_assert_uint_eq(n, sizes[i]);
        ck_assert_int_eq(memcmp(data, big, n), 0);
        ck_assert_int_eq(data[n], 0);
        mf_free(data);
        ck_assert_int_eq(mf_read_file(path, sizes[i] ? sizes[i] : 1, &data, &n), MF_OK);
        mf_free(data);
        if (sizes[i] < 2) continue;
        ck_assert_int_eq(mf_read_file(path, sizes[i] - 1, &data, &n), MF_EINPUT);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), path));
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "too large"));
    }
}
END_TEST

/* Reads files whose size stat does not report. */
START_TEST(read_proc)
{
    char *data;
    size_t n;
    ck_assert_int_eq(mf_read_file("/proc/self/status", 0, &data, &n), MF_OK);
    ck_assert_ptr_nonnull(strstr(data, "Pid:"));
    mf_free(data);
    ck_assert_int_eq(mf_read_file("/proc/self/status", 10, &data, &n), MF_EINPUT);
    ck_assert_int_eq(mf_read_file("/proc/self/smaps", 0, &data, &n), MF_OK);
    ck_assert_uint_gt(n, 4096); /* more than one block, although the length is unknown */
    mf_free(data);
    fault_alloc(2, FAULT_ONCE);
    ck_assert_int_eq(mf_read_file("/proc/self/smaps", 0, &data, &n), MF_ENOMEM);
    fault_off();
    ck_assert_int_eq(fault_alloc_live(), 0);
}
END_TEST

START_TEST(refused_files)
{
    const char *fifo = scratch_path("fifo");
    char *data;
    size_t n;
    ck_assert_int_eq(mf_read_file(scratch_path("none"), 0, &data, &n), MF_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "none: there is no such file"));
    ck_assert_int_eq(mf_read_file(scratch_dir(), 0, &data, &n), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "found a directory"));
    ck_assert_int_eq(mf_read_file("/dev/null", 0, &data, &n), MF_EINPUT);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(mf_read_file(fifo, 0, &data, &n), MF_EINPUT); /* a FIFO must not block */
    unlink(fifo);
}
END_TEST

START_TEST(read_at_a_place)
{
    const char *path = scratch_path("at");
    char buf[8];
    uint64_t size;
    int fd;
    scratch_write(path, "0123456789", 10);
    ck_assert_int_eq(mf_file_open(path, &fd, &size), MF_OK);
    ck_assert_uint_eq(size, 10);
    ck_assert_int_eq(mf_file_read_at(fd, path, buf, 4, 6), MF_OK);
    ck_assert_int_eq(memcmp(buf, "6789", 4), 0);
    ck_assert_int_eq(mf_file_read_at(fd, path, buf, 0, 10), MF_OK);
    ck_assert_int_eq(mf_file_read_at(fd, path, buf, 5, 6), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "cut short"));
    ck_assert_int_eq(mf_file_read_at(fd, path, buf, 5, UINT64_MAX - 2), MF_EINPUT);
    mf_file_close(fd);
}
END_TEST

START_TEST(atomic_write)
{
    const char *dir = fresh_dir("atomic"), *path = scratch_path("atomic/file");
    ck_assert_int_eq(mf_write_file_atomic(path, "one", 3), MF_OK);
    assert_content(path, "one", 3);
    ck_assert_int_eq(mf_write_file_atomic(path, "", 0), MF_OK);
    assert_content(path, "", 0);
    ck_assert_int_eq(mf_write_file_atomic(path, "three", 5), MF_OK);
    assert_content(path, "three", 5);
    ck_assert_int_eq(entries(dir), 1);
    ck_assert_int_eq(mf_write_file_atomic(dir, "x", 1), MF_EIO);
    ck_assert_int_eq(mf_write_file_atomic("/dev/null", "x", 1), MF_EIO);
    ck_assert_int_eq(mf_write_file_atomic(scratch_path("atomic/no/file"), "x", 1), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "No such file"));
}
END_TEST

/* Files that a killed process with the same process id has left must have no effect. */
START_TEST(atomic_write_with_leftovers)
{
    const char *path = scratch_path("atomic-left/file");
    char left[1200];
    fresh_dir("atomic-left");
    snprintf(left, sizeof left, "%s.%ld-0.tmp", path, (long)getpid());
    scratch_write(left, "half", 4);
    ck_assert_int_eq(mf_write_file_atomic(path, "whole", 5), MF_OK);
    assert_content(path, "whole", 5);
    assert_content(left, "half", 4);
}
END_TEST

static int every_name_is_taken(const char *path, int flags, int mode)
{
    (void)path, (void)flags, (void)mode;
    errno = EEXIST;
    return -1;
}

START_TEST(atomic_write_without_a_free_name)
{
    mf_io_table taken = *mf_io_default();
    taken.open = every_name_is_taken;
    mf_io_set_table(&taken);
    const int rc = mf_write_file_atomic(scratch_path("taken"), "new", 3);
    mf_io_set_table(NULL);
    ck_assert_int_eq(rc, MF_EIO);
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "taken: cannot create a file beside it: 1000 names"));
    ck_assert(!mf_exists(scratch_path("taken")));
}
END_TEST

/* Writes a path without a slash, in the working directory. */
START_TEST(atomic_write_here)
{
    char *old = getcwd(NULL, 0);
    fresh_dir("here");
    ck_assert_int_eq(chdir(scratch_path("here")), 0);
    ck_assert_int_eq(mf_write_file_atomic("name", "x", 1), MF_OK);
    assert_content("name", "x", 1);
    ck_assert_int_eq(chdir(old), 0);
    free(old);
}
END_TEST

/* The central test. Whatever call fails, path contains all of the old or all of the new text.
 * Success means that it contains the new text. Nothing leaks, and no other file remains, unless
 * removing it fails, too. */
START_TEST(atomic_write_with_faults)
{
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    const char *dir = fresh_dir("faulty"), *path = scratch_path("faulty/file");
    for (size_t e = 0; e < 3; e++)
        for (int form = FAULT_ONCE; form <= FAULT_FROM; form++)
            for (long n = 1;; n++) {
                scratch_write(path, "old content", 11);
                mf_error_clear();
                fault_alloc(0, FAULT_ONCE);
                fault_io(n, (fault_form)form, errors[e]);
                int rc = mf_write_file_atomic(path, "new", 3);
                bool hit = fault_hit();
                fault_off();
                ck_assert_int_eq(fault_alloc_live(), 0);
                ck_assert_int_eq(fault_io_open(), 0);
                size_t size;
                char *now = scratch_read(path, &size);
                bool is_new = size == 3 && memcmp(now, "new", 3) == 0;
                bool is_old = size == 11 && memcmp(now, "old content", 11) == 0;
                free(now);
                ck_assert_msg(is_new || is_old, "torn by %s", fault_hit_call());
                if (rc == MF_OK) {
                    ck_assert(is_new);
                    /* Only closing the directory may fail without an error, because the
                     * directory was synced before. */
                    ck_assert(!hit || strcmp(fault_hit_call(), "close") == 0);
                } else {
                    ck_assert(hit);
                    ck_assert_int_eq(rc, MF_EIO);
                    ck_assert_int_eq(mf_error_code(), MF_EIO);
                    ck_assert_ptr_nonnull(strstr(mf_error_message(), dir));
                    ck_assert_ptr_nonnull(strstr(mf_error_message(), strerror(errors[e])));
                }
                if (form == FAULT_ONCE || !hit) ck_assert_int_eq(entries(dir), 1);
                if (!hit) {
                    ck_assert_int_ge(n, 8); /* open write fsync close rename open fsync close */
                    break;
                }
                fresh_dir("faulty");
            }
}
END_TEST

/* A process that ends at any IO call leaves the old or the new file. */
START_TEST(atomic_write_killed)
{
    const char *path = scratch_path("killed/file");
    fresh_dir("killed");
    for (long n = 1;; n++) {
        int status;
        size_t size;
        scratch_write(path, "old content", 11);
        pid_t child = fork();
        if (child == 0) {
            fault_io_exit(n, 33);
            _exit(mf_write_file_atomic(path, "new", 3) == MF_OK ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status));
        char *now = scratch_read(path, &size);
        if (WEXITSTATUS(status) == 0) {
            ck_assert_str_eq(now, "new");
            free(now);
            ck_assert_int_ge(n, 8);
            break;
        }
        ck_assert_int_eq(WEXITSTATUS(status), 33);
        ck_assert(strcmp(now, "old content") == 0 || strcmp(now, "new") == 0);
        free(now);
    }
}
END_TEST

START_TEST(short_calls_and_signals)
{
    const char *path = scratch_path("crumbs");
    char *data, hash[33], want[33];
    size_t n;
    mf_writer w;
    fault_io_crumbs();
    ck_assert_int_eq(mf_write_file_atomic(path, "a text of more than seven bytes", 31), MF_OK);
    ck_assert_int_eq(mf_read_file(path, 0, &data, &n), MF_OK);
    ck_assert_uint_eq(n, 31);
    ck_assert_str_eq(data, "a text of more than seven bytes");
    mf_free(data);
    ck_assert_int_eq(mf_hash_file(path, hash), MF_OK);
    mf_hash_bytes("a text of more than seven bytes", 31, want);
    ck_assert_str_eq(hash, want);
    ck_assert_int_eq(mf_writer_append(&w, path), MF_OK);
    mf_writer_printf(&w, ", and %d more", 10);
    ck_assert_int_eq(mf_writer_close(&w, true), MF_OK);
    fault_off();
    assert_content(path, "a text of more than seven bytes, and 10 more", 44);
}
END_TEST

START_TEST(writer_writes)
{
    enum { BIG = 400000 };
    static char want[BIG + 100000], chunk[BIG];
    const char *path = scratch_path("writer");
    size_t n = 0;
    mf_writer w;
    ck_assert_int_eq(mf_writer_open(&w, path, false), MF_OK);
    for (int i = 0; i < 3000; i++) {
        mf_writer_printf(&w, "line %d\n", i);
        n += (size_t)sprintf(want + n, "line %d\n", i);
    }
    memset(chunk, 'x', sizeof chunk);
    memset(want + n, 'x', sizeof chunk);
    mf_writer_put(&w, chunk, sizeof chunk);
    n += sizeof chunk;
    mf_writer_printf(&w, "%s%0700d", "", 7); /* longer than any small buffer */
    n += (size_t)sprintf(want + n, "%0700d", 7);
    mf_writer_put(&w, "end", 3);
    mf_writer_put(&w, NULL, 0);
    memcpy(want + n, "end", 3);
    n += 3;
    ck_assert_uint_eq(w.bytes, n);
    ck_assert_int_eq(mf_writer_flush(&w), MF_OK);
    assert_content(path, want, n);
    ck_assert_int_eq(mf_writer_close(&w, true), MF_OK);
    ck_assert_int_eq(mf_writer_append(&w, path), MF_OK);
    ck_assert_uint_eq(w.bytes, n);
    mf_writer_put(&w, "!", 1);
    want[n++] = '!';
    ck_assert_uint_eq(w.bytes, n);
    ck_assert_int_eq(mf_writer_close(&w, false), MF_OK);
    assert_content(path, want, n);
    ck_assert_int_eq(mf_writer_open(&w, path, true), MF_EIO); /* exclusive: the file exists */
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "File exists"));
    mf_writer_put(&w, "lost", 4);
    ck_assert_int_eq(mf_writer_close(&w, true), MF_EIO);
    assert_content(path, want, n);
    ck_assert_int_eq(mf_writer_open(&w, path, false), MF_OK);
    ck_assert_int_eq(mf_writer_close(&w, false), MF_OK);
    assert_content(path, "", 0);
    ck_assert_int_eq(mf_writer_close(&w, false), MF_OK); /* succeeds: the writer was
                                                          * closed before */
    mf_writer zeroed = {0};
    ck_assert_int_eq(mf_writer_close(&zeroed, true), MF_OK);
}
END_TEST

static int writer_work(const char *path)
{
    static char chunk[100000];
    mf_writer w;
    int rc = mf_writer_open(&w, path, true);
    if (rc != MF_OK) return rc;
    memset(chunk, 'y', sizeof chunk);
    for (int i = 0; i < 4; i++)
        mf_writer_put(&w, chunk, sizeof chunk);
    mf_writer_printf(&w, "%0600d", 1);
    /* an error recorded before close must not hide the writer's error */
    mf_fail(MF_EINVAL, "somebody else's error");
    return mf_writer_close(&w, true);
}

START_TEST(writer_with_io_faults)
{
    const char *path = scratch_path("writer-faults");
    for (int form = FAULT_ONCE; form <= FAULT_FROM; form++)
        for (long n = 1;; n++) {
            unlink(path);
            fault_alloc(0, FAULT_ONCE);
            fault_io(n, (fault_form)form, ENOSPC);
            int rc = writer_work(path);
            bool hit = fault_hit();
            fault_off();
            ck_assert_int_eq(fault_alloc_live(), 0);
            ck_assert_int_eq(fault_io_open(), 0);
            /* every failing call must be reported */
            ck_assert_int_eq(rc, hit ? MF_EIO : MF_OK);
            if (!hit) {
                size_t size;
                char *data = scratch_read(path, &size);
                ck_assert_uint_eq(size, 400600);
                free(data);
                ck_assert_int_ge(n, 7);
                break;
            }
            ck_assert_ptr_nonnull(strstr(mf_error_message(), path));
            ck_assert_ptr_nonnull(strstr(mf_error_message(), "No space left"));
        }
}
END_TEST

START_TEST(writer_without_memory)
{
    const char *path = scratch_path("writer-memory");
    for (int form = FAULT_ONCE; form <= FAULT_FROM; form++)
        for (long n = 1;; n++) {
            unlink(path);
            fault_io(0, FAULT_ONCE, EIO);
            fault_alloc(n, (fault_form)form);
            int rc = writer_work(path);
            bool hit = fault_hit();
            fault_off();
            ck_assert_int_eq(fault_alloc_live(), 0);
            ck_assert_int_eq(fault_io_open(), 0);
            ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
            if (!hit) {
                ck_assert_int_eq(n, 4); /* three allocations: path, buffer, long text */
                break;
            }
        }
}
END_TEST

START_TEST(no_memory_elsewhere)
{
    const char *path = scratch_path("oom/a/b");
    for (long n = 1;; n++) {
        char *data = NULL, hash[33];
        size_t size;
        int rc;
        ck_assert_int_eq(mf_remove_tree(scratch_path("oom")), MF_OK);
        fault_alloc(n, FAULT_ONCE);
        fault_io(0, FAULT_ONCE, EIO);
        rc = mf_mkdirs(path);
        if (rc == MF_OK) rc = mf_write_file_atomic(scratch_path("oom/a/f"), "text", 4);
        if (rc == MF_OK) rc = mf_read_file(scratch_path("oom/a/f"), 0, &data, &size);
        mf_free(data);
        if (rc == MF_OK) rc = mf_hash_file(scratch_path("oom/a/f"), hash);
        if (rc == MF_OK) rc = mf_remove_tree(scratch_path("oom"));
        bool hit = fault_hit();
        fault_off();
        ck_assert_int_eq(fault_alloc_live(), 0);
        ck_assert_int_eq(fault_io_open(), 0);
        ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
        if (!hit) {
            ck_assert_int_gt(n, 10);
            break;
        }
    }
}
END_TEST

/* A process may be killed between mkdir and the sync of the parent. If the power then fails,
 * the directory's entry may be lost, together with everything that the next process saves in
 * the directory. So mf_mkdir syncs the entry again if the directory exists. */
START_TEST(entry_of_existing_directory_is_synced)
{
    const char *path = scratch_path("entries/run");
    fresh_dir("entries/run");
    for (long n = 1;; n++) {
        fault_io(n, FAULT_ONCE, EIO);
        const int rc = mf_mkdir(path);
        const bool hit = fault_hit();
        const char *call = hit ? fault_hit_call() : "";
        fault_off();
        ck_assert_int_eq(fault_io_open(), 0);
        if (!hit) {
            ck_assert_int_eq(rc, MF_OK);
            ck_assert_int_eq(n, 5); /* the calls are mkdir; open, fsync and close of
                                     * the parent */
            break;
        }
        ck_assert_int_eq(rc, strcmp(call, "close") == 0 ? MF_OK : MF_EIO);
        if (strcmp(call, "fsync") == 0)
            ck_assert_ptr_nonnull(strstr(mf_error_message(), "entries: cannot sync"));
    }
    static const int nothing_to_sync[] = {EINVAL, EROFS, ENOTSUP, ENOSYS};
    for (size_t i = 0; i < sizeof nothing_to_sync / sizeof *nothing_to_sync; i++) {
        fault_io(3, FAULT_ONCE, nothing_to_sync[i]);
        ck_assert_int_eq(mf_mkdir(path), MF_OK);
        ck_assert_str_eq(fault_hit_call(), "fsync");
        fault_off();
    }
}
END_TEST

START_TEST(directories)
{
    char **names;
    int n;
    const char *top = fresh_dir("dirs");
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/a//b/c/")), MF_OK);
    /* succeeds again: the folders exist */
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/a/b/c")), MF_OK);
    ck_assert(mf_is_dir(scratch_path("dirs/a/b/c")));
    scratch_write(scratch_path("dirs/zeta"), "z", 1);
    scratch_write(scratch_path("dirs/.hidden"), "h", 1);
    ck_assert(mf_exists(scratch_path("dirs/zeta")));
    ck_assert(!mf_is_dir(scratch_path("dirs/zeta")));
    ck_assert(!mf_exists(scratch_path("dirs/none")));
    ck_assert_int_eq(mf_list_dir(top, &names, &n), MF_OK);
    ck_assert_int_eq(n, 3);
    ck_assert_str_eq(names[0], ".hidden");
    ck_assert_str_eq(names[1], "a");
    ck_assert_str_eq(names[2], "zeta");
    mf_list_free(names, n);
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/zeta")), MF_EIO);
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/zeta/x")), MF_EIO);
    ck_assert_int_eq(mf_mkdirs(""), MF_EIO);
    ck_assert_int_eq(mf_mkdirs("/"), MF_OK);
    ck_assert_int_eq(mf_mkdir(scratch_path("dirs/a/one")), MF_OK);
    ck_assert_int_eq(mf_mkdir(scratch_path("dirs/a/one")), MF_OK);
    ck_assert_int_eq(mf_mkdir(scratch_path("dirs/gone/one")), MF_EIO);
    ck_assert(!mf_exists(scratch_path("dirs/gone")));
    fault_io(1, FAULT_FROM, EACCES); /* the path is not accessible, but exists */
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/a/b")), MF_OK);
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/a/new")), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), strerror(EACCES)));
    fault_io(1, FAULT_FROM, ENOSPC);
    ck_assert_int_eq(mf_mkdirs(scratch_path("dirs/a/new")), MF_EIO);
    fault_off();
    ck_assert_int_eq(mf_list_dir(scratch_path("dirs/none"), &names, &n), MF_ENOTFOUND);
    ck_assert_int_eq(mf_list_dir(scratch_path("dirs/zeta"), &names, &n), MF_EINPUT);
    ck_assert_int_eq(mf_sync_dir(top), MF_OK);
    ck_assert_int_eq(mf_sync_dir(scratch_path("dirs/none")), MF_EIO);
}
END_TEST

START_TEST(remove_tree_stays_inside)
{
    fresh_dir("tree/x/y");
    fresh_dir("outside");
    scratch_write(scratch_path("outside/keep"), "k", 1);
    scratch_write(scratch_path("tree/x/file"), "f", 1);
    ck_assert_int_eq(symlink(scratch_path("outside"), scratch_path("tree/x/link")), 0);
    ck_assert_int_eq(symlink("nowhere", scratch_path("tree/dangling")), 0);
    ck_assert_int_eq(mf_remove_tree(scratch_path("tree")), MF_OK);
    ck_assert(!mf_exists(scratch_path("tree")));
    ck_assert(mf_exists(scratch_path("outside/keep")));
    /* removing a folder that does not exist is not an error */
    ck_assert_int_eq(mf_remove_tree(scratch_path("tree")), MF_OK);
    ck_assert_int_eq(mf_remove_tree(scratch_path("outside/keep")), MF_OK); /* a single file */
    ck_assert_int_eq(entries(scratch_path("outside")), 0);
    scratch_write(scratch_path("outside/file"), "f", 1);
    ck_assert_int_eq(mf_remove_tree(scratch_path("outside/file/x")), MF_EIO);
}
END_TEST

START_TEST(remove_tree_is_bounded)
{
    char name[300] = "deep", *end;
    for (int i = 0; i < 65; i++)
        strcat(name, "/d");
    ck_assert_int_eq(mf_mkdirs(scratch_path(name)), MF_OK);
    ck_assert_int_eq(mf_remove_tree(scratch_path("deep")), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "nested deeper than 64"));
    end = strrchr(name, '/');
    ck_assert_int_eq(mf_remove_tree(scratch_path(name)), MF_OK);
    *end = '\0';
    ck_assert_int_eq(mf_remove_tree(scratch_path(name)), MF_OK);
    ck_assert_int_eq(mf_remove_tree(scratch_path("deep")), MF_OK);
}
END_TEST

START_TEST(remove_tree_with_faults)
{
    for (long n = 1;; n++) {
        fresh_dir("rm/a/b");
        scratch_write(scratch_path("rm/a/f"), "f", 1);
        fault_io(n, FAULT_ONCE, EIO);
        int rc = mf_remove_tree(scratch_path("rm"));
        bool hit = fault_hit();
        fault_off();
        ck_assert_int_eq(rc, hit ? MF_EIO : MF_OK);
        if (!hit) break;
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "rm"));
    }
    ck_assert(!mf_exists(scratch_path("rm")));
}
END_TEST

typedef int rename_fn(const char *from, const char *to);

static int by_hand(const char *from, const char *to)
{
    return mf_rename_new_by_hand(AT_FDCWD, from, AT_FDCWD, to);
}

static void assert_never_replaces(rename_fn *rename_new)
{
    fresh_dir("rn/a");
    fresh_dir("rn/b");
    fresh_dir("rn/full/x");
    ck_assert_int_eq(mf_remove_tree(scratch_path("rn/c")), MF_OK);
    ck_assert_int_eq(mf_remove_tree(scratch_path("rn/h")), MF_OK);
    scratch_write(scratch_path("rn/f"), "f", 1);
    scratch_write(scratch_path("rn/g"), "g", 1);
    static const char *const taken[][2] = {{"rn/f", "rn/g"},
                                           {"rn/f", "rn/a"},
                                           {"rn/a", "rn/b"},
                                           {"rn/a", "rn/full"},
                                           {"rn/a", "rn/g"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        ck_assert_int_eq(rename_new(scratch_path(taken[i][0]), scratch_path(taken[i][1])), -1);
        ck_assert_int_eq(errno, EEXIST);
        ck_assert(mf_exists(scratch_path(taken[i][0])));
    }
    assert_content(scratch_path("rn/g"), "g", 1);
    ck_assert_int_eq(rename_new(scratch_path("rn/f"), scratch_path("rn/h")), 0);
    assert_content(scratch_path("rn/h"), "f", 1);
    ck_assert(!mf_exists(scratch_path("rn/f")));
    ck_assert_int_eq(rename_new(scratch_path("rn/a"), scratch_path("rn/c")), 0);
    ck_assert(mf_is_dir(scratch_path("rn/c")));
    ck_assert(!mf_exists(scratch_path("rn/a")));
    ck_assert_int_eq(rename_new(scratch_path("rn/none"), scratch_path("rn/d")), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(rename_new(scratch_path("rn/b"), scratch_path("rn/h/x")), -1);
    ck_assert_int_eq(errno, ENOTDIR);
    ck_assert_int_eq(rename_new(scratch_path("rn/b"), scratch_path("rn/none/x")), -1);
    ck_assert_int_eq(errno, ENOENT);
}

START_TEST(rename_new_never_replaces)
{
    assert_never_replaces(mf_io_default()->rename_new);
    assert_never_replaces(by_hand);
}
END_TEST

START_TEST(truncation)
{
    const char *path = scratch_path("long");
    scratch_write(path, "0123456789", 10);
    int fd = mf_raw_open(path, O_WRONLY, 0);
    ck_assert_int_eq(mf_raw_ftruncate(fd, 4), 0);
    fault_io(1, FAULT_ONCE, EINTR);
    ck_assert_int_eq(mf_raw_ftruncate(fd, 3), 0);
    fault_io(1, FAULT_ONCE, EIO);
    ck_assert_int_eq(mf_raw_ftruncate(fd, 2), -1);
    fault_off();
    ck_assert_int_eq(mf_raw_close(fd), 0);
    assert_content(path, "012", 3);
}
END_TEST

START_TEST(paths_join)
{
    static const char *const table[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"},
                                           {"/", "b", "/b"},  {"", "b", "b"},
                                           {"a", "/b", "/b"}, {"a/b", "c/d", "a/b/c/d"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *path = mf_path_join(table[i][0], table[i][1]);
        ck_assert_str_eq(path, table[i][2]);
        mf_free(path);
    }
}
END_TEST

/* The first value is XXH3-128 of no bytes, seed 0, as in the xxHash specification. */
START_TEST(hashes)
{
    enum { N = 600000 }; /* more than two buffers of mf_hash_file */
    static char data[N];
    const char *path = scratch_path("hash");
    char a[33], b[33];
    mf_hash_bytes("", 0, a);
    ck_assert_str_eq(a, "99aa06d3014798d86001c324468d497f");
    for (size_t i = 0; i < N; i++)
        data[i] = (char)(i * i % 251);
    scratch_write(path, data, N);
    mf_hash_bytes(data, N, a);
    ck_assert_int_eq(mf_hash_file(path, b), MF_OK);
    ck_assert_str_eq(a, b);
    data[N / 2] ^= 1;
    mf_hash_bytes(data, N, b);
    ck_assert_str_ne(a, b);
    ck_assert_int_eq(mf_hash_file(scratch_path("none"), b), MF_ENOTFOUND);
    fault_io(2, FAULT_ONCE, EIO);
    ck_assert_int_eq(mf_hash_file(path, b), MF_EIO);
    fault_off();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("io");
    TCase *c = tcase_create("io");
    tcase_add_test(c, read_whole_files);
    tcase_add_test(c, read_proc);
    tcase_add_test(c, refused_files);
    tcase_add_test(c, read_at_a_place);
    tcase_add_test(c, atomic_write);
    tcase_add_test(c, atomic_write_with_leftovers);
    tcase_add_test(c, atomic_write_without_a_free_name);
    tcase_add_test(c, atomic_write_here);
    tcase_add_test(c, atomic_write_with_faults);
    tcase_add_test(c, atomic_write_killed);
    tcase_add_test(c, short_calls_and_signals);
    tcase_add_test(c, writer_writes);
    tcase_add_test(c, writer_with_io_faults);
    tcase_add_test(c, writer_without_memory);
    tcase_add_test(c, no_memory_elsewhere);
    tcase_add_test(c, directories);
    tcase_add_test(c, entry_of_existing_directory_is_synced);
    tcase_add_test(c, remove_tree_stays_inside);
    tcase_add_test(c, remove_tree_is_bounded);
    tcase_add_test(c, remove_tree_with_faults);
    tcase_add_test(c, rename_new_never_replaces);
    tcase_add_test(c, truncation);
    tcase_add_test(c, paths_join);
    tcase_add_test(c, hashes);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
