/* plugin/crash.h: who was at work when the program dies inside a plugin.
 *
 * A plugin is code with the user's rights: it cannot be contained, but it can be named. While
 * one of its functions runs, a site is in force; a fatal signal or a call of exit then ends the
 * program with exit code 4 and one line naming plugin, file, function and place. The same for a
 * plugin's op while a graph runs (on the thread that runs it or any other).
 */
#ifndef MF_PLUGIN_CRASH_H
#define MF_PLUGIN_CRASH_H

typedef struct mf_site {
    const char *plugin, *file; /* "mine", "/usr/lib/.../mine.so" */
    const char *function;      /* "route" */
    const char *path;          /* "layers.3.router" */
} mf_site;

/* Begins to watch; once, by the program. Without it sites mean nothing. */
void mf_crash_watch(void);
/* For children: instead of that line, "died FUNCTION" goes to the descriptor, and the signal
 * takes its course. */
void mf_crash_report_to(int fd);
/* Puts a site in force (NULL: none) and returns the one before, to be put back. Strings must
 * stay. One thread calls plugins. */
const mf_site *mf_crash_site(const mf_site *site);

#endif
