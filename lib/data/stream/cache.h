/* data/stream/cache.h: the cache folder. It keeps the largest ids of large token files, which
 * are then not scanned again, and texts as token files. An entry is found by the path, the size
 * and the time of the last change of its file. The folder may be removed when no run uses it;
 * what is missing is computed when it is needed. */
#ifndef MF_DATA_CACHE_H
#define MF_DATA_CACHE_H

#include "base/file/io.h"
#include "data/source_files.h"
#include "data/stream/id_parts.h"
#include "data/tokenizer/tokenizer.h"

/* The folder that data.cache means: auto: $XDG_CACHE_HOME/moefw, or ~/.cache/moefw; no: "";
 * else itself. The caller frees it; NULL: no memory. */
char *mf_cache_folder(const char *key);

/* Finds part->largest of a mapped part of the file; false: it is not known, or folder is "". */
bool mf_cache_ids_read(const char *folder, const char *path, mf_id_part *part);
/* Keeps part->largest in the folder. A folder that cannot be written is no error: the next run
 * scans again. */
void mf_cache_ids_write(const char *folder, const char *path, const mf_id_part *part);

/* Bytes begin .. end-1 of text files as tokens. They are taken from the folder, or made there:
 * the text is read and tokenized in pieces, at whose ends no token and no rule of the tokenizer
 * looks across, so the tokens are those of the whole text. If the tokenizer is byte, the files
 * themselves are mapped. name: of the text, in messages. MF_EINPUT, MF_EIO, MF_ENOMEM. */
int mf_cache_text(const char *folder, const mf_tokenizer *t, const char *name,
                  const mf_source_files *files, uint64_t begin, uint64_t end, mf_id_parts *ret);

/* ---- files that are being written ---- */

/* A new file beside one of the folder: PATH.PROCESS-N.tmp. */
typedef struct mf_cache_draft {
    mf_writer out;
    char *name;
    int lock; /* descriptor, which has the file's lock until it has its final name; or -1 */
} mf_cache_draft;

/* MF_EIO, MF_ENOMEM. After MF_OK the draft must be closed. */
int mf_cache_draft_open(mf_cache_draft *d, const char *path);
/* Gives the draft its name, on disk; if `rc`, the status of what was written, is an error, or
 * if that fails, the draft is removed. Returns rc or the error. */
int mf_cache_draft_close(mf_cache_draft *d, const char *path, int rc);
/* Removes the drafts that killed processes left: those that nobody has locked, and of those
 * without a lock the ones that nobody has written to for a day. What cannot be removed, stays;
 * that is no error. */
void mf_cache_clean(const char *folder);

/* ---- the files of a text ---- */

/* Reads n bytes of the files, taken together, from offset `begin` on; begin + n is at most the
 * end of the last one. A file that has grown since its end was found gives the bytes up to that
 * end. MF_EINPUT: a file is shorter than it was; MF_EIO, MF_ENOMEM. */
int mf_source_files_read(const mf_source_files *files, uint64_t begin, size_t n, char *out);

#endif
