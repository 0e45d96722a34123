/* pretrained/stored.h: which weights of a model folder a run may read from its files. */
#ifndef MF_PRETRAINED_STORED_H
#define MF_PRETRAINED_STORED_H

#include "pretrained/folder.h"
#include "pretrained/match.h"
#include "run/folder/stored_files.h"

/* Maps the shards of a folder, and lists every weight of the ledger whose tensors can be
 * multiplied in place: matrices, not biases, and none whose rows two parameters share. The
 * ledger's places are in `store`, which may be bare. MF_EIO, MF_EINPUT, MF_ENOMEM. The caller
 * frees *ret. */
int mf_stored_of_folder(const mf_folder *folder, const mf_ledger *ledger, const mf_store *store,
                        mf_stored_files **ret);

#endif
