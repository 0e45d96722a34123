/* plugin/load/open.h: loads a plugin by name and checks it.
 *
 *   find the file -> open it, check its bytes and symbols, hash them -> try a third-party
 *   plugin in a child process (plugin/load/probe.h) -> map it by its path -> check that it is
 *   still the file that was checked -> check the descriptor -> set its
 *   pointer to the host table
 *
 * A file is mapped once, whatever the number of names under which it is requested, and never
 * unmapped. Its file descriptor stays open until the process ends, so no other file can get
 * its inode.
 *
 * Any thread may call these functions, at any time. */
#ifndef MF_PLUGIN_OPEN_H
#define MF_PLUGIN_OPEN_H

#include "plugin/load/find.h"
#include "plugin/load/judge.h"

/* Finds and loads a plugin, or returns it if it is already loaded. plugin: a name or a file
 * (plugin/load/find.h); kind 0: any. file, line: the configuration line that names the plugin,
 * for messages; file NULL: no line names it. The result is valid until the process ends.
 * MF_ENOTFOUND, MF_ECONFIG: as for mf_find; MF_EPLUGIN: refused. */
int mf_plugin_load(mf_kind kind, const char *plugin, const char *file, int line,
                   const mf_loaded **ret);
/* Like mf_plugin_load, for a result of mf_find. */
int mf_plugin_load_found(const mf_found *found, const char *file, int line,
                         const mf_loaded **ret);
typedef struct mf_want {
    mf_kind kind;
    const char *plugin, *file;
    int line;
} mf_want;
/* Tries all third-party plugins among wants[0 .. n) in one child process, so loading them later
 * does not try them again. Statuses and messages are those of mf_plugin_load. */
int mf_plugins_try(const mf_want *wants, int n);
/* Registers a plugin that is part of the program: checks its descriptor and sets its pointer to
 * the host table. After this its name finds it, before all files. The descriptor must stay
 * valid until the process ends and may be registered again. MF_EPLUGIN: refused, or another
 * registered plugin of its kind has that name; MF_EINVAL: NULL. */
int mf_plugin_register(const mf_plugin *descriptor);
/* Returns a registered plugin; NULL if no registered plugin has that name. kind 0: any. */
const mf_loaded *mf_plugin_linked(mf_kind kind, const char *name);
/* Returns the function table: an mf_router, mf_expert, ..., depending on the kind. */
const void *mf_loaded_vtable(const mf_loaded *plugin);
/* Returns the i-th plugin, first those loaded from files, then the registered plugins; NULL
 * past the end. */
const mf_loaded *mf_plugin_loaded(int i);

#endif
