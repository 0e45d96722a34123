/* report/report.h: report.html of one run, or of several runs in the same figures.
 *
 * Reads config.ini, manifest.json, metrics.jsonl and routing_sample.json of each run directory.
 * The page names the files that are missing or damaged and omits their content.
 */
#ifndef MF_REPORT_REPORT_H
#define MF_REPORT_REPORT_H

/* Writes the page of n runs to the file `out`. runs: 1 to 64 run directories; a single one may
 * be the folder of a comparison (report/compare/compare.h). Fails with MF_EINPUT if a run has
 * no readable metrics.jsonl, with MF_EUSAGE if n is out of range. */
int mf_report_write(int n, const char *const *runs, const char *out);

#endif
