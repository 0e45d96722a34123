/* data/corpus.h: a corpus: token ids in memory, cut into splits.
 *
 * All tokens lie in one array. A stream (text, bin, builtin:topics) is one run of tokens;
 * documents (jsonl) and examples (tsv) are spans of it. A split is a range of tokens of a
 * stream, or a range of spans; train comes first, val behind it, contiguous, unless val_path
 * names a file of its own.
 *
 *   text   the whole file is one stream.
 *   jsonl  one JSON object a line, member "text" (a string). An empty line is an error.
 *   tsv    one example a line: sentence TAB label, or sentence TAB sentence TAB label. If the
 *          first line names its columns (sentence, sentence1, sentence_A; sentence2,
 *          sentence_B; label, gold_label, entailment_judgment) these are taken and others
 *          left. Quotes are ordinary characters. LF or CRLF; a missing last newline is fine; a
 *          BOM is skipped. Empty lines, missing columns, an empty sentence or label, NUL and
 *          bad UTF-8 are errors with file:line. Labels that are the integers 0..n-1 are taken
 *          as they are, others are numbered in sorted order.
 *   bin    token ids: uint16 or uint32, little endian, raw, or with the header of llm.c
 *          (256 int32: 20240520, version 1, count). bin_bits says which if there is none.
 *   auto   by the name's ending: .jsonl, .tsv, .bin, else text.
 */
#ifndef MF_DATA_CORPUS_H
#define MF_DATA_CORPUS_H

#include "data/tokenizer.h"
#include "model/config.h"
#include "data/topics.h"

typedef enum mf_split { MF_SPLIT_TRAIN, MF_SPLIT_VAL, MF_SPLIT_TEST, MF_SPLITS } mf_split;
const char *mf_split_name(mf_split s); /* "train" */

typedef struct mf_corpus_spec {
    const char *path;          /* file or builtin:topics[?...] */
    const char *val_path;      /* NULL or "": the end of path, by split */
    const char *test_path;     /* NULL or "": no test split */
    const char *format;        /* NULL, "" or "auto"; text, jsonl, tsv, bin */
    const char *tokenizer;     /* NULL or "": byte; byte, char, or a tokenizer file */
    const mf_tokenizer *given; /* not NULL: this one, not owned (a run's own, on resume) */
    double split;              /* 0 < split <= 1: share of path that is training data */
    mf_task task;
    int32_t bin_bits;   /* 16 or 32; 0: 16 */
    int32_t max_tokens; /* documents and examples are cut to so many; 0: no bound */
} mf_corpus_spec;

/* A document or an example: tokens begin .. begin+n-1 of mf_corpus.ids. */
typedef struct mf_span {
    int64_t begin;
    int32_t n;
    int32_t second; /* tokens before the second sentence of a pair begins; n without one */
    int32_t label;  /* class; -1 without */
} mf_span;

typedef struct mf_split_range {
    int64_t begin, end; /* tokens of a stream, or spans */
    int64_t tokens;
    uint64_t bytes; /* of text that these tokens stand for; 0: unknown */
} mf_split_range;

typedef struct mf_corpus {
    char *path;
    mf_tokenizer *tokenizer; /* NULL for bin without one */
    bool owns_tokenizer;
    int32_t vocab;
    int32_t *ids; /* [tokens] */
    int64_t tokens;
    uint8_t *labels;  /* [tokens] topic of each token; NULL when not known */
    int32_t n_labels; /* distinct labels, 0 without */
    mf_span *spans;   /* NULL for a stream */
    int64_t n_spans;
    int32_t longest;   /* tokens of the longest span */
    char **classes;    /* names of the classes of spans */
    int32_t n_classes; /* 0 without */
    bool pairs;        /* examples have two sentences */
    mf_split_range split[MF_SPLITS];
    mf_topics *topics; /* of builtin:topics, else NULL: for the floor */
} mf_corpus;

void mf_corpus_defaults(mf_corpus_spec *ret);
/* Errors: MF_EINPUT with file:line or file: byte offset; MF_ECONFIG for a bad key. A split that
 * is asked for and comes out empty is an error too. */
int mf_corpus_load(const mf_corpus_spec *spec, mf_corpus **ret);
void mf_corpus_free(mf_corpus *c);
/* The floor of a split (see data/topics.h), in nats per token; NaN unless the corpus is
 * builtin:topics with one token a byte. */
double mf_corpus_floor(const mf_corpus *c, mf_split split, mf_topics_floor_kind kind,
                       int32_t window, int32_t context);

#endif
