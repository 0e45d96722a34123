/* pretrained/export_run.h: an imported run, or one trained from it, opened for writing its
 * weights in another form. */
#ifndef MF_PRETRAINED_EXPORT_RUN_H
#define MF_PRETRAINED_EXPORT_RUN_H

#include "pretrained/import.h"
#include "pretrained/record.h"
#include "run/session.h"

/* Parameters that are bound to stored weights and have a copy in f32 now. */
typedef struct mf_export_copies mf_export_copies;

typedef struct mf_export_run {
    mf_session *session; /* the model; its weights are those to write */
    mf_record *record;   /* matched with the model's parameters */
    mf_st_file *skipped; /* tensors that no parameter holds; NULL: there are none */
    mf_st_file **shards; /* [record->n_shards], files of the folder; NULL: not needed */
    mf_export_copies *copies;
} mf_export_run;

/* Opens a run and checks that the family can express its model. MERGED: changes of the plugin
 * lora are added to the weights in memory. MF_EINPUT, with the setting, section or tensor
 * named; errors of mf_load_run_as. The caller closes *ret, also after an error. */
int mf_export_open(const char *run, mf_export_adapters adapters, mf_export_run *ret);
/* As mf_export_open with MERGED, and reads all weights to f32, so that they can be changed. */
int mf_export_open_values(const char *run, mf_export_run *ret);
void mf_export_close(mf_export_run *x);

/* The values of a place for the functions of weights/values.h. Weights that stay in files are
 * copied to f32, and only the last few parameters have such copies at the same time: views of
 * earlier calls end. MF_ENOMEM. */
int mf_export_values(const mf_export_run *x, const mf_place *place, float *values[2]);
/* Appends the tensor with the name, type and shape of t, which no parameter holds as it is, to
 * a file that is being written: from x->skipped or from the folder's files. MF_EINPUT: no
 * file has it. */
int mf_export_copy(const mf_export_run *x, const mf_st_tensor *t, mf_st_writer *out);
/* The stored tensors of a weight of four bits. MF_EINPUT: one is missing. */
int mf_export_packed(const mf_export_run *x, const mf_place *place, mf_source *ret);
/* Whether a weight of four bits still has the values that its tensors say. MF_EINPUT,
 * MF_ENOMEM. */
int mf_export_unchanged(const mf_export_run *x, const mf_place *place, bool *ret_same);

#endif
