/* run/folder/rundir_remove.c: removes from the folder of a run all files with the names that
 * runs use. A folder is removed if it is empty afterwards, so files of other origin stay. */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "run/folder/rundir.h"

/* Paths within a run; '*' matches any text, also text with '/'. */
static const char *const written[] = {
    "config.ini",
    "manifest.json",
    "metrics.jsonl",
    "memory.jsonl",
    "tokenizer.json",
    "report.html",
    "routing_sample.json",
    "weights.json",
    "stored.json",
    MF_RUN_ENDED,
    MF_RUN_MLFLOW,
    ".lock",
    "*.tmp",
    "*.tmp/*",
    "ckpt/latest",
    "ckpt/step-*/model.safetensors",
    "ckpt/step-*/state.safetensors",
    "ckpt/step-*/MANIFEST.json",
    "best/latest",
    "best/step-*/model.safetensors",
    "best/step-*/state.safetensors",
    "best/step-*/MANIFEST.json",
    "samples/step-*.json",
    "trace/step-*.safetensors",
    "tensorboard/*/events.out.tfevents.*",
    "pretrained/*",
};

static bool is_written(const char *within)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (fnmatch(written[i], within, 0) == 0) return true;
    return false;
}

int mf_run_removable(const char *path)
{
    struct stat st;
    char run[PATH_MAX], here[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    char *name = mf_strndup(path, n);
    if (!name) return MF_ENOMEM;
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    int rc = MF_OK;
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        rc = mf_fail(MF_EUSAGE,
                     "%s: expected the run by its name, to be sure which one is meant", path);
    else if (lstat(name, &st) != 0)
        rc = mf_fail_errno(MF_EIO, "%s: cannot be examined", path);
    else if (S_ISLNK(st.st_mode))
        rc = mf_fail(MF_EUSAGE, "%s: a symbolic link: expected the run itself", path);
    else if (!realpath(name, run) || !realpath(".", here))
        rc = mf_fail_errno(MF_EIO, "%s: cannot be found", path);
    else if (strncmp(here, run, strlen(run)) == 0 &&
             (here[strlen(run)] == '/' || here[strlen(run)] == '\0'))
        rc = mf_fail(MF_EUSAGE, "%s: the current folder is in this run: leave it first", path);
    mf_free(name);
    return rc;
}

/* Removes the run's files below `within`; "": all files. *ret_kept: as in mf_run_remove. */
static int remove_below(const char *run, const char *within, int depth, char **ret_kept)
{
    enum { DEPTH_MAX = 16 };
    char **names, *folder = mf_path_join(run, within);
    int n, rc = folder ? mf_list_dir(*within ? folder : run, &names, &n) : MF_ENOMEM;
    mf_free(folder);
    if (rc != MF_OK) return rc;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        struct stat st;
        char *in = *within ? mf_path_join(within, names[i]) : mf_strdup(names[i]);
        char *path = in ? mf_path_join(run, in) : NULL;
        const bool found = path && lstat(path, &st) == 0,
                   folder_in = found && S_ISDIR(st.st_mode);
        char *kept = NULL;
        if (!path) rc = MF_ENOMEM;
        if (rc == MF_OK && folder_in && depth < DEPTH_MAX) {
            rc = remove_below(run, in, depth + 1, &kept);
            if (rc == MF_OK && !kept && mf_io()->rmdir(path) != 0 && errno != ENOENT)
                rc = mf_fail_errno(MF_EIO, "%s: cannot remove", path);
        } else if (rc == MF_OK && found && is_written(in)) {
            if (mf_io()->unlink(path) != 0 && errno != ENOENT)
                rc = mf_fail_errno(MF_EIO, "%s: cannot remove", path);
        } else if (rc == MF_OK && found) {
            kept = mf_strdup(path);
            if (!kept) rc = MF_ENOMEM;
        }
        if (*ret_kept)
            mf_free(kept);
        else
            *ret_kept = kept;
        mf_free(path);
        mf_free(in);
    }
    mf_list_free(names, n);
    return rc;
}

int mf_run_remove(const char *path, char **ret_kept)
{
    mf_rundir *dir;
    *ret_kept = NULL;
    int rc = mf_run_removable(path);
    char *run = rc == MF_OK ? mf_rundir_settle(path) : NULL;
    if (rc == MF_OK) rc = run ? mf_rundir_open(run, &dir) : mf_error_code();
    if (rc == MF_OK) {
        rc = remove_below(run, "", 0, ret_kept);
        mf_rundir_close(dir);
        if (rc == MF_OK && !*ret_kept && mf_io()->rmdir(run) != 0 && errno != ENOENT)
            rc = mf_fail_errno(MF_EIO, "%s: cannot remove", run);
        if (rc == MF_OK && !*ret_kept) rc = mf_sync_parent(run);
    }
    mf_free(run);
    return rc;
}
