/* plugin/output.h: standard output belongs to the program, also while a plugin runs.
 *
 * What a third-party plugin prints would mix with results, and break JSON. While one of its
 * functions runs, descriptor 1 is a file in memory; afterwards its lines are written to
 * standard error, each with the plugin and the function. Only a program may do so: a library
 * must leave the descriptors of its host alone. */
#ifndef MF_PLUGIN_OUTPUT_H
#define MF_PLUGIN_OUTPUT_H

#include <stdbool.h>

/* Call this in the program's main, before it starts threads. Without it the other functions
 * do nothing. */
void mf_output_watch(void);
/* A third-party plugin is about to be mapped: from now on mf_output_begin and mf_output_end
 * take effect. */
void mf_output_needed(void);
/* Call these around a call of a plugin. They may nest; only the outermost pair takes effect,
 * and only on the thread that called mf_output_watch. plugin, function, path: for the lines;
 * path may be NULL. */
void mf_output_begin(void);
void mf_output_end(const char *plugin, const char *function, const char *path);
/* Writes to standard error what a plugin that will not return has printed so far. Calls only
 * what a signal handler may call. */
void mf_output_rescue(void);
/* The program has written its results: what plugins print later goes to standard error. */
void mf_output_close(void);

#endif
