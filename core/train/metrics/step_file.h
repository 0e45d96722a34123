/* train/metrics/step_file.h: files that grow with a run: one JSON object per line, whose first
 * key is step.
 *
 * Lines are in the order of their steps, so a resumed run can cut the file back to its
 * checkpoint: write all lines of step N before saving the checkpoint of step N. Each line is
 * passed to the system at once; a last line without an end is what a crash leaves, and does
 * not count.
 *
 * Writing:  mf_jw *w = mf_step_file_line(f); one object, step first; mf_step_file_put(f). */
#ifndef MF_TRAIN_STEP_FILE_H
#define MF_TRAIN_STEP_FILE_H

#include "base/text/json.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_step_file mf_step_file;

/* keep_to_step < 0: a new, empty file. Otherwise continues after the last complete line with a
 * step <= keep_to_step; what follows is cut off. MF_EIO. */
int mf_step_file_open(const char *path, int64_t keep_to_step, mf_step_file **ret);
mf_jw *mf_step_file_line(mf_step_file *f);
int mf_step_file_put(mf_step_file *f);
/* forces all lines to disk, before a checkpoint relies on them */
int mf_step_file_sync(mf_step_file *f);
int mf_step_file_close(mf_step_file *f); /* NULL is allowed */

/* ---- reading ---- */
typedef struct mf_step_damage {
    int lines;      /* number of lines that are no records and were skipped */
    bool truncated; /* the last line has no end; it is skipped and not counted in lines */
} mf_step_damage;
/* Receives one line. *ret_damaged: it is no record. An error ends the reading. */
typedef int (*mf_step_line)(void *arg, const mf_json *line, bool *ret_damaged);
/* MF_ENOTFOUND: no such file. Damaged lines are counted and are no error. */
int mf_step_file_read(const char *path, mf_step_line each, void *arg, mf_step_damage *ret);

#endif
