/* Continues texts with a trained run. Only the run's generator, its sampler and its count of
 * drawn tokens have state. So a text depends only on the run, the settings, the text before it
 * and the seed. */
#include "cli/talk/talker.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "report/terminal/terminal.h"

static void tell(void *arg, int level, const char *line)
{
    (void)arg;
    mf_log((mf_log_level)level, "%s", line);
}

/* The present settings in the form that the functions of a run take. */
static moefw_sampling settings_of(const mf_sampler_options *o, int64_t tokens)
{
    moefw_sampling s = MOEFW_SAMPLING_INIT;
    s.tokens = tokens;
    s.temperature = o->temperature;
    s.top_k = o->top_k;
    s.top_p = o->top_p;
    s.repeat_penalty = o->repeat_penalty;
    s.seed = o->seed;
    s.keep = 1;
    return s;
}

int mf_talker_open(mf_talker *t, const char *run, int64_t step, const char *dtype,
                   const char *device, bool cache, const mf_sampler_options *sampling,
                   int64_t tokens)
{
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    moefw_sampling s = settings_of(sampling, tokens);
    *t = (mf_talker){.tokens = tokens, .run = moefw_run_new()};
    if (!t->run) return MF_ENOMEM;
    o.step = step;
    o.dtype = dtype;
    o.device = device;
    o.generate_only = 1;
    s.no_cache = !cache;
    moefw_run_on_log(t->run, (int)mf_log_get_level(), tell, NULL);
    int rc = moefw_run_open(t->run, run, &o);
    if (rc == MF_OK && !t->run->session->tokenizer)
        rc = mf_fail(MF_EINPUT, "%s: the run has no tokenizer to read the prompt with", run);
    if (rc == MF_OK) rc = mf_run_generator(t->run, &s);
    if (rc != MF_OK) {
        mf_talker_close(t);
        return rc;
    }
    t->session = t->run->session;
    t->generator = t->run->generator;
    t->sampler = t->run->sampler;
    t->step = t->run->step;
    return MF_OK;
}

void mf_talker_close(mf_talker *t)
{
    moefw_run_free(t->run);
    *t = (mf_talker){0};
}

void mf_talker_put(const char *text, size_t n)
{
    static mf_begun_char begun;
    mf_terminal_put(stdout, &begun, text, n);
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
    return mf_safe_text(text, false, out, size);
}

/* Prints the token and, layer by layer, the experts of the last token: "0: 3 5 1: 2 7". */
static void print_experts(const mf_talker *t, int32_t id)
{
    char safe[64];
    const mf_model_graph *mg = mf_generator_graph(t->generator);
    const int32_t n = t->session->model->n_moe;
    /* If both streams are terminals, the token is already shown, and this line
     * overwrites it. */
    if (mf_terminal_of(stdout).live && mf_terminal_of(stderr).live) fputc('\r', stderr);
    fprintf(stderr, "%-10s", mf_talker_piece(t, id, safe, sizeof safe));
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = &mg->moe[i].routing;
        const int32_t *chosen = mf_tensor_host(r->chosen);
        const int32_t k = r->rows / r->tokens; /* assignments per token */
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

/* A text that is being generated. */
typedef struct writing {
    mf_talker *talker;
    int64_t written; /* number of tokens */
    int rc;
} writing;

static void print_last_experts(const mf_talker *t)
{
    int64_t n_past;
    const int32_t *past = mf_generator_cached(t->generator, &n_past);
    if (t->experts) print_experts(t, past[n_past - 1]);
}

static int on_piece(void *arg, const char *text, size_t n, int32_t token)
{
    writing *w = arg;
    mf_talker *t = w->talker;
    if (token >= 0) {
        print_last_experts(t);
        w->written++;
    }
    w->rc = say(t, text, n);
    if (w->rc == MF_OK && t->ear && token >= 0) w->rc = t->ear->token(t->ear->arg, token);
    return w->rc != MF_OK;
}

/* Prints a blank if the last token of the prompt ends with one and the printed prompt does not.
 * The reason: some tokenizers include the blank after a word in the word's token. */
static void end_word(const mf_tokenizer *t, const mf_ids *ids, const char *text, size_t n)
{
    size_t length = 0;
    const char *piece = mf_tokenizer_piece(t, ids->id[ids->n - 1], &length);
    if (length > 0 && piece[length - 1] == ' ' && n > 0 && !strchr(" \t\r\n", text[n - 1]))
        mf_talker_put(" ", 1);
}

int mf_talker_encode(const mf_talker *t, const char *text, size_t n, bool begins, mf_ids *ids)
{
    char *message;
    size_t m;
    if (t->chat.form == MF_CHAT_PLAIN) return mf_run_encode(t->run, text, n, begins, ids);
    int rc = mf_chat_message(&t->chat, t->session->tokenizer, begins, text, n, &message, &m);
    if (rc == MF_OK) rc = mf_run_encode(t->run, message, m, false, ids);
    mf_free(message);
    return rc;
}

int mf_talker_continue(mf_talker *t, const char *text, size_t n, bool shown)
{
    mf_ids ids = {0};
    writing w = {.talker = t};
    const moefw_sampling s = settings_of(mf_sampler_settings(t->sampler), t->tokens);
    int64_t n_past;
    (void)mf_generator_cached(t->generator, &n_past);
    int rc = mf_talker_encode(t, text, n, n_past == 0, &ids);
    if (rc == MF_OK && shown && ids.n > 0) end_word(t->session->tokenizer, &ids, text, n);
    const double began = mf_clock();
    if (rc == MF_OK) rc = mf_run_continue(t->run, ids.id, ids.n, &s, on_piece, &w);
    mf_ids_free(&ids);
    if (rc == MF_OK) rc = w.rc;
    if (rc == MF_OK && w.written < t->tokens)
        print_last_experts(t); /* experts of the last token */
    if (rc != MF_OK && w.written == 0) return rc;
    if (!t->ear || t->ear->aloud) putchar('\n');
    /* the text must appear before the next line on standard error */
    fflush(stdout);
    const double took = mf_clock() - began;
    mf_log(MF_LOG_INFO, "%lld tokens, %.1f tokens/s", (long long)w.written,
           took > 0 ? (double)w.written / took : 0);
    return rc;
}
