/* data/strings.c: a set of distinct strings with open addressing. Ids follow the order of
 * adding and never change. */
#include "data/strings.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { FIRST = 256 };

void mf_strings_free(mf_strings *s)
{
    mf_free(s->bytes);
    mf_free(s->begin);
    mf_free(s->slot);
    *s = (mf_strings){0};
}

/* FNV-1a, with its high bits folded into the low ones. */
static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

const char *mf_strings_get(const mf_strings *s, int32_t id, size_t *ret_n)
{
    *ret_n = s->begin[id + 1] - s->begin[id];
    return s->bytes + s->begin[id];
}

/* Finds the slot that contains the string, or the free slot where it belongs. */
static size_t slot_of(const mf_strings *s, const char *text, size_t n)
{
    size_t at = hash_of(text, n) & (s->slots - 1);
    for (; s->slot[at] != 0; at = (at + 1) & (s->slots - 1)) {
        size_t length;
        const char *have = mf_strings_get(s, s->slot[at] - 1, &length);
        if (length == n && (n == 0 || memcmp(have, text, n) == 0)) break;
    }
    return at;
}

int32_t mf_strings_find(const mf_strings *s, const char *text, size_t n)
{
    return s->slots > 0 ? s->slot[slot_of(s, text, n)] - 1 : -1;
}

/* Doubles the slots, so that at most half of them are used. */
static int more_slots(mf_strings *s)
{
    size_t slots = s->slots > 0 ? 2 * s->slots : 2 * FIRST;
    int32_t *slot = mf_alloc(slots, sizeof *slot);
    if (!slot) return MF_ENOMEM;
    mf_free(s->slot);
    s->slot = slot;
    s->slots = slots;
    for (int32_t i = 0; i < s->n; i++) {
        size_t n;
        const char *text = mf_strings_get(s, i, &n);
        s->slot[slot_of(s, text, n)] = i + 1;
    }
    return MF_OK;
}

static int more_room(mf_strings *s, size_t n)
{
    if (s->n == s->cap) {
        if (s->cap > INT32_MAX / 4) return mf_fail(MF_ENOMEM, "out of memory: strings");
        size_t cap = s->cap > 0 ? 2 * (size_t)s->cap : FIRST;
        size_t *begin =
            mf_realloc(s->begin, s->cap > 0 ? ((size_t)s->n + 1) * sizeof *begin : 0,
                       (cap + 1) * sizeof *begin);
        if (!begin) return MF_ENOMEM;
        begin[s->n] = s->n_bytes;
        s->begin = begin;
        s->cap = (int32_t)cap;
    }
    /* an empty string also needs an address */
    if (!s->bytes || s->cap_bytes - s->n_bytes < n) {
        size_t cap = 2 * s->cap_bytes + n + FIRST;
        char *bytes = mf_realloc(s->bytes, s->n_bytes, cap);
        if (!bytes) return MF_ENOMEM;
        s->bytes = bytes;
        s->cap_bytes = cap;
    }
    return (size_t)s->n * 2 >= s->slots ? more_slots(s) : MF_OK;
}

int mf_strings_add(mf_strings *s, const char *text, size_t n, int32_t *ret_id, bool *ret_new)
{
    *ret_id = mf_strings_find(s, text, n);
    *ret_new = *ret_id < 0;
    if (!*ret_new) return MF_OK;
    int rc = more_room(s, n);
    if (rc != MF_OK) return rc;
    if (n > 0) memcpy(s->bytes + s->n_bytes, text, n);
    s->n_bytes += n;
    *ret_id = s->n++;
    s->begin[s->n] = s->n_bytes;
    s->slot[slot_of(s, text, n)] = s->n;
    return MF_OK;
}
