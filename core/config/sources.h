/* config/sources.h: reads the sources of a configuration, in which later ones
 * replace earlier ones. */
#ifndef MF_CONFIG_SOURCES_H
#define MF_CONFIG_SOURCES_H

#include "base/text/ini.h"
#include "plugin/option.h"

/* One value from the command line. */
typedef struct mf_assignment {
    const char *text;   /* "section.key=value" */
    const char *origin; /* for messages: "--set", "--steps", "--plugin" */
} mf_assignment;

/* Loads the sources, from weak to strong: system INI, user INI, the preset that CONFIG
 * includes, CONFIG (a file, a folder with config.ini, or a preset's name; NULL: the default
 * preset), then the assignments in their order. Old keys get their new names
 * (config/aliases.h). *ret_given: the unchanged sources, freed by the caller even after a
 * failure. *ret_name, from the arena: name of the run directory. Entries that the plugin of a
 * later source need not know are marked optional. */
int mf_config_sources(mf_ini *ini, mf_arena *arena, const char *config, int n,
                      const mf_assignment *assignments, mf_ini **ret_given,
                      const char **ret_name);

/* Path of the preset's file, from the arena. MF_ENOTFOUND with the nearest name. at: the entry
 * that names the preset, may be NULL. */
int mf_config_preset(mf_arena *arena, const char *name, const mf_ini_entry *at,
                     const char **ret_path);

/* Names of presets, sorted, NULL-terminated, from the arena; empty if there are none. */
const char *const *mf_config_preset_names(mf_arena *arena);

#endif
