/* data/source.h: the files of one part of a corpus, read and checked, before tokenization.
 *
 * Every format is converted to one text and the documents in it (none for a stream). Token
 * files are converted to ids. The sentences of a document are next to one another in
 * the text. */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "io/json.h"
#include "data/source_files.h"
#include "data/stream/id_parts.h"
#include "data/topics/topics.h"
#include "data/members/unread.h"
#include "model/task.h"

/* One value in a column of labels: a class or a number. */
typedef struct mf_prediction {
    int32_t label; /* index into the column's labels, -1: none */
    float value;   /* NaN: none */
} mf_prediction;

/* Author of a part of a document. The user writes a prompt; the assistant writes an answer. */
typedef enum mf_role {
    MF_ROLE_SYSTEM,
    MF_ROLE_USER,
    MF_ROLE_ASSISTANT,
    MF_ROLE_TOOL /* what a function returned */
} mf_role;
typedef struct mf_turn {
    mf_role role;
    size_t begin, n; /* range in mf_source.text; the newline after it is not part of it */
    bool ignored;    /* a text of the assistant that is not learned */
} mf_turn;

typedef struct mf_document {
    size_t begin;         /* offset in mf_source.text */
    size_t n;             /* number of bytes of both sentences */
    size_t n_first;       /* number of bytes of the first sentence; n if there is
                           * one sentence */
    mf_prediction answer; /* value in the label column */
    int64_t more;   /* index of mf_source.answers at which this document's values in further
                   * columns begin */
    int32_t domain; /* index into mf_source.domains, -1: none */
    int64_t line;
    int64_t turns;   /* index of mf_source.turns at which this document's parts begin */
    int32_t n_turns; /* 0: a plain text */
    bool messages;   /* whether the parts are a list of messages; else they are a prompt and
                      * its answer */
    /* Messages with functions: a template gets the line itself, n_own bytes of mf_source.own.
     * n_own 0: there are none. calls, tools: whether it calls functions, and lists them. */
    size_t own, n_own;
    bool calls, tools;
} mf_document;

typedef struct mf_label {
    char *name;
    int64_t line; /* line in which the label first occurs */
} mf_label;

enum { MF_LABELS_MAX = 4096 };

typedef struct mf_labels {
    mf_label *at; /* in order of first appearance */
    int32_t n, cap;
} mf_labels;

/* One more column of labels in a tsv file, or one more member of jsonl objects. */
typedef struct mf_question {
    const char *column;
    bool number; /* the values are numbers, not classes */
} mf_question;

/* Names of tsv columns; NULL or "": the usual names. */
typedef struct mf_columns {
    const char *first, *second, *label; /* second: "none" ignores the second sentence */
    bool number;                        /* labels are numbers, not classes */
    /* names of jsonl members; NULL or "": the usual names */
    const char *text, *prompt, *answer, *messages;
    /* jsonl: member of the text's domain; text: "folder" if the folder of each file is its
     * domain. NULL or "": none */
    const char *domain;
    bool domain_optional; /* an object need not have it */
    int n_more;           /* at most MF_TASKS_MAX */
    const mf_question *more;
} mf_columns;

typedef struct mf_source {
    const char *path;
    const char *cache; /* as in mf_source_options; the readers of token files use it */
    mf_columns columns;
    bool told; /* as in mf_source_options */
    char *text;
    size_t size;
    mf_topics *topics; /* owns the text if the source was generated; else NULL */
    mf_document *documents;
    int64_t n_documents, documents_cap;
    mf_turn *turns;
    int64_t n_turns, turns_cap;
    char *own; /* [own_size] lines of messages with functions */
    size_t own_size, own_cap;
    int64_t skipped; /* number of lines that were skipped because they are marked as
                      * not learned */
    mf_unread unread;
    mf_labels labels;
    mf_labels domains; /* labels of texts */
    size_t *
        domain_end; /* [n_domains] end of the text of each domain, for text in folders; domain i
                         * has the label i of `domains` */
    int32_t n_domains;
    mf_labels more[MF_TASKS_MAX]; /* labels of further columns */
    mf_prediction *answers;       /* [n_more] values for each document */
    int64_t n_answers, answers_cap;
    bool pairs;
    bool is_ids; /* the source is token files; the ids are in `tokens` */
    mf_id_parts tokens;
    /* The text is too large for memory. It is not in `text`, but is read in pieces from these
     * files, which have `size` bytes together. */
    bool large;
    mf_source_files files;
} mf_source;

typedef enum mf_format {
    MF_FORMAT_TEXT,
    MF_FORMAT_JSONL,
    MF_FORMAT_TSV,
    MF_FORMAT_BIN
} mf_format;

/* Finds the format by name. If name is NULL, "" or "auto", the ending of path decides (for a
 * folder or a pattern, the path of its first file is used). If the ending names no format, the
 * content of the file decides: JSON lines are recognised, and any other file is text.
 * MF_ECONFIG for an unknown name; errors of mf_source_files_of. */
int mf_format_of(const char *name, const char *path, mf_format *ret);

/* Options for reading files. */
typedef struct mf_source_options {
    int32_t bin_bits;  /* size of an id: 0 (unknown), 16 or 32 */
    uint64_t large;    /* text files with at least this many bytes together are only counted; 0:
                        * all files are read */
    const char *cache; /* the cache folder (data/stream/cache.h); "": none */
    const mf_columns *columns; /* may be NULL */
    bool told; /* the same file was loaded before, and what is to be said of it was said */
} mf_source_options;

/* Loads the file or files of a path (data/source_files.h), one after another. path must outlive
 * the source. If loading fails, the source is empty. */
int mf_source_load(mf_source *s, const char *path, mf_format format,
                   const mf_source_options *options);
void mf_source_free(mf_source *s);

/* The readers of single formats. They add to a source that has a path and columns. For jsonl
 * and tsv, the source must also have space for `size` bytes of text. */
int mf_source_read_jsonl(mf_source *s, const char *data, size_t size);
int mf_source_read_tsv(mf_source *s, const char *data, size_t size);
/* Reads the ids of the file s->path. The source owns the map afterwards, even if
 * reading fails. */
int mf_source_read_bin(mf_source *s, mf_map *map, int32_t bits);
/* Whether these bytes begin an index file of Megatron-LM. */
bool mf_source_is_megatron(const char *index, size_t size);
/* The same as mf_source_read_bin, for a file of ids with this Megatron-LM index. */
int mf_source_read_megatron(mf_source *s, mf_map *map, const char *index_path,
                            const mf_map *index);
/* Appends to the source's text, which has space for as many bytes as the file has. This is
 * enough, because no document is longer than its line. */
void mf_source_append(mf_source *s, const char *text, size_t n);
/* Adds a document. more: values of the n_more further columns. */
int mf_source_add_document(mf_source *s, const mf_document *d, const mf_prediction *more);
/* Reads an object that is a prompt with its answer, or a list of chat messages, into *d.
 * *ret_found: whether the object is one of these (source_turns.c). name: names the line in
 * error messages. line: its n bytes. */
int mf_source_read_turns(mf_source *s, const char *name, const char *line, size_t n,
                         const mf_json *object, mf_document *d, bool *ret_found);
/* Returns the member of an object that is a list of messages; NULL: there is none. */
const mf_json *mf_source_messages(const mf_columns *columns, const mf_json *object);
/* Sets *ret to the index of a label's name. A new name is added. MF_EINPUT if there are more
 * than MF_LABELS_MAX names, MF_ENOMEM. */
int mf_source_label(const mf_source *s, mf_labels *set, const char *name, size_t n,
                    int64_t line, int32_t *ret);

#endif
