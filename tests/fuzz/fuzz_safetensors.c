/* fuzz_safetensors: any file is refused with its name, or its tensors can be read. If their
 * dtypes are known, they can also be written to a file with the same content. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/file/io.h"
#include "data/safetensors/safetensors.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_words[] = {
    "{",
    "}",
    "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}",
    "\"__metadata__\":{\"k\":\"v\"}",
    "\"dtype\":",
    "\"shape\":",
    "\"data_offsets\":",
    "\"F32\"",
    "\"F16\"",
    "\"BF16\"",
    "\"U8\"",
    "\"BOOL\"",
    "\"F4\"",
    "[0,0]",
    "[]",
    ",",
    " ",
    "-1",
    "0",
    "1",
    "8",
    "4294967296",
    "\\u0000",
    "\xC3\xA4",
    NULL};

/* Files in memory: the input, and the writer's output. */
static int in_fd = -1, out_fd = -1;

static int open_out(const char *path, int flags, int mode)
{
    if (!(flags & O_CREAT)) return mf_io_default()->open(path, flags, mode);
    FUZZ_REQUIRE(ftruncate(out_fd, 0) == 0 && lseek(out_fd, 0, SEEK_SET) == 0);
    return dup(out_fd);
}

static void set_up(void)
{
    static mf_io_table table;
    if (in_fd >= 0) return;
    in_fd = memfd_create("in", 0);
    out_fd = memfd_create("out", 0);
    FUZZ_REQUIRE(in_fd >= 0 && out_fd >= 0);
    table = *mf_io_default();
    table.open = open_out;
    mf_io_set_table(&table);
}

static const char *path_of(int fd, char path[32])
{
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return path;
}

/* Reads every tensor. Their sizes must sum to the size of the file without its header. Returns
 * false if a dtype is unknown. */
static bool read_all(const mf_st_file *f, const uint8_t *data, size_t size)
{
    bool known = true;
    uint64_t header = 0, sum = 0;
    for (int i = 8; i-- > 0;)
        header = header << 8 | data[i];
    for (size_t i = 0; i < mf_st_count(f); i++) {
        const mf_st_tensor *t = mf_st_at(f, i);
        uint8_t *bytes;
        FUZZ_REQUIRE(mf_st_find(f, t->name) == t);
        FUZZ_REQUIRE(t->rank >= 0 && t->rank <= MF_ST_RANK_MAX);
        FUZZ_REQUIRE(t->bytes <= size);
        sum += t->bytes;
        bytes = malloc(t->bytes + 1);
        FUZZ_REQUIRE(bytes);
        int rc = mf_st_read(f, t, bytes, t->bytes);
        if (t->dtype == MF_ST_UNKNOWN) {
            known = false;
            FUZZ_REQUIRE(rc == MF_EINPUT);
        } else {
            FUZZ_REQUIRE(rc == MF_OK);
            FUZZ_REQUIRE(t->bytes == t->count * mf_st_dtype_size(t->dtype));
            FUZZ_REQUIRE(memcmp(bytes, data + 8 + header + t->offset, t->bytes) == 0);
        }
        free(bytes);
    }
    FUZZ_REQUIRE(8 + header + sum == size);
    return known;
}

static void write_again(const mf_st_file *f)
{
    mf_st_writer *w = mf_st_writer_new();
    const mf_st_tensor *t;
    const char *key, *value;
    size_t i;
    FUZZ_REQUIRE(w);
    for (i = 0; i < mf_st_count(f); i++) {
        t = mf_st_at(f, i);
        FUZZ_REQUIRE(mf_st_writer_add(w, t->name, t->dtype, t->rank, t->shape) == MF_OK);
    }
    for (i = 0; mf_st_meta_at(f, i, &key, &value); i++)
        FUZZ_REQUIRE(mf_st_writer_meta(w, key, value) == MF_OK);
    FUZZ_REQUIRE(mf_st_writer_begin(w, "out") == MF_OK);
    while ((t = mf_st_writer_due(w, &i))) {
        uint8_t *bytes = malloc(t->bytes);
        FUZZ_REQUIRE(bytes && mf_st_read(f, mf_st_at(f, i), bytes, t->bytes) == MF_OK);
        FUZZ_REQUIRE(mf_st_writer_put(w, bytes, t->bytes) == MF_OK);
        free(bytes);
    }
    FUZZ_REQUIRE(mf_st_writer_end(w, false) == MF_OK);
    mf_st_writer_free(w);
}

static void require_same(const mf_st_file *f, const mf_st_file *g)
{
    const char *key, *value;
    FUZZ_REQUIRE(mf_st_count(f) == mf_st_count(g));
    FUZZ_REQUIRE(mf_st_meta_count(f) == mf_st_meta_count(g));
    for (size_t i = 0; mf_st_meta_at(f, i, &key, &value); i++)
        FUZZ_REQUIRE(strcmp(mf_st_meta(g, key), value) == 0);
    for (size_t i = 0; i < mf_st_count(f); i++) {
        const mf_st_tensor *s = mf_st_at(f, i), *t = mf_st_find(g, s->name);
        uint8_t *a = malloc(s->bytes + 1), *b = malloc(s->bytes + 1);
        FUZZ_REQUIRE(t && t->dtype == s->dtype && t->rank == s->rank && t->bytes == s->bytes);
        FUZZ_REQUIRE(memcmp(s->shape, t->shape, sizeof s->shape) == 0);
        FUZZ_REQUIRE(a && mf_st_read(f, s, a, s->bytes) == MF_OK);
        FUZZ_REQUIRE(b && mf_st_read(g, t, b, t->bytes) == MF_OK);
        FUZZ_REQUIRE(memcmp(a, b, s->bytes) == 0);
        free(a);
        free(b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_st_file *f, *g;
    char path[32], again[32];
    int rc;
    set_up();
    FUZZ_REQUIRE(ftruncate(in_fd, 0) == 0);
    FUZZ_REQUIRE(pwrite(in_fd, data, size, 0) == (ssize_t)size);
    rc = mf_st_open(path_of(in_fd, path), &f);
    if (rc != MF_OK) {
        FUZZ_REQUIRE(rc == MF_EINPUT && mf_error_code() == MF_EINPUT);
        FUZZ_REQUIRE(strstr(mf_error_message(), path) != NULL);
        return 0;
    }
    if (read_all(f, data, size)) {
        write_again(f);
        FUZZ_REQUIRE(mf_st_open(path_of(out_fd, again), &g) == MF_OK);
        require_same(f, g);
        mf_st_close(g);
    }
    mf_st_close(f);
    return 0;
}
