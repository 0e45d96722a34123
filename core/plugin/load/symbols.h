/* plugin/load/symbols.h: reads the symbols of a plugin's file, before anything in it runs.
 *
 * Mapping any shared object runs its constructors. A file that exports no descriptor is
 * therefore refused by its bytes alone. */
#ifndef MF_PLUGIN_SYMBOLS_H
#define MF_PLUGIN_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/* bytes [size]: a file that plugin/load/file.h has accepted. MF_OK if it exports the constant
 * `moefw_plugin`; else MF_EPLUGIN. */
int mf_plugin_symbols(const unsigned char *bytes, size_t size);

/* Whether the file exports the symbol, whose name has at most 31 bytes. */
bool mf_symbols_export(const unsigned char *bytes, size_t size, const char *symbol);

/* Whether the file exports `moefw_plugin`; *ret: the number of the kind that stands in the
 * descriptor, 0 if it does not begin with MF_MAGIC. Nothing else in the file is checked. */
bool mf_plugin_symbols_kind(const unsigned char *bytes, size_t size, uint32_t *ret);

/* Whether the dynamic linker searches no library for the file in a folder that the file itself
 * names ($ORIGIN above all). If so, the same bytes are the same code wherever the file lies. */
bool mf_symbols_move(const unsigned char *bytes, size_t size);

/* The MF_HOST_NAMES of the headers with which the plugin was built, in the arena; NULL if the
 * file has none, or without memory. */
const char *mf_plugin_host_names(const unsigned char *bytes, size_t size, mf_arena *arena);

#endif
