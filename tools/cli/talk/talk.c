/* A conversation with a trained run: it continues texts, and commands show its routing and
 * change gates and other options. A wrong line never ends the conversation. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "cli/talk/line_edit.h"
#include "cli/talk/look.h"
#include "cli/talk/steer.h"
#include "cli/talk/talker.h"

#define MAX_WORDS 4

typedef struct {
    mf_talker *run;
    mf_talker baseline; /* session NULL: there is no baseline */
    char name[64];      /* name of the baseline */
    mf_steer steer;     /* changes of the run's routing */
    bool end;
} talk;

typedef struct {
    const char *name, *words, *help;
    int min, max; /* number of words that must follow the name, at least and at most */
    int (*obey)(talk *t, int n, char *const *word);
} command;

static const command commands[];

/* Reports a mistake in one line; the conversation continues. */
MF_PRINTF(1, 2)
static int wrong(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    mf_vlog(MF_LOG_ERROR, fmt, args);
    va_end(args);
    return MF_OK;
}

static bool number(const char *word, double lo, double hi, double *ret)
{
    return mf_parse_f64(word, ret) && *ret >= lo && *ret <= hi;
}

/* ---- how texts are printed ---- */

static void both(talk *t, void (*set)(mf_talker *t, double value), double value)
{
    set(t->run, value);
    if (t->baseline.session) set(&t->baseline, value);
}

static void set_tokens(mf_talker *t, double v)
{
    t->tokens = (int64_t)v;
}
static void set_temperature(mf_talker *t, double v)
{
    mf_sampler_settings(t->sampler)->temperature = v;
}
static void set_top_k(mf_talker *t, double v)
{
    mf_sampler_settings(t->sampler)->top_k = (int64_t)v;
}
static void set_top_p(mf_talker *t, double v)
{
    mf_sampler_settings(t->sampler)->top_p = v;
}
static void set_penalty(mf_talker *t, double v)
{
    mf_sampler_settings(t->sampler)->repeat_penalty = v;
}

static int obey_number(talk *t, const char *word, double lo, double hi,
                       void (*set)(mf_talker *t, double value))
{
    double value;
    if (!number(word, lo, hi, &value))
        return wrong("expected a number from %g to %g, found '%s'", lo, hi, word);
    both(t, set, value);
    return MF_OK;
}

static int obey_tokens(talk *t, int n, char *const *word)
{
    (void)n;
    return obey_number(t, word[0], 1, 1e6, set_tokens);
}
static int obey_temperature(talk *t, int n, char *const *word)
{
    (void)n;
    return obey_number(t, word[0], 0, 100, set_temperature);
}
static int obey_top_k(talk *t, int n, char *const *word)
{
    (void)n;
    return obey_number(t, word[0], 0, 1e9, set_top_k);
}
static int obey_top_p(talk *t, int n, char *const *word)
{
    (void)n;
    return obey_number(t, word[0], 0, 1, set_top_p);
}
static int obey_penalty(talk *t, int n, char *const *word)
{
    (void)n;
    return obey_number(t, word[0], 0.01, 100, set_penalty);
}

static int obey_new(talk *t, int n, char *const *word)
{
    (void)n;
    (void)word;
    mf_generator_reset(t->run->generator);
    if (t->baseline.session) mf_generator_reset(t->baseline.generator);
    return MF_OK;
}

static int obey_exit(talk *t, int n, char *const *word)
{
    (void)n;
    (void)word;
    t->end = true;
    return MF_OK;
}

/* ---- routing ---- */

static int obey_experts(talk *t, int n, char *const *word)
{
    (void)n;
    (void)word;
    if (t->run->session->model->n_moe == 0) return wrong("this model has no experts");
    t->run->experts = !t->run->experts;
    return MF_OK;
}

static void print_token_route(const mf_talker *t, const mf_model_graph *mg, int32_t at,
                              int32_t id)
{
    char safe[64];
    printf("%-10s", mf_talker_piece(t, id, safe, sizeof safe));
    for (int32_t i = 0; i < t->session->model->n_moe; i++) {
        const mf_routing *r = &mg->moe[i].routing;
        const int32_t *chosen = mf_tensor_host(r->chosen);
        const float *prob = r->prob ? mf_tensor_host(r->prob) : NULL;
        const int32_t k = r->token ? 0 : r->rows / r->tokens;
        printf("  %d:", (int)r->layer);
        for (int32_t j = 0; chosen && j < k; j++) {
            const int32_t e = chosen[at * k + j];
            if (e < 0) continue;
            printf(" %d", (int)e);
            if (prob) printf(" (%.2f)", (double)prob[at * r->experts + e]);
        }
    }
    putchar('\n');
}

static void print_shares(const mf_routing *r)
{
    const int32_t *chosen = mf_tensor_host(r->chosen);
    printf("layer %d: share of assignments by expert:", (int)r->layer);
    for (int32_t e = 0; e < r->experts; e++) {
        int32_t rows = 0, all = 0;
        for (int32_t i = 0; chosen && i < r->rows; i++) {
            all += chosen[i] >= 0;
            rows += chosen[i] == e;
        }
        printf(" %.2f", all > 0 ? (double)rows / all : 0);
    }
    putchar('\n');
}

static int obey_route(talk *t, int n, char *const *word)
{
    const mf_talker *run = t->run;
    const mf_model_graph *mg;
    int64_t n_past, first;
    (void)n;
    (void)word;
    const int32_t *past = mf_generator_cached(run->generator, &n_past);
    if (run->session->model->n_moe == 0) return wrong("this model has no experts");
    if (n_past == 0) return wrong("there is no text yet whose routing could be shown");
    int rc = mf_generator_review(run->generator, &mg, &first);
    if (rc != MF_OK) return rc;
    for (int64_t i = first; i < n_past; i++)
        print_token_route(run, mg, (int32_t)(i - first), past[i]);
    for (int32_t i = 0; i < run->session->model->n_moe; i++)
        print_shares(&mg->moe[i].routing);
    return MF_OK;
}

/* ---- gates ---- */

/* Reports the last failure as a mistake in a line. */
static int told(void)
{
    wrong("%s", mf_error_message());
    mf_error_clear();
    return MF_OK;
}

static int obey_gates(talk *t, int n, char *const *word)
{
    (void)n;
    (void)word;
    if (mf_look_needs_gates(t->run->session->model) != MF_OK) return told();
    mf_look_gates(t->run->session->model);
    return MF_OK;
}

/* Reads "all" or an index below n as the range ret[0] .. ret[1] - 1. Returns false if the word
 * is neither. */
static bool range(const char *word, int64_t n, int64_t ret[2])
{
    long long i;
    const bool all = strcmp(word, "all") == 0;
    if (!all && (!mf_parse_i64(word, &i) || i < 0 || i >= n)) return false;
    ret[0] = all ? 0 : i;
    ret[1] = all ? n : i + 1;
    return true;
}

static int obey_gate(talk *t, int n, char *const *word)
{
    const mf_model_config *c = &t->run->session->model->config->model;
    int64_t layer[2], head[2];
    double value;
    (void)n;
    if (mf_look_needs_gates(t->run->session->model) != MF_OK) return told();
    if (!range(word[0], c->layers, layer))
        return wrong("layer: expected all, or 0 to %d, found '%s'", (int)c->layers - 1,
                     word[0]);
    if (!range(word[1], c->heads, head))
        return wrong("head: expected all, or 0 to %d, found '%s'", (int)c->heads - 1, word[1]);
    if (!mf_parse_f64(word[2], &value) || !(value >= 0 && value <= 1))
        return wrong("gate: expected a number from 0 to 1, found '%s'", word[2]);
    const int rc = mf_look_set_gates(t->run, layer, head, value, &value);
    if (rc == MF_OK) printf("layer %s, head %s: gate %.5f\n", word[0], word[1], value);
    return rc;
}

/* ---- skips ---- */

static int obey_skip(talk *t, int n, char *const *word)
{
    const mf_model *m = t->run->session->model;
    double scale = mf_look_usual_skip(m);
    int rc = MF_OK;
    if (mf_look_needs_skips(m) != MF_OK) return told();
    if (n > 0 && strcmp(word[0], "off") == 0)
        scale = 0;
    else if (n > 0 && strcmp(word[0], "on") != 0 && !number(word[0], -1e3, 1e3, &scale))
        return wrong("expected on, off or a number from -1000 to 1000, found '%s'", word[0]);
    if (n > 0) rc = mf_look_set_skip(t->run, scale);
    if (rc == MF_OK) mf_look_skip(m);
    return rc;
}

/* ---- changes of routing ---- */

static int steer(talk *t, const char *how, const char *word, double d)
{
    const int rc = mf_steer_add(&t->steer, t->run, how, word, d);
    if (rc == MF_EUSAGE) return told();
    if (rc == MF_OK) mf_steer_print(&t->steer);
    return rc;
}

static int obey_ban(talk *t, int n, char *const *word)
{
    (void)n;
    return steer(t, "ban", word[0], 0);
}
static int obey_drop(talk *t, int n, char *const *word)
{
    (void)n;
    return steer(t, "drop", word[0], 0);
}
static int obey_force(talk *t, int n, char *const *word)
{
    (void)n;
    return steer(t, "force", word[0], 0);
}
static int obey_exchange(talk *t, int n, char *const *word)
{
    (void)n;
    return steer(t, "exchange", word[0], 0);
}

static int obey_bias(talk *t, int n, char *const *word)
{
    double d;
    (void)n;
    if (!number(word[1], -1e6, 1e6, &d))
        return wrong("expected a number from -1e6 to 1e6, found '%s'", word[1]);
    return steer(t, "bias", word[0], d);
}

static int obey_changes(talk *t, int n, char *const *word)
{
    (void)n;
    (void)word;
    mf_steer_print(&t->steer);
    return MF_OK;
}

static int obey_undo(talk *t, int n, char *const *word)
{
    const char *name;
    (void)n;
    (void)word;
    const int rc = mf_steer_undo(&t->steer, t->run, &name);
    if (rc != MF_OK) return rc;
    if (!name) return wrong("there is no change that could be taken back");
    printf("taken back: %s\n", name);
    mf_steer_print(&t->steer);
    return MF_OK;
}

static int obey_probe(talk *t, int n, char *const *word)
{
    double with, without;
    int64_t tokens;
    (void)n;
    (void)word;
    const int rc = mf_steer_measure(&t->steer, t->run, &with, &without, &tokens);
    if (rc == MF_EUSAGE) return told();
    if (rc == MF_OK)
        printf("loss of the last %lld tokens: %.4f without changes, %.4f with them: %+.4f "
               "nats/token\n",
               (long long)tokens, without, with, with - without);
    return rc;
}

/* ---- side by side ---- */

static int obey_baseline(talk *t, int n, char *const *word)
{
    (void)n;
    mf_talker other = {0};
    if (strcmp(word[0], "off") != 0) {
        const int rc =
            mf_talker_open(&other, word[0], -1, NULL, t->run->session->config->train.device,
                           true, mf_sampler_settings(t->run->sampler), t->run->tokens);
        if (rc != MF_OK) return told();
        snprintf(t->name, sizeof t->name, "%s", word[0]);
    }
    mf_talker_close(&t->baseline);
    t->baseline = other;
    return MF_OK;
}

/* Prints a run's continuation, under its name if there are two runs. */
static int answer(talk *t, mf_talker *who, const char *name, const char *text)
{
    if (t->baseline.session) printf("[%s]\n", mf_shown_on(stdout, name));
    const int rc = mf_talker_continue(who, text, strlen(text), false);
    /* a character is not in the tokenizer's vocabulary, or the text is empty */
    return rc == MF_EINPUT || rc == MF_EUSAGE ? told() : rc;
}

static int obey_help(talk *t, int n, char *const *word)
{
    (void)t;
    (void)n;
    (void)word;
    for (const command *c = commands; c->name; c++) {
        char both_words[40];
        snprintf(both_words, sizeof both_words, "/%s %s", c->name, c->words);
        printf("%-26s %s\n", both_words, c->help);
    }
    return MF_OK;
}

static const command commands[] = {
    {"help", "", "list these", 0, 0, obey_help},
    {"gates", "", "gates of the attention heads, layer by layer", 0, 0, obey_gates},
    {"gate", "LAYER HEAD G", "set gates, 0 to 1; LAYER and HEAD may be all", 3, 3, obey_gate},
    {"skip", "[on|off|SCALE]", "switch skips between blocks, or show them", 0, 1, obey_skip},
    {"route", "", "experts of every token of the text, with their probabilities", 0, 0,
     obey_route},
    {"experts", "", "show the experts of each token while it is written, or no more", 0, 0,
     obey_experts},
    {"ban", "LAYER.EXPERT", "no token may choose this expert; the next choice comes in", 1, 1,
     obey_ban},
    {"drop", "LAYER.EXPERT", "this expert adds nothing to the tokens that choose it", 1, 1,
     obey_drop},
    {"bias", "LAYER.EXPERT D", "add D to its score (often a probability) for the choice", 2, 2,
     obey_bias},
    {"force", "LAYER.A+B", "all tokens choose among these experts", 1, 1, obey_force},
    {"exchange", "LAYER.A-B", "each computes what is routed to the other", 1, 1, obey_exchange},
    {"changes", "", "list the changes of routing", 0, 0, obey_changes},
    {"undo", "", "take the last change of routing back", 0, 0, obey_undo},
    {"probe", "", "what the changes do to the loss of the text so far", 0, 0, obey_probe},
    {"baseline", "RUN|off", "let another run continue the same lines", 1, 1, obey_baseline},
    {"new", "", "forget the text so far", 0, 0, obey_new},
    {"tokens", "N", "how many tokens to write", 1, 1, obey_tokens},
    {"temp", "T", "temperature; 0 takes the likeliest token", 1, 1, obey_temperature},
    {"top-k", "K", "draw from the K likeliest; 0: all", 1, 1, obey_top_k},
    {"top-p", "P", "draw from the likeliest that make up probability P", 1, 1, obey_top_p},
    {"repeat-penalty", "R", "above 1: tokens of the text become less likely", 1, 1,
     obey_penalty},
    {"exit", "", "end; so do exit, quit and /quit", 0, 0, obey_exit},
    {NULL, NULL, NULL, 0, 0, NULL},
};

static int unknown(const char *name)
{
    char list[1024] = "";
    const char *names[sizeof commands / sizeof *commands];
    int n = 0;
    for (const command *c = commands; c->name; c++) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "  /%s%s%s", c->name,
                 c->words[0] ? " " : "", c->words);
        names[n++] = c->name;
    }
    names[n] = NULL;
    const char *near = mf_nearest(name, names);
    return wrong("no command '/%s'%s%s%s there are%s", name, near ? "; did you mean '/" : ":",
                 near ? near : "", near ? "'?" : "", list);
}

/* ---- lines ---- */

static int obey(talk *t, char *line)
{
    char *word[MAX_WORDS + 1], *name = strsep(&line, " \t"), *one;
    int n = 0;
    while ((one = strsep(&line, " \t")))
        if (one[0] && n <= MAX_WORDS) word[n++] = one;
    if (strcmp(name, "quit") == 0) return obey_exit(t, 0, NULL);
    for (const command *c = commands; c->name; c++) {
        if (strcmp(c->name, name) != 0) continue;
        if (n >= c->min && n <= c->max) return c->obey(t, n, word);
        return wrong("expected /%s%s%s", c->name, c->words[0] ? " " : " and nothing behind it",
                     c->words);
    }
    return unknown(name);
}

/* The text printed before the user's line. It differs for models that continue text and for
 * models of conversations. With -q it is only "> ". */
static const char *prompt_of(const mf_talker *run)
{
    if (mf_log_get_level() < MF_LOG_INFO) return "> ";
    return run->chat.form == MF_CHAT_PLAIN ? "Prompt: " : "User: ";
}

static void announce(void)
{
    if (mf_log_get_level() >= MF_LOG_INFO) fputs("Generating Text ....\nModel:\n", stderr);
}

int mf_talk(mf_talker *run, mf_talker *baseline, const char *name)
{
    static char line[65536];
    talk t = {.run = run, .baseline = *baseline};
    bool too_long = false;
    int rc = MF_OK;
    *baseline = (mf_talker){0};
    snprintf(t.name, sizeof t.name, "%s", name ? name : "");
    fprintf(stderr, "Each line is %s; /help lists commands, exit ends.\n",
            run->chat.form == MF_CHAT_PLAIN ? "continued" : "a message");
    while (rc == MF_OK && !t.end) {
        if (!mf_line_read(prompt_of(run), line, sizeof line, &too_long)) break;
        if (too_long) {
            wrong("expected lines of at most %d bytes", (int)sizeof line - 2);
            continue;
        }
        if (!line[0]) continue;
        if (strcmp(line, "exit") == 0 || strcmp(line, "quit") == 0) break;
        if (line[0] == '/') {
            rc = obey(&t, line + 1);
            continue;
        }
        announce();
        rc = answer(&t, run, "this run", line);
        if (rc == MF_OK && t.baseline.session) rc = answer(&t, &t.baseline, t.name, line);
    }
    mf_talker_close(&t.baseline);
    mf_steer_free(&t.steer);
    return rc;
}
