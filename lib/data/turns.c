/* data/turns.c: joins the parts of a document by the form of its tokenizer. Text that does not
 * count is collected until an answer begins. It is then encoded at once, as a prompt is encoded
 * for generation (mf_chat_message), so a model sees the same tokens in both cases. In
 * generation, the text after an answer begins with a special token, the answer's end. Therefore
 * it is encoded after such a token here: some tokenizers (prepend_scheme = first) treat the
 * beginning of a text differently. */
#include "data/turns.h"
#include "data/turns_internal.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

typedef struct maker {
    const mf_tokenizer *t;
    const mf_chat *form;
    const char *name;
    mf_ids *ids, *counted;
    size_t first; /* number of tokens of earlier documents */
    char *text;   /* text that is not yet encoded */
    size_t n, cap;
    char *end; /* text of the special token that ends an answer; NULL: each text is
                * encoded alone */
    size_t n_end;
    int32_t end_id;
    int rc;
} maker;

int mf_turns_form(const mf_tokenizer *t, bool use, mf_chat *ret)
{
    *ret = (mf_chat){0};
    if (!use || mf_chat_of(t, ret)) return MF_OK;
    return mf_fail(
        MF_ECONFIG,
        "the tokenizer's chat template is not read: %s; data.chat = no reads messages "
        "without it",
        mf_error_message());
}

static void mark(maker *m, bool counts)
{
    while (m->rc == MF_OK && m->counted->n < m->ids->n)
        m->rc = mf_ids_push(m->counted, counts, 0);
}

/* Finds the special token that ends an answer. */
static void find_end(maker *m)
{
    static const char im_end[] = "<|im_end|>";
    mf_ids ids = {0};
    const char *text = im_end;
    m->n_end = sizeof im_end - 1;
    if (m->form->form == MF_CHAT_PLAIN) return;
    if (m->form->form == MF_CHAT_MISTRAL)
        text = mf_tokenizer_piece(m->t, m->t->special[MF_SPECIAL_EOS], &m->n_end);
    if (m->n_end == 0) return;
    m->rc = mf_tokenizer_encode(m->t, m->name, text, m->n_end, &ids);
    if (m->rc == MF_OK && ids.n == 1) {
        m->end_id = ids.id[0];
        m->end = mf_strndup(text, m->n_end);
        m->rc = m->end ? MF_OK : MF_ENOMEM;
    }
    mf_ids_free(&ids);
}

/* Encodes the collected text as the text after the end of an answer. */
static int encode_behind(maker *m)
{
    mf_ids ids = {0};
    char *text = mf_alloc_raw(m->n_end + m->n + 1);
    if (!text) return MF_ENOMEM;
    memcpy(text, m->end, m->n_end);
    memcpy(text + m->n_end, m->text, m->n);
    int rc = mf_tokenizer_encode(m->t, m->name, text, m->n_end + m->n, &ids);
    for (size_t i = ids.n > 0 && ids.id[0] == m->end_id; rc == MF_OK && i < ids.n; i++)
        rc = mf_ids_push(m->ids, ids.id[i], 0);
    mf_ids_free(&ids);
    mf_free(text);
    return rc;
}

/* Encodes the collected text. */
static void flush(maker *m, bool counts)
{
    const bool behind = m->end && m->ids->n > m->first;
    if (m->rc == MF_OK && m->n > 0)
        m->rc = behind ? encode_behind(m)
                       : mf_tokenizer_encode(m->t, m->name, m->text, m->n, m->ids);
    m->n = 0;
    mark(m, counts);
}

static void put(maker *m, const char *text, size_t n)
{
    if (m->rc != MF_OK || n == 0) return;
    if (m->n + n > m->cap) {
        const size_t cap = 2 * (m->n + n);
        char *larger = mf_realloc(m->text, m->n, cap);
        if (!larger) {
            m->rc = MF_ENOMEM;
            return;
        }
        m->text = larger;
        m->cap = cap;
    }
    memcpy(m->text + m->n, text, n);
    m->n += n;
}

static void say(maker *m, const char *text)
{
    put(m, text, strlen(text));
}

static void put_special(maker *m, mf_special s, bool counts)
{
    const int32_t id = m->t->special[s];
    if (id < 0) return;
    flush(m, counts);
    if (m->rc == MF_OK) m->rc = mf_ids_push(m->ids, id, 0);
    mark(m, counts);
}

static void plain(maker *m, const mf_turn *turn, const char *text, bool messages)
{
    if (turn->role != MF_ROLE_ASSISTANT) {
        put(m, text, turn->n + messages);
        return;
    }
    const bool eos = m->t->special[MF_SPECIAL_EOS] >= 0;
    flush(m, false);
    put(m, text, turn->n + (messages && !eos));
    flush(m, !turn->ignored);
    put_special(m, MF_SPECIAL_EOS, !turn->ignored);
}

static void chatml(maker *m, const mf_turn *turn, const char *text, bool first)
{
    static const char *const names[] = {"system", "user", "assistant"};
    if (first && turn->role != MF_ROLE_SYSTEM && m->form->system[0]) {
        say(m, "<|im_start|>system\n");
        say(m, m->form->system);
        say(m, "<|im_end|>\n");
    }
    say(m, "<|im_start|>");
    say(m, names[turn->role]);
    say(m, "\n");
    if (turn->role == MF_ROLE_ASSISTANT) flush(m, false);
    put(m, text, turn->n);
    say(m, "<|im_end|>");
    if (turn->role == MF_ROLE_ASSISTANT) flush(m, !turn->ignored);
    say(m, "\n");
}

static void mistral(maker *m, const mf_turn *turn, const char *text, int32_t place)
{
    const bool first = place == 0;
    if (turn->role != (place % 2 == 0 ? MF_ROLE_USER : MF_ROLE_ASSISTANT)) {
        m->rc =
            mf_fail(MF_EINPUT,
                    "%s: message %d: this tokenizer's chat form wants user and assistant in "
                    "turns, the user first",
                    m->name, (int)place + 1);
        return;
    }
    if (first) put_special(m, MF_SPECIAL_BOS, false);
    if (turn->role == MF_ROLE_USER) {
        if (!first && m->form->blank) say(m, " ");
        say(m, "[INST] ");
        put(m, text, turn->n);
        say(m, " [/INST]");
        return;
    }
    flush(m, false);
    put(m, text, turn->n);
    flush(m, !turn->ignored);
    put_special(m, MF_SPECIAL_EOS, !turn->ignored);
}

int mf_turns_encode(const mf_tokenizer *t, const mf_chat *form, const char *name,
                    const mf_source *s, const mf_document *d, mf_ids *ids, mf_ids *counted)
{
    maker m = {
        .t = t, .form = form, .name = name, .ids = ids, .counted = counted, .first = ids->n};
    if (form->form == MF_CHAT_TEMPLATE)
        return mf_turns_template(t, form, name, s, d, ids, counted);
    if (d->n_own > 0 && (form->form == MF_CHAT_PLAIN || !t->jinja))
        return mf_fail(MF_EINPUT,
                       "%s: messages with tools, tool_calls or the role tool: expected a "
                       "tokenizer with a chat template, which says how they are written, and "
                       "data.chat = yes",
                       name);
    if (d->n_own > 0) {
        const mf_chat rendered = {.form = MF_CHAT_TEMPLATE, .jinja = t->jinja};
        return mf_turns_template(t, &rendered, name, s, d, ids, counted);
    }
    find_end(&m);
    for (int32_t i = 0; i < d->n_turns && m.rc == MF_OK; i++) {
        const mf_turn *turn = &s->turns[d->turns + i];
        const char *text = s->text + turn->begin;
        if (form->form == MF_CHAT_CHATML)
            chatml(&m, turn, text, i == 0);
        else if (form->form == MF_CHAT_MISTRAL)
            mistral(&m, turn, text, i);
        else
            plain(&m, turn, text, d->messages);
    }
    flush(&m, false);
    mf_free(m.end);
    mf_free(m.text);
    return m.rc;
}
