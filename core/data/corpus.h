/* data/corpus.h: a corpus: token ids in memory, cut into splits.
 *
 * All tokens lie in one array, as narrow as the vocabulary allows. A stream (text, bin,
 * builtin:topics) is one run of tokens; documents (jsonl) and examples (tsv) are spans of it. A
 * split is a range of tokens of a stream, or a range of spans: the head of the file is train
 * and the rest val, unless val_path names a file of its own.
 *
 *   text   the whole file is one stream.
 *   jsonl  one JSON object a line: member "text" (a string), and "label" (a string or a whole
 *          number, of numbers any number) where there are classes. An empty line is an error.
 *   tsv    one example a line: sentence TAB label, or sentence TAB sentence TAB label. If the
 *          first line names its columns (sentence, sentence1, sentence_A; sentence2,
 *          sentence_B; label, gold_label, entailment_judgment; of numbers relatedness_score,
 *          score, label) these are taken and others left. Quotes are ordinary characters. LF or
 *          CRLF; a missing last newline is fine; a BOM is skipped. Empty lines, missing
 *          columns, an empty sentence or label, NUL and bad UTF-8 are errors with file:line.
 *          The label "-" (no agreement, in NLI files) leaves the line out, with a warning; a
 *          label that only one line of many has gets one, too. Columns may be named: then the
 *          first line must have them.
 *   bin    token ids: uint16 or uint32, little endian, raw, or with the header of llm.c
 *          (256 int32: 20240520, version 1, count: uint16; 20240801, version 7: uint32).
 *          bin_bits says which if there is none.
 *          No tokenizer but from a file.
 *   auto   by the name's ending: .jsonl, .tsv, .bin; else text, for task classify tsv.
 *
 * Labels are classes, or for task regress numbers; further columns (members) of labels may be
 * read beside them, of which "-" (jsonl: an absent member) is none.
 *
 * Classes: the distinct labels of the training file, in order of value if all are whole
 * numbers, else in order of bytes. A label that the training file lacks is an error in the
 * other files.
 */
#ifndef MF_DATA_CORPUS_H
#define MF_DATA_CORPUS_H

#include "data/tokenizer.h"
#include "model/config.h"
#include "data/topics.h"

typedef enum mf_split { MF_SPLIT_TRAIN, MF_SPLIT_VAL, MF_SPLIT_TEST, MF_SPLITS } mf_split;
const char *mf_split_name(mf_split s); /* "train" */

/* A further column of labels: what it holds, and of classes what they are, if that is known. */
typedef struct mf_corpus_question {
    const char *column;
    bool number;
    int32_t classes; /* most that the training file may have; 0: any number */
    /* NULL: the labels of path; else those of a run, in order */
    const char *const *class_names;
    int32_t n_class_names;
} mf_corpus_question;

typedef struct mf_corpus_spec {
    const char *path;          /* file or builtin:topics[?...] */
    const char *val_path;      /* the same; NULL or "": the end of path, by split */
    const char *test_path;     /* NULL or "": no test split */
    const char *format;        /* NULL, "" or "auto"; text, jsonl, tsv, bin */
    const char *tokenizer;     /* NULL or "": byte; a kind or a tokenizer file */
    const mf_tokenizer *given; /* not NULL: this one, not owned (a run's own, on resume) */
    bool clean;                /* text files are made plain first (data/clean.h) */
    double split;              /* 0 < split <= 1: share of path that is training data */
    mf_task task;              /* other than lm: a tokenizer made here gets special tokens */
    int32_t bin_bits;          /* 16 or 32; 0: 16 */
    int32_t classes;           /* most that the training file may have; 0: any number */
    int64_t limit;             /* documents of path that are used; 0: all */
    bool pick_random;          /* which: not the first, but drawn; the same ones always */
    const char *first_column, *second_column, *label_column; /* tsv; NULL or "": usual names */
    const char *const *class_names; /* NULL: labels of path; else a run's, in order */
    int32_t n_class_names;
    int n_more; /* at most MF_TASKS_MAX */
    mf_corpus_question more[MF_TASKS_MAX];
} mf_corpus_spec;

/* A document or an example: tokens begin .. begin+n-1 of mf_corpus.ids. */
typedef struct mf_span {
    int64_t begin;
    int32_t n;
    int32_t first; /* tokens of the first sentence of a pair; n without a second one */
    int32_t label; /* class; -1 without */
    float value;   /* number; NaN without */
} mf_span;

/* The labels of a further column. */
typedef struct mf_corpus_answers {
    bool number;
    char **classes; /* [n_classes] their names */
    int32_t n_classes;
    int32_t *label; /* [n_spans] class, -1: none; NULL of numbers */
    float *value;   /* [n_spans] NaN: none; NULL of classes */
    double mean;    /* of the training split's numbers */
} mf_corpus_answers;

typedef struct mf_split_range {
    int64_t begin, end; /* tokens of a stream, or spans */
    int64_t tokens;
    uint64_t bytes;          /* of text that these tokens stand for; 0: unknown */
    const mf_topics *topics; /* builtin:topics that the split is from, else NULL */
    size_t text_begin;       /* byte of that text at which the split begins */
} mf_split_range;

typedef struct mf_corpus {
    const mf_tokenizer *tokenizer; /* NULL for bin without one */
    int32_t vocab;
    void *ids;        /* [tokens] of id_bytes each: mf_corpus_id reads them. Of a generated text
                       * that is cut into bytes: the text itself */
    int32_t id_bytes; /* 1, 2 or 4: as few as the vocabulary needs */
    int64_t tokens;
    uint8_t *labels;  /* [tokens] topic of each token, then the text's own; NULL: not known */
    int32_t n_labels; /* number of topics, 0 without */
    mf_span *spans;   /* NULL for a stream */
    int64_t n_spans;
    int32_t longest;   /* tokens of the longest span */
    char **classes;    /* names of the classes of spans */
    int32_t n_classes; /* 0 without */
    bool numbers;      /* spans have numbers */
    double mean;       /* of those of the training split; 0 without */
    int n_more;
    mf_corpus_answers more[MF_TASKS_MAX];
    bool pairs; /* examples have two sentences */
    mf_split_range split[MF_SPLITS];
    mf_tokenizer *own_tokenizer;
    mf_topics *own_topics[MF_SPLITS];
} mf_corpus;

static inline int32_t mf_corpus_id(const mf_corpus *c, int64_t i)
{
    if (c->id_bytes == 1) return ((const uint8_t *)c->ids)[i];
    return c->id_bytes == 2 ? ((const uint16_t *)c->ids)[i] : ((const int32_t *)c->ids)[i];
}

void mf_corpus_defaults(mf_corpus_spec *ret); /* split 0.9, the rest zero: path must be set */
/* Errors: MF_EINPUT with file:line or file and byte; MF_ECONFIG for a bad key. Without val_path
 * a split below 1 must leave at least one token, or span, on each side. */
int mf_corpus_load(const mf_corpus_spec *spec, mf_corpus **ret);
void mf_corpus_free(mf_corpus *c);

/* The floor of a split (data/topics.h), in nats per token; NaN unless the split is
 * builtin:topics with a token a byte. window and context are those of the batcher. */
double mf_corpus_floor(const mf_corpus *c, mf_split split, mf_topics_floor_kind kind,
                       int32_t window, int32_t context);

#endif
