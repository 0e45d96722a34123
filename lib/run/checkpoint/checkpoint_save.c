/* run/checkpoint/checkpoint_save.c: the order in which a checkpoint is written and old
 * checkpoints are removed. After the first save, at least one complete checkpoint is on disk at
 * any moment. */
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "step-", leftover[] = ".tmp", replaced[] = ".old.tmp";
enum {
    PREFIX = sizeof prefix - 1,
    LEFTOVER = sizeof leftover - 1,
    REPLACED = sizeof replaced - 1,
    MESSAGE = 1024
};

/* ---- names ---- */

bool mf_ckpt_step_of(const char *name, int64_t *ret)
{
    if (strncmp(name, prefix, PREFIX) != 0) return false;
    const char *digits = name + PREFIX;
    size_t n = strlen(digits);
    if (n == 0 || n > 18 || strspn(digits, "0123456789") != n || (n > 1 && *digits == '0'))
        return false;
    *ret = strtoll(digits, NULL, 10);
    return true;
}

bool mf_ckpt_is_leftover(const char *name)
{
    size_t n = strlen(name);
    bool ours = strncmp(name, prefix, PREFIX) == 0 || strncmp(name, "latest.", 7) == 0;
    return ours && n > LEFTOVER && strcmp(name + n - LEFTOVER, leftover) == 0;
}

bool mf_ckpt_is_replaced(const char *name, int64_t *ret_step)
{
    char step[64];
    size_t n = strlen(name);
    if (n <= REPLACED || n - REPLACED >= sizeof step ||
        strcmp(name + n - REPLACED, replaced) != 0)
        return false;
    memcpy(step, name, n - REPLACED);
    step[n - REPLACED] = 0;
    return mf_ckpt_step_of(step, ret_step);
}

char *mf_ckpt_path(const char *folder, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "%s%lld", prefix, (long long)step);
    return mf_path_join(folder, name);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

int mf_ckpt_list(const char *folder, int64_t **ret_steps, int *ret_n)
{
    *ret_steps = NULL;
    *ret_n = 0;
    if (!mf_is_dir(folder)) return MF_OK;
    char **names;
    int n, code = mf_list_dir(folder, &names, &n);
    if (code != MF_OK) return code;
    int64_t *steps = mf_alloc((size_t)n + 1, sizeof *steps);
    if (steps == NULL) code = MF_ENOMEM;
    for (int i = 0; i < n && code == MF_OK; i++)
        *ret_n += mf_ckpt_step_of(names[i], &steps[*ret_n]);
    mf_list_free(names, n);
    if (code == MF_OK) qsort(steps, (size_t)*ret_n, sizeof *steps, newest_first);
    *ret_steps = steps;
    return code;
}

int mf_ckpt_any(const char *folder, bool *ret)
{
    char **names;
    int n;
    *ret = false;
    const int rc = mf_list_dir(folder, &names, &n);
    if (rc == MF_ENOTFOUND) {
        mf_error_clear();
        return MF_OK;
    }
    if (rc != MF_OK) return rc;
    for (int i = 0; i < n; i++) {
        int64_t step;
        const bool begun =
            mf_ckpt_is_leftover(names[i]) && !mf_ckpt_is_replaced(names[i], &step);
        *ret = *ret || (strncmp(names[i], "step-", 5) == 0 && !begun);
    }
    mf_list_free(names, n);
    return MF_OK;
}

/* ---- removing ---- */

/* Renames the directory before removing its files. The rename is one atomic step, so an
 * interrupted removal leaves no partial checkpoint. */
static int remove_checkpoint(const char *path)
{
    char *hidden = mf_strf("%s.gone%s", path, leftover);
    if (hidden == NULL) return MF_ENOMEM;
    int code = mf_remove_tree(hidden);
    if (code == MF_OK && mf_io()->rename(path, hidden) != 0)
        code = mf_fail_errno(MF_EIO, "%s: cannot rename", path);
    if (code == MF_OK) code = mf_remove_tree(hidden);
    mf_free(hidden);
    return code;
}

/* Removes the checkpoints that are older than the newest `keep` up to `step`. A failed removal
 * only costs disk space, so it is a warning. */
static void prune(const char *folder, int64_t step, int64_t keep)
{
    int64_t *steps;
    int n, kept = 0, code = mf_ckpt_list(folder, &steps, &n);
    for (int i = 0; i < n && code == MF_OK; i++) {
        kept += steps[i] <= step;
        if (kept <= keep) continue;
        char *path = mf_ckpt_path(folder, steps[i]);
        code = path != NULL ? remove_checkpoint(path) : MF_ENOMEM;
        mf_free(path);
    }
    mf_free(steps);
    if (code != MF_OK) mf_log(MF_LOG_WARN, "an old checkpoint stays: %s", mf_error_message());
}

/* ---- saving ---- */

static int write_files(const char *path, int64_t step, const mf_store *store,
                       const mf_ckpt_moments *moments, const mf_state *state,
                       const mf_provenance *identity)
{
    int code = mf_remove_tree(path);
    if (code == MF_OK && mf_io()->mkdir(path, 0777) != 0)
        code = mf_fail_errno(MF_EIO, "%s: cannot make the directory", path);
    if (code == MF_OK) code = mf_ckpt_write_model(path, store, moments);
    if (code == MF_OK) code = mf_ckpt_write_state(path, store, moments, state);
    if (code == MF_OK) code = mf_manifest_write(path, step, identity);
    return code == MF_OK ? mf_sync_dir(path) : code;
}

/* Renames the finished directory to its name. If this name exists, because the run was resumed
 * at an earlier step, the old directory is renamed first. If the function fails, the old
 * directory gets its name back. */
static int put_in_place(const char *folder, const char *beside, const char *path)
{
    char *old = mf_strf("%s%s", path, replaced);
    if (old == NULL) return MF_ENOMEM;
    bool replace = mf_exists(path);
    int code = replace ? mf_remove_tree(old) : MF_OK;
    if (code == MF_OK && replace && mf_io()->rename(path, old) != 0)
        code = mf_fail_errno(MF_EIO, "%s: cannot rename", path);
    bool moved = replace && code == MF_OK;
    if (code == MF_OK && mf_io()->rename_new(beside, path) != 0) {
        code = mf_fail_errno(MF_EIO, "%s: cannot rename to %s", beside, path);
        if (moved && mf_io()->rename(old, path) == 0) moved = false;
    }
    if (code == MF_OK) code = mf_sync_dir(folder);
    if (code == MF_OK && moved) code = mf_remove_tree(old);
    mf_free(old);
    return code;
}

static int point_latest(const char *folder, int64_t step)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s%lld\n", prefix, (long long)step);
    char *path = mf_path_join(folder, "latest");
    int code = path != NULL ? mf_write_file_atomic(path, text, (size_t)n) : MF_ENOMEM;
    mf_free(path);
    return code;
}

/* Verifies the new checkpoint before it gets its name. Damage therefore leaves no bad step-N
 * and no `latest` that names it. Returns the error of the first damage. */
static int read_back(const char *path)
{
    mf_ckpt_report r;
    int code = mf_ckpt_verify(path, &r);
    if (code == MF_OK && !r.ok)
        code =
            mf_fail(MF_ECHECKPOINT, "just written, but it does not read back: %s", r.errors[0]);
    mf_ckpt_report_free(&r);
    return code;
}

static int save(const char *folder, const char *path, const char *beside, int64_t step,
                const mf_store *store, const mf_ckpt_moments *moments, const mf_state *state,
                const mf_provenance *identity)
{
    int code = mf_mkdir(folder);
    if (code == MF_OK) code = write_files(beside, step, store, moments, state, identity);
    if (code == MF_OK) code = read_back(beside);
    if (code == MF_OK) code = put_in_place(folder, beside, path);
    return code == MF_OK ? point_latest(folder, step) : code;
}

int mf_ckpt_save(const char *folder, int64_t step, const mf_store *store,
                 const mf_ckpt_moments *moments, const mf_state *state,
                 const mf_provenance *identity, int64_t keep)
{
    if (!mf_store_has(store, MF_BLOCK_MOMENT1) || step < 0)
        return mf_fail(MF_EINVAL, "a checkpoint of step %lld of a store%s", (long long)step,
                       !mf_store_has(store, MF_BLOCK_MOMENT1) ? " without moments" : "");
    char *path = mf_ckpt_path(folder, step);
    char *beside = path != NULL ? mf_strf("%s%s", path, leftover) : NULL;
    if (beside == NULL) {
        mf_free(path);
        return MF_ENOMEM;
    }
    int code = save(folder, path, beside, step, store, moments, state, identity);
    if (code != MF_OK) {
        /* Removing the directory must not replace the error message. */
        char why[MESSAGE];
        snprintf(why, sizeof why, "%s", mf_error_message());
        mf_remove_tree(beside);
        mf_fail(code, "checkpoint of step %lld: %s", (long long)step, why);
    }
    mf_free(beside);
    mf_free(path);
    if (code == MF_OK && keep > 0) prune(folder, step, keep);
    return code;
}
