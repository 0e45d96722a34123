/* run/folder/stored_parts.c: sizes of the parts of stored weights, and their checks. After
 * these checks, kernels may read a weight without checking sizes again. */
#include "run/folder/stored_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { SIDE_MAX = INT32_MAX, BLOCK = 32, NIBBLES = 8 };

const char *const mf_stored_type_names[MF_STORED_TYPES] = {"F32", "BF16", "F16", "GPTQ4",
                                                           "MXFP4"};

/* The memory behind a pointer; bytes is 0 if the type does not use this pointer. */
typedef struct extent {
    uint64_t bytes;
    size_t align; /* size of an element */
} extent;

static bool side(int64_t n)
{
    return n >= 1 && n <= SIDE_MAX;
}

/* Computes the sizes of the memory behind the pointers of a part of a weight with `in` inputs.
 * Returns false if a number of the part is out of range. */
static bool extents(const mf_stored_part *p, int64_t in, extent out[MF_STORED_POINTERS])
{
    static const size_t align[MF_STORED_TYPES][MF_STORED_POINTERS] = {
        [MF_STORED_F32] = {4},      [MF_STORED_BF16] = {2},
        [MF_STORED_F16] = {2},      [MF_STORED_GPTQ4] = {4, 2, 4, 4},
        [MF_STORED_MXFP4] = {1, 1},
    };
    uint64_t bytes[MF_STORED_POINTERS];
    if (p->type >= MF_STORED_TYPES) return false;
    if (!side(p->rows) || !side(in) || p->first < 0 || (p->pairs && p->rows % 2 != 0))
        return false;
    if (p->type <= MF_STORED_F16) {
        if (p->ld < (p->transposed ? p->rows : in) || p->ld > SIDE_MAX) return false;
    } else if (p->transposed) {
        return false;
    } else if (p->type == MF_STORED_MXFP4) {
        if (in % BLOCK != 0) return false;
    } else if (p->rows % NIBBLES || in % NIBBLES || !side(p->groups) ||
               (!p->group_of &&
                (!side(p->group_size) || (in - 1) / p->group_size >= p->groups))) {
        return false;
    }
    mf_stored_sizes(p, in, bytes);
    for (int i = 0; i < MF_STORED_POINTERS; i++)
        out[i] = (extent){bytes[i], align[p->type][i]};
    return true;
}

static bool lies_in_files(const mf_stored_files *f, const void *at, const extent *e)
{
    for (int i = 0; i < f->n_files; i++) {
        const mf_map *m = &f->files[i].map;
        const uintptr_t from = (uintptr_t)m->data, to = (uintptr_t)at;
        if (m->data && to >= from && to - from <= m->size && e->bytes <= m->size - (to - from))
            return to % e->align == 0;
    }
    return false;
}

static int judge_groups(const mf_stored_part *p, int64_t in, const char *name)
{
    for (int64_t i = 0; p->group_of && i < in; i++)
        if (p->group_of[i] < 0 || p->group_of[i] >= p->groups)
            return mf_fail(MF_EINPUT, "%s: expected groups of inputs from 0 to %lld, found %d",
                           name, (long long)p->groups - 1, (int)p->group_of[i]);
    return MF_OK;
}

static int judge_part(const mf_stored_files *f, const mf_stored_part *p, int64_t in,
                      const char *name)
{
    extent e[MF_STORED_POINTERS];
    const void *at[MF_STORED_POINTERS];
    bool fits = extents(p, in, e);
    mf_stored_pointers(p, at);
    for (int i = 0; fits && i < MF_STORED_POINTERS; i++)
        fits = e[i].bytes == 0 || lies_in_files(f, at[i], &e[i]);
    if (fits) return judge_groups(p, in, name);
    return mf_fail(MF_EINPUT, "%s: a part of it is not within its file", name);
}

int mf_stored_judge(const mf_stored_files *f, const char *name, const mf_stored *w)
{
    int rc = MF_OK;
    bool fits = side(w->groups) && side(w->out) && side(w->in) && side(w->parts);
    for (int64_t e = 0; fits && rc == MF_OK && e < w->groups; e++) {
        int64_t next = 0;
        for (int64_t q = 0; fits && rc == MF_OK && q < w->parts; q++) {
            const mf_stored_part *p = &w->part[e * w->parts + q], *first = &w->part[q];
            fits = p->first == next && p->rows == first->rows && p->rows <= w->out - next &&
                   p->pairs == first->pairs;
            next += p->rows;
            if (fits) rc = judge_part(f, p, w->in, name);
        }
        fits = fits && (rc != MF_OK || next == w->out);
    }
    if (rc != MF_OK || fits) return rc;
    return mf_fail(MF_EINPUT, "%s: its parts are not the rows of a weight [%lld,%lld,%lld]",
                   name, (long long)w->groups, (long long)w->out, (long long)w->in);
}

/* ---- sums ---- */

/* Adds the bytes of the bound weights of each type. */
static void add_up(const mf_stored_files *f, const mf_store *store,
                   uint64_t bytes[MF_STORED_TYPES])
{
    extent e[MF_STORED_POINTERS];
    for (int i = 0; f && i < f->n_weights; i++) {
        const mf_stored *w = f->weights[i].w;
        const mf_param *p = mf_store_find(store, f->weights[i].name);
        for (int64_t q = 0; p && p->stored && q < w->groups * w->parts; q++) {
            extents(&w->part[q], w->in, e);
            for (int j = 0; j < MF_STORED_POINTERS; j++)
                bytes[w->part[q].type] += e[j].bytes;
        }
    }
}

uint64_t mf_stored_files_bytes(const mf_stored_files *f, const mf_store *store)
{
    uint64_t bytes[MF_STORED_TYPES] = {0}, sum = 0;
    add_up(f, store, bytes);
    for (int t = 0; t < MF_STORED_TYPES; t++)
        sum += bytes[t];
    return sum;
}

void mf_stored_files_types(const mf_stored_files *f, const mf_store *store, char *out,
                           size_t size)
{
    uint64_t bytes[MF_STORED_TYPES] = {0};
    size_t at = 0;
    add_up(f, store, bytes);
    for (out[0] = '\0'; at < size;) {
        int most = 0;
        for (int t = 1; t < MF_STORED_TYPES; t++)
            if (bytes[t] > bytes[most]) most = t;
        if (bytes[most] == 0) return;
        bytes[most] = 0;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? ", " : "",
                               mf_stored_type_names[most]);
    }
}
