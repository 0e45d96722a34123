/* corpora.c: files and corpora for tests. A call with an unexpected result fails the test, with
 * the message of the library. */
#include "tests/lib/corpora.h"

#include <check.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
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

char *corpus_text(size_t n, uint64_t seed)
{
    static const char *const words[] = {"the ",
                                        "a",
                                        " of\n",
                                        "\n\n",
                                        "12",
                                        "moving",
                                        "  ",
                                        "it's ",
                                        "!? ",
                                        "\n",
                                        "\xC3\xA9t\xC3\xA9",
                                        "\t",
                                        "Long",
                                        "x\ny",
                                        "7\n8",
                                        "\xE2\x82\xAC "};
    char *text = mf_alloc(n + 16, 1);
    ck_assert_ptr_nonnull(text);
    for (size_t at = 0, i = 0; at < n; i++) {
        const char *w = words[mf_rng_below(seed, 1, 0, i, sizeof words / sizeof *words)];
        memcpy(text + at, w, strlen(w));
        at += strlen(w);
    }
    return text;
}

void corpus_same(const mf_corpus *a, const mf_corpus *b)
{
    ck_assert_int_eq(a->tokens, b->tokens);
    ck_assert_int_eq(a->vocab, b->vocab);
    for (int s = 0; s < MF_SPLITS; s++) {
        ck_assert_int_eq(a->split[s].begin, b->split[s].begin);
        ck_assert_int_eq(a->split[s].end, b->split[s].end);
        ck_assert_uint_eq(a->split[s].bytes, b->split[s].bytes);
    }
    for (int64_t i = 0; i < a->tokens; i++)
        if (mf_corpus_id(a, i) != mf_corpus_id(b, i))
            ck_abort_msg("token %lld: %d, %d", (long long)i, mf_corpus_id(a, i),
                         mf_corpus_id(b, i));
}
