/* run/config_write.h: writes the sections of a configuration (config/section.h) as text. */
#ifndef MF_RUN_CONFIG_WRITE_H
#define MF_RUN_CONFIG_WRITE_H

#include "config/section.h"
#include <stdio.h>

/* Writes all keys with their values. In plugin sections it also writes all options of the
 * plugin. If the plugin cannot be loaded or refuses its options, it writes the keys that were
 * set. In keys for files, relative paths that exist become absolute. */
void mf_sections_write(const mf_section_at *all, const void *conf, mf_ini *ini, FILE *out);
/* Writes etc/moefw.ini: every key, commented out, with its default and help. */
void mf_sections_template(const mf_section_at *all, FILE *out);
/* Writes the key lists of moefw.ini(5), in mdoc. */
void mf_sections_manual(const mf_section_at *all, FILE *out);

#endif
