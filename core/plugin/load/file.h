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
/* Its bytes, *st of them as mf_plugin_file_open gave it; free with mf_free. MF_ENOMEM;
 * MF_EPLUGIN. path is for messages. */
#define MF_PLUGIN_FILE_MAX (1 << 30)
int mf_plugin_file_read(const char *path, int fd, const struct stat *st, unsigned char **ret);
/* MF_OK if the path still leads to the file that was opened, and that has not changed (its
 * change time tells of renames, too); else MF_EPLUGIN. */
int mf_plugin_file_same(const char *path, const struct stat *was);

#endif
