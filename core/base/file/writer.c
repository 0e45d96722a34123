/* base/file/writer.c: buffered sequential writing. The first error is kept: later calls do
 * nothing, and mf_writer_close returns this error. */
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BUFFER = 128 * 1024 };

/* Keeps the first error and its message, because other errors may be recorded before close. */
static void stick(mf_writer *w, int code)
{
    if (w->error != MF_OK) return;
    w->error = code;
    w->message = mf_strdup(mf_error_message());
}

static int retell(const mf_writer *w)
{
    return mf_fail(w->error, "%s", w->message ? w->message : mf_status_text(w->error));
}

static int start(mf_writer *w, const char *path, int flags)
{
    int rc = MF_ENOMEM;
    *w = (mf_writer){.fd = -1};
    w->path = mf_strdup(path);
    if (!w->path) goto fail;
    w->buffer = mf_alloc_raw(BUFFER);
    if (!w->buffer) goto fail;
    w->fd = mf_raw_open(path, flags, 0666);
    if (w->fd < 0) {
        rc = mf_fail_errno(MF_EIO, "%s: cannot create", path);
        goto fail;
    }
    return MF_OK;
fail:
    mf_free(w->path);
    mf_free(w->buffer);
    w->path = NULL;
    w->buffer = NULL;
    w->error = rc; /* later calls do nothing; the message is already recorded */
    return rc;
}

int mf_writer_open(mf_writer *w, const char *path, bool exclusive)
{
    return start(w, path, O_WRONLY | O_CREAT | (exclusive ? O_EXCL | O_NOFOLLOW : O_TRUNC));
}

int mf_writer_append(mf_writer *w, const char *path)
{
    struct stat st;
    int rc = start(w, path, O_WRONLY | O_CREAT | O_APPEND);
    if (rc == MF_OK && fstat(w->fd, &st) == 0) w->bytes = (uint64_t)st.st_size;
    return rc;
}

static void write_out(mf_writer *w, const void *data, size_t n)
{
    if (w->error == MF_OK && mf_raw_write(w->fd, data, n) != 0)
        stick(w, mf_fail_errno(MF_EIO, "%s: cannot write", w->path));
}

void mf_writer_put(mf_writer *w, const void *data, size_t n)
{
    if (w->error != MF_OK || n == 0) return;
    w->bytes += n;
    if (n > BUFFER - w->fill) {
        write_out(w, w->buffer, w->fill);
        w->fill = 0;
    }
    if (n >= BUFFER) {
        write_out(w, data, n);
    } else {
        memcpy(w->buffer + w->fill, data, n);
        w->fill += n;
    }
}

void mf_writer_printf(mf_writer *w, const char *fmt, ...)
{
    char small[512], *text = small;
    va_list args;
    int n;
    if (w->error != MF_OK) return;
    va_start(args, fmt);
    n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n < 0) {
        stick(w, mf_fail(MF_EINVAL, "%s: text could not be formatted", w->path));
        return;
    }
    if ((size_t)n >= sizeof small) {
        text = mf_alloc_raw((size_t)n + 1);
        if (!text) {
            stick(w, mf_fail_context(MF_ENOMEM, "%s", w->path));
            return;
        }
        va_start(args, fmt);
        vsnprintf(text, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    mf_writer_put(w, text, (size_t)n);
    if (text != small) mf_free(text);
}

int mf_writer_flush(mf_writer *w)
{
    if (w->error == MF_OK && w->fill > 0) {
        write_out(w, w->buffer, w->fill);
        w->fill = 0;
    }
    return w->error == MF_OK ? MF_OK : retell(w);
}

int mf_writer_close(mf_writer *w, bool sync)
{
    int rc;
    /* the writer is closed already, or mf_writer_open failed and has returned the error */
    if (!w->path) return w->error;
    write_out(w, w->buffer, w->fill);
    if (sync && w->error == MF_OK && mf_raw_fsync(w->fd) != 0)
        stick(w, mf_fail_errno(MF_EIO, "%s: cannot sync", w->path));
    if (mf_raw_close(w->fd) != 0) {
        int code = mf_fail_errno(MF_EIO, "%s: cannot close", w->path);
        stick(w, code);
    }
    rc = w->error == MF_OK ? MF_OK : retell(w);
    mf_free(w->message);
    mf_free(w->buffer);
    mf_free(w->path);
    *w = (mf_writer){.fd = -1};
    return rc;
}
