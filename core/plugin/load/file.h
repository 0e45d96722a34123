/* plugin/load/file.h: checks whether a file may be mapped as a plugin, without running any of
 * its code. */
#ifndef MF_PLUGIN_FILE_H
#define MF_PLUGIN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

typedef enum mf_file_trust {
    /* the file and its folders belong to the user or root, and other users cannot change it */
    MF_FILE_SAFE,
    MF_FILE_OWN, /* the file is part of the program: like MF_FILE_SAFE, but any user may
                  * own it */
    MF_FILE_ANY  /* no check of owner and permissions */
} mf_file_trust;

/* Opens path and checks that it is a regular file whose owner and permissions satisfy `trust`,
 * and a complete shared object for this kind of machine. The caller closes *ret_fd. MF_EPLUGIN:
 * refused; the message does not contain the path. */
int mf_plugin_file_open(const char *path, mf_file_trust trust, int *ret_fd,
                        struct stat *ret_stat);
/* Reads all st->st_size bytes of an opened file; fd and st come from mf_plugin_file_open. The
 * caller frees *ret with mf_free. MF_ENOMEM; MF_EPLUGIN: the file has more than
 * MF_PLUGIN_FILE_MAX bytes, or a read fails. path is for messages. */
#define MF_PLUGIN_FILE_MAX (1 << 30)
int mf_plugin_file_read(const char *path, int fd, const struct stat *st, unsigned char **ret);
/* Returns MF_OK if path still names the file that was opened and the file has not changed since
 * (its change time also shows renames); else MF_EPLUGIN. */
int mf_plugin_file_same(const char *path, const struct stat *was);

#endif
