/* corpora.c: as corpora.h says. */
#include "tests/lib/corpora.h"

#include <check.h>
#include <string.h>

#include "base/error.h"
#include "tests/lib/scratch.h"

const char *bytes_file(const char *name, const void *data, size_t n)
{
    const char *path = scratch_path(name);
    scratch_write(path, data, n);
    return path;
}

const char *text_file(const char *name, const char *text)
{
    return bytes_file(name, text, strlen(text));
}

mf_corpus_spec corpus_spec(const char *path, const char *format)
{
    mf_corpus_spec s;
    mf_corpus_defaults(&s);
    s.path = path;
    s.format = format;
    return s;
}

mf_corpus *corpus_load(const mf_corpus_spec *spec)
{
    mf_corpus *c;
    ck_assert_msg(mf_corpus_load(spec, &c) == MF_OK, "%s", mf_error_message());
    return c;
}

void corpus_refuse(const mf_corpus_spec *spec, int code, const char *says)
{
    mf_corpus *c = (mf_corpus *)&c;
    const int got = mf_corpus_load(spec, &c);
    ck_assert_msg(got == code, "%s: %d %s", spec->path, got, mf_error_message());
    ck_assert_ptr_null(c);
    ck_assert_msg(strstr(mf_error_message(), says) != NULL, "expected \"%s\" in: %s", says,
                  mf_error_message());
}
