/* graph/store/param.c: the store of parameters and buffers. Each change of values on a device
 * increases `state` (mf_store_changed). So the store can detect that a host copy made earlier
 * is out of date. */
#include "graph/store/param.h"

#include "base/error.h"
#include "base/resident.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "graph/graph.h"
#include "graph/shape.h"
#include "graph/store/store.h"
#include "kernels/kernel.h"

#include <math.h>
#include <string.h>

enum { ALIGN_ELEMENTS = 16 }; /* 64 bytes of f32 */

mf_store *mf_store_new(void)
{
    mf_store *s = mf_alloc(1, sizeof *s);
    if (!s) return NULL;
    s->memory = mf_arena_new();
    s->state = 1;
    if (s->memory) return s;
    mf_free(s);
    return NULL;
}

static void release_blocks(mf_store *s)
{
    for (int i = 0; i < MF_BLOCK_COUNT; i++) {
        mf_device_free(s->device, s->block[i]);
        mf_free(s->copy[i]);
        s->block[i] = s->copy[i] = NULL;
    }
    mf_device_free(s->device, s->stored);
    s->stored = NULL;
    s->bytes = 0;
}

void mf_store_free(mf_store *s)
{
    if (!s) return;
    release_blocks(s);
    for (int i = 0; i < s->n; i++) {
        mf_free(s->params[i]->host);
        mf_free(s->params[i]->sent);
        mf_free(s->params[i]->spare);
    }
    mf_free(s->params);
    mf_free(s->shards);
    mf_arena_free(s->memory);
    mf_free(s);
}

void mf_store_put_on(mf_store *s, mf_device *device)
{
    if (!s->sealed) s->device = mf_device_is_host(device) ? NULL : device;
}

mf_device *mf_store_device(const mf_store *s)
{
    return s->device;
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

static int64_t aligned(int64_t elements)
{
    return (elements + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
}

static void take_room(mf_store *s, mf_param *p)
{
    int64_t *size = p->buffer ? &s->buffer_size : &s->size;
    p->offset = *size;
    *size += aligned(p->count);
}

static mf_param *add(mf_store *s, const char *name, mf_shape shape, mf_init init, bool buffer)
{
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
    take_room(s, p);
    p->moment[0] = p->moment[1] = shape;
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

int mf_store_bind(mf_store *s, mf_param *p, const mf_stored *w)
{
    const mf_shape d = p->shape;
    const bool fits = d.rank == 2 ? w->groups == 1 && w->out == d.dim[0] && w->in == d.dim[1]
                      : d.rank == 3
                          ? w->groups == d.dim[0] && w->out == d.dim[1] && w->in == d.dim[2]
                          : false;
    if (s->sealed || p->buffer || !fits)
        return mf_fail(MF_EINVAL, "%s cannot be read from a file as it is stored", p->name);
    p->stored = w;
    p->frozen = true;
    s->size = s->buffer_size = 0;
    for (int i = 0; i < s->n; i++)
        if (!s->params[i]->stored) take_room(s, s->params[i]);
    return MF_OK;
}

int64_t mf_store_bound(const mf_store *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->n; i++)
        if (s->params[i]->stored) n += s->params[i]->count;
    return n;
}

/* ---- sealing ---- */

void mf_store_want_moments(mf_param *p, mf_shape first, mf_shape second)
{
    if (p->store->sealed || p->buffer) return;
    p->moment[0] = first;
    p->moment[1] = second;
}

int64_t mf_param_moment_count(const mf_param *p, int which)
{
    const bool none = p->buffer || p->stored || p->moment[which].rank < 0;
    return none ? 0 : mf_shape_count(p->moment[which]);
}

static void place_moments(mf_store *s)
{
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < s->n; i++) {
            mf_param *p = s->params[i];
            p->moment_at[which] = s->moment_size[which];
            s->moment_size[which] += aligned(mf_param_moment_count(p, which));
        }
}

static int64_t block_size(const mf_store *s, mf_block block)
{
    return block == MF_BLOCK_BUFFERS   ? s->buffer_size
           : block == MF_BLOCK_MOMENT1 ? (s->shards ? s->kept[0] : s->moment_size[0])
           : block == MF_BLOCK_MOMENT2 ? (s->shards ? s->kept[1] : s->moment_size[1])
                                       : s->size;
}

/* Allocates a block with one element more than needed, so no block is empty. The blocks of a
 * bare store only have addresses, whatever their size. */
int mf_store_make_block(mf_store *s, mf_block block)
{
    const int64_t n = block_size(s, block) + 1;
    const size_t bytes =
        (size_t)n * (block == MF_BLOCK_BF16 ? sizeof(uint16_t) : sizeof(float));
    if (block != MF_BLOCK_BUFFERS) s->bytes += bytes;
    if (!s->bare || block == MF_BLOCK_BUFFERS)
        return mf_store_judge_memory(s, mf_device_alloc(s->device, bytes, &s->block[block]));
    s->block[block] = mf_alloc_raw(sizeof(float));
    return s->block[block] ? MF_OK : MF_ENOMEM;
}

static int make_blocks(mf_store *s, bool training)
{
    int rc = mf_store_make_block(s, MF_BLOCK_BUFFERS);
    if (rc == MF_OK) rc = mf_store_make_block(s, MF_BLOCK_VALUES);
    if (rc == MF_OK && s->bf16) rc = mf_store_make_block(s, MF_BLOCK_BF16);
    if (rc == MF_OK && training) rc = mf_store_make_block(s, MF_BLOCK_GRADS);
    if (!training || s->no_moments) return rc;
    if (rc == MF_OK) rc = mf_store_make_block(s, MF_BLOCK_MOMENT1);
    return rc == MF_OK ? mf_store_make_block(s, MF_BLOCK_MOMENT2) : rc;
}

/* Draws the initial values. For a device they are drawn into memory on the host, one parameter
 * at a time, and then copied. */
static int draw_values(mf_store *s, uint64_t seed)
{
    int64_t most = 1;
    float *drawn = NULL;
    for (int i = 0; i < s->n; i++)
        if (s->params[i]->count > most && !s->params[i]->stored) most = s->params[i]->count;
    if (s->device && !(drawn = mf_alloc_raw((size_t)most * sizeof *drawn))) return MF_ENOMEM;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < s->n; i++) {
        mf_param *p = s->params[i];
        if ((s->bare && !p->buffer) || p->stored) continue;
        mf_param_draw(p, seed, drawn ? drawn : p->value);
        mf_param_trim(p);
        if (drawn)
            rc = mf_device_write_now(s->device, p->value, drawn,
                                     (size_t)p->count * sizeof *drawn);
    }
    mf_free(drawn);
    return rc;
}

void mf_store_want_bf16(mf_store *s)
{
    s->bf16 = !s->sealed;
}

void mf_store_want_no_moments(mf_store *s)
{
    s->no_moments = !s->sealed;
}

static void place(mf_param *p)
{
    const mf_store *s = p->store;
    float *grads = s->block[MF_BLOCK_GRADS];
    uint16_t *bf16 = s->block[MF_BLOCK_BF16];
    const int64_t at = s->bare && !p->buffer ? 0 : p->offset;
    if (p->stored) return;
    p->value = (float *)s->block[p->buffer ? MF_BLOCK_BUFFERS : MF_BLOCK_VALUES] + at;
    p->grad = grads && !p->buffer ? grads + at : NULL;
    p->bf16 = bf16 && !p->buffer ? bf16 + at : NULL;
}

static int seal(mf_store *s, uint64_t seed, bool training, bool bare)
{
    if (s->sealed) return mf_fail(MF_EINVAL, "the parameters have their values already");
    s->bare = bare;
    if (bare) s->device = NULL;
    s->moment_size[0] = s->moment_size[1] = 0;
    place_moments(s);
    int rc = make_blocks(s, training);
    if (rc == MF_OK) rc = mf_store_send_stored(s);
    for (int i = 0; rc == MF_OK && i < s->n; i++)
        place(s->params[i]);
    if (rc == MF_OK) rc = draw_values(s, seed);
    if (rc != MF_OK) {
        release_blocks(s);
        for (int i = 0; i < s->n; i++)
            s->params[i]->value = s->params[i]->grad = NULL, s->params[i]->bf16 = NULL;
        return rc;
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
    /* The last '*' in the pattern, and the end of the text that this '*' matches. */
    const char *star = NULL, *from = NULL;
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
    return s->block[MF_BLOCK_VALUES];
}

float *mf_store_grads(const mf_store *s)
{
    return s->block[MF_BLOCK_GRADS];
}

float *mf_store_moment1(const mf_store *s)
{
    return s->block[MF_BLOCK_MOMENT1];
}

float *mf_store_moment2(const mf_store *s)
{
    return s->block[MF_BLOCK_MOMENT2];
}

uint16_t *mf_store_bf16(const mf_store *s)
{
    return s->block[MF_BLOCK_BF16];
}

void mf_store_refresh_bf16(mf_store *s)
{
    const mf_kernels *k = s->block[MF_BLOCK_BF16] ? mf_device_kernels(s->device, NULL) : NULL;
    const mf_kctx x = mf_device_context(s->device);
    if (!k || mf_store_flush(s) != MF_OK) return;
    for (int i = 0; i < s->n; i++) {
        const mf_param *p = s->params[i];
        const int64_t at = p->held ? p->held_first : 0, n = p->held ? p->held : p->count;
        if (p->bf16 && !p->f32_released && !p->packed)
            MF_RUN(k, &x, cast, .n = n, .from = MF_CAST_F32, .to = MF_CAST_BF16,
                   .in = p->value + at, .out = p->bf16 + at);
    }
    mf_store_changed(s);
}

void mf_store_release_f32(const mf_store *s, mf_param *p)
{
    if (s->block[MF_BLOCK_GRADS] || !p->bf16 || p->f32_released) return;
    if (!s->device) mf_resident_release(p->value, (size_t)p->count * sizeof(float));
    p->f32_released = true;
}

void mf_store_pack(mf_store *s, mf_param *p)
{
    const mf_kernels *k = mf_device_kernels(s->device, NULL);
    const mf_kctx x = mf_device_context(s->device);
    const int rank = p->shape.rank;
    if (!k || s->block[MF_BLOCK_GRADS] || p->buffer || p->packed || p->stored || rank < 2 ||
        rank > 3)
        return;
    if (mf_store_flush(s) != MF_OK) return;
    const int64_t *dim = p->shape.dim + rank - 2;
    void *w = p->bf16 ? (void *)p->bf16 : (void *)p->value;
    const int type = p->bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    p->packed = k->can_pack && k->can_pack(type, dim[0], dim[1]);
    if (p->packed)
        MF_RUN(k, &x, pack_weights, .type = type, .parts = rank == 3 ? p->shape.dim[0] : 1,
               .n = dim[0], .k = dim[1], .w = w);
    mf_store_changed(s);
}

/* ---- access by the host ---- */

bool mf_store_has(const mf_store *s, mf_block block)
{
    return s->block[block] != NULL;
}

static size_t block_bytes(const mf_store *s, mf_block block)
{
    const int64_t n = block_size(s, block);
    if (!mf_store_has(s, block)) return 0;
    return (size_t)n * (block == MF_BLOCK_BF16 ? sizeof(uint16_t) : sizeof(float));
}

size_t mf_param_offset(const mf_param *p, mf_block block)
{
    const int64_t at = block == MF_BLOCK_MOMENT1   ? p->moment_at[0]
                       : block == MF_BLOCK_MOMENT2 ? p->moment_at[1]
                                                   : p->offset;
    return (size_t)at * (block == MF_BLOCK_BF16 ? sizeof(uint16_t) : sizeof(float));
}

static int check_range(const mf_store *s, mf_block block, size_t offset, size_t bytes)
{
    const size_t size = block_bytes(s, block);
    if (offset <= size && bytes <= size - offset) return MF_OK;
    return mf_fail(MF_EINVAL, "bytes %zu to %zu of a block of parameters that has %zu", offset,
                   offset + bytes, size);
}

/* Whether the host has changed its copy since the copy and the device were last equal. The
 * caller of mf_param_edit may change the copy at any time between runs, so this is tested
 * each time. */
static bool is_edited(const mf_param *p)
{
    return p->sent && memcmp(p->host, p->sent, (size_t)p->count * sizeof(float)) != 0;
}

int mf_store_flush(mf_store *s)
{
    bool any = false;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && s->n_edited > 0 && i < s->n; i++) {
        mf_param *p = s->params[i];
        const size_t bytes = (size_t)p->count * sizeof(float);
        if (!is_edited(p)) continue;
        memcpy(p->sent, p->host, bytes);
        rc = mf_device_write(s->device, p->value, p->sent, bytes);
        any = true;
    }
    if (!any) return rc;
    mf_store_changed(s);
    return rc == MF_OK ? mf_device_wait(s->device) : rc;
}

void mf_store_changed(mf_store *s)
{
    s->state++;
}

/* Sends edited values to the device before a copy is made. The store is const, because its
 * values do not change for the caller. */
static int flush_of(const mf_store *s)
{
    return s->n > 0 ? mf_store_flush(s->params[0]->store) : MF_OK;
}

int mf_store_read(const mf_store *s, mf_block block, void *to, size_t offset, size_t bytes)
{
    int rc = check_range(s, block, offset, bytes);
    if (rc == MF_OK) rc = flush_of(s);
    if (rc != MF_OK || bytes == 0) return rc;
    return mf_device_read_now(s->device, to, (char *)s->block[block] + offset, bytes);
}

int mf_store_write(mf_store *s, mf_block block, const void *from, size_t offset, size_t bytes)
{
    int rc = check_range(s, block, offset, bytes);
    if (rc == MF_OK) rc = mf_store_flush(s);
    if (rc != MF_OK || bytes == 0) return rc;
    mf_store_changed(s);
    return mf_device_write_now(s->device, (char *)s->block[block] + offset, from, bytes);
}

int mf_store_zero(mf_store *s, mf_block block)
{
    const int rc = mf_store_flush(s);
    mf_store_changed(s);
    return rc == MF_OK ? mf_device_zero(s->device, s->block[block], block_bytes(s, block)) : rc;
}

const void *mf_store_host(const mf_store *s, mf_block block)
{
    mf_store *own = s->n > 0 ? s->params[0]->store : NULL;
    if (!s->device || !own || !s->block[block]) return s->block[block];
    if (!own->copy[block]) own->copy[block] = mf_alloc_raw(block_bytes(s, block) + 1);
    if (!own->copy[block]) return NULL;
    if (mf_store_flush(own) != MF_OK) return NULL;
    if (own->seen[block] == s->state) return own->copy[block];
    if (mf_store_read(s, block, own->copy[block], 0, block_bytes(s, block)) != MF_OK)
        return NULL;
    own->seen[block] = s->state;
    return own->copy[block];
}

/* Reads a stored weight as f32, some rows at a time. */
static int read_stored(const mf_param *p, char *to, size_t offset, size_t bytes)
{
    enum { ROWS = 32 }; /* rows that kernels unpack together */
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx x = mf_device_context(NULL);
    const size_t row = (size_t)p->stored->in * sizeof(float);
    float *room = mf_alloc_raw(ROWS * row);
    if (!k || !room) {
        mf_free(room);
        return k ? MF_ENOMEM : mf_backend_init();
    }
    for (size_t n; bytes > 0; offset += n, to += n, bytes -= n) {
        const size_t id = offset / row, skip = offset % row, most = (ROWS - id % ROWS) * row;
        int32_t ids[ROWS];
        mf_stored_rows_args a = {.w = p->stored, .ids = ids, .y = room};
        n = most - skip < bytes ? most - skip : bytes;
        for (; (size_t)a.count * row < skip + n; a.count++)
            ids[a.count] = (int32_t)id + (int32_t)a.count;
        k->stored_rows(&x, &a);
        memcpy(to, (const char *)room + skip, n);
    }
    mf_free(room);
    return MF_OK;
}

static const float *host_of_stored(mf_param *p)
{
    const size_t bytes = (size_t)p->count * sizeof(float);
    if (p->host) return p->host;
    p->host = mf_alloc_raw(bytes);
    if (p->host && read_stored(p, (char *)p->host, 0, bytes) == MF_OK) return p->host;
    mf_free(p->host);
    return p->host = NULL;
}

static int refuse_write(const mf_param *p)
{
    return mf_fail(MF_EINVAL, "%s is read from a file and cannot be written", p->name);
}

static int check_param_range(const mf_param *p, size_t offset, size_t bytes)
{
    const size_t size = (size_t)p->count * sizeof(float);
    const bool there = p->value || p->stored;
    if (there && offset <= size && bytes <= size - offset) return MF_OK;
    return mf_fail(MF_EINVAL, "%s: bytes %zu to %zu, but it has %zu", p->name, offset,
                   offset + bytes, there ? size : 0);
}

static mf_block home(const mf_param *p)
{
    return p->buffer ? MF_BLOCK_BUFFERS : MF_BLOCK_VALUES;
}

int mf_param_read(const mf_param *p, void *to, size_t offset, size_t bytes)
{
    const size_t at = mf_param_offset(p, home(p)) + offset;
    const int rc = check_param_range(p, offset, bytes);
    if (rc == MF_OK && p->stored) return read_stored(p, to, offset, bytes);
    return rc == MF_OK ? mf_store_read(p->store, home(p), to, at, bytes) : rc;
}

int mf_param_write(mf_param *p, const void *from, size_t offset, size_t bytes)
{
    const size_t at = mf_param_offset(p, home(p)) + offset;
    const int rc = check_param_range(p, offset, bytes);
    if (rc == MF_OK && p->stored) return refuse_write(p);
    return rc == MF_OK ? mf_store_write(p->store, home(p), from, at, bytes) : rc;
}

/* Returns the host's copy of a parameter on a device. Unless the host has edited it, the copy
 * is first updated from the device. NULL on failure. */
static float *copy_of(mf_param *p)
{
    mf_store *s = p->store;
    const size_t bytes = (size_t)p->count * sizeof(float);
    if (!p->host) p->host = mf_alloc_raw(bytes);
    if (!p->host || is_edited(p) || p->seen == s->state) return p->host;
    if (mf_device_read_now(s->device, p->host, p->value, bytes) != MF_OK) return NULL;
    if (p->sent) memcpy(p->sent, p->host, bytes);
    p->seen = s->state;
    return p->host;
}

const float *mf_param_host(const mf_param *p)
{
    if (p->stored) return host_of_stored(p->store->params[p->index]);
    return p->store->device && p->value ? copy_of(p->store->params[p->index]) : p->value;
}

void mf_param_forget(mf_param *p)
{
    if (!p->stored) return;
    mf_free(p->host);
    p->host = NULL;
}

float *mf_param_edit(mf_param *p)
{
    if (p->stored) refuse_write(p);
    if (!p->store->device || !p->value) return p->value;
    float *copy = copy_of(p);
    if (!copy || p->sent) return copy;
    p->sent = mf_alloc_raw((size_t)p->count * sizeof(float));
    if (!p->sent) return NULL;
    memcpy(p->sent, copy, (size_t)p->count * sizeof(float));
    p->store->n_edited++;
    return copy;
}
