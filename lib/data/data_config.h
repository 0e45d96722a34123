/* data/data_config.h: the section [data]. */
#ifndef MF_DATA_DATA_CONFIG_H
#define MF_DATA_DATA_CONFIG_H

#include "config/section.h"

/* data.path of a run that was imported without a tokenizer, so that no text is its data. */
#define MF_DATA_NONE "none"

typedef struct mf_data_config {
    const char *path, *format, *tokenizer;
    double split;
    const char *val_path; /* "": val is the end of path */
    int64_t limit;        /* documents or examples of path that are used; 0: all */
    int64_t pick;         /* which documents `limit` takes: 0: the first, 1: drawn */
    const char *first_column, *second_column, *label_column; /* tsv; "": the usual names */
    const char *text_field, *prompt_field, *answer_field, *messages_field; /* jsonl */
    int64_t loss; /* where there are prompts: 0: answers count, 1: all tokens */
    int64_t chat; /* 0: messages in the form of the tokenizer, 1: plain */
    /* examples are padded: 0 to model.seq tokens, 1 to the longest of the batch */
    int64_t padding;
    int64_t pad_mask; /* 0: padding counts as tokens */
    int64_t clean;    /* text is simplified (data/clean.h) */
    int64_t stride;   /* windows begin at every n-th token, each once per epoch; 0: anywhere */
    int64_t shuffle;  /* of a stream: 0: windows anywhere, 1: each window once an epoch */
    int64_t packing;  /* several documents in one sequence */
    int64_t document_end;  /* the id that ends a document of a stream; -1: <eos> */
    const char *cache;     /* auto, no or a folder (data/stream/cache.h) */
    int64_t split_windows; /* windows are distributed to train and val, and overlap */
    /* bits of ids in token files: 0: those that the file names, else 16; 1: 16; 2: 32 */
    int64_t bin_bits;
} mf_data_config;

extern const mf_section mf_data_section;
/* Records in *j the values that break a rule which the table of keys cannot express, such as a
 * rule between two keys. */
void mf_data_config_judge(mf_config_faults *j, const mf_data_config *d);

#endif
