/* io/lfs.h: recognizes files whose content was not fetched: pointers of Git LFS, and HTML pages
 * that a server sent instead of the file. */
#ifndef MF_IO_LFS_H
#define MF_IO_LFS_H

#include <stddef.h>

/* Refuses a file whose first n bytes are a pointer: MF_EINPUT, with the command that fetches
 * the file. MF_OK for any other file. */
int mf_lfs_judge(const char *path, const char *data, size_t n);
/* The same for pointers and for HTML pages. Use it for formats whose files cannot begin like an
 * HTML page. */
int mf_lfs_judge_binary(const char *path, const char *data, size_t n);

#endif
