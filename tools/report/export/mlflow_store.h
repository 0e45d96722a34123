/* report/export/mlflow_store.h: folders and small files of MLflow's file store (shown by
 * `mlflow ui --backend-store-uri STORE`): finds experiments, and writes names and meta.yaml. */
#ifndef MF_REPORT_MLFLOW_STORE_H
#define MF_REPORT_MLFLOW_STORE_H

#include <stdint.h>

#include "base/mem.h"
#include "report/page/doc.h"

enum { MF_MLFLOW_ID = 24 };

/* Finds the id of the experiment with that name. If it does not exist, *ret_there is false, and
 * the id is an unused one. Fails with MF_EUSAGE if store is a file or contains files but no
 * experiment, if the name is empty, too long or contains control characters, or if an
 * experiment with that name was deleted. */
int mf_mlflow_experiment(const char *store, const char *name, char ret_id[MF_MLFLOW_ID],
                         bool *ret_there);

/* Writes FOLDER/NAME with the text of n bytes. Bytes of the name other than letters, digits,
 * blank, '_', '-' and '.' become '_', as MLflow requires. The folder must exist; the file must
 * not exist. Fails with MF_EINPUT if the name is too long. */
int mf_mlflow_put(const char *folder, const char *name, const char *text, size_t n);

/* A line of meta.yaml. mf_mlflow_meta writes FOLDER/meta.yaml with these lines; texts
 * are quoted. */
typedef struct mf_mlflow_field {
    const char *key, *text; /* text NULL: the value is number */
    int64_t number;
} mf_mlflow_field;
int mf_mlflow_meta(const char *folder, int n, const mf_mlflow_field *fields);

/* Appends file:// and the percent-encoded path, which must be absolute. */
void mf_mlflow_uri(mf_doc *d, const char *path);

#endif
