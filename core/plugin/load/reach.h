/* plugin/load/reach.h: checks whether the memory to which a plugin's tables point exists.
 *
 * A damaged file, or a wrong table, may contain any address. A system call copies from the
 * address, so a wrong address causes a message and does not end the program. If the kernel does
 * not support this call, every address is accepted. Any thread may call these functions. */
#ifndef MF_PLUGIN_REACH_H
#define MF_PLUGIN_REACH_H

#include <stddef.h>

/* Returns MF_OK if all n bytes from p on can be read, else MF_EPLUGIN with `what` in the
 * message. p may be any value. */
int mf_reach(const char *what, const void *p, size_t n);
/* Like mf_reach, for a text, which must end within 64 KiB. NULL is MF_OK. */
int mf_reach_text(const char *what, const char *text);
/* Returns MF_OK if all n <= 256 bytes can be written; the bytes keep their values. */
int mf_reach_write(const char *what, void *p, size_t n);

#endif
