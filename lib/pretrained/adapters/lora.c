/* adapters/lora.c: finds the weights of the linear layers that lora adapters change.
 *
 * A linear layer has the name of its weight, except in attention. There, queries, keys and
 * values are rows of one weight. */
#include "pretrained/adapters/lora.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "plugin/load/judge.h"

mf_param *mf_lora_weight(const mf_model *m, int32_t layer, const char *site, mf_rows *ret)
{
    const mf_model_config *c = &m->config->model;
    const int64_t hd = c->head_dim > 0 ? c->head_dim : c->dim / c->heads, q = c->heads * hd,
                  kv = (c->kv_heads > 0 ? c->kv_heads : c->heads) * hd;
    const char *part = strncmp(site, "attention.", 10) == 0 ? site + 10 : NULL;
    char name[256];
    *ret = (mf_rows){0};
    if (part && c->latent > 0 && strcmp(part, "o") != 0) {
        static const char *const latent[][2] = {{"q", "attention.q.weight"},
                                                {"q_a", "attention.q_down.weight"},
                                                {"q_b", "attention.q_up.weight"},
                                                {"kv_a", "attention.kv_down.weight"},
                                                {"kv_b", "attention.k_up.weight"}};
        for (size_t i = 0; i < sizeof latent / sizeof *latent; i++)
            if (strcmp(part, latent[i][0]) == 0) site = latent[i][1];
        if (strcmp(part, "kv_b") == 0)
            ret->n = c->heads * (hd - c->rope_dims + mf_model_value_dim(c));
    } else if (part && strchr("qkv", part[0]) && part[1] == '\0') {
        ret->from = part[0] == 'q' ? 0 : part[0] == 'k' ? q : q + kv;
        ret->n = part[0] == 'q' ? q : kv;
        site = "attention.qkv.weight";
    } else if (part) {
        site = "attention.out.weight";
    }
    if (layer < 0)
        snprintf(name, sizeof name, "%s", site);
    else
        snprintf(name, sizeof name, "layers.%d.%s", (int)layer, site);
    mf_param *p = mf_store_find(m->store, name);
    if (p && ret->n == 0) ret->n = p->shape.dim[p->shape.rank - 2];
    return p;
}

/* Returns the length of a linear layer's name as the plugin uses it in names of parameters. */
static int stem_length(const char *site)
{
    const size_t n = strlen(site);
    return (int)(n > 7 && strcmp(site + n - 7, ".weight") == 0 ? n - 7 : n);
}

static mf_param *param_of(const mf_model *m, const mf_adapter_use *u, const char *site,
                          const char *part)
{
    char name[512];
    snprintf(name, sizeof name, "%s.%.*s.%s", mf_instance_path(u->ctx), stem_length(site), site,
             part);
    return mf_store_find(m->store, name);
}

static double option(const mf_adapter_use *u, const char *name)
{
    const mf_option *o = mf_schema_find(&mf_instance_plugin(u->ctx)->schema, name);
    return o ? mf_option_number(o, mf_instance_conf(u->ctx)) : 0;
}

static int describe(const mf_model *m, int32_t layer, const mf_adapter_use *u,
                    const mf_linear_site *site, mf_lora_site *ret)
{
    mf_rows rows;
    mf_param *w = mf_lora_weight(m, layer, site->name, &rows),
             *a = param_of(m, u, site->name, "a"), *b = param_of(m, u, site->name, "b");
    if (!w || !a || !b) /* for example with model.share_layers */
        return mf_fail(MF_EINPUT,
                       "[%s]: '%s' of block %d has no weight of its own, so that its adapter "
                       "has no form in model folders",
                       u->section->section, site->name, (int)layer);
    *ret = (mf_lora_site){.weight = w, .a = a, .b = b, .dropout = option(u, "dropout")};
    ret->change = (mf_low_rank){.rows = rows,
                                .experts = site->experts > 0 ? site->experts : 1,
                                .inputs = site->inputs,
                                .rank = a->shape.dim[a->shape.rank - 2],
                                .alpha = option(u, "alpha"),
                                .rslora = option(u, "rslora") != 0,
                                .a = mf_param_host(a),
                                .b = mf_param_host(b)};
    return ret->change.a && ret->change.b ? MF_OK : MF_ENOMEM;
}

int mf_lora_sites(const mf_model *m, mf_arena *arena, mf_lora_site **ret, int *ret_n)
{
    const int64_t layers = m->config->model.layers;
    int n = 0, rc = MF_OK;
    for (int64_t l = 0; l <= layers; l++)
        for (int i = 0; i < m->adapters[l].n; i++)
            n += m->adapters[l].use[i].n_sites;
    mf_lora_site *list = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *list);
    if (!list) return MF_ENOMEM;
    n = 0;
    for (int64_t l = 0; l <= layers; l++)
        for (int i = 0; rc == MF_OK && i < m->adapters[l].n; i++) {
            const mf_adapter_use *u = &m->adapters[l].use[i];
            if (strcmp(mf_instance_plugin(u->ctx)->name, MF_LORA_PLUGIN) != 0)
                return mf_fail(MF_EINPUT,
                               "[%s]: adapters of plugin %s have no form in model folders; "
                               "expected " MF_LORA_PLUGIN " or none",
                               u->section->section, u->section->plugin);
            for (int k = 0; rc == MF_OK && k < u->n_sites; k++)
                rc = describe(m, l < layers ? (int32_t)l : -1, u, &u->sites[k], &list[n++]);
        }
    *ret = list;
    *ret_n = n;
    return rc;
}

/* Adds the change of keys or values, whose linear layer has its rows head by
 * head. MF_ENOMEM. */
static int add_by_heads(const mf_model *m, const mf_lora_site *s, bool values, double sign)
{
    const mf_model_config *c = &m->config->model;
    char name[256];
    const int stem = (int)(strlen(s->weight->name) - strlen("k_up.weight"));
    snprintf(name, sizeof name, "%.*s%s", stem, s->weight->name,
             values ? "v_up.weight" : "k_up.weight");
    const mf_param *p = mf_store_find(m->store, name);
    float *w = p ? mf_param_edit(mf_store_find(m->store, name)) : NULL;
    const int64_t H = c->heads, v = mf_model_value_dim(c), n = s->change.rows.n / H - v,
                  rows = values ? v : n, r = s->change.rank;
    float *b = mf_alloc((size_t)(H * rows * r), sizeof *b);
    if (!w || !b) {
        mf_free(b);
        return MF_ENOMEM;
    }
    for (int64_t h = 0; h < H; h++)
        memcpy(b + h * rows * r, s->change.b + (h * (n + v) + (values ? n : 0)) * r,
               (size_t)(rows * r) * sizeof *b);
    mf_low_rank part = s->change;
    part.rows = (mf_rows){.n = H * rows};
    part.b = b;
    mf_low_rank_add(&part, sign, H * rows, w);
    mf_free(b);
    return MF_OK;
}

int mf_lora_merge(mf_model *m, double sign)
{
    mf_arena *arena = mf_arena_new();
    mf_lora_site *sites = NULL;
    int n = 0, rc = arena ? mf_lora_sites(m, arena, &sites, &n) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const mf_shape *s = &sites[i].weight->shape;
        if (sites[i].change.rows.n > s->dim[s->rank - 2]) {
            rc = add_by_heads(m, &sites[i], false, sign);
            if (rc == MF_OK) rc = add_by_heads(m, &sites[i], true, sign);
            continue;
        }
        float *w = mf_param_edit(sites[i].weight);
        if (!w) rc = MF_ENOMEM;
        if (w) mf_low_rank_add(&sites[i].change, sign, s->dim[s->rank - 2], w);
    }
    if (rc == MF_OK && n > 0) mf_store_refresh_bf16(m->store);
    mf_arena_free(arena);
    return rc;
}
