/* cli/cli.h: verbs, their options, and everything generated from their tables.
 *
 * A verb is one file tools/cli/verbs/verb_NAME.c that exports `const mf_verb mf_verb_NAME` and
 * is in the list of verbs.c. Its tables are the only list of its arguments: they drive the
 * parser, --help, the manual page and shell completion.
 *
 *     static const mf_cli_option options[] = {
 *         {.name = "out", .arg = "DIR", .kind = MF_CLI_TEXT, .help = "where it is written"},
 *         {.name = "steps", .arg = "N", .kind = MF_CLI_INT, .lo = 0, .hi = 1e12,
 *          .help = "optimizer steps", .set = "train.steps"},
 *         {.name = "resume", .kind = MF_CLI_FLAG, .help = "continue from the last checkpoint"},
 *         MF_CLI_END};
 *     static int run(const mf_cli *cli)
 *     {
 *         mf_config *config;
 *         int rc = mf_cli_config(cli, mf_cli_operand(cli, 0), &config);
 *         ...
 *         const char *out = mf_cli_text(cli, "out", NULL);
 *     }
 *     const mf_verb mf_verb_train = {.name = "train", .brief = "train a model",
 *                                    .forms = forms, .options = options, .run = run};
 *
 * run returns MF_OK, or a status with its message recorded; the program prints the message once
 * and exits with mf_status_exit. A verb whose output already reports the failure clears the
 * message (mf_error_clear). Results go to stdout, everything else to stderr through base/log.h.
 */
#ifndef MF_CLI_CLI_H
#define MF_CLI_CLI_H

#include "base/error.h"
#include "base/mem.h"
#include "io/json.h"
#include "run/run_config.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mf_cli_kind {
    MF_CLI_FLAG, /* no argument */
    MF_CLI_TEXT,
    MF_CLI_INT, /* strict; accepts the suffixes k, M, G; bounds are enforced */
    MF_CLI_REAL,
    MF_CLI_ENUM /* one of `choices` */
} mf_cli_kind;

typedef enum mf_cli_code {
    MF_CLI_NO_CODE,
    MF_CLI_NAMES_CODE, /* FILE, FILE:OPTIONS or a list of such */
    MF_CLI_SETS_CODE   /* KEY=FILE, where KEY is that of a plugin or communicator */
} mf_cli_code;

typedef struct mf_cli_option {
    const char *name; /* long name; NULL ends a table */
    const char *also; /* a second long name, from other programs; or NULL */
    int letter;       /* short name; 0: none */
    mf_cli_kind kind;
    /* name of the argument in help. Completion knows FILE, DIR, RUN, CONFIG, PRESET, PLUGIN */
    const char *arg;
    const char *help;           /* one line, lower case, no full stop */
    double lo, hi;              /* bounds of numbers, inclusive; both 0: none */
    const char *const *choices; /* MF_CLI_ENUM: NULL-terminated */
    const char *set;            /* "train.steps": the option means --set train.steps=ARGUMENT */
    const char *of;   /* actions that accept it, separated by blanks; NULL: the whole verb */
    mf_cli_code code; /* whether its argument may name files of code, which it allows */
} mf_cli_option;
#define MF_CLI_END                                                                             \
    {                                                                                          \
        .name = NULL                                                                           \
    }
/* The options that name the user's data files, for verbs with a configuration. of_: as
 * in mf_cli_option. */
#define MF_CLI_DATA_FILES_OF(of_)                                                              \
    {.name = "data",                                                                           \
     .of = of_,                                                                                \
     .kind = MF_CLI_TEXT,                                                                      \
     .arg = "FILE",                                                                            \
     .set = "data.path",                                                                       \
     .also = "train-file",                                                                     \
     .help = "text to train on, or builtin:topics"},                                           \
        {.name = "val-file",                                                                   \
         .of = of_,                                                                            \
         .kind = MF_CLI_TEXT,                                                                  \
         .arg = "FILE",                                                                        \
         .set = "data.val_path",                                                               \
         .help = "text to validate on, instead of a part of the other"},                       \
    {                                                                                          \
        .name = "vocab-file", .of = of_, .kind = MF_CLI_TEXT, .arg = "FILE",                   \
        .set = "data.tokenizer",                                                               \
        .help = "the tokenizer, as moefw tokenize or BERT write it, or vocab_dict"             \
    }
#define MF_CLI_DATA_FILES MF_CLI_DATA_FILES_OF(NULL)

/* For verbs that write a file: mf_cli_new_file. */
#define MF_CLI_FORCE_OF(of_)                                                                   \
    {                                                                                          \
        .name = "force", .of = of_, .kind = MF_CLI_FLAG, .help = "replace a file that exists"  \
    }

/* One way to call a verb: an optional action word, then operands. */
typedef struct mf_cli_form {
    const char *action;   /* "list"; NULL: the verb has no actions */
    const char *operands; /* for the synopsis: "RUN...", "[CONFIG|PRESET]"; NULL: none */
    int min, max;         /* number of operands; max -1: no limit; min -1 ends a table */
    const char *help;     /* one line; NULL for an action that help does not list */
} mf_cli_form;
#define MF_CLI_FORM_END                                                                        \
    {                                                                                          \
        NULL, NULL, -1, 0, NULL                                                                \
    }

typedef struct mf_cli mf_cli;

typedef struct mf_verb {
    const char *name, *brief;
    const mf_cli_form *forms;     /* ends with MF_CLI_FORM_END */
    const mf_cli_option *options; /* ends with MF_CLI_END; NULL: only the global ones */
    int (*run)(const mf_cli *cli);
    const char *notes; /* further lines of --help; or NULL */
    bool plain;        /* has no configuration: --set and --plugin are only checked */
    bool inputs;       /* its operands are files of input: a missing one is MF_EINPUT */
    bool names_code;   /* its operands are plugins: files among them may be loaded */
} mf_verb;

/* All verbs, NULL-terminated, in the order of the manual. */
extern const mf_verb *const mf_verbs[];
/* The options of every verb; they may come before or after the verb. */
extern const mf_cli_option mf_cli_globals[];

/* ---- for verbs; names of options without leading dashes; global options included ---- */
const char *mf_cli_action(const mf_cli *cli);         /* NULL if the verb has no actions */
int mf_cli_operands(const mf_cli *cli);               /* without the action */
const char *mf_cli_operand(const mf_cli *cli, int i); /* NULL after the last */
/* Number of occurrences of the option. All other functions use the last one. */
int mf_cli_count(const mf_cli *cli, const char *option);
bool mf_cli_flag(const mf_cli *cli, const char *option);
const char *mf_cli_text(const mf_cli *cli, const char *option, const char *absent);
/* The value of occurrence i, from 0; NULL: there are fewer. */
const char *mf_cli_text_at(const mf_cli *cli, const char *option, int i);
int64_t mf_cli_int(const mf_cli *cli, const char *option, int64_t absent);
double mf_cli_real(const mf_cli *cli, const char *option, double absent);
int mf_cli_enum(const mf_cli *cli, const char *option, int absent);
/* Whether --json was given: stdout then gets objects, one per line, and nothing else. */
bool mf_cli_json(const mf_cli *cli);
bool mf_cli_quiet(const mf_cli *cli); /* -q */
/* Prints the text of w as a line, and frees w. MF_ENOMEM, also where w is NULL. */
int mf_cli_print_json(mf_jw *w);
/* Whether a verb may write the requested file, before it computes: MF_EUSAGE if it exists,
 * unless --force is given or it is a page of moefw. path NULL or "-": no file. */
int mf_cli_new_file(const mf_cli *cli, const char *path);
/* Where a writer that makes only new files writes one that replaces another: *ret is the path
 * itself, or PATH.new. mf_cli_put_beside renames it if `rc`, which it returns, is MF_OK, and
 * frees it. path may be NULL. */
int mf_cli_beside(const char *path, char **ret);
int mf_cli_put_beside(int rc, char *beside, const char *path);
/* Whether standard output was closed when the program began. */
extern bool mf_cli_no_stdout;
/* Prints the name of a new file or run on a line; with --json {"KEY": "NAME"}. MF_ENOMEM. */
int mf_cli_put_name(const mf_cli *cli, const char *key, const char *name);
/* The status of a function that read a file which the command line names as input: a missing
 * one is MF_EINPUT, like any other bad input. */
int mf_cli_input(int rc);
/* Fails with MF_EUSAGE if --json was given, for output of another kind, such as "DOT". */
int mf_cli_no_json(const mf_cli *cli, const char *kind);

/* Reads the configuration of the command line: config (file, preset, or NULL for the default
 * preset), overridden by --plugin, --set and every option with `set`. Also sets the number of
 * threads. The caller frees *ret with mf_config_free. */
int mf_cli_config(const mf_cli *cli, const char *config, mf_config **ret);
/* As mf_cli_config, but every error is reported to the sink (see mf_config_load_from). */
int mf_cli_config_told(const mf_cli *cli, const char *config, const mf_problem_sink *sink,
                       mf_config **ret);

/* Whether the word names a file, a directory or a preset. */
bool mf_cli_names_config(const char *what);

/* The values of --plugin, --set and the options with `set`, in their order; in the arena. */
int mf_cli_assignments(const mf_cli *cli, mf_arena *arena, mf_assignment **ret, int *ret_n);
/* For verbs of a run, which keeps the configuration with which it was trained: fails as
 * mf_cli_config does if --set names no section or key or has a wrong value, or if there is no
 * such --plugin; else warns that --set, --plugin and options that set a key of [data] are
 * ignored, once for each. A plugin that the run has is not ignored: naming its file permits it.
 * run: name of the run, in the message as well. */
int mf_cli_run_stays(const mf_cli *cli, const char *run);
/* For verbs without a configuration: fails as mf_cli_run_stays does, and warns of nothing. */
int mf_cli_no_config(const mf_cli *cli);

/* ---- for the program ---- */
/* Parses the command line, whose words it reorders, and runs the verb. --help and --version are
 * handled here. Fails with MF_EUSAGE, naming the word and the nearest valid one; else as the
 * verb does. */
int mf_cli_run(int argc, char **argv);

/* ---- generated from the tables ---- */
/* To stdout. verb NULL: help of the program. action: help of this action of the verb alone, if
 * the verb has it; may be NULL. */
void mf_cli_help(const mf_verb *verb, const char *action);
/* Prints the first commands to try, for a call without arguments. */
void mf_cli_start(void);
/* Prints text from column `at` on, where the cursor is, with further lines indented to it, so
 * that lines fit 80 columns. */
void mf_cli_wrapped(const char *text, int at);
void mf_cli_synopsis(void); /* mdoc of the forms, to stdout */
void mf_cli_manual(void);   /* mdoc of verbs and options, to stdout */

#endif
