/* plugin/load/mapped.h: whether the dynamic linker has mapped the file that was checked. */
#ifndef MF_PLUGIN_MAPPED_H
#define MF_PLUGIN_MAPPED_H

#include <sys/stat.h>

/* handle: of dlopen; fd, st: the file that was checked, with the hash of its bytes then
 * (mf_hash_bytes). Compares what is mapped read-only with the file's bytes: a folder that is
 * exchanged for another one around dlopen leaves the file of its old path as it was, and does
 * not show in mf_plugin_file_same. Code is not compared: debuggers put breakpoints into it.
 * MF_OK; MF_EPLUGIN: another file, or the file has changed; MF_ENOMEM. path is for messages. */
int mf_plugin_mapped_is(void *handle, const char *path, int fd, const struct stat *st,
                        const char *hash);

#endif
