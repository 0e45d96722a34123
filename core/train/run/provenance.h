/* train/run/provenance.h: who made a run: versions, kernels, processor, plugins. */
#ifndef MF_TRAIN_IDENTITY_H
#define MF_TRAIN_IDENTITY_H

#include "train/checkpoint/checkpoint.h"
#include "train/run/session.h"

/* The provenance of this process, with the loaded plugins (routers and experts only if the
 * model has experts). Valid until the process ends; one at a time. */
const mf_provenance *mf_provenance_now(const mf_model *m);
/* The dimensions of the run's model, from its manifest.json. MF_EINPUT. */
int mf_provenance_read_dims(const char *path, mf_model_dims *ret);
/* The names of its classes, in order; the caller frees *ret_names, one block, with mf_free.
 * NULL without classes. */
int mf_provenance_read_classes(const char *path, const char ***ret_names, int32_t *ret_n);
/* The same for each [task.NAME], in order; the caller frees each .name with mf_free. */
int mf_provenance_read_more_classes(const char *path, mf_names ret[MF_TASKS_MAX]);
/* Writes manifest.json of a run: provenance, seed, parameters, start time and command. */
int mf_provenance_write(const char *path, mf_session *s);

#endif
