/* train/metrics/step_file.c: writes, truncates and reads files of one JSON object per line. An
 * incomplete line does not count. */
#include "train/metrics/step_file.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct mf_step_file {
    int fd;
    dev_t device; /* of the file that fd was opened for */
    ino_t inode;
    char *path;
    mf_jw *line;
};

/* ---- writing ---- */

/* The step of a line that begins with {"step":N, and ends with }; -1 for any other line. */
static int64_t step_of(const char *line, size_t n)
{
    static const char begin[] = "{\"step\":";
    const size_t at = sizeof begin - 1;
    int64_t step = 0;
    size_t i = at;
    if (n < at + 2 || memcmp(line, begin, at) != 0 || line[n - 1] != '}') return -1;
    for (; i < n && line[i] >= '0' && line[i] <= '9' && i < at + 18; i++)
        step = 10 * step + (line[i] - '0');
    return i > at && i < n && line[i] == ',' ? step : -1;
}

/* Size of the file up to the last line before the first one that has a step after keep_to_step;
 * 0 for a missing file. Damaged lines between valid ones stay: readers skip them. */
static int kept_bytes(const char *path, int64_t keep_to_step, size_t *ret)
{
    char *text;
    size_t size, at = 0;
    int damaged = 0, kept = 0; /* damaged lines; those before the last line that stays */
    *ret = 0;
    int rc = mf_read_file(path, 0, &text, &size);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        return MF_OK;
    }
    if (rc != MF_OK) return rc;
    while (at < size) {
        const char *end = memchr(text + at, '\n', size - at);
        if (end == NULL) break;
        size_t n = (size_t)(end - (text + at));
        int64_t step = step_of(text + at, n);
        if (step > keep_to_step) break;
        at += n + 1;
        damaged += step < 0;
        if (step < 0) continue;
        kept = damaged;
        *ret = at;
    }
    mf_free(text);
    if (kept > 0)
        mf_log(MF_LOG_WARN, "%s: %d damaged %s between valid ones", path, kept,
               kept == 1 ? "line" : "lines");
    return MF_OK;
}

static int open_file(mf_step_file *f, const char *path, size_t keep)
{
    f->fd = mf_raw_open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (f->fd < 0) return mf_fail_errno(MF_EIO, "%s: cannot open", path);
    if (mf_raw_ftruncate(f->fd, keep) != 0)
        return mf_fail_errno(MF_EIO, "%s: cannot cut to %zu bytes", path, keep);
    struct stat st;
    if (fstat(f->fd, &st) != 0) return mf_fail_errno(MF_EIO, "%s: cannot look at it", path);
    f->device = st.st_dev;
    f->inode = st.st_ino;
    return MF_OK;
}

int mf_step_file_open(const char *path, int64_t keep_to_step, mf_step_file **ret)
{
    size_t keep = 0;
    *ret = NULL;
    int rc = keep_to_step >= 0 ? kept_bytes(path, keep_to_step, &keep) : MF_OK;
    if (rc != MF_OK) return rc;
    mf_step_file *f = mf_alloc(1, sizeof *f);
    if (f == NULL) return MF_ENOMEM;
    f->fd = -1;
    f->path = mf_strdup(path);
    f->line = mf_jw_new();
    rc = f->path != NULL && f->line != NULL ? open_file(f, path, keep) : MF_ENOMEM;
    if (rc != MF_OK) {
        if (f->fd >= 0) mf_raw_close(f->fd);
        mf_jw_free(f->line);
        mf_free(f->path);
        mf_free(f);
        return rc;
    }
    *ret = f;
    return MF_OK;
}

mf_jw *mf_step_file_line(mf_step_file *f)
{
    mf_jw_reset(f->line);
    return f->line;
}

int mf_step_file_put(mf_step_file *f)
{
    size_t n;
    const char *text = mf_jw_text(f->line, &n);
    if (text == NULL) return mf_error_code() != MF_OK ? mf_error_code() : MF_ENOMEM;
    struct stat st = {0};
    if (fstat(f->fd, &st) != 0 && errno != EBADF)
        return mf_fail_errno(MF_EIO, "%s: cannot look at it", f->path);
    /* A number that was closed may be that of any other file by now. */
    if (fcntl(f->fd, F_GETFD) < 0 || st.st_dev != f->device || st.st_ino != f->inode) {
        f->fd = -1;
        return mf_fail(MF_EPLUGIN,
                       "%s: its descriptor was closed while the run went on: expected plugins "
                       "to close only descriptors that they opened",
                       f->path);
    }
    if (mf_raw_write(f->fd, text, n) != 0 || mf_raw_write(f->fd, "\n", 1) != 0)
        return mf_fail_errno(MF_EIO, "%s: cannot write", f->path);
    return MF_OK;
}

int mf_step_file_sync(mf_step_file *f)
{
    if (mf_raw_fsync(f->fd) != 0) return mf_fail_errno(MF_EIO, "%s: cannot sync", f->path);
    return MF_OK;
}

int mf_step_file_close(mf_step_file *f)
{
    if (f == NULL) return MF_OK;
    int rc = MF_OK;
    const bool failed = f->fd >= 0 && mf_raw_close(f->fd) != 0;
    if (failed && mf_error_code() != MF_OK)
        rc = MF_EIO; /* the error before it is what ends the run */
    else if (failed)
        rc = mf_fail_errno(MF_EIO, "%s: cannot close", f->path);
    mf_jw_free(f->line);
    mf_free(f->path);
    mf_free(f);
    return rc;
}

/* ---- reading ---- */

static int see(const char *path, const char *text, size_t n, mf_step_line each, void *arg,
               mf_step_damage *ret)
{
    mf_json *v = NULL;
    bool damaged = false;
    int rc = mf_json_parse(path, text, n, &v);
    if (rc == MF_ENOMEM) return rc;
    if (rc != MF_OK)
        damaged = true;
    else
        rc = each(arg, v, &damaged);
    mf_json_free(v);
    ret->lines += damaged;
    return damaged ? MF_OK : rc;
}

int mf_step_file_read(const char *path, mf_step_line each, void *arg, mf_step_damage *ret)
{
    char *text = NULL;
    size_t size = 0;
    *ret = (mf_step_damage){0};
    int rc = mf_read_file(path, 0, &text, &size);
    for (size_t at = 0; rc == MF_OK && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end != NULL ? (size_t)(end - (text + at)) : size - at;
        if (end == NULL)
            ret->truncated = true;
        else if (n > 0)
            rc = see(path, text + at, n, each, arg, ret);
        at += n + 1;
    }
    mf_free(text);
    if (rc == MF_OK) mf_error_clear(); /* forget the errors of damaged lines */
    return rc;
}
