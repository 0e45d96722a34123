/* data/source_bin.c: files of token ids, as nanoGPT (raw) and llm.c (with a header) write them.
 * A file is refused if its ids look as if they had another size. A model would otherwise train
 * on wrong ids without an error. */
#include "base/error.h"
#include "base/mem.h"
#include "data/recognise.h"
#include "data/source.h"
#include "data/source_bin.h"
#include "data/stream/cache.h"

#include <string.h>

enum { HEADER_BYTES = 1024 };

/* Headers of llm.c: 256 integers of 32 bits; the third integer is the number of tokens. */
static const struct {
    uint32_t magic, version;
    size_t width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static uint32_t read_u32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Reads the header. *ret_width and *ret_begin are set only if there is a header. */
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

/* Refuses other files of llm.c: models, states of optimizers, tokenizers, questions with
 * several answers. Their first word is the date of their format, for example 20240326. The
 * second word is the version of the format. */
static int judge_date(const mf_source *s, const char *data, size_t size)
{
    const uint32_t date = size >= HEADER_BYTES ? read_u32(data) : 0,
                   version = date ? read_u32(data + 4) : 0;
    const uint32_t year = date / 10000, month = date / 100 % 100, day = date % 100;
    if (year < 2024 || year > 2035 || month < 1 || month > 12 || day < 1 || day > 31 ||
        version > 99)
        return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: a file of llm.c of another kind (number %u, version %u): expected its "
                   "tokens (20240520 with version 1, 20240801 with version 7), or ids without "
                   "a header and data.bin_bits",
                   s->path, (unsigned)date, (unsigned)version);
}

/* Refuses files of other programs. Their bytes would be read as ids without meaning. */
static int judge_foreign(const mf_source *s, const char *data, size_t size)
{
    static const struct {
        const char *sign;
        size_t n;
        const char *name;
    } known[] = {{"\211HDF\r\n\032\n", 8, "an HDF5 file"},
                 {"\223NUMPY", 6, "an array of numpy (.npy)"},
                 {"ARROW1", 6, "an Arrow file"},
                 {"GGUF", 4, "a GGUF file"},
                 {"SQLite format 3", 15, "an SQLite file"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size >= known[i].n && memcmp(data, known[i].sign, known[i].n) == 0)
            return mf_fail(
                MF_EINPUT,
                "%s: %s, which is not read: expected ids of 16 or 32 bits, as moefw "
                "tokenize encode --bin writes them (in Python: ids.astype('<u4').tofile(FILE), "
                "with data.bin_bits = 32)",
                s->path, known[i].name);
    return mf_recognise_foreign(s->path, data, size);
}

/* Checks that the file can hold ids of this size. *ret_width: bytes of an id. */
static int judge(const mf_source *s, const mf_map *map, int32_t bits, size_t *ret_width,
                 size_t *ret_begin)
{
    size_t width = bits == 32 ? 4 : 2, begin = 0;
    int rc = judge_foreign(s, map->data, map->size);
    if (rc == MF_OK) rc = read_header(s, map->data, map->size, &width, &begin);
    if (rc == MF_OK && begin == 0 && bits == 0) rc = judge_date(s, map->data, map->size);
    if (rc != MF_OK) return rc;
    if (begin > 0 && bits != 0 && (size_t)bits != 8 * width)
        return mf_fail(MF_EINPUT, "%s: the header says ids of %zu bits, data.bin_bits %d",
                       s->path, 8 * width, (int)bits);
    if ((map->size - begin) % width != 0)
        return mf_fail(MF_EINPUT, "%s: %zu bytes are no whole number of %zu-bit ids", s->path,
                       map->size, width * 8);
    if (map->size == begin) return mf_fail(MF_EINPUT, "%s: no tokens in the file", s->path);
    *ret_width = width;
    *ret_begin = begin;
    return MF_OK;
}

int mf_source_read_bin(mf_source *s, mf_map *map, int32_t bits)
{
    size_t width = 2, begin = 0;
    mf_id_part part;
    int64_t wrong = -1;
    int rc = judge(s, map, bits, &width, &begin);
    if (rc != MF_OK) return rc;
    rc = mf_id_parts_take(map, begin, map->size - begin, (int32_t)width, &part);
    if (rc != MF_OK) return rc;
    if (!mf_cache_ids_read(s->cache, s->path, &part)) {
        mf_id_parts_scan(&part, &wrong);
        if (wrong < 0) mf_cache_ids_write(s->cache, s->path, &part);
    }
    if (wrong >= 0)
        rc = mf_fail(
            MF_EINPUT, "%s: token %lld is %u: expected less than %d; are the ids 16 bits wide?",
            s->path, (long long)wrong, (unsigned)mf_id_parts_word(&part, wrong), MF_IDS_VOCAB);
    else if (begin == 0)
        rc = mf_bin_judge_width(s->path, &part, bits);
    if (rc == MF_OK) return mf_id_parts_add(&s->tokens, &part);
    mf_id_part_free(&part);
    return rc;
}
