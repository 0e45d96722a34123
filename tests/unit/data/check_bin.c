/* bin: files of token ids with and without headers, ids that are read with a wrong width, and
 * files of other programs that contain no ids. */
#include "check_main.h"

#include "base/error.h"
#include "data/corpus.h"
#include "tests/lib/corpora.h"
#include "tests/lib/scratch.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Ids that are read with a wrong width have a pattern that ids of texts do not have, such as
 * few distinct upper halves. They are refused. */
static void check_widths(mf_corpus_spec *s)
{
    enum { N = 400 };
    static uint32_t ids32[N];
    static uint64_t ids64[N];
    static uint16_t ids16[N], chars[N];
    for (uint32_t i = 0; i < N; i++) {
        ids32[i] = 65536 * (1 + i % 2) + 7919 * i % 65536;
        ids64[i] = 7919 * i % 50257;
        ids16[i] = (uint16_t)(7919 * i % 50257);
        chars[i] = (uint16_t)(7 * i % 63);
    }
    s->path = bytes_file("t.bin", ids32, sizeof ids32);
    corpus_refuse(s, MF_EINPUT,
                  "as the upper halves of ids of 32 bits are: expected data.bin_bits = 32");
    s->bin_bits = 32;
    mf_corpus *c = corpus_load(s);
    ck_assert_int_eq(c->tokens, N);
    mf_corpus_free(c);
    s->path = bytes_file("t.bin", ids64, sizeof ids64);
    corpus_refuse(s, MF_EINPUT, "as the upper halves of ids of 64 bits are");
    s->path = bytes_file("t.bin", chars, sizeof chars);
    corpus_refuse(s, MF_EINPUT, "as pairs of ids of 16 bits are: expected data.bin_bits = 16");
    s->bin_bits = 0;
    c = corpus_load(s);
    ck_assert_int_eq(c->tokens, N);
    mf_corpus_free(c);
    s->path = bytes_file("t.bin", ids16, sizeof ids16);
    c = corpus_load(s);
    ck_assert_int_eq(c->tokens, N);
    mf_corpus_free(c);
}

/* ---- drawn files ---- */

enum { MOST = 1 << 12 };
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* Draws an id like those of a text: small ids are frequent, as for merges and letters. */
static uint32_t draw_id(uint32_t vocab)
{
    const uint32_t most = 1 + draw(vocab), more = 1 + draw(most);
    return draw(2) ? draw(more) : draw(most);
}

/* Loads the bytes without data.bin_bits. says: NULL, or a part of the expected refusal. */
static void load_bytes(const void *bytes, size_t n, const char *says, const char *what)
{
    mf_corpus_spec s = corpus_spec(bytes_file("t.bin", bytes, n), NULL);
    mf_corpus *c = NULL;
    s.split = .5;
    const int rc = mf_corpus_load(&s, &c);
    if (says)
        ck_assert_msg(rc == MF_EINPUT && strstr(mf_error_message(), says), "%s, %zu bytes: %s",
                      what, n, rc == MF_OK ? "taken" : mf_error_message());
    else
        ck_assert_msg(rc == MF_OK, "%s, %zu bytes: %s", what, n, mf_error_message());
    mf_corpus_free(c);
}

/* Ids of 16 bits in many forms are accepted. */
START_TEST(good_files)
{
    static const uint32_t vocabs[] = {2, 5, 63, 256, 300, 5000, 50257, 65536};
    static uint16_t ids[MOST];
    state = 1;
    for (int i = 0; i < 4000; i++) {
        const uint32_t n = i % 4 ? 2 + draw(MOST - 2) : 2 + draw(70), v = vocabs[draw(8)],
                       kind = draw(7), one = draw(v), length = 1 + draw(200);
        for (uint32_t k = 0; k < n; k++) {
            const bool pad = length > 1 && k / length % 2 == 1;
            ids[k] = (uint16_t)draw_id(v);
            if (kind == 1) ids[k] = (uint16_t)one;
            if (kind == 2) ids[k] = draw(100) < 97 ? 0 : ids[k];
            if (kind == 3 && pad) ids[k] = (uint16_t)(v - 1);
            if (kind == 4 && pad) ids[k] = 0;
            if (kind == 5 && draw(5) == 0) ids[k] = 65535;
            if (kind == 6 && k > 0 && draw(3) > 0) ids[k] = ids[k - 1];
        }
        load_bytes(ids, 2 * (size_t)n, NULL, "good");
    }
    memset(ids, 0, sizeof ids);
    load_bytes(ids, sizeof ids, NULL, "zeros");
    memset(ids, 0xFF, sizeof ids);
    load_bytes(ids, sizeof ids, NULL, "ones");
    memset(ids, ' ', sizeof ids);
    load_bytes(ids, sizeof ids, NULL, "8224");
}
END_TEST

/* Values of 32 bits are not read as ids of 16 bits, even if some or many of them are -1 or 0.
 * Texts are not read as ids, either. */
START_TEST(bad_files)
{
    static const char wide[] = "every second id of 16 bits", first[] = ", from the first,",
                      real[] = "as the upper halves of f32 values are";
    static uint32_t ids[MOST + 1], turned[MOST];
    static float values[MOST];
    static char text[4 * MOST];
    state = 2;
    for (int i = 0; i < 3000; i++) {
        static const uint32_t vocabs[] = {300, 5000, 50257, 65536, 150000, 256000, 4000000};
        const bool small = i % 3 == 0;
        const uint32_t v = vocabs[draw(small ? 4 : 7)],
                       n = small ? 6 + draw(26) : 600 + draw(MOST - 600);
        const uint32_t kind = small ? 0 : draw(4), at = draw(n);
        ids[0] = 0;
        for (uint32_t k = 1; k <= n; k++) {
            ids[k] = 1 + draw(v - 1);
            if (kind == 1 && draw(2)) ids[k] = UINT32_MAX; /* -1 */
            if (kind == 2 && draw(10)) ids[k] = 0;
        }
        if (kind == 3) ids[1 + at] = draw(2) ? UINT32_MAX : UINT32_MAX - 99;
        for (uint32_t k = 0; k < n; k++) {
            turned[k] = __builtin_bswap32(ids[1 + k]);
            values[k] = draw(2) ? (float)ids[1 + k] : (float)draw(1000) / 999.f - .5f;
        }
        load_bytes(ids + 1, 4 * (size_t)n, wide, "uint32");
        if (small) continue;
        load_bytes(turned, 4 * (size_t)n, first, "big-endian");
        load_bytes((const char *)ids + 2, 4 * (size_t)n + 2, first, "2 bytes before");
        load_bytes(ids + 1, 4 * (size_t)n - 2, wide, "2 bytes less");
        if (kind == 0 || kind == 3) load_bytes(values, 4 * (size_t)n, real, "f32");
        for (uint32_t k = 0; k < n; k++)
            values[k] = (float)ids[1 + k];
        if (kind == 0 && v < 65536) load_bytes(values, 4 * (size_t)n, real, "whole f32");
        for (uint32_t k = 0; k < n; k++)
            text[k] = draw(9) ? (char)(' ' + draw(95)) : '\n';
        load_bytes(text, n & ~1u, "a text, not ids: expected data.format = text", "text");
    }
    static const char umlauts[] = "Grüße aus München, schöne Straße.";
    load_bytes(umlauts, (sizeof umlauts - 1) & ~1u, "a text, not ids", "UTF-8");
}
END_TEST

/* Files without ids are recognized by the headers of their programs. */
START_TEST(bin_of_other_programs)
{
    static const struct {
        const char *begin, *says;
    } other[] = {
        {"\x93NUMPY\x01", "an array of numpy (.npy), which is not read"},
        {"\211HDF\r\n\032\n", "an HDF5 file"},
        {"ARROW1", "an Arrow file"},
        {"GGUF", "a GGUF file"},
        {"PK\x03\x04", "compressed by zip"},
        {"\x1f\x8b\x08", "compressed by gzip"},
        {"PAR1", "a Parquet file"},
        {"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"},
    };
    static char bytes[4096];
    mf_corpus_spec s = corpus_spec("", NULL);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        memset(bytes, 1, sizeof bytes);
        memcpy(bytes, other[i].begin, strlen(other[i].begin));
        s.path = bytes_file("t.bin", bytes, sizeof bytes);
        corpus_refuse(&s, MF_EINPUT, other[i].says);
    }
    /* llm.c's model, its optimizer state, its tokenizer and its evaluation questions */
    static const int32_t dates[] = {20240326, 20240527, 20240328, 20240522};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        const int32_t begin[2] = {dates[i], 3};
        memset(bytes, 1, sizeof bytes);
        memcpy(bytes, begin, sizeof begin);
        s.path = bytes_file("t.bin", bytes, sizeof bytes);
        corpus_refuse(&s, MF_EINPUT, "a file of llm.c of another kind");
    }
    s.bin_bits = 16; /* with data.bin_bits, valid ids may begin with the same bytes */
    mf_corpus *c = corpus_load(&s);
    mf_corpus_free(c);
}
END_TEST

START_TEST(bin)
{
    static const uint16_t ids16[] = {5, 0, 65535, 7, 1, 2, 3, 4, 8, 9};
    static const uint32_t ids32[] = {5, 70000, 1, 2};
    mf_corpus_spec s = corpus_spec(bytes_file("t.bin", ids16, sizeof ids16), NULL);
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 10);
    ck_assert_int_eq(mf_corpus_id(c, 2), 65535);
    ck_assert_int_eq(c->vocab, 65536);
    ck_assert_ptr_null(c->tokenizer);
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].tokens, 1);
    ck_assert_uint_eq(c->split[MF_SPLIT_VAL].bytes, 0);
    mf_corpus_free(c);

    s.path = bytes_file("t.bin", ids32, sizeof ids32);
    s.bin_bits = 32;
    c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 4);
    ck_assert_int_eq(mf_corpus_id(c, 1), 70000);
    mf_corpus_free(c);
    s.path = bytes_file("t.bin", ids32, 6);
    corpus_refuse(&s, MF_EINPUT, "6 bytes are no whole number of 32-bit ids");
    static const uint32_t huge[] = {1, 0xFFFFFFFFu};
    s.path = bytes_file("t.bin", huge, sizeof huge);
    corpus_refuse(&s, MF_EINPUT, "token 1 is 4294967295");

    /* The headers of llm.c. */
    static int32_t header[256 + 2] = {20240520, 1, 4};
    memcpy(header + 256, ids16, 8);
    s.bin_bits = 0;
    s.split = 0.5;
    s.path = bytes_file("t.bin", header, 1024 + 8);
    c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 4);
    ck_assert_int_eq(mf_corpus_id(c, 3), 7);
    mf_corpus_free(c);
    s.path = bytes_file("t.bin", header, 1024 + 6);
    corpus_refuse(&s, MF_EINPUT, "the header says 4 tokens");
    header[1] = 3;
    s.path = bytes_file("t.bin", header, 1024 + 8);
    corpus_refuse(&s, MF_EINPUT, "version 3");

    static int32_t wide[256 + 3] = {20240801, 7, 3};
    memcpy(wide + 256, ids32, 12);
    s.path = bytes_file("t.bin", wide, sizeof wide);
    c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 3);
    ck_assert_int_eq(mf_corpus_id(c, 1), 70000);
    mf_corpus_free(c);
    s.bin_bits = 16;
    corpus_refuse(&s, MF_EINPUT, "the header says ids of 32 bits, data.bin_bits 16");
    wide[1] = 1;
    s.path = bytes_file("t.bin", wide, sizeof wide);
    corpus_refuse(&s, MF_EINPUT, "version 1: expected 7 (uint32 ids)");

    /* 32-bit ids that are read as 16-bit ids are reported if the width was not given. */
    static uint32_t small[40];
    for (uint32_t i = 0; i < 40; i++)
        small[i] = i;
    s.path = bytes_file("t.bin", small, sizeof small);
    s.bin_bits = 0;
    corpus_refuse(&s, MF_EINPUT, "every second id of 16 bits is 0 or small");
    s.bin_bits = 16;
    c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 80);
    mf_corpus_free(c);
    s.bin_bits = 0;
    check_widths(&s);

    /* Ids outside the tokenizer's vocabulary are refused. */
    mf_tokenizer *t;
    ck_assert_int_eq(mf_tokenizer_train("char", "x", "abcdef", 6, NULL, &t), MF_OK);
    s.given = t;
    s.path = bytes_file("t.bin", ids16, sizeof ids16);
    corpus_refuse(&s, MF_EINPUT, "token 2 is 65535, but the tokenizer knows 6 ids");
    mf_tokenizer_free(t);

    /* The ids can also be read from standard input. */
    const int was = dup(STDIN_FILENO), from = open(s.path, O_RDONLY);
    ck_assert(was >= 0 && from >= 0 && dup2(from, STDIN_FILENO) == STDIN_FILENO);
    s = corpus_spec("-", "bin");
    c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 10);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(mf_corpus_id(c, i), ids16[i]);
    mf_corpus_free(c);
    dup2(was, STDIN_FILENO);
    close(was);
    close(from);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("bin");
    TCase *t = tcase_create("bin");
    tcase_add_test(t, bin);
    tcase_add_test(t, good_files);
    tcase_add_test(t, bad_files);
    tcase_add_test(t, bin_of_other_programs);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
