/* lab/plugin_groups.h: which plugins go together. The names are in share/plugin_groups.ini,
 * because the program names no plugin; without that file no plugin has a group. */
#ifndef MF_LAB_PLUGIN_GROUPS_H
#define MF_LAB_PLUGIN_GROUPS_H

#include "plugin/load/find.h"

typedef struct mf_plugin_groups mf_plugin_groups;

/* Reads the file. A file that is missing gives no groups; a wrong line fails with MF_ECONFIG.
 * Also MF_ENOMEM. The result is in the arena. */
int mf_plugin_groups_read(mf_arena *arena, mf_plugin_groups **ret);
/* The group of a plugin, as words ("even loads"), and its place among the groups of the
 * kind, from 0; NULL, with a place behind all others: it has none. */
const char *mf_plugin_group_of(const mf_plugin_groups *f, mf_kind kind, const char *name,
                               int *ret_place);
/* The routers of `--routers recommended`, separated by commas; MF_ENOTFOUND: no file. */
int mf_recommended_routers(mf_arena *arena, const char **ret);

#endif
