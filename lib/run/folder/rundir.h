/* run/folder/rundir.h: the directory of a run: created without races, written by one process at
 * a time.
 *
 * The writer holds a lock on DIR/.lock. It is an open-file-description lock: the system
 * releases it when the process ends, while the file may remain. The file contains process and
 * host, for the message of another process that finds it locked. */
#ifndef MF_RUN_RUNDIR_H
#define MF_RUN_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

/* RUN/ended.txt: the reason why training ended before its last step (train.patience), in
 * one line. */
#define MF_RUN_ENDED "ended.txt"
/* RUN/mlflow.json: the run on an MLflow server (log.mlflow). */
#define MF_RUN_MLFLOW "mlflow.json"

struct mf_below;

typedef struct mf_rundir {
    char *path;
    char *config, *manifest, *metrics, *memory, *tokenizer, *report, *sample, *samples;
    char *weights, *ckpt, *trace, *best, *stored, *lock_file;
    struct mf_below *below; /* if the run is opened for writing: guarantees that no write
                             * follows a link in the directory */
    int lock;               /* descriptor of the lock; -1: opened for reading only */
    int64_t step;           /* step of the checkpoint that the path names; -1: the path names
                             * no checkpoint */
    bool has_config, has_manifest; /* files that exist, see mf_rundir_expect */
    bool made;                     /* this process created the directory */
} mf_rundir;

/* Creates PARENT/NAME-N with the smallest free N >= 1, and locks it. PARENT is created if
 * missing. Characters of the name other than letters, digits, '.', '_', '-' become '-', and so
 * does a '.' at the beginning; "" becomes "run". MF_EIO. */
int mf_rundir_create(const char *parent, const char *name, mf_rundir **ret);
/* Creates path, or uses it if it is an empty directory, and locks it. MF_EUSAGE if it contains
 * files or is not a directory; MF_ERUN if another process writes there. */
int mf_rundir_create_at(const char *path, mf_rundir **ret);
/* Opens an existing run to continue it. MF_EINPUT if the path is not a run, or if a symbolic
 * link replaces one of its files; MF_ERUN if another process writes there. */
int mf_rundir_open(const char *path, mf_rundir **ret);
/* Opens an existing run for reading, without a lock. The path may also be RUN/config.ini,
 * RUN/ckpt, or a checkpoint RUN/ckpt/step-N. In the last case `step` is N; the function does
 * not check whether this checkpoint exists. RUN/best, and RUN/best/step-N, open RUN with its
 * best checkpoint: `ckpt` is then the folder RUN/best. MF_EINPUT if the path is not a run. */
int mf_rundir_read(const char *path, mf_rundir **ret);
/* Refuses a symbolic link in place of a file or folder that is written in a run: MF_EINPUT. It
 * is for code that writes a single file into a run without opening the run. name: that file;
 * NULL: all files of runs. */
int mf_rundir_refuse_links(const char *path, const char *name);
/* Records which of config.ini and manifest.json exist in the directory, for mf_rundir_judge.
 * mf_rundir_open calls this function. Code that writes these files in a new directory must call
 * it, too. */
void mf_rundir_expect(mf_rundir *dir);
/* Checks that the path still names the locked directory, and that the recorded files still
 * exist. MF_ERUN if somebody has renamed, removed, replaced or emptied the directory. Files
 * written now would then belong to no run. */
int mf_rundir_judge(const mf_rundir *dir);
/* Removes files that an interrupted write left in the run's folders: NAME.PROCESS-N.tmp, and in
 * trace/ step-N.safetensors.tmp. Each removal is logged. The caller must hold the lock. */
int mf_rundir_clean(const mf_rundir *dir);
/* Releases the lock and frees dir, which may be NULL. */
void mf_rundir_close(mf_rundir *dir);
/* The same as mf_rundir_close, for a start that failed. If nothing was written in the
 * directory, the lock file is removed, and also the directory if it was created for
 * this start. */
void mf_rundir_discard(mf_rundir *dir);
/* Whether the directory contains only the lock file of a start that failed. */
bool mf_rundir_is_left(const char *path);
/* Returns the path to use while files of the run are removed. A path that enters a folder and
 * returns by ".." may lead through the run itself, so it is replaced by the real path. Any
 * other path is unchanged. The caller frees it with mf_free; NULL: MF_EIO or MF_ENOMEM
 * is recorded. */
char *mf_rundir_settle(const char *path);
/* Whether the path is a run: a directory with config.ini. */
bool mf_rundir_is(const char *path);
/* Whether a process writes to the run now. */
bool mf_rundir_busy(const char *path);
/* Whether mf_rundir_read accepts the path. */
bool mf_rundir_readable(const char *path);
/* Records that the path is not a readable run, or that the run has no file of this name (NULL:
 * no particular file), and returns MF_EINPUT. The message names the run of the folder with the
 * most similar name. */
int mf_rundir_missing(const char *path, const char *name);

/* ---- removing ---- */
/* Checks that mf_run_remove may remove the run that the path names. The path must not be a link
 * or end in "." or "..", and the run must not contain the working directory of the process.
 * MF_EUSAGE, MF_EINPUT, MF_EIO. */
int mf_run_removable(const char *path);
/* Removes the files that moefw wrote in the run, and the folder if it is then empty. *ret_kept:
 * the first file that stays, because moefw did not write it; NULL: none. The caller frees it
 * with mf_free. MF_ERUN: a process writes to the run. MF_EINPUT, MF_EIO, MF_ENOMEM. */
int mf_run_remove(const char *path, char **ret_kept);

#endif
