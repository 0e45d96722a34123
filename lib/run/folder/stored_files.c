/* run/folder/stored_files.c: the list in memory, and the binding of parameters to its weights.
 * A weight is in the list only if all its parts are within their files. */
#include "run/folder/stored_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "graph/device/device.h"
#include "graph/graph.h"
#include "run/folder/stored_parts.h"

mf_stored_files *mf_stored_files_new(void)
{
    mf_stored_files *f = mf_alloc(1, sizeof *f);
    if (!f) return NULL;
    f->arena = mf_arena_new();
    if (f->arena) return f;
    mf_free(f);
    return NULL;
}

void mf_stored_files_free(mf_stored_files *f)
{
    if (!f) return;
    for (int i = 0; i < f->n_files; i++)
        mf_map_close(&f->files[i].map);
    mf_free(f->files);
    mf_free(f->weights);
    mf_arena_free(f->arena);
    mf_free(f);
}

int mf_stored_files_map(mf_stored_files *f, const char *path)
{
    mf_stored_file *more = mf_realloc(f->files, (size_t)f->n_files * sizeof *more,
                                      ((size_t)f->n_files + 1) * sizeof *more);
    if (!more) return MF_ENOMEM;
    f->files = more;
    mf_stored_file *file = &f->files[f->n_files];
    *file = (mf_stored_file){.path = mf_arena_strdup(f->arena, path)};
    if (!file->path) return MF_ENOMEM;
    const int rc = mf_map_open(path, &file->map);
    f->n_files += rc == MF_OK;
    return rc;
}

int mf_stored_files_add(mf_stored_files *f, const char *path, int *ret)
{
    char *full = realpath(path, NULL);
    if (!full) return mf_fail_errno(MF_EIO, "%s: cannot be found", path);
    const int rc = mf_stored_files_map(f, full);
    free(full);
    if (rc != MF_OK) return rc;
    mf_stored_file *file = &f->files[ *ret = f->n_files - 1];
    mf_hash_bytes(file->map.data ? file->map.data : "", file->map.size, file->hash);
    return MF_OK;
}

const void *mf_stored_files_at(const mf_stored_files *f, int file, uint64_t offset,
                               uint64_t bytes, size_t align)
{
    if (file < 0 || file >= f->n_files) return NULL;
    const mf_map *m = &f->files[file].map;
    if (!m->data || offset > m->size || bytes > m->size - offset) return NULL;
    const char *at = (const char *)m->data + offset;
    return (uintptr_t)at % align == 0 ? at : NULL;
}

const char *mf_stored_files_path(const mf_stored_files *f, const char *name)
{
    for (int i = 0; i < f->n_files; i++) {
        const char *slash = strrchr(f->files[i].path, '/');
        if (strcmp(slash ? slash + 1 : f->files[i].path, name) == 0) return f->files[i].path;
    }
    return NULL;
}

int mf_stored_files_put(mf_stored_files *f, const char *name, const mf_stored *w)
{
    const int rc = mf_stored_judge(f, name, w);
    if (rc != MF_OK) return rc;
    if (f->n_weights == f->room) {
        const size_t room = f->room ? 2 * (size_t)f->room : 64;
        mf_stored_weight *more =
            mf_realloc(f->weights, (size_t)f->room * sizeof *more, room * sizeof *more);
        if (!more) return MF_ENOMEM;
        f->weights = more;
        f->room = (int)room;
    }
    const size_t bytes = (size_t)(w->groups * w->parts) * sizeof *w->part;
    mf_stored_part *part = mf_arena_alloc(f->arena, bytes);
    mf_stored *own = mf_arena_alloc(f->arena, sizeof *own);
    const char *copy = mf_arena_strdup(f->arena, name);
    if (!part || !own || !copy) return MF_ENOMEM;
    memcpy(part, w->part, bytes);
    *own = *w;
    own->part = part;
    f->weights[f->n_weights++] = (mf_stored_weight){copy, own};
    return MF_OK;
}

/* ---- parameters ---- */

int mf_stored_files_bind(const mf_stored_files *f, mf_store *store, bool frozen_only,
                         const char *but)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < f->n_weights; i++) {
        mf_param *p = mf_store_find(store, f->weights[i].name);
        if (!p || p->buffer || (frozen_only && !p->frozen)) continue;
        if (but && strstr(p->name, but)) continue;
        if (mf_store_device(store) && !mf_stored_fits_devices(f->weights[i].w)) continue;
        rc = mf_store_bind(store, p, f->weights[i].w);
        if (rc != MF_OK) return mf_fail_context(MF_EINPUT, MF_STORED_FILES);
    }
    return rc;
}

/* Reads a weight into its parameter in pieces, with as many rows as fit into a piece. */
static int fill(mf_param *p, const mf_stored *w)
{
    enum { PIECE = 1 << 20 };
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx x = mf_device_context(NULL);
    const int64_t all = w->groups * w->out, most = PIECE / w->in + 1;
    int32_t *ids = mf_alloc((size_t)most, sizeof *ids);
    float *rows = mf_alloc_raw((size_t)(most * w->in) * sizeof *rows);
    int rc = ids && rows ? MF_OK : MF_ENOMEM;
    if (!k) rc = MF_EINVAL;
    for (int64_t at = 0; rc == MF_OK && at < all; at += most) {
        const int64_t n = all - at < most ? all - at : most;
        const mf_stored_rows_args args = {.w = w, .count = n, .ids = ids, .y = rows};
        const size_t row = (size_t)w->in * sizeof *rows;
        for (int64_t i = 0; i < n; i++)
            ids[i] = (int32_t)(at + i);
        k->stored_rows(&x, &args);
        rc = mf_param_write(p, rows, (size_t)at * row, (size_t)n * row);
    }
    mf_free(ids);
    mf_free(rows);
    return rc;
}

int mf_stored_files_fill(const mf_stored_files *f, mf_store *store)
{
    int rc = MF_OK;
    bool any = false;
    for (int i = 0; rc == MF_OK && i < f->n_weights; i++) {
        mf_param *p = mf_store_find(store, f->weights[i].name);
        const mf_stored *w = f->weights[i].w;
        if (!p || p->buffer || p->stored) continue;
        if (p->count != w->groups * w->out * w->in)
            return mf_fail(MF_EINPUT, MF_STORED_FILES ": %s has another shape", p->name);
        rc = fill(p, w);
        p->given = any = true;
    }
    if (any) mf_store_refresh_bf16(store);
    return rc;
}
