/* data/stream/id_parts.c: parts of token ids, in memory or in mapped files. A look-up finds the
 * part of an id by bisection. A corpus of one file has one part. */
#include "data/stream/id_parts.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* number of bytes that a scan reads before it releases their pages */
enum { STRETCH = 16 << 20 };

void mf_id_part_free(mf_id_part *p)
{
    mf_map_close(&p->map);
    mf_free(p->own);
    *p = (mf_id_part){0};
}

static int make_room(mf_id_parts *t, int32_t more)
{
    if (t->n_parts + more <= t->cap) return MF_OK;
    const int32_t cap = (t->n_parts + more) * 2;
    mf_id_part *larger =
        mf_realloc(t->part, (size_t)t->n_parts * sizeof *larger, (size_t)cap * sizeof *larger);
    if (!larger) return MF_ENOMEM;
    t->part = larger;
    t->cap = cap;
    return MF_OK;
}

static void put(mf_id_parts *t, const mf_id_part *part)
{
    t->part[t->n_parts] = *part;
    t->part[t->n_parts++].begin = t->n;
    t->n += part->n;
}

int mf_id_parts_add(mf_id_parts *t, mf_id_part *part)
{
    const int rc = make_room(t, 1);
    if (rc == MF_OK)
        put(t, part);
    else
        mf_id_part_free(part);
    return rc;
}

int mf_id_parts_append(mf_id_parts *to, mf_id_parts *from)
{
    const int rc = make_room(to, from->n_parts);
    if (rc != MF_OK) return rc;
    for (int32_t i = 0; i < from->n_parts; i++)
        put(to, &from->part[i]);
    mf_free(from->part);
    *from = (mf_id_parts){0};
    return MF_OK;
}

void mf_id_parts_free(mf_id_parts *t)
{
    for (int32_t i = 0; i < t->n_parts; i++)
        mf_id_part_free(&t->part[i]);
    mf_free(t->part);
    *t = (mf_id_parts){0};
}

uint32_t mf_id_parts_word(const mf_id_part *p, int64_t i)
{
    const unsigned char *at = (const unsigned char *)p->ids + i * p->id_bytes;
    if (p->id_bytes == 1) return at[0];
    const uint32_t low = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    return p->id_bytes == 2 ? low : low | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

int32_t mf_id_parts_id(const mf_id_parts *t, int64_t i)
{
    int32_t low = 0, high = t->n_parts - 1;
    while (low < high) {
        const int32_t middle = (low + high + 1) / 2;
        if (t->part[middle].begin <= i)
            low = middle;
        else
            high = middle - 1;
    }
    const mf_id_part *p = &t->part[low];
    return (int32_t)mf_id_parts_word(p, i - p->begin);
}

bool mf_id_parts_mapped(const mf_id_parts *t)
{
    for (int32_t i = 0; i < t->n_parts; i++)
        if (!t->part[i].own) return true;
    return false;
}

void mf_id_parts_release(const mf_id_parts *t)
{
    for (int32_t i = 0; i < t->n_parts; i++)
        mf_map_release(&t->part[i].map);
}

/* Raises *largest to the largest of the words from..to-1. Returns the index of the first
 * word that is not an id, -1: none. With a constant `bytes`, each call is compiled to its
 * own loop. */
static inline int64_t scan_words(const mf_id_part *p, int64_t from, int64_t to, int bytes,
                                 uint32_t *largest)
{
    mf_id_part words = *p;
    words.id_bytes = bytes;
    uint32_t most = *largest;
    for (int64_t i = from; i < to; i++) {
        const uint32_t id = mf_id_parts_word(&words, i);
        most = id > most ? id : most;
    }
    *largest = most;
    if (most < MF_IDS_VOCAB) return -1;
    while (mf_id_parts_word(&words, from) < MF_IDS_VOCAB)
        from++;
    return from;
}

void mf_id_parts_scan(mf_id_part *p, int64_t *ret_wrong)
{
    const int64_t stretch = STRETCH / p->id_bytes;
    uint32_t largest = 0;
    *ret_wrong = -1;
    mf_map_ordered(&p->map);
    for (int64_t from = 0; from < p->n && *ret_wrong < 0; from += stretch) {
        const int64_t to = p->n - from < stretch ? p->n : from + stretch;
        *ret_wrong = p->id_bytes == 1   ? scan_words(p, from, to, 1, &largest)
                     : p->id_bytes == 2 ? scan_words(p, from, to, 2, &largest)
                                        : scan_words(p, from, to, 4, &largest);
        mf_map_release(&p->map);
    }
    mf_map_scattered(&p->map);
    p->largest = *ret_wrong < 0 ? (int32_t)largest : 0;
}

int mf_id_parts_take(mf_map *map, size_t at, size_t bytes, int32_t id_bytes, mf_id_part *ret)
{
    const char *data = (const char *)map->data + at;
    *ret = (mf_id_part){.n = (int64_t)(bytes / (size_t)id_bytes), .id_bytes = id_bytes};
    if (bytes >= MF_IDS_MAPPED && map->changed != 0) {
        ret->map = *map;
        ret->ids = data;
        *map = (mf_map){0};
        mf_map_scattered(&ret->map);
        return MF_OK;
    }
    ret->own = mf_alloc_raw(bytes + 1);
    if (ret->own && bytes > 0) memcpy(ret->own, data, bytes);
    ret->ids = ret->own;
    return ret->own ? MF_OK : MF_ENOMEM;
}
