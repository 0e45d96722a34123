/* lab/serve/completions.c: answers a request for completions. A prompt that is scored runs
 * once, as a whole (generate/score.h), and log p of each token is taken from the same numbers
 * that moefw eval --tasks adds up; an answer is drawn as moefw generate draws it.
 *
 * The arrays of logprobs have an entry for each token of the text that is returned. The first
 * token of a prompt has no probability: its entries are null. The token of the greatest
 * probability and the entry of top_logprobs with the same token print the same double. */
#include "lab/serve/completions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "generate/score.h"

/* A token of the returned text, and its probability. */
typedef struct entry {
    int32_t id;
    double log_p;  /* NaN: none */
    size_t offset; /* in characters of the text */
    int32_t top[MF_SERVE_TOP_MAX];
    double top_log_p[MF_SERVE_TOP_MAX];
} entry;

/* The answer to one prompt. */
typedef struct choice {
    mf_served *s;
    const mf_completion *c;
    const int32_t *prompt; /* [n_prompt] */
    size_t n_prompt;
    entry *entries; /* [n]; NULL without logprobs */
    size_t n, cap;
    char *text; /* [n_text] */
    size_t n_text, cap_text, characters;
    size_t written; /* tokens of the answer */
    bool stopped;
    mf_decoder decoder;
} choice;

/* ---- text ---- */

static int add_text(choice *a, const char *text, size_t n)
{
    if (a->n_text + n + 1 > a->cap_text) {
        const size_t cap = 2 * (a->n_text + n) + 256;
        char *more = mf_realloc(a->text, a->cap_text, cap);
        if (!more) return MF_ENOMEM;
        a->text = more;
        a->cap_text = cap;
    }
    memcpy(a->text + a->n_text, text, n);
    a->n_text += n;
    a->text[a->n_text] = '\0';
    for (size_t i = 0; i < n; i++)
        a->characters += ((unsigned char)text[i] & 0xC0) != 0x80;
    return MF_OK;
}

/* Cuts the text at the first stop that it contains from byte `from` on. */
static bool cut_at_stop(choice *a, size_t from)
{
    const char *first = NULL;
    for (size_t i = 0; i < a->c->n_stops; i++) {
        const size_t n = strlen(a->c->stops[i]), room = a->n_text - from;
        const char *at = n <= room ? memmem(a->text + from, room, a->c->stops[i], n) : NULL;
        if (at && (!first || at < first)) first = at;
    }
    if (first) a->n_text = (size_t)(first - a->text);
    return first != NULL;
}

static size_t longest_stop(const mf_completion *c)
{
    size_t most = 0;
    for (size_t i = 0; i < c->n_stops; i++)
        if (strlen(c->stops[i]) > most) most = strlen(c->stops[i]);
    return most;
}

/* ---- probabilities ---- */

/* Writes the ids of the c->top greatest logits, greatest first; of equal ones the lower id. */
static void find_top(const choice *a, const float *logits, mf_log_sum sum, entry *e)
{
    const int32_t vocab = a->s->run->session->model->dims.vocab;
    const int most = a->c->top < vocab ? a->c->top : (int)vocab;
    int n = 0;
    for (int32_t i = 0; most > 0 && i < vocab; i++) {
        if (n == most && !(logits[i] > logits[e->top[n - 1]])) continue;
        int k = n < most ? n++ : n - 1;
        for (; k > 0 && logits[i] > logits[e->top[k - 1]]; k--)
            e->top[k] = e->top[k - 1];
        e->top[k] = i;
    }
    for (int k = 0; k < n; k++)
        e->top_log_p[k] = mf_log_share(sum, logits[e->top[k]]);
    for (int k = n; k < MF_SERVE_TOP_MAX; k++)
        e->top[k] = -1;
}

/* Adds an entry, with the logits that predict the token; NULL: there are none. */
static int add_entry(choice *a, int32_t id, const float *logits, size_t offset)
{
    if (!a->c->logprobs) return MF_OK;
    if (a->n == a->cap) {
        const size_t cap = 2 * a->cap + 64;
        entry *more = mf_realloc(a->entries, a->cap * sizeof *more, cap * sizeof *more);
        if (!more) return MF_ENOMEM;
        a->entries = more;
        a->cap = cap;
    }
    entry *e = &a->entries[a->n++];
    *e = (entry){.id = id, .log_p = (double)NAN, .offset = offset};
    for (int k = 0; k < MF_SERVE_TOP_MAX; k++)
        e->top[k] = -1;
    if (!logits) return MF_OK;
    const mf_log_sum sum = mf_log_sum_of(logits, a->s->run->session->model->dims.vocab);
    e->log_p = mf_log_share(sum, logits[id]);
    find_top(a, logits, sum, e);
    return MF_OK;
}

/* ---- prompt ---- */

static int echo_token(choice *a, size_t i, const float *logits)
{
    size_t n;
    const size_t offset = a->characters;
    const char *text = mf_decoder_next(&a->decoder, a->prompt[i], &n);
    const int rc = add_text(a, text, n);
    return rc == MF_OK ? add_entry(a, a->prompt[i], logits, offset) : rc;
}

/* The likeliest token is the answer if one token is wanted at temperature 0: then the prompt
 * need not run again. */
static bool answers_itself(const mf_completion *c)
{
    return c->tokens == 1 && c->temperature == 0 && c->repeat_penalty == 1;
}

static int answer_token(choice *a, int32_t id, const float *logits);

static int32_t likeliest(const float *logits, int32_t vocab)
{
    int32_t best = -1;
    for (int32_t i = 0; i < vocab; i++)
        if (isfinite(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
    return best;
}

static int on_row(void *arg, int64_t i, const float *logits)
{
    choice *a = arg;
    const size_t next = (size_t)i + 1;
    if (next < a->n_prompt) return echo_token(a, next, logits);
    if (!answers_itself(a->c)) return MF_OK;
    const int32_t id = likeliest(logits, a->s->run->session->model->dims.vocab);
    if (id < 0) return mf_fail(MF_ENONFINITE, "no logit is finite");
    a->decoder.begun = true;
    return answer_token(a, id, logits);
}

/* Returns the prompt; with logprobs it is scored, which the window limits: one token more than
 * model.seq fits, since the last one predicts nothing that is asked for. */
static int echo(choice *a, bool *ret_answered)
{
    const int64_t seq = a->s->run->session->config->model.seq;
    *ret_answered = false;
    int rc = echo_token(a, 0, NULL);
    if (!a->c->logprobs) {
        for (size_t i = 1; rc == MF_OK && i < a->n_prompt; i++)
            rc = echo_token(a, i, NULL);
        return rc;
    }
    if (rc == MF_OK && (int64_t)a->n_prompt > seq + 1)
        rc = mf_fail(MF_EINPUT,
                     "prompt: expected at most %lld tokens with echo and logprobs (the model's "
                     "window, and one more), found %zu",
                     (long long)seq + 1, a->n_prompt);
    const bool fits = (int64_t)a->n_prompt <= seq;
    if (rc == MF_OK)
        rc = mf_score(a->s->scorer, a->prompt, fits ? (int64_t)a->n_prompt : seq, on_row, a);
    *ret_answered = fits && answers_itself(a->c);
    return rc;
}

/* ---- answer ---- */

/* Takes a token of the answer: sets a->stopped if it ends the text. The token that ends a text
 * stands in logprobs, but not in the text. */
static int answer_token(choice *a, int32_t id, const float *logits)
{
    size_t n;
    const size_t offset = a->characters, before = a->n_text, stop = longest_stop(a->c);
    int rc = add_entry(a, id, logits, offset);
    if (rc != MF_OK) return rc;
    a->written++;
    a->stopped = mf_run_ends(a->s->run, id);
    if (a->stopped) return MF_OK;
    const char *text = mf_decoder_next(&a->decoder, id, &n);
    rc = add_text(a, text, n);
    if (rc == MF_OK && stop > 0) a->stopped = cut_at_stop(a, before > stop ? before - stop : 0);
    return rc;
}

static int generate(choice *a)
{
    const mf_completion *c = a->c;
    moefw_run *run = a->s->run;
    moefw_sampling s = MOEFW_SAMPLING_INIT;
    const float *logits;
    s.temperature = c->temperature;
    s.top_k = c->top_k;
    s.top_p = c->top_p;
    s.repeat_penalty = c->repeat_penalty;
    s.seed = (uint64_t)c->seed;
    int rc = mf_run_generator(run, &s);
    if (rc != MF_OK) return rc;
    mf_generator_reset(run->generator);
    a->decoder.begun = true; /* the answer continues the prompt */
    rc = mf_generator_feed(run->generator, a->prompt, (int64_t)a->n_prompt, &logits);
    for (int64_t i = 0; rc == MF_OK && i < c->tokens && !a->stopped; i++) {
        int64_t n_past;
        const int32_t *past = mf_generator_cached(run->generator, &n_past);
        const int32_t id = mf_sampler_draw(run->sampler, logits, past, n_past, i);
        if (id < 0) return mf_fail(MF_ENONFINITE, "no logit is finite");
        if (a->s->stop && a->s->stop()) return mf_fail(MF_ESIGNAL, "the server ends");
        rc = answer_token(a, id, logits);
        if (rc == MF_OK && i + 1 < c->tokens && !a->stopped)
            rc = mf_generator_feed(run->generator, &id, 1, &logits);
    }
    return rc;
}

/* ---- JSON ---- */

static bool same_text(const choice *a, int32_t x, int32_t y)
{
    size_t n, m;
    const mf_tokenizer *t = a->s->run->session->tokenizer;
    const char *p = mf_serve_token(t, x, &n), *q = mf_serve_token(t, y, &m);
    /* JSON has one text for all that is no UTF-8 */
    if (mf_utf8_check(p, n) < n && mf_utf8_check(q, m) < m) return true;
    return n == m && memcmp(p, q, n) == 0;
}

/* An object of the likeliest tokens. Of tokens with the same text the likeliest stands. */
static void put_top(mf_jw *w, const choice *a, const entry *e)
{
    if (e->top[0] < 0) {
        mf_jw_null(w);
        return;
    }
    mf_jw_object(w);
    for (int k = 0; k < MF_SERVE_TOP_MAX && e->top[k] >= 0; k++) {
        bool again = false;
        for (int j = 0; j < k; j++)
            again = again || same_text(a, e->top[j], e->top[k]);
        if (again) continue;
        size_t n;
        const char *text = mf_serve_token(a->s->run->session->tokenizer, e->top[k], &n);
        char key[256];
        snprintf(key, sizeof key, "%.*s", (int)n, text);
        mf_jw_key(w, key);
        mf_jw_real(w, e->top_log_p[k]);
    }
    mf_jw_end(w);
}

static void put_logprobs(mf_jw *w, const choice *a)
{
    mf_jw_object(w);
    mf_jw_key(w, "tokens");
    mf_jw_array(w);
    for (size_t i = 0; i < a->n; i++) {
        size_t n;
        const char *text = mf_serve_token(a->s->run->session->tokenizer, a->entries[i].id, &n);
        mf_jw_string_n(w, text, n);
    }
    mf_jw_end(w);
    mf_jw_key(w, "token_logprobs");
    mf_jw_array(w);
    for (size_t i = 0; i < a->n; i++)
        mf_jw_real(w, a->entries[i].log_p);
    mf_jw_end(w);
    mf_jw_key(w, "top_logprobs");
    mf_jw_array(w);
    for (size_t i = 0; i < a->n; i++)
        put_top(w, a, &a->entries[i]);
    mf_jw_end(w);
    mf_jw_key(w, "text_offset");
    mf_jw_array(w);
    for (size_t i = 0; i < a->n; i++)
        mf_jw_int(w, (int64_t)a->entries[i].offset);
    mf_jw_end(w);
    mf_jw_end(w);
}

static void put_choice(mf_jw *w, const choice *a, size_t index)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "index", (int64_t)index);
    mf_jw_key(w, "text");
    mf_jw_string_n(w, a->text ? a->text : "", a->n_text);
    mf_jw_key(w, "logprobs");
    if (a->c->logprobs)
        put_logprobs(w, a);
    else
        mf_jw_null(w);
    mf_jw_kv_string(w, "finish_reason", a->stopped ? "stop" : "length");
    mf_jw_end(w);
}

/* ---- a request ---- */

static int judge_prompt(const mf_served *s, size_t index, const int32_t *ids, size_t n)
{
    const int32_t vocab = s->run->session->model->dims.vocab;
    if (n == 0) return mf_fail(MF_EINPUT, "prompt %zu: expected at least one token", index);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return mf_fail(MF_EINPUT, "prompt %zu: token %zu is %d; expected one from 0 to %d",
                           index, i, (int)ids[i], (int)vocab - 1);
    return MF_OK;
}

/* Answers one prompt, and writes the choice. */
static int answer(mf_served *s, const mf_completion *c, size_t index, const mf_ids *ids,
                  mf_jw *w)
{
    choice a = {.s = s, .c = c, .prompt = ids->id, .n_prompt = ids->n};
    bool answered = false;
    size_t n;
    int rc = mf_decoder_open(&a.decoder, s->run->session->tokenizer);
    if (rc != MF_OK) return rc;
    if (c->echo) rc = echo(&a, &answered);
    if (rc == MF_OK && !answered && c->tokens > 0) rc = generate(&a);
    const char *rest = mf_decoder_end(&a.decoder, &n);
    if (rc == MF_OK && !a.stopped) rc = add_text(&a, rest, n);
    if (rc == MF_OK) put_choice(w, &a, index);
    s->tokens += (int64_t)(a.n_prompt + a.written);
    s->prompts++;
    s->answered += (int64_t)a.written;
    mf_decoder_close(&a.decoder);
    mf_free(a.entries);
    mf_free(a.text);
    return rc;
}

static int prepare(mf_served *s, const mf_completion *c, mf_ids *ids)
{
    uint64_t all = 0;
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < c->n; i++) {
        const mf_prompt *p = &c->prompts[i];
        rc = p->text ? mf_run_encode(s->run, p->text, p->n, c->special_tokens, &ids[i])
                     : mf_ids_reserve(&ids[i], p->n);
        if (rc == MF_OK && !p->text && p->n > 0) {
            memcpy(ids[i].id, p->id, p->n * sizeof *p->id);
            ids[i].n = p->n;
        }
        if (rc == MF_OK) rc = judge_prompt(s, i, ids[i].id, ids[i].n);
        all += ids[i].n + (uint64_t)c->tokens;
    }
    if (rc == MF_OK && all > MF_SERVE_TOKENS_MAX)
        rc =
            mf_fail(MF_EINPUT,
                    "expected at most %d tokens in a request, prompts and max_tokens together, "
                    "found %llu",
                    (int)MF_SERVE_TOKENS_MAX, (unsigned long long)all);
    return rc;
}

int mf_serve_completions(mf_served *s, const mf_json *v, mf_jw *w)
{
    mf_completion c;
    const int64_t tokens = s->tokens, answered = s->answered;
    int rc = mf_completion_read(v, &c);
    mf_ids *ids = rc == MF_OK ? mf_alloc(c.n, sizeof *ids) : NULL;
    if (rc == MF_OK && !ids) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = prepare(s, &c, ids);
    if (rc == MF_OK) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "object", "text_completion");
        mf_jw_kv_string(w, "model", s->name);
        mf_jw_key(w, "choices");
        mf_jw_array(w);
        for (size_t i = 0; rc == MF_OK && i < c.n; i++) {
            rc = answer(s, &c, i, &ids[i], w);
            if (rc == MF_OK && s->stop && s->stop())
                rc = mf_fail(MF_ESIGNAL, "the server ends");
        }
        mf_jw_end(w);
        mf_jw_key(w, "usage");
        mf_jw_object(w);
        const int64_t new_tokens = s->answered - answered, all = s->tokens - tokens;
        mf_jw_kv_int(w, "prompt_tokens", all - new_tokens);
        mf_jw_kv_int(w, "completion_tokens", new_tokens);
        mf_jw_kv_int(w, "total_tokens", all);
        mf_jw_end(w);
        mf_jw_end(w);
    }
    for (size_t i = 0; ids && i < c.n; i++)
        mf_ids_free(&ids[i]);
    mf_free(ids);
    mf_arena_free(c.arena);
    return rc;
}
