/* pretrained/gguf/gguf_file.c: the bytes of a GGUF file.
 *
 * Keys and declarations are collected in two growing blocks, because the file begins with their
 * numbers. The data follow in the order of declaration, with each tensor aligned. */
#include "pretrained/gguf/gguf_file.h"

#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/mem.h"

enum { RANK_MAX = 4, TYPE_U32 = 4, TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_TEXT = 8, TYPE_ARRAY = 9 };

typedef struct block {
    unsigned char *bytes;
    size_t n, cap;
} block;

struct mf_gguf {
    int rc;
    block keys, tensors, sizes;       /* sizes: bytes of each tensor, u64 */
    uint64_t n_keys, n_tensors, data; /* data: offset of the next tensor */
    mf_writer file;
    uint64_t due, written; /* number of complete tensors; bytes written of the present tensor */
};

mf_gguf *mf_gguf_new(void)
{
    return mf_alloc(1, sizeof(mf_gguf));
}

void mf_gguf_free(mf_gguf *w)
{
    if (!w) return;
    if (w->file.buffer) mf_writer_close(&w->file, false);
    mf_free(w->keys.bytes);
    mf_free(w->tensors.bytes);
    mf_free(w->sizes.bytes);
    mf_free(w);
}

/* Bytes of n elements; MXFP4: n is a multiple of 32. */
static uint64_t bytes_of(mf_gguf_type type, uint64_t n)
{
    switch (type) {
    case MF_GGUF_F32:
        return 4 * n;
    case MF_GGUF_F16:
    case MF_GGUF_BF16:
        return 2 * n;
    case MF_GGUF_MXFP4:
        return n / 32 * 17;
    }
    return 0;
}

/* ---- blocks ---- */

static void add(mf_gguf *w, block *b, const void *data, size_t n)
{
    if (w->rc != MF_OK) return;
    if (b->cap - b->n < n) {
        const size_t cap = 2 * b->cap + n + 4096;
        unsigned char *bytes = mf_realloc(b->bytes, b->n, cap);
        if (!bytes) {
            w->rc = MF_ENOMEM;
            return;
        }
        b->bytes = bytes;
        b->cap = cap;
    }
    memcpy(b->bytes + b->n, data, n);
    b->n += n;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF files are little-endian");

static void add_u32(mf_gguf *w, block *b, uint32_t value)
{
    add(w, b, &value, sizeof value);
}

static void add_u64(mf_gguf *w, block *b, uint64_t value)
{
    add(w, b, &value, sizeof value);
}

static void add_text(mf_gguf *w, block *b, const char *text, size_t n)
{
    add_u64(w, b, n);
    add(w, b, text, n);
}

/* ---- keys ---- */

static void begin_key(mf_gguf *w, const char *key, uint32_t type)
{
    add_text(w, &w->keys, key, strlen(key));
    add_u32(w, &w->keys, type);
    w->n_keys++;
}

void mf_gguf_u32(mf_gguf *w, const char *key, uint32_t value)
{
    begin_key(w, key, TYPE_U32);
    add_u32(w, &w->keys, value);
}

void mf_gguf_f32(mf_gguf *w, const char *key, float value)
{
    begin_key(w, key, TYPE_F32);
    add(w, &w->keys, &value, sizeof value);
}

void mf_gguf_bool(mf_gguf *w, const char *key, bool value)
{
    const unsigned char byte = value;
    begin_key(w, key, TYPE_BOOL);
    add(w, &w->keys, &byte, 1);
}

void mf_gguf_text(mf_gguf *w, const char *key, const char *value)
{
    begin_key(w, key, TYPE_TEXT);
    add_text(w, &w->keys, value, strlen(value));
}

void mf_gguf_array(mf_gguf *w, const char *key, mf_gguf_item type, uint64_t n)
{
    begin_key(w, key, TYPE_ARRAY);
    add_u32(w, &w->keys, type);
    add_u64(w, &w->keys, n);
}

void mf_gguf_item_i32(mf_gguf *w, int32_t value)
{
    add(w, &w->keys, &value, sizeof value);
}

void mf_gguf_item_f32(mf_gguf *w, float value)
{
    add(w, &w->keys, &value, sizeof value);
}

void mf_gguf_item_text(mf_gguf *w, const char *text, size_t n)
{
    add_text(w, &w->keys, text, n);
}

/* ---- tensors ---- */

static uint64_t aligned(uint64_t n)
{
    return (n + MF_GGUF_ALIGNMENT - 1) / MF_GGUF_ALIGNMENT * MF_GGUF_ALIGNMENT;
}

void mf_gguf_tensor(mf_gguf *w, const char *name, mf_gguf_type type, int rank,
                    const int64_t *shape)
{
    uint64_t n = 1;
    if (w->rc == MF_OK && (rank < 1 || rank > RANK_MAX))
        w->rc = mf_fail(MF_EINVAL, "tensor '%s': rank %d", name, rank);
    if (w->rc != MF_OK) return;
    add_text(w, &w->tensors, name, strlen(name));
    add_u32(w, &w->tensors, (uint32_t)rank);
    for (int d = rank; d-- > 0;) {
        add_u64(w, &w->tensors, (uint64_t)shape[d]);
        n *= (uint64_t)shape[d];
    }
    add_u32(w, &w->tensors, type);
    add_u64(w, &w->tensors, w->data);
    add_u64(w, &w->sizes, bytes_of(type, n));
    w->data = aligned(w->data + bytes_of(type, n));
    w->n_tensors++;
}

/* ---- the file ---- */

static void pad(mf_gguf *w)
{
    static const unsigned char zeros[MF_GGUF_ALIGNMENT];
    mf_writer_put(&w->file, zeros, (size_t)(aligned(w->file.bytes) - w->file.bytes));
}

int mf_gguf_begin(mf_gguf *w, const char *path)
{
    block head = {0};
    add(w, &head, "GGUF", 4);
    add_u32(w, &head, MF_GGUF_VERSION);
    add_u64(w, &head, w->n_tensors);
    add_u64(w, &head, w->n_keys);
    if (w->rc == MF_OK) w->rc = mf_writer_open(&w->file, path, true);
    if (w->rc == MF_OK) {
        mf_writer_put(&w->file, head.bytes, head.n);
        mf_writer_put(&w->file, w->keys.bytes, w->keys.n);
        mf_writer_put(&w->file, w->tensors.bytes, w->tensors.n);
        pad(w);
        w->rc = w->file.error;
    }
    mf_free(head.bytes);
    return w->rc;
}

int mf_gguf_put(mf_gguf *w, const void *data, size_t n)
{
    uint64_t size = 0;
    if (w->rc != MF_OK) return w->rc;
    if (w->due < w->n_tensors)
        memcpy(&size, w->sizes.bytes + w->due * sizeof size, sizeof size);
    if (n > size - w->written)
        return w->rc = mf_fail(MF_EINVAL, "GGUF: more bytes than tensor %llu has",
                               (unsigned long long)w->due);
    mf_writer_put(&w->file, data, n);
    w->written += n;
    if (w->written == size) {
        pad(w);
        w->written = 0;
        w->due++;
    }
    return w->rc = w->file.error;
}

int mf_gguf_end(mf_gguf *w)
{
    if (w->rc == MF_OK && w->due != w->n_tensors)
        w->rc = mf_fail(MF_EINVAL, "GGUF: tensor %llu is missing", (unsigned long long)w->due);
    if (!w->file.buffer) return w->rc;
    const int rc = mf_writer_close(&w->file, w->rc == MF_OK);
    return w->rc = w->rc == MF_OK ? rc : w->rc;
}
