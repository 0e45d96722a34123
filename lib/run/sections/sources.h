/* run/sections/sources.h: reads the sources of a configuration, and fills the structs of its
 * sections from them. Entries of later sources override earlier ones. */
#ifndef MF_SECTIONS_SOURCES_H
#define MF_SECTIONS_SOURCES_H

#include "base/text/ini.h"
#include "config/section.h"
#include "plugin/option.h"

/* One value from the command line. */
typedef struct mf_assignment {
    const char *text;   /* for example "section.key=value" */
    const char *origin; /* option of the command line, for messages: "--set",
                         * "--steps", "--plugin" */
} mf_assignment;

/* The end of the first line of a text that mf_config_write has written. The line is a comment.
 * Such a text is complete. */
#define MF_CONFIG_COMPLETE ": every key resolved."

/* Loads the sources, from the weakest to the strongest: system INI, user INI, the preset that
 * CONFIG includes, CONFIG (a file, a folder with config.ini, or a preset's name; NULL: the
 * default preset), then the assignments in their order. Old keys are replaced by their new
 * names (config/aliases.h). *ret_given: the unchanged sources, including the entries that were
 * refused, which are no error here; the caller frees it even after a failure. *ret_name, from
 * the arena: the name of runs, without a number. If a later source names another plugin for a
 * section, the section's earlier entries are marked as optional.
 *
 * If CONFIG is complete, it describes a run, to which no system or user may add a key or a
 * section. From their files only the keys that `all` marks as local are used. Two kinds of
 * files are complete: the config.ini of a run, which is beside manifest.json, and a file whose
 * first line ends with MF_CONFIG_COMPLETE. */
int mf_config_sources(const mf_section_at *all, mf_ini *ini, mf_arena *arena,
                      const char *config, int n, const mf_assignment *assignments,
                      mf_ini **ret_given, const char **ret_name);

/* Finds a preset; *ret_path is the path of its file, from the arena. at: the entry that names
 * the preset; may be NULL. Fails with MF_ENOTFOUND, or with MF_ECONFIG if `at` is not NULL; the
 * message names the nearest preset. */
int mf_config_preset(mf_arena *arena, const char *name, const mf_ini_entry *at,
                     const char **ret_path);

/* Returns a short description of a preset, from the arena: the first sentence of the comment
 * that opens its file, up to a colon, semicolon or parenthesis, without the preset's name. "":
 * the file has no such comment. Fails like mf_config_preset. */
int mf_config_preset_brief(mf_arena *arena, const char *name, const char **ret);

/* Returns the names of presets, sorted, NULL-terminated, from the arena; empty if there
 * are none. */
const char *const *mf_config_preset_names(mf_arena *arena);

/* Checks all of ini and fills the structs of `conf`, which must be zeroed; memory comes from
 * the arena. With a sink, wrong values are passed to the sink and reading continues; *ret_first
 * is the code of the first wrong value. Without a sink the first error is returned. */
int mf_sections_load(const mf_section_at *all, void *conf, mf_ini *ini, mf_arena *arena,
                     const mf_problem_sink *sink, int *ret_first);

#endif
