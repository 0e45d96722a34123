/* Reads the input that a person names; "-" is standard input. A program may read the same input
 * several times, for example as a configuration and as its include, so the bytes of standard
 * input are kept for later reads. */
#include "base/file/io.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    char *data; /* NULL: standard input was not read yet */
    size_t size;
} standard = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool mf_is_standard_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

static int read_standard(void)
{
    size_t room = (size_t)1 << 16, size = 0;
    char *data = mf_alloc_raw(room);
    if (!data) return MF_ENOMEM;
    for (;;) {
        const ssize_t got = read(STDIN_FILENO, data + size, room - size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            standard.data = data;
            standard.size = size;
            if (got == 0) return MF_OK;
            standard.data = NULL;
            mf_fail_errno(MF_EIO, "standard input: cannot read");
            mf_free(data);
            return MF_EIO;
        }
        size += (size_t)got;
        if (size < room) continue;
        char *larger = mf_realloc(data, size, 2 * room);
        if (!larger) {
            mf_free(data);
            return MF_ENOMEM;
        }
        data = larger;
        room *= 2;
    }
}

static int copy_standard(size_t max_bytes, char **ret_data, size_t *ret_size)
{
    int rc = standard.data ? MF_OK : read_standard();
    if (rc != MF_OK) return rc;
    if (max_bytes && standard.size > max_bytes)
        return mf_fail(MF_EINPUT, "standard input is too large: expected at most %zu bytes",
                       max_bytes);
    char *copy = mf_alloc_raw(standard.size + 1);
    if (!copy) return MF_ENOMEM;
    memcpy(copy, standard.data, standard.size);
    copy[standard.size] = '\0';
    *ret_data = copy;
    *ret_size = standard.size;
    return MF_OK;
}

int mf_read_input(const char *path, size_t max_bytes, char **ret_data, size_t *ret_size)
{
    if (!mf_is_standard_input(path)) return mf_read_file(path, max_bytes, ret_data, ret_size);
    pthread_mutex_lock(&standard.lock);
    const int rc = copy_standard(max_bytes, ret_data, ret_size);
    pthread_mutex_unlock(&standard.lock);
    return rc;
}
