/* model/config_tables.h: the one list of core's INI sections and keys.
 *
 * From it come parsing, etc/moefw.ini, and the key lists of moefw.ini(5).
 */
#ifndef MF_MODEL_CONFIG_TABLES_H
#define MF_MODEL_CONFIG_TABLES_H

#include "model/config.h"
#include <string.h>

typedef struct mf_config_section {
    const char *name;  /* "train"; "regularizer." stands for all [regularizer.NAME] */
    const char *help;  /* one line */
    const mf_option *options;
    size_t conf_size;  /* of the struct that the options fill */
    size_t offset;     /* of that struct in mf_config; named sections: not used */
    bool plugin;       /* further keys belong to a plugin */
} mf_config_section;

extern const mf_config_section mf_config_sections[]; /* ends with a NULL name */

/* The section's description, NULL if there is none: "regularizer.x" finds "regularizer.". */
const mf_config_section *mf_config_section_find(const char *name);

/* Does it stand for any number of sections, [regularizer.NAME]? */
static inline bool mf_config_section_named(const mf_config_section *s)
{
    return s->name[strlen(s->name) - 1] == '.';
}

/* ---- made from the tables ---- */
/* etc/moefw.ini: every key, commented out, with its default and help. */
void mf_config_template(FILE *out);
/* The key lists of moefw.ini(5), in mdoc. */
void mf_config_manual(FILE *out);

#endif
