/* plugin/output.h: keeps standard output for the program, also while a plugin runs.
 *
 * Text that a third-party plugin prints would mix with results, and break JSON. While one of
 * its functions runs, descriptor 1 is a file in memory. Afterwards its lines are written to
 * standard error, each with the plugin and the function. Only a program may do so: a library
 * must not change the descriptors of its host. */
#ifndef MF_PLUGIN_OUTPUT_H
#define MF_PLUGIN_OUTPUT_H

#include <stdbool.h>

/* Call this in the program's main, before it starts threads. Without it the other functions
 * do nothing. */
void mf_output_watch(void);
/* Call this when a third-party plugin is about to be mapped. After this mf_output_begin and
 * mf_output_end take effect. */
void mf_output_needed(void);
/* Call these before and after a call of a plugin. They may be nested; only the outermost pair
 * takes effect, and only on the thread that called mf_output_watch. plugin, function, path:
 * texts for the lines; path may be NULL. */
void mf_output_begin(void);
void mf_output_end(const char *plugin, const char *function, const char *path);
/* Writes to standard error what a plugin that will not return has printed so far. It calls only
 * functions that a signal handler may call. */
void mf_output_rescue(void);
/* Call this when the program has written its results. Text that plugins print later goes to
 * standard error. */
void mf_output_close(void);

#endif
