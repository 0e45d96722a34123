/* report/report.h: report.html of one run, or of several runs in the same figures.
 *
 * Reads the files of each run directory: config.ini, manifest.json, metrics.jsonl,
 * memory.jsonl, routing_sample.json, samples/, weights.json and the newest checkpoint. Only
 * metrics.jsonl is required. The content of other files that are missing or damaged is omitted.
 * The page names damaged files, and config.ini and manifest.json also if they are missing. */
#ifndef MF_REPORT_REPORT_H
#define MF_REPORT_REPORT_H

/* Writes the page of n runs to the file `out`. runs: 1 to 64 run directories. A single
 * directory may be the folder of a comparison (report/compare/compare.h). Fails with MF_EINPUT
 * if a run has no metrics.jsonl, or no record in it, with MF_EUSAGE if n is out of range, with
 * MF_ENOMEM, or if `out` cannot be written. */
int mf_report_write(int n, const char *const *runs, const char *out);
/* The same for a run that is still training: browsers reload the page every
 * `refresh` seconds. */
int mf_report_write_live(int n, const char *const *runs, const char *out, int refresh);

#endif
