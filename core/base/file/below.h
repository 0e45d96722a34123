/* base/file/below.h: folders below which no write follows a symbolic link.
 *
 * A folder from another person may contain a link in the place of a file. A program that
 * then writes this file would change a file outside of the folder. While a folder is
 * registered here, each call of mf_io() that changes something below it uses descriptors
 * that are opened part by part without following links, and fails with ELOOP at a link. When
 * a file with several names (hard links) is opened for writing, a copy replaces it, and the
 * log reports this once. The path of the folder itself may contain links, because a person
 * has named it. Paths below the folder begin with exactly the registered text, and have no
 * part "." or "..". */
#ifndef MF_BASE_BELOW_H
#define MF_BASE_BELOW_H

#include <stdbool.h>

typedef struct mf_below mf_below;

/* Registers an existing folder. A folder may be registered several times. MF_EIO, MF_ENOMEM.
 * Any thread may call mf_below_add and mf_below_drop. */
int mf_below_add(const char *folder, mf_below **ret);
void mf_below_drop(mf_below *below); /* NULL is allowed */

/* Refuses symbolic links in the place of files with MF_EINPUT; the message names the first
 * link. `names` lists the entries that are written in the folder, ended by NULL. If such an
 * entry is a folder, its content is checked at any depth. Missing entries are no error. */
int mf_below_judge(const char *folder, const char *const *names);

/* These are the system calls of mf_io_table for paths that may be below a registered folder. */
int mf_below_open(const char *path, int flags, int mode);
int mf_below_rename(const char *from, const char *to, bool only_new);
int mf_below_unlink(const char *path, bool folder);
int mf_below_mkdir(const char *path, int mode);

#endif
