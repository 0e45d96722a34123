/* data/source.h: one file of a corpus, read and judged, before there are tokens.
 *
 * What all formats become: one text, and the documents in it (none for a stream); or ids, for
 * token files. A document's sentences lie next to one another in the text.
 */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "data/topics.h"
#include "model/config.h"

/* What stands in a column of labels: a class, or a number. */
typedef struct mf_answer {
    int32_t label; /* index into the column's labels, -1 without */
    float value;   /* NaN without */
} mf_answer;

typedef struct mf_document {
    size_t begin;     /* in mf_source.text */
    size_t n;         /* bytes, both sentences */
    size_t n_first;   /* bytes of the first sentence; n without a second one */
    mf_answer answer; /* of the label's column */
    int64_t more;     /* its answers to further questions: mf_source.answers + more */
    int64_t line;
} mf_document;

typedef struct mf_label {
    char *name;
    int64_t line; /* where it first stands */
} mf_label;

enum { MF_LABELS_MAX = 4096 };

typedef struct mf_labels {
    mf_label *at; /* in order of appearance */
    int32_t n, cap;
} mf_labels;

/* One more column of labels, of a tsv, or member of jsonl. */
typedef struct mf_question {
    const char *column;
    bool number; /* not classes */
} mf_question;

/* Columns of a tsv by name; NULL or "": by the usual names. */
typedef struct mf_columns {
    const char *first, *second, *label; /* second: "none" leaves a second sentence out */
    bool number;                        /* labels are numbers, not classes */
    int n_more;                         /* at most MF_TASKS_MAX */
    const mf_question *more;
} mf_columns;

typedef struct mf_source {
    const char *path;
    mf_columns columns;
    char *text;
    size_t size;
    mf_topics *topics; /* then text is its own; NULL otherwise */
    mf_document *documents;
    int64_t n_documents, documents_cap;
    mf_labels labels;
    mf_labels more[MF_TASKS_MAX]; /* of further columns */
    mf_answer *answers;           /* [n_more] of each document that was read */
    int64_t n_answers, answers_cap;
    bool pairs;
    int32_t *ids; /* token files */
    int64_t n_ids;
} mf_source;

typedef enum mf_format {
    MF_FORMAT_TEXT,
    MF_FORMAT_JSONL,
    MF_FORMAT_TSV,
    MF_FORMAT_BIN
} mf_format;

/* By name, or by the ending of path when name is NULL, "" or "auto". MF_ECONFIG. */
int mf_format_of(const char *name, const char *path, mf_format *ret);

/* path must outlive the source. bin_bits: 0, 16, 32. columns may be NULL. A source that failed
 * to load is empty. */
int mf_source_load(mf_source *s, const char *path, mf_format format, int32_t bin_bits,
                   const mf_columns *columns);
void mf_source_free(mf_source *s);

/* For the readers of single formats, which fill a source with path set. */
int mf_source_read_jsonl(mf_source *s, const char *data, size_t size);
int mf_source_read_tsv(mf_source *s, const char *data, size_t size);
int mf_source_read_bin(mf_source *s, const char *data, size_t size, int32_t bits);
/* To text, which has room for the bytes of the file: no document is longer than its line. */
void mf_source_append(mf_source *s, const char *text, size_t n);
/* more: [columns.n_more] */
int mf_source_add_document(mf_source *s, const mf_document *d, const mf_answer *more);
/* Index of a label's name, added if it is new. */
int mf_source_label(const mf_source *s, mf_labels *set, const char *name, size_t n,
                    int64_t line, int32_t *ret);

#endif
