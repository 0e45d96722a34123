/* moefw completion bash|zsh|fish: completion scripts, generated from the tables of all verbs.
 * The placeholder of an argument decides its completion: FILE, PLUGIN, DIR, RUN, CONFIG or
 * PRESET. The scripts ask the program for presets, runs, plugins, and keys with their values
 * (cli/words.h) when the shell completes. */
#include "cli/cli.h"
#include "cli/words.h"

#include <stdio.h>
#include <string.h>

static bool names_kind(const char *text, const char *word)
{
    return text && strstr(text, word);
}

static bool wants_preset(const char *arg)
{
    return names_kind(arg, "PRESET") || names_kind(arg, "CONFIG");
}

static bool wants_file(const char *arg)
{
    return wants_preset(arg) || names_kind(arg, "FILE") || names_kind(arg, "PLUGIN");
}

static bool wants_folder(const char *arg)
{
    return names_kind(arg, "RUN") || names_kind(arg, "DIR");
}

static bool wants_run(const char *arg)
{
    return names_kind(arg, "RUN");
}

static bool wants_plugin(const char *arg)
{
    return names_kind(arg, "PLUGIN") || names_kind(arg, "NAME|FILE");
}

static bool wants_kind(const char *arg)
{
    return names_kind(arg, "KIND NAME");
}

static bool wants_tokenizer(const char *arg)
{
    return names_kind(arg, "KIND FILE");
}

/* The kind of words that complete KEY in an argument KEY=VALUE; NULL: the argument has
 * another form. */
static const char *keys_of_option(const mf_cli_option *o)
{
    if (strcmp(o->name, "where") == 0) return "columns";
    return o->arg && strstr(o->arg, "KEY=") ? "keys" : NULL;
}

/* Whether the option's argument is a list of words separated by commas. */
static bool is_list(const mf_cli_option *o)
{
    return o->arg && strchr(o->arg, ',') && !keys_of_option(o);
}

/* The kind of words (cli/words.h) that complete the option's argument; NULL: none. */
static const char *words_of_option(const mf_cli_option *o)
{
    if (strcmp(o->name, "router") == 0 || strcmp(o->name, "routers") == 0 ||
        strcmp(o->name, "baseline") == 0)
        return "routers";
    if (strcmp(o->name, "sort") == 0 || strcmp(o->name, "rank") == 0 ||
        strcmp(o->name, "show") == 0)
        return "columns";
    if (strcmp(o->name, "expert") == 0) return "experts";
    if (wants_plugin(o->arg)) return "plugins";
    return wants_preset(o->arg) ? "presets" : wants_run(o->arg) ? "runs" : NULL;
}

static bool wants_operand(const mf_verb *v, bool (*kind)(const char *))
{
    for (const mf_cli_form *f = v->forms; f->min >= 0; f++)
        if (kind(f->operands)) return true;
    return false;
}

/* Calls put with each kind of words that completes an operand of the verb. */
static void each_operand_kind(const mf_verb *v, void (*put)(const char *kind))
{
    if (wants_operand(v, wants_preset)) put("presets");
    if (wants_operand(v, wants_run)) put("runs");
    if (wants_operand(v, wants_plugin)) put("plugins");
    if (wants_operand(v, wants_kind)) put("kinds");
    if (wants_operand(v, wants_tokenizer)) put("tokenizers");
}

static void words_of_actions(const mf_verb *v)
{
    for (const mf_cli_form *f = v->forms; f->min >= 0; f++)
        if (f->action && f->help) printf(" %s", f->action);
}

/* Returns the operand of a verb that accepts only fixed words, such as "bash|zsh|fish"; NULL:
 * the verb has no such operand. */
static const char *words_of_operand(const mf_verb *v)
{
    for (const mf_cli_form *f = v->forms; f->min >= 0; f++)
        if (f->operands && strchr(f->operands, '|') &&
            f->operands[strspn(f->operands, "abcdefghijklmnopqrstuvwxyz|")] == '\0')
            return f->operands;
    return NULL;
}

static void put_words(const char *alternatives)
{
    for (const char *s = alternatives; s && *s != '\0'; s++)
        putchar(*s == '|' ? ' ' : *s);
}

/* Prints help in single quotes. A quote inside is escaped. */
static void quoted(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
}

/* ---- bash ---- */

static void bash_options(const mf_cli_option *o)
{
    for (; o && o->name; o++) {
        printf(" --%s", o->name);
        if (o->letter != 0) printf(" -%c", o->letter);
    }
}

/* Prints the cases for options with an argument. */
static void bash_arguments(const mf_cli_option *o)
{
    for (; o && o->name; o++) {
        if (o->kind == MF_CLI_FLAG) continue;
        if (keys_of_option(o)) continue; /* the function _moefw_set completes these */
        printf("        --%s%s%c)", o->name, o->letter != 0 ? "|-" : "",
               o->letter != 0 ? o->letter : ' ');
        if (is_list(o)) printf(" list=y");
        if (o->kind == MF_CLI_ENUM) {
            printf(" words='");
            for (int i = 0; o->choices[i] != NULL; i++)
                printf("%s%s", i > 0 ? " " : "", o->choices[i]);
            printf("'");
        } else if (wants_file(o->arg)) {
            printf(" files=-f");
        } else if (wants_folder(o->arg)) {
            printf(" files=-d");
        }
        if (o->kind != MF_CLI_ENUM && words_of_option(o))
            printf(" words=$(_moefw_words %s)", words_of_option(o));
        printf(" ;;\n");
    }
}

static void bash_words(const char *kind)
{
    printf(" words=\"$words $(_moefw_words %s)\"", kind);
}

static void bash_verb(const mf_verb *v)
{
    printf("    %s)\n        case $prev in\n", v->name);
    bash_arguments(v->options);
    bash_arguments(mf_cli_globals);
    printf("        *) words='");
    words_of_actions(v);
    put_words(words_of_operand(v));
    bash_options(v->options);
    bash_options(mf_cli_globals);
    printf("'");
    each_operand_kind(v, bash_words);
    if (wants_operand(v, wants_file))
        printf(" files=-f");
    else if (wants_operand(v, wants_folder))
        printf(" files=-d");
    printf(" ;;\n        esac ;;\n");
}

static void complete_bash(void)
{
    printf(
        "# moefw completion for bash: eval \"$(moefw completion bash)\"\n"
        "_moefw_words() { moefw completion words \"$@\" 2>/dev/null; }\n"
        "# KEY=VALUE, also KEY=A,B: readline replaces only what follows the last =\n"
        "_moefw_set() {\n"
        "    local done=\n"
        "    case $2 in\n"
        "    *=*) case $2 in *=*,*) done=${2#*=}; done=${done%%,*}, ;; esac\n"
        "        COMPREPLY=($(compgen -P \"$done\" -W \"$(_moefw_words values "
        "\"${2%%%%=*}\")\" -- \"${2#*=$done}\")) ;;\n"
        "    *) COMPREPLY=($(compgen -S = -W \"$(_moefw_words \"$1\")\" -- \"$2\"))\n"
        "        compopt -o nospace 2>/dev/null ;;\n"
        "    esac\n"
        "    return 0\n}\n"
        "_moefw() {\n"
        "    if [[ ${COMP_LINE:0:COMP_POINT} =~ \\ --(set|grid|draw)[=\\ ]([^\\ ]*)$ ]]; then\n"
        "        _moefw_set keys \"${BASH_REMATCH[2]}\"; return\n    fi\n"
        "    if [[ ${COMP_LINE:0:COMP_POINT} =~ \\ --where[=\\ ]([^\\ ]*)$ ]]; then\n"
        "        _moefw_set columns \"${BASH_REMATCH[1]}\"; return\n    fi\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= i "
        "words= files= list=\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case ${COMP_WORDS[i]} in\n        ");
    for (int i = 0; mf_verbs[i] != NULL; i++)
        printf("%s%s", i > 0 ? "|" : "", mf_verbs[i]->name);
    printf(") verb=${COMP_WORDS[i]}; break ;;\n        esac\n    done\n"
           "    [ \"$prev\" = = ] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
           "    [ \"$cur\" = = ] && cur= && prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    case $verb in\n    '')\n        case $prev in\n");
    bash_arguments(mf_cli_globals);
    printf("        *) words='");
    for (int i = 0; mf_verbs[i] != NULL; i++)
        printf("%s ", mf_verbs[i]->name);
    bash_options(mf_cli_globals);
    printf("' ;;\n        esac ;;\n");
    for (int i = 0; mf_verbs[i] != NULL; i++)
        bash_verb(mf_verbs[i]);
    printf("    esac\n"
           "    local IFS=$' \\t\\n'\n"
           "    case $list$cur in\n"
           "    y*,*) COMPREPLY=($(compgen -P \"${cur%%,*},\" -W \"$words\" -- "
           "\"${cur##*,}\")) ;;\n"
           "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
           "    esac\n"
           "    [ -n \"$files\" ] && case $cur in -*) ;; *)\n"
           "        IFS=$'\\n'; COMPREPLY+=($(compgen $files -- \"$cur\")) ;;\n"
           "    esac\n"
           "    return 0\n}\n"
           "complete -o filenames -F _moefw moefw\n");
}

/* ---- zsh ---- */

/* Prints text for an _arguments spec. Colons and brackets have a meaning there, so they
 * are escaped. */
static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("[]:\\", *text)) putchar('\\');
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
    }
}

static void zsh_argument(const char *arg, const mf_cli_option *o)
{
    putchar(':');
    zsh_text(arg);
    putchar(':');
    if (o && o->kind == MF_CLI_ENUM) {
        putchar('(');
        for (int i = 0; o->choices[i] != NULL; i++)
            printf("%s%s", i > 0 ? " " : "", o->choices[i]);
        putchar(')');
    } else if (o && keys_of_option(o)) {
        printf("_moefw_set %s", keys_of_option(o));
    } else if (o && words_of_option(o)) {
        printf("_moefw_%s %s", is_list(o) ? "list" : "words", words_of_option(o));
    } else if (wants_file(arg)) {
        printf("_files");
    } else if (wants_folder(arg)) {
        printf("_files -/");
    }
}

static void zsh_options(const mf_cli_option *o)
{
    for (; o && o->name; o++)
        for (int brief = 0; brief < (o->letter != 0 ? 2 : 1); brief++) {
            printf("            '*");
            if (brief)
                printf("-%c", o->letter);
            else
                printf("--%s%s", o->name, o->kind != MF_CLI_FLAG ? "=" : "");
            putchar('[');
            zsh_text(o->help);
            putchar(']');
            if (o->kind != MF_CLI_FLAG) zsh_argument(o->arg, o);
            printf("' \\\n");
        }
}

static void zsh_word(const char *kind)
{
    printf(" %s", kind);
}

static bool wants_any(const char *arg)
{
    return wants_preset(arg) || wants_run(arg) || wants_plugin(arg) || wants_kind(arg) ||
           wants_tokenizer(arg);
}

static void zsh_verb(const mf_verb *v)
{
    const char *operands = NULL;
    printf("    %s)\n        _arguments -s \\\n", v->name);
    zsh_options(v->options);
    zsh_options(mf_cli_globals);
    for (const mf_cli_form *f = v->forms; f->min >= 0; f++)
        if (!operands) operands = f->operands;
    if (v->forms->action) {
        printf("            '1:action:(");
        words_of_actions(v);
        printf(" )' \\\n");
    }
    printf("            '*");
    if (words_of_operand(v)) {
        printf(":word:(");
        put_words(words_of_operand(v));
        putchar(')');
    } else if (wants_operand(v, wants_any)) {
        printf(":operand:_moefw_words");
        each_operand_kind(v, zsh_word);
    } else if (operands) {
        zsh_argument(operands, NULL);
    } else {
        printf(": : ");
    }
    printf("' ;;\n");
}

static void complete_zsh(void)
{
    printf("#compdef moefw\n"
           "# moefw completion for zsh: eval \"$(moefw completion zsh)\", or a file _moefw in "
           "fpath\n"
           "_moefw_words() {\n    local -a names\n    local kind\n"
           "    for kind; do\n"
           "        names=(${(f)\"$(moefw completion words $kind 2>/dev/null)\"})\n"
           "        compadd -a names\n    done\n    _files\n}\n"
           "_moefw_list() {\n    compset -P '*,'\n    _moefw_words $@[-1]\n}\n"
           "_moefw_set() {\n    local -a names\n"
           "    if compset -P '*='; then\n"
           "        names=(${(f)\"$(moefw completion words values ${${IPREFIX%%=}##*=} "
           "2>/dev/null)\"})\n"
           "        compset -P '*,'\n"
           "        compadd -a names\n    else\n"
           "        names=(${(f)\"$(moefw completion words $@[-1] 2>/dev/null)\"})\n"
           "        compadd -S = -a names\n    fi\n}\n"
           "_moefw() {\n    local -a verbs\n    verbs=(\n");
    for (int i = 0; mf_verbs[i] != NULL; i++) {
        printf("        '%s:", mf_verbs[i]->name);
        zsh_text(mf_verbs[i]->brief);
        printf("'\n");
    }
    printf("    )\n    local curcontext=$curcontext state line verb\n"
           "    integer i\n"
           "    for ((i = 2; i < CURRENT; i++)); do\n"
           "        if [[ -n ${(M)verbs:#${words[i]}:*} ]]; then verb=$words[i]; break; fi\n"
           "    done\n"
           "    if [[ -n $verb ]]; then\n"
           "        words=(\"${(@)words[i,-1]}\"); ((CURRENT -= i - 1))\n    fi\n"
           "    case $verb in\n    '')\n        _arguments -s \\\n");
    zsh_options(mf_cli_globals);
    printf("            '*: :{_describe verb verbs}' ;;\n");
    for (int i = 0; mf_verbs[i] != NULL; i++)
        zsh_verb(mf_verbs[i]);
    printf("    esac\n}\n"
           "if [ \"${funcstack[1]-}\" = _moefw ]; then _moefw \"$@\"; else compdef _moefw "
           "moefw; fi\n");
}

/* ---- fish ---- */

static void fish_options(const char *when, const mf_cli_option *o)
{
    for (; o && o->name; o++) {
        printf("complete -c moefw%s -l %s", when, o->name);
        if (o->letter != 0) printf(" -s %c", o->letter);
        if (o->kind != MF_CLI_FLAG) printf(wants_file(o->arg) ? " -r -F" : " -x");
        if (o->kind == MF_CLI_ENUM) {
            printf(" -a '");
            for (int i = 0; o->choices[i] != NULL; i++)
                printf("%s%s", i > 0 ? " " : "", o->choices[i]);
            printf("'");
        } else if (keys_of_option(o)) {
            printf(" -a '(__moefw_set %s)'", keys_of_option(o));
        } else if (words_of_option(o)) {
            printf(" -a '(__moefw_%s %s)'", is_list(o) ? "list" : "words", words_of_option(o));
        } else if (wants_folder(o->arg)) {
            printf(" -a '(__fish_complete_directories)'");
        }
        printf(" -d '");
        quoted(o->help);
        printf("'\n");
    }
}

static void fish_verb(const mf_verb *v)
{
    char when[96];
    snprintf(when, sizeof when, " -n '__moefw_verb %s'", v->name);
    fish_options(when, v->options);
    for (const mf_cli_form *f = v->forms; f->min >= 0; f++)
        if (f->action && f->help) {
            printf("complete -c moefw -n '__moefw_verb %s; and not __fish_seen_subcommand_from",
                   v->name);
            words_of_actions(v);
            printf("' -a %s -d '", f->action);
            quoted(f->help);
            printf("'\n");
        }
    if (words_of_operand(v)) {
        printf("complete -c moefw%s -a '", when);
        put_words(words_of_operand(v));
        printf("'\n");
    }
    static const struct {
        bool (*wants)(const char *arg);
        const char *kind;
    } kinds[] = {{wants_preset, "presets"},
                 {wants_run, "runs"},
                 {wants_plugin, "plugins"},
                 {wants_kind, "kinds"},
                 {wants_tokenizer, "tokenizers"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (wants_operand(v, kinds[i].wants))
            printf("complete -c moefw%s -a '(__moefw_words %s)'\n", when, kinds[i].kind);
    if (wants_operand(v, wants_file) || wants_operand(v, wants_folder))
        printf("complete -c moefw%s -F\n", when);
}

static void complete_fish(void)
{
    printf("# moefw completion for fish: moefw completion fish | source\n"
           "function __moefw_words\n"
           "    moefw completion words $argv 2>/dev/null\nend\n"
           "# What is before the last comma of a list stays.\n"
           "function __moefw_list\n"
           "    set -l done (string match -r -- '^(?:--[a-z]+=)?(.*,)' (commandline -ct))[2]\n"
           "    for word in (__moefw_words $argv)\n"
           "        echo \"$done$word\"\n    end\nend\n"
           "function __moefw_set\n"
           "    set -l word (string replace -r -- '^--[a-z]+=' '' (commandline -ct))\n"
           "    set -l key (string replace -r -- '=.*' '' $word)\n"
           "    set -l done (string match -r -- '=(.*,)' $word)[2]\n"
           "    if string match -q -- '*=*' $word\n"
           "        for value in (__moefw_words values $key)\n"
           "            echo \"$key=$done$value\"\n        end\n"
           "    else\n"
           "        for key in (__moefw_words $argv)\n            echo $key=\n        end\n"
           "    end\nend\n"
           "# The first word that is a verb is the verb: others may be actions or values.\n"
           "function __moefw_verb\n"
           "    set -l verb\n"
           "    for word in (commandline -opc)\n"
           "        if contains -- $word");
    for (int i = 0; mf_verbs[i] != NULL; i++)
        printf(" %s", mf_verbs[i]->name);
    printf("\n            set verb $word\n"
           "            break\n"
           "        end\n"
           "    end\n"
           "    test \"$verb\" = \"$argv\"\nend\n"
           "complete -c moefw -f\n");
    for (int i = 0; mf_verbs[i] != NULL; i++) {
        printf("complete -c moefw -n __moefw_verb -a %s -d '", mf_verbs[i]->name);
        quoted(mf_verbs[i]->brief);
        printf("'\n");
    }
    fish_options("", mf_cli_globals);
    for (int i = 0; mf_verbs[i] != NULL; i++)
        fish_verb(mf_verbs[i]);
}

static int complete_shell(const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        complete_bash();
    else if (strcmp(shell, "zsh") == 0)
        complete_zsh();
    else if (strcmp(shell, "fish") == 0)
        complete_fish();
    else
        return mf_fail(MF_EUSAGE, "unknown shell '%s'; expected bash, zsh or fish", shell);
    return MF_OK;
}

/* The forms mdoc and mdoc-synopsis are for tests/regenerate.sh. */
static int run(const mf_cli *cli)
{
    const char *what = mf_cli_operand(cli, 0);
    const int rc = mf_cli_no_json(cli, "a shell script");
    if (rc != MF_OK) return rc;
    if (strcmp(what, "words") == 0 && mf_cli_operands(cli) > 1) /* for completion scripts */
        return mf_words_print(mf_cli_operand(cli, 1), mf_cli_operand(cli, 2));
    if (mf_cli_operands(cli) > 1)
        return mf_fail(MF_EUSAGE, "'moefw completion': one operand too many: '%s'",
                       mf_cli_operand(cli, 1));
    if (strcmp(what, "mdoc") == 0)
        mf_cli_manual();
    else if (strcmp(what, "mdoc-synopsis") == 0)
        mf_cli_synopsis();
    else
        return complete_shell(what);
    return MF_OK;
}

static const mf_cli_form forms[] = {{NULL, "bash|zsh|fish", 1, 3, NULL}, MF_CLI_FORM_END};

const mf_verb mf_verb_completion = {
    .name = "completion",
    .brief = "print a shell completion script",
    .forms = forms,
    .run = run,
    .notes = "bash: eval \"$(moefw completion bash)\" in ~/.bashrc\n"
             "zsh:  moefw completion zsh >\"${fpath[1]}/_moefw\"\n"
             "fish: moefw completion fish >~/.config/fish/completions/moefw.fish\n",
};
