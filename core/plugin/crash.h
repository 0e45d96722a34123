/* plugin/crash.h: names the plugin when the program dies inside one.
 *
 * A plugin is code with the user's rights: it cannot be contained, but it can be named. While
 * one of its functions runs, a site is in force; a fatal signal or a call of exit, _exit or
 * quick_exit then ends the program with exit code 4 and one line with plugin, file, function
 * and layer. The same holds for a plugin's op while a graph runs (on the thread that runs it or
 * any other). */
#ifndef MF_PLUGIN_CRASH_H
#define MF_PLUGIN_CRASH_H

#include <moefw/op.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mf_site {
    const char *plugin, *file; /* "mine" (NULL: not known yet), "/usr/lib/.../mine.so" */
    const char *function;      /* "route" */
    const char *path;          /* "layers.3.router"; NULL: none */
} mf_site;

/* Begins to watch; call it once, in the program's main. Without it sites have no effect. From
 * then on the program must not call exit or _exit before mf_crash_ended: such a call counts as
 * one of a plugin (of a thread of its own, say) or a library, and ends with status 1. */
void mf_crash_watch(void);
/* The program's main is about to return, or to end the process: exit and _exit then run
 * as usual. */
void mf_crash_ended(void);
/* Does the work of _exit(status): while the program watches, ends with status 4 if a plugin is
 * running, which is named, and with status 1 and a message if none is; otherwise, and in a
 * process that a plugin has forked, with `status`. */
_Noreturn void mf_crash_exit(int status);
/* Ends the process without a message. It does not call _exit, which a program may replace by
 * mf_crash_exit; signal handlers may call it. */
_Noreturn void mf_crash_end(int status);
/* Ends the program with status 4 and the line of a crash. how: "did not return within 9 s". */
_Noreturn void mf_crash_overdue(const mf_site *site, const char *how);
/* If the program watches: a call of a plugin, or an op of one, that goes on for so many seconds
 * (<= 0: any) ends the program with status 4 and the line of a crash. Later calls set another
 * time. MF_ERUN: no thread. */
int mf_crash_patience(int64_t seconds);
/* Whether mf_crash_watch was called: this process is the program, not another one that uses
 * the library. */
bool mf_crash_watching(void);
/* For child processes: a fatal signal then writes "died FUNCTION" to the descriptor, instead of
 * the line about the plugin, and ends the process by its default action. */
void mf_crash_report_to(int fd);
/* Puts a site in force (NULL: none) and returns the previous one, which the caller restores.
 * The site and its strings must stay valid. Each thread has its own site. */
const mf_site *mf_crash_site(const mf_site *site);
/* Records which plugin an op's table came with. All must live as long as the process. */
void mf_crash_own(const mf_opdef *op, const char *plugin, const char *file);

#endif
