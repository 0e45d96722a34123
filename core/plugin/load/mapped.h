/* plugin/load/mapped.h: checks whether the dynamic linker has mapped the file that
 * was checked. */
#ifndef MF_PLUGIN_MAPPED_H
#define MF_PLUGIN_MAPPED_H

#include <sys/stat.h>

/* Compares what is mapped read-only with the bytes of the file. handle: result of dlopen; fd,
 * st: the checked file; hash: the hash of its bytes when it was checked (mf_hash_bytes). The
 * comparison is needed because a folder may be exchanged for another one around dlopen. The
 * file of the old path then stays as it was, and mf_plugin_file_same does not detect this. Code
 * is not compared, because debuggers put breakpoints into it. MF_OK; MF_EPLUGIN: another file,
 * or the file has changed; MF_ENOMEM. path is for messages. */
int mf_plugin_mapped_is(void *handle, const char *path, int fd, const struct stat *st,
                        const char *hash);

#endif
