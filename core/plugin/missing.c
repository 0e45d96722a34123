/* plugin/missing.c: replacements for functions that this moefw does not have. None of them
 * returns, because a plugin that called one could not continue. */
#include "plugin/missing.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "plugin/crash.h"
#include "plugin/instance_internal.h"

enum { TRAPS = 16 };
static size_t first_missing;

/* Writes the name of function number i from the list in the plugin; "" if the list
 * is shorter. */
static void name_of(const mf_loaded *p, size_t i, char *out, size_t size)
{
    const char *at = p && p->host_names ? strchr(p->host_names, ':') : NULL;
    at = at ? at + 2 : "";
    for (; i > 0 && *at != '\0'; i--)
        at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' ');
    snprintf(out, size, "%.*s", (int)strcspn(at, " "), at);
}

/* i: the index of one of the TRAPS, or TRAPS for any later function. */
static _Noreturn void missing(size_t i)
{
    static char function[160];
    static mf_site site;
    char name[64] = "", number[64];
    const mf_ctx *ctx = mf_instance_now();
    const mf_site *now = mf_crash_site(NULL);
    if (i < TRAPS) name_of(ctx ? ctx->plugin : NULL, first_missing + i, name, sizeof name);
    snprintf(number, sizeof number, "function number %zu%s", first_missing + i + 1,
             i < TRAPS ? "" : " or a later one");
    fprintf(stderr,
            "moefw: plugin %s called mf->%s, which this moefw does not have: expected it to "
            "ask MF_HAS before; get a newer moefw\n",
            ctx ? ctx->plugin->name : "of a newer moefw", name[0] != '\0' ? name : number);
    snprintf(function, sizeof function, "%s, in mf->%s of a newer moefw",
             now ? now->function : "an op", name[0] != '\0' ? name : number);
    if (now) {
        site = *now;
        site.function = function;
        mf_crash_site(&site);
    }
    abort();
}

#define TRAP(i)                                                                                \
    static void trap_##i(void)                                                                 \
    {                                                                                          \
        missing(0x##i);                                                                        \
    }
TRAP(0)
TRAP(1)
TRAP(2)
TRAP(3)
TRAP(4)
TRAP(5)
TRAP(6)
TRAP(7)
TRAP(8)
TRAP(9)
TRAP(a)
TRAP(b)
TRAP(c)
TRAP(d)
TRAP(e)
TRAP(f)

/* Each of the sixteen traps has its own number; all later functions share this trap. */
static void trap_later(void)
{
    missing(TRAPS);
}

void mf_missing_fill(void (**to)(void), size_t n, size_t first)
{
    static void (*const traps[TRAPS])(void) = {trap_0, trap_1, trap_2, trap_3, trap_4, trap_5,
                                               trap_6, trap_7, trap_8, trap_9, trap_a, trap_b,
                                               trap_c, trap_d, trap_e, trap_f};
    first_missing = first;
    for (size_t i = 0; i < n; i++)
        to[i] = i < TRAPS ? traps[i] : trap_later;
}

void mf_missing_tell(const mf_loaded *p)
{
    const size_t own = sizeof(mf_host), its = p->descriptor->host_size;
    char name[64];
    if (its <= own) return;
    name_of(p, (own - offsetof(mf_host, fail)) / sizeof(void (*)(void)), name, sizeof name);
    mf_log(MF_LOG_WARN,
           "plugin %s was built for a newer moefw: it knows %zu functions that this one does "
           "not have%s%s; it works if it asks MF_HAS before it calls them",
           p->name, (its - own) / sizeof(void (*)(void)), name[0] != '\0' ? ", first mf->" : "",
           name);
}
