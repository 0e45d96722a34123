/* cli/cli.h: verbs, their options, and all that is made from the one table of them.
 *
 * A verb is one file core/cli/verb_NAME.c that exports `const mf_verb mf_verb_NAME` and has one
 * line in verbs.c. Its tables are the only list of what it takes: they drive the parser,
 * --help, the manual page and shell completion. A verb that does not work yet has no line
 * there.
 *
 *     static const mf_cli_option options[] = {
 *         {.name = "out", .arg = "DIR", .kind = MF_CLI_TEXT, .help = "where it is written"},
 *         {.name = "steps", .arg = "N", .kind = MF_CLI_INT, .lo = 0, .hi = 1e12,
 *          .help = "optimizer steps", .set = "train.steps"},
 *         {.name = "resume", .kind = MF_CLI_FLAG, .help = "go on from the last checkpoint"},
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
 * run returns MF_OK or a status with its message recorded; main prints it, once, and exits with
 * mf_status_exit. A verb whose output has told already clears the message (mf_error_clear).
 * Results go to stdout, everything else to stderr through base/log.h.
 */
#ifndef MF_CLI_CLI_H
#define MF_CLI_CLI_H

#include "base/error.h"
#include "base/mem.h"
#include "model/config.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mf_cli_kind {
    MF_CLI_FLAG, /* no argument */
    MF_CLI_TEXT,
    MF_CLI_INT,  /* strict, takes the suffixes k, M, G; bounds enforced */
    MF_CLI_REAL,
    MF_CLI_ENUM  /* one of choices */
} mf_cli_kind;

typedef struct mf_cli_option {
    const char *name;           /* long name; NULL ends a table */
    const char *also;           /* a second long name, as other programs call it; NULL: none */
    int letter;                 /* short name, 0: none */
    mf_cli_kind kind;
    const char *arg;            /* what help calls the argument. Completion knows FILE, DIR,
                                   RUN, PRESET, PLUGIN */
    const char *help;           /* one line, lower case, no full stop */
    double lo, hi;              /* numbers, inclusive */
    const char *const *choices; /* MF_CLI_ENUM: NULL-terminated */
    const char *set;            /* "train.steps": also counts as --set train.steps=ARGUMENT */
    const char *of; /* actions that take it, parted by blanks; NULL: all of the verb */
} mf_cli_option;
#define MF_CLI_END {.name = NULL}
/* Of verbs that take a configuration: its data are files of the user. of_: as in
 * mf_cli_option. */
#define MF_CLI_DATA_FILES_OF(of_)                                                              \
    {.name = "data", .of = of_, .kind = MF_CLI_TEXT, .arg = "FILE", .set = "data.path",        \
     .also = "train-file", .help = "text to train on, or builtin:topics"},                     \
    {.name = "val-file", .of = of_, .kind = MF_CLI_TEXT, .arg = "FILE",                        \
     .set = "data.val_path", .help = "text to validate on, instead of a part of the other"},   \
    {.name = "vocab-file", .of = of_, .kind = MF_CLI_TEXT, .arg = "FILE",                      \
     .set = "data.tokenizer",                                                                 \
     .help = "the tokenizer, as moefw tokenize, BERT or LaMoE write it"}
#define MF_CLI_DATA_FILES MF_CLI_DATA_FILES_OF(NULL)

/* One way to call a verb: an optional action word, then operands. */
typedef struct mf_cli_form {
    const char *action;   /* "list"; NULL: the verb has no actions */
    const char *operands; /* for the synopsis: "RUN...", "[CONFIG|PRESET]"; NULL: none */
    int min, max;         /* how many operands; max -1: any number; min -1 ends a table */
    const char *help;     /* one line; NULL with an action: works, but is not shown */
} mf_cli_form;
#define MF_CLI_FORM_END {NULL, NULL, -1, 0, NULL}

typedef struct mf_cli mf_cli;

typedef struct mf_verb {
    const char *name, *brief;
    const mf_cli_form *forms;     /* ends with MF_CLI_FORM_END */
    const mf_cli_option *options; /* ends with MF_CLI_END; NULL: none of its own */
    int (*run)(const mf_cli *cli);
    const char *notes; /* more lines for --help, NULL: none */
    bool computes;     /* uses all threads for long */
} mf_verb;

/* All verbs, NULL-terminated, in the order of the manual. */
extern const mf_verb *const mf_verbs[];
/* The options that every verb takes; they may stand before or after the verb. */
extern const mf_cli_option mf_cli_globals[];

/* ---- what a verb asks; option names without dashes, its own or global ---- */
const mf_verb *mf_cli_verb(const mf_cli *cli);
const char *mf_cli_action(const mf_cli *cli);         /* NULL when the verb has none */
int mf_cli_operands(const mf_cli *cli);               /* the action not counted */
const char *mf_cli_operand(const mf_cli *cli, int i); /* NULL past the end */
/* How often the option was given; the i-th argument in order. The others: the last given. */
int mf_cli_count(const mf_cli *cli, const char *option);
const char *mf_cli_nth(const mf_cli *cli, const char *option, int i);
bool mf_cli_flag(const mf_cli *cli, const char *option);
const char *mf_cli_text(const mf_cli *cli, const char *option, const char *absent);
int64_t mf_cli_int(const mf_cli *cli, const char *option, int64_t absent);
double mf_cli_real(const mf_cli *cli, const char *option, double absent);
int mf_cli_enum(const mf_cli *cli, const char *option, int absent);
bool mf_cli_json(const mf_cli *cli);  /* --json: objects on stdout, one a line, and nothing
                                         else */
bool mf_cli_quiet(const mf_cli *cli); /* -q */
/* The name of what was made, on a line of its own; with --json {"KEY": "NAME"}. */
int mf_cli_put_name(const mf_cli *cli, const char *key, const char *name);
/* MF_EUSAGE with --json, for what is text of another kind: "DOT". */
int mf_cli_no_json(const mf_cli *cli, const char *kind);

/* The configuration that the command line asks for: config (file, preset, or NULL for the
 * default preset), with --plugin, --set and every option that has `set` laid over it. Also sets
 * the number of threads. */
int mf_cli_config(const mf_cli *cli, const char *config, mf_config **ret);
/* The same, with every fault told to the sink: see mf_config_load_from. */
int mf_cli_config_told(const mf_cli *cli, const char *config, const mf_problem_sink *sink,
                       mf_config **ret);

/* The values of --plugin, --set and the options that have `set`, in their order. */
int mf_cli_assignments(const mf_cli *cli, mf_arena *arena, mf_assignment **ret, int *ret_n);
/* A run brings the configuration that it was trained with: warns of each --set, --plugin and
 * other data, which are passed over. */
void mf_cli_run_stays(const mf_cli *cli, const char *run);

/* ---- main's part ---- */
/* Parses and runs. *ret_verb is set as soon as it is known. --help and --version are handled
 * here. Errors: MF_EUSAGE, naming the word and the nearest valid one; else what the verb
 * says. */
int mf_cli_run(int argc, char **argv);

/* ---- made from the tables ---- */
void mf_cli_help(const mf_verb *verb); /* to stdout; NULL: the program */
int mf_cli_complete(const char *shell); /* completion script to stdout: bash, zsh, fish */
void mf_cli_synopsis(void);            /* mdoc of all forms, to stdout */
void mf_cli_manual(void);              /* mdoc of verbs and options */

#endif
