/* io/lfs.c: recognizes a pointer by the first line that its specification requires, under
 * today's name or the first name (Hawser). The rest of a pointer, an address and a size, is not
 * used here. */
#include "io/lfs.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include "base/error.h"

int mf_lfs_judge(const char *path, const char *data, size_t n)
{
    static const char *const first[] = {"version https://git-lfs.github.com/spec/",
                                        "version https://hawser.github.com/spec/"};
    bool is = false;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        const size_t m = strlen(first[i]);
        is = is || (n >= m && memcmp(data, first[i], m) == 0);
    }
    if (!is) return MF_OK;
    return mf_fail(
        MF_EINPUT,
        "%s: a pointer of Git LFS, not the file itself, which was not fetched; 'git lfs "
        "pull' in its folder fetches it",
        path);
}

int mf_lfs_judge_binary(const char *path, const char *data, size_t n)
{
    static const char *const first[] = {"<!doctype html", "<html"};
    size_t at = 0;
    while (at < n && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        const size_t m = strlen(first[i]);
        if (n - at >= m && strncasecmp(data + at, first[i], m) == 0)
            return mf_fail(MF_EINPUT,
                           "%s: an HTML page, not the file itself: a server sent it in the "
                           "file's place, as a login or a page about the file; expected the "
                           "file, from the address that ends with its name",
                           path);
    }
    return mf_lfs_judge(path, data, n);
}
