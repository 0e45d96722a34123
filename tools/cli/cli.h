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
    MF_CLI_NAMES_CODE, /* the value is FILE, FILE:OPTIONS or a list of these */
    MF_CLI_SETS_CODE   /* the value is KEY=FILE, where KEY selects a plugin or a communicator */
} mf_cli_code;

typedef struct mf_cli_option {
    const char *name; /* long name; NULL ends a table */
    const char *also; /* a second long name, from other programs; or NULL */
    int letter;       /* short name; 0: none */
    mf_cli_kind kind;
    /* name of the argument in help. Completion treats FILE, DIR, RUN, CONFIG, PRESET,
     * PLUGIN specially */
    const char *arg;
    const char *help;           /* one line, lower case, no full stop */
    double lo, hi;              /* bounds of numbers, inclusive; both 0: none */
    const char *const *choices; /* MF_CLI_ENUM: NULL-terminated */
    const char *set;            /* "train.steps": the option means --set train.steps=ARGUMENT */
    const char *of;   /* actions that accept it, separated by blanks; NULL: the whole verb */
    mf_cli_code code; /* whether its argument may name code files, which are then permitted */
} mf_cli_option;
#define MF_CLI_END                                                                             \
    {                                                                                          \
        .name = NULL                                                                           \
    }
/* The options that name the user's data files, for verbs with a configuration. of_: see the
 * member `of` of mf_cli_option. */
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

/* The option --force, for verbs that write a file with mf_cli_new_file. */
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
    const mf_cli_option *options; /* ends with MF_CLI_END; NULL: only the global options */
    int (*run)(const mf_cli *cli);
    const char *notes; /* further lines of --help, or NULL */
    bool plain;        /* the verb has no configuration: --set and --plugin are only checked */
    bool inputs;       /* its operands are input files: a missing file is MF_EINPUT */
    bool names_code;   /* its operands are plugins: files among them may be loaded */
} mf_verb;

/* All verbs, NULL-terminated, in the order of the manual. */
extern const mf_verb *const mf_verbs[];
/* The options of every verb; they may come before or after the verb. */
extern const mf_cli_option mf_cli_globals[];

/* ---- for verbs; names of options without leading dashes; global options included ---- */
const char *mf_cli_action(const mf_cli *cli);         /* NULL if the verb has no actions */
int mf_cli_operands(const mf_cli *cli);               /* number of operands, without
                                                       * the action */
const char *mf_cli_operand(const mf_cli *cli, int i); /* operand i; NULL after the last */
/* Number of occurrences of the option. The other functions use the last occurrence,
 * except mf_cli_text_at. */
int mf_cli_count(const mf_cli *cli, const char *option);
bool mf_cli_flag(const mf_cli *cli, const char *option);
const char *mf_cli_text(const mf_cli *cli, const char *option, const char *absent);
/* The value of occurrence i, counted from 0; NULL if there are fewer occurrences. */
const char *mf_cli_text_at(const mf_cli *cli, const char *option, int i);
int64_t mf_cli_int(const mf_cli *cli, const char *option, int64_t absent);
double mf_cli_real(const mf_cli *cli, const char *option, double absent);
int mf_cli_enum(const mf_cli *cli, const char *option, int absent);
/* Whether --json was given. Then stdout receives only JSON objects, one per line. */
bool mf_cli_json(const mf_cli *cli);
bool mf_cli_quiet(const mf_cli *cli); /* whether -q was given */
/* Prints the text of w as a line, and frees w. Returns MF_ENOMEM if w ran out of memory or
 * is NULL. */
int mf_cli_print_json(mf_jw *w);
/* Whether a verb may write the requested file. Call this before the verb computes. Returns
 * MF_EUSAGE if the file exists, unless --force is given or the file is a page of moefw. path
 * NULL or "-": no file. */
int mf_cli_new_file(const mf_cli *cli, const char *path);
/* Returns the path for a writer that can only make new files. *ret is the path itself, or
 * PATH.new if PATH exists. mf_cli_put_beside renames PATH.new to PATH if `rc` is MF_OK, frees
 * *ret, and returns `rc`. path may be NULL. */
int mf_cli_beside(const char *path, char **ret);
int mf_cli_put_beside(int rc, char *beside, const char *path);
/* Whether standard output was closed when the program began. */
extern bool mf_cli_no_stdout;
/* Prints the name of a new file or run on a line; with --json {"KEY": "NAME"}. Can fail
 * with MF_ENOMEM. */
int mf_cli_put_name(const mf_cli *cli, const char *key, const char *name);
/* Converts the status of a function that read an input file named on the command line: a
 * missing file becomes MF_EINPUT, like any other bad input. */
int mf_cli_input(int rc);
/* Fails with MF_EUSAGE if --json was given, for output of another kind, such as "DOT". */
int mf_cli_no_json(const mf_cli *cli, const char *kind);

/* Reads the configuration of the command line: config (file, preset, or NULL for the default
 * preset), overridden by --plugin, --set and every option with `set`. Also sets the number of
 * threads. The caller frees *ret with mf_config_free. */
int mf_cli_config(const mf_cli *cli, const char *config, mf_config **ret);
/* Like mf_cli_config, but every error is reported to the sink (see mf_config_load_from). */
int mf_cli_config_told(const mf_cli *cli, const char *config, const mf_problem_sink *sink,
                       mf_config **ret);

/* Whether the word names a file, a directory or a preset. */
bool mf_cli_names_config(const char *what);

/* The values of --plugin, --set and the options with `set`, in their order; in the arena. */
int mf_cli_assignments(const mf_cli *cli, mf_arena *arena, mf_assignment **ret, int *ret_n);
/* For verbs of a run, which keeps the configuration with which it was trained. Fails like
 * mf_cli_config if --set names no section or key or has a wrong value, or if there is no such
 * --plugin. Otherwise it warns that --set, --plugin and options that set a key of [data] are
 * ignored, once for each. A plugin that the run uses is not ignored: naming its file permits
 * loading it. run: name of the run, also used in the message. */
int mf_cli_run_stays(const mf_cli *cli, const char *run);
/* For verbs without a configuration: fails like mf_cli_run_stays, but never warns. */
int mf_cli_no_config(const mf_cli *cli);

/* ---- for the program ---- */
/* Parses the command line, reorders its words, and runs the verb. Handles --help and --version
 * itself. Fails with MF_EUSAGE, and the message names the wrong word and the nearest valid one.
 * Otherwise returns the status of the verb. */
int mf_cli_run(int argc, char **argv);

/* ---- generated from the tables ---- */
/* Prints help to stdout. verb NULL: help of the program. action: help of this action of the
 * verb alone, if the verb has it; may be NULL. */
void mf_cli_help(const mf_verb *verb, const char *action);
/* Prints the first commands to try, for a call without arguments. */
void mf_cli_start(void);
/* Prints text from column `at` on, where the cursor already is. Further lines are indented to
 * this column, and all lines fit 80 columns. */
void mf_cli_wrapped(const char *text, int at);
void mf_cli_synopsis(void); /* prints the synopsis of all forms as mdoc to stdout */
void mf_cli_manual(void);   /* prints verbs and options as mdoc to stdout */

#endif
