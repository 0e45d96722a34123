/* lacks.h: removes the kernels that MOEFW_STRICT_LACKS names from the strict device's set. This
 * simulates a device that does not have all kernels. */
#ifndef TESTS_DEVICE_LACKS_H
#define TESTS_DEVICE_LACKS_H

#include <stdbool.h>
#include <string.h>
#include "kernels/kernel.h"

/* Whether a list of words contains this word. */
static bool listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static void take_away(mf_kernels *k, const char *list)
{
    if (!list) return;
#define MF_KERNEL(fn, ...)                                                                     \
    if (listed(list, #fn) ||                                                                   \
        (listed(list, "all") && !listed("copy4 map2 set cast sumsq adamw", #fn)))              \
        k->fn = NULL;
#include "kernels/kernels.def"
}

#endif
