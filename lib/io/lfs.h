/* io/lfs.h: what stands in a folder for files that were not fetched: pointers of Git
 * LFS, and pages that a server sent instead. */
#ifndef MF_IO_LFS_H
#define MF_IO_LFS_H

#include <stddef.h>

/* Refuses a file whose first n bytes are those of a pointer: MF_EINPUT, with the command that
 * fetches the file. MF_OK if they are not. */
int mf_lfs_judge(const char *path, const char *data, size_t n);
/* The same for pointers and pages of HTML; for formats whose files cannot begin as a
 * page does. */
int mf_lfs_judge_binary(const char *path, const char *data, size_t n);

#endif
