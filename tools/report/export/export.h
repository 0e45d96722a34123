/* report/export/export.h: writes the measurements of runs in the formats of other tools. A file
 * or folder is written completely or not at all. */
#ifndef MF_REPORT_EXPORT_H
#define MF_REPORT_EXPORT_H

#include <stdbool.h>

/* Writes a CSV table with one line for each line of metrics.jsonl. Its columns are [run,] step,
 * split, and a column for each number (named as in report/export/flat.h). A cell is empty if
 * the line has no such number. The format is RFC 4180, except that lines end with LF. With
 * several runs, the column run contains the run directory. path NULL: standard output. A file
 * that exists is replaced. Fails like mf_flat_add. */
int mf_export_csv(int n, const char *const *runs, const char *path);

typedef struct mf_export_mlflow_options {
    const char *store;      /* folder of the file store; created if missing */
    const char *experiment; /* name of the experiment; created if the store has no experiment of
                             * this name */
    bool scalars;           /* omit the numbers of single experts and heads */
} mf_export_mlflow_options;
/* Exports a run to MLflow's file store (mlflow.store.tracking.file_store). It writes
 * STORE/EXPERIMENT/RUN with meta.yaml, params (config.ini), metrics (lines of time in ms,
 * value, step; named SPLIT/NUMBER) and tags (manifest.json). The run's id is a hash of its
 * manifest.json and config.ini. *ret_path: the run's folder in the store, to be freed
 * with mf_free.
 *
 * Fails with MF_EUSAGE if the experiment already contains the run; like mf_mlflow_experiment
 * (for example if STORE is a file, or contains files but no experiment of MLflow); with
 * MF_EINPUT if config.ini, manifest.json or metrics.jsonl is missing or damaged. */
int mf_export_mlflow(const char *run, const mf_export_mlflow_options *options, char **ret_path);

#endif
