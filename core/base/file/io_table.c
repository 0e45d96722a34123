/* base/file/io_table.c: the table of system calls that base/file uses, and the way to replace
 * it in tests. */
#include "base/file/below.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Replaces RENAME_NOREPLACE on kernels and file systems that do not support it. A file gets the
 * new name by a hard link, which never replaces another file. A directory cannot be linked, so
 * it is renamed. rename replaces only an empty directory: if another process creates the new
 * name after the check here, nothing is lost. */
int mf_rename_new_by_hand(int from_fd, const char *from, int to_fd, const char *to)
{
    struct stat from_stat, to_stat;
    if (fstatat(from_fd, from, &from_stat, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (!S_ISDIR(from_stat.st_mode)) {
        if (linkat(from_fd, from, to_fd, to, 0) != 0) return -1;
        return unlinkat(from_fd, from, 0);
    }
    if (fstatat(to_fd, to, &to_stat, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    if (errno != ENOENT) return -1;
    if (renameat(from_fd, from, to_fd, to) == 0) return 0;
    if (errno == ENOTEMPTY || errno == ENOTDIR) errno = EEXIST;
    return -1;
}

static int sys_rename(const char *from, const char *to)
{
    return mf_below_rename(from, to, false);
}

static int sys_rename_new(const char *from, const char *to)
{
    return mf_below_rename(from, to, true);
}

static int sys_unlink(const char *path)
{
    return mf_below_unlink(path, false);
}

static int sys_rmdir(const char *path)
{
    return mf_below_unlink(path, true);
}

static const mf_io_table system_table = {
    .open = mf_below_open,
    .pread = pread,
    .write = write,
    .fsync = fsync,
    .ftruncate = ftruncate,
    .close = close,
    .rename = sys_rename,
    .rename_new = sys_rename_new,
    .unlink = sys_unlink,
    .mkdir = mf_below_mkdir,
    .rmdir = sys_rmdir,
};

static const mf_io_table *table = &system_table;

const mf_io_table *mf_io(void)
{
    return table;
}

const mf_io_table *mf_io_default(void)
{
    return &system_table;
}

void mf_io_set_table(const mf_io_table *new_table)
{
    table = new_table ? new_table : &system_table;
}
