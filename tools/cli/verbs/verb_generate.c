/* moefw generate: a trained run continues a text, once or in a conversation. Options that set
 * the switches of skip adapters apply before the first token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "config/aliases.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/talk/look.h"
#include "cli/samples.h"
#include "cli/talk/talker.h"
#include "api/run_internal.h"
#include "run/sections/run_sections.h"

static const mf_cli_form forms[] = {
    {NULL, "RUN|CHECKPOINT", 1, 1, "continue a text, with the newest checkpoint or another"},
    MF_CLI_FORM_END};

/* Chat formats in the order of mf_chat_form, with "auto", the tokenizer's own format, first. */
static const char *const chats[] = {"auto", "plain", "chatml", "mistral", NULL};

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
     .also = "temperature",
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
    {.name = "step",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "the run's checkpoint of this step instead of the newest"},
    {.name = "dtype",
     .kind = MF_CLI_ENUM,
     .arg = "TYPE",
     .choices = mf_config_dtypes,
     .help =
         "weights that gemms read: f32, or bf16 with half the memory per token (as the run was "
         "trained)"},
    {.name = "no-cache",
     .kind = MF_CLI_FLAG,
     .help =
         "run the whole text again for each token, to check the cache against; texts differ "
         "where other tokens of a run matter: under a capacity, or without model.causal"},
    {.name = "samples",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e6,
     .help = "so many texts, of seeds SEED to SEED + N - 1 (1)"},
    {.name = "quality",
     .kind = MF_CLI_FLAG,
     .help =
         "tell how much the texts repeat and how likely the model finds them: TEXT QUALITY"},
    {.name = "baseline",
     .kind = MF_CLI_TEXT,
     .arg = "RUN",
     .help = "let another run continue the same text beside this one"},
    {.name = "ids",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "write no text but the ids of --samples texts into this new file, for data.format "
             "= bin; runs without a tokenizer can do this, too"},
    {.name = "begin",
     .kind = MF_CLI_TEXT,
     .arg = "ID,ID...",
     .help = "--ids: each text begins with these ids"},
    {.name = "analyze",
     .kind = MF_CLI_FLAG,
     .help =
         "gates of the attention heads by layer, active and pruned; no text, unless asked for"},
    {.name = "enable-skips",
     .also = mf_alias_skips_flag,
     .kind = MF_CLI_FLAG,
     .help = "switch skips between blocks on, as configured (0.1 where the run has them off)"},
    {.name = "skip-scale",
     .kind = MF_CLI_REAL,
     .arg = "S",
     .lo = -1e3,
     .hi = 1e3,
     .help = "set the factor on skips between blocks; 0: off"},
    {.name = "interactive",
     .letter = 'i',
     .kind = MF_CLI_FLAG,
     .help =
         "a conversation: each line is continued; /help lists commands that look inside, exit "
         "ends"},
    {.name = "chat",
     .kind = MF_CLI_ENUM,
     .arg = "FORM",
     .choices = chats,
     .help =
         "each text is a message: auto, in the form of the tokenizer's template (usual with "
         "-i); chatml; mistral; plain: texts are continued as they are (usual without -i)"},
    MF_CLI_FORCE_OF(NULL),
    MF_CLI_END};

static int read_prompt(const mf_cli *cli, char **ret, size_t *ret_n)
{
    const char *text = mf_cli_text(cli, "prompt", NULL), *file = mf_cli_text(cli, "file", NULL);
    if (text && file)
        return mf_fail(MF_EUSAGE, "-p and -f both name the text; give one of them");
    if (file) return mf_cli_input(mf_read_input(file, (size_t)1 << 26, ret, ret_n));
    *ret = mf_strdup(text ? text : "\n");
    *ret_n = *ret ? strlen(*ret) : 0;
    return *ret ? MF_OK : MF_ENOMEM;
}

/* Whether a text is to be generated. --analyze alone generates no text. */
static bool wants_text(const mf_cli *cli)
{
    static const char *const asked[] = {"prompt",  "file",     "samples",
                                        "quality", "baseline", NULL};
    for (int i = 0; asked[i]; i++)
        if (mf_cli_count(cli, asked[i]) > 0) return true;
    return !mf_cli_flag(cli, "analyze");
}

/* ---- ids ---- */

enum { BEGIN_MAX = 4096 };

static int read_begin(const mf_cli *cli, mf_ids *ids)
{
    const char *text = mf_cli_text(cli, "begin", ""), *at = text;
    int rc = MF_OK;
    while (rc == MF_OK && *at) {
        char *end;
        const long long id = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || id < 0 || id > INT32_MAX ||
            ids->n == BEGIN_MAX)
            return mf_fail(MF_EUSAGE, "--begin: expected ids as 1,15,2, found '%s'", text);
        rc = mf_ids_push(ids, (int32_t)id, 0);
        at = end + (*end == ',');
    }
    if (rc != MF_OK || ids->n > 0) return rc;
    return mf_fail(MF_EUSAGE, "--ids wants --begin ID,ID...: the ids that a text begins with");
}

static int hear_id(void *arg, const char *text, size_t n, int32_t token)
{
    (void)text;
    (void)n;
    return token < 0 ? 0 : mf_ids_push(arg, token, 0);
}

/* Writes ids in the layout that data.format = bin reads. small: 2 bytes per id, which needs a
 * vocabulary that fits; else 4 bytes. */
static int save_ids(const char *path, const mf_ids *ids, bool small)
{
    const size_t width = small ? 2 : 4;
    unsigned char *bytes = mf_alloc(ids->n + 1, width);
    if (!bytes) return MF_ENOMEM;
    for (size_t i = 0; i < ids->n; i++)
        for (size_t b = 0; b < width; b++)
            bytes[i * width + b] = (unsigned char)((uint32_t)ids->id[i] >> 8 * b);
    const int rc = mf_write_file_atomic(path, bytes, ids->n * width);
    mf_free(bytes);
    return rc;
}

static int generate_ids(const mf_cli *cli, const moefw_sampling *sampling, moefw_run *run,
                        const mf_ids *begin, mf_ids *all)
{
    const int64_t samples = mf_cli_int(cli, "samples", 1);
    int rc = MF_OK;
    for (int64_t i = 0; rc == MF_OK && i < samples; i++) {
        moefw_sampling one = *sampling;
        one.seed += (uint64_t)i;
        for (size_t j = 0; rc == MF_OK && j < begin->n; j++)
            rc = mf_ids_push(all, begin->id[j], 0);
        if (rc == MF_OK)
            rc = moefw_run_generate_tokens(run, begin->id, begin->n, &one, hear_id, all);
    }
    return rc;
}

static int write_ids(const mf_cli *cli, const mf_sampler_options *o, int64_t tokens)
{
    const char *path = mf_cli_text(cli, "ids", NULL);
    moefw_open_options open = MOEFW_OPEN_OPTIONS_INIT;
    moefw_sampling sampling = MOEFW_SAMPLING_INIT;
    mf_ids begin = {0}, all = {0};
    moefw_run *run = moefw_run_new();
    open.generate_only = 1;
    open.step = mf_cli_int(cli, "step", -1);
    open.dtype = mf_cli_text(cli, "dtype", NULL);
    open.device = mf_cli_text(cli, "device", NULL);
    open.threads = (int)mf_cli_int(cli, "threads", 0);
    sampling.tokens = tokens;
    sampling.temperature = o->temperature;
    sampling.top_k = o->top_k;
    sampling.top_p = o->top_p;
    sampling.repeat_penalty = o->repeat_penalty;
    sampling.seed = o->seed;
    sampling.no_cache = mf_cli_flag(cli, "no-cache");
    int rc = run ? read_begin(cli, &begin) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_cli_new_file(cli, path);
    if (rc == MF_OK) rc = moefw_run_open(run, mf_cli_operand(cli, 0), &open);
    if (rc == MF_OK) rc = generate_ids(cli, &sampling, run, &begin, &all);
    if (rc == MF_OK) rc = save_ids(path, &all, run->session->model->dims.vocab <= 65536);
    mf_ids_free(&begin);
    mf_ids_free(&all);
    moefw_run_free(run);
    return rc;
}

static int judge(const mf_cli *cli)
{
    static const char *const no_ids[] = {"interactive", "quality", "prompt", "file", "baseline",
                                         "analyze",     "chat",    "json",   NULL};
    const bool ids = mf_cli_count(cli, "ids") > 0;
    if (!ids && mf_cli_count(cli, "begin") > 0)
        return mf_fail(MF_EUSAGE, "--begin wants --ids");
    for (int i = 0; ids && no_ids[i]; i++)
        if (mf_cli_count(cli, no_ids[i]) > 0)
            return mf_fail(MF_EUSAGE, "--ids: expected no --%s with it", no_ids[i]);

    static const char *const single[] = {"json", "samples", "quality", "prompt", "file", NULL};
    for (int i = 0; mf_cli_flag(cli, "interactive") && single[i]; i++)
        if (mf_cli_count(cli, single[i]) > 0)
            return mf_fail(MF_EUSAGE,
                           "-i is a conversation, whose texts come from standard input: "
                           "expected no --%s with it",
                           single[i]);
    return MF_OK;
}

static int turn(const mf_cli *cli, mf_talker *t)
{
    const mf_model *m = t->session->model;
    const bool on = mf_cli_flag(cli, "enable-skips"),
               scaled = mf_cli_count(cli, "skip-scale") > 0;
    int rc = mf_cli_flag(cli, "analyze") ? mf_look_needs_gates(m) : MF_OK;
    if (rc != MF_OK || (!on && !scaled)) return rc;
    rc = mf_look_needs_skips(m);
    return rc == MF_OK
               ? mf_look_set_skip(t, mf_cli_real(cli, "skip-scale", mf_look_usual_skip(m)))
               : rc;
}

/* Chooses the message format. A run and its baseline use the same format. */
static int choose_chat(const mf_cli *cli, mf_talker *t)
{
    const bool talk = mf_cli_flag(cli, "interactive");
    const int form = mf_cli_enum(cli, "chat", talk ? 0 : 1);
    const bool known = t->session && mf_chat_of(t->session->tokenizer, &t->chat);
    if (!t->session) return MF_OK;
    if (form > 0) {
        if ((int)t->chat.form != form - 1)
            t->chat = (mf_chat){.form = (mf_chat_form)(form - 1)};
        return MF_OK;
    }
    if (known) return MF_OK;
    if (mf_cli_count(cli, "chat") > 0)
        return mf_fail(MF_EUSAGE,
                       "--chat=auto: the tokenizer's template of messages is not read (%s): "
                       "expected plain, chatml or mistral",
                       mf_error_message());
    mf_log(MF_LOG_WARN,
           "the tokenizer's template of messages is not read (%s): lines are continued as they "
           "are (--chat chatml or mistral makes messages of them)",
           mf_error_message());
    return MF_OK;
}

static void json_settings(const mf_cli *cli, mf_jw *w, const mf_talker *t)
{
    const mf_sampler_options *o = mf_sampler_settings(t->sampler);
    const mf_model *m = t->session->model;
    mf_jw_kv_string(w, "run", mf_cli_operand(cli, 0));
    mf_jw_kv_int(w, "step", t->step);
    mf_jw_kv_int(w, "max_tokens", t->tokens);
    mf_jw_kv_real(w, "temperature", o->temperature);
    mf_jw_kv_int(w, "top_k", o->top_k);
    mf_jw_kv_real(w, "top_p", o->top_p);
    mf_jw_kv_real(w, "repeat_penalty", o->repeat_penalty);
    if (mf_cli_flag(cli, "analyze")) {
        mf_jw_key(w, "gates");
        mf_look_gates_json(w, m);
    }
    if (mf_look_has_skips(m)) {
        mf_jw_key(w, "skips");
        mf_look_skip_json(w, m);
    }
}

static int write_json(const mf_cli *cli, const mf_samples *s, mf_talker *t, mf_talker *baseline)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    json_settings(cli, w, t);
    int rc = MF_OK;
    if (wants_text(cli)) {
        mf_jw_key(w, "prompt");
        mf_jw_string_n(w, s->prompt, s->n_prompt);
        rc = mf_samples_json(w, s, t, baseline, mf_cli_text(cli, "baseline", NULL));
    }
    mf_jw_end(w);
    const char *text = rc == MF_OK ? mf_jw_text(w, NULL) : NULL;
    if (text) puts(text);
    if (rc == MF_OK && !text) rc = MF_ENOMEM;
    mf_jw_free(w);
    return rc;
}

static int write_text(const mf_cli *cli, const mf_samples *s, mf_talker *t, mf_talker *baseline)
{
    const mf_model *m = t->session->model;
    if (mf_cli_flag(cli, "analyze")) {
        mf_look_gates(m);
        if (mf_look_has_skips(m)) mf_look_skip(m);
    }
    return wants_text(cli)
               ? mf_samples_write(s, t, baseline, mf_cli_text(cli, "baseline", NULL))
               : MF_OK;
}

static int write_texts(const mf_cli *cli, mf_talker *t, mf_talker *baseline)
{
    mf_samples s = {.count = mf_cli_int(cli, "samples", 1),
                    .quality = mf_cli_flag(cli, "quality"),
                    .shown =
                        mf_cli_text(cli, "prompt", NULL) || mf_cli_text(cli, "file", NULL)};
    char *prompt = NULL;
    int rc = read_prompt(cli, &prompt, &s.n_prompt);
    s.prompt = prompt;
    if (rc == MF_OK)
        rc = mf_cli_json(cli) ? write_json(cli, &s, t, baseline)
                              : write_text(cli, &s, t, baseline);
    mf_free(prompt);
    return rc;
}

static int converse(const mf_cli *cli, mf_talker *t, mf_talker *baseline)
{
    if (mf_cli_flag(cli, "analyze")) mf_look_gates(t->session->model);
    return mf_talk(t, baseline, mf_cli_text(cli, "baseline", NULL));
}

/* The setting of the imported run if it is known, else the usual value. */
static double real_or(double known, double usual)
{
    return known >= 0 ? known : usual;
}

static int64_t int_or(int64_t known, int64_t usual)
{
    return known >= 0 ? known : usual;
}

static int run(const mf_cli *cli)
{
    mf_generation known;
    int rc = mf_run_usual(mf_cli_operand(cli, 0), &known);
    if (rc != MF_OK) return rc;
    const mf_sampler_options sampling = {
        .temperature = mf_cli_real(cli, "temp", real_or(known.temperature, 0.8)),
        .top_k = mf_cli_int(cli, "top-k", int_or(known.top_k, 40)),
        .top_p = mf_cli_real(cli, "top-p", real_or(known.top_p, 0.95)),
        .repeat_penalty = mf_cli_real(cli, "repeat-penalty", real_or(known.repeat_penalty, 1)),
        .seed = (uint64_t)mf_cli_int(cli, "seed", 0)};
    const char *dtype = mf_cli_text(cli, "dtype", NULL),
               *device = mf_cli_text(cli, "device", NULL),
               *other = mf_cli_text(cli, "baseline", NULL);
    const int64_t tokens = mf_cli_int(cli, "tokens", int_or(known.tokens, 200));
    const bool cache = !mf_cli_flag(cli, "no-cache");
    mf_talker t = {0}, baseline = {0};
    rc = judge(cli);
    if (rc == MF_OK) rc = mf_cli_run_stays(cli, mf_cli_operand(cli, 0));
    if (rc == MF_OK && mf_cli_count(cli, "ids") > 0) return write_ids(cli, &sampling, tokens);
    if (rc == MF_OK)
        rc = mf_talker_open(&t, mf_cli_operand(cli, 0), mf_cli_int(cli, "step", -1), dtype,
                            device, cache, &sampling, tokens);
    if (rc == MF_OK) rc = turn(cli, &t);
    if (rc == MF_OK && other)
        rc = mf_talker_open(&baseline, other, -1, dtype, device, cache, &sampling, tokens);
    if (rc == MF_OK) rc = choose_chat(cli, &t);
    if (rc == MF_OK) rc = choose_chat(cli, &baseline);
    if (rc == MF_OK)
        rc = mf_cli_flag(cli, "interactive") ? converse(cli, &t, &baseline)
                                             : write_texts(cli, &t, &baseline);
    mf_talker_close(&baseline);
    mf_talker_close(&t);
    return rc;
}

const mf_verb mf_verb_generate = {.name = "generate",
                                  .brief = "continue a text with a trained run",
                                  .forms = forms,
                                  .options = options,
                                  .run = run};
