/* child.h: calls that end a process. */
#ifndef MF_TESTS_CHILD_H
#define MF_TESTS_CHILD_H

#include <stddef.h>

/* Calls work(arg) in a child, which writes no core file and ends with status 0 if the call
 * returns. Returns the child's status in the form of waitpid. text [size]: the child's output
 * to stderr; NULL: the child shares the stderr of the test. */
int child_status(void (*work)(void *arg), void *arg, char *text, size_t size);

#endif
