/* cli/eval_tasks.h: `moefw eval --tasks`. */
#ifndef MF_CLI_EVAL_TASKS_H
#define MF_CLI_EVAL_TASKS_H

#include "cli/cli.h"
#include "run/session.h"

/* Scores the files of --tasks, separated by commas, and prints a line or an object for each. */
int mf_eval_tasks(const mf_cli *cli, const mf_session *s);

#endif
