/* pretrained: published tokenizers. tests/golden/pretrained contains a small tokenizer of each
 * form, with the results of the package tokenizers for 61 texts. MOEFW_PRETRAINED may name a
 * folder with five real tokenizers, MOEFW_TOKENIZERS one of draw.py with drawn strings. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/lib/fault.h"
#include "tests/lib/decode.h"
#include "tests/lib/scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Whether the ids equal those of the list. Without a list (NULL) the result is true. */
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
    char *back = decoded(t, &ids, &n_back);
    if (!expected) {
        expected = text;
        m = n;
    }
    ck_assert_msg(m == n_back && memcmp(back, expected, m) == 0,
                  "%s: \"%s\" decodes to \"%.*s\"", name, text, (int)n_back, back);
    /* m is the number of bytes of the text that decoding must return */
    bool unknown = false;
    for (size_t i = 0; i < ids.n; i++)
        unknown = unknown || ids.id[i] == t->special[MF_SPECIAL_UNK];
    if ((t->lossless || t->normal) && !unknown)
        ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, ids.n), m);
    else
        ck_assert_uint_eq(mf_tokenizer_bytes(t, ids.id, ids.n), 0);
    free(back);
    mf_ids_free(&ids);
    mf_ids_free(&wrapped);
}

/* Checks each case of the file `vectors`. Returns the number of cases. */
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

/* Checks a text that is repeated until it is long enough for a table of words. For lossless
 * tokenizers, each repetition must have the same tokens. */
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

/* The file that save writes is read as the same tokenizer, and contains the original file. */
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

/* Folders with the files that were used before tokenizer.json. */
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

/* Folders with the vocabulary files of other programs. */
START_TEST(other_files)
{
    static const char *const folders[] = {"spm_unigram", "spm_bpe", "tiktoken", "tekken"};
    for (int i = 0; i < 4; i++) {
        mf_tokenizer *t = load(golden(folders[i], ""));
        ck_assert_uint_eq(check_all(t, folders[i], golden(folders[i], "vectors.json")), 23);
        mf_tokenizer_free(t);
    }
}
END_TEST

/* Further models, normalizers and pre-tokenizers: more.json. */
START_TEST(further_kinds)
{
    mf_json *v = read_json(golden("", "more.json"));
    ck_assert_uint_eq(mf_json_size(v), 32);
    for (size_t i = 0; i < mf_json_size(v); i++) {
        const mf_json *one = mf_json_at(v, i), *list = mf_json_get(one, "cases");
        const char *name = mf_json_string(mf_json_get(one, "name"), NULL),
                   *file = mf_json_string(mf_json_get(one, "tokenizer"), NULL);
        mf_tokenizer *t;
        ck_assert_msg(mf_tokenizer_parse(name, file, strlen(file), &t) == MF_OK, "%s",
                      mf_error_message());
        for (size_t k = 0; k < mf_json_size(list); k++)
            check_case(t, name, mf_json_at(list, k));
        /* where a large text may be cut */
        const bool cuts = strcmp(name, "Qwen3.5") == 0 || strcmp(name, "StarCoder") == 0 ||
                          strcmp(name, "Falcon") == 0;
        ck_assert_uint_eq(t->ops->cut(t, "ab\ncd\n", 6), cuts ? 3 : 0);
        mf_tokenizer_free(t);
    }
    mf_json_free(v);
}
END_TEST

/* Files of other programs that are damaged. */
START_TEST(damaged_files)
{
    static const struct {
        const char *file, *text, *says;
        size_t n;
    } table[] = {
        {"tokenizer.model", "\x0A\x7F", "expected a model of sentencepiece", 2},
        {"tokenizer.model", "\x0A\x02\x0A\x00", "piece 0: expected a text in UTF-8", 4},
        {"tokenizer.model", "\x08\x01", "piece 0: expected a text in UTF-8", 2},
        {"tokenizer.model",
         "\x0A\x03\x0A\x01"
         "a\x0A\x03\x0A\x01"
         "a",
         "piece 1 is that of id 0", 10},
        {"tokenizer.model",
         "\x0A\x03\x0A\x01"
         "a",
         "no piece for unknown characters", 5},
        {"tokenizer.model",
         "\x0A\x03\x0A\x01"
         "a\x12\x02\x18\x04",
         "model type 4: expected 1 (Unigram) or 2 (BPE)", 9},
        {"tiktoken.model", "YQ== 0\nYg== 2\n", "tiktoken.model:2: expected a token in base64",
         14},
        {"tiktoken.model", "YQ== 0\nYQ== 1\n", "rank 1: its token is that of rank 0", 14},
        {"tiktoken.model", "Y!== 0\n", "base64: byte 1 (0x21) is no letter of it", 7},
        {"tiktoken.model", "\n", "no tokens", 1},
        {"tekken.json", "{}", "\"config\": expected \"pattern\"", 2},
        {"tekken.json",
         "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":1},\"vocab\":[{}]}",
         "\"vocab\": entry 0: expected \"token_bytes\"", 0},
        {"tekken.json",
         "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":2,\"default_num_special_"
         "tokens\":1},"
         "\"vocab\":[{}],\"special_tokens\":[{\"rank\":1,\"token_str\":\"x\"}]}",
         "\"special_tokens\": entry 0: expected \"token_str\", and \"rank\" 0", 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char folder[64], file[128];
        mf_tokenizer *t;
        snprintf(folder, sizeof folder, "damaged%zu", i);
        snprintf(file, sizeof file, "damaged%zu/%s", i, table[i].file);
        ck_assert_int_eq(mkdir(scratch_path(folder), 0700), 0);
        scratch_write(scratch_path(file), table[i].text,
                      table[i].n ? table[i].n : strlen(table[i].text));
        ck_assert_int_eq(mf_tokenizer_load(scratch_path(folder), &t), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), table[i].says) != NULL, "case %zu: %s", i,
                      mf_error_message());
    }
}
END_TEST

/* Pairs of texts: ids and token types. */
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
        /* Without a template the package numbers the types by text; here all types are 0. */
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

START_TEST(memory_fails)
{
    static const char *const some[] = {"mistral",     "bert",   "qwen2_lists", "bert_list",
                                       "spm_unigram", "tekken", "tiktoken"};
    const char *path = scratch_path("oom.json");
    for (int i = 0; i < 7; i++)
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

/* Says of a drawn string what is not as the vectors have it. NULL: all is. */
static const char *differs(const mf_tokenizer *t, const mf_json *c)
{
    size_t n, m, n_back;
    const char *text = mf_json_string(mf_json_get(c, "text"), &n), *what = NULL,
               *expected = mf_json_string(mf_json_get(c, "decoded"), &m);
    mf_ids ids = {0}, wrapped = {0};
    if (mf_tokenizer_encode(t, "text", text, n, &ids) != MF_OK) {
        mf_ids_free(&ids);
        return mf_error_message();
    }
    ck_assert_int_eq(mf_tokenizer_wrap(t, &ids, NULL, &wrapped, NULL), MF_OK);
    char *back = decoded(t, &ids, &n_back);
    if (!same_ids(&ids, mf_json_get(c, "ids")))
        what = "ids";
    else if (!same_ids(&wrapped, mf_json_get(c, "wrapped")))
        what = "ids with the template";
    else if (expected && (m != n_back || memcmp(back, expected, m) != 0))
        what = "the decoded text";
    free(back);
    mf_ids_free(&ids);
    mf_ids_free(&wrapped);
    return what;
}

/* Folders of draw.py in MOEFW_TOKENIZERS: counts the strings that differ, and names ten. */
START_TEST(drawn_ones)
{
    const char *set = getenv("MOEFW_TOKENIZERS");
    struct dirent **list = NULL;
    const int n = set ? scandir(set, &list, NULL, alphasort) : 0;
    size_t all = 0;
    for (int i = 0; i < n; i++) {
        char path[2048];
        size_t bad = 0;
        snprintf(path, sizeof path, "%s/%s/vectors.json", set, list[i]->d_name);
        if (list[i]->d_name[0] != '.') {
            mf_json *v = read_json(path);
            *strrchr(path, '/') = 0;
            mf_tokenizer *t = load(path);
            const mf_json *cases = mf_json_get(v, "cases");
            for (size_t k = 0; k < mf_json_size(cases); k++) {
                const char *what = differs(t, mf_json_at(cases, k));
                if (what && bad++ < 10) fprintf(stderr, "%s, case %zu: %s\n", path, k, what);
            }
            fprintf(stderr, "%s: %zu strings, %zu differ\n", list[i]->d_name,
                    mf_json_size(cases), bad);
            mf_tokenizer_free(t);
            mf_json_free(v);
        }
        all += bad;
        free(list[i]);
    }
    free(list);
    ck_assert_msg(all == 0, "%zu strings differ", all);
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
    tcase_add_test(c, other_files);
    tcase_add_test(c, further_kinds);
    tcase_add_test(c, damaged_files);
    tcase_add_test(c, pairs);
    tcase_add_test(c, memory_fails);
    tcase_add_test(c, real_ones);
    tcase_add_test(c, drawn_ones);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
