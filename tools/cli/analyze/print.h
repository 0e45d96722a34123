/* cli/analyze/print.h: the figures of moefw analyze as text and as JSON. */
#ifndef MF_CLI_ANALYZE_PRINT_H
#define MF_CLI_ANALYZE_PRINT_H

#include "lab/analyze/analysis.h"

/* Prints a table of the layers, and what limits its figures. MF_ENOMEM. */
int mf_analyze_print(const mf_analysis *a);
/* Prints all figures as one JSON object; numbers that are not known are null. MF_ENOMEM. */
int mf_analyze_print_json(const mf_analysis *a);

#endif
