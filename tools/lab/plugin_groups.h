/* lab/plugin_groups.h: which plugins belong together. The names are in share/plugin_groups.ini,
 * because the program's code contains no names of plugins. Without that file no plugin has
 * a group. */
#ifndef MF_LAB_PLUGIN_GROUPS_H
#define MF_LAB_PLUGIN_GROUPS_H

#include "plugin/load/find.h"

typedef struct mf_plugin_groups mf_plugin_groups;

/* Reads the file. A missing file results in no groups. A wrong line fails with MF_ECONFIG. Can
 * also fail with MF_ENOMEM. The result is in the arena. */
int mf_plugin_groups_read(mf_arena *arena, mf_plugin_groups **ret);
/* The group of a plugin, in words ("even loads"), and its index among the groups of the kind.
 * If the plugin has no group, returns NULL, with an index after all groups. */
const char *mf_plugin_group_of(const mf_plugin_groups *f, mf_kind kind, const char *name,
                               int *ret_place);
/* Returns the routers of `--routers recommended`, separated by commas. Fails with MF_ENOTFOUND
 * if there is no file. */
int mf_recommended_routers(mf_arena *arena, const char **ret);

#endif
