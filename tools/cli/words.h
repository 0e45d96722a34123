/* cli/words.h: the words that completion scripts ask the program for, one per line. */
#ifndef MF_CLI_WORDS_H
#define MF_CLI_WORDS_H

/* Prints the words of one kind: presets, runs (in this folder and in runs/), plugins, those of
 * one kind (routers, experts, ...), keys (SECTION.KEY), the values of a key, columns (what runs
 * are sorted and chosen by), kinds (of plugins that can be begun), tokenizers (that can be
 * made). key: only for values. MF_EUSAGE: no such kind. */
int mf_words_print(const char *kind, const char *key);

#endif
