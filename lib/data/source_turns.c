/* data/source_turns.c: lines of jsonl that are a prompt with its answer, or messages. Only
 * their texts and roles are kept, and of messages with functions the whole line. How they
 * become one text depends on the tokenizer, which is chosen later (data/turns.h). A member that
 * changes the meaning of a line is read or refused. All other members are noted, so nothing is
 * skipped without a message. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/json.h"
#include "data/members/learned.h"
#include "data/source.h"

enum { PARTS_MAX = 64 };

/* The usual names in files of Alpaca, Dolly, OpenAI and ShareGPT. */
static const char *const prompts[] = {"prompt", "question", "instruction", "input", NULL};
static const char *const answers[] = {"answer", "completion", "response", "output", NULL};
static const char *const lists[] = {"messages", "conversations", NULL};
/* These texts follow the prompt. */
static const char *const inputs[] = {"input", "context", NULL};
static const char *const systems[] = {"system", NULL};
static const char *const histories[] = {"history", NULL};

static const struct {
    const char *name;
    mf_role role;
} roles[] = {{"system", MF_ROLE_SYSTEM},       {"user", MF_ROLE_USER},
             {"assistant", MF_ROLE_ASSISTANT}, {"developer", MF_ROLE_SYSTEM},
             {"human", MF_ROLE_USER},          {"gpt", MF_ROLE_ASSISTANT}};

/* The members of an object that were read. */
typedef struct reader {
    mf_source *s;
    const char *name; /* name of the line, for messages */
    const mf_json *object;
    const mf_json *read[PARTS_MAX];
    int n_read;
    const char *line; /* its n_line bytes */
    size_t n_line;
    mf_document *d;
} reader;

typedef struct part {
    const char *text;
    size_t n;
} part;

static bool given(const char *name)
{
    return name && *name != 0;
}

static const mf_json *take(reader *r, const mf_json *v)
{
    if (v && r->n_read < PARTS_MAX) r->read[r->n_read++] = v;
    return v;
}

/* Returns the member with the given name, else the first member with a usual name. */
static const mf_json *member(const reader *r, const char *name, const char *const *usual)
{
    const mf_json *v = NULL;
    if (given(name)) return mf_json_get(r->object, name);
    for (; !v && *usual; usual++)
        v = mf_json_get(r->object, *usual);
    return v;
}

/* Adds a turn of parts with `between` between them. The buffer has enough space: in the file, a
 * string with its quotes is longer than its text and a newline. */
static int add_turn(reader *r, mf_role role, bool counts, const part *parts, int n,
                    const char *between)
{
    mf_source *s = r->s;
    if (s->n_turns == s->turns_cap) {
        const int64_t cap = s->turns_cap < 256 ? 256 : s->turns_cap * 2;
        mf_turn *more =
            mf_realloc(s->turns, (size_t)s->n_turns * sizeof *more, (size_t)cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        s->turns = more;
        s->turns_cap = cap;
    }
    const size_t begin = s->size;
    for (int i = 0, any = 0; i < n; i++) {
        if (parts[i].n == 0) continue;
        if (any++) mf_source_append(s, between, strlen(between));
        mf_source_append(s, parts[i].text, parts[i].n);
    }
    s->turns[s->n_turns++] = (mf_turn){role, begin, s->size - begin, !counts};
    r->d->n += s->size - begin;
    mf_source_append(s, "\n", 1);
    r->d->n_turns++;
    return MF_OK;
}

/* ---- messages ---- */

/* Whether a value is empty: null, "", [] or {}. */
static bool is_empty(const mf_json *v)
{
    size_t n;
    switch (mf_json_typeof(v)) {
    case MF_JSON_NULL:
        return true;
    case MF_JSON_STRING:
        return mf_json_string(v, &n) && n == 0;
    case MF_JSON_ARRAY:
    case MF_JSON_OBJECT:
        return mf_json_size(v) == 0;
    default:
        return false;
    }
}

/* Reads the text of a message: a string, or a list of {"type": "text", "text": ...}. */
static bool read_content(const mf_json *v, part *parts, int *ret_n)
{
    *ret_n = 1;
    parts[0].text = mf_json_string(v, &parts[0].n);
    if (parts[0].text) return true;
    if (mf_json_typeof(v) != MF_JSON_ARRAY || mf_json_size(v) > PARTS_MAX) return false;
    for (*ret_n = 0; *ret_n < (int)mf_json_size(v); ++*ret_n) {
        const mf_json *one = mf_json_at(v, (size_t)*ret_n);
        const char *type = mf_json_string(mf_json_get(one, "type"), NULL);
        part *p = &parts[*ret_n];
        p->text = mf_json_string(mf_json_get(one, "text"), &p->n);
        if (!type || strcmp(type, "text") != 0 || !p->text) return false;
    }
    return *ret_n > 0;
}

static bool read_role(const mf_json *v, mf_role *ret)
{
    const char *who = mf_json_string(v, NULL);
    for (size_t i = 0; who && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].name, who) == 0) {
            *ret = roles[i].role;
            return true;
        }
    return false;
}

/* Reads whether an answer counts: "weight" is 0 or 1, "train" a truth value. Other numbers may
 * have another meaning (data/members/learned.h). */
static int read_weight(const reader *r, const mf_json *message, size_t i, bool *ret)
{
    static const char *const own[][2] = {{"weight", "0 or 1"}, {"train", "true or false"}};
    bool on;
    for (int k = 0; k < 2; k++) {
        const mf_json *v = mf_json_get(message, own[k][0]);
        if (mf_json_typeof(v) != MF_JSON_NULL && !mf_learned_value(v, &on))
            return mf_fail(MF_EINPUT, "%s: message %zu: \"%s\": expected %s", r->name, i + 1,
                           own[k][0], own[k][1]);
    }
    *ret = !mf_learned_not(message);
    return MF_OK;
}

/* Refuses members that a template would write but this reader cannot. Notes the other members
 * that are not read. A template gets all members of messages with functions. */
static int judge_members(const reader *r, const mf_json *message, size_t at)
{
    static const char *const read[] = {"role", "content", "from", "value", "tool_calls"};
    static const char *const refused[] = {"function_call"};
    const char *key;
    const mf_json *v;
    for (size_t i = 0; mf_json_member(message, i, &key, &v); i++) {
        bool known = is_empty(v), on;
        known = known || (mf_learned_names(key) && mf_learned_value(v, &on));
        for (size_t k = 0; k < sizeof read / sizeof *read && !known; k++)
            known = strcmp(key, read[k]) == 0;
        for (size_t k = 0; k < sizeof refused / sizeof *refused && !known; k++)
            if (strcmp(key, refused[k]) == 0)
                return mf_fail(
                    MF_EINPUT,
                    "%s: message %zu: \"%s\" is not read: expected \"tool_calls\", a "
                    "list of {\"function\": {\"name\": ..., \"arguments\": ...}}",
                    r->name, at + 1, key);
        if (!known && r->d->n_own == 0) mf_unread_note(&r->s->unread, "message", key);
    }
    return MF_OK;
}

/* ---- functions ---- */

static bool is_role(const mf_json *message, const char *role)
{
    const char *who = mf_json_string(mf_json_get(message, "role"), NULL);
    return who && strcmp(who, role) == 0;
}

/* Whether a value is a call in the form of OpenAI: {"function": {"name", "arguments"}}, or
 * what is in it alone. Arguments are an object, or its text, and a template gets them as
 * they are. */
static bool is_call(const mf_json *v)
{
    const mf_json *inner = mf_json_get(v, "function"), *f = inner ? inner : v,
                  *arguments = mf_json_get(f, "arguments");
    const mf_json_type type = mf_json_typeof(arguments);
    return mf_json_string(mf_json_get(f, "name"), NULL) &&
           (!arguments || type == MF_JSON_OBJECT || type == MF_JSON_STRING);
}

static int judge_calls(const reader *r, const mf_json *list)
{
    for (size_t i = 0; i < mf_json_size(list); i++) {
        const mf_json *v = mf_json_at(list, i), *calls = mf_json_get(v, "tool_calls");
        if (is_empty(calls)) continue;
        bool good = mf_json_typeof(calls) == MF_JSON_ARRAY && is_role(v, "assistant");
        for (size_t k = 0; good && k < mf_json_size(calls); k++)
            good = is_call(mf_json_at(calls, k));
        if (!good)
            return mf_fail(
                MF_EINPUT,
                "%s: message %zu: \"tool_calls\": expected, of the assistant, a list "
                "of {\"function\": {\"name\": ..., \"arguments\": an object, or its "
                "text}}",
                r->name, i + 1);
        r->d->calls = true;
    }
    return MF_OK;
}

/* The functions that the line lists: a list of objects, or its text. */
static int judge_tools(reader *r)
{
    const mf_json *v = take(r, mf_json_get(r->object, "tools"));
    mf_json *own = NULL;
    size_t n = 0;
    const char *text = mf_json_string(v, &n);
    if (is_empty(v)) return MF_OK;
    int rc = text ? mf_json_parse(r->name, text, n, &own) : MF_OK;
    const mf_json *list = text ? own : v;
    bool good = rc == MF_OK && mf_json_typeof(list) == MF_JSON_ARRAY;
    for (size_t i = 0; good && i < mf_json_size(list); i++)
        good = mf_json_typeof(mf_json_at(list, i)) == MF_JSON_OBJECT;
    r->d->tools = good && mf_json_size(list) > 0;
    mf_json_free(own);
    if (rc == MF_ENOMEM || good) return good ? MF_OK : rc;
    return mf_fail(MF_EINPUT, "%s: \"tools\": expected a list of objects, or its text",
                   r->name);
}

/* Keeps the line if its messages have functions. */
static int keep_line(reader *r, const mf_json *list)
{
    mf_source *s = r->s;
    bool results = false;
    int rc = judge_calls(r, list);
    if (rc == MF_OK) rc = judge_tools(r);
    for (size_t i = 0; i < mf_json_size(list) && !results; i++)
        results = is_role(mf_json_at(list, i), "tool");
    if (rc != MF_OK || !(r->d->calls || r->d->tools || results)) return rc;
    for (size_t i = 0; i < mf_json_size(list); i++)
        if (!mf_json_string(mf_json_get(mf_json_at(list, i), "role"), NULL))
            return mf_fail(MF_EINPUT,
                           "%s: message %zu: expected \"role\" and \"content\" in messages "
                           "with functions",
                           r->name, i + 1);
    if (s->own_size + r->n_line > s->own_cap) {
        const size_t cap = 2 * (s->own_size + r->n_line);
        char *more = mf_realloc(s->own, s->own_size, cap);
        if (!more) return MF_ENOMEM;
        s->own = more;
        s->own_cap = cap;
    }
    memcpy(s->own + s->own_size, r->line, r->n_line);
    r->d->own = s->own_size;
    r->d->n_own = r->n_line;
    s->own_size += r->n_line;
    return MF_OK;
}

static int add_message(reader *r, const mf_json *v, size_t i, bool *ret_learned)
{
    part parts[PARTS_MAX] = {{NULL, 0}};
    int n = 0;
    mf_role role = MF_ROLE_USER;
    bool counts = true;
    const mf_json *who = mf_json_get(v, "role"), *content = mf_json_get(v, "content");
    int rc = judge_members(r, v, i);
    if (rc == MF_OK) rc = read_weight(r, v, i, &counts);
    if (rc != MF_OK) return rc;
    const bool own = r->d->n_own > 0, tool = own && is_role(v, "tool");
    if (tool) role = MF_ROLE_TOOL;
    if (!content) content = mf_json_get(v, "value");
    if (!(tool || read_role(who ? who : mf_json_get(v, "from"), &role)) ||
        !(read_content(content, parts, &n) || (own && is_empty(content)) ||
          (tool && mf_json_typeof(content) == MF_JSON_OBJECT)))
        return mf_fail(MF_EINPUT,
                       "%s: message %zu: expected \"role\": system, user%s or assistant, "
                       "and \"content\", a string",
                       r->name, i + 1, own ? ", tool" : "");
    if (own && !parts[0].text) n = 0;
    counts = counts && role == MF_ROLE_ASSISTANT;
    *ret_learned = *ret_learned || counts;
    return add_turn(r, role, counts, parts, n, "");
}

static int add_messages(reader *r, const mf_json *list)
{
    bool learned = false;
    int rc = MF_OK;
    r->d->messages = true;
    if (mf_json_typeof(list) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "%s: messages: expected a list", r->name);
    rc = keep_line(r, list);
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++)
        rc = add_message(r, mf_json_at(list, i), i, &learned);
    if (rc == MF_OK && !learned)
        rc =
            mf_fail(MF_EINPUT,
                    "%s: no message is of the assistant and counts: nothing to learn", r->name);
    return rc;
}

/* ---- a prompt and its answer ---- */

/* Adds earlier prompts and answers, [[PROMPT, ANSWER], ...], which are not learned. */
static int add_history(reader *r, const mf_json *list)
{
    for (size_t i = 0; i < mf_json_size(list); i++) {
        const mf_json *pair = mf_json_at(list, i);
        part p, a;
        p.text = mf_json_string(mf_json_at(pair, 0), &p.n);
        a.text = mf_json_string(mf_json_at(pair, 1), &a.n);
        if (mf_json_typeof(pair) != MF_JSON_ARRAY || mf_json_size(pair) != 2 || !p.text ||
            !a.text)
            return mf_fail(MF_EINPUT,
                           "%s: \"history\": expected a list of [prompt, answer], two strings",
                           r->name);
        int rc = add_turn(r, MF_ROLE_USER, false, &p, 1, "");
        if (rc == MF_OK) rc = add_turn(r, MF_ROLE_ASSISTANT, false, &a, 1, "");
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* Adds the text before the prompt. With such a text, a prompt and its answer are
 * like messages. */
static int add_before(reader *r)
{
    const mf_json *system = take(r, member(r, NULL, systems)),
                  *history = take(r, member(r, NULL, histories));
    part p;
    p.text = mf_json_string(system, &p.n);
    r->d->messages = !is_empty(system) || !is_empty(history);
    if (!is_empty(system) && !p.text)
        return mf_fail(MF_EINPUT, "%s: \"system\": expected a string", r->name);
    if (!is_empty(history) && mf_json_typeof(history) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "%s: \"history\": expected a list", r->name);
    int rc = is_empty(system) ? MF_OK : add_turn(r, MF_ROLE_SYSTEM, false, &p, 1, "");
    return rc == MF_OK && !is_empty(history) ? add_history(r, history) : rc;
}

static int add_pair(reader *r, const mf_json *prompt, part question, part answer)
{
    part parts[3] = {question};
    int n = 1, rc = MF_OK;
    take(r, prompt);
    /* If the configuration names the members of prompt and answer, only those members
     * are read. */
    const bool usual = !given(r->s->columns.prompt) && !given(r->s->columns.answer);
    if (usual) rc = add_before(r);
    for (const char *const *name = inputs; usual && rc == MF_OK && *name; name++) {
        const mf_json *v = mf_json_get(r->object, *name);
        if (v == prompt || is_empty(v)) continue;
        take(r, v);
        parts[n].text = mf_json_string(v, &parts[n].n);
        if (!parts[n++].text)
            return mf_fail(MF_EINPUT, "%s: \"%s\": expected a string", r->name, *name);
    }
    if (rc == MF_OK) rc = add_turn(r, MF_ROLE_USER, false, parts, n, "\n");
    return rc == MF_OK ? add_turn(r, MF_ROLE_ASSISTANT, true, &answer, 1, "") : rc;
}

static void note_unread(const reader *r)
{
    const char *key;
    const mf_json *v;
    for (size_t i = 0; mf_json_member(r->object, i, &key, &v); i++) {
        bool read = is_empty(v), on;
        read = read || (mf_learned_names(key) && mf_learned_value(v, &on));
        read = read || (given(r->s->columns.domain) && strcmp(key, r->s->columns.domain) == 0);
        for (int k = 0; k < r->n_read && !read; k++)
            read = r->read[k] == v;
        if (!read) mf_unread_note(&r->s->unread, "", key);
    }
}

const mf_json *mf_source_messages(const mf_columns *columns, const mf_json *object)
{
    const reader r = {.object = object};
    return member(&r, columns->messages, lists);
}

int mf_source_read_turns(mf_source *s, const char *name, const char *line, size_t n,
                         const mf_json *object, mf_document *d, bool *ret_found)
{
    const mf_columns *c = &s->columns;
    reader r = {.s = s, .name = name, .object = object, .line = line, .n_line = n, .d = d};
    const mf_json *list = member(&r, c->messages, lists),
                  *prompt = member(&r, c->prompt, prompts),
                  *answer = member(&r, c->answer, answers);
    part question, reply;
    int rc;
    d->turns = s->n_turns;
    d->n = 0;
    *ret_found = true;
    if (given(c->messages) || (list && !given(c->prompt) && !given(c->answer))) {
        rc = add_messages(&r, take(&r, list));
        note_unread(&r);
        return rc;
    }
    if (prompt && prompt == answer)
        return mf_fail(MF_EINPUT,
                       "%s: data.prompt_field and data.answer_field name the same member",
                       name);
    question.text = mf_json_string(prompt, &question.n);
    reply.text = mf_json_string(answer, &reply.n);
    if (!question.text || !reply.text || reply.n == 0) {
        *ret_found = prompt || answer || given(c->prompt) || given(c->answer);
        return !*ret_found ? MF_OK
                           : mf_fail(MF_EINPUT,
                                     "%s: expected \"%s\", a string, and \"%s\", a string that "
                                     "is not empty",
                                     name, given(c->prompt) ? c->prompt : prompts[0],
                                     given(c->answer) ? c->answer : answers[0]);
    }
    take(&r, answer);
    rc = add_pair(&r, prompt, question, reply);
    note_unread(&r);
    return rc;
}
