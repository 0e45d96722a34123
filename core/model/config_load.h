/* model/config_load.h: inside the configuration: its sources, laid over one another. */
#ifndef MF_MODEL_CONFIG_LOAD_H
#define MF_MODEL_CONFIG_LOAD_H

#include "model/config.h"
#include "plugin/judge.h"

/* Loads all sources into ini. *ret_name, from the arena: what the run directory is called.
 * Entries that a later source's plugin need not know are marked optional. */
int mf_config_sources(mf_ini *ini, mf_arena *arena, const char *config, int n,
                      const mf_assignment *assignments, const char **ret_name);

/* Path of the preset's file, from the arena. MF_ENOTFOUND, with the nearest name. at: where it
 * was asked for, may be NULL. */
int mf_config_preset(mf_arena *arena, const char *name, const mf_ini_entry *at,
                     const char **ret_path);

/* Names of presets, sorted, NULL-terminated, from the arena; empty when there are none. */
const char *const *mf_config_preset_names(mf_arena *arena);

/* The plugin of a section and its options (*ret_conf, from the arena), judged. */
int mf_config_plugin(const mf_config *c, const mf_plugin_section *p, mf_arena *arena,
                     const mf_problem_sink *sink, const mf_loaded **ret, void **ret_conf);

#endif
