/* data/source_files.h: the files that a data path names. */
#ifndef MF_DATA_SOURCE_FILES_H
#define MF_DATA_SOURCE_FILES_H

#include <stdint.h>

typedef struct mf_source_files {
    char **path; /* [n] */
    int n;
    /* [n] bytes of the files up to the end of each, where they are read as one large text; else
     * NULL */
    uint64_t *end;
} mf_source_files;

/* One path: itself, if it is no folder and no pattern, whether it exists or not. A folder: its
 * files without hidden ones, without *.idx, and without sub-folders. A pattern (*, ?, [...])
 * that names no file itself: the files that it matches, likewise. In the order of their bytes.
 * MF_EINPUT: there is none. MF_EIO, MF_ENOMEM. The caller frees it. */
int mf_source_files_of(const char *path, mf_source_files *ret);
void mf_source_files_free(mf_source_files *f);

#endif
