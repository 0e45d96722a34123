/* plugin/trusted.h: the files of code that this user has named on a command line, by the
 * SHA-256 of their bytes, so that a run's configuration may name them, too.
 *
 * They stand in $XDG_STATE_HOME/moefw/trusted, or ~/.local/state/moefw/trusted, a text with a
 * line "HASH  PATH" for each, as sha256sum writes them. The folder and the file must be the
 * user's own, no link, and not writable by others; else they are not used. Lines of another
 * form are ignored, and dropped at the next change. A change replaces the file while a lock is
 * held. Any thread may call these functions. */
#ifndef MF_PLUGIN_TRUSTED_H
#define MF_PLUGIN_TRUSTED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/sha256.h"

#define MF_TRUSTED_MOST 2000 /* lines; with more, the oldest are dropped */

/* A file of code in the list. */
typedef struct mf_code_id {
    char hash[MF_SHA256_HEX];
    bool moves;       /* it loads nothing from its own folder: it is the same code anywhere */
    const char *path; /* absolute, without links */
} mf_code_id;

/* Sets the hash and `moves` from the bytes of a file; `path` is kept as a pointer. */
mf_code_id mf_code_id_of(const unsigned char *bytes, size_t size, const char *path);

typedef struct mf_trusted {
    const char *hash, *path;
} mf_trusted;

/* The file's path; NULL if there is no home folder. In the arena. */
const char *mf_trusted_file(mf_arena *arena);
/* All lines, in the arena, the newest last; none if there is no file. MF_EIO, MF_EINPUT: the
 * file is not used, with the reason. */
int mf_trusted_read(mf_arena *arena, mf_trusted **ret, int *ret_n);
/* Whether a file with these bytes was named before; without `moves` it must also have had the
 * same path. If the list cannot be read, the file is not trusted. */
bool mf_trusted_has(const mf_code_id *file);
/* Adds a line, unless there is one. MF_ENOTFOUND: no home folder; MF_EIO, MF_EINPUT. */
int mf_trusted_add(const mf_code_id *file);
/* Removes the lines with this hash, the beginningning of one (8 digits or more), or this path.
 * *ret_n: how many. */
int mf_trusted_remove(const char *what, int *ret_n);

#endif
