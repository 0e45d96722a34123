/* plugin/values.c: the elements of parameters and buffers that plugins read and write between
 * steps. A plugin gets direct access to the values that its instance may write, and copies of
 * all other values. A changed copy makes the call fail, so no plugin can change values of
 * another plugin. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "plugin/instance_internal.h"

static bool is_own(const mf_ctx *ctx, const mf_param *p)
{
    const size_t n = strlen(ctx->path);
    return strncmp(p->name, ctx->path, n) == 0 && p->name[n] == '.';
}

/* Whether the instance may write the values. It may write its own buffers, its own parameters
 * before the first step, and, if it is a controller, also buffers of other instances. */
static bool may_write(const mf_ctx *ctx, const mf_param *p)
{
    if (p->buffer) return is_own(ctx, p) || ctx->plugin->kind == MF_CONTROLLER;
    return ctx->starts && is_own(ctx, p);
}

static void hash_of(const mf_param *p, char hash[33])
{
    mf_hash_bytes(p->spare, (size_t)p->count * sizeof(float), hash);
}

/* Returns MF_EPLUGIN if the plugin has changed its copy. */
static int check(mf_ctx *ctx, const mf_copied *c)
{
    char hash[33];
    hash_of(c->param, hash);
    if (strcmp(hash, c->hash) == 0) return MF_OK;
    ctx->fault = MF_EPLUGIN;
    mf_fail(MF_EPLUGIN, "it wrote to %s: expected its own buffers to change, and nothing else",
            c->param->name);
    return mf_fail_context(MF_EPLUGIN, "%s (plugin %s)", ctx->path, ctx->plugin->name);
}

/* Returns the entry of a parameter in the list of copies, and adds it if it is missing; NULL
 * without memory. */
static mf_copied *place_of(mf_ctx *ctx, mf_param *p)
{
    mf_plughost *h = ctx->host;
    for (int i = 0; i < h->n_copied; i++)
        if (h->copied[i].param == p) {
            (void)check(ctx, &h->copied[i]);
            return &h->copied[i];
        }
    if (!mf_plughost_grow((void **)&h->copied, h->n_copied, &h->room_copied, sizeof *h->copied))
        return NULL;
    h->copied[h->n_copied] = (mf_copied){.param = p};
    return &h->copied[h->n_copied++];
}

/* Returns a copy of the values. noted: the copy is checked when the call ends; otherwise what
 * the plugin writes is lost. */
static float *copy_of(mf_ctx *ctx, mf_param *p, bool noted)
{
    const size_t bytes = (size_t)p->count * sizeof(float);
    const float *value = mf_param_host(p);
    if (!p->spare) p->spare = mf_alloc_raw(bytes);
    if (!value || !p->spare) return NULL;
    mf_copied *c = noted ? place_of(ctx, p) : NULL;
    if (noted && !c) return NULL;
    memcpy(p->spare, value, bytes);
    if (c) hash_of(p, c->hash);
    return p->spare;
}

float *mf_instance_values(mf_ctx *ctx, mf_param *p)
{
    const bool writes = may_write(ctx, p);
    if (writes && !p->frozen) return mf_param_edit(p);
    return copy_of(ctx, p, !writes);
}

int mf_instance_check_values(mf_ctx *ctx)
{
    mf_plughost *h = ctx->host;
    int rc = MF_OK;
    for (int i = 0; i < h->n_copied && rc == MF_OK; i++)
        rc = check(ctx, &h->copied[i]);
    h->n_copied = 0;
    return rc;
}
