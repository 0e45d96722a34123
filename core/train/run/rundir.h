/* train/run/rundir.h: the directory of a run: created without races, written by one process at
 * a time.
 *
 * The writer holds a lock on DIR/.lock. It is an open-file-description lock: the system
 * releases it when the process ends, while the file may remain. The file contains process and
 * host, for the message of another process that finds it locked. */
#ifndef MF_TRAIN_RUNDIR_H
#define MF_TRAIN_RUNDIR_H

#include <stdbool.h>

typedef struct mf_rundir {
    char *path;
    char *config, *manifest, *metrics, *memory, *tokenizer, *report, *sample, *samples;
    char *weights, *ckpt, *trace, *best;
    int lock; /* descriptor of the lock; -1: opened for reading only */
} mf_rundir;

/* Creates PARENT/NAME-N with the smallest free N >= 1. PARENT is created if missing. Characters
 * of the name other than letters, digits, '.', '_', '-' become '-'. MF_EIO. */
int mf_rundir_create(const char *parent, const char *name, mf_rundir **ret);
/* Creates path, or uses it if it is an empty directory. MF_EUSAGE if it contains files (the
 * message names --resume) or is no directory; MF_ERUN if another process writes there. */
int mf_rundir_create_at(const char *path, mf_rundir **ret);
/* Opens an existing run to continue it. MF_EINPUT if it is no run, MF_ERUN if another process
 * writes there. */
int mf_rundir_open(const char *path, mf_rundir **ret);
/* Opens an existing run for reading, without a lock. RUN/best is the run with its best
 * checkpoint: `ckpt` is then that folder. MF_EINPUT if it is no run. */
int mf_rundir_read(const char *path, mf_rundir **ret);
/* Releases the lock. */
void mf_rundir_close(mf_rundir *dir);
/* Whether the path is a run: a directory with config.ini. */
bool mf_rundir_is(const char *path);
/* Whether mf_rundir_read accepts the path: a run, or RUN/best. */
bool mf_rundir_readable(const char *path);

#endif
