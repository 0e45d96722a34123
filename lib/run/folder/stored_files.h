/* run/folder/stored_files.h: weights of a run that stay in files which the run does not own.
 * They are the shards of the model folder from which the run was imported.
 *
 * RUN/stored.json lists the files with size, time of last change and XXH3-128, and the weights
 * with the file and offset of each part. A file below the directory that contains the run is
 * searched there first, so both may be moved together. Opening a run maps the files. A file is
 * refused if it has another size, or another time and another checksum. The run's checkpoints
 * contain the parameters that are not in the list. */
#ifndef MF_RUN_STORED_FILES_H
#define MF_RUN_STORED_FILES_H

#include "graph/store/param.h"
#include "kernels/kernel.h"

#define MF_STORED_FILES "stored.json"

typedef struct mf_stored_files mf_stored_files;

/* Returns an empty list; NULL if there is not enough memory. */
mf_stored_files *mf_stored_files_new(void);
void mf_stored_files_free(mf_stored_files *f); /* Frees the list and unmaps the files; f may
                                                * be NULL. */

/* Maps a file and computes its checksum. *ret: index of the file. MF_EIO,
 * MF_EINPUT, MF_ENOMEM. */
int mf_stored_files_add(mf_stored_files *f, const char *path, int *ret);
/* Returns the address of `offset` in a file; NULL if the bytes are not all within the file, or
 * if their address is not a multiple of `align`. */
const void *mf_stored_files_at(const mf_stored_files *f, int file, uint64_t offset,
                               uint64_t bytes, size_t align);
/* Returns the path whose last part is this name; NULL: there is none. */
const char *mf_stored_files_path(const mf_stored_files *f, const char *name);
/* Adds a weight, which is copied. Its parts point into mapped files. MF_EINPUT, with the name,
 * if the parts do not fit; MF_ENOMEM. */
int mf_stored_files_put(mf_stored_files *f, const char *name, const mf_stored *w);

/* Reads a list and maps its files. MF_EINPUT: a file, which the message names, is missing or
 * has changed, or the list is wrong; MF_EIO, MF_ENOMEM. */
int mf_stored_files_read(const char *path, mf_stored_files **ret);
/* Reads every byte of the files of a list, which may be missing, and compares their checksums.
 * Opening a run does not do this for a file with the recorded size and time of change.
 * *ret_bytes: number of bytes read. Errors as in mf_stored_files_read. */
int mf_stored_files_verify(const char *path, uint64_t *ret_bytes);
/* Writes the weights to which parameters of the store are bound. MF_EIO, MF_ENOMEM. */
int mf_stored_files_write(const mf_stored_files *f, const mf_store *store, const char *path);

/* Before the store is sealed: binds all parameters with the names of weights, or only the
 * frozen parameters, except those whose names contain `but` (NULL: none). MF_EINPUT if the
 * shape of a weight differs from the shape of its parameter. */
int mf_stored_files_bind(const mf_stored_files *f, mf_store *store, bool frozen_only,
                         const char *but);
/* Bytes of the weights to which parameters of the store are bound. */
uint64_t mf_stored_files_bytes(const mf_stored_files *f, const mf_store *store);
/* Writes the types of the bound weights as a text, "BF16, F32", the type with the most bytes
 * first. size: size of out in bytes. */
void mf_stored_files_types(const mf_stored_files *f, const mf_store *store, char *out,
                           size_t size);
/* After the store is sealed: sets the values of parameters that were not bound, and marks these
 * parameters as `given`. */
int mf_stored_files_fill(const mf_stored_files *f, mf_store *store);

#endif
