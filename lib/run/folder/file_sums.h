/* run/folder/file_sums.h: checks that the files which a run needs beside its checkpoints are
 * unchanged since moefw wrote them. manifest.json contains the sums of tokenizer.json and
 * stored.json, and the text of config.ini. */
#ifndef MF_RUN_FILE_SUMS_H
#define MF_RUN_FILE_SUMS_H

#include "io/json.h"
#include "run/folder/rundir.h"

/* Writes the member "sums" of the manifest with this path: the existing files beside it, each
 * with its XXH3-128. MF_EIO, MF_ENOMEM. */
int mf_file_sums_put(mf_jw *w, const char *manifest);
/* Reads every byte of tokenizer.json, of stored.json and of the files that stored.json lists,
 * and compares their sums. In config.ini, the keys that determine the meaning of the weights
 * are compared (mf_section). Files and keys that the manifest of an earlier version does not
 * contain are not compared. *ret_bytes: number of bytes of the files outside the run. MF_EINPUT
 * with the file, or the key, that has changed; MF_EIO, MF_ENOMEM. */
int mf_file_sums_verify(const mf_rundir *dir, uint64_t *ret_bytes);

#endif
