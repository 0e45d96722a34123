/* pretrained/weights/values.c: visits a tensor's elements, and defines the operation at
 * each element.
 *
 * A tensor is visited in the order of its file, in pieces of bounded size. The place determines
 * the position of each element in the parameter. */
#include "pretrained/weights/values.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "pretrained/weights/types.h"

enum { PIECE = 1 << 16 };

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* ---- the walk ---- */

/* The position in a tensor, and the index of this element in place->param. */
typedef struct walk {
    const mf_place *place;
    int64_t at[MF_PLACE_RANK], index;
} walk;

static walk start(const mf_place *p)
{
    return (walk){.place = p, .index = p->base};
}

static void next(walk *w)
{
    const mf_place *p = w->place;
    for (int d = p->rank; d-- > 0;) {
        w->index += p->stride[d];
        if (++w->at[d] < p->size[d]) return;
        w->index -= p->size[d] * p->stride[d];
        w->at[d] = 0;
    }
}

/* Returns the address of the present element. values: the values of param and of `other`. */
static float *element(const walk *w, float *const values[2])
{
    const mf_place *p = w->place;
    if (!p->other || w->at[p->cut] < p->at) return values[0] + w->index;
    int64_t index = p->other_base;
    for (int d = 0; d < p->rank; d++)
        index += w->at[d] * p->other_stride[d];
    return values[1] + index;
}

/* Memory for a piece in f32 and in any type. */
typedef struct room {
    float *f32;
    unsigned char *raw;
} room;

static int new_room(room *r)
{
    r->f32 = mf_alloc(PIECE, sizeof *r->f32);
    r->raw = r->f32 ? mf_alloc(PIECE, sizeof(double)) : NULL;
    if (r->raw) return MF_OK;
    mf_free(r->f32);
    return MF_ENOMEM;
}

static void free_room(room *r)
{
    mf_free(r->f32);
    mf_free(r->raw);
}

typedef void visit(void *arg, float *ours, float value);

/* Decodes n elements of a weight of several tensors, from the present element on. */
static void decode(const mf_packed *p, walk *w, int64_t n, float *const values[2], visit *fn,
                   void *arg)
{
    const mf_place *place = w->place;
    const bool by_expert = place->shape_rank == 3,
               transposed = place->rule->flags & MF_RULE_TRANSPOSED;
    const int64_t columns = place->shape[place->shape_rank - 1],
                  rows = place->shape[place->shape_rank - 2];
    for (int64_t at = 0; at < n; at++, next(w)) {
        const int64_t e = by_expert ? at / (rows * columns) : 0, r = at / columns % rows,
                      c = at % columns;
        fn(arg, element(w, values), mf_packed_at(p, e, transposed ? c : r, transposed ? r : c));
    }
}

static int read_packed(const mf_source *source, const mf_place *place, float *const values[2],
                       visit *fn, void *arg)
{
    mf_packed p;
    walk w = start(place);
    const int rc = mf_packed_read(source, &p);
    if (rc != MF_OK) return rc;
    decode(&p, &w, mf_place_count(place), values, fn, arg);
    mf_packed_free(&p);
    return MF_OK;
}

/* Refuses numbers of F64 that became infinite in f32. */
static int judge_range(const mf_st_tensor *t, const room *r, int64_t n)
{
    const double *from = (const double *)(const void *)r->raw;
    for (int64_t i = 0; i < n; i++)
        if (isinf(r->f32[i]) && !isinf(from[i]))
            return mf_fail(MF_EINPUT, "tensor '%s': %g is outside of the range of f32", t->name,
                           from[i]);
    return MF_OK;
}

static int read_plain(const mf_source *source, const mf_place *place, float *const values[2],
                      visit *fn, void *arg)
{
    const mf_st_tensor *t = source->tensor[0];
    const int64_t n = (int64_t)t->count, size = (int64_t)mf_st_dtype_size(t->dtype);
    walk w = start(place);
    room r;
    int rc = new_room(&r);
    if (rc != MF_OK) return rc;
    for (int64_t from = 0; rc == MF_OK && from < n; from += PIECE) {
        const int64_t m = n - from < PIECE ? n - from : PIECE;
        rc = mf_st_read_part(source->file[0], t, r.raw, (size_t)(m * size),
                             (uint64_t)(from * size));
        if (rc == MF_OK) mf_types_to_f32(t->dtype, r.raw, m, r.f32);
        if (rc == MF_OK && t->dtype == MF_ST_F64) rc = judge_range(t, &r, m);
        for (int64_t i = 0; rc == MF_OK && i < m; i++, next(&w))
            fn(arg, element(&w, values), r.f32[i]);
    }
    free_room(&r);
    return rc;
}

static int read_all(const mf_source *source, const mf_place *place, float *const values[2],
                    visit *fn, void *arg)
{
    return mf_form_has_numbers(source->form) ? read_plain(source, place, values, fn, arg)
                                             : read_packed(source, place, values, fn, arg);
}

static void store(void *arg, float *ours, float value)
{
    (void)arg;
    *ours = value;
}

int mf_values_read(const mf_source *source, const mf_place *place, float *const values[2])
{
    return read_all(source, place, values, store, NULL);
}

static void compare(void *arg, float *ours, float value)
{
    bool *same = arg;
    *same = *same && bits_of(*ours) == bits_of(value);
}

int mf_values_compare(const mf_source *source, const mf_place *place, float *const values[2],
                      bool *ret_same)
{
    *ret_same = true;
    return read_all(source, place, values, compare, ret_same);
}

int mf_values_stream(mf_st_dtype dtype, const mf_place *place, float *const values[2],
                     mf_values_put *put, void *arg)
{
    const int64_t n = mf_place_count(place), size = (int64_t)mf_st_dtype_size(dtype);
    walk w = start(place);
    room r;
    int rc = new_room(&r);
    if (rc != MF_OK) return rc;
    for (int64_t from = 0; rc == MF_OK && from < n; from += PIECE) {
        const int64_t m = n - from < PIECE ? n - from : PIECE;
        for (int64_t i = 0; i < m; i++, next(&w))
            r.f32[i] = *element(&w, values);
        mf_types_from_f32(dtype, r.f32, m, r.raw);
        rc = put(arg, r.raw, (size_t)(m * size));
    }
    free_room(&r);
    return rc;
}

static int put_tensor(void *arg, const void *data, size_t n)
{
    return mf_st_writer_put(arg, data, n);
}

int mf_values_write(mf_st_writer *writer, const mf_st_tensor *t, const mf_place *place,
                    float *const values[2])
{
    return mf_values_stream(t->dtype, place, values, put_tensor, writer);
}

void mf_values_gather(const mf_place *place, float *const values[2], float *out)
{
    const int64_t n = mf_place_count(place);
    walk w = start(place);
    for (int64_t i = 0; i < n; i++, next(&w))
        out[i] = *element(&w, values);
}
