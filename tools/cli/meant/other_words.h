/* cli/meant/other_words.h: suggestions for a user who writes verbs or options of
 * other programs. */
#ifndef MF_CLI_OTHER_WORDS_H
#define MF_CLI_OTHER_WORDS_H

#include "cli/cli.h"

/* The command to suggest for an unknown verb, such as "moefw generate RUN" for "chat"; NULL if
 * none is known. */
const char *mf_cli_other_verb(const char *word);

/* Writes a suggestion for an unknown option of the verb (NULL: train), such as "did you mean
 * '--set train.lr=1e-4'?" for --lr=1e-4. value: the option's argument, or the next word; NULL
 * if there is none. If nothing is known, returns false and leaves buf unchanged. */
bool mf_cli_other_option(const mf_verb *verb, const char *name, const char *value, char *buf,
                         size_t size);

/* Writes the complete key for a --set without a section, such as "train.lr=1e-4" for "lr=1e-4".
 * Returns false if no section has such a key. */
bool mf_cli_other_set(const char *text, char *buf, size_t size);

#endif
