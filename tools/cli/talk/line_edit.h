/* cli/talk/line_edit.h: lines that a person types, with editing and a history on a terminal. */
#ifndef MF_CLI_LINE_EDIT_H
#define MF_CLI_LINE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the prompt to standard error and reads a line of standard input, without its end. If
 * all three standard streams are terminals and libedit is there, the line can be edited, and
 * earlier ones come back with the arrow keys. *ret_long: the line was longer than size - 2
 * bytes; its rest was skipped. Returns false at the end of the input. */
bool mf_line_read(const char *prompt, char *line, size_t size, bool *ret_long);

/* NULL if libedit is there, else the command that adds it. */
const char *mf_line_lacks(void);

#endif
