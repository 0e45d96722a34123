/* moefw config show|check|presets: prints the configuration that a command would use, checks
 * it, and lists the presets. check builds the model without values, so plugins check the
 * dimensions too. */
#include "base/error.h"
#include "io/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "cli/cli_model.h"
#include "config/aliases.h"
#include "run/sections/sources.h"
#include "run/config_write.h"
#include "run/cost.h"
#include "run/launch_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB 1048576.0

/* Prints the text that a file would contain. On a terminal, marks that change the direction of
 * writing are replaced. */
static int write_shown(const mf_config *config)
{
    char *text, *safe = NULL;
    size_t n;
    int rc = mf_config_text(config, "the configuration", &text, &n);
    if (rc == MF_OK && isatty(STDOUT_FILENO) && !(safe = mf_alloc_raw(n + 8))) rc = MF_ENOMEM;
    if (rc == MF_OK) fputs(safe ? mf_safe_text(text, true, safe, n + 8) : text, stdout);
    mf_free(safe);
    mf_free(text);
    return rc;
}

static int show(const mf_cli *cli)
{
    int rc = mf_cli_no_json(cli, "INI");
    if (rc != MF_OK) return rc;
    if (mf_cli_flag(cli, "template")) {
        mf_sections_template(mf_config_sections, stdout);
        return MF_OK;
    }
    mf_config *config;
    rc = mf_cli_config(cli, mf_cli_operand(cli, 0), &config);
    if (rc == MF_OK) rc = write_shown(config);
    mf_config_free(config);
    return rc;
}

enum { MAX_NOTES = 32 };

/* Errors are printed when they are found, or collected as JSON. */
typedef struct findings {
    mf_jw *json; /* NULL: errors are printed as text */
    int n, n_notes;
    char *note[MAX_NOTES]; /* only for JSON */
    struct {
        char file[256];
        int line;
    } at[MAX_NOTES]; /* places of the first errors */
} findings;

/* Records where an error is. An entry with an error then gets no note about its
 * present name. */
static void keep_place(findings *f, const mf_problem *p)
{
    const int i = f->n - 1;
    if (i >= MAX_NOTES) return;
    snprintf(f->at[i].file, sizeof f->at[i].file, "%s", p->file ? p->file : "");
    f->at[i].line = p->line;
}

static bool is_wrong(const findings *f, const char *file, int line)
{
    for (int i = 0; i < f->n && i < MAX_NOTES; i++)
        if (f->at[i].line == line && strcmp(f->at[i].file, file) == 0) return true;
    return false;
}

static void on_problem(void *arg, const mf_problem *p)
{
    findings *f = arg;
    f->n++;
    keep_place(f, p);
    if (!f->json) {
        fprintf(stderr, "moefw: %s\n", mf_shown(p->message));
        return;
    }
    mf_jw_object(f->json);
    mf_jw_key(f->json, "file");
    p->file ? mf_jw_string(f->json, p->file) : mf_jw_null(f->json);
    mf_jw_kv_int(f->json, "line", p->line);
    mf_jw_key(f->json, "key");
    if (p->section && p->key && p->key[0] != '\0') {
        char key[128];
        snprintf(key, sizeof key, "%s.%s", p->section, p->key);
        mf_jw_string(f->json, key);
    } else {
        p->section ? mf_jw_string(f->json, p->section) : mf_jw_null(f->json);
    }
    mf_jw_kv_string(f->json, "message", p->message);
    mf_jw_key(f->json, "nearest");
    p->nearest ? mf_jw_string(f->json, p->nearest) : mf_jw_null(f->json);
    mf_jw_end(f->json);
}

/* The name that the message suggests with "did you mean 'x'?"; NULL: no name is suggested. */
static const char *suggested(const char *message, char *out, size_t size)
{
    static const char words[] = "did you mean ";
    const char *at = strstr(message, words);
    if (!at) return NULL;
    at += strlen(words);
    at += strspn(at, "'[");
    const size_t n = strcspn(at, "'?]");
    if (n == 0 || n >= size) return NULL;
    snprintf(out, size, "%.*s", (int)n, at);
    return out;
}

/* Reports the last error. If its message begins with "FILE:LINE:", as for a file that is not
 * valid INI, file and line are copied from there. */
static void on_error(findings *f)
{
    char file[1024] = "", nearest[256];
    const char *message = mf_error_message();
    int line = 0, at = 0;
    if (sscanf(message, "%1023[^:]:%d:%n", file, &line, &at) < 2 || at == 0) file[0] = '\0';
    mf_problem p = {.code = mf_error_code(),
                    .file = file[0] != '\0' ? file : NULL,
                    .line = line,
                    .nearest = suggested(message, nearest, sizeof nearest),
                    .message = message};
    on_problem(f, &p);
}

static int cost_of(mf_session *s, int ranks, mf_cost *ret)
{
    const int64_t leaves = s->config->train.accumulate;
    if (ranks > leaves)
        return mf_fail(MF_ECONFIG,
                       "--ranks %d, but train.accumulate = %lld: each rank needs a "
                       "micro-batch; expected at most %lld",
                       ranks, (long long)leaves, (long long)leaves);
    int sharing;
    int rc = mf_launch_shares(s->config, ranks, &sharing);
    if (rc == MF_OK) rc = mf_cost_of(s, ret);
    return rc == MF_OK ? mf_cost_of_rank(s, ret, ranks, sharing, &ret->memory) : rc;
}

/* Builds the model, so plugins check these dimensions. The session owns config. Unreadable data
 * are not an error of the configuration, but dimensions may then be unknown. cost: memory and
 * work of one rank. */
static int build(mf_config *config, int ranks, findings *f, mf_cost *cost)
{
    mf_session *s = NULL;
    int rc = mf_cli_model_open(config, true, &s);
    if (rc == MF_OK) rc = cost_of(s, ranks, cost);
    mf_session_close(s);
    if (rc == MF_EINPUT || rc == MF_EIO || rc == MF_ENOTFOUND) {
        mf_log(MF_LOG_WARN, "%s; the size of the model is not known without it",
               mf_error_message());
        return MF_OK;
    }
    if (rc != MF_OK) on_error(f);
    return rc;
}

static void put_cost(mf_jw *w, bool known, const mf_cost *cost)
{
    static const char *const keys[] = {"params", "params_active", "memory_mib", "device_mib"};
    const double values[] = {(double)cost->params, (double)cost->params_active,
                             (double)cost->memory / MIB, (double)cost->device / MIB};
    for (int i = 0; i < 4; i++) {
        mf_jw_key(w, keys[i]);
        if (!known || values[i] == 0)
            mf_jw_null(w);
        else if (i < 2)
            mf_jw_int(w, (int64_t)values[i]);
        else
            mf_jw_real(w, values[i]);
    }
}

static void print_row(const char *name, int64_t params, int64_t active)
{
    const double bytes = sizeof(float);
    printf("  %-10s %13lld %13lld %13.2f %13.2f\n", name, (long long)params, (long long)active,
           (double)params * bytes / MIB, (double)active * bytes / MIB);
}

/* Prints the number of parameters, and how many of them one token uses in inference. */
static void print_cost(const mf_cost *cost, int ranks)
{
    char memory[128] = "memory to train: not known without the data";
    if (cost->memory > 0)
        snprintf(memory, sizeof memory,
                 "%.0f MiB to train%s, without pages of program and libraries",
                 (double)cost->memory / MIB, ranks > 1 ? " on each rank" : "");
    mf_wrap_line(stdout, 4, "ok: %.2f M parameters, %.2f M active per token; %s",
                 (double)cost->params / 1e6, (double)cost->params_active / 1e6, memory);
    if (cost->device > 0)
        mf_wrap_line(stdout, 4,
                     "%.0f MiB of the device to train, and what its backend takes for itself",
                     (double)cost->device / MIB);
    printf("  %-10s %13s %13s %13s %13s\n", "parameters", "loaded", "inference", "MiB loaded",
           "MiB inference");
    for (int i = 0; i < cost->n_modules; i++)
        print_row(cost->module[i].name, cost->module[i].params, cost->module[i].active);
    print_row("all", cost->params, cost->params_active);
    if (cost->stored > 0)
        mf_wrap_line(stdout, 4, "%.2f M of them stay in their files as %s: %.2f MiB",
                     (double)cost->stored / 1e6, cost->stored_types,
                     (double)cost->stored_bytes / MIB);
}

/* Reports an old key with its present name. This is a note, not an error. */
static void on_old_key(void *arg, const char *file, int line, const char *words)
{
    findings *f = arg;
    if (is_wrong(f, file, line)) return;
    if (f->json != NULL) {
        if (f->n_notes < MAX_NOTES) f->note[f->n_notes++] = mf_strf("%s", words);
        return;
    }
    if (strncmp(file, "--", 2) == 0)
        fprintf(stderr, "moefw: note: %s: %s\n", mf_shown(file), mf_shown(words));
    else
        fprintf(stderr, "moefw: note: %s:%d: %s\n", mf_shown(file), line, mf_shown(words));
}

/* Warns of too little memory. The configuration may be meant for a larger machine, so this is
 * not an error. */
static void warn_of_memory(findings *f, const mf_cost *cost)
{
    char text[512];
    if (!mf_cost_exceeds(cost, text, sizeof text)) return;
    if (!f->json)
        mf_log(MF_LOG_WARN, "%s", text);
    else if (f->n_notes < MAX_NOTES)
        f->note[f->n_notes++] = mf_strdup(text);
}

static void put_notes(findings *f)
{
    mf_jw_key(f->json, "notes");
    mf_jw_array(f->json);
    for (int i = 0; i < f->n_notes; i++) {
        mf_jw_string(f->json, f->note[i] != NULL ? f->note[i] : "");
        mf_free(f->note[i]);
    }
    mf_jw_end(f->json);
}

static int check(const mf_cli *cli)
{
    findings f = {.json = mf_cli_json(cli) ? mf_jw_new() : NULL};
    const int ranks = (int)mf_cli_int(cli, "ranks", 1);
    mf_problem_sink sink = {on_problem, &f};
    mf_config *config;
    if (f.json) {
        mf_jw_object(f.json);
        mf_jw_key(f.json, "errors");
        mf_jw_array(f.json);
    }
    int rc = mf_cli_config_told(cli, mf_cli_operand(cli, 0), &sink, &config);
    if (config) {
        int plugins = mf_config_open_plugins(config, &sink);
        if (rc == MF_OK) rc = plugins;
    }
    if (rc != MF_OK && f.n == 0) on_error(&f);
    mf_cost cost = {0};
    if (config != NULL) mf_config_translations(config->given, on_old_key, &f);
    if (rc == MF_OK)
        rc = build(config, ranks, &f, &cost);
    else
        mf_config_free(config);
    if (rc == MF_OK) warn_of_memory(&f, &cost);
    if (rc != MF_OK) mf_error_clear(); /* the error has been reported */
    if (!f.json) {
        if (rc == MF_OK && cost.params == 0)
            puts("ok");
        else if (rc == MF_OK)
            print_cost(&cost, ranks);
        return rc;
    }
    mf_jw_end(f.json);
    put_notes(&f);
    mf_jw_kv_bool(f.json, "ok", rc == MF_OK);
    put_cost(f.json, cost.params > 0, &cost);
    mf_cost_put_modules(f.json, cost.n_modules, cost.module);
    mf_jw_end(f.json);
    const char *text = mf_jw_text(f.json, NULL);
    if (text) puts(text);
    mf_jw_free(f.json);
    return text ? rc : MF_ENOMEM;
}

static int presets(const mf_cli *cli)
{
    mf_arena *arena = mf_arena_new();
    if (!arena) return MF_ENOMEM;
    const char *const *names = mf_config_preset_names(arena);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && names[i]; i++)
        rc = mf_cli_put_name(cli, "preset", names[i]);
    mf_arena_free(arena);
    return rc;
}

static int run(const mf_cli *cli)
{
    if (strcmp(mf_cli_action(cli), "presets") == 0) return presets(cli);
    if (strcmp(mf_cli_action(cli), "mdoc") == 0) { /* this action is for tests/regenerate.sh */
        mf_sections_manual(mf_config_sections, stdout);
        return MF_OK;
    }
    return strcmp(mf_cli_action(cli), "show") == 0 ? show(cli) : check(cli);
}

static const mf_cli_form forms[] = {
    {"show", "[CONFIG|PRESET]", 0, 1, "print every key with the value in force"},
    {"check", "[CONFIG|PRESET]", 0, 1, "judge it without running anything; tells all faults"},
    {"presets", NULL, 0, 0, "print the names of the presets"},
    {"mdoc", NULL, 0, 0, NULL},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "template",
     .of = "show",
     .kind = MF_CLI_FLAG,
     .help = "show: every key, commented out, with its default and what it means"},
    {.name = "ranks",
     .of = "check",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1e6,
     .help = "check: memory of the rank that needs most, in a run of N ranks"},
    MF_CLI_DATA_FILES,
    MF_CLI_END};

const mf_verb mf_verb_config = {
    .name = "config",
    .brief = "show or check a configuration",
    .forms = forms,
    .options = options,
    .run = run,
};
