/* model/adapters_make.c: makes instances from [adapter.NAME] sections. It decides which blocks
 * and points a section means, and when the parameters of its instances are declared. Parameters
 * of other parts keep their order when an adapter is added or removed. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/adapters.h"
#include "model/block.h"
#include "model/delta/delta.h"
#include "model/heads.h"
#include "model/latent.h"
#include "model/model.h"
#include "plugin/load/open.h"

/* ---- values of a section ---- */

MF_PRINTF(2, 3)
static int fault(const mf_plugin_section *s, const char *fmt, ...)
{
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (s->line > 0 && mf_ini_is_file(s->file))
        return mf_fail(MF_ECONFIG, "%s:%d: [%s]: %s", s->file, s->line, s->section, text);
    return mf_fail(MF_ECONFIG, "[%s]: %s", s->section, text);
}

static mf_point point_of(const char *word)
{
    for (int p = MF_AT_BLOCK_IN; p < MF_AT_LINEAR; p++)
        if (strcmp(word, mf_point_name((mf_point)p)) == 0) return (mf_point)p;
    return 0;
}

/* Writes the points that a plugin supports as a list like "block_in, block_out". */
static const char *points_text(uint32_t points, char out[256])
{
    int n = 0;
    out[0] = '\0';
    for (int p = MF_AT_BLOCK_IN; p < MF_AT_POINTS; p++)
        if (points & MF_POINT_BIT(p))
            n += snprintf(out + n, 256 - (size_t)n, "%s%s", n > 0 ? ", " : "",
                          p == MF_AT_LINEAR ? "names of linear layers"
                                            : mf_point_name((mf_point)p));
    return out;
}

int mf_adapter_parse_at(const mf_plugin_section *s, const mf_adapter *table, mf_arena *arena,
                        mf_adapter_at *ret)
{
    char *text = mf_arena_strdup(arena, s->at && s->at[0] ? s->at : table->at), *rest,
         list[256];
    *ret = (mf_adapter_at){0};
    if (!text) return MF_ENOMEM;
    for (char *word = strtok_r(text, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        const mf_point point = point_of(word);
        const uint32_t bit = MF_POINT_BIT(point ? point : MF_AT_LINEAR);
        if (!(table->points & bit))
            return fault(s, "at: plugin %s cannot stand at '%s'; expected %s", s->plugin, word,
                         points_text(table->points, list));
        ret->points |= bit;
        if (point) continue;
        if (ret->n_patterns == MF_ADAPTER_PATTERNS)
            return fault(s, "at: expected at most %d names of linear layers",
                         MF_ADAPTER_PATTERNS);
        ret->pattern[ret->n_patterns++] = word;
    }
    if (!ret->points)
        return fault(s, "at: expected %s, found nothing", points_text(table->points, list));
    return MF_OK;
}

/* ---- linear layers ---- */

bool mf_adapter_chooses(mf_adapter_at *at, const char *site)
{
    bool any = false;
    char stem[256];
    const size_t n = strlen(site);
    snprintf(stem, sizeof stem, "%s", site);
    if (n > 7 && n < sizeof stem && strcmp(site + n - 7, ".weight") == 0) stem[n - 7] = '\0';
    for (int i = 0; i < at->n_patterns; i++)
        if (mf_match(at->pattern[i], site) || mf_match(at->pattern[i], stem))
            any = at->met[i] = true;
    return any;
}

typedef struct {
    mf_adapter_at *at;
    mf_linear_site *list;
    int32_t n, room;
    char known[512]; /* names of all linear layers, for messages */
} finder;

static void offer(finder *f, mf_linear_site site)
{
    const size_t used = strlen(f->known);
    snprintf(f->known + used, sizeof f->known - used, "%s%s", used ? ", " : "", site.name);
    if (f->n < f->room && mf_adapter_chooses(f->at, site.name)) f->list[f->n++] = site;
}

static void offer_attention(const mf_model *m, int32_t layer, finder *f)
{
    const mf_model_config *c = &m->config->model;
    const int64_t hd = mf_model_head_dim(c);
    mf_linear_site sites[MF_LATENT_SITES];
    if (!c->attention || layer < 0 || mf_delta_has(c, layer)) return;
    const int32_t H = (int32_t)c->heads, KV = (int32_t)c->kv_heads;
    if (c->latent == 0) {
        offer(f, (mf_linear_site){"attention.q", c->dim, H * hd, 0, H});
        offer(f, (mf_linear_site){"attention.k", c->dim, KV * hd, 0, KV});
        offer(f, (mf_linear_site){"attention.v", c->dim, KV * hd, 0, KV});
    } else {
        mf_latent_sites(c, sites);
        for (int i = 0; i < MF_LATENT_SITES; i++)
            if (sites[i].name) offer(f, sites[i]);
    }
    if (c->attention_gate) offer(f, (mf_linear_site){"attention.gate", c->dim, H * hd, 0, H});
    offer(f, (mf_linear_site){"attention.o", H * mf_model_value_dim(c), c->dim, 0, H});
}

/* Whether the parameter is one vector per expert, such as a bias. It is then no matrix of a
 * linear layer. */
static bool is_bias(const mf_param *p)
{
    return p->shape.rank == 2 && mf_model_of_experts(p) &&
           (p->init.flags & (MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY)) ==
               (MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY);
}

/* Returns a weight's name without "layers.N.". Returns NULL if the parameter is no weight of
 * that block (layer -1: of the output head), or if it is a weight of attention, which
 * offer_attention lists. */
static const char *name_in(const mf_param *p, int32_t layer)
{
    char prefix[32];
    if (p->buffer || p->shape.rank < 2 || p->adapter || is_bias(p)) return NULL;
    if (p->shape.rank == 3 && p->shape.dim[1] == 1) return NULL; /* a convolution by channel */
    if (layer < 0) return strncmp(p->name, "head.", 5) == 0 ? p->name : NULL;
    const int n = snprintf(prefix, sizeof prefix, "layers.%d.", (int)layer);
    if (strncmp(p->name, prefix, (size_t)n) != 0) return NULL;
    return strncmp(p->name + n, "attention.", 10) == 0 ? NULL : p->name + n;
}

static void offer_weights(const mf_model *m, int32_t layer, finder *f)
{
    const int32_t from = layer < 0 ? -1 : mf_block_source(m, layer);
    for (int i = 0; i < mf_store_count(m->store); i++) {
        const mf_param *p = mf_store_at(m->store, i);
        const char *name = name_in(p, from);
        const int64_t *d = p->shape.dim;
        /* A matrix that is divided by expert holds biases: one row for each expert. */
        if (p->shape.rank == 2 && p->init.flags & MF_PARAM_BY_EXPERT) continue;
        if (name && p->shape.rank == 2) offer(f, (mf_linear_site){name, d[1], d[0], 0, 0});
        if (name && p->shape.rank == 3)
            offer(f, (mf_linear_site){name, d[2], d[1], (int32_t)d[0], 0});
    }
}

/* ---- instances ---- */

int mf_adapters_load(mf_model *m)
{
    const mf_model_settings *c = m->config;
    const size_t n = (size_t)c->n_adapters;
    m->adapter_plugins = mf_arena_alloc(m->arena, (n + 1) * sizeof *m->adapter_plugins);
    m->adapter_at = mf_arena_alloc(m->arena, (n + 1) * sizeof *m->adapter_at);
    m->adapters = mf_arena_alloc(m->arena, ((size_t)c->model.layers + 1) * sizeof *m->adapters);
    m->gates = mf_arena_alloc(m->arena, (size_t)c->model.layers * sizeof(mf_param *));
    if (!m->adapter_plugins || !m->adapter_at || !m->adapters || !m->gates) return MF_ENOMEM;
    for (int64_t l = 0; l <= c->model.layers; l++) {
        m->adapters[l].use = mf_arena_alloc(m->arena, (n + 1) * sizeof(mf_adapter_use));
        if (!m->adapters[l].use) return MF_ENOMEM;
    }
    for (int i = 0; i < c->n_adapters; i++) {
        const mf_plugin_section *s = &c->adapters[i];
        bool bad;
        int rc =
            mf_plugin_load(MF_ADAPTER, s->plugin, s->file, s->line, &m->adapter_plugins[i]);
        if (rc == MF_OK)
            rc = mf_adapter_parse_at(s, mf_loaded_vtable(m->adapter_plugins[i]), m->arena,
                                     &m->adapter_at[i]);
        if (rc != MF_OK) return rc;
        mf_model_in_layers(s->layers, 0, &bad);
        if (bad)
            return fault(s,
                         "layers: expected all, or numbers of blocks from 0 as 2-5 or 0,3, "
                         "found '%s'",
                         s->layers);
    }
    return MF_OK;
}

static mf_adapter_turn turn_of(uint32_t points)
{
    const uint32_t experts = MF_POINT_BIT(MF_AT_EXPERT_IN) | MF_POINT_BIT(MF_AT_EXPERT_OUT),
                   attention = MF_POINT_BIT(MF_AT_HEADS) | MF_POINT_BIT(MF_AT_ATTENTION) |
                               MF_POINT_BIT(MF_AT_ATTENTION_BIAS);
    if (points & MF_POINT_BIT(MF_AT_LINEAR)) return MF_ADAPT_LINEARS;
    if (points & experts) return MF_ADAPT_EXPERTS;
    return points & attention ? MF_ADAPT_ATTENTION : MF_ADAPT_BLOCK;
}

/* Layers that share experts also share the parameters of adapters of MF_ADAPT_EXPERTS. All
 * other adapters have their own parameters in each block. */
static const char *path_of(const mf_model *m, const mf_plugin_section *s,
                           const mf_adapter *table, int32_t layer, mf_adapter_turn turn)
{
    const char *name = table->path ? table->path : s->label;
    if (layer < 0) return mf_arena_strf(m->arena, "adapter.%s", name);
    if (turn == MF_ADAPT_EXPERTS) layer = mf_block_source(m, layer);
    return mf_arena_strf(m->arena, "layers.%d.%s", (int)layer, name);
}

static mf_adapters *adapters_of(const mf_model *m, int32_t layer)
{
    return &m->adapters[layer < 0 ? m->config->model.layers : layer];
}

static int find_sites(mf_model *m, int32_t layer, int i, mf_adapter_use *u)
{
    finder f = {.at = &m->adapter_at[i], .room = mf_store_count(m->store) + 8};
    if (!(m->adapter_at[i].points & MF_POINT_BIT(MF_AT_LINEAR))) return MF_OK;
    f.list = mf_arena_alloc(m->arena, (size_t)f.room * sizeof *f.list);
    if (!f.list) return MF_ENOMEM;
    offer_attention(m, layer, &f);
    offer_weights(m, layer, &f);
    u->sites = f.list;
    u->n_sites = f.n;
    u->met = mf_arena_alloc(m->arena, (size_t)f.n + 1);
    if (layer >= 0 && m->linear_names == NULL)
        m->linear_names = mf_arena_strdup(m->arena, f.known);
    return u->met ? MF_OK : MF_ENOMEM;
}

static int make_one(mf_model *m, int32_t layer, int i, mf_adapter_turn turn)
{
    const mf_plugin_section *s = &m->config->adapters[i];
    const mf_adapter *table = mf_loaded_vtable(m->adapter_plugins[i]);
    const mf_dims dims = mf_model_dims_of(m, layer);
    mf_adapters *a = adapters_of(m, layer);
    mf_adapter_use *u = &a->use[a->n];
    *u = (mf_adapter_use){.section = s, .points = m->adapter_at[i].points};
    int rc = find_sites(m, layer, i, u);
    if (rc != MF_OK) return rc;
    /* The output head has no point except its linear layer. */
    const uint32_t others = layer < 0 ? 0 : u->points & ~MF_POINT_BIT(MF_AT_LINEAR);
    if (u->n_sites == 0 && others == 0) return MF_OK;
    const uint32_t experts = MF_POINT_BIT(MF_AT_EXPERT_IN) | MF_POINT_BIT(MF_AT_EXPERT_OUT);
    if (layer >= 0 && others & experts && mf_model_moe(m->config, layer).latent > 0 &&
        m->adapter_plugins[i]->descriptor->host_size <= offsetof(mf_host, layer_dims))
        return fault(
            s,
            "moe.latent: expected a plugin that was built with headers of 0.3 or newer, "
            "which knows expert_dim, found plugin %s",
            s->plugin);
    const char *path = path_of(m, s, table, layer, turn);
    if (!path) return MF_ENOMEM;
    const int first = mf_store_count(m->store);
    rc = mf_adapter_new(m->plugins, m->adapter_plugins[i], path, m->config->ini, s->section,
                        s->reserved, s->section, &dims, u->sites, u->n_sites, s->lr, &u->ctx);
    if (rc != MF_OK) return rc;
    a->n++;
    for (int k = first; k < mf_store_count(m->store); k++)
        mf_store_at(m->store, k)->adapter = true;
    const mf_adapter_notes *notes = mf_instance_notes(u->ctx);
    if (layer < 0) return MF_OK;
    if (notes->gates) {
        m->gates[layer] = notes->gates;
        m->gate_form = (mf_gate_form)notes->gate_form;
    }
    if (notes->wants & MF_ADAPTER_SEQUENCE) m->sees_sequences = true;
    return notes->wants & MF_ADAPTER_HEADS ? mf_heads_declare(m, layer) : MF_OK;
}

static bool has_place(const mf_model *m, int i, int32_t layer, mf_adapter_turn turn)
{
    const mf_plugin_section *s = &m->config->adapters[i];
    bool bad;
    if (turn_of(m->adapter_at[i].points) != turn) return false;
    if (layer < 0) return true;
    if (!mf_model_in_layers(s->layers, layer, &bad)) return false;
    if (turn == MF_ADAPT_EXPERTS) return m->moe_of_layer[layer] >= 0;
    return turn != MF_ADAPT_ATTENTION ||
           (m->config->model.attention && !mf_delta_has(&m->config->model, layer));
}

int mf_adapters_make(mf_model *m, int32_t layer, mf_adapter_turn turn)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < m->config->n_adapters; i++)
        if (has_place(m, i, layer, turn)) rc = make_one(m, layer, i, turn);
    return rc;
}

/* Restores the order of the sections, because adapters are called in this order. Instances were
 * made in the order of mf_adapter_turn. */
static void sort(mf_adapters *a)
{
    for (int i = 1; i < a->n; i++)
        for (int k = i; k > 0 && a->use[k].section < a->use[k - 1].section; k--) {
            const mf_adapter_use u = a->use[k];
            a->use[k] = a->use[k - 1];
            a->use[k - 1] = u;
        }
}

/* Each pattern must match a linear layer of some block. A pattern without a match is a mistake,
 * because the layers that it should change would stay unchanged. */
static int judge_patterns(const mf_model *m, int i)
{
    const mf_adapter_at *at = &m->adapter_at[i];
    for (int k = 0; k < at->n_patterns; k++)
        if (!at->met[k])
            return fault(
                &m->config->adapters[i],
                "at: no linear layer of this model is called '%s'; expected of %s, head",
                at->pattern[k], m->linear_names ? m->linear_names : "none");
    return MF_OK;
}

int mf_adapters_settle(mf_model *m)
{
    const mf_model_settings *c = m->config;
    int rc = mf_adapters_make(m, -1, MF_ADAPT_LINEARS);
    for (int i = 0; rc == MF_OK && i < c->n_adapters; i++)
        rc = judge_patterns(m, i);
    for (int64_t l = 0; l <= c->model.layers; l++)
        sort(&m->adapters[l]);
    return rc;
}

int mf_adapters_all_met(const mf_model *m)
{
    for (int64_t l = 0; l <= m->config->model.layers; l++)
        for (int i = 0; i < m->adapters[l].n; i++) {
            const mf_adapter_use *u = &m->adapters[l].use[i];
            for (int k = 0; k < u->n_sites; k++)
                if (!u->met[k])
                    return fault(
                        u->section,
                        "at: '%s' is no linear layer, or is not used as one: expected a "
                        "weight of y = x W^T",
                        u->sites[k].name);
        }
    return MF_OK;
}

static int each(const mf_model *m, int (*call)(const mf_adapter_use *u, void *arg), void *arg)
{
    int rc = MF_OK;
    for (int64_t l = 0; m->adapters && l <= m->config->model.layers; l++)
        for (int i = 0; rc == MF_OK && i < m->adapters[l].n; i++)
            rc = call(&m->adapters[l].use[i], arg);
    return rc;
}

static int start(const mf_adapter_use *u, void *arg)
{
    (void)arg;
    return mf_instance_start(u->ctx);
}

int mf_adapters_start(mf_model *m)
{
    return each(m, start, NULL);
}

static int after_step(const mf_adapter_use *u, void *arg)
{
    const struct mf_step *const *step = arg;
    return mf_instance_after_step(u->ctx, *step);
}

int mf_adapters_after_step(const mf_model *m, const struct mf_step *step)
{
    return each(m, after_step, &step);
}

/* ---- weights of another run ---- */

typedef struct {
    const mf_model_settings *config;
    const char *section; /* section of the same plugin in that run; NULL: none */
} other_run;

static const char *option_of(const void *arg, const char *key)
{
    const other_run *o = arg;
    const mf_ini_entry *e = o->section ? mf_ini_get(o->config->ini, o->section, key) : NULL;
    return e ? e->value : NULL;
}

/* Calls mf_adapter.adopt with the options that the same plugin has in the other run. If several
 * of its sections use the plugin, the section with the same name is preferred. */
static int adopt(const mf_adapter_use *u, void *arg)
{
    const mf_model_settings *c = *(const mf_model_settings *const *)arg;
    other_run from = {.config = c};
    for (int i = 0; i < c->n_adapters; i++) {
        const mf_plugin_section *s = &c->adapters[i];
        if (strcmp(s->plugin, u->section->plugin) != 0) continue;
        if (!from.section || strcmp(s->section, u->section->section) == 0)
            from.section = s->section;
    }
    /* The other run has no such adapter, so the initial values stay. */
    if (!from.section) return MF_OK;
    return mf_instance_adopt(u->ctx, option_of, &from, (int32_t)c->model.layers);
}

int mf_adapters_adopt(mf_model *m, const mf_model_settings *from)
{
    return each(m, adopt, &from);
}

static int release(const mf_adapter_use *u, void *arg)
{
    (void)arg;
    mf_instance_free(u->ctx);
    return MF_OK;
}

void mf_adapters_free(mf_model *m)
{
    each(m, release, NULL);
}
