/* scratch.h: a temporary folder for each test program, removed when it ends. */
#ifndef MF_TESTS_SCRATCH_H
#define MF_TESTS_SCRATCH_H

#include <stddef.h>

/* Path of the folder, which is created on first use in TMPDIR or /tmp. */
const char *scratch_dir(void);
/* Path of a name in the folder. Valid until the program ends. */
const char *scratch_path(const char *name);
/* These functions write or read a whole file with stdio, without the IO table. scratch_read
 * returns NULL if the file does not exist; the caller frees the text with free(). */
void scratch_write(const char *path, const void *data, size_t n);
char *scratch_read(const char *path, size_t *ret_n);

#endif
