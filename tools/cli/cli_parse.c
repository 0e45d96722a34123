/* Parsing runs twice, because options of a verb may come before the verb. The first pass finds
 * the verb; it reads the options of `train`, which is the default verb. The second pass reads
 * everything with the table of the verb that was found. */
#include "config/aliases.h"
#include "cli/cli_parse.h"
#include "cli/meant/operand.h"
#include "cli/meant/page.h"
#include "cli/meant/other_words.h"

#include "base/text/ini.h"
#include "base/mem.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define OPTION_CODE 1000 /* getopt returns OPTION_CODE + i for long option i */
#define MAX_OPTIONS 96

/* The options of one verb and the global ones in getopt's form. Options of several words are
 * also accepted with underscores: this second name has the same code. */
typedef struct table {
    int n, n_longs;
    const mf_cli_option *option[MAX_OPTIONS];
    struct option longs[4 * MAX_OPTIONS + 1];
    char shorts[2 * MAX_OPTIONS + 3];
    char underscored[MAX_OPTIONS][2][48];
} table;

static void add_long(table *t, const char *name, int has_arg)
{
    t->longs[t->n_longs++] = (struct option){name, has_arg, NULL, OPTION_CODE + t->n};
}

static void add_name(table *t, const char *name, int has_arg, char underscored[48])
{
    add_long(t, name, has_arg);
    snprintf(underscored, 48, "%s", name);
    for (char *c = underscored; (c = strchr(c, '-')) != NULL;)
        *c = '_';
    if (strcmp(underscored, name) != 0) add_long(t, underscored, has_arg);
}

static void add_options(table *t, const mf_cli_option *o)
{
    size_t s = strlen(t->shorts);
    for (; o && o->name && t->n < MAX_OPTIONS; o++) {
        int has_arg = o->kind == MF_CLI_FLAG ? no_argument : required_argument;
        add_name(t, o->name, has_arg, t->underscored[t->n][0]);
        if (o->also) add_name(t, o->also, has_arg, t->underscored[t->n][1]);
        t->option[t->n++] = o;
        if (o->letter != 0) {
            t->shorts[s++] = (char)o->letter;
            if (has_arg) t->shorts[s++] = ':';
        }
    }
    t->shorts[s] = '\0';
}

/* Fills in the table for a verb. mode is getopt's: "+:" stops at the first operand,
 * ":" permutes. */
static void make_table(table *t, const mf_verb *verb, const char *mode)
{
    memset(t, 0, sizeof *t);
    strcpy(t->shorts, mode);
    if (verb) add_options(t, verb->options);
    add_options(t, mf_cli_globals);
}

static const mf_cli_option *by_code(const table *t, int code)
{
    if (code >= OPTION_CODE) return t->option[code - OPTION_CODE];
    for (int i = 0; i < t->n; i++)
        if (t->option[i]->letter == code) return t->option[i];
    return NULL;
}

static const mf_verb *find_verb(const char *name)
{
    for (int i = 0; mf_verbs[i] != NULL; i++)
        if (strcmp(mf_verbs[i]->name, name) == 0) return mf_verbs[i];
    return NULL;
}

static int unknown_verb(const char *word)
{
    const char *names[64];
    int n = 0;
    for (; mf_verbs[n] && n < 63; n++)
        names[n] = mf_verbs[n]->name;
    names[n] = NULL;
    const char *other = mf_cli_other_verb(word), *nearest = mf_nearest(word, names);
    if (other) return mf_fail(MF_EUSAGE, "unknown verb '%s'; did you mean '%s'?", word, other);
    if (nearest)
        return mf_fail(MF_EUSAGE, "unknown verb '%s'; did you mean '%s'?", word, nearest);
    if (strchr(word, '/') || strchr(word, '.'))
        return mf_fail(MF_EUSAGE,
                       "unknown verb '%s'; a configuration is trained by 'moefw train %s'",
                       word, word);
    return mf_fail(MF_EUSAGE, "unknown verb '%s'; 'moefw --help' lists them", word);
}

/* The name of the option for messages: "--steps", or "-t" if the user gave the short name. */
static const char *shown(char buf[64], const mf_cli_option *o, int code)
{
    if (code < OPTION_CODE)
        snprintf(buf, 64, "-%c", o->letter);
    else
        snprintf(buf, 64, "--%s", o->name);
    return buf;
}

/* Other programs have options for what is an operand here, such as --model-path for RUN.
 * Returns the verb's operands if `name` is such an option, else NULL. */
static const char *operand_of(const mf_verb *verb, const char *name)
{
    static const struct {
        const char *name, *operand;
    } elsewhere[] = {{"model-path", "RUN"},
                     {"model_path", "RUN"},
                     {"model", "RUN"},
                     {"checkpoint-path", "RUN"},
                     {"checkpoint_path", "RUN"},
                     {"checkpoint", "RUN"},
                     {"ckpt", "RUN"},
                     {"run", "RUN"},
                     {"config", "CONFIG"},
                     {"preset", "PRESET"}};
    const char *operands = verb ? verb->forms[0].operands : NULL;
    if (!operands || verb->forms[0].action) return NULL;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(name, elsewhere[i].name) == 0 && strstr(operands, elsewhere[i].operand))
            return operands;
    return NULL;
}

/* Reports an option for which getopt returned '?': it is unknown or ambiguous, or it accepts no
 * argument but was given one. next: the word after the option, or NULL. */
static int bad_option(const table *t, const mf_verb *verb, const char *word, const char *next,
                      int code)
{
    const char *of = verb ? verb->name : NULL;
    const char *gap = of ? " " : "";
    if (!of) of = "";
    const mf_cli_option *o = code != 0 ? by_code(t, code) : NULL;
    if (o) return mf_fail(MF_EUSAGE, "option '--%s' takes no argument", o->name);
    if (code != 0)
        return mf_fail(MF_EUSAGE, "unknown option '-%c'; 'moefw%s%s --help' lists them", code,
                       gap, of);
    char name[64];
    size_t n = strcspn(word + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word + 2);
    const char *names[2 * MAX_OPTIONS + 1], *first = NULL, *second = NULL;
    int n_names = 0;
    for (int i = 0; i < t->n; i++) {
        const mf_cli_option *each = t->option[i];
        names[n_names++] = each->name;
        if (each->also) names[n_names++] = each->also;
    }
    for (int i = 0; i < n_names; i++) {
        if (strncmp(name, names[i], n) != 0) continue;
        if (first && !second) second = names[i];
        if (!first) first = names[i];
    }
    names[n_names] = NULL;
    if (second)
        return mf_fail(MF_EUSAGE, "option '--%s' is ambiguous: '--%s' or '--%s'?", name, first,
                       second);
    const char *operands = operand_of(verb, name);
    if (operands)
        return mf_fail(MF_EUSAGE, "unknown option '--%s'; it is an operand: 'moefw %s %s'",
                       name, of, operands);
    char other[192];
    const char *value = word[2 + n] == '=' ? word + 2 + n + 1 : next;
    if (value && (value[0] == '\0' || value[0] == '-' || strlen(value) > 64)) value = NULL;
    if (mf_cli_other_option(verb, name, value, other, sizeof other))
        return mf_fail(MF_EUSAGE, "unknown option '--%s'; %s", name, other);
    const char *nearest = mf_nearest(name, names);
    if (nearest)
        return mf_fail(MF_EUSAGE, "unknown option '--%s'; did you mean '--%s'?", name, nearest);
    return mf_fail(MF_EUSAGE, "unknown option '--%s'; 'moefw%s%s --help' lists them", name, gap,
                   of);
}

static int judge_number(const mf_cli_option *o, const char *name, const char *text)
{
    long long i = 0;
    double x;
    bool is_int = o->kind == MF_CLI_INT;
    if (is_int ? !mf_parse_i64(text, &i) : !mf_parse_f64(text, &x))
        return mf_fail(MF_EUSAGE, "%s: expected %s, found '%s'", name,
                       is_int ? "a whole number" : "a number", text);
    if (is_int) x = (double)i;
    if (o->lo >= o->hi || (x >= o->lo && x <= o->hi)) return MF_OK;
    return is_int ? mf_fail(MF_EUSAGE, "%s: expected %lld to %lld, found %s", name,
                            (long long)o->lo, (long long)o->hi, text)
                  : mf_fail(MF_EUSAGE, "%s: expected %g to %g, found %s", name, o->lo, o->hi,
                            text);
}

static bool is_path(const char *arg)
{
    return strcmp(arg, "DIR") == 0 || strcmp(arg, "FILE") == 0 || strcmp(arg, "PATH") == 0;
}

static int judge_argument(const mf_cli_option *o, int code, const char *text)
{
    char name[64], other[256];
    shown(name, o, code);
    if (strcmp(o->name, "set") == 0 && mf_cli_other_set(text, other, sizeof other))
        return mf_fail(MF_EUSAGE, "--set: '%s' names no section; did you mean '--set %s'?",
                       text, other);
    if (o->kind == MF_CLI_INT || o->kind == MF_CLI_REAL) return judge_number(o, name, text);
    if (o->kind == MF_CLI_TEXT && text[0] == '\0' && !o->set && is_path(o->arg))
        return mf_fail(MF_EUSAGE, "%s: expected the name of a %s, found nothing", name,
                       strcmp(o->arg, "DIR") == 0 ? "directory" : "file");
    if (o->kind != MF_CLI_ENUM) return MF_OK;
    for (int i = 0; o->choices[i] != NULL; i++)
        if (strcmp(o->choices[i], text) == 0) return MF_OK;
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; o->choices[i] && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 o->choices[i]);
    return mf_fail(MF_EUSAGE, "%s: expected one of %s, found '%s'", name, list, text);
}

/* Finds the verb and removes its word from argv. Also removes the word `help` before the verb,
 * which counts as --help. *argc is reduced by one for each removed word. */
static int take_verb(int *argc, char **argv, mf_cli *cli)
{
    table t;
    make_table(&t, find_verb("train"), "+:");
    optind = 0;
    opterr = 0;
    int code;
    while ((code = getopt_long(*argc, argv, t.shorts, t.longs, NULL)) != -1) {
        if (code == '?') return bad_option(&t, NULL, argv[optind - 1], argv[optind], optopt);
        if (code == ':') return MF_OK; /* the second pass reports this */
    }
    int at = optind;
    if (at < *argc && strcmp(argv[at], "help") == 0) {
        cli->help = true;
        memmove(&argv[at], &argv[at + 1], (size_t)(*argc - at) * sizeof *argv);
        --*argc;
    }
    if (at >= *argc) return MF_OK;
    cli->verb = find_verb(argv[at]);
    if (!cli->verb && cli->help) cli->page = mf_cli_page(argv[at]);
    if (cli->page) return MF_OK;
    if (!cli->verb) return unknown_verb(argv[at]);
    memmove(&argv[at], &argv[at + 1], (size_t)(*argc - at) * sizeof *argv);
    --*argc;
    return MF_OK;
}

static int unknown_action(const mf_verb *verb, const char *word)
{
    const char *names[32];
    char list[256] = "";
    size_t used = 0;
    int n = 0;
    for (const mf_cli_form *f = verb->forms; f->min >= 0 && n < 31; f++) {
        if (!f->help) continue;
        names[n++] = f->action;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n > 1 ? ", " : "",
                                     f->action);
    }
    names[n] = NULL;
    if (!word) return mf_fail(MF_EUSAGE, "'moefw %s' wants one of: %s", verb->name, list);
    const char *nearest = mf_nearest(word, names);
    return mf_fail(MF_EUSAGE, "unknown action '%s' of 'moefw %s'; %s%s%s", word, verb->name,
                   nearest ? "did you mean '" : "expected one of: ", nearest ? nearest : list,
                   nearest ? "'?" : "");
}

bool mf_cli_listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

/* Rejects options of other actions, which would otherwise be ignored silently. */
static int judge_applies(const mf_cli *cli)
{
    const char *action = cli->form->action;
    for (int i = 0; action && i < cli->n_given; i++) {
        const mf_cli_option *o = cli->given[i].option;
        if (!o->of || mf_cli_listed(o->of, action)) continue;
        char list[128] = "";
        size_t used = 0;
        for (const char *c = o->of; *c != '\0' && used + 3 < sizeof list; c++) {
            if (*c == ' ') list[used++] = ',';
            list[used++] = *c;
        }
        return mf_fail(MF_EUSAGE, "'moefw %s %s' takes no --%s, which is an option of: %s",
                       cli->verb->name, action, o->name, list);
    }
    return MF_OK;
}

static int judge_operands(mf_cli *cli)
{
    const mf_verb *verb = cli->verb;
    const mf_cli_form *form = verb->forms;
    if (form->action) {
        if (cli->n_operands == 0) return unknown_action(verb, NULL);
        while (form->min >= 0 && strcmp(form->action, cli->operand[0]) != 0)
            form++;
        if (form->min < 0) return unknown_action(verb, cli->operand[0]);
        cli->operand++;
        cli->n_operands--;
    }
    cli->form = form;
    const char *gap = form->action ? " " : "", *action = form->action;
    if (!action) action = "";
    if (cli->n_operands < form->min)
        return mf_fail(MF_EUSAGE, "'moefw %s%s%s' wants %s", verb->name, gap, action,
                       form->operands);
    if (form->max >= 0 && cli->n_operands > form->max) {
        char meant[4400];
        return mf_fail(MF_EUSAGE, "'moefw %s%s%s': one operand too many: '%s'%s", verb->name,
                       gap, action, cli->operand[form->max],
                       mf_cli_meant_setting(cli->operand[form->max], meant, sizeof meant));
    }
    return judge_applies(cli);
}

/* The word that follows `word` in the user's order. The given order is needed because some C
 * libraries have already moved operands when an option turns out to be unknown. */
static const char *next_of(char *const *given, const char *word)
{
    while (*given && *given != word)
        given++;
    return *given ? given[1] : NULL;
}

static int read_options(int argc, char **argv, char *const *given, mf_cli *cli)
{
    table t;
    make_table(&t, cli->verb ? cli->verb : find_verb("train"), ":");
    optind = 0;
    int code;
    while ((code = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
        if (code == '?')
            return bad_option(&t, cli->verb, argv[optind - 1], next_of(given, argv[optind - 1]),
                              optopt);
        const mf_cli_option *o = by_code(&t, code == ':' ? optopt : code);
        if (code == ':') {
            char name[64];
            return mf_fail(MF_EUSAGE, "option '%s' wants an argument: %s",
                           shown(name, o, optopt), o->arg);
        }
        const char *text = o->kind == MF_CLI_FLAG ? NULL : mf_alias_word(o->name, optarg);
        if (text) {
            int rc = judge_argument(o, code, text);
            if (rc != MF_OK) return rc;
        }
        cli->given[cli->n_given] = (mf_cli_given){o, text, cli->n_given + 1};
        cli->n_given++;
        if (strcmp(o->name, "help") == 0) cli->help = true;
        if (strcmp(o->name, "version") == 0) cli->version = true;
    }
    cli->n_operands = argc - optind;
    cli->operand = (const char **)&argv[optind];
    return MF_OK;
}

int mf_cli_parse(int argc, char **argv, mf_cli *cli)
{
    memset(cli, 0, sizeof *cli);
    cli->given = mf_alloc((size_t)argc * 2 + 64, sizeof *cli->given);
    if (!cli->given) return MF_ENOMEM;
    int rc = take_verb(&argc, argv, cli);
    char **given = mf_alloc((size_t)argc + 1, sizeof *given);
    if (!given) return MF_ENOMEM;
    memcpy(given, argv, (size_t)argc * sizeof *given);
    if (rc == MF_OK) rc = read_options(argc, argv, given, cli);
    mf_free(given);
    if (rc != MF_OK || cli->help || cli->version) return rc;
    if (!cli->verb) cli->verb = find_verb("train");
    if (!cli->verb) return mf_fail(MF_EUSAGE, "no verb given; 'moefw --help' lists them");
    return judge_operands(cli);
}

void mf_cli_clear(mf_cli *cli)
{
    mf_free(cli->given);
    cli->given = NULL;
}
