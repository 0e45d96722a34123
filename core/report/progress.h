/* report/progress.h: what a person sees of long work while it runs.
 *
 * On a terminal: one live line, redrawn at most ten times a second: bar, step, loss, tokens/s,
 * time left; it makes way for log lines. Elsewhere: plain lines, about twenty over the whole
 * work. Quiet: nothing. All of it goes to one stream, stderr in the program.
 */
#ifndef MF_REPORT_PROGRESS_H
#define MF_REPORT_PROGRESS_H

#include "report/terminal.h"
#include <stdint.h>

typedef struct mf_progress mf_progress;

/* label: "train"; first: steps done before (resumed runs); total: 0 if not known. NULL when out
 * of memory; all functions take NULL and do nothing. One at a time can be live. */
mf_progress *mf_progress_new(const mf_terminal *t, const char *label, int64_t first,
                             int64_t total, bool quiet);
/* step steps are done. NaN for what is not known. */
void mf_progress_step(mf_progress *p, int64_t step, double loss, double tokens_per_s);
/* A line that stays: a validation. floor: NaN if not known; answers: more to say, "" for
 * nothing. */
void mf_progress_eval(mf_progress *p, int64_t step, double loss, double floor,
                      const char *answers);
/* Removes the live line. */
void mf_progress_end(mf_progress *p);

#endif
