/* base/file/own.h: files with several names (hard links), one of which is about to
 * be written. */
#ifndef MF_BASE_OWN_H
#define MF_BASE_OWN_H

#include <stdbool.h>

/* Replaces a regular file that has further names by a copy, so that writing to it does not
 * change the file under its other names. The copy is on disk before it takes over the name; it
 * has the owner and times of a new file. Files with one name, files that another process has
 * locked, and entries that are not regular files stay as they are. name is in the folder of the
 * descriptor (or AT_FDCWD). *ret_copied: whether a copy was made. Returns -1 with errno if the
 * copy could not be made. Any thread may call it. */
int mf_file_own(int folder, const char *name, bool *ret_copied);

#endif
