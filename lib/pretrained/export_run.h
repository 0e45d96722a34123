/* pretrained/export_run.h: a run opened for writing its weights in another form: an imported
 * run, a run trained from it, or any run whose model a published form can express. */
#ifndef MF_PRETRAINED_EXPORT_RUN_H
#define MF_PRETRAINED_EXPORT_RUN_H

#include "pretrained/import.h"
#include "pretrained/record.h"
#include "run/session.h"

/* Parameters that are bound to stored weights and at present have a copy in f32. */
typedef struct mf_export_copies mf_export_copies;

typedef struct mf_export_run {
    mf_session *session; /* the model whose weights are written */
    mf_record *record;   /* the record, matched with the model's parameters */
    mf_st_file *skipped; /* file of the tensors that no parameter holds; NULL: there are none */
    mf_st_file **shards; /* [record->n_shards] files of the folder; NULL: not needed */
    mf_export_copies *copies;
} mf_export_run;

/* Opens a run and checks that a family can express its model, as mf_export_hf says. If the
 * adapters are MERGED, changes of the plugin lora are added to the weights in memory.
 * MF_EINPUT, with the setting, section or tensor named; errors of mf_load_run_as. The caller
 * closes *ret, also after an error. */
int mf_export_open(const char *run, const mf_export_options *options, mf_export_run *ret);
/* The same for a run that was imported, or trained from an imported run. stay: weights may stay
 * in their files. Otherwise they are read to f32, so that they can be changed. */
int mf_export_open_values(const char *run, bool stay, mf_export_run *ret);
void mf_export_close(mf_export_run *x);

/* Returns the values of a place for the functions of weights/values.h. Weights that stay in
 * files are copied to f32. Only the last few parameters have such copies at the same time, so
 * results of earlier calls become invalid. MF_ENOMEM. */
int mf_export_values(const mf_export_run *x, const mf_place *place, float *values[2]);
/* Finds the tensor with the name, type and shape of t in x->skipped or the folder's files: a
 * tensor that no parameter holds in this form, or whose parameter stays in these files.
 * MF_EINPUT: no file contains the tensor. */
int mf_export_find(const mf_export_run *x, const mf_st_tensor *t, const mf_st_file **ret_file,
                   const mf_st_tensor **ret);
/* Appends such a tensor to a file that is being written. */
int mf_export_copy(const mf_export_run *x, const mf_st_tensor *t, mf_st_writer *out);
/* Returns the stored tensors of a weight of four bits. MF_EINPUT: one of them is missing. */
int mf_export_packed(const mf_export_run *x, const mf_place *place, mf_source *ret);
/* Whether a weight of four bits still has the values of its stored tensors.
 * MF_EINPUT, MF_ENOMEM. */
int mf_export_unchanged(const mf_export_run *x, const mf_place *place, bool *ret_same);

#endif
