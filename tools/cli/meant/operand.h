/* cli/meant/operand.h: suggestions for a user who passes a verb something else than
 * a CONFIG. */
#ifndef MF_CLI_OPERAND_H
#define MF_CLI_OPERAND_H

#include "cli/cli.h"

/* For verbs whose operand is a configuration. Returns MF_OK if the operand may be one, or does
 * not exist (the reader reports that). Returns MF_EUSAGE if the operand is a setting, a text, a
 * folder of texts or a plugin; the message names the command that accepts it. */
int mf_cli_judge_operand(const mf_cli *cli);

/* Writes "; did you mean --set train.lr=1e-3?" for a text KEY=VALUE or SECTION.KEY=VALUE that
 * names a key; "" for others. Returns buf. */
const char *mf_cli_meant_setting(const char *text, char *buf, size_t size);

#endif
