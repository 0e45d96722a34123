/* plugin/load/file.h: checks whether a file may be mapped as a plugin at all, without running
 * anything in it. */
#ifndef MF_PLUGIN_FILE_H
#define MF_PLUGIN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* Opens and checks path: a regular file that nobody else can change (unless unsafe), a complete
 * shared object for this kind of machine. The caller closes *ret_fd. MF_EPLUGIN; the message
 * does not contain the path. */
int mf_plugin_file_open(const char *path, bool unsafe, int *ret_fd, struct stat *ret_stat);

#endif
