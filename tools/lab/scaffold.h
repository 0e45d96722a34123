/* lab/scaffold.h: creates the folder of a new plugin from templates. */
#ifndef MF_LAB_SCAFFOLD_H
#define MF_LAB_SCAFFOLD_H

#include <stdbool.h>

/* Creates the folder. kind: "router", "expert", "regularizer", "controller", "adapter", or "op"
 * for a router with ops of its own. name: name of the plugin, [a-z][a-z0-9_]*, at most 64
 * characters and not a keyword of C. cuda: adds a kernel for GPUs, only with "op". folder:
 * path; NULL: ./NAME. *ret_folder: the path; the caller frees it with mf_free. Fails with
 * MF_EUSAGE for other arguments, if the path exists, or if its parent does not exist, with
 * MF_ENOMEM, or with the error of reading or writing a file. After a failure the folder that
 * the call created is removed. */
int mf_scaffold(const char *kind, const char *name, const char *folder, bool cuda,
                char **ret_folder);

#endif
