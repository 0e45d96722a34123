/* api/run_generate.c: conversion between text and token ids, and generation.
 *
 * The generator lives between calls, so that a text can be continued. A training step or a
 * change of a live option frees it, because its cache was computed with other values. */
#include "pretrained/record.h"
#include "api/run_internal.h"

#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "data/clean.h"

#define READY (MF_RUN_IS(MF_RUN_TRAINING) | MF_RUN_IS(MF_RUN_READING))

/* ---- tokens ---- */

static int needs_tokenizer(const moefw_run *run)
{
    int rc = mf_run_expect(run, "text", READY);
    if (rc == MF_OK && !run->session->tokenizer)
        rc = mf_fail(MF_EUSAGE, "text: the run has no tokenizer; expected token ids");
    return rc;
}

/* Simplifies the prompt if the training texts were simplified (data.clean). */
int mf_run_encode(const moefw_run *run, const char *text, size_t n, bool begins, mf_ids *ids)
{
    const mf_tokenizer *tokenizer = run->session->tokenizer;
    char *plain = NULL;
    size_t m;
    int rc = begins ? mf_tokenizer_begin(tokenizer, ids) : MF_OK;
    if (rc != MF_OK) return rc;
    if (!run->session->config->data.clean)
        return mf_tokenizer_encode(tokenizer, "the prompt", text, n, ids);
    rc = mf_clean_text(text, n, &plain, &m);
    /* A blank at the end of the prompt stays. It replaces the NUL. */
    if (rc == MF_OK && m > 0 && text[n - 1] == ' ') plain[m++] = ' ';
    /* If nothing remains after simplification, the prompt is used unchanged. */
    if (rc == MF_OK)
        rc = mf_tokenizer_encode(tokenizer, "the prompt", m > 0 ? plain : text, m > 0 ? m : n,
                                 ids);
    mf_free(plain);
    return rc;
}

static int encode(moefw_run *run, const char *text, size_t n, int32_t *tokens, size_t room,
                  size_t *ret_n)
{
    mf_ids ids = {0};
    int rc = needs_tokenizer(run);
    if (rc == MF_OK && n > 0) rc = mf_run_encode(run, text, n, false, &ids);
    if (rc == MF_OK && room > 0 && ids.n > 0)
        memcpy(tokens, ids.id, (ids.n < room ? ids.n : room) * sizeof *tokens);
    if (rc == MF_OK) *ret_n = ids.n;
    mf_ids_free(&ids);
    return rc;
}

int moefw_run_encode(moefw_run *run, const char *text, size_t n, int32_t *tokens, size_t room,
                     size_t *ret_n)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    const int rc = !ret_n                ? mf_run_null("encode", "ret_n")
                   : !text && n > 0      ? mf_run_null("encode", "a text")
                   : !tokens && room > 0 ? mf_run_null("encode", "room for tokens")
                                         : encode(run, text, n, tokens, room, ret_n);
    return mf_run_leave(run, &scope, rc);
}

const char *moefw_run_token_text(moefw_run *run, int32_t token, size_t *ret_n)
{
    mf_run_scope scope;
    const char *text = NULL;
    size_t n = 0;
    MF_RUN_ENTER(run, &scope, NULL);
    const int rc = needs_tokenizer(run);
    if (rc == MF_OK) text = mf_tokenizer_piece(run->session->tokenizer, token, &n);
    (void)mf_run_leave(run, &scope, rc);
    if (ret_n) *ret_n = n;
    return n > 0 ? text : NULL;
}

/* ---- generation ---- */

static int judge_sampling(const moefw_sampling *s)
{
    if (s->tokens < 0 || !(s->temperature >= 0) || s->top_k < 0 || !(s->top_p >= 0) ||
        s->top_p > 1 || !(s->repeat_penalty > 0))
        return mf_fail(MF_EINVAL,
                       "sampling: expected tokens, temperature and top_k of at least "
                       "0, top_p from 0 to 1, repeat_penalty above 0");
    return MF_OK;
}

int mf_run_generator(moefw_run *run, const moefw_sampling *s)
{
    const mf_sampler_options o = {.temperature = s->temperature,
                                  .top_k = s->top_k,
                                  .top_p = s->top_p,
                                  .repeat_penalty = s->repeat_penalty,
                                  .seed = s->seed};
    int rc = MF_OK;
    if (!run->generator) {
        rc = mf_generator_new(run->session->model, !s->no_cache, &run->generator);
        if (rc == MF_OK && run->generate_only) rc = mf_generator_pack_weights(run->generator);
    }
    if (rc == MF_OK && !run->sampler)
        rc = mf_sampler_new(run->session->model->dims.vocab, &o, &run->sampler);
    if (rc == MF_OK) *mf_sampler_settings(run->sampler) = o;
    return rc;
}

typedef struct listener {
    moefw_piece_fn piece;
    void *arg;
    mf_decoder *decoder; /* NULL without a tokenizer */
} listener;

/* Passes a token to the callback and returns the callback's result: 0 continues the generation.
 * Without a callback the result is 0. */
static int tell(const listener *l, int32_t token)
{
    size_t n = 0;
    const char *text = l->decoder ? mf_decoder_next(l->decoder, token, &n) : "";
    return l->piece ? l->piece(l->arg, text, n, token) : 0;
}

int mf_run_usual(const char *dir, mf_generation *ret)
{
    char *folder = NULL;
    int rc = mf_record_folder(dir, &folder);
    if (rc == MF_OK) rc = mf_generation_read(folder, ret);
    /* A run that was trained from an import has learned where its own training texts end. If
     * the files of the import name no end token, the tokenizer's end token is used. */
    if (rc == MF_OK && folder && strncmp(folder, dir, strlen(dir)) != 0) ret->given = false;
    mf_free(folder);
    return rc;
}

bool mf_run_ends(const moefw_run *run, int32_t id)
{
    const mf_tokenizer *tokenizer = run->session->tokenizer;
    for (int i = 0; i < run->usual.n_ends; i++)
        if (run->usual.end[i] == id) return true;
    return run->usual.n_ends == 0 && !run->usual.given && tokenizer &&
           tokenizer->special[MF_SPECIAL_EOS] == id;
}

static int write_tokens(moefw_run *run, const float *logits, int64_t most, const listener *l)
{
    for (int64_t i = 0; i < most; i++) {
        int64_t n_past;
        const int32_t *past = mf_generator_cached(run->generator, &n_past);
        const int32_t id = mf_sampler_draw(run->sampler, logits, past, n_past, run->drawn++);
        if (id < 0)
            return mf_fail(MF_ENONFINITE, "token %lld: no logit is finite", (long long)i + 1);
        if (mf_run_ends(run, id) || tell(l, id) != 0) break;
        if (i + 1 == most) break;
        int rc = mf_generator_feed(run->generator, &id, 1, &logits);
        if (rc != MF_OK) return rc;
    }
    size_t n = 0;
    const char *rest = l->decoder ? mf_decoder_end(l->decoder, &n) : "";
    if (n > 0 && l->piece) (void)l->piece(l->arg, rest, n, -1);
    return MF_OK;
}

int mf_run_continue(moefw_run *run, const int32_t *tokens, size_t n, const moefw_sampling *s,
                    moefw_piece_fn piece, void *arg)
{
    mf_decoder decoder;
    const float *logits;
    const mf_tokenizer *tokenizer = run->session->tokenizer;
    const listener l = {piece, arg, tokenizer ? &decoder : NULL};
    if (n == 0)
        return mf_fail(MF_EUSAGE, "the prompt is empty; expected at least one token of text");
    int rc = mf_run_generator(run, s);
    if (rc != MF_OK) return rc;
    if (!s->keep) {
        mf_generator_reset(run->generator);
        run->drawn = 0;
    }
    rc = mf_generator_feed(run->generator, tokens, (int64_t)n, &logits);
    if (rc == MF_OK && l.decoder) rc = mf_decoder_open(&decoder, tokenizer);
    if (rc != MF_OK) return rc;
    if (l.decoder) decoder.begun = true; /* the text continues after the prompt */
    rc = write_tokens(run, logits, s->tokens, &l);
    if (l.decoder) mf_decoder_close(&decoder);
    return rc;
}

static int settle(moefw_run *run, const moefw_sampling *asked, moefw_sampling *ret)
{
    const moefw_sampling usual = MOEFW_SAMPLING_INIT;
    int rc = mf_run_expect(run, "generate", READY);
    *ret = usual;
    if (rc != MF_OK || !asked) return rc;
    if (asked->size < sizeof asked->size || asked->size > (size_t)1 << 16)
        return mf_fail(MF_EINVAL, "sampling: expected its size, found %zu", asked->size);
    memcpy(ret, asked, asked->size < sizeof *ret ? asked->size : sizeof *ret);
    return judge_sampling(ret);
}

/* Whether the next tokens begin a text. They do if there is no text yet, or if the old text is
 * not kept. */
static bool begins_text(const moefw_run *run, const moefw_sampling *s)
{
    int64_t n_past = 0;
    if (s->keep && run->generator) (void)mf_generator_cached(run->generator, &n_past);
    return n_past == 0;
}

int moefw_run_generate(moefw_run *run, const char *prompt, size_t n,
                       const moefw_sampling *sampling, moefw_piece_fn piece, void *arg)
{
    mf_run_scope scope;
    moefw_sampling s;
    mf_ids ids = {0};
    MF_RUN_ENTER(run, &scope, code_);
    int rc = !prompt && n > 0 ? mf_run_null("generate", "a prompt") : settle(run, sampling, &s);
    if (rc == MF_OK) rc = needs_tokenizer(run);
    if (rc == MF_OK && n > 0) rc = mf_run_encode(run, prompt, n, begins_text(run, &s), &ids);
    if (rc == MF_OK) rc = mf_run_continue(run, ids.id, ids.n, &s, piece, arg);
    mf_ids_free(&ids);
    return mf_run_leave(run, &scope, rc);
}

int moefw_run_generate_tokens(moefw_run *run, const int32_t *tokens, size_t n,
                              const moefw_sampling *sampling, moefw_piece_fn piece, void *arg)
{
    mf_run_scope scope;
    moefw_sampling s;
    MF_RUN_ENTER(run, &scope, code_);
    int rc = !tokens && n > 0 ? mf_run_null("generate", "tokens") : settle(run, sampling, &s);
    if (rc == MF_OK) rc = mf_run_judge_tokens(run, tokens, n);
    if (rc == MF_OK) rc = mf_run_continue(run, tokens, n, &s, piece, arg);
    return mf_run_leave(run, &scope, rc);
}
