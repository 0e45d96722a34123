/* Access to the parsed command line, and the call of a verb. An option that was not given has
 * the value that the verb passes as `absent`. */
#include "cli/cli.h"

#include "base/error.h"
#include "base/text/ini.h"
#include "io/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "cli/cli_parse.h"
#include "cli/meant/page.h"
#include "cli/meant/operand.h"
#include "graph/graph.h"
#include "plugin/load/allow.h"

#include <moefw/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 4096 };

const mf_cli_option mf_cli_globals[] = {
    {.name = "plugin",
     .arg = "PLUGIN",
     .kind = MF_CLI_TEXT,
     .code = MF_CLI_NAMES_CODE,
     .help = "put this plugin in its kind's place (repeatable)"},
    {.name = "set",
     .arg = "SECTION.KEY=VALUE",
     .kind = MF_CLI_TEXT,
     .code = MF_CLI_SETS_CODE,
     .help = "override one key of the configuration (repeatable)"},
    {.name = "threads",
     .letter = 't',
     .arg = "N",
     .kind = MF_CLI_INT,
     .lo = 0,
     .hi = THREADS_MAX,
     .help = "threads; 0: all cores",
     .set = "train.threads"},
    {.name = "device",
     .arg = "DEVICE",
     .kind = MF_CLI_TEXT,
     .help = "cpu, or NAME[:N] of a backend in a plugin folder",
     .set = "train.device"},
    {.name = "allow-unsafe-plugins",
     .kind = MF_CLI_FLAG,
     .help = "take plugin files that everybody can write to"},
    {.name = "allow-config-plugins",
     .kind = MF_CLI_FLAG,
     .help = "take plugin files that only a configuration names"},
    {.name = "json", .kind = MF_CLI_FLAG, .help = "results as JSON on stdout and nothing else"},
    {.name = "quiet", .letter = 'q', .kind = MF_CLI_FLAG, .help = "only warnings and errors"},
    {.name = "verbose", .letter = 'v', .kind = MF_CLI_FLAG, .help = "say more"},
    {.name = "help", .letter = 'h', .kind = MF_CLI_FLAG, .help = "show help and exit"},
    {.name = "version",
     .letter = 'V',
     .kind = MF_CLI_FLAG,
     .help = "show the version and exit"},
    MF_CLI_END};

const char *mf_cli_action(const mf_cli *cli)
{
    return cli->form->action;
}

int mf_cli_operands(const mf_cli *cli)
{
    return cli->n_operands;
}

const char *mf_cli_operand(const mf_cli *cli, int i)
{
    return i >= 0 && i < cli->n_operands ? cli->operand[i] : NULL;
}

/* The last occurrence of the option, NULL if there is none; *count: number of occurrences. */
static const mf_cli_given *last_given(const mf_cli *cli, const char *option, int *count)
{
    const mf_cli_given *last = NULL;
    *count = 0;
    for (int i = 0; i < cli->n_given; i++)
        if (strcmp(cli->given[i].option->name, option) == 0) {
            last = &cli->given[i];
            ++*count;
        }
    return last;
}

int mf_cli_count(const mf_cli *cli, const char *option)
{
    int count;
    last_given(cli, option, &count);
    return count;
}

bool mf_cli_flag(const mf_cli *cli, const char *option)
{
    return mf_cli_count(cli, option) > 0;
}

const char *mf_cli_text(const mf_cli *cli, const char *option, const char *absent)
{
    int count;
    const mf_cli_given *g = last_given(cli, option, &count);
    return g ? g->text : absent;
}

const char *mf_cli_text_at(const mf_cli *cli, const char *option, int i)
{
    for (int j = 0; j < cli->n_given; j++)
        if (strcmp(cli->given[j].option->name, option) == 0 && i-- == 0)
            return cli->given[j].text;
    return NULL;
}

int64_t mf_cli_int(const mf_cli *cli, const char *option, int64_t absent)
{
    const char *text = mf_cli_text(cli, option, NULL);
    long long value;
    return text && mf_parse_i64(text, &value) ? value : absent;
}

double mf_cli_real(const mf_cli *cli, const char *option, double absent)
{
    const char *text = mf_cli_text(cli, option, NULL);
    double value;
    return text && mf_parse_f64(text, &value) ? value : absent;
}

int mf_cli_enum(const mf_cli *cli, const char *option, int absent)
{
    int count;
    const mf_cli_given *g = last_given(cli, option, &count);
    if (!g) return absent;
    for (int i = 0; g->option->choices[i] != NULL; i++)
        if (strcmp(g->option->choices[i], g->text) == 0) return i;
    return absent;
}

bool mf_cli_json(const mf_cli *cli)
{
    return mf_cli_flag(cli, "json");
}

bool mf_cli_quiet(const mf_cli *cli)
{
    return mf_cli_flag(cli, "quiet");
}

int mf_cli_print_json(mf_jw *w)
{
    const char *text = w ? mf_jw_text(w, NULL) : NULL;
    if (text) puts(text);
    mf_jw_free(w);
    return text ? MF_OK : MF_ENOMEM;
}

bool mf_cli_no_stdout;

int mf_cli_put_name(const mf_cli *cli, const char *key, const char *name)
{
    if (mf_cli_no_stdout) return MF_OK; /* the results are in the file or folder */
    if (!mf_cli_json(cli)) {
        puts(mf_shown_on(stdout, name));
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, key, name);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

int mf_cli_input(int rc)
{
    return rc == MF_ENOTFOUND ? MF_EINPUT : rc;
}

int mf_cli_no_json(const mf_cli *cli, const char *kind)
{
    if (!mf_cli_json(cli)) return MF_OK;
    return mf_fail(MF_EUSAGE, "--json: what this writes to stdout is %s; leave --json out",
                   kind);
}

static int print_version(const mf_cli *cli)
{
    if (mf_cli_json(cli)) {
        puts("{\"name\":\"moefw\",\"version\":\"" MOEFW_VERSION "\"}");
        return MF_OK;
    }
    printf(
        "moefw %s\n"
        "Mixture-of-Experts transformers with plugins for routers, experts, regularizers and "
        "controllers.\n"
        "MIT licence: free software, without any warranty.\n",
        MOEFW_VERSION);
    return MF_OK;
}

static void set_log_level(const mf_cli *cli)
{
    if (mf_cli_flag(cli, "verbose"))
        mf_log_set_level(MF_LOG_DEBUG);
    else
        mf_log_set_level(mf_cli_quiet(cli) ? MF_LOG_WARN : MF_LOG_INFO);
}

/* Permits loading the files in a text such as "FILE", "FILE:scale=2,FILE" or
 * "router.plugin=FILE". Each word with a '/' counts as a file. */
static void allow_files(const char *text)
{
    char part[4096];
    while (text && *text != '\0') {
        const size_t n = strcspn(text, "=,:");
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        if (strchr(part, '/')) mf_plugin_allow_file(part);
        text += n + (text[n] != '\0');
    }
}

/* Whether a text such as "router.plugin=FILE" sets a key whose value names a file of code. */
static bool sets_code(const char *text)
{
    static const char *const keys[] = {".plugin", "parallel.comm"};
    const size_t n = strcspn(text, "=");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t m = strlen(keys[i]);
        if (n >= m && strncmp(text + n - m, keys[i], m) == 0) return true;
    }
    return false;
}

/* Permits loading the code files that the command line names as plugins. A data file on the
 * command line is not permitted: anybody may have made it, and a configuration in it could name
 * the same file as a plugin. A file that only a configuration names is not loaded, for the
 * same reason. */
static void allow_plugins(const mf_cli *cli)
{
    mf_plugin_allow_unsafe(mf_cli_flag(cli, "allow-unsafe-plugins"));
    if (mf_cli_flag(cli, "allow-config-plugins")) mf_plugin_allow_paths();
    for (int i = 0; cli->verb->names_code && i < cli->n_operands; i++)
        allow_files(cli->operand[i]);
    for (int i = 0; i < cli->n_given; i++) {
        const char *text = cli->given[i].text;
        const mf_cli_code code = cli->given[i].option->code;
        if (code == MF_CLI_NAMES_CODE || (code == MF_CLI_SETS_CODE && sets_code(text)))
            allow_files(text);
    }
}

/* A number of threads beyond the limit is an error. It is not lowered silently. */
static int judge_environment(const mf_cli *cli)
{
    const char *text = getenv("OMP_NUM_THREADS");
    long long n;
    char first[32];
    if (!text || mf_cli_int(cli, "threads", 0) > 0) return MF_OK;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(text, ", "), text);
    if (!mf_parse_i64(first, &n) || n <= THREADS_MAX) return MF_OK;
    return mf_fail(MF_EUSAGE, "OMP_NUM_THREADS=%s: expected at most %d threads", text,
                   (int)THREADS_MAX);
}

int mf_cli_run(int argc, char **argv)
{
    mf_cli cli;
    int rc = mf_cli_parse(argc, argv, &cli);
    if (argc == 1)
        mf_cli_start();
    else if (rc == MF_OK && cli.version)
        rc = print_version(&cli);
    else if (rc == MF_OK && cli.page)
        rc = mf_cli_page_show(cli.page);
    else if (rc == MF_OK && cli.help)
        mf_cli_help(cli.verb, cli.n_operands > 0 ? cli.operand[0] : NULL);
    else if (rc == MF_OK) {
        set_log_level(&cli);
        allow_plugins(&cli);
        rc = judge_environment(&cli);
        if (rc == MF_OK)
            rc = mf_backend_names(); /* reports a wrong MOEFW_KERNELS before anything begins */
        if (rc == MF_OK && cli.verb->plain) rc = mf_cli_no_config(&cli);
        if (rc == MF_OK) rc = mf_cli_judge_operand(&cli);
        if (rc == MF_OK) rc = cli.verb->run(&cli);
        if (cli.verb->inputs) rc = mf_cli_input(rc);
    }
    mf_cli_clear(&cli);
    return rc;
}
