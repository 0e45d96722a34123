/* cli/probe/probe_print.h: prints the result of a probe. */
#ifndef MF_CLI_PROBE_PRINT_H
#define MF_CLI_PROBE_PRINT_H

#include "cli/cli.h"
#include "lab/probe/probe.h"
#include "run/session.h"

/* The names of the labels of a report: those of classes; NULL: labels have only numbers. */
const char *const *mf_probe_label_names(const mf_session *s, const mf_probe_report *r);
/* Prints tables, or with --json one object. MF_ENOMEM. */
int mf_probe_print(const mf_cli *cli, const mf_session *s, const mf_probe_report *r,
                   const mf_probe_options *o);

#endif
