/* data/data_config.h: the section [data]. */
#ifndef MF_DATA_DATA_CONFIG_H
#define MF_DATA_DATA_CONFIG_H

#include "config/section.h"

typedef struct mf_data_config {
    const char *path, *format, *tokenizer;
    double split;
    const char *val_path; /* "" : split of path */
    int64_t limit;        /* documents or examples of path that are used; 0: all */
    int64_t pick;         /* which: 0 the first, 1 drawn */
    const char *first_column, *second_column, *label_column; /* tsv; "": the usual names */
    int64_t padding;       /* examples: 0 to model.seq tokens, 1 as the batch needs */
    int64_t pad_mask;      /* 0: padding counts as tokens */
    int64_t clean;         /* text is made plain first (data/clean.h) */
    int64_t stride;        /* windows at every n-th token, once an epoch; 0: anywhere */
    int64_t split_windows; /* windows are dealt to train and val, which so overlap */
    int64_t bin_bits;      /* ids of token files: 0 as the file says, or 16; 1: 16; 2: 32 */
} mf_data_config;

extern const mf_section mf_data_section;
/* Rules between its keys. */
void mf_data_config_judge(mf_config_faults *j, const mf_data_config *d);

#endif
