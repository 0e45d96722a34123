/* data/source.h: one file of a corpus, read and judged, before there are tokens.
 *
 * What all formats become: one text, and the documents in it (none for a stream); or ids, for
 * token files. A document's sentences lie next to one another in the text.
 */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "data/topics.h"

typedef struct mf_document {
    size_t begin;   /* in mf_source.text */
    size_t n;       /* bytes, both sentences */
    size_t n_first; /* bytes of the first sentence; n without a second one */
    int32_t label;  /* index into mf_source.labels, -1 without */
    int64_t line;
} mf_document;

typedef struct mf_label {
    char *name;
    int64_t line; /* where it first stands */
} mf_label;

enum { MF_LABELS_MAX = 4096 };

/* Columns of a tsv by name; NULL or "": by the usual names. */
typedef struct mf_columns {
    const char *first, *second, *label; /* second: "none" leaves a second sentence out */
} mf_columns;

typedef struct mf_source {
    const char *path;
    mf_columns columns;
    char *text;
    size_t size;
    mf_topics *topics; /* then text is its own; NULL otherwise */
    mf_document *documents;
    int64_t n_documents, documents_cap;
    mf_label *labels; /* in order of appearance */
    int32_t n_labels, labels_cap;
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

/* path must outlive the source. bin_bits: 0, 16, 32. columns may be NULL. A source that failed to
 * load is empty. */
int mf_source_load(mf_source *s, const char *path, mf_format format, int32_t bin_bits,
                   const mf_columns *columns);
void mf_source_free(mf_source *s);

/* For the readers of single formats, which fill a source with path set. */
int mf_source_read_jsonl(mf_source *s, const char *data, size_t size);
int mf_source_read_tsv(mf_source *s, const char *data, size_t size);
int mf_source_read_bin(mf_source *s, const char *data, size_t size, int32_t bits);
/* To text, which has room for the bytes of the file: no document is longer than its line. */
void mf_source_append(mf_source *s, const char *text, size_t n);
int mf_source_add_document(mf_source *s, const mf_document *d);
/* Index of a label's name, added if it is new. */
int mf_source_label(mf_source *s, const char *name, size_t n, int64_t line, int32_t *ret);

#endif
