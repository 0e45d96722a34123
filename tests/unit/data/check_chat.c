/* chat: templates of conversations that are recognized, and messages in their forms. Expected
 * texts are the output of the templates in their own language. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/corpus.h"
#include "data/turns.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOP "{% for message in messages %}"
#define SYSTEM(TEXT)                                                                           \
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n" TEXT     \
    "<|im_end|>\n' }}{% endif %}"
#define CHATML                                                                                 \
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"   \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define MISTRAL(END)                                                                           \
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != "        \
    "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "          \
    "user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}"      \
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' " \
    "%}{{ message['content'] + eos_token" END "}}{% else %}{{ raise_exception('Only user and " \
    "assistant roles are supported!') }}{% endif %}{% endfor %}"

START_TEST(templates)
{
    static const struct {
        const char *template;
        bool known;
        mf_chat_form form;
        const char *system;
        bool blank;
    } table[] = {
        {NULL, true, MF_CHAT_PLAIN, "", false},
        {LOOP CHATML, true, MF_CHAT_CHATML, "", false},
        {"{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
         "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if "
         "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
         true, MF_CHAT_CHATML, "", false},
        {LOOP SYSTEM("You are a helpful assistant.") CHATML, true, MF_CHAT_CHATML,
         "You are a helpful assistant.", false},
        {LOOP SYSTEM("Be  brief.\n") CHATML, true, MF_CHAT_CHATML, "Be  brief.\n", false},
        {LOOP SYSTEM("You are a helpful assistant") "{{'<|im_start|>' + message['role'] + '\n' "
                                                    "+ message['content']}}"
                                                    "{% if (loop.last and "
                                                    "add_generation_prompt) or not loop.last %}"
                                                    "{{ '<|im_end|>' + '\n'}}{% endif %}{% "
                                                    "endfor %}{% if add_generation_prompt and "
                                                    "messages[-1]['role'] != 'assistant' %}{{ "
                                                    "'<|im_start|>assistant\n' }}{% endif %}",
         true, MF_CHAT_CHATML, "You are a helpful assistant", false},
        {MISTRAL(""), true, MF_CHAT_MISTRAL, "", false},
        {MISTRAL(" + ' ' "), true, MF_CHAT_MISTRAL, "", true},
        {"", false, MF_CHAT_PLAIN, "", false},
        {LOOP, false, MF_CHAT_PLAIN, "", false},
        {LOOP CHATML "x", false, MF_CHAT_PLAIN, "", false},
        {LOOP " " CHATML, false, MF_CHAT_PLAIN, "", false}, /* a blank outside the commands is
                                                             * part of the text */
        {LOOP SYSTEM("a' + x + 'b") CHATML, false, MF_CHAT_PLAIN, "", false},
        {MISTRAL(" + '  '"), false, MF_CHAT_PLAIN, "", false},
        {"{{ bos_token", false, MF_CHAT_PLAIN, "", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const mf_tokenizer t = {.chat_template = table[i].template};
        mf_chat c;
        ck_assert_msg(mf_chat_of(&t, &c) == table[i].known, "case %zu", i);
        ck_assert_msg(c.form == table[i].form, "case %zu", i);
        ck_assert_str_eq(c.system, table[i].system);
        ck_assert(c.blank == table[i].blank);
    }
    /* a system message that is too long */
    static char text[2048];
    snprintf(text, sizeof text, "%s%s%0400d%s", LOOP,
             "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n",
             0, "<|im_end|>\n' }}{% endif %}" CHATML);
    const mf_tokenizer t = {.chat_template = text};
    mf_chat c;
    ck_assert(!mf_chat_of(&t, &c) && c.form == MF_CHAT_PLAIN);
}
END_TEST

static mf_tokenizer *small(const char *name)
{
    char path[2048];
    mf_tokenizer *t;
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/pretrained/tokenizers/%s/tokenizer.json",
             srcdir ? srcdir : ".", name);
    ck_assert_msg(mf_tokenizer_load(path, &t) == MF_OK, "%s", mf_error_message());
    return t;
}

START_TEST(messages)
{
    static const struct {
        mf_chat chat;
        bool first;
        const char *expected;
    } table[] = {
        {{.form = MF_CHAT_PLAIN}, true, "Hi"},
        {{.form = MF_CHAT_CHATML},
         true,
         "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {{.form = MF_CHAT_CHATML, .system = "Be."},
         true,
         "<|im_start|>system\nBe.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
         "<|im_start|>assistant\n"},
        {{.form = MF_CHAT_CHATML, .system = "Be."},
         false,
         "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {{.form = MF_CHAT_MISTRAL}, true, "<s>[INST] Hi [/INST]"},
        {{.form = MF_CHAT_MISTRAL}, false, "</s>[INST] Hi [/INST]"},
        {{.form = MF_CHAT_MISTRAL, .blank = true}, false, "</s> [INST] Hi [/INST]"},
    };
    mf_tokenizer *t = small("mistral");
    char *text;
    size_t n;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        ck_assert_int_eq(mf_chat_message(&table[i].chat, t, table[i].first, "Hi", 2, &text, &n),
                         MF_OK);
        ck_assert_str_eq(text, table[i].expected);
        ck_assert_uint_eq(n, strlen(text));
        mf_free(text);
    }
    mf_ids begin = {0};
    ck_assert_int_eq(mf_tokenizer_begin(t, &begin), MF_OK);
    ck_assert(begin.n == 1 && begin.id[0] == t->special[MF_SPECIAL_BOS]);
    mf_ids_free(&begin);
    mf_tokenizer_free(t);
    t = small("gpt2"); /* the vocabulary has no <s> */
    const mf_chat mistral = {.form = MF_CHAT_MISTRAL};
    ck_assert_int_eq(mf_chat_message(&mistral, t, true, "Hi", 2, &text, &n), MF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "needs <bos>"));
    mf_tokenizer_free(t);
}
END_TEST

/* all: the text of all tokens of a conversation; counted: the text of the tokens that count in
 * the loss. system: whether the conversation has a system message. */
static void turn_into(const mf_tokenizer *t, const mf_chat *form, bool system, char *all,
                      char *counted)
{
    mf_turn turns[] = {{MF_ROLE_SYSTEM, 0, 3, false},
                       {MF_ROLE_USER, 4, 2, false},
                       {MF_ROLE_ASSISTANT, 7, 5, false},
                       {MF_ROLE_USER, 13, 4, false},
                       {MF_ROLE_ASSISTANT, 18, 2, false}};
    const mf_source s = {.text = (char *)"Be.\nHi\nHello\nWhy?\nOk\n", .turns = turns};
    const mf_document d = {.turns = !system, .n_turns = 4 + system, .messages = true};
    mf_ids ids = {0}, marks = {0};
    ck_assert_msg(mf_turns_encode(t, form, "line", &s, &d, &ids, &marks) == MF_OK, "%s",
                  mf_error_message());
    ck_assert_uint_eq(ids.n, marks.n);
    all[0] = counted[0] = 0;
    for (size_t i = 0; i < ids.n; i++) {
        size_t n;
        const char *piece = mf_tokenizer_piece(t, ids.id[i], &n);
        strncat(all, piece, n);
        if (marks.id[i]) strncat(counted, piece, n);
    }
    mf_ids_free(&ids);
    mf_ids_free(&marks);
}

/* The small Mistral tokenizer, with a blank added only before the first word of a text. */
static mf_tokenizer *first_only(void)
{
    static const char
        old[] = "\"pre_tokenizer\": null",
        new[] =
            "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", "
            "\"prepend_scheme\": \"first\", \"split\": false}",
        normal[] = "\"normalizer\": ";
    char path[2048], *text, *all;
    size_t n;
    mf_tokenizer *t;
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/pretrained/tokenizers/mistral/tokenizer.json",
             srcdir ? srcdir : ".");
    ck_assert_int_eq(mf_read_file(path, 0, &text, &n), MF_OK);
    char *from = strstr(text, normal), *at = strstr(text, old);
    ck_assert(from && at && from < at);
    all =
        mf_strf("%.*s%snull, %s%s", (int)(from - text), text, normal, new, at + sizeof old - 1);
    ck_assert_msg(mf_tokenizer_parse("first", all, strlen(all), &t) == MF_OK, "%s",
                  mf_error_message());
    mf_free(all);
    mf_free(text);
    return t;
}

/* A conversation must have the same tokens in training and in generation, where the tokens of
 * the answer are between both messages. */
static void same_as_generated(mf_tokenizer *t, const mf_chat *form)
{
    mf_turn turns[] = {{MF_ROLE_USER, 0, 2, false},
                       {MF_ROLE_ASSISTANT, 3, 5, false},
                       {MF_ROLE_USER, 9, 4, false}};
    const mf_source s = {.text = (char *)"Hi\nHello\nWhy?\n", .turns = turns};
    const mf_document d = {.n_turns = 3, .messages = true};
    mf_ids ids = {0}, marks = {0}, said = {0};
    char *text;
    size_t n, end = 0;
    ck_assert_int_eq(mf_turns_encode(t, form, "line", &s, &d, &ids, &marks), MF_OK);
    for (int i = 0; i < 2; i++) {
        const bool first = i == 0;
        ck_assert_int_eq(
            mf_chat_message(form, t, first, first ? "Hi" : "Why?", first ? 2 : 4, &text, &n),
            MF_OK);
        ck_assert_int_eq(mf_tokenizer_encode(t, "message", text, n, &said), MF_OK);
        mf_free(text);
        /* the answer without its end token */
        while (first && said.n < ids.n && marks.id[said.n + 1])
            mf_ids_push(&said, ids.id[said.n], 0);
    }
    ck_assert_uint_ge(said.n, 8);
    while (end < ids.n && end < said.n && ids.id[end] == said.id[end])
        end++;
    /* A conversation in training does not end with the beginning of an answer. */
    ck_assert_msg(end == ids.n, "token %zu of %zu differs", end, ids.n);
    mf_ids_free(&ids);
    mf_ids_free(&marks);
    mf_ids_free(&said);
    mf_tokenizer_free(t);
}

START_TEST(training_and_generation_have_the_same_tokens)
{
    const mf_chat mistral = {.form = MF_CHAT_MISTRAL},
                  blank = {.form = MF_CHAT_MISTRAL, .blank = true},
                  chatml = {.form = MF_CHAT_CHATML, .system = "Be."};
    same_as_generated(small("mistral"), &mistral);
    same_as_generated(small("mistral"), &blank);
    same_as_generated(small("qwen2"), &chatml);
    same_as_generated(first_only(), &mistral);
}
END_TEST

START_TEST(what_is_learned)
{
    char all[512], counted[512];
    mf_tokenizer *t = small("qwen2");
    mf_chat form = {.form = MF_CHAT_CHATML, .system = "S"};
    turn_into(t, &form, false, all, counted);
    ck_assert_str_eq(all, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                          "<|im_start|>assistant\nHello<|im_end|>\n"
                          "<|im_start|>user\nWhy?<|im_end|>\n"
                          "<|im_start|>assistant\nOk<|im_end|>\n");
    ck_assert_str_eq(counted, "Hello<|im_end|>Ok<|im_end|>");
    turn_into(t, &form, true, all, counted);
    ck_assert_int_eq(strncmp(all, "<|im_start|>system\nBe.<|im_end|>\n<|im_start|>user\n", 50),
                     0);
    form = (mf_chat){0};
    turn_into(t, &form, false, all, counted);
    ck_assert_int_eq(strncmp(all, "Hi\nHello", 8), 0);
    ck_assert_int_eq(strncmp(counted, "Hello", 5), 0);
    mf_tokenizer_free(t);
    t = small("mistral");
    form = (mf_chat){.form = MF_CHAT_MISTRAL};
    turn_into(t, &form, false, all, counted);
    ck_assert_str_eq(all, "<s> [INST] Hi [/INST] Hello</s> [INST] Why? [/INST] Ok</s>");
    ck_assert_str_eq(counted, " Hello</s> Ok</s>");
    mf_ids ids = {0}, marks = {0};
    mf_turn wrong = {MF_ROLE_ASSISTANT, 0, 2, false};
    const mf_source s = {.text = (char *)"Hi\n", .turns = &wrong};
    const mf_document d = {.n_turns = 1, .messages = true};
    ck_assert_int_eq(mf_turns_encode(t, &form, "line", &s, &d, &ids, &marks), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "user and assistant in turns"));
    mf_tokenizer_free(t);
    const mf_tokenizer other = {.chat_template = "{{ other"};
    ck_assert_int_eq(mf_turns_form(&other, true, &form), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(),
                     "the tokenizer's chat template is not read: chat_template:1: a value "
                     "without }}; data.chat = no reads messages without it");
    ck_assert_int_eq(mf_turns_form(&other, false, &form), MF_OK);
}
END_TEST

/* Templates that are rendered: with {% generation %}, and by the difference of renderings. */
START_TEST(rendered)
{
    static const char head[] =
        "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}:",
                      *const tails[] = {
                          "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}"
                          "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
                          "{% endfor %}",
                          "{{ m.content | trim }}<|im_end|>\n{% endfor %}"
                          "{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}",
                          "{% if loop.last %}last {% endif %}{{ m.content }}{% endfor %}"};
    char all[512], counted[512];
    mf_tokenizer *t = small("qwen2");
    for (int i = 0; i < 3; i++) {
        mf_jinja *j;
        char *text = mf_strf("%s%s", head, tails[i]);
        ck_assert_msg(mf_jinja_new("t", text, strlen(text), &j) == MF_OK, "%s",
                      mf_error_message());
        t->chat_template = text;
        t->jinja = j;
        mf_chat form;
        ck_assert(mf_chat_of(t, &form));
        ck_assert_int_eq(form.form, MF_CHAT_TEMPLATE);
        if (i < 2) {
            turn_into(t, &form, false, all, counted);
            ck_assert_str_eq(counted, i == 0 ? "Hello<|im_end|>Ok<|im_end|>"
                                             : "Hello<|im_end|>\nOk<|im_end|>\n");
            ck_assert_str_eq(
                all, i == 0 ? "<|im_start|>user:Hi<|im_start|>assistant:Hello<|im_end|>"
                              "<|im_start|>user:Why?<|im_start|>assistant:Ok<|im_end|>"
                            : "<|im_start|>user:Hi<|im_end|>\n<|im_start|>assistant:Hello"
                              "<|im_end|>\n<|im_start|>user:Why?<|im_end|>\n<|im_start|>"
                              "assistant:Ok<|im_end|>\n");
        } else { /* an answer that is the last one is written otherwise */
            mf_turn turns[] = {{MF_ROLE_ASSISTANT, 0, 2, false},
                               {MF_ROLE_ASSISTANT, 0, 2, false}};
            const mf_source s = {.text = (char *)"Hi\n", .turns = turns};
            const mf_document d = {.n_turns = 2, .messages = true};
            mf_ids ids = {0}, marks = {0};
            ck_assert_int_eq(mf_turns_encode(t, &form, "line", &s, &d, &ids, &marks),
                             MF_EINPUT);
            ck_assert_ptr_nonnull(
                strstr(mf_error_message(), "line: message 1: the tokenizer's"));
            mf_ids_free(&ids);
            mf_ids_free(&marks);
        }
        if (i == 1) {
            char *said;
            size_t n;
            ck_assert_int_eq(mf_chat_message(&form, t, true, "Hi", 2, &said, &n), MF_OK);
            ck_assert_str_eq(said, "<|im_start|>user:Hi<|im_end|>\n<|im_start|>assistant:");
            ck_assert_uint_eq(n, strlen(said));
            mf_free(said);
            ck_assert_int_eq(mf_chat_message(&form, t, false, "Why?", 4, &said, &n), MF_OK);
            ck_assert_str_eq(
                said, "<|im_end|>\n<|im_start|>user:Why?<|im_end|>\n<|im_start|>assistant:");
            mf_free(said);
        }
        mf_jinja_free(j);
        t->chat_template = NULL;
        t->jinja = NULL;
        mf_free(text);
    }
    mf_tokenizer_free(t);
}
END_TEST

static const char *file(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    scratch_write(path, text, strlen(text));
    return path;
}

/* One file contains texts, in which all tokens count, and a prompt with its answer. */
START_TEST(files_of_texts_and_turns)
{
    static const char lines[] = "{\"text\":\"abc\"}\n"
                                "{\"prompt\":\"what\",\"answer\":\"that\"}\n"
                                "{\"text\":\"de\"}\n",
                      text[] = "abcwhatthatde", counts[] = "1110000111111";
    mf_corpus_spec s;
    mf_corpus *c;
    mf_corpus_defaults(&s);
    s.path = file("turns.jsonl", lines);
    s.split = 1;
    ck_assert_msg(mf_corpus_load(&s, &c) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(c->tokens, sizeof text - 1);
    ck_assert_ptr_nonnull(c->counted);
    for (int i = 0; i < (int)sizeof text - 1; i++) {
        ck_assert_int_eq(mf_corpus_id(c, i), text[i]);
        ck_assert_int_eq(c->counted[i], counts[i] - '0');
    }
    mf_corpus_free(c);
    s.path = file("turns.jsonl", "{\"messages\":{\"role\":\"user\",\"content\":\"a\"}}\n");
    ck_assert_int_eq(mf_corpus_load(&s, &c), MF_EINPUT);
    ck_assert_ptr_nonnull(
        strstr(mf_error_message(), "turns.jsonl:1: messages: expected a list"));
}
END_TEST

/* ---- functions ---- */

/* The document of a line, as tokens of bytes with a template: the text of all tokens, and of
 * those that count. */
static int encode_line(const char *template, const char *line, char **ret_all,
                       char **ret_counted)
{
    mf_tokenizer *t = NULL;
    mf_source s = {0};
    mf_ids ids = {0}, marks = {0};
    mf_chat form = {.form = MF_CHAT_PLAIN};
    const mf_columns columns = {.text = NULL};
    const mf_source_options how = {.cache = "", .columns = &columns};
    mf_jinja *j = NULL;
    const char *path = file("line.jsonl", line);
    *ret_all = *ret_counted = NULL;
    ck_assert_int_eq(mf_tokenizer_train("byte", "", "", 0, NULL, &t), MF_OK);
    if (template) {
        ck_assert_msg(mf_jinja_new("t", template, strlen(template), &j) == MF_OK, "%s",
                      mf_error_message());
        t->chat_template = template;
        t->jinja = j;
        ck_assert(mf_chat_of(t, &form));
    }
    int rc = mf_source_load(&s, path, MF_FORMAT_JSONL, &how);
    if (rc == MF_OK) {
        ck_assert_int_eq(s.n_documents, 1);
        rc = mf_turns_encode(t, &form, "line", &s, &s.documents[0], &ids, &marks);
    }
    if (rc == MF_OK) {
        ck_assert_uint_eq(ids.n, marks.n);
        char *all = mf_alloc(ids.n + 1, 1), *counted = mf_alloc(ids.n + 1, 1);
        ck_assert(all && counted);
        for (size_t i = 0, n = 0; i < ids.n; i++) {
            all[i] = (char)ids.id[i];
            if (marks.id[i]) counted[n++] = (char)ids.id[i];
        }
        *ret_all = all;
        *ret_counted = counted;
    }
    mf_ids_free(&ids);
    mf_ids_free(&marks);
    mf_source_free(&s);
    t->chat_template = NULL;
    t->jinja = NULL;
    mf_jinja_free(j);
    mf_tokenizer_free(t);
    return rc;
}

/* Lines with tools, calls and results, as apply_chat_template of transformers writes them.
 * text null: the template refuses the line; counted null: its answers are no parts of the
 * whole. MOEFW_TOOLS names another file of that form. */
START_TEST(functions)
{
    char path[2048], *text;
    size_t n;
    mf_json *doc;
    const char *srcdir = getenv("srcdir"), *other = getenv("MOEFW_TOOLS");
    snprintf(path, sizeof path, "%s/tests/golden/chat/tools.json", srcdir ? srcdir : ".");
    ck_assert_int_eq(mf_read_file(other ? other : path, 0, &text, &n), MF_OK);
    ck_assert_int_eq(mf_json_parse(path, text, n, &doc), MF_OK);
    const mf_json *cases = mf_json_get(doc, "cases");
    int same = 0;
    for (size_t i = 0; i < mf_json_size(cases); i++) {
        const mf_json *one = mf_json_at(cases, i);
        const char *template = mf_json_string(mf_json_get(one, "template"), NULL),
                   *line = mf_json_string(mf_json_get(one, "line"), NULL),
                   *want = mf_json_string(mf_json_get(one, "text"), NULL),
                   *learned = mf_json_string(mf_json_get(one, "counted"), NULL);
        char *all, *counted;
        const int rc = encode_line(template, line, &all, &counted);
        if (rc != MF_OK) {
            const bool silent = strstr(mf_error_message(), "does not write them") != NULL;
            ck_assert_msg(!want || !learned || silent, "%s: %s", line, mf_error_message());
            continue;
        }
        ck_assert_msg(want && strcmp(all, want) == 0, "%s: %s, expected %s", line, all,
                      want ? want : "an error");
        ck_assert_msg(learned && strcmp(counted, learned) == 0, "%s: %s, expected %s", line,
                      counted, learned ? learned : "an error");
        same++;
        mf_free(all);
        mf_free(counted);
    }
    ck_assert_int_ge(same, 12);
    fprintf(stderr, "# %d of %zu lines with functions are equal\n", same, mf_json_size(cases));
    mf_json_free(doc);
    mf_free(text);
}
END_TEST

#define CALL(ARGUMENTS)                                                                        \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\","            \
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":" ARGUMENTS "}}]}]}"
#define ANSWER(MORE)                                                                           \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\","            \
    "\"content\":"                                                                             \
    "\"a\"" MORE "}"

START_TEST(functions_that_are_refused)
{
    static const char silent[] = "{% for m in messages %}{{ m.content }}{% endfor %}",
                      calls[] = "{% for m in messages %}{{ m.tool_calls }}{% endfor %}";
    static const struct {
        const char *template, *line, *why;
    } cases[] = {
        {NULL, CALL("{}"),
         "line: messages with tools, tool_calls or the role tool: expected a "
         "tokenizer with a chat template"},
        {silent, CALL("{}"), "line: \"tool_calls\": the tokenizer's chat template does not"},
        {calls, ANSWER("}],\"tools\":[{}]"), "line: \"tools\": the tokenizer's chat template"},
        {calls, CALL("7"), "line.jsonl:1: message 2: \"tool_calls\": expected, of the"},
        {calls, ANSWER(",\"tool_calls\":{\"a\":1}}]"), "message 2: \"tool_calls\": expected,"},
        {calls, "{\"messages\":[{\"role\":\"user\",\"content\":\"u\",\"tool_calls\":[{}]}]}",
         "message 1: \"tool_calls\": expected, of the assistant"},
        {calls, ANSWER("}],\"tools\":{\"a\":1}"), "line.jsonl:1: \"tools\": expected a list"},
        {calls, ANSWER("}],\"tools\":[1]"), "line.jsonl:1: \"tools\": expected a list"},
        {calls, ANSWER("}],\"tools\":\"[{\""), "line.jsonl:1: \"tools\": expected a list"},
        {calls, ANSWER(",\"function_call\":{\"name\":\"f\"}}]"),
         "message 2: \"function_call\" is not read: expected \"tool_calls\""},
        {calls, "{\"conversations\":[{\"from\":\"gpt\",\"value\":\"v\"}],\"tools\":[{}]}",
         "message 1: expected \"role\" and \"content\" in messages with functions"},
        {calls, "{\"messages\":[{\"role\":\"tool\",\"content\":3}]}",
         "message 1: expected \"role\": system, user, tool or assistant"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *all, *counted;
        ck_assert_int_eq(encode_line(cases[i].template, cases[i].line, &all, &counted),
                         MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), cases[i].why) != NULL, "%s, expected %s",
                      mf_error_message(), cases[i].why);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("chat");
    TCase *c = tcase_create("chat");
    tcase_add_test(c, templates);
    tcase_add_test(c, messages);
    tcase_add_test(c, training_and_generation_have_the_same_tokens);
    tcase_add_test(c, what_is_learned);
    tcase_add_test(c, rendered);
    tcase_add_test(c, files_of_texts_and_turns);
    tcase_add_test(c, functions);
    tcase_add_test(c, functions_that_are_refused);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
