/* io/map.h: files mapped into memory, for reading. Pages are read when they are used, and the
 * system may drop them again. If a file is shortened while it is mapped, reading a lost page
 * ends the process with a bus error. Sizes are those at the time of mapping. */
#ifndef MF_IO_MAP_H
#define MF_IO_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct mf_map {
    const void *data; /* NULL for an empty file */
    size_t size;
    int64_t changed; /* time of the last change, in nanoseconds since 1970 */
} mf_map;

/* Maps a regular file. The errors are those of mf_file_open, and MF_EIO. The caller
 * closes *ret. */
int mf_map_open(const char *path, mf_map *ret);
/* The same as mf_map_open, but MF_EINPUT if the path is a symbolic link. */
int mf_map_open_itself(const char *path, mf_map *ret);
void mf_map_close(mf_map *map);
/* mf_map_scattered tells the system that the reads will be at random positions, so the system
 * reads nothing ahead. The next function announces reads from the beginning to the end, so the
 * system reads ahead. */
void mf_map_scattered(const mf_map *map);
void mf_map_ordered(const mf_map *map);
/* Returns the pages to the system, which reads them again when they are used. */
void mf_map_release(const mf_map *map);

#endif
