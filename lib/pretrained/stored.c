/* pretrained/stored.c: converts the places of tensors to parts of stored weights. A parameter
 * is listed only if all its tensors can be parts. The other parameters are read to f32. */
#include "pretrained/stored.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"

/* A part, and the group (expert) to which it belongs. */
typedef struct piece {
    int64_t group;
    mf_stored_part part;
} piece;

typedef struct lister {
    const mf_folder *folder;
    const mf_ledger *ledger;
    const mf_store *store;
    mf_stored_files *files;
    piece *pieces;
    int64_t n, room;
} lister;

static int add(lister *l, int64_t group, const mf_stored_part *part)
{
    if (l->n == l->room) {
        const int64_t room = l->room ? 2 * l->room : 64;
        piece *more =
            mf_realloc(l->pieces, (size_t)l->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return MF_ENOMEM;
        l->pieces = more;
        l->room = room;
    }
    l->pieces[l->n++] = (piece){group, *part};
    return MF_OK;
}

/* Returns the bytes of a tensor in its mapped file, from `skip` on; NULL: they are
 * not aligned. */
static const void *bytes_of(const lister *l, int64_t i, uint64_t skip, size_t align)
{
    const mf_folder_tensor *t = &l->folder->tensors[i];
    const uint64_t at = mf_st_data_start(l->folder->shards[t->shard]) + t->tensor->offset;
    return mf_stored_files_at(l->files, t->shard, at + skip, t->tensor->bytes - skip, align);
}

/* Returns group_of (the tensor g_idx) if the inputs are not in the order of their groups;
 * else NULL. */
static const int32_t *order_of(const int32_t *group_of, int64_t in, int64_t size)
{
    for (int64_t i = 0; i < in; i++)
        if (group_of[i] != i / size) return group_of;
    return NULL;
}

static bool dense_part(const lister *l, int64_t i, int64_t expert, int64_t in,
                       mf_stored_part *p)
{
    const mf_st_tensor *t = l->folder->tensors[i].tensor;
    const size_t size = mf_st_dtype_size(t->dtype);
    p->type = t->dtype == MF_ST_F32    ? MF_STORED_F32
              : t->dtype == MF_ST_BF16 ? MF_STORED_BF16
                                       : MF_STORED_F16;
    p->ld = p->transposed ? p->rows : in;
    p->data = bytes_of(l, i, (uint64_t)(expert * p->rows * in) * size, size);
    return p->data != NULL;
}

/* Describes a weight of several tensors, or its matrix of an expert, with the outputs and
 * pairs that *p has. */
static bool coded_part(const lister *l, const mf_place *place, int64_t expert, int64_t in,
                       mf_stored_part *p)
{
    const mf_stored_part given = *p;
    mf_source s = {.form = place->form, .packing = l->ledger->packing};
    const void *at[MF_FORM_PARTS] = {NULL};
    int64_t found = 0;
    for (int i = 0; i < mf_form_parts(s.form); i++) {
        if (place->parts[i] < 0) continue;
        const mf_st_tensor *t = l->folder->tensors[place->parts[i]].tensor;
        s.tensor[i] = t;
        const uint64_t experts = s.form == MF_FORM_MXFP4 ? (uint64_t)t->shape[0] : 1;
        at[i] = bytes_of(l, place->parts[i], (uint64_t)expert * (t->bytes / experts),
                         mf_st_dtype_size(t->dtype));
        if (!at[i]) return false;
    }
    mf_form_describe(&s, at, &found, p);
    if (p->group_of) p->group_of = order_of(p->group_of, in, p->group_size);
    p->pairs = given.pairs;
    p->first = given.first;
    p->rows = given.rows;
    return found == in;
}

/* Adds the parts of a parameter that tensor i contains. *ret: whether the tensor can be such
 * a part. */
static int add_place(lister *l, int64_t i, bool *ret)
{
    const mf_place *place = &l->ledger->places[i];
    const mf_shape s = place->param->shape;
    const bool fused = place->rule->flags & MF_RULE_FUSED,
               transposed = place->rule->flags & MF_RULE_TRANSPOSED,
               reordered =
                   place->rule->flags & (MF_RULE_BY_HEADS | MF_RULE_TURNS | MF_RULE_APART);
    const int64_t in = s.dim[s.rank - 1], each = s.rank == 3 ? s.dim[1] * in : s.dim[0] * in;
    *ret = !place->other && !reordered && place->form != MF_FORM_F64 &&
           place->shape_rank >= 2 && (s.rank == 3 || !fused);
    int rc = MF_OK;
    for (int64_t e = 0; *ret && rc == MF_OK && e < (fused ? s.dim[0] : 1); e++) {
        mf_stored_part p = {.transposed = transposed,
                            .pairs = place->rule->part == MF_PART_PAIRS,
                            .rows = place->shape[place->shape_rank - (transposed ? 1 : 2)],
                            .first = place->base % each / in};
        *ret = place->form == MF_FORM_PLAIN
                   ? dense_part(l, i, e, in, &p)
                   : (place->form == MF_FORM_MXFP4) == fused && coded_part(l, place, e, in, &p);
        if (*ret) rc = add(l, fused ? e : place->base / each, &p);
    }
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->part.first > y->part.first) - (x->part.first < y->part.first);
}

/* Lists the weight of a parameter, if the collected pieces form a weight. */
static int put(lister *l, const mf_param *p)
{
    const mf_shape s = p->shape;
    mf_stored w = {.groups = s.rank == 3 ? s.dim[0] : 1,
                   .out = s.dim[s.rank - 2],
                   .in = s.dim[s.rank - 1]};
    if (l->n == 0 || l->n % w.groups != 0) return MF_OK;
    w.parts = l->n / w.groups;
    qsort(l->pieces, (size_t)l->n, sizeof *l->pieces, by_place);
    mf_stored_part *part = mf_alloc((size_t)l->n, sizeof *part);
    if (!part) return MF_ENOMEM;
    for (int64_t i = 0; i < l->n; i++)
        part[i] = l->pieces[i].part;
    w.part = part;
    const int rc = mf_stored_files_put(l->files, p->name, &w);
    mf_free(part);
    return rc;
}

/* Lists the weight of each parameter whose tensors can all be parts. first [parameters]: the
 * first place of each parameter; next [places]: the following place of the same parameter.
 * -1: none. */
static int list_params(lister *l, const int64_t *first, const int64_t *next)
{
    int rc = MF_OK;
    for (int j = 0; rc == MF_OK && j < mf_store_count(l->store); j++) {
        const mf_param *p = mf_store_at(l->store, j);
        bool good = !p->buffer && (p->shape.rank == 2 || p->shape.rank == 3);
        l->n = 0;
        for (int64_t i = first[j]; good && rc == MF_OK && i >= 0; i = next[i])
            rc = add_place(l, i, &good);
        if (rc == MF_OK && good) rc = put(l, p);
    }
    return rc;
}

static int map_shards(lister *l)
{
    int rc = MF_OK, at;
    for (int32_t s = 0; rc == MF_OK && s < l->folder->n_shards; s++)
        rc = mf_stored_files_add(l->files, mf_st_path(l->folder->shards[s]), &at);
    return rc;
}

int mf_stored_of_folder(const mf_folder *folder, const mf_ledger *ledger, const mf_store *store,
                        mf_stored_files **ret)
{
    lister l = {folder, ledger, store, mf_stored_files_new(), NULL, 0, 0};
    const int n = mf_store_count(store);
    int64_t *first = mf_alloc((size_t)n + 1, sizeof *first),
            *next = mf_alloc((size_t)ledger->n + 1, sizeof *next);
    int rc = l.files && first && next ? map_shards(&l) : MF_ENOMEM;
    for (int j = 0; rc == MF_OK && j < n; j++)
        first[j] = -1;
    for (int64_t i = ledger->n; rc == MF_OK && i-- > 0;) {
        const mf_place *p = &ledger->places[i];
        if (!p->param || p->tied) continue;
        next[i] = first[p->index];
        first[p->index] = i;
    }
    if (rc == MF_OK) rc = list_params(&l, first, next);
    mf_free(first);
    mf_free(next);
    mf_free(l.pieces);
    if (rc == MF_OK)
        *ret = l.files;
    else
        mf_stored_files_free(l.files);
    return rc;
}
