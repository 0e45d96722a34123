/* config/aliases.h: old names of keys, live options and words, and their present meaning.
 *
 * Except for lora_section.c, no other file of core has names from papers in its code. Keys that
 * were in [model] or in a section of their own became sections [adapter.NAME]. Files and
 * command lines that use the old names still have the same meaning. */
#ifndef MF_CONFIG_ALIASES_H
#define MF_CONFIG_ALIASES_H

#include "base/text/ini.h"
#include "plugin/instance.h"

/* Copies `from` into the empty `to` and replaces old names by new names. A section "adapter
 * NAME" becomes "adapter.NAME", and [lora] becomes the sections that it abbreviates
 * (config/lora_section.h). end [n_sources] is an input and an output: end[i] is the number of
 * entries of `from` that belong to source i or an earlier source, and becomes the same number
 * for `to`. Values that an old key did not accept are refused in `from`. */
int mf_config_translate(mf_ini *from, mf_ini *to, int n_sources, int *end);
/* For each old key of `from` that is in use, passes a sentence to `note` that contains its
 * present name. file, line: the position of the key. */
void mf_config_translations(mf_ini *from,
                            void (*note)(void *arg, const char *file, int line,
                                         const char *text),
                            void *arg);
/* Returns the i-th section that old keys switch on and off, and the plugin that it uses when
 * it is on; NULL after the last. The other keys of the section are checked even while it
 * is off. */
const char *mf_config_switched(int i, const char **ret_plugin);
/* Sections that abbreviate other sections, NULL-terminated. */
extern const char *const mf_alias_sections[];
/* Registers the old names of live options. */
int mf_config_alias_live(mf_plughost *h);
/* The old name of the flag that switches skips on. The function below returns the present name
 * of an old word for an option of the command line, or the word itself if it is not old. */
extern const char mf_alias_skips_flag[];
const char *mf_alias_word(const char *option, const char *word);

#endif
