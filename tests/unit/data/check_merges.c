/* tokenizers with merges (bpe, bpe_bytes, wordpiece): small vocabularies computed by hand,
 * files, and the ids of BERT's vocabulary, compared with those of the
 * reference implementation. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"bpe", "bpe_bytes", "wordpiece"};
enum { KINDS = 3 };

static mf_tokenizer *train(const char *kind, const char *text, mf_tokenizer_options o)
{
    mf_tokenizer *t;
    int rc = mf_tokenizer_train(kind, "test", text, strlen(text), &o, &t);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return t;
}

static mf_tokenizer *parse(const char *text)
{
    mf_tokenizer *t;
    int rc = mf_tokenizer_parse("file", text, strlen(text), &t);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return t;
}

/* Returns the ids of a text as printed numbers. */
static const char *ids_of(const mf_tokenizer *t, const char *text)
{
    static char all[16384];
    mf_ids ids = {.want_start = true};
    size_t n = 0;
    int rc = mf_tokenizer_encode(t, "test", text, strlen(text), &ids);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    all[0] = 0;
    for (size_t i = 0; i < ids.n; i++) {
        ck_assert_uint_lt(ids.start[i], strlen(text));
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%d", i ? " " : "", (int)ids.id[i]);
    }
    mf_ids_free(&ids);
    return all;
}

static const char *text_of(const mf_tokenizer *t, const int32_t *ids, size_t n)
{
    static char all[1024];
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *piece = mf_tokenizer_piece(t, ids[i], &length);
        ck_assert_uint_le(length, t->longest);
        memcpy(all + at, piece, length);
        at += length;
    }
    all[at] = 0;
    return all;
}

/* "ab" occurs 4 times, "b" before the end of a word 3 times. So "ab" is merged first, then "ab"
 * with the end of a word. All other pairs occur once. */
START_TEST(characters)
{
    mf_tokenizer *t = train("bpe", "ab ab\nab abc", (mf_tokenizer_options){0});
    ck_assert_int_eq(t->vocab, 8); /* <pad> <unk> end a ab ab+end b c */
    ck_assert_int_eq(t->special[MF_SPECIAL_PAD], 0);
    ck_assert_int_eq(t->special[MF_SPECIAL_UNK], 1);
    ck_assert_int_eq(t->special[MF_SPECIAL_CLS], -1);
    ck_assert_str_eq(ids_of(t, "abc  ab\tax"), "4 7 2 5 3 1 2");
    ck_assert_str_eq(ids_of(t, "  "), "");
    static const int32_t ids[] = {0, 4, 7, 2, 5, 3, 1, 2};
    ck_assert_str_eq(text_of(t, ids, 8), "abc ab a ");
    mf_tokenizer_free(t);
    /* One merge, requested by the option `merges`, then by `vocab_size`. Special tokens that
     * bpe has only on request get the last ids. */
    t = train("bpe", "ab ab ab abc", (mf_tokenizer_options){.merges = 1});
    ck_assert_int_eq(t->vocab, 7);
    mf_tokenizer_free(t);
    uint32_t specials = MF_SPECIAL_BIT(MF_SPECIAL_PAD) | MF_SPECIAL_BIT(MF_SPECIAL_CLS);
    t = train("bpe", "ab ab ab abc",
              (mf_tokenizer_options){.vocab_size = 7, .specials = specials});
    ck_assert_int_eq(t->pieces, 7);
    ck_assert_int_eq(t->special[MF_SPECIAL_CLS], 7);
    ck_assert_int_eq(t->special[MF_SPECIAL_PAD], 0);
    mf_tokenizer_free(t);
}
END_TEST

/* Merges apply in the order a b, abc d, ab c, each once. So the "abc" that the last merge makes
 * is not joined with d. */
START_TEST(replayed_in_order)
{
    mf_tokenizer *t =
        parse("{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"bpe\",\"specials\":[],"
              "\"vocabulary\":[\"a\",\"ab\",\"abc\",\"abcd\",\"b\",\"bc\",\"c\",\"d\"],"
              "\"merges\":[[2,6],[4,9],[3,8]]}");
    ck_assert_str_eq(ids_of(t, "abcd"), "4 9 1");
    mf_tokenizer_free(t);
}
END_TEST

START_TEST(bytes)
{
    mf_tokenizer *t = train("bpe_bytes", "aaaa aaaa", (mf_tokenizer_options){0});
    ck_assert_int_eq(t->vocab, 258);
    ck_assert(t->lossless);
    ck_assert_str_eq(ids_of(t, "aaaaa a"), "257 97 32 97");
    ck_assert_str_eq(ids_of(t, "aaa\n\xFF"), "256 97 10 255");
    mf_tokenizer_free(t);
    /* Any text is restored by decoding. */
    static const char text[] =
        "It's 12 o'clock,  sir\n\n  \tna\xC3\xAFve \xF0\x9F\x98\x80\xFE!! "
        "It's 12 o'clock,  madam";
    t = train("bpe_bytes", text, (mf_tokenizer_options){0});
    ck_assert_int_gt(t->vocab, 258);
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "test", text, sizeof text - 1, &ids), MF_OK);
    ck_assert_uint_lt(ids.n, sizeof text - 1);
    ck_assert_str_eq(text_of(t, ids.id, ids.n), text);
    ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, ids.n), sizeof text - 1);
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
}
END_TEST

/* Counts of symbols: h 3, ##u 5, ##g 5, ##s 1, p 2, in total 16. Merging ##u ##g increases the
 * likelihood by 5 ln 3.2, which is the most. Then, of 11 symbols, h ##ug increases it by 3 ln
 * 2.2, and then, of 8 symbols, p ##ug by 2 ln 4. */
START_TEST(words_trained)
{
    mf_tokenizer *t =
        train("wordpiece", "hug Hug hugs p\xC3\xBCg pug", (mf_tokenizer_options){0});
    ck_assert_int_eq(t->vocab, 13);
    ck_assert_int_eq(t->special[MF_SPECIAL_MASK], 4);
    ck_assert_str_eq(ids_of(t, "Hugs pug mug"), "11 8 12 1");
    static const int32_t ids[] = {2, 11, 8, 12, 1, 3};
    ck_assert_str_eq(text_of(t, ids, 6), " hugs pug");
    mf_tokenizer_free(t);
}
END_TEST

START_TEST(words_from_a_list)
{
    mf_tokenizer *t =
        parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n,\nthe\n[\n");
    ck_assert_int_eq(t->vocab, 11);
    ck_assert_int_eq(t->special[MF_SPECIAL_SEP], 3);
    ck_assert_str_eq(ids_of(t, "UNAFFABLE,th\xC3\xA9 unaffx [SEP]"), "5 6 7 8 9 1 10 1 1");
    ck_assert_str_eq(ids_of(t, "t\x01he"), "9");
    static const int32_t ids[] = {2, 5, 6, 7, 8, 9};
    ck_assert_str_eq(text_of(t, ids, 6), " unaffable , the");
    mf_tokenizer_free(t);
    t = parse("[UNK]\r\nThe\r\nthe\r\n"); /* upper case is distinct */
    ck_assert_str_eq(ids_of(t, "The the THE"), "1 2 0");
    ck_assert_int_eq(t->special[MF_SPECIAL_PAD], -1);
    mf_tokenizer_free(t);
    /* words of 100 and of 101 letters */
    char text[512] = "", list[512] = "[UNK]\n##a\na";
    memset(text, 'a', 100);
    t = parse(list);
    ck_assert_uint_eq(strlen(ids_of(t, text)), 2 * 100 - 1);
    text[100] = 'a';
    ck_assert_str_eq(ids_of(t, text), "0");
    mf_tokenizer_free(t);
}
END_TEST

/* Letters are decomposed, and marks without a width of their own are removed. So Hangul becomes
 * jamo, Hebrew loses its points, and Devanagari loses the signs above letters, but keeps the
 * signs beside them. */
START_TEST(words_of_scripts)
{
    mf_tokenizer *t = parse("[UNK]\n\xE1\x84\x92\n##\xE1\x85\xA1\n##\xE1\x86\xAB\n"
                            "\xD7\xA9\n##\xD7\x9C\n\xE0\xA4\x95\n##\xE0\xA4\xBF\n<\n");
    ck_assert_str_eq(ids_of(t, "\xED\x95\x9C"), "1 2 3");
    ck_assert_str_eq(ids_of(t, "\xD7\xA9\xD7\x81\xD6\xB8\xD7\x9C"), "4 5");
    ck_assert_str_eq(ids_of(t, "\xE0\xA4\x95\xE0\xA4\xBF\xE0\xA5\x8D"), "6 7");
    ck_assert_str_eq(ids_of(t, "\xE2\x89\xAE"), "8"); /* the sign "not less" is a sign and
                                                       * a mark */
    mf_tokenizer_free(t);
}
END_TEST

START_TEST(files)
{
    static const char text[] = "ca\xC3\xA7"
                               "a \"caca\" \\ \xF0\x9F\x98\x80 caca, \xC3\xA7 ca 12 12";
    const char *path = scratch_path("merges.json");
    for (int i = 0; i < KINDS; i++) {
        mf_tokenizer *back,
            *t =
                train(kinds[i], text, (mf_tokenizer_options){.specials = 1u << MF_SPECIAL_BOS});
        ck_assert_int_eq(mf_tokenizer_save(t, path), MF_OK);
        ck_assert_msg(mf_tokenizer_load(path, &back) == MF_OK, "%s", mf_error_message());
        ck_assert_str_eq(back->ops->name, kinds[i]);
        ck_assert_int_eq(back->vocab, t->vocab);
        ck_assert_int_eq(memcmp(back->special, t->special, sizeof t->special), 0);
        char *ids = strdup(ids_of(t, text));
        ck_assert_str_eq(ids_of(back, text), ids);
        free(ids);
        mf_tokenizer_free(t);
        mf_tokenizer_free(back);
    }
}
END_TEST

START_TEST(bad_files)
{
#define HEAD "{\"format\":\"moefw-tokenizer\",\"version\":1,\"specials\":[],\"kind\":"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a\nb\n\n[UNK]\n", "line 3"},
        {"a\n[UNK]\na\n", "line 3 is there before, as line 1"},
        {"a\n[UNK]\n\xFF\n", "line 3"},
        {HEAD "\"wordpiece\"}", "lower"},
        {HEAD "\"wordpiece\",\"lower\":true}", "vocabulary"},
        {HEAD "\"wordpiece\",\"lower\":true,\"vocabulary\":[\"a\"]}", "[UNK]"},
        {HEAD "\"wordpiece\",\"lower\":true,\"vocabulary\":[\"a\",7]}", "entry 2"},
        {HEAD "\"bpe\"}", "merges"},
        {HEAD "\"bpe\",\"merges\":[]}", "vocabulary"},
        {HEAD "\"bpe\",\"merges\":[],\"vocabulary\":[\"b\",\"a\"]}", "entry 1"},
        {HEAD "\"bpe\",\"merges\":[],\"vocabulary\":[\"a\",\"a\"]}", "entry 1"},
        {HEAD "\"bpe\",\"merges\":[],\"vocabulary\":[\"b\",\"a\",\"b\"],\"ids\":[1,2,3]}",
         "\"vocabulary\": entry 2 is there before"},
        {HEAD "\"bpe\",\"merges\":[[2,3]],\"vocabulary\":[\"a\",\"b\"]}", "entry 0 makes"},
        {HEAD "\"bpe\",\"merges\":[[1,2]],\"vocabulary\":[\"a\",\"b\"]}", "from 2 to 3"},
        {HEAD "\"bpe_bytes\",\"merges\":[[0,256]]}", "from 0 to 255"},
        {HEAD "\"bpe_bytes\",\"merges\":[[0,1],[0,1]]}", "entry 1 is there before"},
        {HEAD "\"bpe_bytes\",\"merges\":[[0,0],[256,256],[257,257],[258,258],[259,259],"
              "[260,260],[261,261],[262,262],[263,263],[264,264],[265,265]]}",
         "too long"},
    };
#undef HEAD
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mf_tokenizer *t = (mf_tokenizer *)&t;
        int rc = mf_tokenizer_parse("file", cases[i].text, strlen(cases[i].text), &t);
        ck_assert_msg(rc == MF_EINPUT && !t, "case %zu: %d", i, rc);
        ck_assert_msg(strstr(mf_error_message(), cases[i].says) != NULL, "case %zu: %s", i,
                      mf_error_message());
    }
    /* Training refuses vocabularies that are too small and texts without words. */
    mf_tokenizer *t;
    mf_tokenizer_options small = {.vocab_size = 4};
    for (int i = 0; i < KINDS; i++) {
        ck_assert_int_eq(mf_tokenizer_train(kinds[i], "f", "ab cd", 5, &small, &t), MF_EINPUT);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "a vocabulary of 4"));
        if (i == 1) continue;
        ck_assert_int_eq(mf_tokenizer_train(kinds[i], "f", " \n", 2, NULL, &t), MF_EINPUT);
        ck_assert_int_eq(mf_tokenizer_train(kinds[i], "f", "a \xC3", 3, NULL, &t), MF_EINPUT);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "f: byte 2 (0xc3)"));
    }
}
END_TEST

/* The layout vocab_dict cannot express every vocabulary. Such a vocabulary is refused before a
 * file is made. */
START_TEST(no_form_in_vocab_dict)
{
#define HEAD "{\"format\":\"moefw-tokenizer\",\"version\":1,\"specials\":[],\"kind\":\"bpe\","
    static const struct {
        const char *text, *says;
    } cases[] = {
        {HEAD "\"merges\":[],\"vocabulary\":[\"\\u0000\",\"a\"]}",
         "a token holds the character NUL"},
        /* in this layout this text means the end of a word */
        {HEAD "\"merges\":[],\"vocabulary\":[\"</w>\",\"a\"]}",
         "id 2 would be read as another token"},
        /* in this layout this text is a special token */
        {HEAD "\"merges\":[],\"vocabulary\":[\"<sep>\",\"a\"]}",
         "id 2 would be read as another token"},
        /* a::b is read as the merge of a and :b, which comes first, instead of a: and b */
        {HEAD "\"merges\":[[2,7],[5,7]],"
              "\"vocabulary\":[\":\",\":b\",\"a\",\"a:\",\"a:b\",\"b\"]}",
         "merge 1 would be read as one of other tokens"},
    };
#undef HEAD
    const char *path = scratch_path("none.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mf_tokenizer *t = parse(cases[i].text);
        ck_assert_int_eq(mf_tokenizer_save_vocab_dict(t, path), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), "none.json: this vocabulary has no form") &&
                          strstr(mf_error_message(), cases[i].says),
                      "case %zu: %s", i, mf_error_message());
        ck_assert(!mf_exists(path));
        mf_tokenizer_free(t);
    }
    mf_tokenizer *t = train("bpe_bytes", "ab", (mf_tokenizer_options){0});
    ck_assert_int_eq(mf_tokenizer_save_vocab_dict(t, path), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "kind bpe_bytes has no form"));
    mf_tokenizer_free(t);
    const mf_tokenizer_options counts = {.keeps_counts = true};
    ck_assert_int_eq(mf_tokenizer_train("bpe_bytes", "f", "ab", 2, &counts, &t), MF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "of kind bpe, not bpe_bytes"));
}
END_TEST

/* Tokens of this layout have at most 1024 bytes: 2^10 letters are accepted, one more
 * is refused. */
START_TEST(long_tokens_of_vocab_dict)
{
    static char text[8192], letters[1100];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"vocab_dict\":{\"<unk>\":0,\"a\":1},\"merges\":{");
    memset(letters, 'a', sizeof letters - 1);
    for (int half = 1; half < 1024; half *= 2)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%.*s:%.*s\":\"%.*s\"",
                              half > 1 ? "," : "", half, letters, half, letters, 2 * half,
                              letters);
    snprintf(text + n, sizeof text - n, "}}");
    mf_tokenizer *t = parse(text);
    ck_assert_str_eq(ids_of(t, "a"), "1 0");
    mf_tokenizer_free(t);
    snprintf(text + n, sizeof text - n, ",\"%.*s:a\":\"%.*s\"}}", 1024, letters, 1025, letters);
    ck_assert_int_eq(mf_tokenizer_parse("file", text, strlen(text), &t), MF_EINPUT);
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "entry 10 makes a token of more than 1024 bytes"));
}
END_TEST

START_TEST(memory_fails)
{
    const char *path = scratch_path("oom.json");
    const mf_tokenizer_options listed = {.keeps_counts = true, .merges = 4};
    for (int i = 0; i <= KINDS; i++)
        for (long nth = 1;; nth++) {
            mf_tokenizer *t, *back = NULL;
            mf_ids ids = {.want_start = true};
            const bool theirs = i == KINDS;
            const char *kind = theirs ? "bpe" : kinds[i];
            fault_alloc(nth, FAULT_ONCE);
            int rc =
                mf_tokenizer_train(kind, "x", "abab abab abc", 13, theirs ? &listed : NULL, &t);
            if (rc == MF_OK)
                rc = (theirs ? mf_tokenizer_save_vocab_dict : mf_tokenizer_save)(t, path);
            if (rc == MF_OK) rc = mf_tokenizer_load(path, &back);
            if (rc == MF_OK) rc = mf_tokenizer_encode(back, "x", "abxa", 4, &ids);
            bool hit = fault_hit();
            ck_assert_msg(rc == (hit ? MF_ENOMEM : MF_OK), "%s, call %ld: %d %s", kind, nth, rc,
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

/* Each line of bert.txt with a sentence is followed by a line with the ids of the
 * reference tokenizer. */
START_TEST(bert)
{
    const char *shared = getenv("MOEFW_SHARED"), *srcdir = getenv("srcdir");
    char path[2048];
    size_t n;
    int count = 0;
    if (!shared) return;
    snprintf(path, sizeof path, "%s/tests/golden/wordpiece/bert.txt", srcdir ? srcdir : ".");
    char *golden = scratch_read(path, &n), *line = golden;
    ck_assert_ptr_nonnull(golden);
    snprintf(path, sizeof path, "%s/data/bert/vocab.txt", shared);
    mf_tokenizer *t;
    ck_assert_msg(mf_tokenizer_load(path, &t) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(t->vocab, 30522);
    ck_assert_int_eq(t->special[MF_SPECIAL_CLS], 101);
    while (line < golden + n) {
        char *ids = strchr(line, '\n') + 1, *end = strchr(ids, '\n');
        ids[-1] = *end = 0;
        ck_assert_msg(strcmp(ids_of(t, line), ids) == 0, "%s: %s, not %s", line,
                      ids_of(t, line), ids);
        line = end + 1;
        count++;
    }
    ck_assert_int_eq(count, 15);
    free(golden);
    mf_tokenizer_free(t);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("merges");
    TCase *t = tcase_create("merges");
    tcase_add_test(t, characters);
    tcase_add_test(t, replayed_in_order);
    tcase_add_test(t, bytes);
    tcase_add_test(t, words_trained);
    tcase_add_test(t, words_from_a_list);
    tcase_add_test(t, words_of_scripts);
    tcase_add_test(t, files);
    tcase_add_test(t, bad_files);
    tcase_add_test(t, no_form_in_vocab_dict);
    tcase_add_test(t, long_tokens_of_vocab_dict);
    tcase_add_test(t, memory_fails);
    tcase_add_test(t, bert);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
