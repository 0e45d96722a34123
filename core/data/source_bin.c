/* data/source_bin.c: files of token ids, as of nanoGPT (raw) and llm.c (with a header). */
#include "base/error.h"
#include "base/mem.h"
#include "data/source.h"

enum { HEADER_BYTES = 1024, MAGIC = 20240520, VERSION = 1, VOCAB_MAX = 4 << 20 };

static uint32_t read_u32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t read_u16(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8;
}

int mf_source_read_bin(mf_source *s, const char *data, size_t size, int32_t bits)
{
    size_t width = bits == 32 ? 4 : 2, begin = 0;
    if (size >= HEADER_BYTES && read_u32(data) == MAGIC) {
        uint32_t version = read_u32(data + 4), count = read_u32(data + 8);
        if (version != VERSION)
            return mf_fail(MF_EINPUT,
                           "%s: header of llm.c: version %u: expected %d (uint16 ids)", s->path,
                           (unsigned)version, VERSION);
        begin = HEADER_BYTES;
        width = 2;
        if ((size - begin) / width != count || (size - begin) % width != 0)
            return mf_fail(MF_EINPUT,
                           "%s: the header says %u tokens, the file holds %zu bytes "
                           "of them",
                           s->path, (unsigned)count, size - begin);
    } else if (size % width != 0) {
        return mf_fail(MF_EINPUT, "%s: %zu bytes are no whole number of %zu-bit ids", s->path,
                       size, width * 8);
    }
    size_t n = (size - begin) / width;
    if (n == 0) return mf_fail(MF_EINPUT, "%s: no tokens in the file", s->path);
    s->ids = mf_alloc_raw(n * sizeof *s->ids);
    if (s->ids == NULL) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *at = data + begin + i * width;
        uint32_t id = width == 4 ? read_u32(at) : read_u16(at);
        if (id >= VOCAB_MAX)
            return mf_fail(MF_EINPUT,
                           "%s: token %zu is %u: expected less than %d; are the ids "
                           "16 bits wide?",
                           s->path, i, (unsigned)id, VOCAB_MAX);
        s->ids[i] = (int32_t)id;
    }
    s->n_ids = (int64_t)n;
    return MF_OK;
}
