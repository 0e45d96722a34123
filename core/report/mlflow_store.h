/* report/mlflow_store.h: the folders and small files of MLflow's file store (what `mlflow ui
 * --backend-store-uri STORE` shows): which experiments there are, and how names and meta.yaml
 * are written.
 */
#ifndef MF_REPORT_MLFLOW_STORE_H
#define MF_REPORT_MLFLOW_STORE_H

#include <stdint.h>

#include "base/mem.h"
#include "report/doc.h"

enum { MF_MLFLOW_ID = 24 };

/* The experiment of that name in a store: its id, and whether it is there; else an id that is
 * free. MF_EUSAGE: store is a file, or a folder with other things in it; a name that MLflow
 * would not take, or that of an experiment which was deleted there. */
int mf_mlflow_experiment(const char *store, const char *name, char ret_id[MF_MLFLOW_ID],
                         bool *ret_there);

/* FOLDER/NAME with that text, of a name that MLflow takes: other bytes than letters, digits, _
 * - . and blank become _. The folder is there, the file is not. */
int mf_mlflow_put(const char *folder, const char *name, const char *text, size_t n);

/* FOLDER/meta.yaml. Values are written as text, in quotes. */
typedef struct mf_mlflow_field {
    const char *key, *text; /* text NULL: number */
    int64_t number;
} mf_mlflow_field;
int mf_mlflow_meta(const char *folder, int n, const mf_mlflow_field *fields);

/* file:// and the absolute path of something in an absolute folder. */
void mf_mlflow_uri(mf_doc *d, const char *path);

#endif
