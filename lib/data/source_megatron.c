/* data/source_megatron.c: token files with an index, as Megatron-LM writes them. NAME.bin
 * contains the ids; NAME.idx contains their type and the offset of each sequence. Every number
 * of the index is checked before it is used. */
#include "base/error.h"
#include "base/mem.h"
#include "data/source.h"
#include "data/stream/cache.h"

#include <string.h>

/* SEQUENCES: number of sequences after which pages are released */
enum { HEAD_BYTES = 34, SEQUENCES = 1 << 20 };

static const char sign[] = "MMIDIDX\0"; /* the second 0 is the NUL that ends the string */

bool mf_source_is_megatron(const char *index, size_t size)
{
    return index && size >= sizeof sign && memcmp(index, sign, sizeof sign) == 0;
}

static uint64_t read_le(const char *at, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

/* Number of bytes of an id of this type; 0: not an integer type. */
static int width_of(int type)
{
    static const int width[] = {0, 1, 1, 2, 4, 8, 0, 0, 2}; /* u8 i8 i16 i32 i64 f64 f32 u16 */
    return type >= 0 && type < (int)(sizeof width / sizeof *width) ? width[type] : 0;
}

/* Whether the type is signed. A negative id is then refused, because it has the highest
 * bits set. */
static bool is_signed(int type)
{
    return type >= 2 && type <= 5;
}

typedef struct {
    int type, width;
    uint64_t sequences;
    const char *lengths, *pointers;
} layout;

static int read_layout(const char *path, const char *index, size_t size, layout *ret)
{
    const uint64_t version = size >= HEAD_BYTES ? read_le(index + 9, 8) : 0;
    if (size < HEAD_BYTES || version != 1)
        return mf_fail(MF_EINPUT,
                       "%s: index of Megatron: version %llu of %zu bytes: expected 1", path,
                       (unsigned long long)version, size);
    ret->type = (unsigned char)index[17];
    ret->width = width_of(ret->type);
    ret->sequences = read_le(index + 18, 8);
    const uint64_t documents = read_le(index + 26, 8), rest = size - HEAD_BYTES;
    if (ret->width == 0)
        return mf_fail(MF_EINPUT, "%s: type %d of the ids: expected 1 to 5 or 8, whole numbers",
                       path, ret->type);
    if (ret->sequences > rest / 12 || documents > (rest - 12 * ret->sequences) / 8)
        return mf_fail(MF_EINPUT,
                       "%s: %llu sequences and %llu documents do not fit into %zu bytes", path,
                       (unsigned long long)ret->sequences, (unsigned long long)documents, size);
    ret->lengths = index + HEAD_BYTES;
    ret->pointers = ret->lengths + 4 * ret->sequences;
    return MF_OK;
}

/* Checks the offset and the length of each sequence, and counts the ids. *ret_joined: whether
 * the ids are contiguous from the first sequence on, so that one part can contain them. */
static int count_ids(const char *path, const layout *l, const mf_map *index, size_t bytes,
                     uint64_t *ret, bool *ret_joined)
{
    uint64_t n = 0, end = 0;
    *ret_joined = true;
    for (uint64_t i = 0; i < l->sequences; i++) {
        const uint64_t length = read_le(l->lengths + 4 * i, 4);
        const uint64_t at = read_le(l->pointers + 8 * i, 8);
        if (at > bytes || length > (bytes - at) / (uint64_t)l->width)
            return mf_fail(
                MF_EINPUT,
                "%s: sequence %llu has %llu ids from byte %llu on, the .bin file has "
                "%zu bytes",
                path, (unsigned long long)i, (unsigned long long)length, (unsigned long long)at,
                bytes);
        *ret_joined = *ret_joined && (i == 0 || at == end);
        end = at + length * (uint64_t)l->width;
        n += length;
        if (n > INT64_MAX / 8) return mf_fail(MF_EINPUT, "%s: too many ids", path);
        if (i % SEQUENCES == SEQUENCES - 1) mf_map_release(index);
    }
    if (n == 0) return mf_fail(MF_EINPUT, "%s: no tokens in the file", path);
    *ret = n;
    return MF_OK;
}

static int wrong_id(const mf_source *s, uint64_t id)
{
    return mf_fail(MF_EINPUT, "%s: an id is %llu: expected 0 to %d", s->path,
                   (unsigned long long)id, MF_IDS_VOCAB - 1);
}

static int take_sequence(const mf_source *s, const layout *l, const char *at, uint64_t length,
                         int32_t *out)
{
    for (uint64_t i = 0; i < length; i++) {
        const uint64_t id = read_le(at + i * (uint64_t)l->width, l->width);
        const uint64_t top = is_signed(l->type) ? UINT64_C(1) << (8 * l->width - 1) : 0;
        if (id >= MF_IDS_VOCAB || (top && id >= top)) return wrong_id(s, id);
        out[i] = (int32_t)id;
    }
    return MF_OK;
}

/* Copies the ids of all sequences, of any type. */
static int copy_ids(mf_source *s, const layout *l, const char *data, uint64_t n,
                    mf_id_part *ret)
{
    int32_t *ids = mf_alloc_raw(n * sizeof *ids), *out = ids;
    int rc = ids ? MF_OK : MF_ENOMEM;
    *ret = (mf_id_part){.n = (int64_t)n, .ids = ids, .id_bytes = 4, .own = ids};
    for (uint64_t i = 0; rc == MF_OK && i < l->sequences; i++) {
        const uint64_t length = read_le(l->lengths + 4 * i, 4);
        rc = take_sequence(s, l, data + read_le(l->pointers + 8 * i, 8), length, out);
        out += length;
    }
    return rc;
}

int mf_source_read_megatron(mf_source *s, mf_map *map, const char *index_path,
                            const mf_map *index)
{
    layout l = {0};
    uint64_t n = 0;
    int64_t wrong = -1;
    bool joined = false;
    mf_id_part part = {0};
    int rc = read_layout(index_path, index->data, index->size, &l);
    if (rc == MF_OK) rc = count_ids(index_path, &l, index, map->size, &n, &joined);
    if (rc != MF_OK) return rc;
    /* Ids are read as unsigned. A negative i32 is above every vocabulary and is therefore
     * refused, so i32 needs no copy. */
    const bool plain = l.type == 1 || l.type == 4 || l.type == 8;
    rc = joined && plain ? mf_id_parts_take(map, read_le(l.pointers, 8), n * (uint64_t)l.width,
                                            l.width, &part)
                         : copy_ids(s, &l, map->data, n, &part);
    if (rc == MF_OK && !mf_cache_ids_read(s->cache, s->path, &part)) {
        mf_id_parts_scan(&part, &wrong);
        if (wrong < 0) mf_cache_ids_write(s->cache, s->path, &part);
    }
    if (wrong >= 0) rc = wrong_id(s, mf_id_parts_word(&part, wrong));
    if (rc == MF_OK) return mf_id_parts_add(&s->tokens, &part);
    mf_id_part_free(&part);
    return rc;
}
