/* plugin/load/reach.h: whether memory that a plugin's tables point to is there.
 *
 * A damaged file, or a table that was written wrongly, may hold any address. The kernel is
 * asked to copy from it, so a wrong one is a message and not the end of the program. Where the
 * kernel does not offer this, every address counts as good. For any thread. */
#ifndef MF_PLUGIN_REACH_H
#define MF_PLUGIN_REACH_H

#include <stddef.h>

/* MF_OK if all n bytes from p on can be read; MF_EPLUGIN, with `what` in the message. p may be
 * any value. */
int mf_reach(const char *what, const void *p, size_t n);
/* The same for a text: it must end within 64 KiB. NULL is MF_OK. */
int mf_reach_text(const char *what, const char *text);
/* MF_OK if all n bytes can be written; they keep their values. */
int mf_reach_write(const char *what, void *p, size_t n);

#endif
