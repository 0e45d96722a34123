/* lab/serve/fields.c: reads a request for completions. Every field is known, or refused: a
 * sampling option that had no effect would give another text than the client asked for. */
#include "lab/serve/serve.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static const char *const known[] = {"model",
                                    "prompt",
                                    "max_tokens",
                                    "temperature",
                                    "top_p",
                                    "top_k",
                                    "repetition_penalty",
                                    "seed",
                                    "stop",
                                    "echo",
                                    "logprobs",
                                    "add_special_tokens",
                                    "n",
                                    "best_of",
                                    "stream",
                                    "suffix",
                                    "presence_penalty",
                                    "frequency_penalty",
                                    "logit_bias",
                                    "user",
                                    NULL};

typedef struct reader {
    const mf_json *v;
    int rc;
} reader;

/* The value of a field; NULL if it is missing or null, or if an error was found before. */
static const mf_json *given(const reader *r, const char *key)
{
    const mf_json *v = mf_json_get(r->v, key);
    return r->rc == MF_OK && mf_json_typeof(v) != MF_JSON_NULL ? v : NULL;
}

static double number(reader *r, const char *key, double lo, double hi, double absent)
{
    const mf_json *v = given(r, key);
    double value = absent;
    if (v && (!mf_json_real(v, &value) || value < lo || value > hi))
        r->rc = mf_fail(MF_EINPUT, "%s: expected a number from %g to %g", key, lo, hi);
    return value;
}

static int64_t whole(reader *r, const char *key, int64_t lo, int64_t hi, int64_t absent)
{
    const mf_json *v = given(r, key);
    int64_t value = absent;
    if (v && (!mf_json_int(v, &value) || value < lo || value > hi))
        r->rc = mf_fail(MF_EINPUT, "%s: expected a whole number from %lld to %lld", key,
                        (long long)lo, (long long)hi);
    return value;
}

static bool yes(reader *r, const char *key, bool absent)
{
    const mf_json *v = given(r, key);
    bool value = absent;
    if (v && !mf_json_bool(v, &value))
        r->rc = mf_fail(MF_EINPUT, "%s: expected true or false", key);
    return value;
}

/* ---- prompts ---- */

static int take_text(const mf_json *v, mf_prompt *ret)
{
    ret->text = mf_json_string(v, &ret->n);
    return ret->text ? MF_OK : MF_EINPUT;
}

static int take_ids(mf_arena *arena, const mf_json *list, mf_prompt *ret)
{
    int64_t id;
    ret->n = mf_json_size(list);
    int32_t *ids = mf_arena_alloc(arena, (ret->n + 1) * sizeof *ids);
    if (!ids) return MF_ENOMEM;
    for (size_t i = 0; i < ret->n; i++) {
        if (!mf_json_int(mf_json_at(list, i), &id) || id < 0 || id > INT32_MAX)
            return MF_EINPUT;
        ids[i] = (int32_t)id;
    }
    ret->id = ids;
    return MF_OK;
}

static int take_prompts(mf_completion *c, const mf_json *v)
{
    const bool list = mf_json_typeof(v) == MF_JSON_ARRAY;
    const mf_json_type first = list ? mf_json_typeof(mf_json_at(v, 0)) : MF_JSON_NULL;
    const bool many = first == MF_JSON_STRING || first == MF_JSON_ARRAY;
    int rc = MF_OK;
    if (!list && mf_json_typeof(v) != MF_JSON_STRING) return MF_EINPUT;
    c->n = many ? mf_json_size(v) : 1;
    if (c->n > MF_SERVE_PROMPTS_MAX)
        return mf_fail(MF_EINPUT, "prompt: expected at most %d prompts, found %zu",
                       (int)MF_SERVE_PROMPTS_MAX, c->n);
    c->prompts = mf_arena_alloc(c->arena, c->n * sizeof *c->prompts);
    if (!c->prompts) return MF_ENOMEM;
    memset(c->prompts, 0, c->n * sizeof *c->prompts);
    for (size_t i = 0; rc == MF_OK && i < c->n; i++) {
        const mf_json *one = many ? mf_json_at(v, i) : v;
        rc = mf_json_typeof(one) != (many   ? first
                                     : list ? MF_JSON_ARRAY
                                            : MF_JSON_STRING)
                 ? MF_EINPUT
             : mf_json_typeof(one) == MF_JSON_STRING ? take_text(one, &c->prompts[i])
                                                     : take_ids(c->arena, one, &c->prompts[i]);
    }
    return rc;
}

/* ---- the rest ---- */

static void take_stops(reader *r, mf_completion *c)
{
    const mf_json *v = given(r, "stop");
    const bool list = mf_json_typeof(v) == MF_JSON_ARRAY;
    if (!v) return;
    c->n_stops = list ? mf_json_size(v) : 1;
    if (c->n_stops > MF_SERVE_STOPS_MAX) {
        r->rc = mf_fail(MF_EINPUT, "stop: expected at most %d texts, found %zu",
                        (int)MF_SERVE_STOPS_MAX, c->n_stops);
        return;
    }
    for (size_t i = 0; i < c->n_stops; i++) {
        c->stops[i] = mf_json_string(list ? mf_json_at(v, i) : v, NULL);
        if (!c->stops[i] || c->stops[i][0] == '\0')
            r->rc = mf_fail(MF_EINPUT, "stop: expected a text that is not empty and has no "
                                       "NUL, or a list of them");
    }
}

/* logprobs: false, true, or the number of entries of top_logprobs. */
static void take_logprobs(reader *r, mf_completion *c)
{
    const mf_json *v = given(r, "logprobs");
    if (!v) return;
    if (mf_json_typeof(v) == MF_JSON_BOOL) {
        (void)mf_json_bool(v, &c->logprobs);
        return;
    }
    c->logprobs = true;
    c->top = (int)whole(r, "logprobs", 0, MF_SERVE_TOP_MAX, 0);
}

/* Fields of the interface that are served only with the value that changes nothing. */
static void refuse_others(reader *r)
{
    static const char *const ones[] = {"n", "best_of", NULL};
    static const char *const zeros[] = {"presence_penalty", "frequency_penalty", NULL};
    for (int i = 0; ones[i]; i++)
        (void)whole(r, ones[i], 1, 1, 1);
    for (int i = 0; zeros[i]; i++)
        (void)number(r, zeros[i], 0, 0, 0);
    if (yes(r, "stream", false))
        r->rc = mf_fail(MF_EINPUT, "stream: expected false: answers are sent whole");
    if (given(r, "suffix")) r->rc = mf_fail(MF_EINPUT, "suffix: expected null");
    if (given(r, "logit_bias") && mf_json_size(mf_json_get(r->v, "logit_bias")) > 0)
        r->rc = mf_fail(MF_EINPUT, "logit_bias: expected null");
}

static int judge_names(const mf_json *v)
{
    const char *key;
    const mf_json *value;
    for (size_t i = 0; mf_json_member(v, i, &key, &value); i++) {
        bool found = false;
        for (int k = 0; known[k]; k++)
            found = found || strcmp(known[k], key) == 0;
        if (found) continue;
        const char *near = mf_nearest(key, known);
        return mf_fail(MF_EINPUT, "unknown field '%s'%s%s%s", key, near ? "; nearest: '" : "",
                       near ? near : "", near ? "'" : "");
    }
    return MF_OK;
}

int mf_completion_read(const mf_json *v, mf_completion *ret)
{
    reader r = {.v = v};
    *ret = (mf_completion){.arena = mf_arena_new()};
    if (!ret->arena) return MF_ENOMEM;
    if (mf_json_typeof(v) != MF_JSON_OBJECT)
        return mf_fail(MF_EINPUT, "expected an object with a prompt");
    r.rc = judge_names(v);
    ret->tokens = whole(&r, "max_tokens", 0, MF_SERVE_TOKENS_MAX, 16);
    ret->temperature = number(&r, "temperature", 0, 100, 1);
    ret->top_p = number(&r, "top_p", 0, 1, 1);
    ret->top_k = whole(&r, "top_k", 0, 1000000000, 0);
    ret->repeat_penalty = number(&r, "repetition_penalty", .01, 100, 1);
    ret->seed = whole(&r, "seed", 0, INT64_MAX, 0);
    ret->echo = yes(&r, "echo", false);
    take_logprobs(&r, ret);
    /* Who asks for the probabilities of a prompt counts its tokens, and counts none that are
     * added here. */
    ret->special_tokens = yes(&r, "add_special_tokens", !(ret->echo && ret->logprobs));
    take_stops(&r, ret);
    refuse_others(&r);
    if (r.rc != MF_OK) return r.rc;
    mf_error_clear();
    const int rc = take_prompts(ret, given(&r, "prompt"));
    return rc == MF_EINPUT && mf_error_message()[0] == '\0'
               ? mf_fail(rc,
                         "prompt: expected a text, a list of texts, a list of token ids, or "
                         "a list of lists of ids")
               : rc;
}
