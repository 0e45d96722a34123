/* data/corpus.h: a corpus: token ids, in memory or in mapped files, divided into splits.
 *
 * All tokens are in one array, with integers as small as the ids allow. A stream (text, bin,
 * builtin:topics) is one run of tokens; documents (jsonl) and examples (tsv) are spans of it. A
 * split is a range of tokens of a stream, or a range of spans. The beginning of the file is
 * train and the rest is val, unless val_path names a file.
 *
 *   text   the whole file is one stream.
 *   jsonl  one JSON object per line: member "text" (a string), and "label" if there are classes
 *          (a string or an integer; for numbers any number). Blank lines are skipped.
 *          Or a prompt and its answer: "prompt" (question, instruction, input) and "answer"
 *          (completion, response, output), with "input" and "context" after the prompt,
 *          "system" and "history" before it; or "messages" ("conversations"): a list of
 *          objects with "role" (system, user, assistant) and "content", and "weight" 0 for
 *          a message that is not learned. Only answers count in the loss (data/turns.h).
 *          Members that are not read are named once. Tool calls are refused.
 *   tsv    one example per line: sentence TAB label, or sentence TAB sentence TAB label. If the
 *          first line names its columns (sentence, sentence1, sentence_A, premise, text;
 *          sentence2, sentence_B, hypothesis; label, gold_label, entailment_judgment, class;
 *          for numbers relatedness_score, score, label; in any case), these columns are read
 *          and others ignored. Quotes are ordinary characters. Lines end in LF or CRLF; the
 *          last newline may be missing; a BOM is skipped. Empty lines, missing columns, an
 *          empty sentence or label, NUL and bad UTF-8 are errors with file:line. A line with
 *          the class "-" (no agreement, in NLI files) is skipped with a warning. A class that
 *          occurs in one line of many gives a warning, too. Columns may be given by name; the
 *          first line must then name these columns.
 *   bin    token ids: uint16 or uint32, little endian, raw, or with the header of llm.c
 *          (256 int32: 20240520, version 1, count: uint16; 20240801, version 7: uint32).
 *          bin_bits sets the size if there is no header.
 *          The tokenizer can only come from a file.
 *   auto   by the ending of the name: .jsonl, .tsv, .bin; else text (classify, regress: tsv).
 *
 * Labels of examples are classes, or for task regress numbers. Further columns (jsonl: members)
 * of labels may be read as well; "-" (jsonl: a missing member) means that there is no label.
 *
 * Labels of tokens say to which domain a text belongs: a member of jsonl objects, the folder of
 * a text file, or for token files a file with an id for each token. They are numbered like
 * classes. With domains in folders, data.split cuts each domain's text, and a split has the
 * domains one after another.
 *
 * Classes are the distinct labels of the training file, in order of value if all are integers,
 * else in order of bytes. A label that the training file does not contain is an error in the
 * other files. */
#ifndef MF_DATA_CORPUS_H
#define MF_DATA_CORPUS_H

#include "data/stream/id_parts.h"
#include "data/tokenizer/tokenizer.h"
#include "model/task.h"
#include "data/topics/topics.h"

typedef enum mf_split { MF_SPLIT_TRAIN, MF_SPLIT_VAL, MF_SPLIT_TEST, MF_SPLITS } mf_split;
const char *mf_split_name(mf_split s); /* Returns the name of the split, for example "train". */

/* A further column of labels: its name, its type, and its classes if they are known. */
typedef struct mf_corpus_question {
    const char *column;
    bool number;
    int32_t classes; /* greatest number of classes of the training file; 0: any number */
    /* NULL: the labels found in path; else the classes of an earlier run, in order */
    const char *const *class_names;
    int32_t n_class_names;
} mf_corpus_question;

enum { MF_LARGE_TEXT = 256 << 20, MF_NO_LABEL = 255 };

typedef struct mf_corpus_spec {
    const char *path;      /* a file, or builtin:topics[?...] */
    const char *val_path;  /* like path; NULL or "": val is the last part of path,
                            * see `split` */
    const char *test_path; /* like path; NULL or "": no test split */
    /* text, jsonl, tsv, bin; NULL, "" or "auto": by the name of the file */
    const char *format;
    /* kind of the tokenizer, or path of its file or folder; NULL or "": byte */
    const char *tokenizer;
    /* if set, this tokenizer is used (on resume: the run's own); not owned */
    const mf_tokenizer *given;
    bool clean; /* text files are simplified (data/clean.h) */
    /* "auto", "no", or a folder in which every text becomes a token file (data/stream/cache.h).
     * NULL: no. auto: a text becomes a token file if its files have MF_LARGE_TEXT bytes. */
    const char *cache;
    double split; /* 0 < split <= 1: share of path that is training data */
    /* if the task is not lm, a tokenizer that is trained here gets special tokens */
    mf_task task;
    int32_t bin_bits; /* 16 or 32; 0: the size in the header, or 16 without a header */
    int32_t classes;  /* greatest number of classes of the training file; 0: any number */
    int64_t limit;    /* number of documents of path to use; 0: all */
    /* draw the `limit` documents at random, always the same ones; else use the
     * first documents */
    bool pick_random;
    /* columns of a tsv (label_column: also the member of jsonl); NULL or "": the usual names */
    const char *first_column, *second_column, *label_column;
    /* NULL: the labels found in path; else the classes of an earlier run, in order */
    const char *const *class_names;
    int32_t n_class_names;
    /* names of jsonl members: a text, or a prompt and its answer, or messages; NULL or "": the
     * usual names */
    const char *text_field, *prompt_field, *answer_field, *messages_field;
    /* Labels of tokens. labels: name of a jsonl member, or "folder" for text files in
     * folders of a domain each; labels_path: file of label ids. NULL or "": none; at most
     * one may be given. */
    const char *labels, *labels_path;
    /* NULL: the names found in path; else those of an earlier run, in order */
    const char *const *label_names;
    int32_t n_label_names;
    /* The data are others than those of the run that has these labels: what has no label, or
     * one that is not in label_names, has label -1, with a warning */
    bool labels_optional;
    bool plain_chat; /* messages are joined without the tokenizer's template */
    bool count_all;  /* prompts count in the loss, as answers do */
    int n_more;      /* at most MF_TASKS_MAX */
    mf_corpus_question more[MF_TASKS_MAX];
} mf_corpus_spec;

/* A document or an example: tokens begin .. begin+n-1 of mf_corpus.ids. */
typedef struct mf_span {
    int64_t begin;
    int32_t n;
    int32_t first; /* number of tokens of the first sentence of a pair; n if there is
                    * one sentence */
    int32_t label; /* class; -1: none */
    float value;   /* number; NaN: none */
} mf_span;

/* The labels in a further column. */
typedef struct mf_corpus_answers {
    bool number;
    char **classes; /* [n_classes] names of the classes */
    int32_t n_classes;
    int32_t *label; /* [n_spans] class, -1: none; NULL if labels are numbers */
    float *value;   /* [n_spans] number, NaN: none; NULL if labels are classes */
    double mean;    /* mean of the numbers in the training split */
} mf_corpus_answers;

typedef struct mf_split_range {
    int64_t begin, end; /* range of tokens of a stream, or range of spans */
    int64_t tokens;
    uint64_t bytes; /* bytes of text of these tokens; 0: unknown */
    /* the generated text of the split, if the split is builtin:topics; else NULL */
    const mf_topics *topics;
    size_t text_begin; /* offset in the generated text at which the split begins, in bytes */
} mf_split_range;

typedef struct mf_corpus {
    const mf_tokenizer *tokenizer; /* NULL for format bin without a tokenizer */
    int32_t vocab;
    /* [tokens] ids of id_bytes each, read by mf_corpus_id. If each token is a byte of a
     * generated text, this is the text itself. NULL: the ids are in `stored` */
    void *ids;
    mf_id_parts stored;
    int32_t id_bytes; /* 1, 2 or 4 */
    int64_t tokens;
    /* [tokens] 0: the token is not a target, because it is in a prompt; NULL: all
     * tokens count */
    uint8_t *counted;
    uint8_t *labels;    /* [tokens] label of each token, MF_NO_LABEL: none; NULL: unknown */
    int32_t n_labels;   /* number of labels; 0: unknown */
    char **label_names; /* [n_labels] */
    bool given_labels;  /* the labels are those of the user's texts, not of builtin:topics */
    mf_span *spans;     /* NULL for a stream */
    int64_t n_spans;
    int32_t longest;   /* number of tokens of the longest span */
    char **classes;    /* [n_classes] names of the classes */
    int32_t n_classes; /* 0 if there are no classes */
    bool numbers;      /* the training split has numbers as labels */
    double mean;       /* mean of the numbers in the training split; 0 if there are none */
    int n_more;
    mf_corpus_answers more[MF_TASKS_MAX];
    bool pairs; /* examples have two sentences */
    mf_split_range split[MF_SPLITS];
    mf_tokenizer *own_tokenizer;
    mf_topics *own_topics[MF_SPLITS];
    char *file[MF_SPLITS]; /* path from which the split was read, for messages */
} mf_corpus;

static inline int32_t mf_corpus_id(const mf_corpus *c, int64_t i)
{
    if (!c->ids) return mf_id_parts_id(&c->stored, i);
    if (c->id_bytes == 1) return ((const uint8_t *)c->ids)[i];
    return c->id_bytes == 2 ? ((const uint16_t *)c->ids)[i] : ((const int32_t *)c->ids)[i];
}

/* Sets split to 0.9 and everything else to zero. The caller must set path. */
void mf_corpus_defaults(mf_corpus_spec *ret);
/* Loads a corpus, which the caller frees. Errors: MF_EINPUT with file:line or file and byte,
 * MF_ENOTFOUND for a missing file, MF_ECONFIG for an invalid field, MF_EIO, MF_ENOMEM. Without
 * val_path a split below 1 must leave at least one token, or one span, on each side. */
int mf_corpus_load(const mf_corpus_spec *spec, mf_corpus **ret);
void mf_corpus_free(mf_corpus *c);

/* Computes the floor of the first n tokens of a split (data/topics/topics.h), in nats per
 * token; n 0: of the whole split. *ret is NaN unless the split is builtin:topics with one
 * token per byte and has at least n tokens. window and context are those of the
 * batcher. MF_ENOMEM. */
int mf_corpus_floor(const mf_corpus *c, mf_split split, mf_topics_floor_kind kind, int64_t n,
                    int32_t window, int32_t context, double *ret);

#endif
