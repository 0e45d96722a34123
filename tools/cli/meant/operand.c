/* cli/meant/operand.c: recognises operands that are not configurations, by their form and their
 * first bytes. Only operands that cannot be a configuration are refused here. The reader of
 * configurations reports all other errors. */
#include "cli/meant/operand.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/text/ini.h"
#include "base/text/shown.h"
#include "cli/cli_parse.h"
#include "cli/meant/other_words.h"
#include "run/run_config.h"

enum { WORD = 4200 };

/* Whether a section of this exact name has this key in its table of options. Options of plugins
 * are in no table, so their keys are not found. */
static bool is_key(const char *section, size_t n, const char *key, size_t m)
{
    for (const mf_section_at *at = mf_config_sections; at->section; at++) {
        if (strlen(at->section->name) != n || strncmp(at->section->name, section, n) != 0)
            continue;
        for (const mf_option *o = at->section->options; o->name; o++)
            if (strlen(o->name) == m && strncmp(o->name, key, m) == 0) return true;
    }
    return false;
}

const char *mf_cli_meant_setting(const char *text, char *buf, size_t size)
{
    char full[512];
    const size_t n = strcspn(text, "="), dot = strcspn(text, ".");
    buf[0] = '\0';
    if (text[n] != '=') return buf;
    if (mf_cli_other_set(text, full, sizeof full))
        text = full;
    else if (dot >= n || !is_key(text, dot, text + dot + 1, n - dot - 1))
        return buf;
    char word[WORD];
    snprintf(buf, size, "; did you mean --set %s?", mf_shell_word(text, word, sizeof word));
    return buf;
}

/* Whether the first line that is not empty could belong to a configuration: a section, or a key
 * with a value. If so, the reader of configurations reports the errors. */
static bool may_be_ini(const char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t i = n >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    while (i < n) {
        while (i < n && isspace((unsigned char)text[i]))
            i++;
        if (i >= n || text[i] == '[') return true;
        if (text[i] != ';' && text[i] != '#') break;
        while (i < n && text[i] != '\n')
            i++;
    }
    size_t key = i;
    while (key < n && (isalnum((unsigned char)text[key]) || strchr("_-", text[key])))
        key++;
    while (key < n && (text[key] == ' ' || text[key] == '\t'))
        key++;
    return i >= n || (key > i && key < n && text[key] == '=');
}

/* Reads the first bytes of a regular file. Returns their number; 0 if the file is not regular,
 * or cannot be read. */
static size_t first_bytes(const char *path, char *buf, size_t size)
{
    int fd;
    uint64_t all = 0;
    if (mf_file_open(path, &fd, &all) != MF_OK) {
        mf_error_clear();
        return 0;
    }
    size_t n = all < size ? (size_t)all : size;
    if (mf_file_read_at(fd, path, buf, n, 0) != MF_OK) {
        mf_error_clear();
        n = 0;
    }
    mf_file_close(fd);
    return n;
}

static bool has_data_option(const mf_verb *verb)
{
    for (const mf_cli_option *o = verb->options; o && o->name; o++)
        if (strcmp(o->name, "data") == 0) return true;
    return false;
}

/* Writes the verb, its action and the operand RUN if it has one, such as "moefw train" or
 * "moefw eval RUN". */
static const char *command(const mf_cli *cli, char *buf, size_t size)
{
    const char *action = cli->form->action;
    snprintf(buf, size, "moefw %s%s%s%s", cli->verb->name, action ? " " : "",
             action ? action : "", strncmp(cli->form->operands, "RUN", 3) == 0 ? " RUN" : "");
    return buf;
}

static int no_config(const mf_cli *cli, const char *what, const char *is, const char *option)
{
    char word[WORD], start[128];
    return mf_fail(MF_EUSAGE, "%s is %s, no configuration; did you mean '%s %s %s'?", what, is,
                   command(cli, start, sizeof start), option,
                   mf_shell_word(what, word, sizeof word));
}

static int judge_file(const mf_cli *cli, const char *what)
{
    char text[4096];
    const size_t n = first_bytes(what, text, sizeof text);
    if (n >= 4 && memcmp(text,
                         "\x7f"
                         "ELF",
                         4) == 0) {
        const bool bare = strchr(what, '/') == NULL;
        char path[WORD];
        snprintf(path, sizeof path, "%s%s", bare ? "./" : "", what);
        return no_config(cli, path, "a plugin's file", "--plugin");
    }
    if (n == 0 || may_be_ini(text, n) || !has_data_option(cli->verb)) return MF_OK;
    return no_config(cli, what, "a file of data", "--data");
}

int mf_cli_judge_operand(const mf_cli *cli)
{
    struct stat st;
    const char *what = cli->n_operands > 0 ? cli->operand[0] : NULL;
    const char *operands = cli->form ? cli->form->operands : NULL;
    char meant[WORD + 64];
    if (!what || !operands || !strstr(operands, "CONFIG") || mf_is_standard_input(what))
        return MF_OK;
    /* with --resume the operand may also be a run */
    if (mf_cli_flag(cli, "resume")) return MF_OK;
    if (stat(what, &st) != 0) {
        mf_cli_meant_setting(what, meant, sizeof meant);
        if (meant[0] == '\0') return MF_OK;
        return mf_fail(MF_EUSAGE, "'%s' is a setting, no configuration%s", what, meant);
    }
    if (S_ISREG(st.st_mode)) return judge_file(cli, what);
    char *config = mf_path_join(what, "config.ini"), *plan = mf_path_join(what, "plan.json"),
         *searched = mf_path_join(what, "search.json");
    const bool data = S_ISDIR(st.st_mode) && config && plan && searched && !mf_exists(config) &&
                      !mf_exists(plan) && !mf_exists(searched) && has_data_option(cli->verb) &&
                      strncmp(operands, "RUN", 3) != 0;
    mf_free(config);
    mf_free(plan);
    mf_free(searched);
    return data ? no_config(cli, what, "a folder without a config.ini", "--data") : MF_OK;
}
