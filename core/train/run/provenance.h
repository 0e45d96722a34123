/* train/run/provenance.h: provenance of a run: versions, kernels, processor, plugins. */
#ifndef MF_TRAIN_PROVENANCE_H
#define MF_TRAIN_PROVENANCE_H

#include "train/checkpoint/checkpoint.h"
#include "train/run/session.h"

/* The provenance of this process, with loaded plugins (routers and experts only if the model
 * has experts). The next call overwrites it. */
const mf_provenance *mf_provenance_now(const mf_model *m);
/* Reads the dimensions of a run's model from its manifest.json. MF_EINPUT. */
int mf_provenance_read_dims(const char *path, mf_model_dims *ret);
/* Reads the names of the run's classes, in order. The caller frees *ret_names with mf_free (one
 * block). NULL if it has no classes. */
int mf_provenance_read_classes(const char *path, const char ***ret_names, int32_t *ret_n);
/* The same for each [task.NAME], in order. The caller frees each .name with mf_free. */
int mf_provenance_read_more_classes(const char *path, mf_names ret[MF_TASKS_MAX]);
/* Writes the manifest.json of a run: provenance, seed, parameters, start time, command. */
int mf_provenance_write(const char *path, mf_session *s);

#endif
