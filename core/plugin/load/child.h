/* plugin/load/child.h: runs this program again in a child process, which may crash.
 *
 * Code that may never return runs in the child. The child is a new start of the program,
 * because a mere fork hangs in its first parallel region. It is called as PROGRAM VERB
 * DESCRIPTOR ARGUMENT... and reports through the descriptor line by line. Its output goes to
 * standard error. */
#ifndef MF_PLUGIN_CHILD_H
#define MF_PLUGIN_CHILD_H

#include <stdbool.h>
#include "base/error.h"

#define MF_CHILD_LINE 4096 /* maximum length of a line of a report; longer lines are cut */

/* ---- the parent ---- */

/* Sets the executable whose main passes the verbs to their functions. No child is started
 * before this call, or if path is NULL. */
void mf_child_program(const char *path);
bool mf_child_possible(void);

typedef struct mf_child_end {
    bool in_time; /* false: the child was killed at a limit */
    int status;   /* status from waitpid */
    /* For example "killed by SIGSEGV" or "ended the process with status 3". */
    char text[64];
} mf_child_end;

typedef struct mf_child_limits {
    int silence; /* Longest silence in seconds. While the child gets too little computing time,
                  * as on a busy machine, the limit is extended up to ten times by the same
                  * number of seconds. */
    int whole;   /* limit of the total time in seconds; 0: no limit */
} mf_child_limits;

/* Runs a child to its end and passes each line of its report to the callback. At a limit the
 * child gets SIGTERM, a second to write its last lines, and then SIGKILL. MF_ERUN: no child
 * could be started; MF_ENOMEM. */
int mf_child_run(const char *verb, int n, const char *const *arguments, mf_child_limits limits,
                 void (*line)(void *arg, char *text), void *arg, mf_child_end *ret);

/* ---- the child ---- */

/* Call this first in the child. It uses the descriptor argv[2] for the report, turns core dumps
 * off, limits memory and computing time (about `seconds`), and makes the child die with its
 * parent. MF_EUSAGE: argv[2] is no open descriptor, as when a person calls the verb. */
int mf_child_begin(int argc, char **argv, int seconds);
/* Removes the memory limit. This is for libraries of devices, which map more memory than
 * they use. */
void mf_child_any_memory(void);
int mf_child_report(void); /* descriptor of the report */
/* Reports one line; line ends inside it become blanks. */
void mf_child_say(const char *fmt, ...) MF_PRINTF(1, 2);

#endif
