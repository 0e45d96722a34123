/* train/rundir.h: the directory of a run: made without races, written by one process at a time.
 *
 * The writer holds a lock on DIR/.lock (an open-file-description lock: it ends with the
 * process, however that ends; the file may stay). It names process and host for whoever finds
 * it taken.
 */
#ifndef MF_TRAIN_RUNDIR_H
#define MF_TRAIN_RUNDIR_H

#include <stdbool.h>

typedef struct mf_rundir {
    char *path;
    char *config, *manifest, *metrics, *memory, *tokenizer, *report, *sample, *samples;
    char *weights, *ckpt, *trace, *best;
    int lock; /* descriptor; -1 when only read from */
} mf_rundir;

/* PARENT/NAME-N with the least N >= 1 that is free. PARENT is made if need be; characters of
 * name other than letters, digits, '.', '_', '-' become '-'. MF_EIO. */
int mf_rundir_create(const char *parent, const char *name, mf_rundir **ret);
/* path as it is: made, or taken if it is an empty directory. MF_EUSAGE if it holds files (the
 * message names --resume) or is no directory; MF_ERUN if another process is writing there. */
int mf_rundir_create_at(const char *path, mf_rundir **ret);
/* A run that exists, to go on with: MF_EINPUT if it is none, MF_ERUN if a process writes
 * there. */
int mf_rundir_open(const char *path, mf_rundir **ret);
/* A run that exists, to read from. RUN/best is RUN with its best checkpoint for its newest:
 * ckpt is then that folder. No lock. MF_EINPUT. */
int mf_rundir_read(const char *path, mf_rundir **ret);
/* Gives the lock up. */
void mf_rundir_close(mf_rundir *dir);
/* Does path look like a run: a directory with config.ini? */
bool mf_rundir_is(const char *path);
/* Or like RUN/best, which mf_rundir_read takes as well? */
bool mf_rundir_readable(const char *path);

#endif
