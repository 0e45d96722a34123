/* plugin/find.h: which file a plugin's name stands for.
 *
 * A text that contains '/' or ends in ".so" is a file: looked up as given, then under each
 * plugin folder ("routers/x.so" finds the installed one); without '/' never in the current
 * folder. Anything else is a name: looked up in the drop-in INI files, then as
 * <folder>/<kind>s/NAME.so.
 *
 * Plugin folders: the absolute elements of MOEFW_PLUGIN_PATH, $XDG_DATA_HOME/moefw/plugins, the
 * program's own. Drop-ins: $XDG_CONFIG_HOME/moefw/plugins.d, then the program's own:
 *
 *     [plugin NAME]
 *     kind = router
 *     file = routers/x.so      absolute; or below a plugin folder; or ./x.so beside the INI
 *
 * The first that is found hides later ones of the same kind and name. Nothing is opened here.
 */
#ifndef MF_PLUGIN_FIND_H
#define MF_PLUGIN_FIND_H

#include <moefw/plugin.h>
#include <stdbool.h>
#include "base/mem.h"

typedef struct mf_found {
    mf_kind kind;       /* 0: whatever the file says */
    const char *name;   /* that the descriptor must have; NULL: whatever the file says */
    const char *path;   /* NULL when there is a fault */
    const char *dropin; /* "file:line" of the drop-in that named it, or NULL */
    const char *fault;  /* a drop-in that is wrong: what is wrong with it */
    bool own;           /* came with the program */
} mf_found;

const char *mf_kind_name(mf_kind kind);   /* "router"; NULL if unknown */
const char *mf_kind_a_name(mf_kind kind); /* "an expert" */
const char *mf_kind_folder(mf_kind kind); /* "routers" */
mf_kind mf_kind_of(const char *name);     /* 0 if unknown */

/* what: a name or a file; kind 0: any. file, line: where it was asked for, NULL for the command
 * line. MF_ENOTFOUND naming the nearest and all known; MF_ECONFIG: a name of several kinds, of
 * another kind, or a wrong drop-in. */
int mf_find(mf_arena *arena, const char *what, mf_kind kind, const char *file, int line,
            mf_found *ret);
/* All that a name can find, by kind and name. */
int mf_find_all(mf_arena *arena, mf_kind kind, mf_found **ret, int *ret_n);
/* The plugin folders in order, NULL-terminated; whether or not they exist. */
const char *const *mf_find_folders(mf_arena *arena);

#endif
