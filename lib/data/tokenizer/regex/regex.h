/* data/tokenizer/regex/regex.h: regular expressions that cut texts into words, as published
 * tokenizers contain them. They are read as the package tokenizers reads them (Oniguruma, the
 * syntax of Ruby). The first alternative that leads to a match wins, but nothing is tried
 * twice: the time is proportional to the length of the text, whatever the expression is.
 *
 * A text is read twice. The first reading goes from the end to the beginning. For each
 * character it finds the set of nodes from which the expression can be completed there. The
 * second reading goes forward, and at each node it takes the first alternative in this set.
 * Sets are numbered, and transitions between them are remembered. */
#ifndef MF_DATA_REGEX_H
#define MF_DATA_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MF_REGEX_TEXT = 65536, /* greatest length of an expression in bytes */
    MF_REGEX_NODES = 4096, /* greatest number of nodes after repetitions are unrolled */
    MF_REGEX_SETS = 240,   /* greatest number of different characters and classes */
    MF_REGEX_DEPTH = 64    /* greatest nesting of groups and classes */
};

typedef struct mf_regex mf_regex; /* never changes, so threads may share it */
/* Reads an expression, UTF-8 of n bytes. The caller frees the result. where: names it in
 * messages. MF_EINPUT, with the position, for a construct that is not supported and for an
 * expression that exceeds a limit; MF_ENOMEM. */
int mf_regex_new(const char *where, const char *text, size_t n, mf_regex **ret);
void mf_regex_free(mf_regex *r);

/* Finds the matches in texts, one text after another. Keeps what it has learned for the next
 * text. One thread uses it at a time. */
typedef struct mf_regex_scan mf_regex_scan;
int mf_regex_scan_new(const mf_regex *r, mf_regex_scan **ret); /* MF_ENOMEM */
void mf_regex_scan_free(mf_regex_scan *s);
/* Begins a text, valid UTF-8 of n bytes, which must remain until the last match. */
int mf_regex_scan_begin(mf_regex_scan *s, const char *text, size_t n);
/* Finds the next match. A match may be empty, but not at the end of the match before it.
 * *found false: there is none. The only error is MF_ENOMEM. */
int mf_regex_scan_next(mf_regex_scan *s, size_t *begin, size_t *end, bool *found);
/* Returns the number of characters that were read so far, plus that of the nodes visited. */
uint64_t mf_regex_scan_steps(const mf_regex_scan *s);

#endif
