/* corpora.h: writes data files in the scratch folder, and loads corpora that must be accepted
 * or refused. */
#ifndef MF_TESTS_CORPORA_H
#define MF_TESTS_CORPORA_H

#include "data/corpus.h"

/* Writes a file and returns its path. */
const char *text_file(const char *name, const char *text);
const char *bytes_file(const char *name, const void *data, size_t n);
mf_corpus_spec corpus_spec(const char *path, const char *format);
mf_corpus *corpus_load(const mf_corpus_spec *spec);
/* Checks that the corpus is refused with `code` and a message that contains `says`. */
void corpus_refuse(const mf_corpus_spec *spec, int code, const char *says);
/* A text of at least n bytes: words, blanks, digits and characters of more than one byte, drawn
 * with the seed. The caller frees it with mf_free. */
char *corpus_text(size_t n, uint64_t seed);
/* Checks that both corpora have the same tokens, splits and numbers of bytes. */
void corpus_same(const mf_corpus *a, const mf_corpus *b);

#endif
