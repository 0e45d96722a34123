/* plugin/trusted.h: the files of code that this user has named on a command line, by the
 * SHA-256 of their bytes. A run's configuration may then name them, too.
 *
 * The list is in $XDG_STATE_HOME/moefw/trusted, or ~/.local/state/moefw/trusted. It is a text
 * with a line "HASH  PATH" for each file, in the format of sha256sum. The folder and the file
 * must belong to the user, must not be links, and must not be writable by others; otherwise
 * they are not used. Lines of another form are ignored, and dropped at the next change. A
 * change replaces the file while a lock is held. Any thread may call these functions. */
#ifndef MF_PLUGIN_TRUSTED_H
#define MF_PLUGIN_TRUSTED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/sha256.h"

#define MF_TRUSTED_MOST 2000 /* maximum number of lines; the oldest lines are dropped */

/* A file of code in the list. */
typedef struct mf_code_id {
    char hash[MF_SHA256_HEX];
    bool moves;       /* the file loads nothing from its own folder, so it is the same code in
                       * any folder */
    const char *path; /* absolute, without links */
} mf_code_id;

/* Sets the hash and `moves` from the bytes of a file; `path` is kept as a pointer. */
mf_code_id mf_code_id_of(const unsigned char *bytes, size_t size, const char *path);

typedef struct mf_trusted {
    const char *hash, *path;
} mf_trusted;

/* Returns the path of the list, in the arena; NULL if there is no home folder. */
const char *mf_trusted_file(mf_arena *arena);
/* Reads all lines, in the arena, the newest last; none if there is no file. MF_EIO, MF_EINPUT:
 * the file is not used; the message has the reason. */
int mf_trusted_read(mf_arena *arena, mf_trusted **ret, int *ret_n);
/* Whether a file with these bytes was named before; without `moves` it must also have had the
 * same path. If the list cannot be read, the file is not trusted. */
bool mf_trusted_has(const mf_code_id *file);
/* Adds a line, unless the list already has it. MF_ENOTFOUND: no home folder;
 * MF_EIO, MF_EINPUT. */
int mf_trusted_add(const mf_code_id *file);
/* Removes the lines with this hash, with a hash that begins with this text (8 digits or more),
 * or with this path. *ret_n: number of removed lines. */
int mf_trusted_remove(const char *what, int *ret_n);

#endif
