/* plugin/load/find.h: finds the file of a plugin.
 *
 * A text that contains '/' or ends in ".so" is a file. One that begins with '/', "./" or "../"
 * is searched as given; others below each plugin folder ("routers/x.so" finds the installed
 * one), and only then as given, if they contain '/': never a bare name in the current folder.
 * Any other text is a name: it is searched in the drop-in INI files, then in each plugin
 * folder as <folder>/<kind>s/NAME.so and as <folder>/NAME.so, whose kind stands in the file.
 * Directly in a folder, backend_*.so are backends of devices, and a shared object that exports
 * no descriptor is a library that some plugin needs: neither is a plugin.
 *
 * Plugin folders: the absolute elements of MOEFW_PLUGIN_PATH, $XDG_DATA_HOME/moefw/plugins, the
 * program's own. Drop-ins: $XDG_CONFIG_HOME/moefw/plugins.d, then the program's own:
 *
 *     [plugin NAME]
 *     kind = router
 *     file = routers/x.so      absolute; or below a plugin folder; or ./x.so beside the INI
 *
 * The first that is found hides later ones of the same kind and name. A plugin that is part of
 * the program (mf_plugin_register) hides them all. No plugin is loaded here: of a file that
 * lies directly in a plugin folder the bytes of its descriptor are read. */
#ifndef MF_PLUGIN_FIND_H
#define MF_PLUGIN_FIND_H

#include <moefw/plugin.h>
#include <stdbool.h>
#include "base/mem.h"

typedef struct mf_found {
    mf_kind kind;       /* 0: the kind that the file declares */
    const char *name;   /* name that the descriptor must have; NULL: any */
    const char *path;   /* of the plugin's file; NULL if `fault` is set */
    const char *dropin; /* "file:line" of the drop-in that named it, or NULL */
    const char *fault;  /* what is wrong with the drop-in; NULL: nothing */
    bool own;           /* came with the program */
    bool as_given;      /* a path that is in no plugin folder */
    /* the plugin if it is part of the program (plugin/load/open.h); path is then
     * "(this program)" */
    const struct mf_loaded *linked;
} mf_found;

const char *mf_kind_name(mf_kind kind);   /* "router"; NULL if unknown */
const char *mf_kind_a_name(mf_kind kind); /* "an expert" */
const char *mf_kind_folder(mf_kind kind); /* "routers" */
mf_kind mf_kind_of(const char *name);     /* 0 if unknown */

/* what: a name or a file; kind 0: any. file, line: the configuration line that names it, NULL
 * for the command line. MF_ENOTFOUND: the message has the nearest name, the folders that were
 * searched and, for a name, the known ones. MF_ECONFIG: a name of several kinds or of another
 * kind, or an invalid drop-in. */
int mf_find(mf_arena *arena, const char *what, mf_kind kind, const char *file, int line,
            mf_found *ret);
/* All plugins in drop-ins and plugin folders, sorted by kind and name; without those that are
 * part of the program. kind 0: any. */
int mf_find_all(mf_arena *arena, mf_kind kind, mf_found **ret, int *ret_n);
/* The plugin folders in order, NULL-terminated, including those that do not exist. */
const char *const *mf_find_folders(mf_arena *arena);

#endif
