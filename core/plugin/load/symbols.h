/* plugin/load/symbols.h: reads the symbols of a plugin's file, before anything in it runs.
 *
 * Mapping a shared object runs its constructors, whatever it is. So a file that exports no
 * descriptor is refused by its bytes alone. */
#ifndef MF_PLUGIN_SYMBOLS_H
#define MF_PLUGIN_SYMBOLS_H

#include <stddef.h>

/* bytes [size]: a file that plugin/load/file.h has accepted. MF_OK if it exports the constant
 * `moefw_plugin`; else MF_EPLUGIN. */
int mf_plugin_symbols(const unsigned char *bytes, size_t size);

#endif
