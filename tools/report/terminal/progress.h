/* report/terminal/progress.h: shows the progress of long work.
 *
 * Plain lines with the loss, about twenty over the whole work, stay as a history. On a terminal
 * there is also one live line, which is redrawn at most ten times a second. It shows bar, step,
 * loss, validation loss, tokens/s, use of the device, and time left. It is erased before other
 * lines are written. Without a terminal, there is at least one plain line a minute while steps
 * end. If `quiet` is set (mf_progress_new), nothing is written. All output goes to the stream
 * of the mf_terminal, which is stderr in the program. */
#ifndef MF_REPORT_PROGRESS_H
#define MF_REPORT_PROGRESS_H

#include "report/terminal/terminal.h"
#include <stdint.h>

typedef struct mf_progress mf_progress;

/* Begins to show progress. label: for example "train"; first: number of steps done before, for
 * resumed runs; total: number of steps, 0 if not known. Returns NULL if memory runs out; the
 * other functions accept NULL and then do nothing. Only one progress may be live at a time.
 * Free with mf_progress_end. */
mf_progress *mf_progress_new(const mf_terminal *t, const char *label, int64_t first,
                             int64_t total, bool quiet);
/* Reports that `step` steps are done. loss, tokens_per_s: NaN if not known. */
void mf_progress_step(mf_progress *p, int64_t step, double loss, double tokens_per_s);
/* Sets the text about the device in the line, such as "MFU 31.2 %, 4.2 of 79.6 GiB". The text
 * is copied. */
void mf_progress_device(mf_progress *p, const char *text);
/* Writes a permanent line about a validation, unless quiet. floor: NaN if not known. scores:
 * further text, may be "". */
void mf_progress_eval(mf_progress *p, int64_t step, double loss, double floor,
                      const char *scores);
/* Reports that `done` of `total` batches of a validation are evaluated. The live line shows it;
 * without a terminal, a line each minute. */
void mf_progress_batch(mf_progress *p, int64_t done, int64_t total);
/* Sets the duration of the validation after the last step. It is included in the time left. */
void mf_progress_last(mf_progress *p, double seconds);
/* Erases the live line before other output; the next step draws it again. */
void mf_progress_clear(mf_progress *p);
/* Erases the live line and frees p. */
void mf_progress_end(mf_progress *p);

#endif
