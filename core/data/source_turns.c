/* data/source_turns.c: lines of jsonl that are a prompt with its answer, or messages. Only
 * their texts and roles are kept; how they become one text depends on the tokenizer, which is
 * chosen later (data/turns.h). */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text/json.h"
#include "data/source.h"

static const char *const prompts[] = {"prompt", "question", "instruction", NULL};
static const char *const answers[] = {"answer", "completion", "response", "output", NULL};
static const char *const lists[] = {"messages", NULL};
static const char *const roles[] = {"system", "user", "assistant", NULL};

static bool given(const char *name)
{
    return name && *name != 0;
}

/* The member of a given name, else of the first usual name that the object has. */
static const mf_json *member(const mf_json *object, const char *name, const char *const *usual)
{
    const mf_json *v = NULL;
    if (given(name)) return mf_json_get(object, name);
    for (; !v && *usual; usual++)
        v = mf_json_get(object, *usual);
    return v;
}

/* The text of the file has room: with its quotes a string is longer than text and newline. */
static int add_turn(mf_source *s, mf_document *d, mf_role role, const char *text, size_t n)
{
    if (s->n_turns == s->turns_cap) {
        const int64_t cap = s->turns_cap < 256 ? 256 : s->turns_cap * 2;
        mf_turn *more =
            mf_realloc(s->turns, (size_t)s->n_turns * sizeof *more, (size_t)cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        s->turns = more;
        s->turns_cap = cap;
    }
    s->turns[s->n_turns++] = (mf_turn){role, s->size, n};
    mf_source_append(s, text, n);
    mf_source_append(s, "\n", 1);
    d->n_turns++;
    d->n += n;
    return MF_OK;
}

static int add_messages(mf_source *s, const char *name, const mf_json *list, mf_document *d)
{
    bool answered = false;
    int rc = MF_OK;
    d->messages = true;
    if (mf_json_typeof(list) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "%s: messages: expected a list", name);
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
        const mf_json *v = mf_json_at(list, i);
        size_t n;
        int role = 0;
        const char *who = mf_json_string(mf_json_get(v, "role"), NULL),
                   *text = mf_json_string(mf_json_get(v, "content"), &n);
        while (who && roles[role] && strcmp(roles[role], who) != 0)
            role++;
        if (!who || !roles[role] || !text)
            return mf_fail(MF_EINPUT,
                           "%s: message %zu: expected \"role\": system, user or assistant, "
                           "and \"content\", a string",
                           name, i + 1);
        answered = answered || role == MF_ROLE_ASSISTANT;
        rc = add_turn(s, d, (mf_role)role, text, n);
    }
    if (rc == MF_OK && !answered)
        rc = mf_fail(MF_EINPUT, "%s: no message is of the assistant: nothing to learn", name);
    return rc;
}

int mf_source_read_turns(mf_source *s, const char *name, const mf_json *object, mf_document *d,
                         bool *ret_found)
{
    const mf_columns *c = &s->columns;
    const mf_json *list = member(object, c->messages, lists),
                  *prompt = member(object, c->prompt, prompts),
                  *answer = member(object, c->answer, answers);
    size_t n, m;
    d->turns = s->n_turns;
    d->n = 0;
    *ret_found = true;
    if (given(c->messages) || (list && !given(c->prompt) && !given(c->answer)))
        return add_messages(s, name, list, d);
    if (prompt && prompt == answer)
        return mf_fail(MF_EINPUT,
                       "%s: data.prompt_field and data.answer_field name the same member",
                       name);
    const char *first = mf_json_string(prompt, &n), *second = mf_json_string(answer, &m);
    if (!first || !second || m == 0) {
        *ret_found = prompt || answer || given(c->prompt) || given(c->answer);
        return !*ret_found ? MF_OK
                           : mf_fail(MF_EINPUT,
                                     "%s: expected \"%s\", a string, and \"%s\", a string that "
                                     "is not empty",
                                     name, given(c->prompt) ? c->prompt : prompts[0],
                                     given(c->answer) ? c->answer : answers[0]);
    }
    const int rc = add_turn(s, d, MF_ROLE_USER, first, n);
    return rc == MF_OK ? add_turn(s, d, MF_ROLE_ASSISTANT, second, m) : rc;
}
