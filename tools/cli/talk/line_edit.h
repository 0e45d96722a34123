/* cli/talk/line_edit.h: reads lines that a person types, with editing and a history on
 * a terminal. */
#ifndef MF_CLI_LINE_EDIT_H
#define MF_CLI_LINE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the prompt to standard error and reads a line of standard input, without its line end.
 * If all three standard streams are terminals and libedit is installed, the line can be edited,
 * and the arrow keys recall earlier lines. *ret_long: whether the line was longer than size - 2
 * bytes; the rest of such a line was skipped. Returns false at the end of the input. */
bool mf_line_read(const char *prompt, char *line, size_t size, bool *ret_long);

/* NULL if libedit is installed, else the command that installs it. */
const char *mf_line_lacks(void);

#endif
