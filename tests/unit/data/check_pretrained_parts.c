/* the parts of published tokenizers, in files that are written here: flags of added tokens,
 * normalization, splitters, merges, decoders and templates, and files that are refused. The
 * expected ids of a text follow from the meaning of the members in tokenizer.json. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/lib/decode.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mf_tokenizer *parse(const char *text)
{
    mf_tokenizer *t;
    ck_assert_msg(mf_tokenizer_parse("file", text, strlen(text), &t) == MF_OK, "%s",
                  mf_error_message());
    return t;
}

#define MODEL                                                                                  \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,"      \
    "\" \":3,\"ab\":4,\"X\":5,\"\xE2\x96\x81\":6,\"\xE2\x96\x81"                               \
    "a\":7},"                                                                                  \
    "\"merges\":[[\"a\",\"b\"],[\"\xE2\x96\x81\",\"a\"]]}"

static const char *ids_of(const mf_tokenizer *t, const char *text)
{
    static char all[1024];
    mf_ids ids = {0};
    size_t n = 0;
    ck_assert_int_eq(mf_tokenizer_encode(t, "x", text, strlen(text), &ids), MF_OK);
    all[0] = 0;
    for (size_t i = 0; i < ids.n; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%d", i ? " " : "", (int)ids.id[i]);
    mf_ids_free(&ids);
    return all;
}

/* Flags of added tokens: lstrip and rstrip remove the blanks beside a token, single_word
 * requires characters other than letters beside it, and normalized tokens are searched in the
 * normalized text. The longest token wins. */
START_TEST(added_tokens)
{
    static const struct {
        const char *flags, *text, *ids;
    } table[] = {
        {"", "aXb", "1 5 2"},
        {"", "a X b", "1 3 5 3 2"},
        {"\"lstrip\":true", "a  X b", "1 5 3 2"},
        {"\"rstrip\":true", "a X  b", "1 3 5 2"},
        {"\"rstrip\":true,\"lstrip\":true", "  X  X ab", "5 5 4"},
        {"\"single_word\":true", "aX X,X", "1 5 3 5 0 5"},
        {"\"single_word\":true", "X_ X", "5 0 3 5"},
    };
    char file[2048];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        snprintf(file, sizeof file,
                 "{" MODEL ",\"added_tokens\":[{\"id\":5,\"content\":\"X\"%s%s}]}",
                 table[i].flags[0] ? "," : "", table[i].flags);
        mf_tokenizer *t = parse(file);
        ck_assert_str_eq(ids_of(t, table[i].text), table[i].ids);
        mf_tokenizer_free(t);
    }
    mf_tokenizer *t =
        parse("{" MODEL ",\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":["
              "{\"id\":8,\"content\":\"Cc\"},{\"id\":9,\"content\":\"ccc\"},"
              "{\"id\":10,\"content\":\"Cc\xC3\x89\",\"normalized\":false}]}");
    ck_assert_str_eq(ids_of(t, "aCCcb"), "1 9 2");
    ck_assert_str_eq(ids_of(t, "CC Cc"), "8 3 8");
    ck_assert_str_eq(ids_of(t, "Cc\xC3\x89"
                               "a"),
                     "10 1");
    ck_assert_str_eq(ids_of(t, "cc\xC3\xA9"), "8 0");
    mf_tokenizer_free(t);
}
END_TEST

/* Blanks become U+2581. prepend_scheme: one is added before the text always, only before the
 * first word, or never. split: whether U+2581 begins a word. */
START_TEST(bars)
{
    static const struct {
        const char *members, *text, *ids;
    } table[] = {
        {"\"prepend_scheme\":\"always\",\"split\":true", "ab aXa", "6 4 7 5 7"},
        {"\"prepend_scheme\":\"first\",\"split\":false", "ab aXa", "6 4 7 5 1"},
        {"\"prepend_scheme\":\"never\",\"split\":true", "ab aXa", "4 7 5 1"},
        {"\"prepend_scheme\":\"first\"", " a", "7"},
    };
    char file[2048];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        snprintf(file, sizeof file,
                 "{" MODEL
                 ",\"added_tokens\":[{\"id\":5,\"content\":\"X\"}],\"pre_tokenizer\":{"
                 "\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",%s}}",
                 table[i].members);
        mf_tokenizer *t = parse(file);
        ck_assert_str_eq(ids_of(t, table[i].text), table[i].ids);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* The text that a step of the normalizer replaces may contain NUL, and is used with its
 * full length. */
START_TEST(nul_in_a_step)
{
    mf_tokenizer *t = parse("{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{"
                            "\"String\":\"b\\u0000b\"},\"content\":\"a\"}}");
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "test", "b\0b", 3, &ids), MF_OK);
    ck_assert_uint_eq(ids.n, 1);
    ck_assert_int_eq(ids.id[0], 1);
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
}
END_TEST

/* A byte-level tokenizer. names: further entries of its vocabulary after the 256 bytes. model,
 * members: further members of the object "model" and of the file. */
static mf_tokenizer *of_more_bytes(const char *names, const char *model, const char *members)
{
    static char file[8192];
    int other = 256;
    size_t n = (size_t)snprintf(file, sizeof file, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        const bool itself = (b > 32 && b < 127) || (b > 160 && b != 173);
        const unsigned c = (unsigned)(itself ? b : other++);
        n +=
            (size_t)snprintf(file + n, sizeof file - n, "%s\"\\u%04x\":%d", b ? "," : "", c, b);
    }
    snprintf(file + n, sizeof file - n,
             "%s},%s\"merges\":[]},\"decoder\":{\"type\":\"ByteLevel\"},%s}", names, model,
             members);
    return parse(file);
}

static mf_tokenizer *of_bytes(const char *members)
{
    return of_more_bytes("", "", members);
}

/* A tokenizer counts as lossless only if it restores each text. */
START_TEST(lossless)
{
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
    static const struct {
        const char *members, *ids;
        bool lossless, normal;
    } table[] = {
        {"\"pre_tokenizer\":" BYTES, "32 97 32 204 129 32", true, false},
        {"\"pre_tokenizer\":" BYTES ",\"normalizer\":{\"type\":\"NFC\"}", "32 97 32 204 129 32",
         false, true},
        {"\"pre_tokenizer\":" BYTES ",\"normalizer\":{\"type\":\"NFKC\"}",
         "32 97 32 204 129 32", false, false},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
         "\"WhitespaceSplit\"}," BYTES "]}",
         "97 204 129", false, false},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
         "\"BertPreTokenizer\"}," BYTES "]}",
         "97 204 129", false, false},
        {"\"pre_tokenizer\":" BYTES ",\"added_tokens\":[{\"id\":97,\"content\":\"a\","
         "\"lstrip\":true}]",
         "97 32 204 129 32", false, false},
        {"\"pre_tokenizer\":" BYTES ",\"added_tokens\":[{\"id\":97,\"content\":\"a\"}]",
         "32 97 32 204 129 32", true, false},
        /* U+0120 means a blank, unless it is an added token */
        {"\"pre_tokenizer\":" BYTES ",\"added_tokens\":[{\"id\":32,\"content\":\"\xC4\xA0\"}]",
         "32 97 32 204 129 32", false, false},
        /* U+2581 means no byte */
        {"\"pre_tokenizer\":" BYTES
         ",\"added_tokens\":[{\"id\":256,\"content\":\"\xE2\x96\x81\"}]",
         "32 97 32 204 129 32", true, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        mf_tokenizer *t = of_bytes(table[i].members);
        ck_assert_str_eq(ids_of(t, " a \xCC\x81 "), table[i].ids);
        ck_assert_msg(t->lossless == table[i].lossless && t->normal == table[i].normal,
                      "case %zu", i);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* A name that contains a letter without a byte is shown unchanged. */
START_TEST(names_that_are_no_bytes)
{
    mf_tokenizer *t =
        of_more_bytes(",\"\u0120a\":256,\"a\u2581\":257", "", "\"pre_tokenizer\":" BYTES);
    size_t n = 0, m = 0;
    const char *plain = mf_tokenizer_piece(t, 256, &n), *bar = mf_tokenizer_piece(t, 257, &m);
    ck_assert(n == 2 && memcmp(plain, " a", 2) == 0);
    ck_assert(m == 4 && memcmp(bar, "a\xE2\x96\x81", 4) == 0);
    mf_tokenizer_free(t);
}
END_TEST

/* ignore_merges: a word in the vocabulary is one token, whatever the merges are. */
START_TEST(whole_words)
{
    static char text[301];
    mf_tokenizer *t = of_more_bytes(",\"\u0120ab\":256,\"ab\":257", "\"ignore_merges\":true,",
                                    "\"pre_tokenizer\":" BYTES);
    ck_assert_str_eq(ids_of(t, "ab ab\tab abc"), "257 256 9 257 32 97 98 99");
    memset(text, 'a', sizeof text - 1);
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "x", text, sizeof text - 1, &ids), MF_OK);
    ck_assert_uint_eq(ids.n, sizeof text - 1);
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
    t = parse("{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,"
              "\"ab\":2,\"abb\":3},\"merges\":[\"a b\"]}}");
    ck_assert_str_eq(ids_of(t, "abb"), "3");
    ck_assert_str_eq(ids_of(t, "abba"), "2 1 0");
    mf_tokenizer_free(t);
}
END_TEST

/* A merge across a word boundary before U+2581 is made like any other merge. */
START_TEST(merges_across_bars)
{
#define BAR_MODEL(MERGES)                                                                      \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\u2581\":1,\"a\u2581\":2,"              \
    "\"\u2581a\":3},\"merges\":[" MERGES "]}}"
    mf_tokenizer *t = parse(BAR_MODEL("\"a \u2581\",\"\u2581 a\""));
    ck_assert_str_eq(ids_of(t, "a\u2581a"), "2 0");
    mf_tokenizer_free(t);
    t = parse(BAR_MODEL("\"\u2581 a\",\"a \u2581\""));
    ck_assert_str_eq(ids_of(t, "a\u2581a"), "0 3");
    mf_tokenizer_free(t);
#undef BAR_MODEL
}
END_TEST

/* Words of digits: the merges within a word join four 1s to 1111, and a and 1 to a1. */
START_TEST(digits)
{
    static const struct {
        const char *splitter, *ids;
    } table[] = {
        {"null", "5 3 0"},
        {"{\"type\":\"Digits\"}", "4 3 1"},
        {"{\"type\":\"Digits\",\"individual_digits\":true}", "4 0 0 0 0 0 0"},
        /* the pattern of Llama 3 */
        {"{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"
         "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"
         " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
         "\"}}",
         "4 2 2"},
    };
    char file[2048];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        snprintf(file, sizeof file,
                 "{\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"1\":0,"
                 "\"11\":1,\"111\":2,\"1111\":3,\"a\":4,\"a1\":5},\"merges\":[\"a 1\","
                 "\"1 1\",\"11 11\",\"11 1\"]}}",
                 table[i].splitter);
        mf_tokenizer *t = parse(file);
        ck_assert_msg(strcmp(ids_of(t, "a111111"), table[i].ids) == 0, "case %zu: %s", i,
                      ids_of(t, "a111111"));
        mf_tokenizer_free(t);
    }
}
END_TEST

/* A blank is added to a text that does not begin with one; a text of 2^31 bytes is refused; and
 * the places where a text may be cut. */
START_TEST(ends_of_texts)
{
    mf_tokenizer *t = of_bytes("\"pre_tokenizer\":{\"type\":\"ByteLevel\"}");
    ck_assert_str_eq(ids_of(t, "ab"), "32 97 98");
    ck_assert_str_eq(ids_of(t, " ab"), "32 97 98");
    ck_assert_str_eq(ids_of(t, ""), "");
    ck_assert_uint_eq(t->ops->cut(t, "a\nb", 3), 0);
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "f", "ab", (size_t)1 << 31, &ids), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "f: 2147483648 bytes at once"));
    mf_tokenizer_free(t);
    static const struct {
        const char *members;
        size_t cut;
    } table[] = {
        {"", 2},
        {",\"added_tokens\":[{\"id\":256,\"content\":\"<x>\"}]", 2},
        {",\"added_tokens\":[{\"id\":256,\"content\":\"<x\"}]", 0},
        {",\"added_tokens\":[{\"id\":256,\"content\":\"x>\"}]", 0},
        {",\"added_tokens\":[{\"id\":256,\"content\":\"<\\n>\"}]", 0},
        {",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"x\"}", 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char members[256];
        snprintf(members, sizeof members, "\"pre_tokenizer\":" BYTES "%s", table[i].members);
        t = of_bytes(members);
        ck_assert_uint_eq(t->ops->cut(t, "a\nb", 3), table[i].cut);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* The decoder Metaspace decodes U+2581 to a blank. The first blank is dropped, unless the
 * encoder adds none. */
START_TEST(decoded_bars)
{
    static const struct {
        const char *members;
        bool trims;
    } table[] = {{"", true},
                 {",\"add_prefix_space\":false", false},
                 {",\"prepend_scheme\":\"never\"", false},
                 {",\"prepend_scheme\":\"first\"", true}};
    char file[1024];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const mf_ids ids = {.id = (int32_t[]){7, 2, 7}, .n = 3};
        size_t n;
        snprintf(file, sizeof file,
                 "{" MODEL
                 ",\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"%s}}",
                 table[i].members);
        mf_tokenizer *t = parse(file);
        char *text = decoded(t, &ids, &n);
        ck_assert_uint_eq(n, table[i].trims ? 4 : 5);
        ck_assert_int_eq(memcmp(text, table[i].trims ? "ab a" : " ab a", n), 0);
        free(text);
        mf_tokenizer_free(t);
    }
}
END_TEST

static void check_wrapped(const mf_tokenizer *t, bool pair, const char *want, const char *types)
{
    const mf_ids first = {.id = (int32_t[]){4}, .n = 1},
                 second = {.id = (int32_t[]){5}, .n = 1};
    char got[2][64] = {"", ""};
    mf_ids all[2] = {{0}, {0}};
    ck_assert_int_eq(
        mf_tokenizer_wrap(t, &first, pair ? &second : NULL, &all[0], pair ? &all[1] : NULL),
        MF_OK);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0, n = 0; i < all[k].n; i++)
            n += (size_t)snprintf(got[k] + n, sizeof got[k] - n, "%d", (int)all[k].id[i]);
        mf_ids_free(&all[k]);
    }
    ck_assert_str_eq(got[0], want);
    ck_assert_str_eq(got[1], types);
}

/* Old post-processors, of BERT and of RoBERTa, also within a Sequence. Token 1 is put in front;
 * token 2 is the separator. */
START_TEST(old_templates)
{
    static const struct {
        const char *head, *tail, *single, *pair, *types;
    } table[] = {
        {"{\"type\":\"Bert", "}", "142", "14252", "00011"},
        {"{\"type\":\"Roberta", "}", "142", "142252", "000000"},
        {"{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":\"Bert",
         "}]}", "142", "14252", "00011"},
    };
    char file[1024];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        snprintf(file, sizeof file,
                 "{" MODEL ",\"post_processor\":%sProcessing\",\"cls\":[\"a\",1],"
                 "\"sep\":[\"b\",2]%s}",
                 table[i].head, table[i].tail);
        mf_tokenizer *t = parse(file);
        check_wrapped(t, false, table[i].single, "");
        check_wrapped(t, true, table[i].pair, table[i].types);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* Of several chat templates, the one with the name "default" is used. */
START_TEST(named_chat_templates)
{
    static const char *const other = "{\\\"name\\\":\\\"rag\\\",\\\"template\\\":\\\"x\\\"}",
                             *const ours =
                                 "{\\\"name\\\":\\\"default\\\",\\\"template\\\":\\\"y\\\"}";
    char file[1024];
    for (int with = 0; with < 2; with++) {
        snprintf(file, sizeof file,
                 "{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"pretrained\","
                 "\"specials\":[],\"files\":{\"tokenizer_config.json\":"
                 "\"{\\\"chat_template\\\":[%s%s%s]}\",\"tokenizer.json\":"
                 "\"{\\\"model\\\":{\\\"type\\\":\\\"BPE\\\",\\\"vocab\\\":{\\\"a\\\":0},"
                 "\\\"merges\\\":[]}}\"}}",
                 other, with ? "," : "", with ? ours : "");
        mf_tokenizer *t = parse(file);
        if (with)
            ck_assert_str_eq(t->chat_template, "y");
        else
            ck_assert_ptr_null(t->chat_template);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* More steps or splitters than the maximum. */
START_TEST(too_many_parts)
{
    static const struct {
        const char *head, *one, *tail, *says;
        int most;
    } table[] = {
        {"{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
         "{\"type\":\"Lowercase\"}", "]}}", "\"normalizer\": expected at most 16 steps", 16},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[",
         "{\"type\":\"Digits\"}", "]}}", "\"pre_tokenizer\": expected at most 12 parts", 12},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int more = 0; more < 2; more++) {
            char file[2048];
            int n = snprintf(file, sizeof file, "%s", table[i].head);
            for (int k = 0; k < table[i].most + more; k++)
                n += snprintf(file + n, sizeof file - (size_t)n, "%s%s", k ? "," : "",
                              table[i].one);
            snprintf(file + n, sizeof file - (size_t)n, "%s", table[i].tail);
            mf_tokenizer *t;
            const int rc = mf_tokenizer_parse("file", file, strlen(file), &t);
            ck_assert_int_eq(rc, more ? MF_EINPUT : MF_OK);
            if (more) ck_assert_ptr_nonnull(strstr(mf_error_message(), table[i].says));
            mf_tokenizer_free(t);
        }
}
END_TEST

START_TEST(bad_files)
{
    static const struct {
        const char *text, *message;
    } table[] = {
        {"{\"model\":{}}", "expected BPE, WordPiece, Unigram or WordLevel"},
        {"{\"model\":{\"type\":\"Chars\"}}", "\"model\": \"Chars\": expected BPE"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}",
         "expected a list of names and scores"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
         "entry 0: expected a name and a score"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}",
         "\"unk_id\": expected an index"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}", "\"unk_token\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "\"vocab\": expected an"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "an id from 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":999999},\"merges\":[]}}", "fewer gaps"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
         "id 0 is of two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
         "entry 0: expected two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
         "\"a b\": the right token is not in the vocabulary"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\"]]}}",
         "both as one token are not"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.5}}",
         "\"dropout\": expected null"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"b\"}}",
         "\"unk_token\": expected a token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
         "\"continuing_subword_prefix\":\"-----------------\"}}",
         "\"end_of_word_suffix\" of at most 16 bytes"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
         "\"end_of_word_suffix\":\"</w>\",\"byte_fallback\":true}}",
         "\"byte_fallback\": expected no"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
         "\"end_of_word_suffix\":\"</w>\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
         "ByteLevel: expected no"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "\"unk_token\""},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},"
         "\"continuing_subword_prefix\":\"-----------------\"}}",
         "\"continuing_subword_prefix\" of at most 16 bytes"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},"
         "\"max_input_chars_per_word\":0}}",
         "\"max_input_chars_per_word\" from 1 to 65536"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
         "\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}}",
         "ByteLevel: expected it with BPE, another one with WordPiece"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\"}}",
         "expected the length of a trie, and the trie"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%\"}}",
         "base64 of 1 letters: expected whole groups of 4"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":"
         "\"BAAAAAAAAABh\"}}",
         "expected texts in UTF-8"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Nmt\"}}", "\"Nmt\": expected NFC"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a)\"},"
         "\"content\":\"\"}}",
         "\"normalizer\": Replace: expression \"a)\": byte 1: a ) without ("},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+b\"},"
         "\"behavior\":\"Isolated\"}}",
         "\"pre_tokenizer\": Split: expression \"(a+b\": byte 0: a group without )"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},"
         "\"behavior\":\"Isolated\"}}",
         "expected a \"pattern\" with \"Regex\" or \"String\""},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"CharDelimiterSplit\"}}",
         "expected a \"delimiter\""},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
         "\"ByteLevel\"},{\"type\":\"ByteLevel\"}]}}",
         "expected ByteLevel once"},
        {"{" MODEL
         ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}"
         "\"},\"behavior\":\"Apart\"}}",
         "\"behavior\": expected Removed, Isolated, MergedWithPrevious, MergedWithNext or "
         "Contiguous, found Apart"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "\"UnicodeScripts\""},
        {"{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}",
         "\"decoder\": \"CTC\": expected ByteLevel"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1,\"content\":\"X\"}]}", "entry 0: expected"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1,\"content\":\"c\"}]}",
         "\"added_tokens\": entry 0, \"c\": expected id 8, which is the next one and which "
         "tokenizers gives it, found 1"},
        {"{" MODEL
         ",\"added_tokens\":[{\"id\":8,\"content\":\"c\"},{\"id\":8,\"content\":\"d\"}]}",
         "entry 1, \"d\": expected id 9"},
        {"{" MODEL
         ",\"added_tokens\":[{\"id\":8,\"content\":\"c\"},{\"id\":10,\"content\":\"d\"}]}",
         "entry 1, \"d\": expected id 9"},
        {"{" MODEL
         ",\"added_tokens\":[{\"id\":8,\"content\":\"c\"},{\"id\":9,\"content\":\"c\"}]}",
         "entry 1 is there twice"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",1]}}",
         "\"cls\" and \"sep\", tokens with their ids"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\"],"
         "\"sep\":[\"a\",1]}}",
         "\"cls\" and \"sep\", tokens with their ids"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
         "\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}]}}",
         "\"special_tokens\": expected \"<s>\" with \"ids\""},
        {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
         "\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{"
         "\"ids\":["
         "8]}}}}",
         "\"post_processor\": expected ids below 8, found 8"},
        {"{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"pretrained\",\"specials\":[]"
         "}",
         "file: no tokenizer: expected tokenizer.json"},
        {"{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"pretrained\",\"specials\":[]"
         ","
         "\"files\":{\"tokenizer.json\":\"{\"}}",
         "file/tokenizer.json:1:"},
        {"{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"pretrained\",\"specials\":[]"
         ","
         "\"files\":{\"tokenizer.json\":\"{}\"}}",
         "file/tokenizer.json: expected a tokenizer with a \"model\""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        mf_tokenizer *t;
        const int rc = mf_tokenizer_parse("file", table[i].text, strlen(table[i].text), &t);
        ck_assert_msg(rc == MF_EINPUT && !t && strstr(mf_error_message(), table[i].message),
                      "case %zu: %d %s", i, rc, mf_error_message());
    }
    mf_tokenizer *t;
    ck_assert_int_eq(mf_tokenizer_load(scratch_path("."), &t), MF_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "vocab.json with merges.txt"));
    ck_assert_int_eq(mf_tokenizer_train("pretrained", "x", "", 0, NULL, &t), MF_ECONFIG);
    ck_assert(!mf_tokenizer_is_kind("pretrained"));
    t = of_bytes("\"pre_tokenizer\":" BYTES);
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "f", "a\xC3", 2, &ids), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "f: byte 1 (0xc3)"));
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
}
END_TEST

/* Ids that depend on the order of steps in the library tokenizers, or on the version of its
 * Unicode tables: tests/golden/pretrained/tokenizers/library.json. */
START_TEST(as_the_library)
{
    char path[2048], expected[1024];
    const char *source = getenv("srcdir");
    char *text;
    size_t n;
    mf_json *doc;
    snprintf(path, sizeof path, "%s/tests/golden/pretrained/tokenizers/library.json",
             source ? source : ".");
    ck_assert_int_eq(mf_read_file(path, 0, &text, &n), MF_OK);
    ck_assert_int_eq(mf_json_parse(path, text, n, &doc), MF_OK);
    ck_assert_uint_eq(mf_json_size(doc), 17);
    for (size_t i = 0; i < mf_json_size(doc); i++) {
        const mf_json *one = mf_json_at(doc, i), *texts = mf_json_get(one, "texts");
        mf_tokenizer *t = parse(mf_json_string(mf_json_get(one, "tokenizer"), NULL));
        for (size_t k = 0; k < mf_json_size(texts); k++) {
            const mf_json *pair = mf_json_at(texts, k), *ids = mf_json_at(pair, 1);
            size_t at = 0;
            expected[0] = '\0';
            for (size_t j = 0; j < mf_json_size(ids); j++) {
                int64_t id = -1;
                mf_json_int(mf_json_at(ids, j), &id);
                at += (size_t)snprintf(expected + at, sizeof expected - at, "%s%d",
                                       j > 0 ? " " : "", (int)id);
            }
            const char *found = ids_of(t, mf_json_string(mf_json_at(pair, 0), NULL));
            ck_assert_msg(strcmp(found, expected) == 0, "%s, text %zu: %s, expected %s",
                          mf_json_string(mf_json_get(one, "name"), NULL), k, found, expected);
        }
        mf_tokenizer_free(t);
    }
    mf_json_free(doc);
    mf_free(text);
    /* the vocabulary has no token for a byte, and no token for unknown bytes */
    mf_tokenizer *t =
        parse("{\"pre_tokenizer\":" BYTES ",\"model\":{\"type\":\"BPE\",\"vocab\":{"
              "\"a\":0},\"merges\":[]}}");
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "f", "aa b", 4, &ids), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(),
                     "f: word at byte 2: the text has byte 0x20, which has no token in this "
                     "vocabulary and would be lost; expected texts without it");
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
}
END_TEST

/* A template contains ids. A token may have several ids there, and they may differ from the
 * token's own id. */
START_TEST(ids_of_templates)
{
    mf_tokenizer *t =
        parse("{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\","
              "\"single\":[{\"SpecialToken\":{\"id\":\"X\",\"type_id\":0}},"
              "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"X\":{"
              "\"ids\":[2,7]}}}}");
    check_wrapped(t, false, "274", "");
    mf_tokenizer_free(t);
    t = parse("{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"X\",3],"
              "\"sep\":[\"a\",2]}}");
    check_wrapped(t, false, "342", "");
    mf_tokenizer_free(t);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pretrained_parts");
    TCase *c = tcase_create("pretrained_parts");
    tcase_add_test(c, added_tokens);
    tcase_add_test(c, bars);
    tcase_add_test(c, nul_in_a_step);
    tcase_add_test(c, lossless);
    tcase_add_test(c, names_that_are_no_bytes);
    tcase_add_test(c, whole_words);
    tcase_add_test(c, merges_across_bars);
    tcase_add_test(c, digits);
    tcase_add_test(c, ends_of_texts);
    tcase_add_test(c, decoded_bars);
    tcase_add_test(c, old_templates);
    tcase_add_test(c, named_chat_templates);
    tcase_add_test(c, too_many_parts);
    tcase_add_test(c, as_the_library);
    tcase_add_test(c, ids_of_templates);
    tcase_add_test(c, bad_files);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
