/* lab/bench/router_list.h: parses the routers given on a command line.
 *
 *     NAME | NAME:KEY=VALUE+KEY=VALUE... | all | recommended     separated by commas
 *
 * all stands for every installed router, in order of names, recommended for those of
 * lab/plugin_groups.h; routers that the list also names are not added again. NAME is a plugin's
 * name or path. KEY is an option of the router, or SECTION.KEY of the configuration if the
 * command reads one. A '+' ends a value only before a letter, so that 1e+3 stays a number. In
 * an entry that is not part of a list, ',' does the same as '+'. */
#ifndef MF_LAB_ROUTER_LIST_H
#define MF_LAB_ROUTER_LIST_H

#include "base/mem.h"

#include <stdbool.h>

typedef struct mf_router_entry {
    const char *label; /* the entry as given */
    const char *plugin;
    int n_options;
    const char *const *assignments; /* [n_options] "router.KEY=VALUE", "SECTION.KEY=VALUE" */
    bool general; /* of all or recommended: nobody has named it, so it need not fit the model */
} mf_router_entry;

/* Parses one entry. The result is in the arena. MF_EUSAGE for a wrong entry, MF_ENOMEM. */
int mf_router_entry_read(mf_arena *arena, const char *text, mf_router_entry *ret);
/* Parses a list; NULL: all. The result is in the arena. Fails with MF_EUSAGE if the list is
 * empty, or if an entry is wrong or occurs twice. */
int mf_router_list(mf_arena *arena, const char *text, mf_router_entry **ret, int *ret_n);
/* *ret: which of list[0 .. n) is this: the entry with this label, else the first without
 * options that is the same plugin file, by whatever name or path; -1: none. Two files with
 * plugins of one name are two routers. Fails only if the machine does, since that says nothing
 * of the files. */
int mf_router_list_find(const mf_router_entry *list, int n, const char *text, int *ret);

#endif
