/* plugin/crash.h: names the plugin when the program dies inside one.
 *
 * A plugin is code with the user's rights: it cannot be contained, but it can be named. While
 * one of its functions runs, a site is in force; a fatal signal or a call of exit then ends the
 * program with exit code 4 and one line with plugin, file, function and layer. The same holds
 * for a plugin's op while a graph runs (on the thread that runs it or any other). */
#ifndef MF_PLUGIN_CRASH_H
#define MF_PLUGIN_CRASH_H

typedef struct mf_site {
    const char *plugin, *file; /* "mine", "/usr/lib/.../mine.so" */
    const char *function;      /* "route" */
    const char *path;          /* "layers.3.router" */
} mf_site;

/* Begins to watch; call it once, in the program's main. Without it sites have no effect. */
void mf_crash_watch(void);
/* For child processes: writes "died FUNCTION" to the descriptor instead of that line, and the
 * signal ends the process. */
void mf_crash_report_to(int fd);
/* Puts a site in force (NULL: none) and returns the previous one, which the caller restores.
 * Its strings must stay valid. Each thread has its own site. */
const mf_site *mf_crash_site(const mf_site *site);

#endif
