/* data/turns_template.c: conversations in the form of a template. The whole conversation is
 * rendered and encoded at once, as transformers does it. What counts in the loss is what the
 * template encloses in {% generation %}. Without this tag it is the difference between two
 * renderings: that of the messages before an answer, with the head of an answer
 * (add_generation_prompt), and that of the messages up to the answer. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "data/turns.h"
#include "data/turns_internal.h"

typedef struct renderer {
    const mf_tokenizer *t;
    const mf_chat *form;
    const char *name;        /* name of the line, for messages */
    mf_json *made;           /* the document that was made, or the line itself */
    mf_json *listed;         /* the functions of the line, if it has them as a text */
    const mf_json *messages; /* in `made` */
    const mf_json *tools;    /* NULL: none */
    mf_jinja_result whole;
} renderer;

/* Makes the document [{"role": ..., "content": ...}, ...]. */
static int make_messages(const char *name, const mf_source *s, const mf_document *d,
                         mf_json **ret)
{
    static const char *const roles[] = {[MF_ROLE_SYSTEM] = "system",
                                        [MF_ROLE_USER] = "user",
                                        [MF_ROLE_ASSISTANT] = "assistant",
                                        [MF_ROLE_TOOL] = "tool"};
    size_t n = 0;
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_array(w);
    for (int32_t i = 0; i < d->n_turns; i++) {
        const mf_turn *turn = &s->turns[d->turns + i];
        mf_jw_object(w);
        mf_jw_kv_string(w, "role", roles[turn->role]);
        mf_jw_key(w, "content");
        mf_jw_string_n(w, s->text + turn->begin, turn->n);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    const int rc = text ? mf_json_parse(name, text, n, ret) : mf_error_code();
    mf_jw_free(w);
    return rc;
}

/* Reads the line of messages with functions, which a template gets as it is. A template that
 * does not name them would leave them out without a message. */
static int read_own(renderer *r, const mf_source *s, const mf_document *d)
{
    const char *template = r->t->chat_template ? r->t->chat_template : "";
    const char *lacks = d->calls && !strstr(template, "tool_calls") ? "tool_calls"
                        : d->tools && !strstr(template, "tools")    ? "tools"
                                                                    : NULL;
    if (lacks)
        return mf_fail(
            MF_EINPUT,
            "%s: \"%s\": the tokenizer's chat template does not write them: expected "
            "a template that does, or messages of text alone",
            r->name, lacks);
    int rc = mf_json_parse(r->name, s->own + d->own, d->n_own, &r->made);
    if (rc != MF_OK) return rc;
    r->messages = mf_source_messages(&s->columns, r->made);
    r->tools = mf_json_get(r->made, "tools");
    size_t n = 0;
    const char *text = mf_json_string(r->tools, &n);
    if (text) rc = mf_json_parse(r->name, text, n, &r->listed);
    if (text) r->tools = r->listed;
    if (mf_json_typeof(r->tools) == MF_JSON_NULL) r->tools = NULL;
    return rc;
}

static int render(const renderer *r, size_t most, bool prompt, mf_jinja_result *ret)
{
    const int rc = mf_chat_render(r->form, r->t, r->messages, r->tools, most, prompt, ret);
    return rc == MF_EINPUT ? mf_fail_context(rc, "%s", r->name) : rc;
}

static int add_span(mf_jinja_span **list, size_t *n, size_t begin, size_t end)
{
    mf_jinja_span *larger = mf_realloc(*list, *n * sizeof *larger, (*n + 1) * sizeof *larger);
    if (!larger) return MF_ENOMEM;
    *list = larger;
    larger[(*n)++] = (mf_jinja_span){begin, end};
    return MF_OK;
}

static bool begins_with(const mf_jinja_result *whole, const mf_jinja_result *part)
{
    return part->n <= whole->n && memcmp(whole->text, part->text, part->n) == 0;
}

/* Finds the text of answer i by the difference of two renderings. */
static int find_answer(const renderer *r, size_t i, mf_jinja_span **list, size_t *n)
{
    mf_jinja_result before, up_to = {0};
    int rc = render(r, i, true, &before);
    if (rc == MF_OK) rc = render(r, i + 1, false, &up_to);
    if (rc == MF_OK)
        rc = begins_with(&r->whole, &before) && begins_with(&r->whole, &up_to) &&
                     up_to.n >= before.n
                 ? add_span(list, n, before.n, up_to.n)
                 : mf_fail(MF_EINPUT,
                           "%s: message %zu: the tokenizer's chat template writes the "
                           "conversation up to this answer otherwise than as a part of the "
                           "whole, so it cannot be told what to learn: expected {%% generation "
                           "%%} in the template, or conversations that end with their first "
                           "answer",
                           r->name, i + 1);
    mf_free(before.text);
    mf_free(before.answer);
    mf_free(up_to.text);
    mf_free(up_to.answer);
    return rc;
}

/* Finds the texts that count. */
static int find_answers(const renderer *r, const mf_source *s, const mf_document *d,
                        mf_jinja_span **list, size_t *n)
{
    const bool marked = mf_jinja_marks_answers(r->form->jinja);
    size_t k = 0;
    int rc = MF_OK;
    for (int32_t i = 0; i < d->n_turns && rc == MF_OK; i++) {
        const mf_turn *turn = &s->turns[d->turns + i];
        if (turn->role != MF_ROLE_ASSISTANT) continue;
        k++;
        if (turn->ignored) continue;
        if (!marked)
            rc = find_answer(r, (size_t)i, list, n);
        else if (k <= r->whole.n_answers)
            rc = add_span(list, n, r->whole.answer[k - 1].begin, r->whole.answer[k - 1].end);
    }
    if (rc == MF_OK && marked && k != r->whole.n_answers)
        rc = mf_fail(MF_EINPUT, "%s: the tokenizer's chat template marks %zu answers of %zu",
                     r->name, r->whole.n_answers, k);
    return rc;
}

/* Whether a token of the text begin..end-1 has a part in one of the spans. */
static bool counts(const mf_jinja_span *list, size_t n, size_t begin, size_t end)
{
    for (size_t i = 0; i < n; i++)
        if (begin < list[i].end && end > list[i].begin) return true;
    return false;
}

static int add_tokens(const renderer *r, const mf_jinja_span *list, size_t n, mf_ids *ids,
                      mf_ids *counted)
{
    mf_ids own = {.want_start = true};
    int rc = mf_tokenizer_encode(r->t, r->name, r->whole.text, r->whole.n, &own);
    for (size_t i = 0; i < own.n && rc == MF_OK; i++) {
        size_t next = i + 1;
        while (next < own.n && own.start[next] == own.start[i])
            next++;
        const size_t end = next < own.n ? own.start[next] : r->whole.n;
        rc = mf_ids_push(ids, own.id[i], 0);
        if (rc == MF_OK) rc = mf_ids_push(counted, counts(list, n, own.start[i], end), 0);
    }
    mf_ids_free(&own);
    return rc;
}

int mf_turns_template(const mf_tokenizer *t, const mf_chat *form, const char *name,
                      const mf_source *s, const mf_document *d, mf_ids *ids, mf_ids *counted)
{
    renderer r = {.t = t, .form = form, .name = name};
    mf_jinja_span *list = NULL;
    size_t n = 0;
    int rc = d->n_own > 0 ? read_own(&r, s, d) : make_messages(name, s, d, &r.made);
    if (d->n_own == 0) r.messages = r.made;
    if (rc == MF_OK) rc = render(&r, 0, false, &r.whole);
    if (rc == MF_OK) rc = find_answers(&r, s, d, &list, &n);
    if (rc == MF_OK) rc = add_tokens(&r, list, n, ids, counted);
    mf_free(list);
    mf_free(r.whole.text);
    mf_free(r.whole.answer);
    mf_json_free(r.listed);
    mf_json_free(r.made);
    return rc;
}
