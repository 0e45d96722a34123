/* run/metrics/step_file.c: writes, truncates and reads files with one JSON object per line. An
 * incomplete line does not count. */
#include "run/metrics/step_file.h"

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
    dev_t device; /* device and inode of the file for which fd was opened */
    ino_t inode;
    bool named; /* whether the system reports how many names the file has */
    char *path;
    mf_jw *line;
    int64_t lines; /* number of lines in the file */
};

/* ---- writing ---- */

/* Returns the step of a line that begins with {"step":N, and ends with }; -1 for any
 * other line. */
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

/* A complete line of a file that will be truncated. */
typedef struct step_line {
    size_t end;   /* offset after its newline */
    int64_t step; /* -1: damaged */
    bool good;    /* belongs to the longest list of lines whose steps do not fall */
    int last;     /* index of the previous line in the longest such list that ends with
                   * this line */
} step_line;

typedef struct step_lines {
    step_line *line;
    int n, room;
    int *tail; /* [n] see find_rising */
} step_lines;

static int list_lines(const char *text, size_t size, step_lines *ret)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        if (end == NULL) break;
        const size_t n = (size_t)(end - (text + at));
        if (ret->n == ret->room) {
            const int room = 2 * ret->room + 256;
            step_line *more = mf_realloc(ret->line, (size_t)ret->room * sizeof *more,
                                         (size_t)room * sizeof *more);
            if (more == NULL) return MF_ENOMEM;
            ret->line = more;
            ret->room = room;
        }
        ret->line[ret->n++] = (step_line){at + n + 1, step_of(text + at, n), false, -1};
        at += n + 1;
    }
    ret->tail = mf_alloc((size_t)ret->n + 1, sizeof *ret->tail);
    return ret->tail != NULL ? MF_OK : MF_ENOMEM;
}

/* Marks the longest list of lines whose steps do not fall. Among several such lists, the list
 * whose last step is least is used. A line with a damaged step does not fit into the list,
 * wherever the line stands. tail[k] is the line with the least step that ends such a list of k
 * + 1 lines. */
static void find_rising(step_lines *s)
{
    int longest = 0;
    for (int i = 0; i < s->n; i++) {
        int low = 0, high = longest;
        if (s->line[i].step < 0) continue;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (s->line[s->tail[middle]].step <= s->line[i].step)
                low = middle + 1;
            else
                high = middle;
        }
        s->line[i].last = low > 0 ? s->tail[low - 1] : -1;
        s->tail[low] = i;
        if (low == longest) longest++;
    }
    for (int i = longest > 0 ? s->tail[longest - 1] : -1; i >= 0; i = s->line[i].last)
        s->line[i].good = true;
}

/* Decides which lines stay: those up to the last good line whose step is not after
 * keep_to_step. Damaged lines between them also stay; readers skip them. Logs the number of
 * damaged lines. */
static void cut(const char *path, int64_t keep_to_step, const step_lines *s, size_t *ret_bytes,
                int64_t *ret_lines)
{
    int kept = 0, between = 0, behind = 0;
    for (int i = 0; i < s->n; i++)
        if (s->line[i].good && s->line[i].step <= keep_to_step) kept = i + 1;
    for (int i = 0; i < s->n; i++)
        if (!s->line[i].good) *(i < kept ? &between : &behind) += 1;
    if (between > 0)
        mf_log(MF_LOG_WARN, "%s: %d damaged %s between valid ones", path, between,
               between == 1 ? "line" : "lines");
    if (behind > 0)
        mf_log(MF_LOG_WARN, "%s: removed: %d damaged %s behind those up to step %lld", path,
               behind, behind == 1 ? "line" : "lines", (long long)keep_to_step);
    *ret_bytes = kept > 0 ? s->line[kept - 1].end : 0;
    *ret_lines = kept;
}

/* Finds the size of the part of the file that stays, and its number of lines; 0 for a
 * missing file. */
static int kept_bytes(const char *path, int64_t keep_to_step, size_t *ret_bytes,
                      int64_t *ret_lines)
{
    char *text;
    size_t size;
    step_lines s = {0};
    *ret_bytes = 0;
    *ret_lines = 0;
    int rc = mf_read_file(path, 0, &text, &size);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        return MF_OK;
    }
    if (rc != MF_OK) return rc;
    rc = list_lines(text, size, &s);
    if (rc == MF_OK) {
        find_rising(&s);
        cut(path, keep_to_step, &s, ret_bytes, ret_lines);
    }
    mf_free(s.tail);
    mf_free(s.line);
    mf_free(text);
    return rc;
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
    f->named = st.st_nlink > 0;
    return MF_OK;
}

int mf_step_file_open(const char *path, int64_t keep_to_step, mf_step_file **ret)
{
    size_t keep = 0;
    int64_t lines = 0;
    *ret = NULL;
    int rc = keep_to_step >= 0 ? kept_bytes(path, keep_to_step, &keep, &lines) : MF_OK;
    if (rc != MF_OK) return rc;
    mf_step_file *f = mf_alloc(1, sizeof *f);
    if (f == NULL) return MF_ENOMEM;
    f->fd = -1;
    f->lines = lines;
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

/* Checks the name of the file. Lines that are written to a file without a name are lost. */
static int judge_name(const mf_step_file *f, const struct stat *st)
{
    if (!f->named || st->st_nlink > 0) return MF_OK;
    return mf_fail(
        MF_ERUN,
        "%s: the file was removed or replaced while the run wrote to it; expected it "
        "to stay until the end",
        f->path);
}

int mf_step_file_put(mf_step_file *f)
{
    size_t n;
    const char *text = mf_jw_text(f->line, &n);
    if (text == NULL) return mf_error_code() != MF_OK ? mf_error_code() : MF_ENOMEM;
    struct stat st = {0};
    if (fstat(f->fd, &st) != 0 && errno != EBADF)
        return mf_fail_errno(MF_EIO, "%s: cannot look at it", f->path);
    /* Another file may have got the number of a descriptor that was closed. */
    if (fcntl(f->fd, F_GETFD) < 0 || st.st_dev != f->device || st.st_ino != f->inode) {
        f->fd = -1;
        return mf_fail(MF_EPLUGIN,
                       "%s: its descriptor was closed while the run went on: expected plugins "
                       "to close only descriptors that they opened",
                       f->path);
    }
    const int rc = judge_name(f, &st);
    if (rc != MF_OK) return rc;
    if (mf_raw_write(f->fd, text, n) != 0 || mf_raw_write(f->fd, "\n", 1) != 0)
        return mf_fail_errno(MF_EIO, "%s: cannot write", f->path);
    f->lines++;
    return MF_OK;
}

int64_t mf_step_file_lines(const mf_step_file *f)
{
    return f->lines;
}

int mf_step_file_sync(mf_step_file *f)
{
    struct stat st;
    const int rc = fstat(f->fd, &st) == 0 ? judge_name(f, &st) : MF_OK;
    if (rc != MF_OK) return rc;
    if (mf_raw_fsync(f->fd) != 0) return mf_fail_errno(MF_EIO, "%s: cannot sync", f->path);
    return MF_OK;
}

int mf_step_file_close(mf_step_file *f)
{
    if (f == NULL) return MF_OK;
    int rc = MF_OK;
    const bool failed = f->fd >= 0 && mf_raw_close(f->fd) != 0;
    if (failed && mf_error_code() != MF_OK)
        rc = MF_EIO; /* the run ends with the earlier error, which is kept */
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
