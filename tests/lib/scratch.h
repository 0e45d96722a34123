/* scratch.h: a folder of its own for each test program, removed at its end. */
#ifndef MF_TESTS_SCRATCH_H
#define MF_TESTS_SCRATCH_H

#include <stddef.h>

/* Path of the folder, made on first use below TMPDIR or /tmp. */
const char *scratch_dir(void);
/* Path of a name in it. Good to the end of the program. */
const char *scratch_path(const char *name);
/* Writes or reads a whole file by stdio, past the IO table. NULL when there is none; free() it.
 */
void scratch_write(const char *path, const void *data, size_t n);
char *scratch_read(const char *path, size_t *ret_n);

#endif
