/* report/compare/probe.h: the page of `moefw probe`: the change of the loss for each change of
 * routing, with intervals, layer by layer and by label. */
#ifndef MF_REPORT_PROBE_H
#define MF_REPORT_PROBE_H

#include "lab/probe/probe.h"

/* Writes the page to the file `out`. run: the run that was probed; command: the command that
 * repeats the probe; label: names of labels, or NULL for their numbers. Fails with MF_ENOMEM,
 * or with the reason why the file cannot be written. */
int mf_report_probe(const mf_model *m, const mf_probe_report *r, const mf_probe_options *o,
                    const char *run, const char *command, const char *const *label,
                    const char *out);

#endif
