/* report/compare.h: report.html of a comparison of routers.
 *
 * Reads comparison.json of the folder that `moefw compare` wrote, and the runs below it.
 */
#ifndef MF_REPORT_COMPARE_H
#define MF_REPORT_COMPARE_H

#include <stdbool.h>

bool mf_report_is_comparison(const char *folder);
/* MF_EINPUT when comparison.json cannot be read. Runs that are missing are left out. */
int mf_report_comparison(const char *folder, const char *out);

#endif
