/* cli/output.c: one rule for the files that a verb writes. An existing file is refused, unless
 * --force is given, or the file is a page that moefw wrote. Verbs check this before they
 * compute, so no result is lost because a file exists. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "cli/cli.h"

/* Whether the file is a page of moefw, which a new page may replace. */
static bool is_page(const char *path)
{
    static const char mark[] = "<meta name=\"generator\" content=\"moefw\">";
    enum { BEGIN = 1024 };
    char text[BEGIN + 1];
    uint64_t size;
    int fd;
    if (mf_file_open_itself(path, &fd, &size) != MF_OK) {
        mf_error_clear();
        return false;
    }
    const size_t n = size < BEGIN ? (size_t)size : BEGIN;
    const bool read = mf_file_read_at(fd, path, text, n, 0) == MF_OK;
    mf_file_close(fd);
    if (!read) mf_error_clear();
    text[read ? n : 0] = '\0';
    return strstr(text, mark) != NULL;
}

int mf_cli_new_file(const mf_cli *cli, const char *path)
{
    struct stat st;
    if (!path || mf_is_standard_input(path)) return MF_OK;
    if (lstat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? MF_OK
                   : mf_fail_errno(MF_EIO, "%s: cannot be examined", path);
    if (S_ISDIR(st.st_mode))
        return mf_fail(MF_EUSAGE, "%s: is a folder; expected a new file", path);
    if (mf_cli_flag(cli, "force") || (S_ISREG(st.st_mode) && is_page(path)) ||
        S_ISCHR(st.st_mode))
        return MF_OK;
    return mf_fail(MF_EUSAGE,
                   "%s: exists already; expected a new file, or --force to replace it", path);
}

int mf_cli_beside(const char *path, char **ret)
{
    *ret = path ? mf_strdup(path) : NULL;
    if (!path || (*ret && !mf_exists(path))) return !path || *ret ? MF_OK : MF_ENOMEM;
    mf_free(*ret);
    *ret = mf_strf("%s.new", path);
    return *ret ? mf_remove_tree(*ret) : MF_ENOMEM;
}

int mf_cli_put_beside(int rc, char *beside, const char *path)
{
    if (beside && strcmp(beside, path) != 0) {
        if (rc == MF_OK && mf_io()->rename(beside, path) != 0)
            rc = mf_fail_errno(MF_EIO, "%s: cannot be replaced", path);
        if (rc != MF_OK) mf_io()->unlink(beside);
    }
    mf_free(beside);
    return rc;
}
