/* tokenizer: every text is restored; vocabularies, special tokens, files. A decoder never
 * returns a part of a character. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <string.h>

static bool message_has(const char *part)
{
    return strstr(mf_error_message(), part) != NULL;
}

static mf_tokenizer *train(const char *kind, const char *text, uint32_t specials)
{
    mf_tokenizer *t;
    mf_tokenizer_options o = {.specials = specials};
    int rc = mf_tokenizer_train(kind, "test", text, strlen(text), &o, &t);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return t;
}

static int encode(const mf_tokenizer *t, const char *text, size_t n, mf_ids *ids)
{
    ids->n = 0;
    return mf_tokenizer_encode(t, "test", text, n, ids);
}

/* Returns the complete text that a decoder makes of these ids. The caller frees it
 * with free(). */
static char *decode(const mf_tokenizer *t, const int32_t *ids, size_t n)
{
    mf_decoder d;
    char *all = calloc(1, 12 * n + 16);
    size_t part, at = 0;
    ck_assert_int_eq(mf_decoder_open(&d, t), MF_OK);
    for (size_t i = 0; i <= n; i++) {
        const char *text =
            i < n ? mf_decoder_next(&d, ids[i], &part) : mf_decoder_end(&d, &part);
        ck_assert_uint_eq(mf_utf8_check(text, part), part);
        memcpy(all + at, text, part);
        at += part;
    }
    mf_decoder_close(&d);
    return all;
}

static const char *const texts[] = {
    "",
    "a",
    "plain text.\n",
    "h\xC3\xA9llo \xE2\x82\xAC \xF0\x9F\x98\x80 \xED\x9F\xBF\xEE\x80\x80",
    "\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF",
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

START_TEST(text_comes_back)
{
    for (int i = 0; i < TEXTS; i++)
        for (int kind = 0; kind < 2; kind++) {
            if (kind == 1 && *texts[i] == 0) continue;
            mf_tokenizer *t = train(kind ? "char" : "byte", texts[i], 0);
            mf_ids ids = {.want_start = true};
            ck_assert_int_eq(encode(t, texts[i], strlen(texts[i]), &ids), MF_OK);
            char *back = decode(t, ids.id, ids.n);
            ck_assert_str_eq(back, texts[i]);
            ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, ids.n), strlen(texts[i]));
            size_t at = 0;
            for (size_t j = 0; j < ids.n; j++) {
                size_t n;
                ck_assert_uint_eq(ids.start[j], at);
                ck_assert(ids.id[j] >= 0 && ids.id[j] < t->vocab);
                mf_tokenizer_piece(t, ids.id[j], &n);
                ck_assert_uint_le(n, t->longest);
                at += n;
            }
            free(back);
            mf_ids_free(&ids);
            mf_tokenizer_free(t);
        }
}
END_TEST

START_TEST(char_vocabulary)
{
    mf_tokenizer *t = train("char",
                            "ba\xE2\x82\xAC"
                            "ab\nA",
                            0);
    static const char *const pieces[] = {"\n", "A", "a", "b", "\xE2\x82\xAC"};
    mf_ids ids = {0};
    ck_assert_int_eq(t->pieces, 5);
    ck_assert_int_eq(t->vocab, 5);
    for (int i = 0; i < 5; i++) {
        size_t n;
        const char *piece = mf_tokenizer_piece(t, i, &n);
        ck_assert_uint_eq(n, strlen(pieces[i]));
        ck_assert_int_eq(memcmp(piece, pieces[i], n), 0);
        ck_assert_int_eq(encode(t, pieces[i], n, &ids), MF_OK);
        ck_assert(ids.n == 1 && ids.id[0] == i);
    }
    size_t n = 1;
    ck_assert_str_eq(mf_tokenizer_piece(t, 5, &n), "");
    ck_assert_uint_eq(n, 0);
    ck_assert_str_eq(mf_tokenizer_piece(t, -1, &n), "");
    ck_assert_int_eq(encode(t, "abz", 3, &ids), MF_EINPUT);
    ck_assert(message_has("byte 2") && message_has("U+007A") && message_has("5 characters"));
    ck_assert_int_eq(encode(t, "ab\xFFz", 4, &ids), MF_EINPUT);
    ck_assert(message_has("byte 2") && message_has("0xff") && message_has("UTF-8"));
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
    ck_assert_int_eq(mf_tokenizer_train("char", "file", "a\xC3", 2, NULL, &t), MF_EINPUT);
    ck_assert(message_has("file: byte 1"));
    ck_assert_ptr_null(t);
    ck_assert_int_eq(mf_tokenizer_train("char", "file", "", 0, NULL, &t), MF_EINPUT);
    ck_assert_int_eq(mf_tokenizer_train("chars", "file", "a", 1, NULL, &t), MF_ECONFIG);
    ck_assert(message_has("did you mean char?"));
}
END_TEST

START_TEST(special_tokens)
{
    mf_tokenizer *t = train("char", "abc",
                            MF_SPECIAL_BIT(MF_SPECIAL_SEP) | MF_SPECIAL_BIT(MF_SPECIAL_UNK) |
                                MF_SPECIAL_BIT(MF_SPECIAL_PAD));
    mf_ids ids = {0};
    ck_assert_int_eq(t->pieces, 3);
    ck_assert_int_eq(t->vocab, 6);
    ck_assert_int_eq(t->special[MF_SPECIAL_PAD], 3);
    ck_assert_int_eq(t->special[MF_SPECIAL_UNK], 4);
    ck_assert_int_eq(t->special[MF_SPECIAL_SEP], 5);
    ck_assert_int_eq(t->special[MF_SPECIAL_CLS], -1);
    ck_assert_str_eq(mf_tokenizer_special(t, 5), "<sep>");
    ck_assert_ptr_null(mf_tokenizer_special(t, 2));
    /* -1 is the id of a special token that does not exist */
    ck_assert_ptr_null(mf_tokenizer_special(t, -1));
    ck_assert_int_eq(encode(t, "axc", 3, &ids), MF_OK);
    ck_assert(ids.n == 3 && ids.id[0] == 0 && ids.id[1] == 4 && ids.id[2] == 2);
    char *text = decode(t, ids.id, 3);
    ck_assert_str_eq(text, "ac");
    free(text);
    ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, 3), 0); /* the number of bytes of <unk>
                                                             * is unknown */
    ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, 1), 1);
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
    ck_assert_str_eq(mf_special_name(MF_SPECIAL_MASK), "<mask>");
}
END_TEST

/* Bytes in any order. The output is valid UTF-8, and valid text is unchanged. */
START_TEST(decoding_bytes)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE2\x82x", "\xEF\xBF\xBD\xEF\xBF\xBDx"},
        {"\xFFok\x80", "\xEF\xBF\xBDok\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a surrogate */
        {"\xE2\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC3", "\xEF\xBF\xBD"},
    };
    mf_tokenizer *t = train("byte", "", 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mf_ids ids = {0};
        ck_assert_int_eq(encode(t, cases[i].bytes, strlen(cases[i].bytes), &ids), MF_OK);
        char *text = decode(t, ids.id, ids.n);
        ck_assert_msg(strcmp(text, cases[i].text) == 0, "case %zu: %s", i, text);
        free(text);
        mf_ids_free(&ids);
    }
    /* The decoder returns a character when it gets its last byte, and not earlier. */
    mf_decoder d;
    size_t n;
    ck_assert_int_eq(mf_decoder_open(&d, t), MF_OK);
    mf_decoder_next(&d, 0xF0, &n);
    ck_assert_uint_eq(n, 0);
    mf_decoder_next(&d, 0x9F, &n);
    mf_decoder_next(&d, 0x98, &n);
    ck_assert_uint_eq(n, 0);
    ck_assert_str_eq(mf_decoder_next(&d, 0x80, &n), "\xF0\x9F\x98\x80");
    ck_assert_uint_eq(n, 4);
    mf_decoder_next(&d, 0xC3, &n);
    ck_assert_str_eq(mf_decoder_next(&d, 'x', &n), "\xEF\xBF\xBDx");
    mf_decoder_next(&d, 0xC3, &n);
    ck_assert_str_eq(mf_decoder_end(&d, &n), "\xEF\xBF\xBD");
    mf_decoder_end(&d, &n);
    ck_assert_uint_eq(n, 0);
    mf_decoder_close(&d);
    mf_tokenizer_free(t);
}
END_TEST

/* All pairs of bytes from 0x80 on, followed by two continuation bytes. The output is always
 * valid UTF-8. */
START_TEST(decoding_all_pairs)
{
    mf_tokenizer *t = train("byte", "", 0);
    for (int32_t a = 128; a < 256; a++)
        for (int32_t b = 128; b < 256; b++) {
            int32_t ids[] = {a, b, 0x80, 0xBF, 'x', a};
            char *text = decode(t, ids, 6);
            ck_assert_ptr_nonnull(strchr(text, 'x'));
            free(text);
        }
    mf_tokenizer_free(t);
}
END_TEST

START_TEST(files)
{
    const char *path = scratch_path("tokenizer.json");
    static const char text[] = "caf\xC3\xA9 \"quoted\\\"\n\x01 \x7F \xF0\x9F\x98\x80";
    for (int kind = 0; kind < 2; kind++) {
        mf_tokenizer *t =
            train(kind ? "char" : "byte", text,
                  MF_SPECIAL_BIT(MF_SPECIAL_PAD) | MF_SPECIAL_BIT(MF_SPECIAL_MASK));
        mf_tokenizer *back;
        mf_ids a = {0}, b = {0};
        ck_assert_int_eq(mf_tokenizer_save(t, path), MF_OK);
        ck_assert_msg(mf_tokenizer_load(path, &back) == MF_OK, "%s", mf_error_message());
        ck_assert_str_eq(back->ops->name, t->ops->name);
        ck_assert_int_eq(back->vocab, t->vocab);
        ck_assert_int_eq(memcmp(back->special, t->special, sizeof t->special), 0);
        ck_assert_int_eq(encode(t, text, sizeof text - 1, &a), MF_OK);
        ck_assert_int_eq(encode(back, text, sizeof text - 1, &b), MF_OK);
        ck_assert_uint_eq(a.n, b.n);
        ck_assert_int_eq(memcmp(a.id, b.id, a.n * sizeof *a.id), 0);
        mf_ids_free(&a);
        mf_ids_free(&b);
        mf_tokenizer_free(t);
        mf_tokenizer_free(back);
    }
    /* NUL is a character too. */
    mf_tokenizer *t, *back;
    ck_assert_int_eq(mf_tokenizer_train("char", "nul", "a\0b", 3, NULL, &t), MF_OK);
    ck_assert_int_eq(t->vocab, 3);
    ck_assert_int_eq(mf_tokenizer_save(t, path), MF_OK);
    ck_assert_int_eq(mf_tokenizer_load(path, &back), MF_OK);
    ck_assert_int_eq(back->vocab, 3);
    mf_tokenizer_free(t);
    mf_tokenizer_free(back);
}
END_TEST

START_TEST(bad_files)
{
#define HEAD "{\"format\":\"moefw-tokenizer\",\"version\":1,"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "expected"},
        {"[]", "moefw-tokenizer"},
        {"{\"format\":\"other\"}", "moefw-tokenizer"},
        {"{\"format\":\"moefw-tokenizer\",\"version\":2}", "version"},
        {HEAD "\"specials\":[]}", "kind"},
        {HEAD "\"kind\":7,\"specials\":[]}", "kind"},
        {HEAD "\"kind\":\"chars\",\"specials\":[]}", "did you mean char?"},
        {HEAD "\"kind\":\"byte\"}", "specials"},
        {HEAD "\"kind\":\"byte\",\"specials\":[\"<pad>\",\"<pad>\"]}", "order"},
        {HEAD "\"kind\":\"byte\",\"specials\":[\"<unk>\",\"<pad>\"]}", "order"},
        {HEAD "\"kind\":\"byte\",\"specials\":[\"<what>\"]}", "entry 0"},
        {HEAD "\"kind\":\"byte\",\"specials\":[3]}", "entry 0"},
        {HEAD "\"kind\":\"char\",\"specials\":[]}", "vocabulary"},
        {HEAD "\"kind\":\"char\",\"specials\":[],\"vocabulary\":\"\"}", "no character"},
        {HEAD "\"kind\":\"char\",\"specials\":[],\"vocabulary\":\"ba\"}", "U+0061"},
        {HEAD "\"kind\":\"char\",\"specials\":[],\"vocabulary\":\"aab\"}", "U+0061"},
        {HEAD "\"kind\":\"char\",\"kind\":\"byte\",\"specials\":[]}", "kind"},
    };
#undef HEAD
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mf_tokenizer *t = (mf_tokenizer *)&t;
        int rc = mf_tokenizer_parse("f.json", cases[i].text, strlen(cases[i].text), &t);
        ck_assert_msg(rc == MF_EINPUT, "case %zu: %d", i, rc);
        ck_assert_ptr_null(t);
        ck_assert_msg(message_has("f.json") && (i == 0 || message_has(cases[i].says)),
                      "case %zu: %s", i, mf_error_message());
    }
    mf_tokenizer *t;
    ck_assert_int_eq(mf_tokenizer_load(scratch_path("none.json"), &t), MF_ENOTFOUND);
}
END_TEST

START_TEST(memory_fails)
{
    const char *path = scratch_path("oom.json");
    for (long nth = 1;; nth++) {
        mf_tokenizer *t, *back = NULL;
        mf_ids ids = {.want_start = true};
        fault_alloc(nth, FAULT_ONCE);
        int rc = mf_tokenizer_train("char", "x", "a\xC3\xA9z", 4, NULL, &t);
        if (rc == MF_OK) rc = mf_tokenizer_save(t, path);
        if (rc == MF_OK) rc = mf_tokenizer_load(path, &back);
        if (rc == MF_OK) rc = encode(back, "zza", 3, &ids);
        bool hit = fault_hit();
        ck_assert_msg(rc == (hit ? MF_ENOMEM : MF_OK), "call %ld: %d %s", nth, rc,
                      mf_error_message());
        mf_ids_free(&ids);
        mf_tokenizer_free(t);
        mf_tokenizer_free(back);
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        if (!hit) break;
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *t = tcase_create("tokenizer");
    tcase_add_test(t, text_comes_back);
    tcase_add_test(t, char_vocabulary);
    tcase_add_test(t, special_tokens);
    tcase_add_test(t, decoding_bytes);
    tcase_add_test(t, decoding_all_pairs);
    tcase_add_test(t, files);
    tcase_add_test(t, bad_files);
    tcase_add_test(t, memory_fails);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
