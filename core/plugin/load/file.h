/* plugin/load/file.h: checks whether a file may be mapped as a plugin at all, without running
 * anything in it. */
#ifndef MF_PLUGIN_FILE_H
#define MF_PLUGIN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

typedef enum mf_file_trust {
    MF_FILE_SAFE, /* of the user or root, and nobody else can write or replace it */
    MF_FILE_OWN,  /* came with the program: it may belong to whoever installed it */
    MF_FILE_ANY   /* whoever can change it */
} mf_file_trust;

/* Opens and checks path: a regular file that may be trusted so far, a complete shared object
 * for this kind of machine. The caller closes *ret_fd. MF_EPLUGIN; the message does not contain
 * the path. */
int mf_plugin_file_open(const char *path, mf_file_trust trust, int *ret_fd,
                        struct stat *ret_stat);
/* Its bytes, *st of them as mf_plugin_file_open gave it; free with mf_free. MF_ENOMEM;
 * MF_EPLUGIN. path is for messages. */
#define MF_PLUGIN_FILE_MAX (1 << 30)
int mf_plugin_file_read(const char *path, int fd, const struct stat *st, unsigned char **ret);
/* MF_OK if the path still leads to the file that was opened, and that has not changed (its
 * change time tells of renames, too); else MF_EPLUGIN. */
int mf_plugin_file_same(const char *path, const struct stat *was);

#endif
