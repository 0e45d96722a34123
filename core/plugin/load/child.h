/* plugin/load/child.h: runs this program again in a child process, which may crash.
 *
 * Code that cannot be trusted to return runs there. The child is a new start of the program,
 * because a mere fork hangs in its first parallel region. It is called as PROGRAM VERB
 * DESCRIPTOR ARGUMENT... and reports through the descriptor line by line. Its output goes to
 * standard error. */
#ifndef MF_PLUGIN_CHILD_H
#define MF_PLUGIN_CHILD_H

#include <stdbool.h>
#include "base/error.h"

#define MF_CHILD_LINE 4096 /* longest line of a report; longer ones are cut */

/* ---- the parent ---- */

/* The executable whose main passes the verbs to their functions. Until this is called, or with
 * NULL, no child is started. */
void mf_child_program(const char *path);
bool mf_child_possible(void);

typedef struct mf_child_end {
    bool in_time;  /* false: the child was killed at a limit */
    int status;    /* as waitpid returns it */
    char text[64]; /* "killed by SIGSEGV", "ended the process with status 3" */
} mf_child_end;

typedef struct mf_child_limits {
    int silence; /* longest silence in seconds; extended up to ten times by as much while the
                  * child gets too little computing time, as on a busy machine */
    int whole;   /* seconds for everything; 0: no limit */
} mf_child_limits;

/* Runs a child to its end and passes each line of its report to the callback. At a limit it
 * gets SIGTERM, a second for last lines, and then SIGKILL. MF_ERUN: no child could
 * start; MF_ENOMEM. */
int mf_child_run(const char *verb, int n, const char *const *arguments, mf_child_limits limits,
                 void (*line)(void *arg, char *text), void *arg, mf_child_end *ret);

/* ---- the child ---- */

/* Call this first in the child: takes the descriptor argv[2] as the report, switches core dumps
 * off, limits memory and computing time (about `seconds`), and lets the child die with its
 * parent. MF_EUSAGE: argv[2] is no open descriptor, as when a person calls the verb. */
int mf_child_begin(int argc, char **argv, int seconds);
/* Ends the limit of memory: for libraries of devices, which map more than they use. */
void mf_child_any_memory(void);
int mf_child_report(void); /* descriptor of the report */
/* Reports one line; line ends inside it become blanks. */
void mf_child_say(const char *fmt, ...) MF_PRINTF(1, 2);

#endif
