/* adapters/pattern.h: the keys of PEFT's alpha_pattern, rank_pattern and target_modules, which
 * are regular expressions of Python. */
#ifndef MF_PRETRAINED_PATTERN_H
#define MF_PRETRAINED_PATTERN_H

#include <stdbool.h>

enum { MF_PATTERN_TEXT = 1024 }; /* bytes of the longest name that is compared */

/* Whether a key means a name as PEFT has it: re.match("(.*\\.)?(KEY)$", name), so the
 * expression must be the whole name or all behind one of its dots. It reads letters, ., classes
 * in brackets, \d \w \s, groups, |, the quantifiers * + ? {m,n} (lazy ones, too), ^ and $.
 * MF_EINPUT for everything else: other groups and escapes, and what Python refuses. where: file
 * and key, for messages. */
int mf_pattern_means(const char *where, const char *key, const char *name, bool *ret);
/* Whether the expression is the whole name: re.fullmatch(KEY, name). */
int mf_pattern_is(const char *where, const char *key, const char *name, bool *ret);

#endif
