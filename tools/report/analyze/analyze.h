/* report/analyze/analyze.h: the page of `moefw analyze`: loads, pairs of experts, saturation,
 * what decides the experts, and the text coloured by expert. */
#ifndef MF_REPORT_ANALYZE_H
#define MF_REPORT_ANALYZE_H

#include "lab/analyze/analysis.h"

/* Writes the page to the file `out`. command: the command that makes it. MF_ENOMEM, or the
 * reason why the file cannot be written. */
int mf_report_analysis(const mf_analysis *a, const char *command, const char *out);

#endif
