/* cli/words.h: the words that completion scripts ask the program for, one per line. */
#ifndef MF_CLI_WORDS_H
#define MF_CLI_WORDS_H

/* Prints the words of one kind: presets, runs (in this folder and in runs/), plugins, plugins
 * of one kind (routers, experts, ...), keys (SECTION.KEY), values of a key, columns (by which
 * moefw runs sorts and filters), kinds (of plugins that moefw plugin new can write), tokenizers
 * (that can be trained). key: only for values. Fails with MF_EUSAGE for an unknown kind. */
int mf_words_print(const char *kind, const char *key);

#endif
