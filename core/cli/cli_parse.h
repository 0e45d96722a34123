/* cli/cli_parse.h: inside the command line: what parsing leaves behind. */
#ifndef MF_CLI_PARSE_H
#define MF_CLI_PARSE_H

#include "cli/cli.h"

typedef struct mf_cli_given {
    const mf_cli_option *option;
    const char *text; /* NULL for flags */
    int position;     /* counts options from 1 */
} mf_cli_given;

struct mf_cli {
    const mf_verb *verb;      /* NULL: none was named */
    const mf_cli_form *form;
    int n_operands, n_given;
    const char **operand;     /* the action taken off */
    mf_cli_given *given;
    bool help, version;
};

/* Fills *cli; its arrays are to be freed with mf_cli_clear, also after a failure. argv is
 * permuted. Judges everything that the tables say. */
int mf_cli_parse(int argc, char **argv, mf_cli *cli);
void mf_cli_clear(mf_cli *cli);

#endif
