/* corpora.h: files of data in the scratch folder, and corpora that must load or be refused. */
#ifndef MF_TESTS_CORPORA_H
#define MF_TESTS_CORPORA_H

#include "data/corpus.h"

/* Writes a file and returns its path. */
const char *text_file(const char *name, const char *text);
const char *bytes_file(const char *name, const void *data, size_t n);
mf_corpus_spec corpus_spec(const char *path, const char *format);
mf_corpus *corpus_load(const mf_corpus_spec *spec);
/* The corpus is refused with `code` and a message that contains `says`. */
void corpus_refuse(const mf_corpus_spec *spec, int code, const char *says);

#endif
