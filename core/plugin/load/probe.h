/* plugin/load/probe.h: tries third-party plugins first in a child process.
 *
 * The child maps the file, checks it, makes one small instance and frees it. So a crash in a
 * constructor or in init, a call of exit, or a function that never returns causes an error
 * message. Plugins that are part of the program are not tried. One child can try
 * several files. */
#ifndef MF_PLUGIN_PROBE_H
#define MF_PLUGIN_PROBE_H

#define MF_PROBE_VERB "--probe-plugin"

/* Tries the files in order in one child. MF_EPLUGIN: refused; the message contains neither file
 * nor configuration line; *ret_bad: index of the file. MF_ERUN: no child could be started. The
 * environment variable MOEFW_PROBE_SECONDS sets the longest time for loading, init or fini of
 * one file, 10 by default. Returns MF_OK at once if children are not
 * possible (plugin/load/child.h). */
int mf_probe(int n, const char *const *paths, int *ret_bad);
/* Returns the seconds that loading, init or fini of one file may take. */
int mf_probe_seconds(void);
/* The child's main function; returns the exit status. */
int mf_probe_main(int argc, char **argv);

#endif
