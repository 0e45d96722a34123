/* plugin/load/module.h: shared objects of the program that are no plugins: backends of devices
 * and communicators. They belong to one version of moefw. */
#ifndef MF_PLUGIN_MODULE_H
#define MF_PLUGIN_MODULE_H

#include <stdbool.h>

#include "base/mem.h"

/* The file FOLDER/name of the first plugin folder that has it. *ret_list: the folders as text,
 * for a message; NULL: there was no memory to look. Both live in the arena. NULL: no folder
 * has it. */
const char *mf_module_find(mf_arena *arena, const char *name, const char **ret_list);
/* Checks the file and that it exports the symbol, and maps it; gives the symbol's address. A
 * file is mapped once and never unmapped. Any thread may call this. as_given: the path does not
 * come from mf_module_find but from a configuration or the command line, so that the file must
 * be allowed (plugin/load/allow.h) and other users must not be able to change it. MF_EPLUGIN:
 * the file is refused; MF_EDEP: it cannot be loaded. */
int mf_module_load(const char *path, bool as_given, const char *symbol, const void **ret);

#endif
