/* graph/store/param.c: the store of parameters and buffers. */
#include "graph/store/param.h"

#include "base/error.h"
#include "base/resident.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "graph/graph.h"
#include "graph/shape.h"
#include "kernels/kernel.h"

#include <math.h>
#include <string.h>

enum { ALIGN_ELEMENTS = 16 }; /* 64 bytes */

struct mf_store {
    mf_arena *memory;
    mf_param **params;
    int n, room;
    bool sealed, bf16;
    int64_t trained;           /* elements of parameters, without gaps */
    int64_t size, buffer_size; /* elements of the blocks, with gaps */
    size_t bytes;              /* of the blocks without the buffers */
    bool bare;                 /* they are not to be touched */
    float *values, *buffers, *grads, *moment1, *moment2;
    uint16_t *halves;
};

mf_store *mf_store_new(void)
{
    mf_store *s = mf_alloc(1, sizeof *s);
    if (!s) return NULL;
    s->memory = mf_arena_new();
    if (s->memory) return s;
    mf_free(s);
    return NULL;
}

void mf_store_free(mf_store *s)
{
    if (!s) return;
    mf_free(s->values);
    mf_free(s->buffers);
    mf_free(s->grads);
    mf_free(s->moment1);
    mf_free(s->moment2);
    mf_free(s->halves);
    mf_free(s->params);
    mf_arena_free(s->memory);
    mf_free(s);
}

/* ---- declaring ---- */

static int check_name(const char *name)
{
    if (!name || !*name) return mf_fail(MF_EINVAL, "a parameter needs a name");
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c <= ' ' || *c >= 127 || *c == '*')
            return mf_fail(MF_EINVAL,
                           "parameter name \"%.80s\": expected printable ASCII without space "
                           "or '*'",
                           name);
    return MF_OK;
}

static int check_declaration(const char *name, mf_shape shape, mf_init init)
{
    char text[MF_SHAPE_TEXT];
    if (check_name(name) != MF_OK) return MF_EINVAL;
    if (!mf_shape_valid(shape, MF_F32) || mf_shape_count(shape) < 1)
        return mf_fail(MF_EINVAL, "parameter %s cannot have the shape %s", name,
                       mf_shape_text(shape, text));
    if (init.kind > MF_INIT_EYE)
        return mf_fail(MF_EINVAL, "parameter %s: there is no kind of start value %u", name,
                       init.kind);
    if (!isfinite(init.a))
        return mf_fail(MF_EINVAL, "parameter %s: the number of its start value is not finite",
                       name);
    return MF_OK;
}

static int check_again(const mf_param *p, mf_shape shape, bool buffer)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    if (!mf_shape_equal(p->shape, shape))
        return mf_fail(MF_EINVAL, "%s is declared again with shape %s, but has %s", p->name,
                       mf_shape_text(shape, a), mf_shape_text(p->shape, b));
    if (p->buffer != buffer)
        return mf_fail(MF_EINVAL, "%s is declared as a %s, but is a %s", p->name,
                       buffer ? "buffer" : "parameter", p->buffer ? "buffer" : "parameter");
    return MF_OK;
}

static bool grow(mf_store *s)
{
    int more = s->room ? 2 * s->room : 64;
    if (s->n < s->room) return true;
    mf_param **fresh =
        mf_realloc(s->params, (size_t)s->room * sizeof *fresh, (size_t)more * sizeof *fresh);
    if (!fresh) return false;
    s->params = fresh;
    s->room = more;
    return true;
}

static mf_param *add(mf_store *s, const char *name, mf_shape shape, mf_init init, bool buffer)
{
    int64_t *size = buffer ? &s->buffer_size : &s->size;
    mf_param *p;
    if (!grow(s)) return NULL;
    p = mf_arena_alloc(s->memory, sizeof *p);
    if (!p) return NULL;
    p->name = mf_arena_strdup(s->memory, name);
    if (!p->name) return NULL;
    p->store = s;
    p->shape = shape;
    p->count = mf_shape_count(shape);
    p->init = init;
    p->index = s->n;
    p->buffer = buffer;
    p->frozen = init.flags & MF_PARAM_FROZEN;
    p->lr_scale = 1;
    p->offset = *size;
    *size += (p->count + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    if (!buffer) s->trained += p->count;
    s->params[s->n++] = p;
    return p;
}

int mf_store_declare(mf_store *s, const char *name, mf_shape shape, mf_init init, bool buffer,
                     mf_param **ret)
{
    mf_param *p;
    int code = check_declaration(name, shape, init);
    if (code != MF_OK) return code;
    p = mf_store_find(s, name);
    if (p) {
        code = check_again(p, shape, buffer);
        if (code != MF_OK) return code;
    } else if (s->sealed) {
        return mf_fail(MF_EINVAL, "%s is declared too late: the parameters have their values",
                       name);
    } else {
        p = add(s, name, shape, init, buffer);
        if (!p) return MF_ENOMEM;
    }
    if (ret) *ret = p;
    return MF_OK;
}

int mf_store_divide(mf_store *s, mf_param *p, int64_t parts, int64_t part_size)
{
    if (parts < 1 || part_size < 1 || p->count % (parts * part_size) != 0)
        return mf_fail(MF_EINVAL, "%s: %lld elements are not a multiple of %lld parts of %lld",
                       p->name, (long long)p->count, (long long)parts, (long long)part_size);
    p->part = mf_arena_alloc(s->memory, (size_t)parts * sizeof *p->part);
    if (!p->part) return MF_ENOMEM;
    for (int64_t i = 0; i < parts; i++)
        p->part[i] = 1;
    p->parts = parts;
    p->part_size = part_size;
    return MF_OK;
}

/* ---- sealing ---- */

static bool block(mf_store *s, float **ret)
{
    const size_t n = (size_t)s->size + 1;
    *ret = s->bare ? mf_alloc_raw(n * sizeof(float)) : mf_alloc(n, sizeof(float));
    s->bytes += n * sizeof(float);
    return *ret != NULL;
}

static bool half_block(mf_store *s)
{
    const size_t n = (size_t)s->size + 1;
    s->halves = s->bare ? mf_alloc_raw(n * sizeof *s->halves) : mf_alloc(n, sizeof *s->halves);
    s->bytes += n * sizeof *s->halves;
    return s->halves != NULL;
}

static bool allocate(mf_store *s, bool training)
{
    s->buffers = mf_alloc((size_t)s->buffer_size + 1, sizeof(float));
    if (!s->buffers || !block(s, &s->values)) return false;
    if (s->bf16 && !half_block(s)) return false;
    return !training || (block(s, &s->grads) && block(s, &s->moment1) && block(s, &s->moment2));
}

static void release_blocks(mf_store *s)
{
    float **blocks[] = {&s->values, &s->buffers, &s->grads, &s->moment1, &s->moment2};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        mf_free(*blocks[i]);
        *blocks[i] = NULL;
    }
    mf_free(s->halves);
    s->halves = NULL;
}

void mf_store_want_bf16(mf_store *s)
{
    s->bf16 = !s->sealed;
}

static int seal(mf_store *s, uint64_t seed, bool training, bool bare)
{
    if (s->sealed) return mf_fail(MF_EINVAL, "the parameters have their values already");
    s->bare = bare;
    if (!allocate(s, training)) {
        release_blocks(s);
        return MF_ENOMEM;
    }
    for (int i = 0; i < s->n; i++) {
        mf_param *p = s->params[i];
        p->value = (p->buffer ? s->buffers : s->values) + p->offset;
        p->grad = training && !p->buffer ? s->grads + p->offset : NULL;
        p->bf16 = s->halves && !p->buffer ? s->halves + p->offset : NULL;
        if (!bare || p->buffer) mf_param_draw(p, seed, p->value);
    }
    s->sealed = true;
    if (!bare) mf_store_refresh_bf16(s);
    return MF_OK;
}

int mf_store_seal(mf_store *s, uint64_t seed, bool training)
{
    return seal(s, seed, training, false);
}

int mf_store_seal_bare(mf_store *s, uint64_t seed, bool training)
{
    return seal(s, seed, training, true);
}

size_t mf_store_bytes(const mf_store *s)
{
    return s->bytes;
}

bool mf_store_sealed(const mf_store *s)
{
    return s->sealed;
}

/* ---- finding ---- */

int mf_store_count(const mf_store *s)
{
    return s->n;
}

mf_param *mf_store_at(const mf_store *s, int i)
{
    return i >= 0 && i < s->n ? s->params[i] : NULL;
}

mf_param *mf_store_find(const mf_store *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->params[i]->name, name) == 0) return s->params[i];
    return NULL;
}

mf_param *mf_store_match(const mf_store *s, const char *pattern, int i)
{
    for (int j = 0; j < s->n; j++)
        if (mf_match(pattern, s->params[j]->name) && i-- == 0) return s->params[j];
    return NULL;
}

bool mf_match(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL; /* the last '*', and the text it ends before */
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* ---- blocks ---- */

int64_t mf_store_trained(const mf_store *s)
{
    return s->trained;
}

float *mf_store_values(const mf_store *s, int64_t *ret_n)
{
    if (ret_n) *ret_n = s->size;
    return s->values;
}

float *mf_store_grads(const mf_store *s)
{
    return s->grads;
}

float *mf_store_moment1(const mf_store *s)
{
    return s->moment1;
}

float *mf_store_moment2(const mf_store *s)
{
    return s->moment2;
}

uint16_t *mf_store_bf16(const mf_store *s)
{
    return s->halves;
}

void mf_store_refresh_bf16(const mf_store *s)
{
    const mf_kernels *k = s->halves ? mf_backend_kernels() : NULL;
    const mf_kctx x = {.parallel = mf_parallel};
    for (int i = 0; k && i < s->n; i++) {
        const mf_param *p = s->params[i];
        if (p->bf16 && !p->f32_released && !p->packed)
            k->cast(&x, p->count, MF_CAST_F32, MF_CAST_BF16, p->value, p->bf16);
    }
}

void mf_store_release_f32(const mf_store *s, mf_param *p)
{
    if (s->grads || !p->bf16 || p->f32_released) return;
    mf_resident_release(p->value, (size_t)p->count * sizeof(float));
    p->f32_released = true;
}

void mf_store_pack(const mf_store *s, mf_param *p)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = {.parallel = mf_parallel};
    const int rank = p->shape.rank;
    if (!k || s->grads || p->buffer || p->packed || rank < 2 || rank > 3) return;
    const int64_t *dim = p->shape.dim + rank - 2;
    void *w = p->bf16 ? (void *)p->bf16 : (void *)p->value;
    const int type = p->bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    p->packed = k->can_pack(type, dim[0], dim[1]);
    if (p->packed)
        k->pack_weights(&x, type, rank == 3 ? p->shape.dim[0] : 1, dim[0], dim[1], w);
}

/* ---- access by the host ---- */

static void *block_data(const mf_store *s, mf_block block)
{
    switch (block) {
    case MF_BLOCK_VALUES:
        return s->values;
    case MF_BLOCK_GRADS:
        return s->grads;
    case MF_BLOCK_MOMENT1:
        return s->moment1;
    case MF_BLOCK_MOMENT2:
        return s->moment2;
    case MF_BLOCK_BF16:
        return s->halves;
    case MF_BLOCK_BUFFERS:
        return s->buffers;
    case MF_BLOCK_COUNT:
        break;
    }
    return NULL;
}

bool mf_store_has(const mf_store *s, mf_block block)
{
    return block_data(s, block) != NULL;
}

static size_t block_bytes(const mf_store *s, mf_block block)
{
    const int64_t n = block == MF_BLOCK_BUFFERS ? s->buffer_size : s->size;
    if (!mf_store_has(s, block)) return 0;
    return (size_t)n * (block == MF_BLOCK_BF16 ? sizeof(uint16_t) : sizeof(float));
}

size_t mf_param_offset(const mf_param *p, mf_block block)
{
    return (size_t)p->offset * (block == MF_BLOCK_BF16 ? sizeof(uint16_t) : sizeof(float));
}

static int check_range(const mf_store *s, mf_block block, size_t offset, size_t bytes)
{
    const size_t size = block_bytes(s, block);
    if (offset <= size && bytes <= size - offset) return MF_OK;
    return mf_fail(MF_EINVAL, "bytes %zu to %zu of a block of parameters that has %zu", offset,
                   offset + bytes, size);
}

int mf_store_read(const mf_store *s, mf_block block, void *to, size_t offset, size_t bytes)
{
    const int rc = check_range(s, block, offset, bytes);
    if (rc == MF_OK && bytes) memcpy(to, (char *)block_data(s, block) + offset, bytes);
    return rc;
}

int mf_store_write(mf_store *s, mf_block block, const void *from, size_t offset, size_t bytes)
{
    const int rc = check_range(s, block, offset, bytes);
    if (rc == MF_OK && bytes) memcpy((char *)block_data(s, block) + offset, from, bytes);
    return rc;
}

int mf_store_zero(mf_store *s, mf_block block)
{
    const size_t bytes = block_bytes(s, block);
    if (bytes) memset(block_data(s, block), 0, bytes);
    return MF_OK;
}

const void *mf_store_host(const mf_store *s, mf_block block)
{
    return block_data(s, block);
}

static int check_param_range(const mf_param *p, size_t offset, size_t bytes)
{
    const size_t size = (size_t)p->count * sizeof(float);
    if (p->value && offset <= size && bytes <= size - offset) return MF_OK;
    return mf_fail(MF_EINVAL, "%s: bytes %zu to %zu, but it has %zu", p->name, offset,
                   offset + bytes, p->value ? size : 0);
}

static mf_block home(const mf_param *p)
{
    return p->buffer ? MF_BLOCK_BUFFERS : MF_BLOCK_VALUES;
}

int mf_param_read(const mf_param *p, void *to, size_t offset, size_t bytes)
{
    const size_t at = mf_param_offset(p, home(p)) + offset;
    const int rc = check_param_range(p, offset, bytes);
    return rc == MF_OK ? mf_store_read(p->store, home(p), to, at, bytes) : rc;
}

int mf_param_write(mf_param *p, const void *from, size_t offset, size_t bytes)
{
    const size_t at = mf_param_offset(p, home(p)) + offset;
    const int rc = check_param_range(p, offset, bytes);
    return rc == MF_OK ? mf_store_write(p->store, home(p), from, at, bytes) : rc;
}

const float *mf_param_host(const mf_param *p)
{
    return p->value;
}

float *mf_param_edit(mf_param *p)
{
    return p->value;
}
