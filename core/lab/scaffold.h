/* lab/scaffold.h: the folder of a new plugin, written from templates. */
#ifndef MF_LAB_SCAFFOLD_H
#define MF_LAB_SCAFFOLD_H

/* kind: "router", ...; name: of the plugin, [a-z][a-z0-9_]*; folder: where, NULL for ./NAME.
 * The folder must not be there yet. *ret_folder: for mf_free. MF_EUSAGE, MF_EIO; nothing is
 * left after a failure. */
int mf_scaffold(const char *kind, const char *name, const char *folder, char **ret_folder);

#endif
