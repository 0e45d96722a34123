/* run/metrics/step_file.h: files that grow during a run: one JSON object per line, whose
 * first key is step.
 *
 * Lines are in the order of their steps, so a resumed run can truncate the file to its
 * checkpoint. For this purpose, all lines of step N are written before the checkpoint of
 * step N is saved. Each line is passed to the system at once. A last line without a newline
 * was left by a crash and does not count.
 *
 * Writing: mf_jw *w = mf_step_file_line(f); write one object, step
 * first; mf_step_file_put(f); */
#ifndef MF_RUN_STEP_FILE_H
#define MF_RUN_STEP_FILE_H

#include "io/json.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_step_file mf_step_file;

/* Opens a file. keep_to_step < 0: makes a new, empty file. Otherwise truncates the file after
 * the last line whose step is not later, and continues there. A line whose step is not in order
 * with the other lines counts as damaged. Damaged lines before the end of the kept part stay,
 * and damaged lines after it are removed; both are logged. MF_EIO, MF_ENOMEM. */
int mf_step_file_open(const char *path, int64_t keep_to_step, mf_step_file **ret);
mf_jw *mf_step_file_line(mf_step_file *f);
/* Writes the line. MF_ERUN: the file was removed or replaced, so nobody would read the
 * line. MF_EIO. */
int mf_step_file_put(mf_step_file *f);
/* Returns the number of lines in the file, including damaged lines. */
int64_t mf_step_file_lines(const mf_step_file *f);
/* Writes all lines to disk, before a checkpoint relies on them. Fails as
 * mf_step_file_put does. */
int mf_step_file_sync(mf_step_file *f);
int mf_step_file_close(mf_step_file *f); /* NULL is allowed */

/* ---- reading ---- */
typedef struct mf_step_damage {
    int lines;      /* number of lines that are not records; they are skipped */
    bool truncated; /* the last line has no newline; it is skipped and not counted in lines */
} mf_step_damage;
/* Receives one line. Sets *ret_damaged if the line is not a record. An error ends
 * the reading. */
typedef int (*mf_step_line)(void *arg, const mf_json *line, bool *ret_damaged);
/* Reads a file. MF_ENOTFOUND if it does not exist. Damaged lines are counted; they are not
 * an error. */
int mf_step_file_read(const char *path, mf_step_line each, void *arg, mf_step_damage *ret);

#endif
