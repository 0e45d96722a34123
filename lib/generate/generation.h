/* generate/generation.h: reads generation_config.json of an imported model, or config.json if
 * the former is missing. They say how the model's texts are generated unless the caller
 * says otherwise. */
#ifndef MF_GENERATE_GENERATION_H
#define MF_GENERATE_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#define MF_GENERATION_FILE "generation_config.json"
enum { MF_GENERATION_ENDS = 16 };

/* A number below 0 means that the files do not set this value. */
typedef struct mf_generation {
    double temperature; /* 0 if do_sample is false */
    double top_p, repeat_penalty;
    int64_t top_k, tokens;
    bool given;                      /* the file exists */
    int n_ends;                      /* 0: not given */
    int32_t end[MF_GENERATION_ENDS]; /* ids that end a text */
} mf_generation;

/* Reads the files in a folder (NULL: there is none). Files that are missing, or that contain
 * none of these keys, set nothing. MF_EINPUT with file and key if a value has a wrong type or
 * size; MF_EIO, MF_ENOMEM. */
int mf_generation_read(const char *folder, mf_generation *ret);

#endif
