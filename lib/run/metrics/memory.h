/* run/metrics/memory.h: memory.jsonl, the memory of the process at each validation of a run.
 *
 * Each line is one object with step and peak_rss_mib, the largest resident memory of the
 * process so far. After a resume this is the memory of the new process. These values are not in
 * metrics.jsonl, because they differ between runs of the same configuration. */
#ifndef MF_RUN_MEMORY_H
#define MF_RUN_MEMORY_H

#include "run/metrics/step_file.h"

/* Writes a line; writes nothing if the system does not report how much memory the
 * process uses. */
int mf_memory_put(mf_step_file *f, int64_t step);

typedef struct mf_memory_past {
    int n;
    double *step, *peak_mib; /* [n], in the order of the file */
    mf_step_damage damage;
} mf_memory_past; /* {0} is empty */
/* Reads memory.jsonl. A missing file is read as empty, because older runs do not have it. The
 * caller frees the contents of ret with mf_memory_free, even after an error. */
int mf_memory_read(const char *path, mf_memory_past *ret);
void mf_memory_free(mf_memory_past *m);

#endif
