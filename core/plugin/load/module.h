/* plugin/load/module.h: shared objects of the program that are not plugins: backends of devices
 * and communicators. They belong to one version of moefw. */
#ifndef MF_PLUGIN_MODULE_H
#define MF_PLUGIN_MODULE_H

#include <stdbool.h>

#include "base/mem.h"

/* Returns the file FOLDER/name of the first plugin folder that contains it; NULL: no folder
 * contains it. *ret_list: the folders as text, for a message; NULL: there was no memory for the
 * search. Both are in the arena. */
const char *mf_module_find(mf_arena *arena, const char *name, const char **ret_list);
/* Checks that the file exports the symbol, and maps it; returns the symbol's address in *ret. A
 * file is mapped once and never unmapped. Any thread may call this. as_given: the path does not
 * come from mf_module_find but from a configuration or the command line. In this case the file
 * must be allowed (plugin/load/allow.h) and other users must not be able to change it.
 * MF_EPLUGIN: the file is refused; MF_EDEP: it cannot be loaded. */
int mf_module_load(const char *path, bool as_given, const char *symbol, const void **ret);

#endif
