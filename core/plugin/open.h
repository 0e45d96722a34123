/* plugin/open.h: from a plugin's name to a judged plugin in memory.
 *
 *   find the file -> open and check it -> try a stranger's in a child process (plugin/probe.h)
 *   -> map the very file that was checked -> judge the descriptor -> give it the host table
 *
 * A file is mapped once, however often and by whatever name it is asked for, and never
 * unmapped. The checked descriptor stays open as long as the process: the dynamic linker goes
 * by name first, so a second file under the same /proc/self/fd/N would be taken for the first.
 */
#ifndef MF_PLUGIN_OPEN_H
#define MF_PLUGIN_OPEN_H

#include "plugin/find.h"
#include "plugin/judge.h"

/* plugin: a name or a file (plugin/find.h); kind 0: any; file, line: where it was asked for,
 * for messages, file NULL: nowhere. The result lives as long as the process. MF_ENOTFOUND,
 * MF_ECONFIG: no such plugin; MF_EPLUGIN: refused. */
int mf_plugin_load(mf_kind kind, const char *plugin, const char *file, int line,
                   const mf_loaded **ret);
/* The same for what mf_find gave. */
int mf_plugin_load_found(const mf_found *found, const char *file, int line,
                         const mf_loaded **ret);
/* Tries all strangers among these in one child process, so that loading them tries none again.
 * Statuses and messages are those of mf_plugin_load. */
typedef struct mf_want {
    mf_kind kind;
    const char *plugin, *file;
    int line;
} mf_want;
int mf_plugins_try(const mf_want *wants, int n);
/* The function table, mf_router, mf_expert, ... by kind. */
const void *mf_loaded_vtable(const mf_loaded *plugin);
/* All that were loaded so far, in order; NULL past the end. */
const mf_loaded *mf_plugin_loaded(int i);
/* Takes files that others could write to (--allow-unsafe-plugins). */
void mf_plugin_allow_unsafe(bool allow);

#endif
