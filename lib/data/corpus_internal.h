/* data/corpus_internal.h: declarations shared by the files that load a corpus. */
#ifndef MF_DATA_CORPUS_INTERNAL_H
#define MF_DATA_CORPUS_INTERNAL_H

#include "data/corpus.h"
#include "data/source.h"
#include "data/tokenizer/chat.h"

enum { MF_SOURCES = 3 }; /* the training file, and the files of val_path and test_path */

/* The label of the tokens from the end of the range before it on. */
typedef struct mf_label_range {
    int64_t end;   /* number of tokens of the corpus up to the end of this range */
    int32_t label; /* index among the labels of its source */
    int32_t source;
} mf_label_range;

typedef struct mf_corpus_loader {
    const mf_corpus_spec *spec;
    mf_corpus *c;
    mf_source source[MF_SOURCES];
    mf_question more[MF_TASKS_MAX];
    mf_ids ids;
    char *cache;            /* the cache folder; "": none */
    mf_label_range *ranges; /* labels of text in folders, in the order of the tokens */
    int32_t n_ranges;
    mf_ids counted; /* 0 or 1 for each of `ids`; n 0: all count */
    mf_chat form;   /* form of the messages; set when a document has messages */
    bool has_form;
} mf_corpus_loader;

/* Fails with MF_EINPUT: data.split leaves none of the n items to one of two splits. */
int mf_corpus_empty_side(const mf_corpus_loader *l, const char *side, const char *what,
                         size_t n);
/* Sets the names of classes to the labels of the training file, sorted. More than `most` labels
 * (0: any number) are an error. */
int mf_corpus_name_classes(const mf_source *s, const mf_labels *labels, int32_t most,
                           char ***ret_classes, int32_t *ret_n);
/* Copies n names: of labels, or of `names` if that is not NULL. */
int mf_corpus_copy_names(const mf_label *labels, const char *const *names, int32_t n,
                         char ***ret_classes, int32_t *ret_n);
/* Cuts streams into splits, as tokens (corpus_streams.c). */
int mf_corpus_add_streams(mf_corpus_loader *l);
/* Sets the topic of each token if all splits are generated text. */
int mf_corpus_label_topics(mf_corpus_loader *l);

/* ---- labels of tokens of the user's texts (labels/corpus_labels.c) ---- */

/* Whether data.labels or data.labels_path is given. */
bool mf_corpus_labelled(const mf_corpus_spec *spec);
/* Whether the path is a folder of text files in a folder for each domain. */
bool mf_corpus_in_folders(const mf_corpus_spec *spec, const char *path);
/* Fails with MF_ECONFIG, which names the form that is expected, if files of this format cannot
 * have the requested labels. */
int mf_corpus_judge_labels(const mf_corpus_spec *spec, const char *path, mf_format format);
/* For optional labels: removes labels that the data cannot have, with a warning. */
void mf_corpus_drop_labels(mf_corpus_spec *spec);
/* Tokenizes the text of a source with domains, one domain after another. share: of each
 * domain's text, the part up to it is the split, and the rest is validation; 1: all of it. */
int mf_corpus_add_domains(mf_corpus_loader *l, int source, double share, mf_split split);
/* Sets labels and their names, after all tokens are known. Labels of other sources must occur
 * in the training source (MF_EINPUT). */
int mf_corpus_label_tokens(mf_corpus_loader *l);

#endif
