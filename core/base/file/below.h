/* base/file/below.h: folders below which no write follows a symbolic link.
 *
 * A folder that came from somebody else may have a link in the place of a file; whoever then
 * writes that file would change a file outside. While a folder is registered here, each call
 * of mf_io() that changes something below it goes through descriptors that are opened part by
 * part without following links, and fails with ELOOP at a link. A file with several names
 * (hard links) that is opened to be written gets a copy in its place, which the log says once.
 * The path of the folder itself may contain links: it is what a person named. Paths below the
 * folder begin with exactly the text that was registered, and have no part "." or "..". */
#ifndef MF_BASE_BELOW_H
#define MF_BASE_BELOW_H

#include <stdbool.h>

typedef struct mf_below mf_below;

/* Registers an existing folder. A folder may be registered several times. MF_EIO, MF_ENOMEM.
 * Any thread may call these two. */
int mf_below_add(const char *folder, mf_below **ret);
void mf_below_drop(mf_below *below); /* NULL is allowed */

/* Refuses symbolic links in the place of files: MF_EINPUT, which names the first one. `names`
 * are those that are written in the folder, ended by NULL; the content of folders with these
 * names is checked, too, at any depth. Missing ones are no error. */
int mf_below_judge(const char *folder, const char *const *names);

/* System calls as in mf_io_table, of which the paths may be below a registered folder. */
int mf_below_open(const char *path, int flags, int mode);
int mf_below_rename(const char *from, const char *to, bool only_new);
int mf_below_unlink(const char *path, bool folder);
int mf_below_mkdir(const char *path, int mode);

#endif
