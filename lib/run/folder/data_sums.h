/* run/folder/data_sums.h: sums of the data of a run, by which a resumed run notices other data:
 * tokens, which of them count, labels and splits.
 *
 * Tokens in mapped files may be more than can be read when a run begins. Up to MF_SUMS_MAPPED
 * bytes of them are all read; of more, evenly spaced pieces stand for them, and the sizes and
 * times of change of the files say whether the rest may be other data. */
#ifndef MF_RUN_DATA_SUMS_H
#define MF_RUN_DATA_SUMS_H

#include "data/corpus.h"

enum { MF_SUMS_MAPPED = 1 << 30 };

typedef struct mf_data_sums {
    /* of at most 262,144 of the tokens in files: the only sum of earlier checkpoints */
    char pieces[33];
    char all[33];   /* does not depend on whether tokens are in memory, a cache or files */
    char files[33]; /* of sizes and times of change; "": `all` has all tokens */
} mf_data_sums;

void mf_data_sums_take(const mf_corpus *c, mf_data_sums *ret);

#endif
