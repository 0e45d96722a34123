/* plugin/load/symbols.h: reads the symbols of a plugin's file, before any of its code runs.
 *
 * Mapping any shared object runs its constructors. A file that exports no descriptor is
 * therefore refused by its bytes alone. */
#ifndef MF_PLUGIN_SYMBOLS_H
#define MF_PLUGIN_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/* Returns MF_OK if the file exports the constant `moefw_plugin`, else MF_EPLUGIN. bytes [size]:
 * a file that plugin/load/file.h has accepted. */
int mf_plugin_symbols(const unsigned char *bytes, size_t size);

/* Whether the file exports the symbol, whose name has at most 31 bytes. */
bool mf_symbols_export(const unsigned char *bytes, size_t size, const char *symbol);

/* Whether the file exports `moefw_plugin`. *ret: the number of the kind in the descriptor, 0 if
 * the descriptor does not begin with MF_MAGIC. Nothing else in the file is checked. */
bool mf_plugin_symbols_kind(const unsigned char *bytes, size_t size, uint32_t *ret);

/* Whether the code of the file does not depend on its folder. This is true if the dynamic
 * linker searches no library for the file in a folder that the file itself names (above all
 * $ORIGIN). The same bytes are then the same code in any folder. */
bool mf_symbols_move(const unsigned char *bytes, size_t size);

/* Returns the MF_HOST_NAMES of the headers with which the plugin was built, in the arena; NULL
 * if the file has none, or without memory. */
const char *mf_plugin_host_names(const unsigned char *bytes, size_t size, mf_arena *arena);

#endif
