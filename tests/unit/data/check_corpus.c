/* corpus: every format is read correctly or refused with file and line. Also splits, labels,
 * numbers of bytes. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/corpus.h"
#include "tests/lib/corpora.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(text_streams)
{
    mf_corpus_spec s = corpus_spec(text_file("t.txt", "0123456789abcdefghij"), NULL);
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->tokens, 20);
    ck_assert_int_eq(c->vocab, 256);
    ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].begin, 0);
    ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].end, 18);
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].begin, 18);
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].tokens, 2);
    ck_assert_uint_eq(c->split[MF_SPLIT_VAL].bytes, 2);
    ck_assert_int_eq(c->split[MF_SPLIT_TEST].tokens, 0);
    ck_assert_int_eq(mf_corpus_id(c, 18), 'i');
    ck_assert(!c->labels && !c->spans && c->n_classes == 0);
    double floor = 0;
    ck_assert_int_eq(mf_corpus_floor(c, MF_SPLIT_VAL, MF_FLOOR_PAST, 0, 0, 0, &floor), MF_OK);
    ck_assert(isnan(floor));
    mf_corpus_free(c);

    s.tokenizer = "char";
    s.val_path = text_file("v.txt", "ab0");
    s.test_path = text_file("u.txt", "9");
    c = corpus_load(&s);
    ck_assert_int_eq(c->vocab, 20);
    ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].tokens, 20); /* the validation split has its
                                                            * own file */
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].tokens, 3);
    ck_assert_int_eq(mf_corpus_id(c, c->split[MF_SPLIT_VAL].begin), 10);
    ck_assert_int_eq(mf_corpus_id(c, c->split[MF_SPLIT_TEST].begin), 9);
    mf_corpus_free(c);
    s.val_path = text_file("v.txt", "ab!");
    corpus_refuse(&s, MF_EINPUT, "v.txt: byte 2: character U+0021");
}
END_TEST

/* A split must not cut a character. */
START_TEST(cut_between_characters)
{
    mf_corpus_spec s =
        corpus_spec(text_file("e.txt", "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC"), "text");
    s.tokenizer = "char";
    for (s.split = 0.34; s.split < 0.99; s.split += 0.05) {
        mf_corpus *c = corpus_load(&s);
        ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].tokens, s.split < 0.667 ? 1 : 2);
        ck_assert_uint_eq(c->split[MF_SPLIT_TRAIN].bytes, 3 * (s.split < 0.667 ? 1 : 2));
        ck_assert_int_eq(c->split[MF_SPLIT_VAL].tokens, s.split < 0.667 ? 2 : 1);
        mf_corpus_free(c);
    }
    s.split = 0.2;
    corpus_refuse(&s, MF_EINPUT, "leaves none for training");
    s.split = 1;
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].tokens, 0);
    mf_corpus_free(c);
}
END_TEST

START_TEST(topics)
{
    mf_corpus_spec s = corpus_spec("builtin:topics?bytes=20000", NULL);
    s.val_path = "builtin:topics?bytes=3000&seed=5&topics=4";
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->n_labels, 8);
    ck_assert_int_eq(c->tokens, 23000);
    for (int i = 0; i < 2; i++) {
        const mf_split_range *r = &c->split[i];
        for (int64_t t = 0; t < r->tokens; t++) {
            ck_assert_int_eq(mf_corpus_id(c, r->begin + t), r->topics->text[t]);
            ck_assert_int_eq(c->labels[r->begin + t], r->topics->labels[t]);
        }
    }
    mf_corpus_free(c);

    s.val_path = NULL;
    s.tokenizer = "char";
    c = corpus_load(&s);
    ck_assert_int_le(c->vocab, 29);
    const mf_split_range *v = &c->split[MF_SPLIT_VAL];
    ck_assert_uint_eq(v->text_begin, 18000);
    for (int64_t t = 0; t < v->tokens; t++)
        ck_assert_int_eq(c->labels[v->begin + t], v->topics->labels[18000 + t]);
    double past, window;
    ck_assert_int_eq(mf_corpus_floor(c, MF_SPLIT_VAL, MF_FLOOR_PAST, 0, 0, 0, &past), MF_OK);
    ck_assert_int_eq(mf_corpus_floor(c, MF_SPLIT_VAL, MF_FLOOR_WINDOW, 0, 64, 0, &window),
                     MF_OK);
    ck_assert(past > 0.4 && past < 0.8 && window > past && window < 2 * past);
    mf_corpus_free(c);

    s.val_path = text_file("v.txt", "no topics here");
    s.tokenizer = NULL;
    c = corpus_load(&s);
    ck_assert_ptr_null(c->labels); /* all splits must have labels, or none */
    mf_corpus_free(c);
    s.path = "builtin:topics?overlap=2";
    corpus_refuse(&s, MF_ECONFIG, "overlap");
}
END_TEST

START_TEST(jsonl)
{
    mf_corpus_spec s = corpus_spec(
        text_file("d.jsonl",
                  "\xEF\xBB\xBF{\"text\": \"one\"}\r\n{\"id\": 7, \"text\": \"t\\u00e9\\n\"}\n"
                  "{\"text\":\"\xE2\x82\xAC\"}"),
        NULL);
    s.split = 0.7;
    mf_corpus *c = corpus_load(&s);
    static const char all[] = "onet\xC3\xA9\n\xE2\x82\xAC";
    ck_assert_int_eq(c->n_spans, 3);
    ck_assert_int_eq(c->tokens, sizeof all - 1);
    for (int64_t i = 0; i < c->tokens; i++)
        ck_assert_int_eq(mf_corpus_id(c, i), (unsigned char)all[i]);
    ck_assert_int_eq(c->spans[1].begin, 3);
    ck_assert_int_eq(c->spans[1].n, 4);
    ck_assert_int_eq(c->spans[1].label, -1);
    ck_assert_int_eq(c->longest, 4);
    ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].end, 2);
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].begin, 2);
    ck_assert_uint_eq(c->split[MF_SPLIT_VAL].bytes, 3);
    mf_corpus_free(c);

    /* Blank lines are skipped, but counted in line numbers. */
    s.path = text_file("d.jsonl", "\n{\"text\":\"ab\"}\n \t\r\n\n{\"text\":\"c\"}\n\n\n");
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_spans, 2);
    ck_assert_int_eq(c->tokens, 3);
    mf_corpus_free(c);
    s.path = text_file("d.jsonl", "\n{\"text\":\"ab\"}\n\n{\"text\":3}\n");
    corpus_refuse(&s, MF_EINPUT, "d.jsonl:4: expected an object");

    s.path = text_file("d.jsonl",
                       "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":\"n\"}\n"
                       "{\"text\":\"c\",\"label\":12}\n{\"text\":\"d\",\"label\":9}\n");
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_classes, 4);
    /* not all classes are numbers, so they are sorted as bytes */
    ck_assert_str_eq(c->classes[0], "12");
    mf_corpus_free(c);

    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"text\":\"a\"}\n{\"text\":3}\n", "d.jsonl:2: expected an object"},
        {"{\"text\":\"a\"}\n{\"txt\":\"b\"}\n", "d.jsonl:2: expected an object"},
        {"{\"text\":\"\"}\n", "d.jsonl:1: expected an object"},
        {"{\"text\":\"a\"}\n{\"text\":\n", "d.jsonl:2"},
        {"{\"text\":\"a\"} {}\n", "d.jsonl:1"},
        {"{\"text\":\"a\"}\n{\"text\":\"\xFF\"}\n", "d.jsonl:2: byte 9"},
        {"{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\"}\n", "d.jsonl:2: no \"label\""},
        {"{\"text\":\"a\",\"label\":[]}\n", "d.jsonl:1: \"label\""},
        {"{\"text\":\"a\",\"label\":\"\"}\n", "d.jsonl:1: \"label\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s.path = text_file("d.jsonl", bad[i].text);
        corpus_refuse(&s, MF_EINPUT, bad[i].says);
    }
}
END_TEST

static void check_example(const mf_corpus *c, int64_t i, const char *first, const char *second,
                          const char *label)
{
    const mf_span *s = &c->spans[i];
    ck_assert_int_eq(s->first, (int)strlen(first));
    ck_assert_int_eq(s->n, (int)(strlen(first) + strlen(second)));
    for (int32_t j = 0; j < s->n; j++)
        ck_assert_int_eq(mf_corpus_id(c, s->begin + j),
                         j < s->first ? first[j] : second[j - s->first]);
    ck_assert_str_eq(c->classes[s->label], label);
}

/* Unusual files that must be read correctly. */
START_TEST(tsv)
{
    mf_corpus_spec s =
        corpus_spec(text_file("a.tsv", "good film\t1\n\"bad\" film\t0\nso so\t1"), NULL);
    s.split = 0.5;
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->n_spans, 3);
    ck_assert_int_eq(c->n_classes, 2);
    ck_assert(!c->pairs);
    check_example(c, 0, "good film", "", "1");
    check_example(c, 1, "\"bad\" film", "", "0"); /* quotes are ordinary characters */
    check_example(c, 2, "so so", "", "1");        /* there is no newline at the end of
                                                   * the file */
    ck_assert_int_eq(c->spans[0].label, 1);       /* class 1 is label 1 */
    ck_assert_int_eq(c->split[MF_SPLIT_VAL].begin, 1);
    mf_corpus_free(c);

    s.path =
        text_file("a.tsv", "\xEF\xBB\xBFgood\t10\r\nbad\t9\r\n"); /* BOM, CRLF; 9 before 10 */
    c = corpus_load(&s);
    check_example(c, 0, "good", "", "10");
    ck_assert_str_eq(c->classes[0], "9");
    mf_corpus_free(c);

    s.path = text_file("a.tsv", "a man\tno man\tNO\na dog\tan animal\tYES\n");
    c = corpus_load(&s);
    ck_assert(c->pairs);
    check_example(c, 0, "a man", "no man", "NO");
    check_example(c, 1, "a dog", "an animal", "YES");
    mf_corpus_free(c);

    s.path = text_file("a.tsv", "pair_ID\tsentence_A\tsentence_B\tscore\tEntailment_Judgment\n"
                                "1\tA\tB\t4.5\tNEUTRAL\n2\tC\tDD\t3\tENTAILMENT\n");
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_spans, 2);
    check_example(c, 1, "C", "DD", "ENTAILMENT");
    mf_corpus_free(c);

    s.path =
        text_file("a.tsv", "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tx\ty\n"
                           "1\ta\tb\tx\t-\n2\tc\td\ty\tz\n");
    c = corpus_load(&s); /* label1 is not a known name of a label column; the label "-"
                          * is skipped */
    ck_assert_int_eq(c->n_spans, 2);
    check_example(c, 1, "c", "d", "z");
    mf_corpus_free(c);

    s.path = text_file("a.tsv", "sentence\tlabel\nx\t0\ny\t1\n");
    s.task = MF_TASK_CLASSIFY;
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_spans, 2);
    ck_assert_int_eq(c->vocab, 256 + 4);
    ck_assert_int_ge(c->tokenizer->special[MF_SPECIAL_CLS], 256);
    mf_corpus_free(c);

    /* with task classify, a file with an unknown ending is read as tsv */
    s.path = text_file("a.txt", "x\t0\ny\t1\n");
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_spans, 2);
    mf_corpus_free(c);
}
END_TEST

START_TEST(tsv_with_a_long_line)
{
    enum { LONG = 1 << 20 };
    char *text = malloc(LONG + 32);
    memset(text, 'x', LONG);
    strcpy(text + LONG, "\t1\nshort\t0\n");
    mf_corpus_spec s = corpus_spec(text_file("long.tsv", text), NULL);
    s.split = 0.5;
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->longest, LONG);
    check_example(c, 1, "short", "", "0");
    mf_corpus_free(c);
    free(text);
}
END_TEST

START_TEST(bad_tsv)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"a\t1\nb\n", "a.tsv:2: 1 column: expected 2"},
        {"a\t1\nb\tc\t0\n", "a.tsv:2: 3 columns: expected 2"},
        {"a\t1\n\nb\t0\n", "a.tsv:2: the line is empty"},
        {"a\t1\nb\t0\n\n\nc\t1\n", "a.tsv:3: the line is empty"},
        {"a\t1\n\t0\n", "a.tsv:2: the sentence is empty"},
        {"a\t1\nb\t\n", "a.tsv:2: the label is empty"},
        {"a\tb\t1\n\tb\t1\n", "a.tsv:2: the first sentence is empty"},
        {"a\tb\t1\na\t\t1\n", "a.tsv:2: the second sentence is empty"},
        {"a\t1\nb\xC3\t0\n", "a.tsv:2: byte 1"},
        {"a\n", "a.tsv:1: 1 column"},
        {"a\tb\tc\td\n", "a.tsv:1: 4 columns"},
        {"sentence\tlabel\n", "no examples"},
        {"sentence1\tsentence2\tid\na\tb\t1\n", "a.tsv:1: the header names no label"},
        {"sentence\tlabel\na\t-\n", "no examples"},
        {"", "the file is empty"},
    };
    mf_corpus_spec s = corpus_spec(scratch_path("a.tsv"), "tsv");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        text_file("a.tsv", bad[i].text);
        corpus_refuse(&s, MF_EINPUT, bad[i].says);
    }
    scratch_write(s.path, "a\t1\nb\0c\t0\n", 10);
    corpus_refuse(&s, MF_EINPUT, "a.tsv:2: NUL at byte 1");
    static char many[4097 * 16];
    for (int i = 0, n = 0; i < 4097; i++)
        n += snprintf(many + n, sizeof many - (size_t)n, "a\tlabel %d\n", i);
    text_file("a.tsv", many);
    corpus_refuse(&s, MF_EINPUT,
                  "a.tsv:4097: label \"label 4096\": more than 4096 distinct labels");
    text_file("a.tsv",
              "a\t1\nb\t0\n\r\n\n"); /* empty lines at the end, as some editors write them */
    mf_corpus *c = corpus_load(&s);
    ck_assert_int_eq(c->n_spans, 2);
    mf_corpus_free(c);
    text_file("a.tsv", "a\t1\nb\t0\nc\tmaybe\n");
    s.classes = 2;
    corpus_refuse(&s, MF_EINPUT,
                  "a.tsv:3: label \"maybe\" is one too many: expected at most 2");
    s.classes = 0;
    static const char *const names[] = {"yes", "maybe", "no"};
    s.class_names = names; /* class names of a run, applied to other data */
    s.n_class_names = 3;
    corpus_refuse(&s, MF_EINPUT, "a.tsv:1: label \"1\" does not occur in the training data");
    text_file("a.tsv", "a\tno\nb\tmaybe\n");
    s.split = 1;
    c = corpus_load(&s);
    ck_assert_int_eq(c->n_classes, 3);
    ck_assert_int_eq(c->spans[0].label, 2);
    ck_assert_int_eq(c->spans[1].label, 1);
    mf_corpus_free(c);
    s.class_names = NULL;
    s.split = 0.5;
    text_file("a.tsv", "a\t1\nb\t0\n");
    s.val_path = text_file("b.tsv", "c\t0\nd\t2\n");
    corpus_refuse(&s, MF_EINPUT, "b.tsv:2: label \"2\" does not occur in the training data");
    s.val_path = text_file("b.tsv", "c\td\t0\n");
    corpus_refuse(&s, MF_ECONFIG, "differ in form");
}
END_TEST

/* Numbers as labels, further columns, and examples without one of these values. */
START_TEST(numbers_and_further_columns)
{
    mf_corpus_spec s = corpus_spec(text_file("n.tsv", "score\tsentence\tkind\tother\n"
                                                      "1.5\ta\tx\t7\n-2e1\tbb\ty\t-\n"
                                                      "3\tccc\t-\t9\n4.25\tdddd\tx\t1e3\n"),
                                   "tsv");
    s.task = MF_TASK_REGRESS;
    s.split = 0.75;
    s.n_more = 2;
    s.more[0] = (mf_corpus_question){.column = "kind"};
    s.more[1] = (mf_corpus_question){.column = "Other", .number = true};
    mf_corpus *c = corpus_load(&s);
    static const float values[] = {1.5f, -20, 3, 4.25f};
    static const int32_t kinds[] = {0, 1, -1, 0};
    ck_assert_int_eq(c->n_spans, 4);
    ck_assert_int_eq(c->n_classes, 0);
    ck_assert(c->numbers);
    ck_assert_double_eq_tol(c->mean, (1.5 - 20 + 3) / 3, 1e-12); /* of the first 3 examples */
    for (int i = 0; i < 4; i++) {
        ck_assert_float_eq(c->spans[i].value, values[i]);
        ck_assert_int_eq(c->spans[i].label, -1);
        ck_assert_int_eq(c->more[0].label[i], kinds[i]);
    }
    ck_assert_int_eq(c->more[0].n_classes, 2);
    ck_assert_str_eq(c->more[0].classes[1], "y");
    ck_assert_ptr_null(c->more[0].value);
    ck_assert(isnan(c->more[1].value[1]));
    ck_assert_float_eq(c->more[1].value[3], 1000);
    ck_assert_double_eq(c->more[1].mean, 8);
    mf_corpus_free(c);
    /* Examples that remain after a limit keep their labels. */
    s.limit = 2;
    s.pick_random = true;
    s.split = 1;
    c = corpus_load(&s);
    for (int i = 0; i < 2; i++) {
        const int was = (int)c->spans[i].n - 1; /* the length of an example identifies it */
        ck_assert_float_eq(c->spans[i].value, values[was]);
        ck_assert_str_eq(kinds[was] < 0 ? "-" : c->more[0].classes[c->more[0].label[i]],
                         kinds[was] < 0 ? "-"
                         : kinds[was]   ? "y"
                                        : "x");
    }
    mf_corpus_free(c);
    s.limit = 0;
    s.more[0].column = "sort";
    corpus_refuse(&s, MF_EINPUT, "n.tsv:1: no column named sort");
    s.more[0].column = "kind";
    s.more[0].classes = 1;
    corpus_refuse(&s, MF_EINPUT, "n.tsv:3: label \"y\" is one too many: expected at most 1");
    s.more[0] = (mf_corpus_question){.column = "kind", .number = true};
    corpus_refuse(&s, MF_EINPUT, "n.tsv:2: column kind: \"x\": expected a number");
    s.n_more = 0;
    s.label_column = "sentence";
    s.first_column = "kind";
    corpus_refuse(&s, MF_EINPUT, "n.tsv:2: column sentence: \"a\": expected a number");
    s = corpus_spec(text_file("n.jsonl", "{\"text\":\"a\",\"label\":2,\"k\":\"x\"}\n"
                                         "{\"text\":\"b\",\"label\":-0.5}\n"),
                    "jsonl");
    s.task = MF_TASK_REGRESS;
    s.split = 1;
    s.n_more = 1;
    s.more[0] = (mf_corpus_question){.column = "k"};
    c = corpus_load(&s);
    ck_assert_float_eq(c->spans[1].value, -0.5f);
    ck_assert_int_eq(c->more[0].label[0], 0);
    ck_assert_int_eq(c->more[0].label[1], -1);
    mf_corpus_free(c);
    s.path = text_file("n.jsonl", "{\"text\":\"a\",\"label\":2}\n{\"text\":\"b\"}\n");
    s.n_more = 0;
    corpus_refuse(&s, MF_EINPUT, "n.jsonl:2: no \"label\", but other lines have one");
    /* The training split has no labels for some columns. */
    s = corpus_spec(text_file("n.tsv", "sentence\tlabel\tkind\na\t1\t-\nb\t0\t-\nc\t1\t2\n"),
                    "tsv");
    s.split = 0.7;
    s.n_more = 1;
    s.more[0] = (mf_corpus_question){.column = "kind", .number = true};
    corpus_refuse(&s, MF_EINPUT, "n.tsv: no example to train on has a number in column kind");
    text_file("n.tsv", "sentence\tlabel\tkind\na\t1\t-\nb\t0\t-\nc\t1\t-\n");
    s.more[0].number = false;
    corpus_refuse(&s, MF_EINPUT, "n.tsv: no example has a label in column kind");
}
END_TEST

static int encode_hugely(const mf_tokenizer *t, const char *source, size_t base,
                         const char *text, size_t n, mf_ids *ids)
{
    (void)t, (void)source, (void)base, (void)text, (void)n;
    ids->n = (size_t)INT32_MAX / 2 + 1;
    return MF_OK;
}

/* A document must have fewer than 2^30 tokens. The tokenizer of this test only claims that it
 * has more. */
START_TEST(documents_of_too_many_tokens)
{
    const mf_tokenizer_ops ops = {.name = "huge", .encode = encode_hugely};
    mf_corpus_spec s = corpus_spec(text_file("h.jsonl", "{\"text\":\"a\"}\n"), NULL);
    s.split = 1;
    s.given = &(mf_tokenizer){.ops = &ops};
    corpus_refuse(&s, MF_EINPUT, "h.jsonl:1: more than 1073741823 tokens");
}
END_TEST

START_TEST(bad_specs)
{
    mf_corpus_spec s = corpus_spec(NULL, NULL);
    corpus_refuse(&s, MF_ECONFIG, "data.path");
    s.path = scratch_path("none.txt");
    corpus_refuse(&s, MF_ENOTFOUND, "none.txt");
    /* a folder as data.path means the files in it; this folder has none */
    char empty[4096];
    snprintf(empty, sizeof empty, "%s/empty", scratch_dir());
    ck_assert_int_eq(mkdir(empty, 0777), 0);
    s.path = empty;
    corpus_refuse(&s, MF_EINPUT, "holds no files");
    s.path = text_file("t.txt", "some text");
    s.format = "jsnl";
    corpus_refuse(&s, MF_ECONFIG, "did you mean jsonl?");
    s.format = NULL;
    s.tokenizer = "bytes";
    corpus_refuse(&s, MF_ECONFIG, "did you mean byte?");
    s.tokenizer = scratch_path("none.json");
    corpus_refuse(&s, MF_ENOTFOUND, "none.json");
    s.tokenizer = NULL;
    s.split = 0;
    corpus_refuse(&s, MF_ECONFIG, "data.split");
    s.split = 1.5;
    corpus_refuse(&s, MF_ECONFIG, "data.split");
    s.split = 0.01;
    corpus_refuse(&s, MF_EINPUT, "leaves none for training");
    s.split = 0.5;
    s.bin_bits = 8;
    corpus_refuse(&s, MF_ECONFIG, "bin_bits");
    s.bin_bits = 0;
    s.path = text_file("t.txt", "");
    corpus_refuse(&s, MF_EINPUT, "is empty");
}
END_TEST

START_TEST(memory_and_io_fail)
{
    mf_corpus_spec s =
        corpus_spec(text_file("oom.tsv", "sentence1\tsentence2\tlabel\tscore\tkind\n"
                                         "a b\tc\t1\t.5\tx\nd\te f\t0\t2\ty\n"
                                         "x\ty\t1\t-1\tx\n"),
                    NULL);
    s.n_more = 2;
    s.more[0] = (mf_corpus_question){.column = "score", .number = true};
    s.more[1] = (mf_corpus_question){.column = "kind"};
    s.tokenizer = "char";
    s.task = MF_TASK_CLASSIFY;
    for (int io = 0; io < 2; io++)
        for (long nth = 1;; nth++) {
            mf_corpus *c;
            if (io) fault_io(nth, FAULT_ONCE, EIO);
            fault_alloc(io ? 0 : nth, FAULT_ONCE);
            int rc = mf_corpus_load(&s, &c);
            bool hit = fault_hit();
            bool closing = hit && strcmp(fault_hit_call(), "close") == 0;
            ck_assert_msg(rc == (!hit || closing ? MF_OK
                                 : io            ? MF_EIO
                                                 : MF_ENOMEM),
                          "call %ld (%s): %d %s", nth, fault_hit_call(), rc,
                          mf_error_message());
            mf_corpus_free(c);
            ck_assert_int_eq(fault_alloc_live(), 0);
            fault_off();
            if (!hit) break;
        }
}
END_TEST

/* Loads the real files, if they are available. */
START_TEST(shared_files)
{
    const char *shared = getenv("MOEFW_SHARED");
    if (!shared) return;
    char *train = mf_strf("%s/data/sst2/train.tsv", shared);
    char *dev = mf_strf("%s/data/sst2/dev.tsv", shared);
    mf_corpus_spec s = corpus_spec(train, NULL);
    s.val_path = dev;
    s.task = MF_TASK_CLASSIFY;
    if (mf_exists(train) && mf_exists(dev)) {
        mf_corpus *c = corpus_load(&s);
        ck_assert_int_eq(c->n_classes, 2);
        ck_assert_int_eq(c->split[MF_SPLIT_TRAIN].end, 6920);
        ck_assert_int_eq(c->n_spans - 6920, 872);
        mf_corpus_free(c);
    }
    mf_free(train);
    mf_free(dev);
    train = mf_strf("%s/data/sick/SICK_train.txt", shared);
    s.path = train;
    s.val_path = NULL;
    if (mf_exists(train)) {
        mf_corpus *c = corpus_load(&s);
        ck_assert_int_eq(c->n_classes, 3);
        ck_assert_int_eq(c->n_spans, 4500);
        ck_assert(c->pairs);
        mf_corpus_free(c);
    }
    mf_free(train);
}
END_TEST

static Suite *suite(void)
{
    mf_log_set_level(MF_LOG_ERROR);
    Suite *s = suite_create("corpus");
    TCase *t = tcase_create("corpus");
    tcase_add_test(t, text_streams);
    tcase_add_test(t, cut_between_characters);
    tcase_add_test(t, topics);
    tcase_add_test(t, jsonl);
    tcase_add_test(t, tsv);
    tcase_add_test(t, tsv_with_a_long_line);
    tcase_add_test(t, bad_tsv);
    tcase_add_test(t, numbers_and_further_columns);
    tcase_add_test(t, documents_of_too_many_tokens);
    tcase_add_test(t, bad_specs);
    tcase_add_test(t, memory_and_io_fail);
    tcase_add_test(t, shared_files);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
