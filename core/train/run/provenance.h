/* train/run/provenance.h: provenance of a run: versions, kernels, processor, plugins. */
#ifndef MF_TRAIN_PROVENANCE_H
#define MF_TRAIN_PROVENANCE_H

#include "train/checkpoint/checkpoint.h"
#include "train/run/session.h"

/* The provenance of this process, with the plugins that the model uses. It belongs to the
 * calling thread, whose next call overwrites it. */
const mf_provenance *mf_provenance_now(const mf_model *m);
/* Reads the dimensions of a run's model from its manifest.json: vocabulary, labels and numbers
 * of classes; the others become 0. MF_EINPUT if one is missing or wrong. */
int mf_provenance_read_dims(const char *path, mf_model_dims *ret);
/* Reads the names of the run's classes, in order. The caller frees *ret_names with mf_free (one
 * block). NULL if the manifest names no classes. */
int mf_provenance_read_classes(const char *path, const char ***ret_names, int32_t *ret_n);
/* Reads the names of the classes of each [task.NAME], in order. The caller frees each .name
 * with mf_free. */
int mf_provenance_read_more_classes(const char *path, mf_names ret[MF_TASKS_MAX]);
/* Writes the manifest.json of a run: provenance, start time, seed, steps, numbers of
 * parameters, dimensions, tasks with names of classes, and the entropy floor if it is known. */
int mf_provenance_write(const char *path, mf_session *s);

#endif
