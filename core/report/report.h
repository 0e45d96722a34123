/* report/report.h: report.html of one run, or of several laid over one another.
 *
 * Reads config.ini, manifest.json, metrics.jsonl and routing_sample.json of each run directory.
 * What is missing or damaged is left out and said so on the page.
 */
#ifndef MF_REPORT_REPORT_H
#define MF_REPORT_REPORT_H

/* runs: directories; one alone may be a comparison (report/compare.h). out: the page. MF_EINPUT
 * when a run has no readable metrics. */
int mf_report_write(int n, const char *const *runs, const char *out);

#endif
