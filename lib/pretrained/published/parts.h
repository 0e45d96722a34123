/* pretrained/published/parts.h: the parts of which the published form of a run consists. */
#ifndef MF_PRETRAINED_PUBLISHED_PARTS_H
#define MF_PRETRAINED_PUBLISHED_PARTS_H

#include "pretrained/published/judge.h"
#include "pretrained/published/published.h"

/* A family that runs may be written as. */
typedef struct mf_published_form {
    const mf_family *family;
    const char *class; /* name of the class in transformers, for "architectures" */
    bool shared;       /* the class always has a shared expert */
} mf_published_form;
/* The forms in the order in which they are tried; family NULL: end of the list. */
extern const mf_published_form mf_published_forms[];

/* Writes the text of a config.json in the form of a family. Options that the form cannot
 * express are skipped. The caller frees *ret with mf_free. Errors of loading
 * plugins; MF_ENOMEM. */
int mf_published_config(const mf_session *s, const mf_published_form *form, char **ret);
/* Writes the ids of the tokens that begin, end and fill texts as members of the open object.
 * absent: a token that the tokenizer lacks is null; otherwise its member is skipped. t may be
 * NULL. */
void mf_published_put_specials(mf_jw *w, const mf_tokenizer *t, bool absent);
/* Fills tensors, shards and ledger of the record, whose family and keys are set. MF_EINPUT: a
 * parameter has no tensor in this form. */
int mf_published_ledger(const mf_session *s, mf_record *record);
/* Adds a file to the record. The text is copied. MF_ENOMEM. */
int mf_published_add(mf_record *record, const char *name, const char *text, size_t n);
/* Adds the files of a tokenizer: tokenizer.json and tokenizer_config.json, or the files from
 * which it was read. MF_EINPUT: its kind or its vocabulary has no published form. */
int mf_published_tokenizer(const mf_tokenizer *t, int64_t seq, mf_record *record);

#endif
