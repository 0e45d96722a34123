/* run/folder/stored_parts.c: sizes of the parts of stored weights, and their checks. After
 * these checks, kernels may read a weight without checking sizes again. */
#include "run/folder/stored_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { SIDE_MAX = INT32_MAX, BLOCK = 32 };

const char *const mf_stored_type_names[MF_STORED_TYPES] = {
    "F32", "BF16", "F16", "GPTQ4", "MXFP4", "F8_E4M3", "F8_E5M2", "INT4", "GPTQ8", "AWQ4"};

/* The memory behind a pointer; bytes is 0 if the type does not use this pointer. */
typedef struct extent {
    uint64_t bytes;
    size_t align; /* size of an element */
} extent;

static bool side(int64_t n)
{
    return n >= 1 && n <= SIDE_MAX;
}

/* What the numbers of a part of a quantized type must be. */
typedef struct quantized {
    int words;       /* rows are a multiple of this number */
    int inputs;      /* so are inputs */
    int group_sizes; /* so are sizes of groups */
    bool lists;      /* group_of may list the groups */
} quantized;
static const quantized quantized_types[MF_STORED_TYPES] = {
    [MF_STORED_GPTQ4] = {8, 8, 1, true}, [MF_STORED_F8_E4M3] = {1, 1, 1, false},
    [MF_STORED_INT4] = {8, 8, 8, false}, [MF_STORED_F8_E5M2] = {1, 1, 1, false},
    [MF_STORED_AWQ4] = {8, 1, 1, false}, [MF_STORED_GPTQ8] = {4, 4, 1, true},
};

static bool is_f8(const mf_stored_part *p)
{
    return p->type == MF_STORED_F8_E4M3 || p->type == MF_STORED_F8_E5M2;
}

static bool quantized_fits(const mf_stored_part *p, int64_t in)
{
    const quantized *q = &quantized_types[p->type];
    if (p->rows % q->words || in % q->inputs || !side(p->groups) || (int)p->scale_type < 0 ||
        p->scale_type > MF_SCALE_F32)
        return false;
    if (is_f8(p) ? !side(p->scale_rows)
                 : p->scale_type == MF_SCALE_F32 && p->type != MF_STORED_INT4)
        return false;
    if (p->group_of) return q->lists;
    return side(p->group_size) && p->group_size % q->group_sizes == 0 &&
           (in - 1) / p->group_size < p->groups;
}

/* Returns the sizes of the elements behind each pointer. */
static void aligns(const mf_stored_part *p, size_t align[MF_STORED_POINTERS])
{
    const size_t scale = p->scale_type == MF_SCALE_F32 ? 4 : 2;
    const bool words = p->type == MF_STORED_GPTQ4 || p->type >= MF_STORED_INT4;
    align[0] = p->type == MF_STORED_F32 || words ? 4 : p->type <= MF_STORED_F16 ? 2 : 1;
    align[1] = p->type == MF_STORED_MXFP4 ? 1 : scale;
    align[2] = align[3] = 4;
}

/* Computes the sizes of the memory behind the pointers of a part of a weight with `in` inputs.
 * Returns false if a number of the part is out of range. */
static bool extents(const mf_stored_part *p, int64_t in, extent out[MF_STORED_POINTERS])
{
    size_t align[MF_STORED_POINTERS];
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
    } else if (!quantized_fits(p, in)) {
        return false;
    }
    mf_stored_sizes(p, in, bytes);
    aligns(p, align);
    for (int i = 0; i < MF_STORED_POINTERS; i++)
        out[i] = (extent){bytes[i], align[i]};
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
    extent e[MF_STORED_POINTERS] = {{.bytes = 0}};
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
