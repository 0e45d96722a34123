/* below: below a registered folder, no write follows a link, at any depth. Other paths are
 * used unchanged. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/below.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/mem.h"
#include "tests/lib/expect.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the folder "outside" with the file f and the folder d, and the folder "run" with links
 * to both and with files of its own. */
static void make(void)
{
    ck_assert_int_eq(mf_remove_tree(scratch_path("outside")), MF_OK);
    ck_assert_int_eq(mf_remove_tree(scratch_path("run")), MF_OK);
    ck_assert_int_eq(mf_mkdirs(scratch_path("outside/d")), MF_OK);
    ck_assert_int_eq(mf_mkdirs(scratch_path("run/own/deep")), MF_OK);
    scratch_write(scratch_path("outside/f"), "precious", 8);
    scratch_write(scratch_path("outside/d/g"), "precious", 8);
    scratch_write(scratch_path("run/own/h"), "mine", 4);
    ck_assert_int_eq(symlink(scratch_path("outside/f"), scratch_path("run/file")), 0);
    ck_assert_int_eq(symlink(scratch_path("outside/d"), scratch_path("run/dir")), 0);
    ck_assert_int_eq(symlink(scratch_path("outside/none"), scratch_path("run/new")), 0);
}

static void outside_is_as_it_was(void)
{
    static const char *const names[] = {"outside/f", "outside/d/g"};
    for (int i = 0; i < 2; i++) {
        size_t n;
        char *text = scratch_read(scratch_path(names[i]), &n);
        ck_assert(text && n == 8 && memcmp(text, "precious", 8) == 0);
        free(text);
    }
    char **entries;
    int n;
    ck_assert_int_eq(mf_list_dir(scratch_path("outside/d"), &entries, &n), MF_OK);
    mf_list_free(entries, n);
    ck_assert_int_eq(n, 1);
    ck_assert(!mf_exists(scratch_path("outside/none")));
}

#define refused(call)                                                                          \
    do {                                                                                       \
        errno = 0;                                                                             \
        ck_assert_int_eq((call), -1);                                                          \
        ck_assert_int_eq(errno, ELOOP);                                                        \
        outside_is_as_it_was();                                                                \
    } while (0)

START_TEST(links_are_not_followed)
{
    enum { WRITE = O_WRONLY, CREATE = O_WRONLY | O_CREAT, TRUNCATE = O_WRONLY | O_TRUNC };
    mf_below *b;
    mf_writer w;
    make();
    ck_assert_int_eq(mf_below_add(scratch_path("run"), &b), MF_OK);
    const mf_io_table *io = mf_io_default();
    refused(io->open(scratch_path("run/file"), WRITE, 0));
    refused(io->open(scratch_path("run/file"), TRUNCATE, 0));
    refused(io->open(scratch_path("run/new"), CREATE, 0666));
    refused(io->open(scratch_path("run/dir/g"), TRUNCATE, 0));
    refused(io->open(scratch_path("run/dir/k"), CREATE, 0666));
    refused(io->mkdir(scratch_path("run/dir/k"), 0777));
    refused(io->unlink(scratch_path("run/dir/g")));
    refused(io->rename(scratch_path("run/own/h"), scratch_path("run/dir/g")));
    refused(io->rename(scratch_path("run/own/h"), scratch_path("run/file")));
    refused(io->rename(scratch_path("run/dir/g"), scratch_path("run/own/k")));
    refused(io->rename_new(scratch_path("run/own/h"), scratch_path("run/dir/k")));
    ck_assert_int_eq(mf_writer_open(&w, scratch_path("run/file"), false), MF_EIO);
    mf_writer_close(&w, false);
    expect_message("run/file: cannot create");
    ck_assert_int_eq(mf_write_file_atomic(scratch_path("run/file"), "x", 1), MF_EIO);
    ck_assert_int_eq(mf_write_file_atomic(scratch_path("run/dir/g"), "x", 1), MF_EIO);
    ck_assert_int_eq(mf_mkdir(scratch_path("run/dir/k")), MF_EIO);
    outside_is_as_it_was();
    /* Removing a link removes only the link. */
    ck_assert_int_eq(mf_remove_tree(scratch_path("run")), MF_OK);
    outside_is_as_it_was();
    mf_below_drop(b);
}
END_TEST

/* A file that also has a name outside is copied before it is written, unless it is locked. */
START_TEST(other_names_stay)
{
    const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    mf_below *b;
    mf_writer w;
    char *found;
    size_t n;
    make();
    ck_assert_int_eq(mf_below_add(scratch_path("run"), &b), MF_OK);
    scratch_write(scratch_path("hard"), "mine", 4);
    ck_assert_int_eq(link(scratch_path("hard"), scratch_path("run/own/hard")), 0);
    const int held = open(scratch_path("hard"), O_RDWR);
    ck_assert_int_ge(held, 0);
    ck_assert_int_eq(fcntl(held, F_OFD_SETLK, &lock), 0);
    for (int i = 0; i < 2; i++) {
        struct stat before, after;
        ck_assert_int_eq(stat(scratch_path("hard"), &before), 0);
        ck_assert_int_eq(mf_writer_append(&w, scratch_path("run/own/hard")), MF_OK);
        if (i == 1) mf_writer_put(&w, " too", 4);
        ck_assert_int_eq(mf_writer_close(&w, true), MF_OK);
        ck_assert_int_eq(stat(scratch_path("run/own/hard"), &after), 0);
        ck_assert_int_eq(before.st_ino == after.st_ino, i == 0);
        if (i == 0) close(held);
    }
    ck_assert_int_eq(mf_read_file(scratch_path("hard"), 0, &found, &n), MF_OK);
    ck_assert_str_eq(found, "mine");
    mf_free(found);
    ck_assert_int_eq(mf_read_file(scratch_path("run/own/hard"), 0, &found, &n), MF_OK);
    ck_assert_str_eq(found, "mine too");
    mf_free(found);
    ck_assert_int_eq(unlink(scratch_path("run/own/hard")), 0);
    ck_assert_int_eq(unlink(scratch_path("hard")), 0);
    mf_below_drop(b);
}
END_TEST

START_TEST(files_of_its_own_are_written)
{
    mf_below *b, *inner;
    make();
    ck_assert_int_eq(mf_below_add(scratch_path("run"), &b), MF_OK);
    ck_assert_int_eq(mf_below_add(scratch_path("run/own"), &inner), MF_OK);
    ck_assert_int_eq(mf_write_file_atomic(scratch_path("run/own/deep/k"), "new", 3), MF_OK);
    ck_assert_int_eq(mf_mkdirs(scratch_path("run/own/a/b")), MF_OK);
    const mf_io_table *io = mf_io();
    ck_assert_int_eq(io->rename(scratch_path("run/own/deep/k"), scratch_path("run/own/a/b/k")),
                     0);
    ck_assert_int_eq(io->rename_new(scratch_path("run/own/h"), scratch_path("run/own/a/b/k")),
                     -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(io->rename(scratch_path("run/own/h"), scratch_path("moved")), 0);
    ck_assert(mf_exists(scratch_path("moved")));
    ck_assert_int_eq(io->rmdir(scratch_path("run/own/deep")), 0);
    /* A registered folder stays registered if it is renamed. Paths with its old name still
     * refer to it. */
    ck_assert_int_eq(rename(scratch_path("run"), scratch_path("run-before")), 0);
    ck_assert_int_eq(io->unlink(scratch_path("run/own/a/b/k")), 0);
    ck_assert(!mf_exists(scratch_path("run-before/own/a/b/k")));
    /* The program never makes names with "..", so they are not resolved. */
    ck_assert_int_eq(io->unlink(scratch_path("run/own/../own/h")), -1);
    ck_assert_int_eq(errno, EINVAL);
    mf_below_drop(inner);
    mf_below_drop(b);
    mf_below_drop(NULL);
    ck_assert_int_eq(mf_remove_tree(scratch_path("run-before")), MF_OK);
    make();
    /* The folder is no longer registered, so links are followed as elsewhere. */
    ck_assert_int_eq(io->unlink(scratch_path("run/dir/g")), 0);
    ck_assert(!mf_exists(scratch_path("outside/d/g")));
    expect_failure(mf_below_add(scratch_path("none"), &b), MF_EIO, "none: cannot open");
}
END_TEST

START_TEST(links_are_named)
{
    static const char *const names[] = {"none", "own", NULL}, *const file[] = {"file", NULL},
                             *const fifo[] = {"fifo", NULL};
    make();
    ck_assert_int_eq(mf_below_judge(scratch_path("run"), names), MF_OK);
    expect_failure(mf_below_judge(scratch_path("run"), file), MF_EINPUT,
                   "run/file: a symbolic link: expected a file or folder of its own");
    ck_assert_int_eq(symlink("h", scratch_path("run/own/deep/l")), 0);
    expect_failure(mf_below_judge(scratch_path("run"), names), MF_EINPUT, "run/own/deep/l");
    ck_assert_int_eq(mkfifo(scratch_path("run/fifo"), 0666), 0);
    expect_failure(mf_below_judge(scratch_path("run"), fifo), MF_EINPUT,
                   "run/fifo: a device, pipe or socket");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("below");
    TCase *t = tcase_create("below");
    tcase_add_test(t, links_are_not_followed);
    tcase_add_test(t, other_names_stay);
    tcase_add_test(t, files_of_its_own_are_written);
    tcase_add_test(t, links_are_named);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
