/* child.h: calls that end a process. */
#ifndef MF_TESTS_CHILD_H
#define MF_TESTS_CHILD_H

#include <stddef.h>

/* Calls work(arg) in a child, which writes no core file and ends with status 0 if the call
 * returns. Returns the child's status, as waitpid returns it. text [size]: what the child has
 * written to stderr; NULL: stderr is that of the test. */
int child_status(void (*work)(void *arg), void *arg, char *text, size_t size);

#endif
