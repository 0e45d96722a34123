/* plugin/load/find.h: finds the file of a plugin.
 *
 * A text that contains '/' or ends in ".so" is a file. If it begins with '/', "./" or "../", it
 * is searched under exactly this path. Otherwise it is searched below each plugin folder
 * ("routers/x.so" finds the installed file). If it contains '/', it is then also searched
 * relative to the current folder; a bare name never is. Any other text is a name: it is
 * searched in the drop-in INI files, then in each plugin folder as <folder>/<kind>s/NAME.so and
 * as <folder>/NAME.so, whose kind is read from the file. Directly in a folder, backend_*.so are
 * backends of devices, and a shared object that exports no descriptor is a library that some
 * plugin needs: neither is a plugin.
 *
 * Plugin folders: the absolute elements of MOEFW_PLUGIN_PATH, $XDG_DATA_HOME/moefw/plugins, the
 * program's own. Drop-ins: $XDG_CONFIG_HOME/moefw/plugins.d, then the program's own:
 *
 *     [plugin NAME]
 *     kind = router
 *     file = routers/x.so      absolute; or below a plugin folder; or ./x.so beside the INI
 *
 * The first entry that is found hides later entries of the same kind and name. A plugin that is
 * part of the program (mf_plugin_register) hides all other entries. No plugin is loaded here.
 * For a file that is directly in a plugin folder, the bytes of its descriptor are read. */
#ifndef MF_PLUGIN_FIND_H
#define MF_PLUGIN_FIND_H

#include <moefw/plugin.h>
#include <stdbool.h>
#include "base/mem.h"

typedef struct mf_found {
    mf_kind kind;       /* 0: the kind that the file declares */
    const char *name;   /* required name of the descriptor; NULL: any */
    const char *path;   /* path of the plugin's file; NULL if `fault` is set */
    const char *dropin; /* "file:line" of the drop-in that named it, or NULL */
    const char *fault;  /* error of the drop-in; NULL: none */
    bool own;           /* the file is part of the program's installation */
    bool as_given;      /* the path was given directly and is in no plugin folder */
    /* the plugin if it is part of the program (plugin/load/open.h); path is then
     * "(this program)" */
    const struct mf_loaded *linked;
} mf_found;

const char *mf_kind_name(mf_kind kind);   /* returns for example "router"; NULL if unknown */
const char *mf_kind_a_name(mf_kind kind); /* returns for example "an expert" */
const char *mf_kind_folder(mf_kind kind); /* returns for example "routers" */
mf_kind mf_kind_of(const char *name);     /* 0 if unknown */

/* Finds a plugin. what: a name or a file; kind 0: any. file, line: the configuration line that
 * names the plugin; file NULL: the command line names it. MF_ENOTFOUND: the message contains
 * the nearest name, the folders that were searched and, for a name, the known names.
 * MF_ECONFIG: the name belongs to several kinds or to another kind, or a drop-in is invalid. */
int mf_find(mf_arena *arena, const char *what, mf_kind kind, const char *file, int line,
            mf_found *ret);
/* Lists all plugins in drop-ins and plugin folders, sorted by kind and name, without plugins
 * that are part of the program. kind 0: any. */
int mf_find_all(mf_arena *arena, mf_kind kind, mf_found **ret, int *ret_n);
/* Returns the plugin folders in order, NULL-terminated, including folders that do not exist. */
const char *const *mf_find_folders(mf_arena *arena);

#endif
