/* base/file/lfs.h: pointers of Git LFS, which stand in a clone for files that were
 * not fetched. */
#ifndef MF_BASE_LFS_H
#define MF_BASE_LFS_H

#include <stddef.h>

/* Refuses a file whose first n bytes are those of a pointer: MF_EINPUT, with the command that
 * fetches the file. MF_OK if they are not. */
int mf_lfs_judge(const char *path, const char *data, size_t n);

#endif
