/* data/data_config.h: the section [data]. */
#ifndef MF_DATA_DATA_CONFIG_H
#define MF_DATA_DATA_CONFIG_H

#include "config/section.h"

/* Value of data.path for a run that was imported without a tokenizer, so that it cannot
 * read text. */
#define MF_DATA_NONE "none"

typedef struct mf_data_config {
    const char *path, *format, *tokenizer;
    double split;
    const char *val_path; /* "": val is the last part of path */
    int64_t limit;        /* number of documents or examples of path that are used; 0: all */
    /* 0: the first `limit` documents are used, 1: random ones */
    int64_t pick;
    /* names of tsv columns; "": the usual names */
    const char *first_column, *second_column, *label_column;
    /* names of jsonl members; "": the usual names */
    const char *text_field, *prompt_field, *answer_field, *messages_field;
    /* labels of tokens: name of a jsonl member, or "folder"; a file of label ids; "": none */
    const char *labels, *labels_path;
    int64_t loss; /* for data with prompts; 0: only answers count, 1: all tokens count */
    int64_t chat; /* 0: messages use the tokenizer's template, 1: plain */
    /* examples are padded: 0 to model.seq tokens, 1 to the longest of the batch */
    int64_t padding;
    int64_t pad_mask; /* 0: padding counts as tokens */
    int64_t clean;    /* text is simplified (data/clean.h) */
    int64_t stride;   /* windows begin at every n-th token, and each occurs once per epoch; 0:
                       * windows begin anywhere */
    int64_t shuffle;  /* for a stream; 0: windows begin anywhere, 1: each window occurs once
                       * per epoch */
    int64_t packing;  /* several documents in one sequence */
    int64_t document_end;  /* the id that ends a document of a stream; -1: <eos> */
    const char *cache;     /* auto, no or a folder (data/stream/cache.h) */
    int64_t split_windows; /* windows are distributed to train and val, and overlap */
    /* size of ids in token files; 0: the size in the file's header, else 16; 1: 16; 2: 32 */
    int64_t bin_bits;
} mf_data_config;

extern const mf_section mf_data_section;
/* Records in *j the values that break a rule which the table of keys cannot express, such as a
 * rule between two keys. */
void mf_data_config_judge(mf_config_faults *j, const mf_data_config *d);

#endif
