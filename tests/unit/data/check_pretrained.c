/* pretrained: published tokenizers. Small ones of each form, with what the package
 * tokenizers makes of 61 texts, lie in tests/golden/pretrained; MOEFW_PRETRAINED may name a
 * folder with five real ones. Other files are written here: flags of added tokens, older
 * files, and wrong ones. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const forms[] = {"gpt2",    "neox", "qwen2",       "deepseek", "o200k",
                                    "mistral", "bert", "deepseek_v2", NULL};

static const char *golden(const char *name, const char *file)
{
    static char path[4][2048];
    static int turn;
    const char *srcdir = getenv("srcdir");
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/tests/golden/pretrained/tokenizers/%s/%s",
             srcdir ? srcdir : ".", name, file);
    return path[turn];
}

static mf_tokenizer *load(const char *path)
{
    mf_tokenizer *t;
    ck_assert_msg(mf_tokenizer_load(path, &t) == MF_OK, "%s", mf_error_message());
    return t;
}

static mf_tokenizer *parse(const char *text)
{
    mf_tokenizer *t;
    ck_assert_msg(mf_tokenizer_parse("file", text, strlen(text), &t) == MF_OK, "%s",
                  mf_error_message());
    return t;
}

static mf_json *read_json(const char *path)
{
    mf_json *v;
    size_t n;
    char *text = scratch_read(path, &n);
    ck_assert_msg(text != NULL, "%s", path);
    ck_assert_msg(mf_json_parse(path, text, n, &v) == MF_OK, "%s", mf_error_message());
    free(text);
    return v;
}

/* Whether the ids are those of a list; NULL: any are. */
static bool same_ids(const mf_ids *ids, const mf_json *list)
{
    if (!list) return true;
    bool same = ids->n == mf_json_size(list);
    for (size_t i = 0; i < ids->n && same; i++) {
        int64_t id = -1;
        mf_json_int(mf_json_at(list, i), &id);
        same = id == ids->id[i];
    }
    return same;
}

/* Decodes ids; the caller frees the text. */
static char *decode(const mf_tokenizer *t, const mf_ids *ids, size_t *ret_n)
{
    mf_decoder d;
    size_t n = 0, part;
    ck_assert_int_eq(mf_decoder_open(&d, t), MF_OK);
    char *all = malloc(ids->n * (4 * t->longest + 16) + 16);
    for (size_t i = 0; i <= ids->n; i++) {
        const char *text =
            i < ids->n ? mf_decoder_next(&d, ids->id[i], &part) : mf_decoder_end(&d, &part);
        memcpy(all + n, text, part);
        n += part;
    }
    mf_decoder_close(&d);
    *ret_n = n;
    return all;
}

static void check_case(const mf_tokenizer *t, const char *name, const mf_json *c)
{
    size_t n, n_back, m;
    const char *text = mf_json_string(mf_json_get(c, "text"), &n);
    mf_ids ids = {.want_start = true}, wrapped = {0};
    ck_assert_msg(mf_tokenizer_encode(t, "text", text, n, &ids) == MF_OK, "%s",
                  mf_error_message());
    ck_assert_msg(same_ids(&ids, mf_json_get(c, "ids")), "%s: ids of \"%s\"", name, text);
    for (size_t i = 0; i < ids.n; i++)
        ck_assert(ids.start[i] < n && (i == 0 || ids.start[i] >= ids.start[i - 1]));
    ck_assert_int_eq(mf_tokenizer_wrap(t, &ids, NULL, &wrapped, NULL), MF_OK);
    ck_assert_msg(same_ids(&wrapped, mf_json_get(c, "wrapped")), "%s: \"%s\"", name, text);
    const char *expected = mf_json_string(mf_json_get(c, "decoded"), &m);
    char *back = decode(t, &ids, &n_back);
    if (!expected) {
        expected = text;
        m = n;
    }
    ck_assert_msg(m == n_back && memcmp(back, expected, m) == 0,
                  "%s: \"%s\" decodes to \"%.*s\"", name, text, (int)n_back, back);
    if (t->lossless || t->normal) /* what comes back */
        ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, ids.n), m);
    else
        ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, ids.n), 0);
    free(back);
    mf_ids_free(&ids);
    mf_ids_free(&wrapped);
}

/* Returns the number of cases. */
static size_t check_all(const mf_tokenizer *t, const char *name, const char *vectors)
{
    mf_json *v = read_json(vectors);
    const mf_json *list = mf_json_get(v, "cases");
    const size_t n = mf_json_size(list);
    for (size_t i = 0; i < n; i++)
        check_case(t, name, mf_json_at(list, i));
    mf_json_free(v);
    return n;
}

/* The same in one text, which is long enough for a table of words. */
static void check_together(const mf_tokenizer *t)
{
    static char text[20000];
    size_t n = 0;
    mf_ids once = {.want_start = true}, all = {.want_start = true};
    const char part[] = "The quick brown fox, 123 times: na\xC3\xAFve \xE2\x9C\x93 isn't it?\n";
    while (n + sizeof part < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", part);
    ck_assert_int_eq(mf_tokenizer_encode(t, "x", part, sizeof part - 1, &once), MF_OK);
    ck_assert_int_eq(mf_tokenizer_encode(t, "x", text, n, &all), MF_OK);
    if (t->lossless) ck_assert_uint_eq(all.n, n / (sizeof part - 1) * once.n);
    for (size_t i = 0; t->lossless && i < all.n; i++) {
        ck_assert_int_eq(all.id[i], once.id[i % once.n]);
        ck_assert_uint_eq(all.start[i],
                          once.start[i % once.n] + i / once.n * (sizeof part - 1));
    }
    mf_ids_free(&once);
    mf_ids_free(&all);
}

START_TEST(small_ones)
{
    for (int i = 0; forms[i]; i++) {
        mf_tokenizer *t = load(golden(forms[i], "tokenizer.json"));
        ck_assert_uint_eq(check_all(t, forms[i], golden(forms[i], "vectors.json")), 61);
        check_together(t);
        ck_assert(t->lossless == (i == 0 || i == 3 || i == 4 || i == 7));
        ck_assert(t->normal == (i == 1 || i == 2));
        ck_assert_int_eq(t->pieces, t->vocab);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* What save writes is the same tokenizer, and the file in it is the one that was read. */
START_TEST(saved_ones)
{
    const char *path = scratch_path("saved.json");
    for (int i = 0; forms[i]; i++) {
        mf_tokenizer *t = load(golden(forms[i], "tokenizer.json"));
        ck_assert_int_eq(mf_tokenizer_save(t, path), MF_OK);
        mf_tokenizer *back = load(path);
        ck_assert_str_eq(back->ops->name, "pretrained");
        check_all(back, forms[i], golden(forms[i], "vectors.json"));
        for (int s = 0; s < MF_SPECIALS; s++)
            ck_assert_int_eq(back->special[s], t->special[s]);
        mf_tokenizer_free(t);
        mf_tokenizer_free(back);
        mf_json *v = read_json(path);
        size_t n, m;
        char *was = scratch_read(golden(forms[i], "tokenizer.json"), &n);
        const char *is =
            mf_json_string(mf_json_get(mf_json_get(v, "files"), "tokenizer.json"), &m);
        ck_assert(is && n == m && memcmp(is, was, n) == 0);
        free(was);
        mf_json_free(v);
    }
}
END_TEST

/* Folders with the files from before tokenizer.json. */
START_TEST(older_files)
{
    static const struct {
        const char *folder, *vectors;
        int32_t pad, eos, cls;
    } table[] = {{"gpt2_lists", "gpt2", -1, 383, -1},
                 {"qwen2_lists", "qwen2", 509, 511, -1},
                 {"bert_list", "bert", 0, -1, 2}};
    for (int i = 0; i < 3; i++) {
        mf_tokenizer *t = load(golden(table[i].folder, ""));
        check_all(t, table[i].folder, golden(table[i].vectors, "vectors.json"));
        ck_assert_int_eq(t->special[MF_SPECIAL_PAD], table[i].pad);
        ck_assert_int_eq(t->special[MF_SPECIAL_EOS], table[i].eos);
        ck_assert_int_eq(t->special[MF_SPECIAL_CLS], table[i].cls);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* Two texts: ids and token types. */
START_TEST(pairs)
{
    for (int i = 0; forms[i]; i++) {
        mf_tokenizer *t = load(golden(forms[i], "tokenizer.json"));
        mf_json *v = read_json(golden(forms[i], "vectors.json"));
        const mf_json *pair = mf_json_get(v, "pair");
        const char *text[] = {mf_json_string(mf_json_get(pair, "first"), NULL),
                              mf_json_string(mf_json_get(pair, "second"), NULL)};
        mf_ids ids[2] = {{0}}, all = {0}, types = {0};
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(mf_tokenizer_encode(t, "x", text[k], strlen(text[k]), &ids[k]),
                             MF_OK);
        ck_assert_int_eq(mf_tokenizer_wrap(t, &ids[0], &ids[1], &all, &types), MF_OK);
        ck_assert_msg(same_ids(&all, mf_json_get(pair, "ids")), "%s", forms[i]);
        /* Without a template the package counts texts as types; here all are of type 0. */
        if (t->template[1].n > 0) ck_assert(same_ids(&types, mf_json_get(pair, "types")));
        mf_ids_free(&ids[0]);
        mf_ids_free(&ids[1]);
        mf_ids_free(&all);
        mf_ids_free(&types);
        mf_json_free(v);
        mf_tokenizer_free(t);
    }
}
END_TEST

#define MODEL                                                                                  \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,"      \
    "\" \":3,\"ab\":4,\"X\":5,\"\xE2\x96\x81\":6,\"\xE2\x96\x81"                               \
    "a\":7},"                                                                                  \
    "\"merges\":[\"a b\",[\"\xE2\x96\x81\",\"a\"]]}"

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

/* lstrip and rstrip take the blanks beside a token, single_word needs other characters than
 * letters there, normalized ones are sought in the normalized text. The longest wins. */
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

/* Blanks as U+2581: before the text always, first, or never; each begins a word or not. */
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

/* Texts of a step may hold NUL, and are used at their full length. */
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

/* A byte-level tokenizer of the 256 bytes, with other members. */
static mf_tokenizer *of_bytes(const char *members)
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
             "},\"merges\":[]},\"decoder\":{\"type\":\"ByteLevel\"},%s}", members);
    return parse(file);
}

/* Only what gives each text back is lossless. */
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
        /* U+0120 stands for a blank, but is shown as itself once it is an added token */
        {"\"pre_tokenizer\":" BYTES ",\"added_tokens\":[{\"id\":32,\"content\":\"\xC4\xA0\"}]",
         "32 97 32 204 129 32", false, false},
        /* U+2581 stands for no byte */
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

START_TEST(bad_files)
{
    static const struct {
        const char *text, *message;
    } table[] = {
        {"{\"model\":{}}", "expected BPE or WordPiece"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "\"model\": \"Unigram\": expected BPE"},
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
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "\"unk_token\""},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
         "\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "no token of byte 0x00"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
         "\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}}",
         "expected another one with WordPiece"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\"}}",
         "\"Precompiled\": expected NFC"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},"
         "\"content\":\"\"}}",
         "not a regular expression"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a+b\"},"
         "\"behavior\":\"Isolated\"}}",
         "Split by \"a+b\": expected one of the expressions"},
        {"{" MODEL
         ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}"
         "\"},\"behavior\":\"Removed\"}}",
         "\"Removed\": expected \"Isolated\""},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "\"UnicodeScripts\""},
        {"{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}",
         "\"decoder\": \"CTC\": expected ByteLevel"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1,\"content\":\"X\"}]}", "entry 0: expected"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1,\"content\":\"c\"}]}",
         "id 1 is of two tokens"},
        {"{" MODEL
         ",\"added_tokens\":[{\"id\":9,\"content\":\"c\"},{\"id\":9,\"content\":\"d\"}]}",
         "id 9 is of two tokens"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
         "\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}]}}",
         "no token \"<s>\""},
        {"{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"pretrained\",\"specials\":[]"
         "}",
         "file: no tokenizer: expected tokenizer.json"},
        {"{\"format\":\"moefw-tokenizer\",\"version\":1,\"kind\":\"pretrained\",\"specials\":[]"
         ","
         "\"files\":{\"tokenizer.json\":\"{\"}}",
         "file/tokenizer.json:1:"},
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
    t = load(golden("gpt2", "tokenizer.json"));
    mf_ids ids = {0};
    ck_assert_int_eq(mf_tokenizer_encode(t, "f", "a\xC3", 2, &ids), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "f: byte 1 (0xc3)"));
    mf_ids_free(&ids);
    mf_tokenizer_free(t);
}
END_TEST

START_TEST(memory_fails)
{
    static const char *const some[] = {"mistral", "bert", "qwen2_lists", "bert_list"};
    const char *path = scratch_path("oom.json");
    for (int i = 0; i < 4; i++)
        for (long nth = 1;; nth++) {
            mf_tokenizer *t = NULL, *back = NULL;
            mf_ids ids = {.want_start = true};
            fault_alloc(nth, FAULT_ONCE);
            int rc = mf_tokenizer_load(golden(some[i], ""), &t);
            if (rc == MF_OK) rc = mf_tokenizer_save(t, path);
            if (rc == MF_OK) rc = mf_tokenizer_load(path, &back);
            if (rc == MF_OK) rc = mf_tokenizer_encode(back, "x", "N\xC3\xA4 <s>abc", 10, &ids);
            const bool hit = fault_hit();
            ck_assert_msg(rc == (hit ? MF_ENOMEM : MF_OK), "%s, call %ld: %d %s", some[i], nth,
                          rc, mf_error_message());
            mf_ids_free(&ids);
            mf_tokenizer_free(t);
            mf_tokenizer_free(back);
            ck_assert_int_eq(fault_alloc_live(), 0);
            fault_off();
            if (!hit) break;
        }
}
END_TEST

START_TEST(real_ones)
{
    static const struct {
        const char *name, *file;
    } table[] = {{"gpt2", "tok/vectors/gpt2"},
                 {"qwen2", "tok/vectors/qwen2/tokenizer.json"},
                 {"mistral", "tok/vectors/mistral"},
                 {"neox_olmo", "tok/neox_olmo.json"},
                 {"bert", NULL}};
    const char *set = getenv("MOEFW_PRETRAINED"), *data = getenv("MOEFW_DATA");
    char path[2048], vectors[2048];
    for (int i = 0; set && i < 5; i++) {
        if (table[i].file)
            snprintf(path, sizeof path, "%s/%s", set, table[i].file);
        else
            snprintf(path, sizeof path, "%s/bert", data ? data : "");
        if (!table[i].file && !data) continue;
        snprintf(vectors, sizeof vectors, "%s/tok/vectors/%s.json", set, table[i].name);
        mf_tokenizer *t = load(path);
        ck_assert_uint_eq(check_all(t, table[i].name, vectors), 55);
        mf_tokenizer_free(t);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pretrained");
    TCase *c = tcase_create("pretrained");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, small_ones);
    tcase_add_test(c, saved_ones);
    tcase_add_test(c, older_files);
    tcase_add_test(c, pairs);
    tcase_add_test(c, added_tokens);
    tcase_add_test(c, bars);
    tcase_add_test(c, nul_in_a_step);
    tcase_add_test(c, lossless);
    tcase_add_test(c, bad_files);
    tcase_add_test(c, memory_fails);
    tcase_add_test(c, real_ones);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
