/* turns: the members of a jsonl line are read, refused or named in a warning. Text of the
 * assistant counts in the loss unless the line says otherwise. */
#include "check_main.h"

#include "base/error.h"
#include "base/log.h"
#include "data/corpus.h"
#include "tests/lib/corpora.h"

#include <stdio.h>
#include <string.h>

static char logged[4096];

static void keep_log(void *arg, mf_log_level level, const char *text)
{
    (void)arg, (void)level;
    const size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%s\n", text);
}

static mf_corpus *load_and_log(const mf_corpus_spec *s)
{
    const mf_log_sink sink = {.highest = MF_LOG_INFO, .line = keep_log};
    *logged = '\0';
    const mf_log_sink *before = mf_log_redirect(&sink);
    mf_corpus *c = corpus_load(s);
    mf_log_redirect(before);
    return c;
}

/* The tokens of the line; the name of the tokenizer is "byte". [ ] enclose the tokens that
 * count in the loss. */
static const char *read_line(const char *line)
{
    static char out[1024];
    mf_corpus_spec s = corpus_spec(text_file("turns.jsonl", line), NULL);
    s.split = 1;
    mf_corpus *c = load_and_log(&s);
    size_t at = 0;
    bool inside = false;
    for (int64_t i = 0; i <= c->tokens && at + 3 < sizeof out; i++) {
        const bool counts = i < c->tokens && (!c->counted || c->counted[i]);
        if (counts != inside) out[at++] = counts ? '[' : ']';
        inside = counts;
        if (i < c->tokens) out[at++] = (char)mf_corpus_id(c, i);
    }
    out[at] = '\0';
    mf_corpus_free(c);
    return out;
}

START_TEST(members_of_prompts)
{
    static const struct {
        const char *line, *reads, *unread; /* unread: the members that a warning names; NULL:
                                            * no warning */
    } cases[] = {
        {"{\"instruction\":\"Do.\",\"input\":\"x y\",\"output\":\"ok\"}", "Do.\nx y[ok]", NULL},
        {"{\"instruction\":\"Do.\",\"input\":\"\",\"output\":\"ok\"}", "Do.[ok]", NULL},
        {"{\"instruction\":\"Do.\",\"input\":null,\"output\":\"ok\"}", "Do.[ok]", NULL},
        {"{\"instruction\":\"\",\"input\":\"in\",\"output\":\"ok\"}", "in[ok]", NULL},
        {"{\"input\":\"in\",\"output\":\"out\"}", "in[out]", NULL},
        {"{\"question\":\"Who?\",\"context\":\"Ann came.\",\"answer\":\"Ann\"}",
         "Who?\nAnn came.[Ann]", NULL},
        {"{\"instruction\":\"Q\",\"context\":\"C\",\"response\":\"R\",\"category\":\"qa\"}",
         "Q\nC[R]", "members that are not read: category"},
        {"{\"system\":\"Be.\",\"prompt\":\"p\",\"answer\":\"a\"}", "Be.\np\n[a\n]", NULL},
        {"{\"history\":[[\"q1\",\"a1\"]],\"prompt\":\"p\",\"answer\":\"a\"}",
         "q1\na1\np\n[a\n]", NULL},
        {"{\"prompt\":\"p\",\"answer\":\"a\",\"id\":7,\"source\":\"web\",\"tags\":[]}", "p[a]",
         "members that are not read: id, source"},
        {"{\"text\":\"abc\",\"meta\":{\"a\":1},\"label\":null}", "[abc]",
         "members that are not read: meta"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(read_line(cases[i].line), cases[i].reads);
        if (cases[i].unread)
            ck_assert_ptr_nonnull(strstr(logged, cases[i].unread));
        else
            ck_assert_str_eq(logged, "");
    }
    /* A member is named once for a file, however many lines contain it. */
    read_line("{\"text\":\"a\",\"id\":1}\n{\"text\":\"b\",\"id\":2}\n{\"text\":\"c\",\"url\":"
              "\"u\"}\n");
    ck_assert_ptr_nonnull(strstr(logged, "turns.jsonl: members that are not read: id, url\n"));
    ck_assert_ptr_null(strstr(strstr(logged, "not read") + 1, "not read"));
}
END_TEST

START_TEST(members_of_messages)
{
#define USER "{\"role\":\"user\",\"content\":\"u\"}"
    static const struct {
        const char *line, *reads;
    } cases[] = {
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":\"bad\",\"weight\":0}," USER
         ",{\"role\":\"assistant\",\"content\":\"good\",\"weight\":1}]}",
         "u\nbad\nu\n[good\n]"},
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":\"bad\",\"train\":false}," USER
         ",{\"role\":\"assistant\",\"content\":\"good\",\"tool_calls\":null}]}",
         "u\nbad\nu\n[good\n]"},
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":\"bad\",\"training\":false}," USER
         ",{\"role\":\"assistant\",\"content\":\"bad\",\"loss\":0}," USER
         ",{\"role\":\"assistant\",\"content\":\"bad\",\"weight\":false}," USER
         ",{\"role\":\"assistant\",\"content\":\"bad\",\"train\":0}," USER
         ",{\"role\":\"assistant\",\"content\":\"good\",\"training\":true,\"loss\":1}]}",
         "u\nbad\nu\nbad\nu\nbad\nu\nbad\nu\n[good\n]"},
        {"{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"}," USER
         ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"text\",\"text\":\"b\"}]}]}",
         "d\nu\n[ab\n]"},
        {"{\"conversations\":[{\"from\":\"human\",\"value\":\"h\"},"
         "{\"from\":\"gpt\",\"value\":\"g\"}]}",
         "h\n[g\n]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(read_line(cases[i].line), cases[i].reads);
        ck_assert_str_eq(logged, "");
    }
    read_line("{\"messages\":[" USER
              ",{\"role\":\"assistant\",\"content\":\"a\",\"name\":\"bot\","
              "\"reasoning_content\":\"hm\"}],\"topic\":[{}]}");
    ck_assert_ptr_nonnull(
        strstr(logged, "not read: message.name, message.reasoning_content, topic"));
}
END_TEST

/* A line that is marked as not to be learned is skipped, whatever it contains. */
START_TEST(skipped_lines)
{
    static const char *const off[] = {"\"weight\":0",    "\"weight\":0.0", "\"weight\":false",
                                      "\"train\":false", "\"train\":0",    "\"training\":false",
                                      "\"loss\":false",  "\"loss\":0"};
    static const char *const lines[] = {"\"text\":\"x\"", "\"prompt\":\"q\",\"answer\":\"x\"",
                                        "\"messages\":[" USER
                                        ",{\"role\":\"assistant\",\"content\":\"x\"}]"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            char text[512];
            snprintf(text, sizeof text, "{%s,%s}\n{\"text\":\"good\",\"weight\":1}\n", lines[k],
                     off[i]);
            ck_assert_str_eq(read_line(text), "[good]");
            ck_assert_ptr_nonnull(strstr(logged, "turns.jsonl: 1 line skipped"));
            ck_assert_ptr_null(strstr(logged, "not read"));
        }
    /* a number with another meaning is ignored */
    ck_assert_str_eq(read_line("{\"text\":\"good\",\"loss\":0.25}"), "[good]");
    ck_assert_ptr_nonnull(strstr(logged, "not read: loss"));
    mf_corpus_spec s =
        corpus_spec(text_file("turns.jsonl", "{\"text\":\"a\",\"train\":false}"), NULL);
    corpus_refuse(&s, MF_EINPUT, "no examples in the file");
}
END_TEST

START_TEST(refused_members)
{
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":1}]}]}",
         "turns.jsonl:1: message 2: \"tool_calls\": expected, of the assistant, a list"},
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":\"a\",\"function_call\":{\"a\":1}}]}",
         "message 2: \"function_call\" is not read"},
        {"{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0.5}]}",
         "message 2: \"weight\": expected 0 or 1"},
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":\"a\",\"train\":\"no\"}]}",
         "message 2: \"train\": expected true or false"},
        {"{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"a\",\"weight\":0}]}",
         "no message is of the assistant and counts"},
        {"{\"messages\":[" USER ",{\"role\":\"data\",\"content\":\"a\"}]}",
         "message 2: expected \"role\": system, user or assistant"},
        {"{\"messages\":[" USER
         ",{\"role\":\"assistant\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "message 2: expected"},
        {"{\"prompt\":\"p\",\"answer\":\"a\",\"input\":3}", "\"input\": expected a string"},
        {"{\"prompt\":\"p\",\"answer\":\"a\",\"system\":3}", "\"system\": expected a string"},
        {"{\"prompt\":\"p\",\"answer\":\"a\",\"history\":3}", "\"history\": expected a list"},
        {"{\"prompt\":\"p\",\"answer\":\"a\",\"history\":[[\"q\"]]}",
         "\"history\": expected a list of [prompt, answer]"},
    };
    mf_corpus_spec s = corpus_spec("", NULL);
    s.split = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s.path = text_file("turns.jsonl", bad[i].line);
        corpus_refuse(&s, MF_EINPUT, bad[i].says);
    }
}
END_TEST

/* If the configuration names the members, only these are read. A warning names the other
 * members of the lines. */
START_TEST(members_by_name)
{
    mf_corpus_spec s = corpus_spec(
        text_file("turns.jsonl", "{\"instruction\":\"Do.\",\"input\":\"x\",\"output\":\"ok\"}"),
        NULL);
    s.split = 1;
    s.prompt_field = "instruction";
    s.answer_field = "output";
    mf_corpus *c = load_and_log(&s);
    ck_assert_int_eq(c->tokens, 5);
    ck_assert_ptr_nonnull(strstr(logged, "members that are not read: input"));
    mf_corpus_free(c);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("turns");
    TCase *t = tcase_create("members");
    tcase_add_test(t, members_of_prompts);
    tcase_add_test(t, members_of_messages);
    tcase_add_test(t, skipped_lines);
    tcase_add_test(t, refused_members);
    tcase_add_test(t, members_by_name);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
