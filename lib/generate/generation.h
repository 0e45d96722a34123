/* generate/generation.h: generation_config.json of an imported model, or config.json
 * without it: how its texts are to be written unless the caller says otherwise. */
#ifndef MF_GENERATE_GENERATION_H
#define MF_GENERATE_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

enum { MF_GENERATION_ENDS = 16 };

/* Numbers below 0 are not given. */
typedef struct mf_generation {
    double temperature; /* 0 if do_sample is false */
    double top_p, repeat_penalty;
    int64_t top_k, tokens;
    bool given;                      /* there is such a file */
    int n_ends;                      /* 0: not given */
    int32_t end[MF_GENERATION_ENDS]; /* ids that end a text */
} mf_generation;

/* Reads the files in a folder (NULL: there is none). Files that are missing, or have none of
 * these keys, give nothing. MF_EINPUT with file and key if a value is of a wrong type or size;
 * MF_EIO, MF_ENOMEM. */
int mf_generation_read(const char *folder, mf_generation *ret);

#endif
