/* plugin/file.h: whether a file may be mapped as a plugin at all; nothing of it is run. */
#ifndef MF_PLUGIN_FILE_H
#define MF_PLUGIN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* Opens path and checks it: a regular file that nobody else can change (unless unsafe), a
 * shared object of this machine's kind, complete. The caller owns *ret_fd. MF_EPLUGIN without
 * the path in the message. */
int mf_plugin_file_open(const char *path, bool unsafe, int *ret_fd, struct stat *ret_stat);

#endif
