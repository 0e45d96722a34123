/* run/folder/provenance.h: provenance of a run: versions, kernels, processor, plugins. */
#ifndef MF_RUN_PROVENANCE_H
#define MF_RUN_PROVENANCE_H

#include "run/checkpoint/checkpoint.h"
#include "run/session.h"

enum { MF_PROVENANCE_ID = 33 }; /* size in bytes of the name of a run, or of its data */

/* Returns the provenance of this process, with the plugins that the model uses. The result
 * belongs to the calling thread, and the next call on this thread overwrites it. */
const mf_provenance *mf_provenance_now(const mf_model *m);
/* The same as mf_provenance_now, with the names of the run and of its data, if they
 * are known. */
const mf_provenance *mf_provenance_of(const mf_session *s);
/* Names the data of the session by their sums (run/folder/data_sums.h), if they have no
 * name yet. */
void mf_provenance_name_data(mf_session *s);
/* Names a new run and its data. The name is the XXH3-128 of the time, of the run's config.ini
 * and of the file of its initial weights. */
int mf_provenance_name(mf_session *s, const char *config, const char *weights);
/* Reads the name of a run from its manifest.json. The name is "" if an earlier version began
 * the run or if there is no manifest; *ret_found says whether there is a manifest. MF_EINPUT:
 * not JSON. */
int mf_provenance_read_id(const char *path, char ret[MF_PROVENANCE_ID], bool *ret_found);
/* Reads the name of a run that is resumed into the session; a missing manifest is logged. Also
 * names the data of the session. */
int mf_provenance_recall(mf_session *s, const char *path);
/* Reads the dimensions of a run's model from its manifest.json: vocabulary, labels and numbers
 * of classes; the others become 0. MF_EINPUT if one is missing or wrong. */
int mf_provenance_read_dims(const char *path, mf_model_dims *ret);
/* Reads the names of the run's classes, in order. The caller frees *ret_names with mf_free (one
 * block). NULL if the manifest names no classes. */
int mf_provenance_read_classes(const char *path, const char ***ret_names, int32_t *ret_n);
/* The same for the names of the labels of tokens (data.labels). */
int mf_provenance_read_labels(const char *path, const char ***ret_names, int32_t *ret_n);
/* Reads the names of the classes of each [task.NAME], in order. The caller frees each .name
 * with mf_free. */
int mf_provenance_read_more_classes(const char *path, mf_names ret[MF_TASKS_MAX]);
/* Writes the manifest.json of a run: provenance, start time, seed, steps, numbers of
 * parameters, dimensions, tasks with names of classes, the entropy floor if it is known, sums
 * of the files beside it, and the text of config.ini. The files beside it must be
 * written first. */
int mf_provenance_write(const char *path, mf_session *s, const char *config);

#endif
