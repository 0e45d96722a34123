/* train/step_file.h: files that grow with a run: one JSON object a line, whose first key is
 * step.
 *
 * Lines stand in the order of their steps, so that a resumed run can cut the file back to its
 * checkpoint: write all lines of step N before saving the checkpoint of step N. Lines are
 * handed to the system one by one; a last line without an end is what a crash leaves, and no
 * line.
 *
 * Writing:  mf_jw *w = mf_step_file_line(f); one object, step first; mf_step_file_put(f).
 */
#ifndef MF_TRAIN_STEP_FILE_H
#define MF_TRAIN_STEP_FILE_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_step_file mf_step_file;

/* keep_to_step < 0: a new, empty file. Else: goes on after the last whole line of a step <=
 * keep_to_step; what follows is cut off. MF_EIO. */
int mf_step_file_open(const char *path, int64_t keep_to_step, mf_step_file **ret);
mf_jw *mf_step_file_line(mf_step_file *f);
int mf_step_file_put(mf_step_file *f);
int mf_step_file_sync(mf_step_file *f);  /* on disk, before a checkpoint that relies on it */
int mf_step_file_close(mf_step_file *f); /* NULL is allowed */

/* ---- reading ---- */
typedef struct mf_step_damage {
    int lines;      /* that are not records: passed over */
    bool truncated; /* the last line has no end: passed over, not counted in lines */
} mf_step_damage;
/* Sees one line. *ret_damaged: it is no record. A failure ends the reading. */
typedef int (*mf_step_line)(void *arg, const mf_json *line, bool *ret_damaged);
/* MF_ENOTFOUND: no such file. Damaged lines are counted, not failures. */
int mf_step_file_read(const char *path, mf_step_line each, void *arg, mf_step_damage *ret);

#endif
