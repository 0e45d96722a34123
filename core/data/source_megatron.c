/* data/source_megatron.c: token files with an index, as Megatron-LM writes them: NAME.bin has
 * the ids, NAME.idx says their type and where each sequence begins. Every number of the index
 * is checked before it is used. */
#include "base/error.h"
#include "base/mem.h"
#include "data/source.h"

#include <string.h>

enum { HEAD_BYTES = 34, VOCAB_MAX = 4 << 20 };

static const char sign[] = "MMIDIDX\0"; /* with the second 0 that ends the text */

bool mf_source_is_megatron(const char *index, size_t size)
{
    return size >= sizeof sign && memcmp(index, sign, sizeof sign) == 0;
}

static uint64_t read_le(const char *at, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

/* Bytes of an id of this type; 0: not a type of whole numbers. */
static int width_of(int type)
{
    static const int width[] = {0, 1, 1, 2, 4, 8, 0, 0, 2}; /* u8 i8 i16 i32 i64 f64 f32 u16 */
    return type >= 0 && type < (int)(sizeof width / sizeof *width) ? width[type] : 0;
}

/* Whether the type has a sign: a negative id is then refused, as it has the highest bits. */
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

/* Checks where the sequences are, and counts their ids. */
static int count_ids(const char *path, const layout *l, size_t bytes, uint64_t *ret)
{
    uint64_t n = 0;
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
        n += length;
        if (n > INT64_MAX / 8) return mf_fail(MF_EINPUT, "%s: too many ids", path);
    }
    if (n == 0) return mf_fail(MF_EINPUT, "%s: no tokens in the file", path);
    *ret = n;
    return MF_OK;
}

static int take_sequence(const mf_source *s, const layout *l, const char *at, uint64_t length,
                         int32_t *out)
{
    for (uint64_t i = 0; i < length; i++) {
        const uint64_t id = read_le(at + i * (uint64_t)l->width, l->width);
        const uint64_t top = is_signed(l->type) ? UINT64_C(1) << (8 * l->width - 1) : 0;
        if (id >= VOCAB_MAX || (top && id >= top))
            return mf_fail(MF_EINPUT, "%s: an id is %llu: expected 0 to %d", s->path,
                           (unsigned long long)id, VOCAB_MAX - 1);
        out[i] = (int32_t)id;
    }
    return MF_OK;
}

int mf_source_read_megatron(mf_source *s, const char *data, size_t size, const char *index_path,
                            const char *index, size_t index_size)
{
    layout l = {0};
    uint64_t n = 0;
    int rc = read_layout(index_path, index, index_size, &l);
    if (rc == MF_OK) rc = count_ids(index_path, &l, size, &n);
    if (rc != MF_OK) return rc;
    int32_t *more = mf_realloc(s->ids, (size_t)s->n_ids * sizeof *more,
                               ((size_t)s->n_ids + n) * sizeof *more);
    if (!more) return MF_ENOMEM;
    s->ids = more;
    for (uint64_t i = 0; rc == MF_OK && i < l.sequences; i++) {
        const uint64_t length = read_le(l.lengths + 4 * i, 4);
        rc = take_sequence(s, &l, data + read_le(l.pointers + 8 * i, 8), length,
                           s->ids + s->n_ids);
        if (rc == MF_OK) s->n_ids += (int64_t)length;
    }
    return rc;
}
