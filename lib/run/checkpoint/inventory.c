/* run/checkpoint/inventory.c: lists parameters and reads their values, from a store or from
 * the newest checkpoint. A tensor of a checkpoint is a parameter if state.safetensors has its
 * moments; buffers have none. */
#include "run/checkpoint/inventory.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mf_inventory {
    mf_inventory_item *items;
    const void **from; /* [n] mf_param or mf_st_tensor */
    int n;
    int64_t step;
    mf_st_file *file; /* NULL: the inventory of a store */
};

/* Returns N of a name "layers.N."; -1 if the name belongs to no block. */
static int32_t layer_of(const char *name)
{
    int n = 0, layer = -1;
    return sscanf(name, "layers.%d.%n", &layer, &n) == 1 && n > 0 && layer >= 0 ? layer : -1;
}

/* ---- construction ---- */

static int new_inventory(size_t room, mf_inventory **ret)
{
    mf_inventory *v = mf_alloc(1, sizeof *v);
    if (v == NULL) return MF_ENOMEM;
    v->items = mf_alloc(room + 1, sizeof *v->items);
    v->from = mf_alloc(room + 1, sizeof *v->from);
    if (v->items == NULL || v->from == NULL) {
        mf_inventory_free(v);
        return MF_ENOMEM;
    }
    *ret = v;
    return MF_OK;
}

static void add(mf_inventory *v, const char *name, int64_t elements, const void *from)
{
    v->items[v->n] = (mf_inventory_item){name, mf_module_of(name), layer_of(name), elements};
    v->from[v->n++] = from;
}

int mf_inventory_of_store(const mf_store *s, mf_inventory **ret)
{
    *ret = NULL;
    int rc = new_inventory((size_t)mf_store_count(s), ret);
    for (int i = 0; rc == MF_OK && i < mf_store_count(s); i++) {
        const mf_param *p = mf_store_at(s, i);
        if (!p->buffer) add(*ret, p->name, p->count, p);
    }
    return rc;
}

static int open_part(const char *folder, int64_t step, const char *name, mf_st_file **ret)
{
    char *path = mf_ckpt_path(folder, step);
    char *file = path != NULL ? mf_path_join(path, name) : NULL;
    int rc = file != NULL ? mf_st_open(file, ret) : MF_ENOMEM;
    mf_free(file);
    mf_free(path);
    return rc;
}

/* Adds the tensors that have moments; buffers have none. */
static int add_trained(mf_inventory *v, const mf_st_file *state)
{
    for (size_t i = 0; i < mf_st_count(v->file); i++) {
        const mf_st_tensor *t = mf_st_at(v->file, i);
        char *first = mf_strf("moment1/%s", t->name), *second = mf_strf("moment2/%s", t->name);
        const bool named = first != NULL && second != NULL;
        if (named && t->dtype == MF_ST_F32 &&
            (mf_st_find(state, first) != NULL || mf_st_find(state, second) != NULL))
            add(v, t->name, (int64_t)t->count, t);
        mf_free(first);
        mf_free(second);
        if (!named) return MF_ENOMEM;
    }
    return MF_OK;
}

int mf_inventory_of_checkpoint(const char *folder, mf_inventory **ret)
{
    int64_t *steps = NULL;
    int n;
    mf_st_file *model = NULL, *state = NULL;
    *ret = NULL;
    int rc = mf_ckpt_list(folder, &steps, &n);
    if (rc == MF_OK && n == 0) rc = mf_fail(MF_ENOTFOUND, "%s: no checkpoint", folder);
    if (rc == MF_OK) rc = open_part(folder, steps[0], MF_CKPT_MODEL, &model);
    if (rc == MF_OK) rc = open_part(folder, steps[0], MF_CKPT_STATE, &state);
    if (rc == MF_OK) rc = new_inventory(mf_st_count(model), ret);
    if (rc == MF_OK) {
        (*ret)->file = model;
        (*ret)->step = steps[0];
        rc = add_trained(*ret, state);
    }
    mf_st_close(state);
    mf_free(steps);
    if (rc == MF_OK) return rc;
    if (*ret == NULL) mf_st_close(model);
    mf_inventory_free(*ret);
    *ret = NULL;
    return rc;
}

void mf_inventory_free(mf_inventory *v)
{
    if (v == NULL) return;
    mf_st_close(v->file);
    mf_free(v->items);
    mf_free(v->from);
    mf_free(v);
}

/* ---- reading ---- */

int mf_inventory_count(const mf_inventory *v)
{
    return v != NULL ? v->n : 0;
}

const mf_inventory_item *mf_inventory_at(const mf_inventory *v, int i)
{
    return &v->items[i];
}

int64_t mf_inventory_step(const mf_inventory *v)
{
    return v->step;
}

int mf_inventory_read(const mf_inventory *v, int i, int64_t from, int64_t n, float *out)
{
    const size_t bytes = (size_t)n * sizeof *out;
    if (v->file != NULL)
        return mf_st_read_part(v->file, v->from[i], out, bytes, (uint64_t)from * sizeof *out);
    return mf_param_read(v->from[i], out, (size_t)from * sizeof *out, bytes);
}
