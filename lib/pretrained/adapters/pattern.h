/* adapters/pattern.h: the keys of PEFT's alpha_pattern, rank_pattern and target_modules, which
 * are regular expressions of Python. */
#ifndef MF_PRETRAINED_PATTERN_H
#define MF_PRETRAINED_PATTERN_H

#include <stdbool.h>

enum { MF_PATTERN_TEXT = 1024 }; /* greatest length in bytes of a name that is compared */

/* Whether a key matches a name as in PEFT: re.match("(.*\\.)?(KEY)$", name). The expression
 * must match the whole name, or everything after one of its dots. It may contain letters, .,
 * classes in brackets, \d \w \s, groups, |, the quantifiers * + ? {m,n} (also lazy ones), ^ and
 * $. MF_EINPUT for everything else: other groups and escapes, and expressions that Python
 * refuses. where: file and key, for messages. */
int mf_pattern_means(const char *where, const char *key, const char *name, bool *ret);
/* Whether the expression matches the whole name: re.fullmatch(KEY, name). */
int mf_pattern_is(const char *where, const char *key, const char *name, bool *ret);

#endif
