/* lab/scaffold.h: creates the folder of a new plugin from templates. */
#ifndef MF_LAB_SCAFFOLD_H
#define MF_LAB_SCAFFOLD_H

/* kind: "router", ...; name: name of the plugin, [a-z][a-z0-9_]*; folder: path, which must not
 * exist; NULL: ./NAME. *ret_folder: the folder; the caller frees it with mf_free. MF_EUSAGE or
 * MF_EIO; then the folder does not exist. */
int mf_scaffold(const char *kind, const char *name, const char *folder, char **ret_folder);

#endif
