/* plugin/load/allow.h: decides which files of code may be loaded, by their owner and by who has
 * named them. The state belongs to the process; any thread may call these functions. */
#ifndef MF_PLUGIN_ALLOW_H
#define MF_PLUGIN_ALLOW_H

#include <stdbool.h>
#include <sys/stat.h>

#include "plugin/load/file.h"
#include "plugin/trusted.h"

/* allow true: files that other users could change are accepted (--allow-unsafe-plugins). false:
 * they are refused. */
void mf_plugin_allow_unsafe(bool allow);
/* Returns which check of owner and permissions a file needs. own: the file is part of the
 * program's installation. */
mf_file_trust mf_plugin_trust(bool own);

/* After this call a file outside of the plugin folders that is named by its path is refused,
 * unless mf_plugin_allow_file has allowed it. The reason: a configuration from another person
 * could name any file. Names and drop-ins only refer to files that the user has installed. */
void mf_plugin_restrict_paths(void);
void mf_plugin_allow_file(const char *path); /* has no effect if the path is no regular file */
void mf_plugin_allow_paths(void);            /* ends the restriction */

/* Returns MF_OK, or MF_EPLUGIN for a file named by its path that was not allowed, now or
 * earlier (plugin/trusted.h). what: text for the message, such as "a plugin of a plugin folder
 * or a drop-in". path: the path that the configuration names. */
int mf_plugin_check_allowed(const struct stat *file, const mf_code_id *id, const char *what,
                            const char *path);
/* Call this for a file that was loaded. If mf_plugin_allow_file has allowed the file, its bytes
 * are trusted from now on. Nothing is stored without a home folder, and in programs that allow
 * all paths. */
void mf_plugin_remember(const struct stat *file, const mf_code_id *id);
/* Whether all paths are allowed. The next function returns the i-th allowed file, NULL past the
 * end. Both are for child processes, which read their own configurations. */
bool mf_plugin_paths_allowed(void);
const char *mf_plugin_allowed_file(int i);

#endif
