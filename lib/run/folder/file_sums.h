/* run/folder/file_sums.h: whether the files that a run stands on, beside its checkpoints, are
 * as moefw wrote them. manifest.json has the sums of tokenizer.json and stored.json, and the
 * text of config.ini. */
#ifndef MF_RUN_FILE_SUMS_H
#define MF_RUN_FILE_SUMS_H

#include "io/json.h"
#include "run/folder/rundir.h"

/* Writes the member "sums" of a manifest of this path: the files beside it that are there, each
 * with its XXH3-128. MF_EIO, MF_ENOMEM. */
int mf_file_sums_put(mf_jw *w, const char *manifest);
/* Reads every byte of tokenizer.json, of stored.json and of the files that this one lists, and
 * compares their sums; of config.ini it compares the keys that give weights their meaning
 * (mf_section). What the manifest of an earlier version does not have is not compared.
 * *ret_bytes: how many of the files outside the run. MF_EINPUT with the file, or the key, that
 * has changed; MF_EIO, MF_ENOMEM. */
int mf_file_sums_verify(const mf_rundir *dir, uint64_t *ret_bytes);

#endif
