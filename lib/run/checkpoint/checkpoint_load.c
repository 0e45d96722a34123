/* run/checkpoint/checkpoint_load.c: verifies checkpoints, and resumes from the newest valid
 * one. Errors of the machine (memory, disk) never count as damage of a checkpoint. */
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <stdio.h>
#include <string.h>

enum { BAD_MAX = 1000 };

/* ---- verification ---- */

/* Adds the last error to the report. Errors of memory or disk say nothing about the checkpoint,
 * so they are returned instead. */
static int note(mf_ckpt_report *r, int code)
{
    if (code == MF_OK || code == MF_ENOMEM || code == MF_EIO) return code;
    char **more = mf_realloc(r->errors, (size_t)r->n_errors * sizeof *more,
                             ((size_t)r->n_errors + 1) * sizeof *more);
    if (more == NULL) return MF_ENOMEM;
    r->errors = more;
    r->errors[r->n_errors] = mf_strdup(mf_error_message());
    if (r->errors[r->n_errors] == NULL) return MF_ENOMEM;
    r->n_errors++;
    r->ok = false;
    return MF_OK;
}

static int judge_file(const char *path, const char *name, const mf_ckpt_file *expected,
                      uint64_t *ret_bytes)
{
    char hash[MF_HASH_TEXT];
    int fd = -1;
    uint64_t bytes = 0;
    char *file = mf_path_join(path, name);
    if (file == NULL) return MF_ENOMEM;
    int code = mf_file_open(file, &fd, &bytes);
    if (code == MF_OK) mf_file_close(fd);
    *ret_bytes = bytes;
    if (code == MF_OK && bytes != expected->bytes)
        code = mf_fail(MF_ECHECKPOINT, "%s: damaged: %llu bytes, the manifest says %llu", file,
                       (unsigned long long)bytes, (unsigned long long)expected->bytes);
    if (code == MF_OK) code = mf_hash_file(file, hash);
    if (code == MF_OK && strcmp(hash, expected->hash) != 0)
        code = mf_fail(MF_ECHECKPOINT, "%s: damaged: XXH3-128 is %s, the manifest says %s",
                       file, hash, expected->hash);
    mf_free(file);
    return code;
}

static int count_tensors(const char *path, mf_ckpt_report *r)
{
    mf_st_file *f;
    char *file = mf_path_join(path, MF_CKPT_MODEL);
    int code = file != NULL ? mf_st_open(file, &f) : MF_ENOMEM;
    if (code == MF_OK) {
        r->tensors = (int64_t)mf_st_count(f);
        mf_st_close(f);
    }
    mf_free(file);
    return code;
}

/* Checks all files against the manifest. *m: the manifest, which the caller always frees. */
static int judge(const char *path, mf_manifest *m, mf_ckpt_report *r)
{
    *r = (mf_ckpt_report){.ok = true, .step = -1};
    int code = note(r, mf_manifest_read(path, m));
    if (code != MF_OK || !r->ok) return code;
    r->step = m->step;
    for (int i = 0; i < MF_CKPT_FILES && code == MF_OK; i++) {
        uint64_t bytes = 0;
        code = note(r, judge_file(path, mf_ckpt_files[i], &m->file[i], &bytes));
        r->bytes += bytes;
    }
    if (code == MF_OK && r->ok) code = note(r, count_tensors(path, r));
    const char *slash = strrchr(path, '/');
    int64_t step;
    if (code == MF_OK && mf_ckpt_step_of(slash != NULL ? slash + 1 : path, &step) &&
        step != m->step)
        code = note(r, mf_fail(MF_ECHECKPOINT, "%s: the manifest is of step %lld", path,
                               (long long)m->step));
    return code;
}

int mf_ckpt_verify(const char *path, mf_ckpt_report *ret)
{
    mf_manifest m = {0};
    int code = judge(path, &m, ret);
    mf_manifest_free(&m);
    return code;
}

void mf_ckpt_report_free(mf_ckpt_report *r)
{
    for (int i = 0; i < r->n_errors; i++)
        mf_free(r->errors[i]);
    mf_free(r->errors);
    *r = (mf_ckpt_report){0};
}

/* ---- the newest valid checkpoint ---- */

/* Renames a damaged checkpoint, so that it can be examined but is not used. */
static int set_aside(const char *path)
{
    for (int i = 1; i <= BAD_MAX; i++) {
        char *bad = i == 1 ? mf_strf("%s.bad", path) : mf_strf("%s.bad-%d", path, i);
        if (bad == NULL) return MF_ENOMEM;
        bool taken = mf_exists(bad);
        int code = MF_OK;
        if (!taken && mf_io()->rename(path, bad) != 0)
            code = mf_fail_errno(MF_EIO, "%s: cannot rename to %s", path, bad);
        if (!taken && code == MF_OK) mf_log(MF_LOG_WARN, "set aside as %s", bad);
        mf_free(bad);
        if (!taken) return code;
    }
    return mf_fail(MF_EIO, "%s: %d damaged checkpoints of this step", path, BAD_MAX);
}

/* Checks a checkpoint. *good: whether it is valid; the caller then frees *m. aside: a damaged
 * checkpoint is renamed. */
static int try_one(const char *path, bool aside, mf_manifest *m, bool *good)
{
    mf_ckpt_report r;
    int code = judge(path, m, &r);
    *good = code == MF_OK && r.ok;
    if (code == MF_OK && !r.ok) {
        mf_log(MF_LOG_WARN, "checkpoint refused: %s", r.errors[0]);
        if (aside) code = set_aside(path);
    }
    if (!*good) mf_manifest_free(m);
    mf_ckpt_report_free(&r);
    return code;
}

/* Writes the steps except `but` as text, "4, 8", for a message. If there is not enough space,
 * only the last steps are written. */
static void name_steps(int n, const int64_t *steps, int64_t but, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n && used + 24 < size; i++)
        if (steps[i] != but)
            used += (size_t)snprintf(out + used, size - used, "%s%lld", used > 0 ? ", " : "",
                                     (long long)steps[i]);
}

/* Finds the newest checkpoint that verifies, or only the checkpoint of `step` if step >= 0. The
 * caller frees *m and *ret_path. MF_ECHECKPOINT if there is none. */
static int find(const char *folder, int64_t step, bool aside, mf_manifest *m, char **ret_path)
{
    int64_t *steps;
    char there[160];
    int n, code = mf_ckpt_list(folder, &steps, &n);
    *ret_path = NULL;
    *m = (mf_manifest){0};
    for (int i = 0; i < n && code == MF_OK; i++) {
        if (step >= 0 && steps[i] != step) continue;
        char *path = mf_ckpt_path(folder, steps[i]);
        bool good = false;
        code = path != NULL ? try_one(path, aside, m, &good) : MF_ENOMEM;
        if (good) {
            *ret_path = path;
            break;
        }
        mf_free(path);
    }
    name_steps(code == MF_OK ? n : 0, steps, step, there, sizeof there);
    mf_free(steps);
    if (code == MF_OK && *ret_path == NULL) {
        if (step >= 0)
            return mf_fail(MF_ECHECKPOINT,
                           *there ? "%s: no valid checkpoint of step %lld; there are those of "
                                    "the steps %s"
                                  : "%s: no valid checkpoint of step %lld; there is no other%s",
                           folder, (long long)step, there);
        return mf_fail(MF_ECHECKPOINT, "%s: %s; expected one that verifies", folder,
                       n > 0 ? "every checkpoint is damaged" : "there is no checkpoint");
    }
    return code;
}

static bool differ(const char *before, const char *now)
{
    return now && *now && *before && strcmp(before, now) != 0;
}

/* Refuses a checkpoint of another run. Such a checkpoint may fit the model, but its values do
 * not belong to this run. */
static int judge_run(const char *path, const mf_manifest *m, const char *run)
{
    if (!differ(m->provenance.run, run)) return MF_OK;
    return mf_fail(MF_ECHECKPOINT,
                   "%s: a checkpoint of another run (%s): expected one of this run (%s); a new "
                   "run with train.from takes the weights of another",
                   path, m->provenance.run, run);
}

/* ---- loading ---- */

int mf_ckpt_load(const char *folder, int64_t step, mf_store *store, int64_t *ret_step)
{
    return mf_ckpt_load_with_state(folder, step, NULL, store, NULL, ret_step, NULL);
}

int mf_ckpt_load_with_state(const char *folder, int64_t step, const char *run, mf_store *store,
                            const char *but, int64_t *ret_step, mf_state **ret_state)
{
    mf_manifest m;
    char *path;
    if (ret_state != NULL) *ret_state = NULL;
    int code = find(folder, step, false, &m, &path);
    if (code != MF_OK) return code;
    code = judge_run(path, &m, run);
    if (code == MF_OK) code = mf_ckpt_fit_model(path, store, but);
    if (code == MF_OK) code = mf_ckpt_read_model(path, store, but);
    if (code == MF_OK && ret_state != NULL) code = mf_ckpt_read_numbers(path, ret_state);
    if (code == MF_OK && ret_step != NULL) *ret_step = m.step;
    mf_manifest_free(&m);
    mf_free(path);
    return code;
}

int mf_ckpt_start(const char *folder, const char *run, mf_store *store, int64_t *ret_step,
                  int *ret_missing)
{
    mf_manifest m;
    char *path;
    int read = 0;
    int code = find(folder, -1, false, &m, &path);
    if (code != MF_OK) return code;
    code = judge_run(path, &m, run);
    if (code == MF_OK) code = mf_ckpt_read_common(path, store, &read, ret_missing);
    if (code == MF_OK && read == 0)
        code = mf_fail(MF_ECHECKPOINT,
                       "%s: no tensor of the model that the configuration "
                       "describes",
                       path);
    *ret_step = m.step;
    mf_manifest_free(&m);
    mf_free(path);
    return code;
}

/* ---- resume ---- */

/* If a save was interrupted between the two renames with which it replaces a checkpoint, the
 * old checkpoint is still valid and gets its name back. *done tells whether this happened. */
static int bring_back(const char *folder, const char *name, bool *done)
{
    int64_t step;
    *done = false;
    if (!mf_ckpt_is_replaced(name, &step)) return MF_OK;
    char *old = mf_path_join(folder, name), *path = mf_ckpt_path(folder, step);
    int code = old != NULL && path != NULL ? MF_OK : MF_ENOMEM;
    if (code == MF_OK && !mf_exists(path)) {
        if (mf_io()->rename(old, path) != 0)
            code = mf_fail_errno(MF_EIO, "%s: cannot rename", old);
        else
            *done = true;
    }
    mf_free(old);
    mf_free(path);
    return code;
}

int mf_ckpt_clean(const char *folder)
{
    char **names;
    int n, code = MF_OK;
    if (!mf_is_dir(folder)) return MF_OK;
    code = mf_list_dir(folder, &names, &n);
    if (code != MF_OK) return code;
    for (int i = 0; i < n && code == MF_OK; i++) {
        if (!mf_ckpt_is_leftover(names[i])) continue;
        bool back;
        code = bring_back(folder, names[i], &back);
        if (code != MF_OK || back) continue;
        char *path = mf_path_join(folder, names[i]);
        code = path != NULL ? mf_remove_tree(path) : MF_ENOMEM;
        if (code == MF_OK)
            mf_log(MF_LOG_WARN, "%s: removed: left over from a save that did not end", path);
        mf_free(path);
    }
    mf_list_free(names, n);
    return code;
}

static void tell(const char *what, const char *before, const char *now)
{
    if (strcmp(before, now) != 0)
        mf_log(MF_LOG_WARN,
               "resuming with another %s (%s, the checkpoint: %s): the results may differ from "
               "those of an unbroken run",
               what, *now ? now : "none", *before ? before : "none");
}

static const mf_provenance_plugin *find_plugin(const mf_provenance *id,
                                               const mf_provenance_plugin *p)
{
    for (int i = 0; i < id->n_plugins; i++)
        if (strcmp(id->plugins[i].name, p->name) == 0 &&
            strcmp(id->plugins[i].kind, p->kind) == 0)
            return &id->plugins[i];
    return NULL;
}

static void tell_plugin(const mf_provenance_plugin *p, const char *before, const char *now)
{
    char *what = mf_strf("%s %s", p->kind, p->name);
    tell(what != NULL ? what : p->name, before, now);
    mf_free(what);
}

static void tell_differences(const mf_provenance *before, const mf_provenance *now)
{
    tell("version of moefw", before->version, now->version);
    tell("set of kernels", before->kernels, now->kernels);
    tell("processor", before->cpu, now->cpu);
    tell("BLAS", before->blas, now->blas);
    for (int i = 0; i < now->n_plugins; i++) {
        const mf_provenance_plugin *p = &now->plugins[i], *q = find_plugin(before, p);
        tell_plugin(p, q != NULL ? q->hash : "", p->hash);
    }
    for (int i = 0; i < before->n_plugins; i++)
        if (find_plugin(now, &before->plugins[i]) == NULL)
            tell_plugin(&before->plugins[i], before->plugins[i].hash, "");
}

/* Compares the sums of the data. A sum of all tokens detects more changes than a sum of pieces.
 * Earlier checkpoints have only the latter. */
static void tell_data(const mf_provenance *before, const mf_provenance *now)
{
    const bool all = *before->data_all && now->data_all && *now->data_all;
    if (all ? differ(before->data_all, now->data_all) : differ(before->data, now->data))
        mf_log(MF_LOG_WARN,
               "resuming with other data than those of the checkpoint: what the run has read "
               "so far is not what it reads from here on");
    else if (differ(before->data_files, now->data_files))
        mf_log(
            MF_LOG_INFO,
            "the files of the data were written since the checkpoint; only pieces of them are "
            "compared, as they are large, and these are the same");
}

static int take_over(const char *path, mf_store *store, mf_state **ret)
{
    int code = mf_ckpt_fit_model(path, store, NULL);
    if (code == MF_OK) code = mf_ckpt_fit_state(path, store);
    if (code == MF_OK) code = mf_ckpt_read_model(path, store, NULL);
    return code == MF_OK ? mf_ckpt_read_state(path, store, ret) : code;
}

int mf_ckpt_resume(const char *folder, mf_store *store, const mf_provenance *identity,
                   mf_state **ret_state, int64_t *ret_step, double *ret_wall)
{
    *ret_state = NULL;
    if (!mf_store_has(store, MF_BLOCK_MOMENT1))
        return mf_fail(MF_EINVAL, "%s: going on needs a store with moments", folder);
    mf_manifest m;
    char *path;
    int code = mf_ckpt_clean(folder);
    if (code == MF_OK) code = find(folder, -1, true, &m, &path);
    if (code != MF_OK) return code;
    code = judge_run(path, &m, identity->run);
    if (code == MF_OK) code = take_over(path, store, ret_state);
    if (code == MF_OK) {
        tell_data(&m.provenance, identity);
        tell_differences(&m.provenance, identity);
        *ret_step = m.step;
        /* Checkpoints of earlier versions contain the time in their state. */
        if (ret_wall && !mf_state_real(*ret_state, "wall_s", ret_wall))
            *ret_wall = m.provenance.wall_s;
    }
    mf_manifest_free(&m);
    mf_free(path);
    return code;
}
