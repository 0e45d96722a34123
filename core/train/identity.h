/* train/identity.h: what computed: program, kernels, machine, plugins. */
#ifndef MF_TRAIN_IDENTITY_H
#define MF_TRAIN_IDENTITY_H

#include "train/checkpoint.h"
#include "train/session.h"

/* Of this process, with the plugins that are loaded; a model without experts has neither
 * routers nor experts. Valid for its lifetime; one at a time. */
const mf_identity *mf_identity_now(const mf_model *m);
/* What the run's model was built for, from its manifest.json. MF_EINPUT. */
int mf_identity_read_facts(const char *path, mf_model_facts *ret);
/* Names of its classes, in order; *ret_names, one block, is for mf_free: NULL without
 * classes. */
int mf_identity_read_classes(const char *path, const char ***ret_names, int32_t *ret_n);
/* The same of [task.NAME], in order; each .name is for mf_free. */
int mf_identity_read_more_classes(const char *path, mf_names ret[MF_TASKS_MAX]);
/* manifest.json of a run: identity, seed, parameters, when and with what command it began. */
int mf_identity_write(const char *path, mf_session *s);

#endif
