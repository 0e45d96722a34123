/* cli/cli_parse.h: the result of parsing. Only those files of cli/ include it that parse or
 * query it. */
#ifndef MF_CLI_PARSE_H
#define MF_CLI_PARSE_H

#include "cli/cli.h"

typedef struct mf_cli_given {
    const mf_cli_option *option;
    const char *text; /* NULL for flags */
    int position;     /* index among the given options, from 1 */
} mf_cli_given;

struct mf_cli {
    const mf_verb *verb; /* NULL: no verb was given */
    const mf_cli_form *form;
    int n_operands, n_given;
    const char **operand; /* operands, without the action */
    mf_cli_given *given;
    bool help, version;
    const char *page; /* moefw help PAGE (cli/meant/page.h); NULL: no page was requested */
};

/* Fills *cli and checks everything that the tables define. The caller frees its arrays with
 * mf_cli_clear, also after a failure. argv is permuted. */
int mf_cli_parse(int argc, char **argv, mf_cli *cli);
/* Whether the word is in a list separated by blanks. */
bool mf_cli_listed(const char *list, const char *word);
void mf_cli_clear(mf_cli *cli);

#endif
