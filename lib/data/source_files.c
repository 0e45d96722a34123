/* data/source_files.c: the files of a data path: one file, the files of a folder, or the files
 * that a pattern matches. They are sorted by the bytes of their names, so every machine reads
 * the same text. */
#include "data/source_files.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/topics/topics.h"

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a path that was allocated. Frees the path if it is not a file to read. Returns whether
 * it is a folder that a user sees. */
static bool take(mf_source_files *f, char *path)
{
    const bool folder = mf_is_dir(path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name);
    const bool index = n > 4 && strcmp(name + n - 4, ".idx") == 0, hidden = name[0] == '.';
    if (hidden || index || folder)
        mf_free(path);
    else
        f->path[f->n++] = path;
    return folder && !hidden;
}

static int take_folder(const char *folder, mf_source_files *f)
{
    char **names = NULL;
    int n = 0, folders = 0;
    int rc = mf_list_dir(folder, &names, &n);
    if (rc == MF_OK && !(f->path = mf_alloc((size_t)n + 1, sizeof *f->path))) rc = MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *path = mf_path_join(folder, names[i]);
        if (path)
            folders += take(f, path);
        else
            rc = MF_ENOMEM;
    }
    mf_list_free(names, n);
    if (rc == MF_OK && f->n == 0 && folders > 0)
        rc = mf_fail(MF_EINPUT,
                     "%s: the folder holds %d folder%s, but no files to read; expected files, "
                     "a pattern such as '%s/*/*', or labels = folder, which reads text files "
                     "in folders as domains",
                     folder, folders, folders == 1 ? "" : "s", folder);
    else if (rc == MF_OK && f->n == 0)
        rc = mf_fail(MF_EINPUT, "%s: the folder holds no files to read", folder);
    return rc;
}

/* glob calls this function for a folder that cannot be read. If it returns 0, glob continues. A
 * missing folder contains no files. With any other error, files would be missing without
 * a message. */
static int unreadable(const char *folder, int why)
{
    if (why == ENOENT || why == ENOTDIR) return 0;
    errno = why;
    return mf_fail_errno(why == ELOOP ? MF_EINPUT : MF_EIO, "%s: cannot open", folder);
}

static int take_pattern(const char *pattern, mf_source_files *f)
{
    glob_t g = {0};
    const int found = glob(pattern, GLOB_NOSORT, unreadable, &g);
    int rc = MF_OK;
    if (found == GLOB_ABORTED) rc = mf_error_code();
    if (found == GLOB_NOSPACE)
        rc = mf_fail(MF_ENOMEM, "no memory for the files of %s", pattern);
    if (rc == MF_OK && !(f->path = mf_alloc(g.gl_pathc + 1, sizeof *f->path))) rc = MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < g.gl_pathc; i++) {
        char *path = mf_strdup(g.gl_pathv[i]);
        if (path)
            take(f, path);
        else
            rc = MF_ENOMEM;
    }
    globfree(&g);
    if (rc == MF_OK && f->n == 0)
        rc = mf_fail(MF_EINPUT, "%s: no file matches the pattern", pattern);
    return rc;
}

int mf_source_files_of(const char *path, mf_source_files *ret)
{
    *ret = (mf_source_files){0};
    const bool plain = mf_topics_is(path) || mf_is_standard_input(path);
    int rc = MF_OK;
    if (!plain && strncmp(path, "builtin:", 8) == 0 && !mf_exists(path))
        return mf_fail(MF_EINPUT, "%s: there is no such corpus; did you mean '%s'?", path,
                       MF_TOPICS_PREFIX);
    if (!plain && mf_is_dir(path)) {
        rc = take_folder(path, ret);
    } else if (!plain && strpbrk(path, "*?[") && !mf_exists(path)) {
        rc = take_pattern(path, ret);
    } else {
        ret->path = mf_alloc(2, sizeof *ret->path);
        if (ret->path) ret->path[0] = mf_strdup(path);
        if (ret->path && ret->path[0])
            ret->n = 1;
        else
            rc = MF_ENOMEM;
    }
    if (rc == MF_OK) qsort(ret->path, (size_t)ret->n, sizeof *ret->path, by_bytes);
    if (rc != MF_OK) mf_source_files_free(ret);
    return rc;
}

/* Adds the files of a sub-folder. */
static int take_domain(char *folder, mf_source_files *f)
{
    mf_source_files one = {0};
    int rc = take_folder(folder, &one);
    char **grown = rc == MF_OK ? mf_realloc(f->path, (size_t)f->n * sizeof *grown,
                                            (size_t)(f->n + one.n) * sizeof *grown)
                               : NULL;
    if (rc == MF_OK && !grown) rc = MF_ENOMEM;
    if (rc == MF_OK) {
        memcpy(grown + f->n, one.path, (size_t)one.n * sizeof *grown);
        f->path = grown;
        f->n += one.n;
        one.n = 0;
    }
    mf_source_files_free(&one);
    return rc;
}

static int take_domains(const char *folder, mf_source_files *f)
{
    char **names = NULL;
    int n = 0;
    int rc = mf_list_dir(folder, &names, &n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *path = names[i][0] != '.' ? mf_path_join(folder, names[i]) : NULL;
        if (names[i][0] != '.' && !path) rc = MF_ENOMEM;
        if (path && mf_is_dir(path))
            rc = take_domain(path, f);
        else if (path)
            rc = mf_fail(MF_EINPUT,
                         "%s: a file beside the folders of the domains: data.labels = folder "
                         "expects %s/DOMAIN/FILE",
                         path, folder);
        mf_free(path);
    }
    mf_list_free(names, n);
    if (rc == MF_OK && f->n == 0)
        rc = mf_fail(MF_EINPUT,
                     "%s: no folders of domains: data.labels = folder expects %s/DOMAIN/FILE",
                     folder, folder);
    return rc;
}

int mf_source_files_in_folders(const char *path, mf_source_files *ret)
{
    int rc = MF_OK;
    if (mf_is_standard_input(path) || !mf_is_dir(path)) {
        rc = mf_source_files_of(path, ret);
    } else {
        *ret = (mf_source_files){0};
        rc = take_domains(path, ret);
        if (rc == MF_OK) qsort(ret->path, (size_t)ret->n, sizeof *ret->path, by_bytes);
    }
    for (int i = 0; rc == MF_OK && i < ret->n; i++)
        if (!strchr(ret->path[i], '/'))
            rc =
                mf_fail(MF_EINPUT,
                        "%s: data.labels = folder: expected files in a folder for each domain, "
                        "or a pattern such as texts/*/*.txt",
                        ret->path[i]);
    if (rc != MF_OK) mf_source_files_free(ret);
    return rc;
}

void mf_source_files_free(mf_source_files *f)
{
    for (int i = 0; f->path && i < f->n; i++)
        mf_free(f->path[i]);
    mf_free(f->path);
    mf_free(f->end);
    *f = (mf_source_files){0};
}
