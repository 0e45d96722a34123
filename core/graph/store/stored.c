/* graph/store/stored.c: copies weights from files to a device, with the same bytes in the same
 * types, once, when the store is sealed. All weights of a store are in one block. For each
 * weight the block contains the table of its parts, and then their bytes, each piece at a
 * multiple of 64. */
#include "graph/store/stored.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/store/store.h"

enum { ALIGN = 64, BLOCK = 32 };

void mf_stored_sizes(const mf_stored_part *p, int64_t in, uint64_t ret[MF_STORED_POINTERS])
{
    const uint64_t rows = (uint64_t)p->rows, inputs = (uint64_t)in, ld = (uint64_t)p->ld;
    const uint64_t lines = p->transposed ? inputs : rows, each = p->transposed ? rows : inputs;
    const uint64_t groups = (uint64_t)p->groups, scale = p->scale_type == MF_SCALE_F32 ? 4 : 2;
    memset(ret, 0, MF_STORED_POINTERS * sizeof *ret);
    switch (p->type) {
    case MF_STORED_GPTQ4:
    case MF_STORED_GPTQ8:
    case MF_STORED_AWQ4:
    case MF_STORED_INT4:
        ret[0] = p->type == MF_STORED_GPTQ8 ? rows * inputs : rows * inputs / 2;
        ret[1] = groups * rows * scale;
        ret[2] = p->type == MF_STORED_GPTQ8 ? groups * rows : groups * rows / 2;
        ret[3] = p->group_of ? inputs * 4 : 0;
        if (p->type == MF_STORED_INT4 && !p->zeros) ret[2] = 0;
        break;
    case MF_STORED_F8_E4M3:
    case MF_STORED_F8_E5M2:
        ret[0] = rows * inputs;
        ret[1] = (rows - 1) / (uint64_t)p->scale_rows * groups * scale + groups * scale;
        break;
    case MF_STORED_MXFP4:
        ret[0] = rows * inputs / 2;
        ret[1] = rows * inputs / BLOCK;
        break;
    default:
        ret[0] = ((lines - 1) * ld + each) * (p->type == MF_STORED_F32 ? 4 : 2);
    }
}

bool mf_stored_fits_devices(const mf_stored *w)
{
    bool fits = true;
    for (int64_t i = 0; i < w->groups * w->parts; i++)
        fits = fits && w->part[i].type <= MF_STORED_MXFP4 && !w->part[i].whole_zeros &&
               w->part[i].scale_type == MF_SCALE_F16;
    return fits;
}

void mf_stored_pointers(const mf_stored_part *p, const void *ret[MF_STORED_POINTERS])
{
    ret[0] = p->data;
    ret[1] = p->scales;
    ret[2] = p->zeros;
    ret[3] = p->group_of;
}

static size_t padded(uint64_t bytes)
{
    return (size_t)(bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t bytes_of(const mf_stored *w)
{
    uint64_t size[MF_STORED_POINTERS];
    size_t sum = padded((uint64_t)(w->groups * w->parts) * sizeof *w->part);
    for (int64_t i = 0; i < w->groups * w->parts; i++) {
        mf_stored_sizes(&w->part[i], w->in, size);
        for (int j = 0; j < MF_STORED_POINTERS; j++)
            sum += padded(size[j]);
    }
    return sum;
}

/* Queues the copies of a weight's bytes to `to`, and copies the table of its parts there. The
 * host's table stays in the store's memory, because its copy is queued, too. */
static int copy(mf_store *s, mf_param *p, char *to)
{
    const mf_stored *w = p->stored;
    const size_t table_bytes = (size_t)(w->groups * w->parts) * sizeof *w->part;
    mf_stored_part *table = mf_arena_alloc(s->memory, table_bytes);
    mf_stored *own = mf_arena_alloc(s->memory, sizeof *own);
    char *at = to + padded(table_bytes);
    int rc = table && own ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < w->groups * w->parts; i++) {
        uint64_t size[MF_STORED_POINTERS];
        const void *from[MF_STORED_POINTERS], *there[MF_STORED_POINTERS] = {NULL};
        mf_stored_sizes(&w->part[i], w->in, size);
        mf_stored_pointers(&w->part[i], from);
        for (int j = 0; rc == MF_OK && j < MF_STORED_POINTERS; j++) {
            if (size[j] == 0) continue;
            rc = mf_device_write(s->device, at, from[j], (size_t)size[j]);
            there[j] = at;
            at += padded(size[j]);
        }
        table[i] = w->part[i];
        table[i].data = there[0];
        table[i].scales = there[1];
        table[i].zeros = there[2];
        table[i].group_of = there[3];
    }
    if (rc == MF_OK) rc = mf_device_write(s->device, to, table, table_bytes);
    if (rc != MF_OK) return rc;
    *own = *w;
    own->part = (const mf_stored_part *)(void *)to;
    own->home = w;
    p->there = own;
    return MF_OK;
}

size_t mf_store_stored_bytes(const mf_store *s)
{
    size_t bytes = 0;
    for (int i = 0; i < s->n; i++)
        if (s->params[i]->stored) bytes += bytes_of(s->params[i]->stored);
    return bytes;
}

/* Returns rc, the code of the allocation; after MF_ENOMEM the message says what the memory
 * was for. */
static int judge(int rc, size_t bytes)
{
    char why[384];
    if (rc != MF_ENOMEM) return rc;
    snprintf(why, sizeof why, "%s", mf_error_message());
    return mf_fail(rc,
                   "%s; %.1f MiB are for weights in the types that their files have, which "
                   "`moefw quantize` makes smaller",
                   why, (double)bytes / (1 << 20));
}

int mf_store_send_stored(mf_store *s)
{
    const size_t bytes = mf_store_stored_bytes(s);
    if (!s->device || s->bare || bytes == 0) return MF_OK;
    int rc = judge(mf_device_alloc(s->device, bytes, &s->stored), bytes);
    char *at = s->stored;
    for (int i = 0; rc == MF_OK && i < s->n; i++) {
        mf_param *p = s->params[i];
        if (!p->stored) continue;
        rc = copy(s, p, at);
        at += bytes_of(p->stored);
    }
    /* This also waits after an error, because the files may be unmapped next. */
    const int waited = mf_device_wait(s->device);
    return rc == MF_OK ? waited : rc;
}
