/* lab/bench/router_list.h: parses the routers on a command line.
 *
 *   NAME | NAME:KEY=VALUE+KEY=VALUE... | all | recommended     separated by commas
 *
 * "all" means every installed router, in order of names. "recommended" means the routers of
 * lab/plugin_groups.h. Both skip routers that the list also names. NAME is a plugin's name or
 * path. KEY is an option of the router, or SECTION.KEY of the configuration if the command
 * reads a configuration. A '+' ends a value only before a letter, so 1e+3 stays a number. In an
 * entry that is not part of a list, ',' has the same meaning as '+'. */
#ifndef MF_LAB_ROUTER_LIST_H
#define MF_LAB_ROUTER_LIST_H

#include "base/mem.h"

#include <stdbool.h>

typedef struct mf_router_entry {
    const char *label; /* the entry as given */
    const char *plugin;
    int n_options;
    const char *const *assignments; /* [n_options] "router.KEY=VALUE", "SECTION.KEY=VALUE" */
    bool general; /* the entry comes from all or recommended; the user has not named it, so it
                   * need not fit the model */
} mf_router_entry;

/* Parses one entry. The result is in the arena. Fails with MF_EUSAGE for a wrong entry, or
 * with MF_ENOMEM. */
int mf_router_entry_read(mf_arena *arena, const char *text, mf_router_entry *ret);
/* Parses a list; text NULL: all. The result is in the arena. Fails with MF_EUSAGE if the list
 * is empty, or if an entry is wrong or occurs twice. */
int mf_router_list(mf_arena *arena, const char *text, mf_router_entry **ret, int *ret_n);
/* Finds an entry in list[0 .. n). *ret is the index of the entry with this label, else of the
 * first entry without options that means the same plugin file, by any name or path; -1: not
 * found. Two files with plugins of one name are two routers. Fails only for a fault of the
 * machine, because the files then cannot be compared. */
int mf_router_list_find(const mf_router_entry *list, int n, const char *text, int *ret);

#endif
