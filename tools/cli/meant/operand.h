/* cli/meant/operand.h: suggestions for a user who gives a verb another word than a CONFIG. */
#ifndef MF_CLI_OPERAND_H
#define MF_CLI_OPERAND_H

#include "cli/cli.h"

/* For verbs whose operand is a configuration: MF_OK if it may be one (or does not exist, which
 * is reported when it is read); MF_EUSAGE if it is a setting, a text, a folder of texts or a
 * plugin, with the command that takes it. */
int mf_cli_judge_operand(const mf_cli *cli);

/* Writes "; did you mean --set train.lr=1e-3?" for a text KEY=VALUE or SECTION.KEY=VALUE that
 * names a key; "" for others. Returns buf. */
const char *mf_cli_meant_setting(const char *text, char *buf, size_t size);

#endif
