/* moefw generate: a trained run continues a text. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/ini.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "generate/generator.h"
#include "report/terminal.h"
#include "report/terminal.h"
#include "train/load.h"

static const mf_cli_form forms[] = {{NULL, "RUN", 1, 1, "continue a text"}, MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = MF_CLI_TEXT,
     .arg = "TEXT",
     .help = "text to continue"},
    {.name = "file",
     .letter = 'f',
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "read the text from a file"},
    {.name = "tokens",
     .letter = 'n',
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "how many tokens to write (200)"},
    {.name = "temp",
     .kind = MF_CLI_REAL,
     .arg = "T",
     .lo = 0,
     .hi = 100,
     .help = "temperature (0.8); 0 takes the likeliest token"},
    {.name = "top-k",
     .kind = MF_CLI_INT,
     .arg = "K",
     .lo = 0,
     .hi = 1e9,
     .help = "draw from the K likeliest tokens; 0: all (40)"},
    {.name = "top-p",
     .kind = MF_CLI_REAL,
     .arg = "P",
     .lo = 0,
     .hi = 1,
     .help = "draw from the likeliest tokens that make up probability P (0.95)"},
    {.name = "repeat-penalty",
     .kind = MF_CLI_REAL,
     .arg = "R",
     .lo = 0.01,
     .hi = 100,
     .help = "above 1 makes tokens of the text so far less likely (1)"},
    {.name = "seed",
     .letter = 's',
     .kind = MF_CLI_INT,
     .arg = "SEED",
     .lo = 0,
     .hi = 9e15,
     .help = "the same seed gives the same text (0)"},
    {.name = "no-cache",
     .kind = MF_CLI_FLAG,
     .help = "run the whole text again for each token, to check the cache against"},
    {.name = "interactive",
     .letter = 'i',
     .kind = MF_CLI_FLAG,
     .help = "a conversation: each line is continued; /quit ends it"},
    MF_CLI_END};

typedef struct {
    mf_session *session;
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t tokens; /* to write */
    int64_t drawn;  /* so far, over the whole conversation */
    bool experts;   /* show which experts each token used */
} writer;

static int read_prompt(const mf_cli *cli, char **ret, size_t *ret_n)
{
    const char *text = mf_cli_text(cli, "prompt", NULL), *file = mf_cli_text(cli, "file", NULL);
    if (text && file)
        return mf_fail(MF_EUSAGE, "-p and -f both name the text; give one of them");
    if (file) return mf_read_file(file, (size_t)1 << 26, ret, ret_n);
    *ret = mf_strdup(text ? text : "\n");
    *ret_n = *ret ? strlen(*ret) : 0;
    return *ret ? MF_OK : MF_ENOMEM;
}

static void put(const char *text, size_t n)
{
    mf_terminal_put(stdout, text, n);
    fflush(stdout);
}

/* Experts of the token that was read last, layer by layer: "0: 3 5  1: 2 7". */
static void print_experts(const writer *w, int32_t id)
{
    char safe[64], text[32];
    size_t n_piece = 0;
    const char *piece = mf_tokenizer_piece(w->session->tokenizer, id, &n_piece);
    snprintf(text, sizeof text, "%.*s", (int)n_piece, piece);
    const mf_model_graph *mg = mf_generator_graph(w->generator);
    const int32_t n = w->session->model->n_moe;
    fprintf(stderr, "%-10s", mf_terminal_safe(text, false, safe, sizeof safe));
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

static int continue_text(writer *w, const char *text, size_t n)
{
    mf_ids ids = {0};
    mf_decoder decoder;
    const mf_tokenizer *t = w->session->tokenizer;
    const float *logits = NULL;
    int rc = mf_tokenizer_encode(t, "the prompt", text, n, &ids);
    if (rc == MF_OK && ids.n == 0)
        rc = mf_fail(MF_EUSAGE, "the prompt is empty; expected at least one token of text");
    if (rc == MF_OK) rc = mf_generator_feed(w->generator, ids.id, (int64_t)ids.n, &logits);
    mf_ids_free(&ids);
    if (rc != MF_OK) return rc;
    rc = mf_decoder_open(&decoder, t);
    if (rc != MF_OK) return rc;
    const double began = mf_clock();
    int64_t i = 0;
    size_t length;
    for (; rc == MF_OK && i < w->tokens; i++) {
        int64_t n_past;
        const int32_t *past = mf_generator_past(w->generator, &n_past);
        if (w->experts) print_experts(w, past[n_past - 1]);
        const int32_t id = mf_sampler_draw(w->sampler, logits, past, n_past, w->drawn++);
        if (id < 0) {
            rc = mf_fail(MF_ENONFINITE, "token %lld: no logit is finite", (long long)i + 1);
            break;
        }
        if (id == t->special[MF_SPECIAL_EOS]) break;
        const char *piece = mf_decoder_next(&decoder, id, &length);
        put(piece, length);
        if (i + 1 < w->tokens) rc = mf_generator_feed(w->generator, &id, 1, &logits);
    }
    const char *rest = mf_decoder_end(&decoder, &length);
    put(rest, length);
    putchar('\n');
    mf_decoder_close(&decoder);
    const double took = mf_clock() - began;
    mf_log(MF_LOG_INFO, "%lld tokens, %.1f tokens/s", (long long)i,
           took > 0 ? (double)i / took : 0);
    return rc;
}

/* "/temp 0.5" and the like. False if the line is no command. */
static bool obey(writer *w, const char *line)
{
    mf_sampler_options *o = mf_sampler_settings(w->sampler);
    double value = 0;
    char word[16] = "", rest[32] = "";
    if (line[0] != '/') return false;
    sscanf(line, "%15s %31s", word, rest);
    const bool number = mf_parse_f64(rest, &value) && value >= 0;
    if (strcmp(word, "/new") == 0)
        mf_generator_reset(w->generator);
    else if (strcmp(word, "/experts") == 0)
        w->experts = !w->experts;
    else if (strcmp(word, "/temp") == 0 && number && value <= 100)
        o->temperature = value;
    else if (strcmp(word, "/top-k") == 0 && number && value <= 1e9)
        o->top_k = (int64_t)value;
    else if (strcmp(word, "/top-p") == 0 && number && value <= 1)
        o->top_p = value;
    else if (strcmp(word, "/tokens") == 0 && number && value >= 1 && value <= 1e6)
        w->tokens = (int64_t)value;
    else
        fputs("/new  /experts  /temp T  /top-k K  /top-p P  /tokens N  /quit\n", stderr);
    return true;
}

static int converse(writer *w)
{
    char line[4096];
    int rc = MF_OK;
    fputs("Each line is continued; /quit ends, /help lists what else there is.\n", stderr);
    while (rc == MF_OK) {
        fputs("> ", stderr);
        if (!fgets(line, sizeof line, stdin)) break;
        line[strcspn(line, "\r\n")] = 0;
        if (strcmp(line, "/quit") == 0 || strcmp(line, "exit") == 0) break;
        if (obey(w, line)) continue;
        if (!line[0]) continue;
        rc = continue_text(w, line, strlen(line));
        if (rc == MF_EINPUT) { /* a character that the model does not know: say so, go on */
            mf_log(MF_LOG_ERROR, "%s", mf_error_message());
            mf_error_clear();
            rc = MF_OK;
        }
    }
    return rc;
}

static int run(const mf_cli *cli)
{
    const mf_session_options no_data = {.no_data = true};
    const mf_sampler_options sampling = {.temperature = mf_cli_real(cli, "temp", 0.8),
                                         .top_k = mf_cli_int(cli, "top-k", 40),
                                         .top_p = mf_cli_real(cli, "top-p", 0.95),
                                         .repeat_penalty =
                                             mf_cli_real(cli, "repeat-penalty", 1),
                                         .seed = (uint64_t)mf_cli_int(cli, "seed", 0)};
    writer w = {.tokens = mf_cli_int(cli, "tokens", 200)};
    char *prompt = NULL;
    size_t n = 0;
    int64_t step;
    int rc = mf_load_run(mf_cli_operand(cli, 0), &no_data, &w.session, &step);
    if (rc == MF_OK && !w.session->tokenizer)
        rc = mf_fail(MF_EINPUT, "%s: the run has no tokenizer to read the prompt with",
                     mf_cli_operand(cli, 0));
    if (rc == MF_OK)
        rc = mf_generator_new(w.session->model, !mf_cli_flag(cli, "no-cache"), &w.generator);
    if (rc == MF_OK) rc = mf_sampler_new(w.session->model->facts.vocab, &sampling, &w.sampler);
    if (rc == MF_OK && mf_cli_flag(cli, "interactive")) {
        rc = converse(&w);
    } else if (rc == MF_OK) {
        rc = read_prompt(cli, &prompt, &n);
        if (rc == MF_OK) {
            if (mf_cli_text(cli, "prompt", NULL) || mf_cli_text(cli, "file", NULL))
                put(prompt, n);
            rc = continue_text(&w, prompt, n);
        }
    }
    mf_free(prompt);
    mf_sampler_free(w.sampler);
    mf_generator_free(w.generator);
    mf_session_close(w.session);
    return rc;
}

const mf_verb mf_verb_generate = {.name = "generate",
                                  .brief = "continue a text with a trained run",
                                  .forms = forms,
                                  .options = options,
                                  .run = run,
                                  .computes = true};
