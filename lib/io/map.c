/* io/map.c: maps regular files. The descriptor is closed at once, because the mapping keeps the
 * file open. */
#include "io/map.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/io.h"

static int map_fd(int fd, uint64_t size, const char *path, mf_map *ret)
{
    struct stat st;
    int rc = MF_OK;
    if (fstat(fd, &st) != 0) rc = mf_fail_errno(MF_EIO, "%s: cannot be examined", path);
    if (rc == MF_OK && size > SIZE_MAX / 2)
        rc = mf_fail(MF_EINPUT, "%s: too large to be mapped", path);
    void *data = NULL;
    if (rc == MF_OK && size > 0) {
        data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) rc = mf_fail_errno(MF_EIO, "%s: cannot be mapped", path);
    }
    mf_file_close(fd);
    if (rc != MF_OK) return rc;
    *ret = (mf_map){data, (size_t)size,
                    (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    return MF_OK;
}

int mf_map_open(const char *path, mf_map *ret)
{
    uint64_t size;
    int fd, rc = mf_file_open(path, &fd, &size);
    *ret = (mf_map){0};
    return rc == MF_OK ? map_fd(fd, size, path, ret) : rc;
}

int mf_map_open_itself(const char *path, mf_map *ret)
{
    uint64_t size;
    int fd, rc = mf_file_open_itself(path, &fd, &size);
    *ret = (mf_map){0};
    return rc == MF_OK ? map_fd(fd, size, path, ret) : rc;
}

void mf_map_close(mf_map *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (mf_map){0};
}

void mf_map_scattered(const mf_map *map)
{
    if (map->data) madvise((void *)(uintptr_t)map->data, map->size, MADV_RANDOM);
}

void mf_map_ordered(const mf_map *map)
{
    if (map->data) madvise((void *)(uintptr_t)map->data, map->size, MADV_SEQUENTIAL);
}

void mf_map_release(const mf_map *map)
{
    if (map->data) madvise((void *)(uintptr_t)map->data, map->size, MADV_DONTNEED);
}
