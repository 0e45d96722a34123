/* base/hint.c: hints that a program adds to messages. They are set before any thread is
 * started, and are only read afterwards. */
#include "base/hint.h"

#include <stddef.h>

static const char *const *given;

void mf_hints_set(const char *const *hints)
{
    given = hints;
}

const char *mf_hint_text(mf_hint hint)
{
    return given && given[hint] ? given[hint] : "";
}
