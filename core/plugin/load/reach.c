/* plugin/load/reach.c: finds out whether memory can be read or written. It uses system calls
 * that copy the memory within this process; they fail where a load would kill the process. */
#include "plugin/load/reach.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"

enum { TEXT_MAX = 64 * 1024, CHUNK = 256 };

/* Whether the copy failed because of the address. Any other failure (an old kernel, a filter of
 * system calls) does not depend on the address. */
static bool is_wrong(ssize_t got, size_t n)
{
    return got < 0 ? errno == EFAULT : (size_t)got < n;
}

static bool readable(const void *p, size_t n, void *to)
{
    const struct iovec local = {to, n}, remote = {(void *)(uintptr_t)p, n};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (is_wrong(got, n)) return false;
    if (got < 0) memcpy(to, p, n);
    return true;
}

static int wrong(const char *what, const void *p)
{
    return mf_fail(MF_EPLUGIN,
                   "%s: expected the address of memory of the plugin, found %p, where nothing "
                   "is",
                   what, p);
}

int mf_reach(const char *what, const void *p, size_t n)
{
    char bytes[CHUNK];
    for (size_t done = 0; done < n; done += CHUNK) {
        const size_t part = n - done < CHUNK ? n - done : CHUNK;
        if (!readable((const char *)p + done, part, bytes)) return wrong(what, p);
    }
    return MF_OK;
}

int mf_reach_text(const char *what, const char *text)
{
    char bytes[CHUNK];
    if (!text) return MF_OK;
    for (size_t done = 0; done < TEXT_MAX;) {
        /* A text may end just before unmapped memory, so read only up to a multiple of CHUNK,
         * which never crosses a page. */
        const size_t part = CHUNK - (uintptr_t)(text + done) % CHUNK;
        if (!readable(text + done, part, bytes)) return wrong(what, text);
        if (memchr(bytes, '\0', part)) return MF_OK;
        done += part;
    }
    return mf_fail(MF_EPLUGIN, "%s: expected a text of less than %d bytes, found no end", what,
                   TEXT_MAX);
}

int mf_reach_write(const char *what, void *p, size_t n)
{
    char bytes[CHUNK];
    if (n > sizeof bytes || !readable(p, n, bytes)) return wrong(what, p);
    const struct iovec local = {bytes, n}, remote = {p, n};
    return is_wrong(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), n) ? wrong(what, p)
                                                                              : MF_OK;
}
