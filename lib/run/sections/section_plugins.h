/* sections/section_plugins.h: loads the plugins that a configuration names, and checks
 * their options. */
#ifndef MF_SECTIONS_SECTION_PLUGINS_H
#define MF_SECTIONS_SECTION_PLUGINS_H

#include "config/section.h"

/* Loads the plugin of a section and checks its options (*ret_conf, from the arena). Errors:
 * those of mf_plugin_load; MF_ECONFIG. */
int mf_section_plugin(const mf_plugin_section *p, mf_ini *ini, mf_arena *arena,
                      const mf_problem_sink *sink, const mf_loaded **ret, void **ret_conf);
/* Loads and checks the plugins of all plugin sections of conf, except sections for which
 * `unused` returns true (unused may be NULL). Errors: those of mf_plugin_load; MF_ECONFIG. The
 * sink receives all errors. */
int mf_sections_open_plugins(const mf_section_at *all, const void *conf, mf_ini *ini,
                             mf_arena *arena,
                             bool (*unused)(const void *conf, const mf_plugin_section *p),
                             const mf_problem_sink *sink);

/* Makes the text "SECTION.plugin=WHAT", an assignment that replaces the configured plugin of
 * that kind. For kinds that may occur several times, the assignment adds a section with the
 * plugin's name. The caller frees *ret with mf_free. MF_ENOMEM. */
int mf_section_plugin_place(mf_kind kind, const char *name, const char *what, char **ret);

#endif
