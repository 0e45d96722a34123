#include "cli/talker.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/clean.h"
#include "report/terminal.h"
#include "train/load.h"

int mf_talker_open(mf_talker *t, const char *run, const char *dtype, bool cache,
                   const mf_sampler_options *sampling, int64_t tokens)
{
    const mf_session_options no_data = {.no_data = true};
    const mf_load_change change = {.step = -1, .dtype = dtype};
    *t = (mf_talker){.tokens = tokens};
    int rc = mf_load_run_as(run, &no_data, &change, &t->session, &t->step);
    if (rc == MF_OK && !t->session->tokenizer)
        rc = mf_fail(MF_EINPUT, "%s: the run has no tokenizer to read the prompt with", run);
    if (rc == MF_OK) rc = mf_generator_new(t->session->model, cache, &t->generator);
    if (rc == MF_OK) rc = mf_generator_settle(t->generator);
    if (rc == MF_OK) rc = mf_sampler_new(t->session->model->facts.vocab, sampling, &t->sampler);
    if (rc != MF_OK) mf_talker_close(t);
    return rc;
}

void mf_talker_close(mf_talker *t)
{
    mf_sampler_free(t->sampler);
    mf_generator_free(t->generator);
    mf_session_close(t->session);
    *t = (mf_talker){0};
}

void mf_talker_put(const char *text, size_t n)
{
    mf_terminal_put(stdout, text, n);
    fflush(stdout);
}

const char *mf_talker_piece(const mf_talker *t, int32_t id, char *out, size_t size)
{
    char text[32];
    size_t n = 0;
    const mf_tokenizer *tokenizer = t->session->tokenizer;
    const char *piece = mf_tokenizer_piece(tokenizer, id, &n),
               *special = mf_tokenizer_special(tokenizer, id);
    if (special)
        snprintf(text, sizeof text, "%s", special);
    else
        snprintf(text, sizeof text, "%.*s", (int)n, piece ? piece : "");
    return mf_terminal_safe(text, false, out, size);
}

/* Experts of the token that was read last, layer by layer: "0: 3 5  1: 2 7". */
static void print_experts(const mf_talker *t, int32_t id)
{
    char safe[64];
    const mf_model_graph *mg = mf_generator_graph(t->generator);
    const int32_t n = t->session->model->n_moe;
    /* Where both streams are the same screen the token stands there already: the line goes over
     * it. */
    if (mf_terminal_of(stdout).live && mf_terminal_of(stderr).live) fputc('\r', stderr);
    fprintf(stderr, "%-10s", mf_talker_piece(t, id, safe, sizeof safe));
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = &mg->moe[i].routing;
        const int32_t *chosen = mf_tensor_data(r->chosen);
        const int32_t k = r->rows / r->tokens; /* of the last token of the run */
        fprintf(stderr, "  %d:", (int)r->layer);
        for (int32_t j = 0; chosen && !r->token && j < k; j++) {
            const int32_t e = chosen[r->rows - k + j];
            if (e >= 0) fprintf(stderr, " %d", (int)e);
        }
    }
    fputc('\n', stderr);
}

static int say(mf_talker *t, const char *text, size_t n)
{
    if (t->ear) return t->ear->piece(t->ear->arg, text, n);
    mf_talker_put(text, n);
    return MF_OK;
}

static int write_tokens(mf_talker *t, mf_decoder *decoder, const float *logits, int64_t *ret_n)
{
    const mf_tokenizer *tokenizer = t->session->tokenizer;
    int rc = MF_OK;
    int64_t i = 0;
    for (; rc == MF_OK && i < t->tokens; i++) {
        int64_t n_past;
        size_t length;
        const int32_t *past = mf_generator_past(t->generator, &n_past);
        if (t->experts) print_experts(t, past[n_past - 1]);
        const int32_t id = mf_sampler_draw(t->sampler, logits, past, n_past, t->drawn++);
        if (id < 0) {
            rc = mf_fail(MF_ENONFINITE, "token %lld: no logit is finite", (long long)i + 1);
            break;
        }
        if (id == tokenizer->special[MF_SPECIAL_EOS]) break;
        const char *piece = mf_decoder_next(decoder, id, &length);
        rc = say(t, piece, length);
        if (rc == MF_OK && t->ear) rc = t->ear->token(t->ear->arg, id);
        if (rc == MF_OK && i + 1 < t->tokens)
            rc = mf_generator_feed(t->generator, &id, 1, &logits);
    }
    *ret_n = i;
    return rc;
}

/* Where a token holds the blank behind its word, the text's last word wants it too. */
static void end_word(const mf_tokenizer *t, const mf_ids *ids, const char *text, size_t n)
{
    size_t length = 0;
    const char *piece = mf_tokenizer_piece(t, ids->id[ids->n - 1], &length);
    if (length > 0 && piece[length - 1] == ' ' && n > 0 && !strchr(" \t\r\n", text[n - 1]))
        mf_talker_put(" ", 1);
}

int mf_talker_encode(const mf_talker *t, const char *text, size_t n, mf_ids *ids)
{
    const mf_tokenizer *tokenizer = t->session->tokenizer;
    char *plain = NULL;
    size_t m;
    if (!t->session->config->data.clean)
        return mf_tokenizer_encode(tokenizer, "the prompt", text, n, ids);
    int rc = mf_clean_text(text, n, &plain, &m);
    if (rc == MF_OK && m > 0 && text[n - 1] == ' ') plain[m++] = ' '; /* in place of the NUL */
    if (rc == MF_OK) /* of nothing but signs nothing is left: then as it is */
        rc = mf_tokenizer_encode(tokenizer, "the prompt", m > 0 ? plain : text, m > 0 ? m : n,
                                 ids);
    mf_free(plain);
    return rc;
}

int mf_talker_continue(mf_talker *t, const char *text, size_t n, bool shown)
{
    mf_ids ids = {0};
    mf_decoder decoder;
    const mf_tokenizer *tokenizer = t->session->tokenizer;
    const float *logits = NULL;
    int rc = mf_talker_encode(t, text, n, &ids);
    if (rc == MF_OK && ids.n == 0)
        rc = mf_fail(MF_EUSAGE, "the prompt is empty; expected at least one token of text");
    if (rc == MF_OK && shown) end_word(tokenizer, &ids, text, n);
    if (rc == MF_OK) rc = mf_generator_feed(t->generator, ids.id, (int64_t)ids.n, &logits);
    mf_ids_free(&ids);
    if (rc == MF_OK) rc = mf_decoder_open(&decoder, tokenizer);
    if (rc != MF_OK) return rc;
    const double began = mf_clock();
    int64_t written = 0;
    size_t length;
    rc = write_tokens(t, &decoder, logits, &written);
    const char *rest = mf_decoder_end(&decoder, &length);
    if (rc == MF_OK) rc = say(t, rest, length);
    if (!t->ear) putchar('\n');
    mf_decoder_close(&decoder);
    const double took = mf_clock() - began;
    mf_log(MF_LOG_INFO, "%lld tokens, %.1f tokens/s", (long long)written,
           took > 0 ? (double)written / took : 0);
    return rc;
}
