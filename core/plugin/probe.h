/* plugin/probe.h: strangers' plugins are tried in a child process first.
 *
 * The child maps the file, judges it, makes one small instance and takes it down. So a crash in
 * a constructor or in init, a call of exit, or a function that never returns becomes a message.
 * Plugins that came with the program are not tried; for all others one child is enough.
 */
#ifndef MF_PLUGIN_PROBE_H
#define MF_PLUGIN_PROBE_H

#define MF_PROBE_VERB "--probe-plugin"

/* Tries the files in order in one child. MF_EPLUGIN, naming neither file nor place; *ret_bad:
 * index of the file that failed. MOEFW_PROBE_SECONDS: longest time for one file, 10 by default.
 * MF_OK at once when there can be no children (plugin/child.h). */
int mf_probe(int n, const char *const *paths, int *ret_bad);
/* What the child does; returns the exit status. */
int mf_probe_main(int argc, char **argv);

#endif
