/* report/compare/compare.h: report.html of a comparison of routers.
 *
 * Reads comparison.json of the folder that `moefw compare` wrote, and the runs below it.
 */
#ifndef MF_REPORT_COMPARE_H
#define MF_REPORT_COMPARE_H

#include <stdbool.h>

bool mf_report_is_comparison(const char *folder);
/* Writes the page of the comparison in `folder` to the file `out`. Runs that are missing are
 * skipped. Fails with MF_EINPUT if comparison.json cannot be read. */
int mf_report_comparison(const char *folder, const char *out);

#endif
