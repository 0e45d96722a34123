/* data/corpus_internal.h: declarations shared by the files that load a corpus. */
#ifndef MF_DATA_CORPUS_INTERNAL_H
#define MF_DATA_CORPUS_INTERNAL_H

#include "data/corpus.h"
#include "data/source.h"
#include "data/tokenizer/chat.h"

enum { MF_SOURCES = 3 }; /* the training file, and the files of val_path and test_path */

typedef struct mf_corpus_loader {
    const mf_corpus_spec *spec;
    mf_corpus *c;
    mf_source source[MF_SOURCES];
    mf_question more[MF_TASKS_MAX];
    mf_ids ids;
    char *cache;    /* the cache folder; "": none */
    mf_ids counted; /* 0 or 1 for each of `ids`; n 0: all count */
    mf_chat form;   /* form of the messages; set when a document has messages */
    bool has_form;
} mf_corpus_loader;

/* Fails with MF_EINPUT: data.split leaves none of the n items to one of two splits. */
int mf_corpus_empty_side(const mf_corpus_loader *l, const char *side, const char *what,
                         size_t n);
/* Cuts streams into splits, as tokens (corpus_streams.c). */
int mf_corpus_add_streams(mf_corpus_loader *l);
/* Sets the topic of each token if all splits are generated text. */
int mf_corpus_label_tokens(mf_corpus_loader *l);

#endif
