/* report/export.h: what a run measured, in the forms that other tools read. What stands at the
 * target is never changed; what is written is whole or not there. */
#ifndef MF_REPORT_EXPORT_H
#define MF_REPORT_EXPORT_H

#include <stdbool.h>

/* One row for each line of metrics.jsonl: [run,] step, split, and a column for each number
 * (report/flat.h), empty where the line has none. RFC 4180, with line feeds. Several runs:
 * their folders are in the column run. path NULL: to stdout. MF_EUSAGE: path is there. */
int mf_export_csv(int n, const char *const *runs, const char *path);

typedef struct mf_export_mlflow_options {
    const char *store;      /* folder of the file store: made, or one that is */
    const char *experiment; /* its name: taken if the store has it, else made */
    bool scalars;           /* leave out numbers by expert and by head */
} mf_export_mlflow_options;
/* The layout of MLflow's file store (mlflow.store.tracking.file_store): STORE/EXPERIMENT/RUN
 * with meta.yaml, params (config.ini), metrics (time in ms, value, step; named SPLIT/NUMBER)
 * and tags (manifest.json). A run has an id made of its folder's files, so that exporting it
 * twice is noticed: MF_EUSAGE, as for a folder with other things in it. *ret_path (mf_free):
 * the run in the store. */
int mf_export_mlflow(const char *run, const mf_export_mlflow_options *options, char **ret_path);

#endif
