/* data/source_files.h: the files that a data path names. */
#ifndef MF_DATA_SOURCE_FILES_H
#define MF_DATA_SOURCE_FILES_H

#include <stdint.h>

typedef struct mf_source_files {
    char **path; /* [n] */
    int n;
    /* [n] sum of the sizes of the files up to each one, in bytes, if they are read as one large
     * text; else NULL */
    uint64_t *end;
} mf_source_files;

/* Lists the files of a path. A path that is no folder and no pattern is the result itself,
 * whether the file exists or not. For a folder, the result is its files without hidden files,
 * *.idx and sub-folders. For a pattern (*, ?, [...]) that is not the name of a file, the result
 * is the matching files, with the same exceptions. The files are sorted by the bytes of their
 * names. MF_EINPUT: there is no file. MF_EIO, MF_ENOMEM. The caller frees *ret. */
int mf_source_files_of(const char *path, mf_source_files *ret);
/* Like mf_source_files_of, for files that are in a folder of a domain each: for a folder, the
 * result is the files of its sub-folders, and it may hold no files itself (MF_EINPUT); a
 * pattern must match paths with a folder. */
int mf_source_files_in_folders(const char *path, mf_source_files *ret);
void mf_source_files_free(mf_source_files *f);

#endif
