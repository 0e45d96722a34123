/* plugin/child.h: this program again, in a child process that may die.
 *
 * Code that cannot be trusted to return runs there: fork and exec at once (a bare fork hangs in
 * its first parallel region). The child is called as PROGRAM VERB DESCRIPTOR ARGUMENT...;
 * through the descriptor it reports line by line. What it prints goes to standard error.
 */
#ifndef MF_PLUGIN_CHILD_H
#define MF_PLUGIN_CHILD_H

#include <stdbool.h>
#include "base/error.h"

#define MF_CHILD_LINE 4096 /* longest line of a report, longer ones are cut */

/* ---- the parent ---- */

/* The executable whose main hands the verbs to their functions. Until this is called, and with
 * NULL, there are no children. */
void mf_child_program(const char *path);
bool mf_child_possible(void);

typedef struct mf_child_end {
    bool in_time;  /* false: it was killed after too long a silence */
    int status;    /* as waitpid gives it */
    char text[64]; /* "killed by SIGSEGV", "ended the process with status 3" */
} mf_child_end;

/* Runs a child to its end and hands on each line of its report as it comes. seconds: the
 * longest silence, and up to ten times that while the child is seen to compute less, as on a
 * machine that has no time for it. MF_ERUN when no child could be started. */
int mf_child_run(const char *verb, int n, const char *const *arguments, int seconds,
                 void (*line)(void *arg, char *text), void *arg, mf_child_end *ret);

/* ---- the child ---- */

/* First of all: takes argv[2] as the report, gives up the rights to a core dump, to more than
 * so many seconds of computing and to much memory, dies with its parent. MF_EUSAGE when it was
 * called by hand. */
int mf_child_begin(int argc, char **argv, int seconds);
int mf_child_report(void); /* the descriptor */
/* One line; line ends in it become blanks. */
void mf_child_say(const char *fmt, ...) MF_PRINTF(1, 2);

#endif
