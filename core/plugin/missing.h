/* plugin/missing.h: the end of the host table, for plugins that were built for a newer moefw.
 *
 * Such a plugin may call functions that are after the end of this moefw's table, though MF_HAS
 * says that they do not exist. In their place the table has functions that name the missing
 * function and end the process. */
#ifndef MF_PLUGIN_MISSING_H
#define MF_PLUGIN_MISSING_H

#include <moefw/host.h>

/* Fills to [n] with functions that end the process. The first entry is for function number
 * `first` of the table. */
void mf_missing_fill(void (**to)(void), size_t n, size_t first);
struct mf_loaded;
/* Warns if the plugin was built for a newer moefw. */
void mf_missing_tell(const struct mf_loaded *plugin);

#endif
