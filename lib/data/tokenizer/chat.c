/* data/tokenizer/chat.c: recognizes templates of conversations by their text. Two texts are the
 * same template if they differ only in blanks inside of tags, or in the way they write a
 * line end. */
#include "data/tokenizer/chat.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

static const char loop[] = "{% for message in messages %}";
/* Some ChatML templates contain a message of the system after the head of the loop. These are
 * the texts before and after this message. */
static const char system_front[] = "{% if loop.first and messages[0]['role'] != 'system' %}"
                                   "{{ '<|im_start|>system\n";
static const char system_back[] = "<|im_end|>\n' }}{% endif %}";
static const char *const chatml[] = {
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{% if (loop.last and add_generation_prompt) or not loop.last %}"
    "{{ '<|im_end|>' + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"};
#define MISTRAL(END)                                                                           \
    "{{ bos_token }}{% for message in messages %}"                                             \
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("        \
    "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"     \
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"      \
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token" END " }}"     \
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}"          \
    "{% endif %}{% endfor %}"
static const char *const mistral[] = {MISTRAL(""), MISTRAL(" + ' '")};

/* Reads a template and skips blanks that do not change it. */
typedef struct scan {
    const char *at;
    bool tag, quoted;
} scan;

/* Returns the next character and moves past it; 0 at the end. Blanks between the tokens of a
 * tag are skipped. */
static char next(scan *s)
{
    while (s->tag && !s->quoted && *s->at == ' ')
        s->at++;
    const char c = *s->at;
    if (!c) return 0;
    if (s->tag && c == '\'') s->quoted = !s->quoted;
    if (!s->quoted && c == '{' && (s->at[1] == '{' || s->at[1] == '%')) s->tag = true;
    if (!s->quoted && c == '}') s->tag = s->at[1] == '}';
    const bool line = s->quoted && c == '\\' && s->at[1] == 'n';
    s->at += line ? 2 : 1;
    return line ? '\n' : c;
}

/* Whether the template continues with these characters. If it does, *s moves past them. */
static bool begins(scan *s, const char *with)
{
    scan text = *s, other = {.at = with, .tag = s->tag, .quoted = s->quoted};
    for (char c; (c = next(&other)) != 0;)
        if (next(&text) != c) return false;
    *s = text;
    return true;
}

static bool is(scan s, const char *all)
{
    return begins(&s, all) && next(&s) == 0;
}

/* Reads the system's message to its end. */
static bool read_system(scan *s, char system[MF_CHAT_SYSTEM])
{
    for (size_t n = 0; n + 1 < MF_CHAT_SYSTEM; n++) {
        if (begins(s, system_back)) {
            system[n] = 0;
            return true;
        }
        if ((system[n] = next(s)) == 0 || !s->quoted) break;
    }
    return false;
}

static bool is_chatml(const char *template, mf_chat *ret)
{
    scan s = {.at = template};
    if (!begins(&s, loop)) return false;
    if (begins(&s, system_front) && !read_system(&s, ret->system)) return false;
    return is(s, chatml[0]) || is(s, chatml[1]);
}

bool mf_chat_of(const mf_tokenizer *t, mf_chat *ret)
{
    *ret = (mf_chat){0};
    if (!t->chat_template) return true;
    if (is_chatml(t->chat_template, ret)) {
        ret->form = MF_CHAT_CHATML;
        return true;
    }
    *ret = (mf_chat){0};
    for (int i = 0; i < 2; i++)
        if (is((scan){.at = t->chat_template}, mistral[i])) {
            ret->form = MF_CHAT_MISTRAL;
            ret->blank = i == 1;
        }
    if (ret->form == MF_CHAT_MISTRAL) return true;
    mf_jinja *again = NULL;
    if (t->jinja)
        *ret = (mf_chat){.form = MF_CHAT_TEMPLATE, .jinja = t->jinja};
    else /* for the message */
        mf_jinja_new("chat_template", t->chat_template, strlen(t->chat_template), &again);
    mf_jinja_free(again);
    return t->jinja != NULL;
}

/* ---- messages ---- */

/* Returns the text of a special token. NULL, with the error recorded: the tokenizer has no
 * such token. */
static char *name_of(const mf_tokenizer *t, mf_special special)
{
    size_t n = 0;
    const char *text = mf_tokenizer_piece(t, t->special[special], &n);
    if (n > 0) return mf_strndup(text, n);
    mf_fail(MF_EUSAGE, "this form of a conversation needs %s, which the tokenizer lacks",
            mf_special_name(special));
    return NULL;
}

static char *mistral_front(const mf_chat *c, const mf_tokenizer *t, bool first)
{
    char *name = name_of(t, first ? MF_SPECIAL_BOS : MF_SPECIAL_EOS),
         *all = name ? mf_strf("%s%s[INST] ", name, !first && c->blank ? " " : "") : NULL;
    mf_free(name);
    return all;
}

static char *chatml_front(const mf_chat *c, bool first)
{
    const bool system = first && c->system[0];
    return mf_strf("%s%s%s%s", system ? "<|im_start|>system\n" : "", system ? c->system : "",
                   system || !first ? "<|im_end|>\n" : "", "<|im_start|>user\n");
}

/* ---- templates ---- */

/* Returns the text of a special token, which the caller frees; NULL: there is none. */
static char *special_text(const mf_tokenizer *t, mf_special special)
{
    size_t n = 0;
    const char *text =
        t->special[special] >= 0 ? mf_tokenizer_piece(t, t->special[special], &n) : NULL;
    return n > 0 ? mf_strndup(text, n) : NULL;
}

int mf_chat_render(const mf_chat *c, const mf_tokenizer *t, const mf_json *messages,
                   const mf_json *tools, size_t most, bool prompt, mf_jinja_result *ret)
{
    static const struct {
        const char *name;
        mf_special special;
    } tokens[] = {{"bos_token", MF_SPECIAL_BOS},
                  {"eos_token", MF_SPECIAL_EOS},
                  {"pad_token", MF_SPECIAL_PAD},
                  {"unk_token", MF_SPECIAL_UNK}};
    char *text[4] = {NULL, NULL, NULL, NULL};
    mf_jinja_variable v[8] = {
        {.name = "messages", .value = messages, .is_messages = true, .most = most},
        {.name = "tools", .value = tools},
        {.name = "documents"},
        {.name = "add_generation_prompt", .is_bool = true, .boolean = prompt}};
    int n = 4;
    for (int i = 0; i < 4; i++) {
        text[i] = special_text(t, tokens[i].special);
        if (text[i]) v[n++] = (mf_jinja_variable){.name = tokens[i].name, .text = text[i]};
    }
    const int rc = mf_jinja_render(c->jinja, v, n, NULL, ret);
    for (int i = 0; i < 4; i++)
        mf_free(text[i]);
    return rc;
}

/* What stands for an earlier answer: characters of private use. */
#define ANSWER "\xEE\x80\x81\xEE\x80\x82\xEE\x80\x81"

/* Makes the text of a message by rendering a conversation. If it follows an answer, ANSWER
 * stands for this in a conversation of three messages, and what is behind it is the text. */
static int template_message(const mf_chat *c, const mf_tokenizer *t, bool first,
                            const char *text, size_t n, char **ret, size_t *ret_n)
{
    static const char *const before[][2] = {{"user", "?"}, {"assistant", ANSWER}};
    mf_jinja_result all = {0};
    mf_json *messages = NULL;
    size_t size = 0;
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_array(w);
    for (int i = first ? 2 : 0; i < 2; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "role", before[i][0]);
        mf_jw_kv_string(w, "content", before[i][1]);
        mf_jw_end(w);
    }
    mf_jw_object(w);
    mf_jw_kv_string(w, "role", "user");
    mf_jw_key(w, "content");
    mf_jw_string_n(w, text, n);
    mf_jw_end(w);
    mf_jw_end(w);
    const char *json = mf_jw_text(w, &size);
    int rc = json ? mf_json_parse("message", json, size, &messages) : mf_error_code();
    mf_jw_free(w);
    if (rc == MF_OK) rc = mf_chat_render(c, t, messages, NULL, 0, true, &all);
    mf_json_free(messages);
    mf_free(all.answer);
    const char *answer =
        rc == MF_OK && !first ? memmem(all.text, all.n, ANSWER, strlen(ANSWER)) : all.text;
    if (rc == MF_OK && !answer)
        rc = mf_fail(MF_EINPUT, "the tokenizer's chat template writes no earlier answer");
    if (rc == MF_OK) {
        const size_t at = first ? 0 : (size_t)(answer - all.text) + strlen(ANSWER);
        *ret_n = all.n - at;
        *ret = mf_memdup(all.text + at, all.n - at + 1);
        if (!*ret) rc = MF_ENOMEM;
    }
    mf_free(all.text);
    return rc;
}

int mf_chat_message(const mf_chat *c, const mf_tokenizer *t, bool first, const char *text,
                    size_t n, char **ret, size_t *ret_n)
{
    static const char *const backs[] = {[MF_CHAT_PLAIN] = "",
                                        [MF_CHAT_CHATML] =
                                            "<|im_end|>\n<|im_start|>assistant\n",
                                        [MF_CHAT_MISTRAL] = " [/INST]"};
    *ret = NULL;
    if (c->form == MF_CHAT_TEMPLATE) return template_message(c, t, first, text, n, ret, ret_n);
    char *front = c->form == MF_CHAT_MISTRAL  ? mistral_front(c, t, first)
                  : c->form == MF_CHAT_CHATML ? chatml_front(c, first)
                                              : mf_strdup("");
    if (!front) return mf_error_code();
    const size_t n_front = strlen(front), n_back = strlen(backs[c->form]);
    *ret_n = n_front + n + n_back;
    *ret = mf_alloc_raw(*ret_n + 1);
    if (*ret) {
        memcpy(*ret, front, n_front);
        memcpy(*ret + n_front, text, n);
        memcpy(*ret + n_front + n, backs[c->form], n_back + 1);
    }
    mf_free(front);
    return *ret ? MF_OK : MF_ENOMEM;
}
