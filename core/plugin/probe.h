/* plugin/probe.h: strangers' plugins are tried in a child process first.
 *
 * The child is this program again, with a verb that nobody sees: it maps the file, judges it, makes
 * one small instance and takes it down. So a crash in a constructor or in init, a call of exit,
 * or a function that never returns becomes a message. Plugins that came with the program are not
 * tried; for all others one child is enough.
 */
#ifndef MF_PLUGIN_PROBE_H
#define MF_PLUGIN_PROBE_H

#define MF_PROBE_VERB "--probe-plugin"

/* program: an executable whose main hands MF_PROBE_VERB to mf_probe_main. Until this is called,
 * and with NULL, nothing is tried. */
void mf_probe_enable(const char *program);
/* Tries the files in order in one child. MF_EPLUGIN, naming neither file nor place; *ret_bad: index
 * of the file that failed. MOEFW_PROBE_SECONDS: longest time for one file, 10 by default. */
int mf_probe(int n, const char *const *paths, int *ret_bad);
/* What the child does: argv is PROGRAM, MF_PROBE_VERB, descriptor of the report, files. Returns
 * the exit status. */
int mf_probe_main(int argc, char **argv);

/* "killed by SIGSEGV", "ended the process with status 3": how a child that should have lived went,
 * from its wait status. */
const char *mf_death_text(int status, char *out, unsigned size);

#endif
