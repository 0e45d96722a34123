/* base/hash.c: XXH3-128 of bytes and of files, computed by the xxHash library. xxh128sum prints
 * the same digest. */
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/mem.h"

#include <xxhash.h>

static void write_hex(XXH128_hash_t hash, char out[33])
{
    static const char digits[] = "0123456789abcdef";
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    for (int i = 0; i < 16; i++) {
        out[2 * i] = digits[bytes.digest[i] >> 4];
        out[2 * i + 1] = digits[bytes.digest[i] & 15];
    }
    out[32] = '\0';
}

void mf_hash_bytes(const void *data, size_t n, char out[33])
{
    write_hex(XXH3_128bits(data, n), out);
}

static int hash_fd(int fd, const char *path, XXH3_state_t *state, unsigned char *buffer,
                   size_t room)
{
    uint64_t offset = 0;
    for (;;) {
        ssize_t got = mf_raw_read(fd, buffer, room, offset);
        if (got < 0) return mf_fail_errno(MF_EIO, "%s: cannot read", path);
        XXH3_128bits_update(state, buffer, (size_t)got); /* this call fails only if the buffer
                                                          * is NULL */
        if ((size_t)got < room) return MF_OK;
        offset += (uint64_t)got;
    }
}

int mf_hash_file(const char *path, char out[33])
{
    enum { ROOM = 256 * 1024 };
    unsigned char *buffer = NULL;
    XXH3_state_t *state = NULL;
    uint64_t size;
    int fd;
    int rc = mf_file_open(path, &fd, &size);
    if (rc != MF_OK) return rc;
    buffer = mf_alloc_raw(ROOM);
    state = XXH3_createState();
    if (!buffer || !state || XXH3_128bits_reset(state) != XXH_OK)
        rc = mf_fail(MF_ENOMEM, "%s: out of memory while hashing", path);
    if (rc == MF_OK) rc = hash_fd(fd, path, state, buffer, ROOM);
    if (rc == MF_OK) write_hex(XXH3_128bits_digest(state), out);
    XXH3_freeState(state);
    mf_free(buffer);
    mf_file_close(fd);
    return rc;
}
