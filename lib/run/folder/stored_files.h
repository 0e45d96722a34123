/* run/folder/stored_files.h: weights of a run that stay in files which the run does not own:
 * the shards of the model folder that it was imported from.
 *
 * RUN/stored.json lists the files with size, time of last change and XXH3-128, and the weights
 * with the file and offset of each part. A file that is below the directory that holds the run
 * is looked for there first, so both may be moved together. Opening a run maps the files. One
 * of another size, or with another time and another checksum, is refused. The run's checkpoints
 * hold the parameters that the list lacks. */
#ifndef MF_RUN_STORED_FILES_H
#define MF_RUN_STORED_FILES_H

#include "graph/store/param.h"
#include "kernels/kernel.h"

#define MF_STORED_FILES "stored.json"

typedef struct mf_stored_files mf_stored_files;

/* An empty list; NULL without memory. */
mf_stored_files *mf_stored_files_new(void);
void mf_stored_files_free(mf_stored_files *f); /* unmaps the files; f may be NULL */

/* Maps a file and computes its checksum. *ret: its number. MF_EIO, MF_EINPUT, MF_ENOMEM. */
int mf_stored_files_add(mf_stored_files *f, const char *path, int *ret);
/* The bytes from offset on of a file; NULL if they are not all within it, or if their address
 * is no multiple of `align`. */
const void *mf_stored_files_at(const mf_stored_files *f, int file, uint64_t offset,
                               uint64_t bytes, size_t align);
/* The path of the file with this name, its last part; NULL: there is none. */
const char *mf_stored_files_path(const mf_stored_files *f, const char *name);
/* Adds a weight, whose parts point into mapped files; it is copied. MF_EINPUT if parts do not
 * fit, with the name; MF_ENOMEM. */
int mf_stored_files_put(mf_stored_files *f, const char *name, const mf_stored *w);

/* Reads a list and maps its files. MF_EINPUT with the file named that is missing or has
 * changed, or what is wrong with the list; MF_EIO, MF_ENOMEM. */
int mf_stored_files_read(const char *path, mf_stored_files **ret);
/* Reads every byte of the files of a list, which may be missing, and compares their checksums:
 * opening a run trusts a file that has its size and time of change. *ret_bytes: how many.
 * Errors as mf_stored_files_read. */
int mf_stored_files_verify(const char *path, uint64_t *ret_bytes);
/* Writes the weights to which parameters of the store are bound. MF_EIO, MF_ENOMEM. */
int mf_stored_files_write(const mf_stored_files *f, const mf_store *store, const char *path);

/* Before sealing: binds all parameters of these names, or only the frozen ones, except those
 * whose names contain `but` (NULL: none). MF_EINPUT if the shape of a weight is not that of
 * its parameter. */
int mf_stored_files_bind(const mf_stored_files *f, mf_store *store, bool frozen_only,
                         const char *but);
/* Bytes of the weights to which parameters of the store are bound. */
uint64_t mf_stored_files_bytes(const mf_stored_files *f, const mf_store *store);
/* The types of these weights as a text, "BF16, F32", most bytes first; out has the size. */
void mf_stored_files_types(const mf_stored_files *f, const mf_store *store, char *out,
                           size_t size);
/* After sealing: sets the values of those that were not bound, and marks them (`given`). */
int mf_stored_files_fill(const mf_stored_files *f, mf_store *store);

#endif
