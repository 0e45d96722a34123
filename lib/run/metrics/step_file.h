/* run/metrics/step_file.h: files that grow during a run: one JSON object per line, whose
 * first key is step.
 *
 * Lines are in the order of their steps, so a resumed run can truncate the file to its
 * checkpoint. For this, all lines of step N are written before the checkpoint of step N is
 * saved. Each line is passed to the system at once. A last line without an end was left by a
 * crash and does not count.
 *
 * Writing:  mf_jw *w = mf_step_file_line(f); write one object, step first; mf_step_file_put(f);
 */
#ifndef MF_RUN_STEP_FILE_H
#define MF_RUN_STEP_FILE_H

#include "io/json.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_step_file mf_step_file;

/* keep_to_step < 0: makes a new, empty file. Otherwise truncates the file behind its last line
 * that has no later step, and continues there. A line whose step does not fit between those of
 * the others counts as damaged, wherever it stands; damaged lines before that place stay, those
 * behind it go, and both are logged. MF_EIO, MF_ENOMEM. */
int mf_step_file_open(const char *path, int64_t keep_to_step, mf_step_file **ret);
mf_jw *mf_step_file_line(mf_step_file *f);
/* MF_ERUN: the file was removed or replaced, so that nobody would read the line. MF_EIO. */
int mf_step_file_put(mf_step_file *f);
/* Number of lines in the file, damaged ones included. */
int64_t mf_step_file_lines(const mf_step_file *f);
/* Forces all lines to disk, before a checkpoint relies on them. Fails as mf_step_file_put. */
int mf_step_file_sync(mf_step_file *f);
int mf_step_file_close(mf_step_file *f); /* NULL is allowed */

/* ---- reading ---- */
typedef struct mf_step_damage {
    int lines;      /* number of lines that are no records; they are skipped */
    bool truncated; /* the last line has no end; it is skipped and not counted in lines */
} mf_step_damage;
/* Receives one line. Sets *ret_damaged if the line is no record. An error ends the reading. */
typedef int (*mf_step_line)(void *arg, const mf_json *line, bool *ret_damaged);
/* MF_ENOTFOUND if there is no such file. Damaged lines are counted and are no error. */
int mf_step_file_read(const char *path, mf_step_line each, void *arg, mf_step_damage *ret);

#endif
