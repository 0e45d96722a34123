/* base/file/io_table.c: the table of system calls that base/file uses, and the way to replace
 * it in tests. */
#include "base/file/io.h"
#include "base/file/io_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int sys_open(const char *path, int flags, int mode)
{
    return open(path, flags | O_CLOEXEC, (mode_t)mode);
}

static int sys_mkdir(const char *path, int mode)
{
    return mkdir(path, (mode_t)mode);
}

/* For kernels and file systems without RENAME_NOREPLACE. A hard link never replaces a file, so
 * files are safe. A directory cannot be linked, but rename replaces an empty directory only, so
 * another process that makes the same name at that moment loses nothing. */
int mf_rename_new_by_hand(const char *from, const char *to)
{
    struct stat from_stat, to_stat;
    if (lstat(from, &from_stat) != 0) return -1;
    if (!S_ISDIR(from_stat.st_mode)) {
        if (link(from, to) != 0) return -1;
        return unlink(from);
    }
    if (lstat(to, &to_stat) == 0) {
        errno = EEXIST;
        return -1;
    }
    if (errno != ENOENT) return -1;
    if (rename(from, to) == 0) return 0;
    if (errno == ENOTEMPTY || errno == ENOTDIR) errno = EEXIST;
    return -1;
}

static int sys_rename_new(const char *from, const char *to)
{
#ifdef RENAME_NOREPLACE
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != ENOSYS && errno != EINVAL) return -1;
#endif
    return mf_rename_new_by_hand(from, to);
}

static const mf_io_table system_table = {
    .open = sys_open,
    .pread = pread,
    .write = write,
    .fsync = fsync,
    .ftruncate = ftruncate,
    .close = close,
    .rename = rename,
    .rename_new = sys_rename_new,
    .unlink = unlink,
    .mkdir = sys_mkdir,
    .rmdir = rmdir,
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
