/* report/export/export.h: writes the measurements of runs in the formats of other tools. An
 * existing target is never changed. A file or folder appears whole or not at all. */
#ifndef MF_REPORT_EXPORT_H
#define MF_REPORT_EXPORT_H

#include <stdbool.h>

/* Writes a CSV table with one line for each line of metrics.jsonl: [run,] step, split, then a
 * column for each number (named as in report/export/flat.h); a cell is empty where the line has
 * no such number. RFC 4180, except that lines end with LF. With several runs, the column run
 * holds the run directory. path NULL: standard output; a file that exists is replaced. Fails
 * as mf_flat_add does. */
int mf_export_csv(int n, const char *const *runs, const char *path);

typedef struct mf_export_mlflow_options {
    const char *store;      /* folder of the file store; created if missing */
    const char *experiment; /* name; created if the store has none */
    bool scalars;           /* true: omit the numbers of single experts and heads */
} mf_export_mlflow_options;
/* Exports a run to MLflow's file store (mlflow.store.tracking.file_store): STORE/EXPERIMENT/RUN
 * with meta.yaml, params (config.ini), metrics (lines of time in ms, value, step; named
 * SPLIT/NUMBER) and tags (manifest.json). The run's id is a hash of its manifest.json and
 * config.ini. Fails with MF_EUSAGE if the experiment already contains the run; as
 * mf_mlflow_experiment does (for example if STORE is a file, or contains files but no
 * experiment of MLflow); with MF_EINPUT if config.ini, manifest.json or metrics.jsonl is
 * missing or damaged. *ret_path: the run's folder in the store, to be freed with mf_free. */
int mf_export_mlflow(const char *run, const mf_export_mlflow_options *options, char **ret_path);

#endif
