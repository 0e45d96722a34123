/* data/stream/cache.h: the cache folder. It contains the largest ids of large token files, so
 * that these files are not scanned again, and token files made from texts. An entry is found by
 * the path, the size and the time of the last change of its file. The folder may be removed
 * when no run uses it. A missing entry is computed again when it is needed. */
#ifndef MF_DATA_CACHE_H
#define MF_DATA_CACHE_H

#include "base/file/io.h"
#include "io/writer.h"
#include "data/source_files.h"
#include "data/stream/id_parts.h"
#include "data/tokenizer/tokenizer.h"

/* Returns the folder that data.cache means. auto: $XDG_CACHE_HOME/moefw, or ~/.cache/moefw; no:
 * ""; any other value: this path. The caller frees it. NULL: not enough memory. */
char *mf_cache_folder(const char *key);

/* Finds part->largest of a mapped part of the file. Returns false if it is not known, or if
 * folder is "". */
bool mf_cache_ids_read(const char *folder, const char *path, mf_id_part *part);
/* Stores part->largest in the folder. A folder that cannot be written is not an error: the next
 * run scans the file again. */
void mf_cache_ids_write(const char *folder, const char *path, const mf_id_part *part);

/* Returns bytes begin .. end-1 of text files as tokens. They are read from the folder, or
 * computed and stored there. The text is read and tokenized in pieces. A piece ends where no
 * token and no rule of the tokenizer crosses the cut, so the tokens are those of the whole
 * text. If the tokenizer is byte, the files themselves are mapped. name: name of the text, for
 * messages. MF_EINPUT, MF_EIO, MF_ENOMEM. */
int mf_cache_text(const char *folder, const mf_tokenizer *t, const char *name,
                  const mf_source_files *files, uint64_t begin, uint64_t end, mf_id_parts *ret);

/* ---- files that are being written ---- */

/* A new file that will replace PATH in the folder. Its name is PATH.PROCESS-N.tmp. */
typedef struct mf_cache_draft {
    mf_writer out;
    char *name;
    int lock; /* descriptor that holds the lock of the file until the file has its final name;
               * or -1 */
} mf_cache_draft;

/* MF_EIO, MF_ENOMEM. After MF_OK the draft must be closed. */
int mf_cache_draft_open(mf_cache_draft *d, const char *path);
/* Syncs the draft and renames it to path. If rc, the status of the writing, is an error, or if
 * the rename fails, the draft is removed. Returns rc or the error. */
int mf_cache_draft_close(mf_cache_draft *d, const char *path, int rc);
/* Removes the drafts that killed processes left: drafts whose lock nobody holds, and drafts
 * without a lock to which nobody has written for a day. A draft that cannot be removed stays;
 * this is not an error. */
void mf_cache_clean(const char *folder);

/* ---- the files of a text ---- */

/* Reads n bytes of the files, taken together, from offset `begin` on. begin + n is at most the
 * end of the last file. If a file has grown since its size was read, only its old part is read.
 * MF_EINPUT: a file is shorter than before; MF_EIO, MF_ENOMEM. */
int mf_source_files_read(const mf_source_files *files, uint64_t begin, size_t n, char *out);

#endif
