/* plugin/load/allow.h: which files of code may be loaded, by their owner and by who has named
 * them. The state belongs to the process; any thread may call these functions. */
#ifndef MF_PLUGIN_ALLOW_H
#define MF_PLUGIN_ALLOW_H

#include <stdbool.h>
#include <sys/stat.h>

#include "plugin/load/file.h"
#include "plugin/trusted.h"

/* Accepts files that other users could change (--allow-unsafe-plugins). */
void mf_plugin_allow_unsafe(bool allow);
/* Which check of owner and permissions a file gets. own: it came with the program. */
mf_file_trust mf_plugin_trust(bool own);

/* From now on a file outside of the plugin folders that is given by its path is refused, unless
 * mf_plugin_allow_file has allowed it: a configuration that somebody else wrote could name any
 * file. Names and drop-ins only lead to files that the person has installed. */
void mf_plugin_restrict_paths(void);
void mf_plugin_allow_file(const char *path); /* no effect if it is no regular file */
void mf_plugin_allow_paths(void);            /* ends the restriction */

/* MF_OK, or MF_EPLUGIN for a file given by its path that was not allowed, now or earlier
 * (plugin/trusted.h). what: "a plugin of a plugin folder or a drop-in", for the message; path:
 * as the configuration gives it. */
int mf_plugin_check_allowed(const struct stat *file, const mf_code_id *id, const char *what,
                            const char *path);
/* To be called for a file that was loaded: if mf_plugin_allow_file has allowed it, its bytes
 * are trusted from now on. Without a home folder, and in programs that allow all paths, nothing
 * is stored. */
void mf_plugin_remember(const struct stat *file, const mf_code_id *id);
/* Whether all paths are allowed, and the i-th file that was allowed, NULL past the end: for
 * child processes, which read configurations of their own. */
bool mf_plugin_paths_allowed(void);
const char *mf_plugin_allowed_file(int i);

#endif
