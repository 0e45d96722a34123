/* data/source_bin.c: files of token ids, as nanoGPT (raw) and llm.c (with a header) write them.
 * Ids that look as if they had another size are refused, because a model would train on them
 * without an error. */
#include "base/error.h"
#include "base/mem.h"
#include "data/source.h"

#include <string.h>

enum { HEADER_BYTES = 1024, VOCAB_MAX = 4 << 20 };

/* Headers of llm.c: 256 integers of 32 bits; the third one counts the tokens. */
static const struct {
    uint32_t magic, version;
    size_t width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

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

/* *ret_width and *ret_begin are set if there is a header. */
static int read_header(const mf_source *s, const char *data, size_t size, size_t *ret_width,
                       size_t *ret_begin)
{
    const uint32_t magic = size >= HEADER_BYTES ? read_u32(data) : 0;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (magic != headers[i].magic) continue;
        const uint32_t version = read_u32(data + 4), count = read_u32(data + 8);
        const size_t width = headers[i].width, n = size - HEADER_BYTES;
        if (version != headers[i].version)
            return mf_fail(MF_EINPUT,
                           "%s: header of llm.c: version %u: expected %u (uint%zu ids)",
                           s->path, (unsigned)version, (unsigned)headers[i].version, 8 * width);
        if (n / width != count || n % width != 0)
            return mf_fail(MF_EINPUT,
                           "%s: the header says %u tokens, the file holds %zu bytes of them",
                           s->path, (unsigned)count, n);
        *ret_width = width;
        *ret_begin = HEADER_BYTES;
    }
    return MF_OK;
}

/* Whether ids that were read as 16 bits look like ids of 32 bits: every second one is 0. */
static bool looks_wide(const int32_t *id, size_t n)
{
    bool any = false;
    for (size_t i = 0; i + 1 < n; i += 2) {
        if (id[i + 1] != 0) return false;
        any = any || id[i] != 0;
    }
    return any && n >= 64 && n % 2 == 0;
}

/* Refuses HDF5 files: their bytes would be read as ids without meaning. */
static int judge_hdf5(const mf_source *s, const char *data, size_t size)
{
    static const char sign[] = "\211HDF\r\n\032\n";
    if (size < sizeof sign - 1 || memcmp(data, sign, sizeof sign - 1) != 0) return MF_OK;
    return mf_fail(
        MF_EINPUT,
        "%s: an HDF5 file, which is not read: expected ids of 16 or 32 bits, as moefw "
        "tokenize encode --bin writes them (in Python: ids.astype('<u4').tofile(FILE), "
        "with data.bin_bits = 32)",
        s->path);
}

int mf_source_read_bin(mf_source *s, const char *data, size_t size, int32_t bits)
{
    size_t width = bits == 32 ? 4 : 2, begin = 0;
    int rc = judge_hdf5(s, data, size);
    if (rc == MF_OK) rc = read_header(s, data, size, &width, &begin);
    if (rc != MF_OK) return rc;
    if (begin > 0 && bits != 0 && (size_t)bits != 8 * width)
        return mf_fail(MF_EINPUT, "%s: the header says ids of %zu bits, data.bin_bits %d",
                       s->path, 8 * width, (int)bits);
    if ((size - begin) % width != 0)
        return mf_fail(MF_EINPUT, "%s: %zu bytes are no whole number of %zu-bit ids", s->path,
                       size, width * 8);
    size_t n = (size - begin) / width;
    if (n == 0) return mf_fail(MF_EINPUT, "%s: no tokens in the file", s->path);
    int32_t *more = mf_realloc(s->ids, (size_t)s->n_ids * sizeof *more,
                               ((size_t)s->n_ids + n) * sizeof *more);
    if (!more) return MF_ENOMEM;
    s->ids = more;
    more += s->n_ids;
    for (size_t i = 0; i < n; i++) {
        const char *at = data + begin + i * width;
        uint32_t id = width == 4 ? read_u32(at) : read_u16(at);
        if (id >= VOCAB_MAX)
            return mf_fail(MF_EINPUT,
                           "%s: token %zu is %u: expected less than %d; are the ids "
                           "16 bits wide?",
                           s->path, i, (unsigned)id, VOCAB_MAX);
        more[i] = (int32_t)id;
    }
    if (begin == 0 && bits == 0 && looks_wide(more, n))
        return mf_fail(
            MF_EINPUT,
            "%s: every second id of 16 bits is 0: expected data.bin_bits = 32, or 16 "
            "if they are",
            s->path);
    s->n_ids += (int64_t)n;
    return MF_OK;
}
