/* cli/meant/other_words.c: suggestions for verbs and options that other programs have, and for
 * keys of the configuration that are written as options. They only appear in messages: a wrong
 * word is never executed. */
#include "cli/meant/other_words.h"

#include <stdio.h>
#include <string.h>
#include "base/text/other_names.h"

typedef struct pair {
    const char *word, *means;
} pair;

static const char *means(const pair *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i].word) == 0) return list[i].means;
    return NULL;
}

const char *mf_cli_other_verb(const char *word)
{
    static const pair verbs[] = {{"run", "moefw train"},
                                 {"fit", "moefw train"},
                                 {"pretrain", "moefw train"},
                                 {"finetune", "moefw train --set train.from=RUN"},
                                 {"resume", "moefw train RUN --resume"},
                                 {"continue", "moefw train RUN --resume"},
                                 {"chat", "moefw generate RUN --interactive"},
                                 {"sample", "moefw generate RUN"},
                                 {"infer", "moefw generate RUN"},
                                 {"inference", "moefw generate RUN"},
                                 {"predict", "moefw eval RUN"},
                                 {"evaluate", "moefw eval RUN"},
                                 {"test", "moefw eval RUN"},
                                 {"validate", "moefw eval RUN"},
                                 {"val", "moefw eval RUN"},
                                 {"list", "moefw plugin list"},
                                 {"plugins", "moefw plugin list"},
                                 {"routers", "moefw plugin list"},
                                 {"configs", "moefw presets"},
                                 {"ls", "moefw runs"},
                                 {"history", "moefw runs"},
                                 {"experiments", "moefw runs"},
                                 {"rm", "moefw runs RUN --remove"},
                                 {"delete", "moefw runs RUN --remove"},
                                 {"init", "moefw plugin new router NAME"},
                                 {"new", "moefw plugin new router NAME"},
                                 {"create", "moefw plugin new router NAME"},
                                 {"check", "moefw plugin check FILE"},
                                 {"benchmark", "moefw bench"},
                                 {"profile", "moefw bench train"},
                                 {"plot", "moefw report RUN"},
                                 {"show", "moefw config show"},
                                 {"info", "moefw doctor"},
                                 {"env", "moefw doctor"},
                                 {"version", "moefw --version"},
                                 {"convert", "moefw export"},
                                 {"sweep", "moefw compare"},
                                 {"search", "moefw compare"}};
    return means(verbs, sizeof verbs / sizeof *verbs, word);
}

/* Options of other programs, each with the equivalent long option of moefw. */
static const pair options[] = {{"output", "out"},
                               {"output-dir", "out"},
                               {"out-dir", "out"},
                               {"save-dir", "out"},
                               {"save-path", "out"},
                               {"logdir", "out"},
                               {"log-dir", "out"},
                               {"run-name", "out"},
                               {"exp-name", "out"},
                               {"nproc", "threads"},
                               {"num-threads", "threads"},
                               {"n-threads", "threads"},
                               {"num-workers", "threads"},
                               {"workers", "threads"},
                               {"cpus", "threads"},
                               {"max-new-tokens", "tokens"},
                               {"max-tokens", "tokens"},
                               {"n-predict", "tokens"},
                               {"length", "tokens"},
                               {"num-samples", "samples"},
                               {"repetition-penalty", "repeat-penalty"},
                               {"input", "data"},
                               {"dataset", "data"},
                               {"train-data", "data"},
                               {"data-path", "data"},
                               {"valid-file", "val-file"},
                               {"val-data", "val-file"},
                               {"tokenizer", "vocab-file"},
                               {"continue", "resume"},
                               {"resume-from-checkpoint", "resume"},
                               {"silent", "quiet"},
                               {"debug", "verbose"},
                               {"all", "routers"}};

/* Options of other programs that have no equivalent option, each with the text that the message
 * contains instead. */
static const pair sentences[] = {
    {"wandb", "'moefw export csv RUN' writes a table of all metrics"},
    {"mlflow", "'--set log.mlflow=http://HOST:PORT' sends metrics to an MLflow server, "
               "'moefw export mlflow RUN' writes what MLflow reads"},
    {"report-to", "'--set log.tensorboard=yes' and '--set log.mlflow=http://HOST:PORT' write "
                  "for other tools, as 'moefw export csv|mlflow RUN' does"},
    {"gpu", "did you mean '--device=cuda:0'?"},
    {"gpus", "did you mean '--device=cuda:0'?"},
    {"cuda", "did you mean '--device=cuda'?"},
    {"cpu", "did you mean '--device=cpu'?"}};

static const mf_cli_option *find(const mf_cli_option *all, const char *name, const char *sets)
{
    for (; all && all->name; all++)
        if (name ? strcmp(all->name, name) == 0 : all->set && strcmp(all->set, sets) == 0)
            return all;
    return NULL;
}

static const mf_cli_option *option_of(const mf_verb *verb, const char *name, const char *sets)
{
    const mf_cli_option *o = find(verb->options, name, sets);
    return o ? o : find(mf_cli_globals, name, sets);
}

/* Writes "SECTION.KEY" of the first section with a key of this name. '-' in the name counts as
 * '_'. The name may also be the complete "SECTION.KEY". */
static bool find_key(const char *name, char *buf, size_t size)
{
    char word[64], key[128];
    snprintf(word, sizeof word, "%s", name);
    for (char *c = word; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    for (const mf_section_at *at = mf_config_sections; at->section; at++) {
        if (mf_section_named(at->section)) continue;
        for (const mf_option *o = at->section->options; o->name; o++) {
            snprintf(key, sizeof key, "%s.%s", at->section->name, o->name);
            if (strcmp(word, o->name) != 0 && strcmp(word, key) != 0) continue;
            snprintf(buf, size, "%s", key);
            return true;
        }
    }
    return false;
}

static bool key_of(const char *name, char *buf, size_t size)
{
    const char *other = mf_other_name(name);
    if (!other) return find_key(name, buf, size);
    snprintf(buf, size, "%s", other);
    return true;
}

static void suggest(const mf_cli_option *o, const char *value, char *buf, size_t size)
{
    const bool flag = o->kind == MF_CLI_FLAG;
    snprintf(buf, size, "did you mean '--%s%s%s'?", o->name, flag ? "" : "=",
             flag    ? ""
             : value ? value
                     : o->arg);
}

/* Returns the value to suggest for the key: bf16 for options that exist only in other programs,
 * such as --fp16; else the given value, or the word VALUE if `value` is NULL. */
static const char *own_value(const char *name, const char *key, const char *value)
{
    if (strcmp(key, "train.dtype") == 0) {
        if (strcmp(name, "bf16") == 0 || strcmp(name, "fp16") == 0 || strcmp(name, "amp") == 0)
            return "bf16";
    }
    return value ? value : "VALUE";
}

bool mf_cli_other_option(const mf_verb *verb, const char *name, const char *value, char *buf,
                         size_t size)
{
    char word[64], key[128];
    snprintf(word, sizeof word, "%s", name);
    for (char *c = word; *c != '\0'; c++)
        if (*c == '_') *c = '-';
    if (!verb) verb = mf_verbs[0]; /* train */
    const char *sentence = means(sentences, sizeof sentences / sizeof *sentences, word);
    if (sentence) {
        snprintf(buf, size, "%s", sentence);
        return true;
    }
    const char *same = means(options, sizeof options / sizeof *options, word);
    const mf_cli_option *o = option_of(verb, same ? same : word, NULL);
    if (o) {
        suggest(o, value, buf, size);
        return true;
    }
    const char *operands = verb->forms[0].operands;
    if (!operands || !strstr(operands, "CONFIG") || !key_of(name, key, sizeof key))
        return false;
    o = option_of(verb, NULL, key);
    if (o)
        suggest(o, value, buf, size);
    else
        snprintf(buf, size, "did you mean '--set %s=%s'?", key, own_value(word, key, value));
    return true;
}

bool mf_cli_other_set(const char *text, char *buf, size_t size)
{
    char name[64], key[128];
    const size_t n = strcspn(text, "=");
    if (text[n] != '=' || n >= sizeof name || memchr(text, '.', n)) return false;
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (!key_of(name, key, sizeof key)) return false;
    snprintf(buf, size, "%s%s", key, text + n);
    return true;
}
