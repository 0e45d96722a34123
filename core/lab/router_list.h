/* lab/router_list.h: the routers that a command line names.
 *
 *     NAME | NAME:KEY=VALUE+KEY=VALUE...     entries are parted by commas
 *
 * NAME is a plugin's name or file. KEY is an option of the router, or SECTION.KEY of the
 * configuration where the command reads one. A '+' ends a value only before a letter, so that
 * 1e+3 stays a number.
 */
#ifndef MF_LAB_ROUTER_LIST_H
#define MF_LAB_ROUTER_LIST_H

#include "base/mem.h"

typedef struct mf_router_entry {
    const char *label;              /* as it was written */
    const char *plugin;
    int n_options;
    const char *const *assignments; /* [n_options] "router.KEY=VALUE", "SECTION.KEY=VALUE" */
} mf_router_entry;

/* One entry. MF_EUSAGE. */
int mf_router_entry_read(mf_arena *arena, const char *text, mf_router_entry *ret);
/* A list; NULL and "all": every router that is installed, by name. An entry that comes twice,
 * an empty list: MF_EUSAGE. */
int mf_router_list(mf_arena *arena, const char *text, mf_router_entry **ret, int *ret_n);

#endif
