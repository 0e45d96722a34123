/* base/file/own.h: files with several names (hard links), of which one is written in place. */
#ifndef MF_BASE_OWN_H
#define MF_BASE_OWN_H

#include <stdbool.h>

/* Puts a copy in the place of a regular file that has other names, so that writing it does not
 * change the other names. The copy is on disk before it gets the name; owner and times are
 * those of a new file. A file with one name, one that another process has locked, and
 * everything that is no file stay as they are. name is in the folder of the descriptor (or
 * AT_FDCWD). *ret_copied: there is a copy now. -1 with errno if there is none although one is
 * needed. Any thread. */
int mf_file_own(int folder, const char *name, bool *ret_copied);

#endif
