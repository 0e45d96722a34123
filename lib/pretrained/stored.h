/* pretrained/stored.h: the weights of a model folder that a run can read directly from
 * its files. */
#ifndef MF_PRETRAINED_STORED_H
#define MF_PRETRAINED_STORED_H

#include "pretrained/folder.h"
#include "pretrained/match.h"
#include "run/folder/stored_files.h"

/* Maps the shards of a folder, and lists every weight of the ledger whose tensors gemms can
 * read in place. These are matrices, not biases, and no matrix whose rows belong to two
 * parameters. The ledger's places are in `store`, which may be bare. MF_EIO, MF_EINPUT,
 * MF_ENOMEM. The caller frees *ret. */
int mf_stored_of_folder(const mf_folder *folder, const mf_ledger *ledger, const mf_store *store,
                        mf_stored_files **ret);

#endif
