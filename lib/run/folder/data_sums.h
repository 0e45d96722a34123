/* run/folder/data_sums.h: sums of the data of a run, by which a resumed run detects other data:
 * tokens, which of them count, labels and splits.
 *
 * Tokens in mapped files may be too many to read all of them when a run begins. If they have at
 * most MF_SUMS_MAPPED bytes, all are read. Otherwise only evenly spaced pieces are read, and
 * the sizes and times of change of the files show whether the rest may have changed. */
#ifndef MF_RUN_DATA_SUMS_H
#define MF_RUN_DATA_SUMS_H

#include "data/corpus.h"

enum { MF_SUMS_MAPPED = 1 << 30 };

typedef struct mf_data_sums {
    /* sum of at most 262,144 of the tokens; earlier checkpoints have only this sum */
    char pieces[33];
    char all[33];   /* sum of all tokens; it does not depend on whether tokens are in memory, a
                     * cache or files */
    char files[33]; /* sum of sizes and times of change; "": `all` contains all tokens */
} mf_data_sums;

void mf_data_sums_take(const mf_corpus *c, mf_data_sums *ret);

#endif
