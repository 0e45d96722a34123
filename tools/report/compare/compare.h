/* report/compare/compare.h: report.html of a comparison of routers.
 *
 * Reads comparison.json of the folder that `moefw compare` wrote, plan.json if there is one,
 * and the runs below it. */
#ifndef MF_REPORT_COMPARE_H
#define MF_REPORT_COMPARE_H

#include <stdbool.h>

/* Whether the folder contains comparison.json. */
bool mf_report_is_comparison(const char *folder);
/* Writes the page of the comparison in `folder` to the file `out`. Runs that are missing are
 * skipped. Fails with the error of mf_read_file if comparison.json cannot be read, with
 * MF_EINPUT if it is not JSON or has no rows, with MF_ENOMEM, or if `out` cannot be written. */
int mf_report_comparison(const char *folder, const char *out);

#endif
