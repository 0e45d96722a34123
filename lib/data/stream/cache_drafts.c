/* data/stream/cache_drafts.c: files of the cache folder that are being written (drafts). The
 * writer holds a lock on its draft, which the system releases when the process ends. A draft
 * that nobody has locked was left by a process that was killed, on this machine or
 * on another. */
#include "data/stream/cache.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/file/io_raw.h"
#include "base/log.h"
#include "base/mem.h"

enum { TRIES = 1000, DAY = 24 * 60 * 60 };

/* Takes the lock of the file and returns whether fd now has it. *ret_held: whether another
 * process has the lock. */
static bool take_lock(int fd, bool *ret_held)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool mine = fcntl(fd, F_OFD_SETLK, &lock) == 0;
    *ret_held = !mine && (errno == EAGAIN || errno == EACCES);
    return mine;
}

/* Locks the new draft. Returns false if mf_cache_clean of another process has removed the draft
 * in the meantime, or is about to. On a file system without locks, drafts are not locked. */
static bool keep(mf_cache_draft *d)
{
    struct stat st;
    bool held = false;
    d->lock = mf_raw_open(d->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
    if (d->lock < 0) return errno != ENOENT;
    take_lock(d->lock, &held);
    return !held && (fstat(d->lock, &st) != 0 || st.st_nlink > 0);
}

static void let_go(mf_cache_draft *d)
{
    if (d->lock >= 0) mf_raw_close(d->lock);
    d->lock = -1;
    mf_free(d->name);
    d->name = NULL;
}

int mf_cache_draft_open(mf_cache_draft *d, const char *path)
{
    for (int i = 0; i < TRIES; i++) {
        struct stat st;
        *d = (mf_cache_draft){.lock = -1};
        d->name = mf_strf("%s.%ld-%d.tmp", path, (long)getpid(), i);
        if (!d->name) return MF_ENOMEM;
        /* A process on another machine may have the same process number. */
        int rc = lstat(d->name, &st) == 0 ? MF_EIO : mf_writer_open(&d->out, d->name, true);
        if (rc == MF_OK && keep(d)) return MF_OK;
        if (rc == MF_OK) {
            mf_writer_close(&d->out, false);
            mf_io()->unlink(d->name);
        } else if (lstat(d->name, &st) != 0) {
            let_go(d);
            return rc;
        }
        let_go(d);
    }
    return mf_fail(MF_EIO, "%s: %d files beside it are being written", path, TRIES);
}

int mf_cache_draft_close(mf_cache_draft *d, const char *path, int rc)
{
    const int closed = mf_writer_close(&d->out, true);
    if (rc == MF_OK) rc = closed;
    if (rc == MF_OK && mf_io()->rename(d->name, path) != 0)
        rc = mf_fail_errno(MF_EIO, "%s: cannot rename into place", path);
    if (rc != MF_OK) mf_io()->unlink(d->name);
    let_go(d);
    return rc == MF_OK ? mf_sync_parent(path) : rc;
}

/* ---- what a killed process left ---- */

/* Removes a number from the end of the text. Returns false if there is none. */
static bool cut_number(const char *name, size_t *n)
{
    const size_t all = *n;
    while (*n > 0 && isdigit((unsigned char)name[*n - 1]))
        (*n)--;
    return *n < all;
}

static bool cut(const char *name, size_t *n, const char *end)
{
    const size_t length = strlen(end);
    if (*n < length || strncmp(name + *n - length, end, length) != 0) return false;
    *n -= length;
    return true;
}

/* Whether the name is the name of a draft: BEGIN HASH END .PROCESS-N.tmp, or, with *ret_old
 * set, BEGIN HASH END .PROCESS. HASH has 32 hexadecimal digits. */
static bool is_draft(const char *name, const char *begin, const char *end, bool *ret_old)
{
    const size_t first = strlen(begin);
    size_t n = strlen(name);
    *ret_old = !cut(name, &n, ".tmp");
    if (!cut_number(name, &n)) return false;
    if (!*ret_old && (!cut(name, &n, "-") || !cut_number(name, &n))) return false;
    return cut(name, &n, ".") && cut(name, &n, end) && n == first + 32 &&
           strncmp(name, begin, first) == 0 &&
           strspn(name + first, "0123456789abcdef") >= n - first;
}

/* Whether nobody writes to the draft. Drafts of earlier versions, and files that are written at
 * once, have no lock (`locked` is false). For them only the age decides. */
static bool is_left(const char *path, bool locked)
{
    struct stat st;
    bool held = false;
    const int fd = mf_raw_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return false;
    const bool mine = take_lock(fd, &held);
    const bool left = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !held &&
                      ((locked && mine) || time(NULL) - st.st_mtim.tv_sec > DAY);
    mf_raw_close(fd);
    return left;
}

void mf_cache_clean(const char *folder)
{
    char **names;
    int n;
    if (mf_list_dir(folder, &names, &n) != MF_OK) {
        mf_error_clear();
        return;
    }
    for (int i = 0; i < n; i++) {
        bool old;
        const bool text = is_draft(names[i], "text-", ".bin", &old);
        if (!text && (!is_draft(names[i], "ids-", ".json", &old) || old)) continue;
        char *path = mf_path_join(folder, names[i]);
        if (path && is_left(path, text && !old) && mf_io()->unlink(path) == 0)
            mf_log(MF_LOG_INFO, "%s: removed: left over from a write that did not end", path);
        mf_free(path);
    }
    mf_list_free(names, n);
    mf_error_clear();
}
