/* config/aliases.h: old names of keys, live options and words, and what they mean now.
 *
 * aliases.c is the one file of core that knows single papers by name: keys that stood in
 * [model] and in a section of their own became sections [adapter.NAME], and files and command
 * lines that use the old names go on meaning the same.
 */
#ifndef MF_CONFIG_ALIASES_H
#define MF_CONFIG_ALIASES_H

#include "base/text/ini.h"
#include "plugin/instance.h"

/* Copies `from` into the empty `to` with new names for old ones; a section "adapter NAME"
 * becomes "adapter.NAME". end [n_sources]: on entry how many entries of `from` belong to
 * source i or an earlier one, in the end the same of `to`. MF_ECONFIG with file:line for
 * values that an old key did not take. */
int mf_config_translate(mf_ini *from, mf_ini *to, int n_sources, int *end);
/* For each old key of `from` that is in force, a sentence that says what it is now: told to
 * note. file and line are where it stands. */
void mf_config_translations(mf_ini *from,
                            void (*note)(void *arg, const char *file, int line,
                                         const char *text),
                            void *arg);
/* Sections that old keys switch off and on: the i-th, and the plugin that it has when it is
 * on. NULL past the end. Their other keys are judged even while they are off. */
const char *mf_config_switched(int i, const char **ret_plugin);
/* Old names of live options. */
int mf_config_alias_live(mf_plughost *h);
/* The old name of the flag that switches skips on, and what an old word for an option of the
 * command line is called now: itself, if it is not old. */
extern const char mf_alias_skips_flag[];
const char *mf_alias_word(const char *option, const char *word);

#endif
