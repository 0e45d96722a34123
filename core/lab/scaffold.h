/* lab/scaffold.h: creates the folder of a new plugin from templates. */
#ifndef MF_LAB_SCAFFOLD_H
#define MF_LAB_SCAFFOLD_H

/* kind: "router", ...; name: of the plugin, [a-z][a-z0-9_]*; folder: path, NULL for ./NAME; it
 * must not exist. *ret_folder: the folder; the caller frees it with mf_free. Fails with
 * MF_EUSAGE or MF_EIO, and then leaves nothing behind. */
int mf_scaffold(const char *kind, const char *name, const char *folder, char **ret_folder);

#endif
