/* pretrained/beside.c: writes a folder under another name, and renames it when it is complete.
 * The folder gets its name after its last file was written and synced, never before. */
#include "pretrained/beside.h"

#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"

int mf_write_beside(const char *folder, int (*write)(void *arg, const char *to), void *arg)
{
    if (mf_exists(folder))
        return mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", folder);
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    char *beside = mf_strf("%.*s.tmp", (int)n, folder);
    if (!beside) return MF_ENOMEM;
    if (mf_exists(beside)) { /* another user may own it */
        const int rc = mf_fail(MF_EUSAGE,
                               "%s: exists already; remove it if it is left of an export that "
                               "was stopped, or name another folder",
                               beside);
        mf_free(beside);
        return rc;
    }
    int rc = mf_mkdirs(beside);
    if (rc == MF_OK) rc = write(arg, beside);
    if (rc == MF_OK) rc = mf_sync_dir(beside);
    if (rc == MF_OK && mf_io()->rename_new(beside, folder) != 0)
        rc = mf_fail_errno(MF_EIO, "%s: cannot rename to %s", beside, folder);
    if (rc != MF_OK) {
        char *why = mf_strf("%s", mf_error_message());
        mf_remove_tree(beside);
        if (why) mf_fail(rc, "%s", why);
        mf_free(why);
    }
    mf_free(beside);
    return rc;
}
