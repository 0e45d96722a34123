/* io/map.h: files mapped into memory, for reading. Pages are read when they are used,
 * and the system may drop them again. A file that is cut while it is mapped ends the process
 * with a bus error where a lost page is read; sizes are those at the time of mapping. */
#ifndef MF_IO_MAP_H
#define MF_IO_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct mf_map {
    const void *data; /* NULL for an empty file */
    size_t size;
    int64_t changed; /* time of the last change, in nanoseconds since 1970 */
} mf_map;

/* Maps a regular file. Errors as of mf_file_open; MF_EIO. The caller closes it. */
int mf_map_open(const char *path, mf_map *ret);
/* The same; MF_EINPUT if a symbolic link is there. */
int mf_map_open_itself(const char *path, mf_map *ret);
void mf_map_close(mf_map *map);
/* Tells the system that reads will be at random, so that it reads nothing ahead; or from the
 * beginning to the end, so that it reads ahead. */
void mf_map_scattered(const mf_map *map);
void mf_map_ordered(const mf_map *map);
/* Returns the pages to the system, which reads them again when they are used. */
void mf_map_release(const mf_map *map);

#endif
