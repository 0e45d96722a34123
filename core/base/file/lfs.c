/* base/file/lfs.c: knows a pointer by the first line that its specification prescribes. The
 * rest of it, an address and a size, is of no use here. */
#include "base/file/lfs.h"

#include <string.h>
#include "base/error.h"

int mf_lfs_judge(const char *path, const char *data, size_t n)
{
    static const char first[] = "version https://git-lfs.github.com/spec/";
    if (n < sizeof first - 1 || memcmp(data, first, sizeof first - 1) != 0) return MF_OK;
    return mf_fail(
        MF_EINPUT,
        "%s: a pointer of Git LFS, not the file itself, which was not fetched; 'git lfs "
        "pull' in its folder fetches it",
        path);
}
