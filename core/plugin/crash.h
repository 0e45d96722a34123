/* plugin/crash.h: names the plugin when the program dies inside a plugin.
 *
 * A plugin is code with the user's rights: it cannot be contained, but it can be named. While
 * one of its functions runs, a site is set. A fatal signal, or a call of exit, _exit or
 * quick_exit, then ends the program with exit code 4 and one line with plugin, file, function
 * and layer. The same applies to a plugin's op while a graph runs, on the thread that runs it
 * or on any other thread. */
#ifndef MF_PLUGIN_CRASH_H
#define MF_PLUGIN_CRASH_H

#include <moefw/op.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mf_site {
    const char *plugin, *file; /* plugin: for example "mine" (NULL: not known yet);
                                * file: "/usr/lib/.../mine.so" */
    const char *function;      /* for example "route" */
    const char *path;          /* for example "layers.3.router"; NULL: none */
} mf_site;

/* Begins to watch; call it once, in the program's main. Without this call sites have no effect.
 * After it the program must not call exit or _exit before mf_crash_ended. Such a call is
 * treated as a call by a plugin (for example in its own thread) or a library, and ends the
 * program with status 1. */
void mf_crash_watch(void);
/* Call this when the program's main is about to return or to end the process: exit and _exit
 * then work as usual. */
void mf_crash_ended(void);
/* Does the work of _exit(status). While the program watches, it ends with status 4 and names
 * the plugin if a plugin is running; if no plugin is running, it ends with status 1 and a
 * message. Otherwise, and in a process that a plugin has forked, it ends with `status`. */
_Noreturn void mf_crash_exit(int status);
/* Ends the process without a message. It does not call _exit, because a program may replace
 * _exit by mf_crash_exit. Signal handlers may call it. */
_Noreturn void mf_crash_end(int status);
/* Ends the program with status 4 and the line of a crash. how: the reason, for example "did not
 * return within 9 s". */
_Noreturn void mf_crash_overdue(const mf_site *site, const char *how);
/* Sets a time limit if the program watches. A call of a plugin, or an op of a plugin, that
 * takes more than `seconds` (<= 0: no limit) ends the program with status 4 and the line of a
 * crash. Later calls set another limit. MF_ERUN: no thread could be started. */
int mf_crash_patience(int64_t seconds);
/* Whether mf_crash_watch was called. True means that this process is the program, and not
 * another program that uses the library. */
bool mf_crash_watching(void);
/* For child processes: a fatal signal then writes "died FUNCTION" to the descriptor, instead of
 * the line about the plugin, and ends the process by its default action. */
void mf_crash_report_to(int fd);
/* Sets the current site (NULL: none) and returns the previous site, which the caller restores.
 * The site and its strings must stay valid. Each thread has its own site. */
const mf_site *mf_crash_site(const mf_site *site);
/* Records the plugin to which an op's table belongs. All arguments must stay valid until the
 * process ends. */
void mf_crash_own(const mf_opdef *op, const char *plugin, const char *file);

#endif
