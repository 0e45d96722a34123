/* model/model.c: builds a model from a configuration: plugins, parameters, layers. Two models
 * with the same configuration, dimensions and seed have the same parameters. */
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/adapters.h"
#include "model/block.h"
#include "model/delta/delta.h"
#include "config/aliases.h"
#include "model/heads.h"
#include "model/latent.h"
#include "model/tasks.h"
#include "plugin/load/open.h"

static const char *const router_keys[] = {"plugin", NULL};
static const char *const own_router_keys[] = {"plugin", "layers", NULL};
static const char *const regularizer_keys[] = {"plugin", "weight", NULL};
static const char *const controller_keys[] = {"plugin", "every", NULL};

mf_dims mf_model_dims_of(const mf_model *m, int32_t layer)
{
    const mf_model_config *c = &m->config->model;
    const mf_moe_config moe = mf_model_moe(m->config, layer);
    return (mf_dims){.size = sizeof(mf_dims),
                     .layer = layer,
                     .n_layers = (int32_t)c->layers,
                     .dim = (int32_t)c->dim,
                     .experts = (int32_t)moe.experts,
                     .top_k = (int32_t)moe.top_k,
                     .heads = (int32_t)c->heads,
                     .kv_heads = (int32_t)c->kv_heads,
                     .vocab = m->dims.vocab,
                     .seq = (int32_t)c->seq,
                     .causal = c->task == MF_TASK_LM && c->causal,
                     .moe_layers = m->n_moe,
                     .labels = m->dims.labels,
                     .train_steps = m->dims.train_steps,
                     .raw_gates = m->gate_form == MF_GATE_RAW,
                     .normal_start = c->init == MF_START_NORMAL,
                     .start_std = c->init_std,
                     .head_dim = (int32_t)mf_model_head_dim(c),
                     .expert_dim = moe.latent > 0 ? moe.latent : c->dim,
                     .model_dim = c->dim};
}

/* Implements mf_host.layer_dims: returns the dimensions of a block with experts. */
static int layer_dims(const void *arg, int32_t layer, mf_dims *ret)
{
    const mf_model *m = arg;
    if (layer < 0 || layer >= m->config->model.layers || m->moe_of_layer[layer] < 0)
        return MF_ENOTFOUND;
    *ret = mf_model_dims_of(m, layer);
    return MF_OK;
}

static int load(const mf_plugin_section *s, mf_kind kind, const mf_loaded **ret)
{
    return mf_plugin_load(kind, s->plugin, s->file, s->line, ret);
}

static int place_moe_layers(mf_model *m)
{
    const mf_model_config *c = &m->config->model;
    m->moe_of_layer = mf_arena_alloc(m->arena, (size_t)c->layers * sizeof *m->moe_of_layer);
    if (!m->moe_of_layer) return MF_ENOMEM;
    for (int32_t l = 0; l < c->layers; l++) {
        m->moe_of_layer[l] = mf_model_has_experts(c, l) ? m->n_moe++ : -1;
    }
    m->moe = mf_arena_alloc(m->arena, (size_t)(m->n_moe + 1) * sizeof *m->moe);
    return m->moe ? MF_OK : MF_ENOMEM;
}

/* Returns the keys of the section that do not belong to its plugin. */
static const char *const *keys_of(const mf_plugin_section *s)
{
    return s->label[0] != '\0' ? own_router_keys : router_keys;
}

/* Creates the shared experts of a layer, and the weights of their gates. */
static int new_shared_experts(mf_model *m, mf_moe_layer *ml, int from,
                              const mf_plugin_section *own, mf_dims dims)
{
    const mf_model_settings *c = m->config;
    const int64_t hidden_width = ml->config.shared_hidden;
    char path[64], width[32];
    dims.experts = (int32_t)ml->config.shared_experts;
    snprintf(path, sizeof path, "layers.%d.shared", from);
    snprintf(width, sizeof width, "%lld", (long long)hidden_width);
    const mf_option_value hidden = {"hidden", width, "moe.shared_hidden"};
    int rc = mf_instance_new_with(m->plugins, mf_instance_plugin(ml->expert), path, c->ini,
                                  own->section, keys_of(own), "shared",
                                  hidden_width > 0 ? &hidden : NULL, &dims, &ml->shared);
    if (rc != MF_OK || !ml->config.shared_gate) return rc;
    const mf_init init = c->model.init == MF_START_NORMAL
                             ? (mf_init){MF_INIT_NORMAL, 0, c->model.init_std}
                             : (mf_init){MF_INIT_KAIMING, 0, 1};
    snprintf(path, sizeof path, "layers.%d.shared_gate.weight", from);
    ml->shared_gate = mf_store_find(m->store, path);
    if (ml->shared_gate) return MF_OK;
    return mf_store_declare(m->store, path, mf_shape2(dims.experts, c->model.dim), init, false,
                            &ml->shared_gate);
}

static bool looks_ahead(const mf_loaded *plugin)
{
    if (plugin->kind == MF_ROUTER)
        return (plugin->table.router.flags & MF_ROUTER_NOT_CAUSAL) != 0;
    return (plugin->table.expert.flags & MF_EXPERT_NOT_CAUSAL) != 0;
}

/* Refuses plugins that read later tokens in a decoder, because the decoder would see the tokens
 * that it must predict. moe.force_causal allows them. */
static int judge_causal(const mf_model *m, const mf_plugin_section *s, const mf_loaded *plugin)
{
    const mf_model_settings *c = m->config;
    const bool router = plugin->kind == MF_ROUTER;
    if (!looks_ahead(plugin) || c->moe.force_causal) return MF_OK;
    if (c->model.task != MF_TASK_LM || !c->model.causal) return MF_OK;
    return mf_fail(MF_ECONFIG,
                   "%s:%d: %s %s %s by looking at the whole sequence, which leaks "
                   "the future in a causal decoder; expected a causal %s, or "
                   "moe.force_causal = yes to try it all the same",
                   s->file ? s->file : "default", s->line, router ? "router" : "expert",
                   s->plugin, router ? "chooses tokens" : "computes",
                   router ? "router" : "expert");
}

/* Connects the layer with the live options of its [block.NAME], or with those of [moe]. */
static void take_config(mf_model *m, mf_moe_layer *ml)
{
    const int at = mf_model_block(m->config, ml->layer);
    const mf_block_section *b = at < 0 ? NULL : &m->config->blocks[at];
    ml->config = mf_model_moe(m->config, ml->layer);
    ml->top_k = b && b->top_k >= 0 ? &m->block_top_k[at] : &m->top_k;
    ml->capacity_factor =
        b && b->capacity_factor >= 0 ? &m->block_capacity[at] : &m->capacity_factor;
}

static int new_moe_layer(mf_model *m, int32_t layer, bool select_bias)
{
    const mf_model_settings *c = m->config;
    const mf_plugin_section *own = mf_model_router(c, layer), *of = mf_model_expert(c, layer);
    const mf_loaded *router = NULL, *expert = NULL;
    mf_moe_layer *ml = &m->moe[m->moe_of_layer[layer]];
    mf_dims dims = mf_model_dims_of(m, layer);
    /* parameters have the name of the block that owns them */
    const int from = (int)mf_block_source(m, layer);
    char path[64];
    ml->layer = layer;
    take_config(m, ml);
    snprintf(path, sizeof path, "layers.%d.router", from);
    int rc = load(of, MF_EXPERT, &expert);
    if (rc == MF_OK) rc = judge_causal(m, of, expert);
    if (rc == MF_OK) rc = load(own, MF_ROUTER, &router);
    if (rc == MF_OK) rc = judge_causal(m, own, router);
    if (rc == MF_OK)
        rc = mf_instance_new(m->plugins, router, path, c->ini, own->section, keys_of(own),
                             own->section, &dims, &ml->router);
    mf_dims of_rows = dims;
    of_rows.dim = (int32_t)dims.expert_dim;
    snprintf(path, sizeof path, "layers.%d.expert", from);
    if (rc == MF_OK && ml->config.latent > 0) rc = mf_moe_latent_declare(m->store, ml, from, c);
    if (rc == MF_OK)
        rc = mf_instance_new(m->plugins, expert, path, c->ini, of->section, keys_of(of),
                             of->section, &of_rows, &ml->expert);
    if (rc == MF_OK && ml->config.shared_experts > 0)
        rc = new_shared_experts(m, ml, from, of, dims);
    ml->adapters = &m->adapters[layer];
    if (rc == MF_OK) rc = mf_adapters_make(m, layer, MF_ADAPT_EXPERTS);
    if (rc == MF_OK && select_bias) {
        /* The bias follows the load of its own layer, even if the weights are shared. */
        snprintf(path, sizeof path, "layers.%d.moe.select_bias", (int)layer);
        rc = mf_store_declare(m->store, path, mf_shape1(ml->config.experts), (mf_init){0}, true,
                              &ml->select_bias);
    }
    return rc;
}

static int new_moe_layers(mf_model *m, bool select_bias)
{
    if (m->n_moe == 0) return MF_OK;
    int rc = mf_model_judge_layers(m->config);
    for (int32_t l = 0; rc == MF_OK && l < m->config->model.layers; l++)
        if (m->moe_of_layer[l] >= 0) rc = new_moe_layer(m, l, select_bias);
    return rc;
}

/* Refuses an instance of the whole model that expects equal layers, if layers differ. flag:
 * whether the plugin declares that it takes its sizes from each record or from
 * mf_host.layer_dims; name: the name of this flag. */
static int judge_unequal(const mf_model *m, const mf_plugin_section *s, bool flag,
                         const char *name)
{
    int64_t a, b;
    if (flag || !mf_model_unequal(m->config, &a, &b)) return MF_OK;
    const mf_moe_config x = mf_model_moe(m->config, a), y = mf_model_moe(m->config, b);
    return mf_fail(MF_ECONFIG,
                   "[%s]: plugin %s expects layers with equally many experts and equal top_k, "
                   "found %lld and %lld in block %lld, %lld and %lld in block %lld; a plugin "
                   "for such models declares %s",
                   s->section, s->plugin, (long long)x.experts, (long long)x.top_k,
                   (long long)a, (long long)y.experts, (long long)y.top_k, (long long)b, name);
}

static int new_regularizers(mf_model *m)
{
    const mf_model_settings *c = m->config;
    const mf_dims dims = mf_model_dims_of(m, -1);
    const size_t n = (size_t)c->n_regularizers + 1;
    m->regularizers = mf_arena_alloc(m->arena, n * sizeof *m->regularizers);
    m->regularizer_weights = mf_arena_alloc(m->arena, n * sizeof *m->regularizer_weights);
    if (!m->regularizers || !m->regularizer_weights) return MF_ENOMEM;
    for (int i = 0; i < c->n_regularizers; i++) {
        const mf_plugin_section *s = &c->regularizers[i];
        const mf_loaded *plugin = NULL;
        char live[192];
        int rc = load(s, MF_REGULARIZER, &plugin);
        if (rc == MF_OK)
            rc = judge_unequal(m, s, plugin->table.regularizer.flags & MF_REGULARIZER_UNEQUAL,
                               "MF_REGULARIZER_UNEQUAL");
        if (rc == MF_OK)
            rc = mf_instance_new(m->plugins, plugin, s->section, c->ini, s->section,
                                 regularizer_keys, s->section, &dims, &m->regularizers[i]);
        if (rc != MF_OK) return rc;
        m->regularizer_weights[i] = s->weight;
        snprintf(live, sizeof live, "%s.weight", s->section);
        rc = mf_live_register_real(m->plugins, live, &m->regularizer_weights[i], -1e9, 1e9);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* Controllers are loaded before the layers are made, because one of them may request the
 * selection bias. */
static int load_controllers(mf_model *m, const mf_loaded **loaded, bool *ret_select_bias)
{
    for (int i = 0; i < m->config->n_controllers; i++) {
        int rc = load(&m->config->controllers[i], MF_CONTROLLER, &loaded[i]);
        if (rc != MF_OK) return rc;
        const mf_controller *table = mf_loaded_vtable(loaded[i]);
        rc = judge_unequal(m, &m->config->controllers[i], table->flags & MF_CONTROLLER_UNEQUAL,
                           "MF_CONTROLLER_UNEQUAL");
        if (rc != MF_OK) return rc;
        if (table->flags & MF_CONTROLLER_SELECT_BIAS) *ret_select_bias = true;
        if (table->flags & MF_CONTROLLER_TOKEN_LOSS) m->token_tallies = true;
    }
    return MF_OK;
}

static int new_controllers(mf_model *m, const mf_loaded *const *loaded)
{
    const mf_model_settings *c = m->config;
    const mf_dims dims = mf_model_dims_of(m, -1);
    for (int i = 0; i < c->n_controllers; i++) {
        const char *section = c->controllers[i].section;
        int rc = mf_instance_new(m->plugins, loaded[i], section, c->ini, section,
                                 controller_keys, section, &dims, &m->controllers[i]);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static int register_top_k(mf_model *m, const char *name, double *value)
{
    int64_t most = 0;
    for (int32_t i = 0; i < m->n_moe; i++)
        if (m->moe[i].top_k == value && (most == 0 || m->moe[i].config.experts < most))
            most = m->moe[i].config.experts;
    if (most == 0) return MF_OK; /* no layer reads this value */
    return mf_live_register_count(m->plugins, name, value, 1, (double)most);
}

static int register_capacity(mf_model *m, const char *name, double *value)
{
    bool used = false;
    for (int32_t i = 0; i < m->n_moe; i++)
        used = used || (m->moe[i].capacity_factor == value && *value > 0);
    return used ? mf_live_register_real(m->plugins, name, value, 1e-6, 1e6) : MF_OK;
}

/* Registers the live options of [moe] and of the sections [block.NAME], if a layer
 * reads them. */
static int register_live(mf_model *m)
{
    const mf_model_settings *c = m->config;
    char name[192];
    int rc = register_capacity(m, "moe.capacity_factor", &m->capacity_factor);
    if (rc == MF_OK && c->moe.adaptive_capacity > 0)
        rc = mf_live_register_real(m->plugins, "moe.adaptive_capacity", &m->adaptive_capacity,
                                   0, 1e3);
    if (rc == MF_OK) rc = register_top_k(m, "moe.top_k", &m->top_k);
    for (int i = 0; rc == MF_OK && i < c->n_blocks; i++) {
        snprintf(name, sizeof name, "%s.capacity_factor", c->blocks[i].section);
        rc = register_capacity(m, name, &m->block_capacity[i]);
        snprintf(name, sizeof name, "%s.top_k", c->blocks[i].section);
        if (rc == MF_OK) rc = register_top_k(m, name, &m->block_top_k[i]);
    }
    return rc;
}

static int assemble(mf_model *m)
{
    const mf_model_settings *c = m->config;
    bool select_bias = false;
    const size_t n = (size_t)c->n_controllers + 1, blocks = (size_t)c->n_blocks + 1;
    const mf_loaded **loaded = mf_arena_alloc(m->arena, n * sizeof *loaded);
    m->controllers = mf_arena_alloc(m->arena, n * sizeof *m->controllers);
    m->block_top_k = mf_arena_alloc(m->arena, blocks * sizeof *m->block_top_k);
    m->block_capacity = mf_arena_alloc(m->arena, blocks * sizeof *m->block_capacity);
    if (!loaded || !m->controllers || !m->block_top_k || !m->block_capacity) return MF_ENOMEM;
    for (int i = 0; i < c->n_blocks; i++) {
        m->block_top_k[i] = (double)c->blocks[i].top_k;
        m->block_capacity[i] = c->blocks[i].capacity_factor;
    }
    mf_plughost_set_dims(m->plugins, layer_dims, m);
    int rc = load_controllers(m, loaded, &select_bias);
    if (rc == MF_OK) rc = mf_adapters_load(m);
    if (rc == MF_OK) rc = place_moe_layers(m);
    if (rc == MF_OK) rc = mf_blocks_declare(m);
    if (rc == MF_OK) rc = new_moe_layers(m, select_bias);
    for (int32_t l = 0; rc == MF_OK && l < c->model.layers; l++)
        rc = mf_adapters_make(m, l, MF_ADAPT_LINEARS);
    if (rc == MF_OK) rc = mf_adapters_settle(m);
    if (rc == MF_OK) rc = new_regularizers(m);
    if (rc == MF_OK) rc = register_live(m);
    if (rc == MF_OK) rc = mf_config_alias_live(m->plugins);
    if (rc == MF_OK) rc = mf_tasks_register(m);
    if (rc == MF_OK) rc = mf_heads_register(m);
    if (rc == MF_OK) rc = new_controllers(m, loaded);
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe; i++)
        rc = mf_moe_tallies_declare(m->plugins, m->moe[i].layer,
                                    (int32_t)m->moe[i].config.experts, m->token_tallies);
    return rc;
}

bool mf_model_of_experts(const mf_param *p)
{
    int layer, at = 0;
    return sscanf(p->name, "layers.%d.expert.%n", &layer, &at) == 1 && at > 0;
}

int64_t mf_model_experts_of(const mf_model *m, const mf_param *p)
{
    int layer = -1;
    if (sscanf(p->name, "layers.%d.", &layer) != 1) layer = -1;
    return mf_model_moe(m->config, layer).experts;
}

/* Returns text that says what n ranks that share the experts require of the model or of n, and
 * do not find; NULL: the experts can be shared. */
static const char *unshared(const mf_model *m, int n)
{
    const mf_model_settings *c = m->config;
    if (m->n_moe == 0) return "a model with experts";
    if (n & (n - 1)) return "1, 2, 4 or 8 ranks";
    for (int32_t i = 0; i < m->n_moe; i++) {
        const mf_expert *table = mf_loaded_vtable(mf_instance_plugin(m->moe[i].expert));
        if (m->moe[i].config.experts % n != 0)
            return "in each block a number of experts that the ranks can share evenly";
        if (table->flags & MF_EXPERT_SEQUENCE) return "experts that look at single tokens";
        if (table->flags & MF_EXPERT_PROB) return "experts that do not read probabilities";
    }
    if (c->n_adapters > 0) return "no adapters";
    if (c->model.share_layers) return "model.share_layers = no";
    return c->model.layers_alike ? "model.layers_alike = no" : NULL;
}

int mf_model_share_experts(mf_model *m, int rank, int ranks)
{
    const char *why = ranks > 1 ? unshared(m, ranks) : NULL;
    if (why)
        return mf_fail(MF_ECONFIG, "parallel.expert with %d ranks: expected %s", ranks, why);
    m->expert_ranks =
        (mf_expert_ranks){.rank = rank, .ranks = ranks, .merged = m->options.merge_rows};
    if (ranks > 1) mf_plughost_share_experts(m->plugins);
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        if (!mf_model_of_experts(p)) continue;
        if (ranks > 1 && (p->buffer || !(p->init.flags & MF_PARAM_BY_EXPERT) ||
                          p->shape.rank < 1 || p->shape.dim[0] != mf_model_experts_of(m, p)))
            return mf_fail(MF_ECONFIG,
                           "parallel.expert with %d ranks: %s does not say that each expert "
                           "has its own part (MF_PARAM_BY_EXPERT)",
                           ranks, p->name);
        mf_store_hold(p, p->count / ranks * rank, ranks > 1 ? p->count / ranks : 0);
    }
    return MF_OK;
}

/* Copies the first block's initial values to the other blocks, for all parameters that have the
 * same shape in both blocks. */
static void make_alike(mf_model *m)
{
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        char name[256];
        int layer, at = 0;
        if (sscanf(p->name, "layers.%d.%n", &layer, &at) != 1 || at == 0 || layer == 0)
            continue;
        snprintf(name, sizeof name, "layers.0.%s", p->name + at);
        const mf_param *first = mf_store_find(m->store, name);
        const float *from =
            first && mf_shape_equal(first->shape, p->shape) ? mf_param_host(first) : NULL;
        if (from) mf_param_write(p, from, 0, (size_t)p->count * sizeof *from);
    }
}

void mf_model_whole(mf_model *m)
{
    for (int i = 0; i < 1 + MF_TASKS_MAX; i++)
        m->task_shares[i] = 1;
    m->token_share = 1;
}

int mf_model_new(const mf_model_settings *config, const mf_model_dims *dims,
                 const mf_model_options *options, mf_model **ret)
{
    mf_arena *arena = mf_arena_new();
    mf_model *m = arena ? mf_arena_alloc(arena, sizeof *m) : NULL;
    if (!m) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    m->arena = arena;
    m->settings = *config;
    m->config = &m->settings;
    m->dims = *dims;
    m->options = *options;
    m->capacity_factor = config->moe.capacity_factor;
    m->adaptive_capacity = config->moe.adaptive_capacity;
    m->top_k = (double)config->moe.top_k;
    mf_model_whole(m);
    m->store = mf_store_new();
    m->plugins = m->store ? mf_plughost_new(m->store) : NULL;
    int rc = m->plugins ? assemble(m) : MF_ENOMEM;
    if (rc == MF_OK && options->no_moments) mf_store_want_no_moments(m->store);
    if (rc == MF_OK) mf_store_put_on(m->store, options->device);
    if (rc == MF_OK && options->bind) rc = options->bind(options->bind_arg, m);
    if (rc == MF_OK && options->expert_ranks > 1)
        rc = mf_model_share_experts(m, options->expert_rank, options->expert_ranks);
    if (rc == MF_OK && m->options.bf16) mf_store_want_bf16(m->store);
    if (rc == MF_OK && options->moments) options->moments(options->moments_arg, m->store);
    if (rc == MF_OK)
        rc = (dims->bare ? mf_store_seal_bare : mf_store_seal)(m->store, options->seed,
                                                               options->training);
    if (rc == MF_OK && config->model.layers_alike && !dims->bare) make_alike(m);
    if (rc == MF_OK && !dims->bare) rc = mf_adapters_start(m);
    if (rc != MF_OK) {
        mf_model_free(m);
        return rc;
    }
    *ret = m;
    return MF_OK;
}

/* Returns the part of the name behind "layers.N."; NULL: the name has no such beginning. */
static const char *without_layer(const char *name)
{
    const char *dot = strncmp(name, "layers.", 7) == 0 ? strchr(name + 7, '.') : NULL;
    return dot ? dot + 1 : NULL;
}

/* Whether the parameter belongs to the model. Buffers of controllers and regularizers do not.
 * Like the parameters of adapters, they must be updated while anything is trained. */
static bool of_model(const mf_param *p)
{
    const bool state = p->buffer && (strncmp(p->name, "controller.", 11) == 0 ||
                                     strncmp(p->name, "regularizer.", 12) == 0);
    return !p->adapter && !state;
}

static int nothing_to_freeze(mf_model *m, const char *pattern)
{
    const int n = mf_store_count(m->store);
    const char **names = mf_arena_alloc(m->arena, (2 * (size_t)n + 1) * sizeof *names);
    char hint[256];
    int count = 0;
    if (!names) return MF_ENOMEM;
    for (int i = 0; i < n; i++) {
        const mf_param *p = mf_store_at(m->store, i);
        if (!of_model(p)) continue;
        names[count++] = p->name;
        if (without_layer(p->name)) names[count++] = without_layer(p->name);
    }
    return mf_fail(MF_ECONFIG, "train.freeze: no parameter is called '%s'%s", pattern,
                   mf_did_you_mean(pattern, names, hint, sizeof hint));
}

static int freeze(mf_model *m, const char *pattern)
{
    int found = 0;
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        const char *part = without_layer(p->name);
        if (!of_model(p)) continue;
        if (!mf_match(pattern, p->name) && !(part && mf_match(pattern, part))) continue;
        p->frozen = true;
        found++;
    }
    return found > 0 ? MF_OK : nothing_to_freeze(m, pattern);
}

/* If no parameter is left to train, freezes everything else as well. */
static void freeze_rest(mf_model *m)
{
    const int n = mf_store_count(m->store);
    for (int i = 0; i < n; i++) {
        const mf_param *p = mf_store_at(m->store, i);
        if (!p->buffer && !p->frozen) return;
    }
    for (int i = 0; i < n; i++)
        mf_store_at(m->store, i)->frozen = true;
}

int mf_model_freeze(mf_model *m, const char *patterns)
{
    char *text = mf_arena_strdup(m->arena, patterns), *rest;
    int rc = text ? MF_OK : MF_ENOMEM;
    if (rc != MF_OK) return rc;
    for (char *word = strtok_r(text, ", ", &rest); rc == MF_OK && word;
         word = strtok_r(NULL, ", ", &rest))
        rc = freeze(m, word);
    if (rc == MF_OK) freeze_rest(m);
    return rc;
}

void mf_model_free(mf_model *m)
{
    if (!m) return;
    mf_adapters_free(m);
    for (int i = 0; m->controllers && i < m->config->n_controllers; i++)
        mf_instance_free(m->controllers[i]);
    for (int i = 0; m->regularizers && i < m->config->n_regularizers; i++)
        mf_instance_free(m->regularizers[i]);
    for (int32_t i = 0; m->moe && i < m->n_moe; i++) {
        mf_instance_free(m->moe[i].router);
        mf_instance_free(m->moe[i].expert);
        mf_instance_free(m->moe[i].shared);
    }
    mf_plughost_free(m->plugins);
    mf_store_free(m->store);
    mf_arena_free(m->arena);
}

bool mf_model_has_regularizer(const mf_model *m, int i)
{
    const mf_regularizer *r = mf_loaded_vtable(mf_instance_plugin(m->regularizers[i]));
    return m->n_moe > 0 || (r->flags & MF_REGULARIZER_ANY_MODEL);
}

/* Whether the router of any MoE layer has the property. */
static bool any_router(const mf_model *m, bool (*has)(const mf_loaded *router))
{
    for (int32_t i = 0; i < m->n_moe; i++)
        if (has(mf_instance_plugin(m->moe[i].router))) return true;
    return false;
}

bool mf_model_sees_sequences(const mf_model *m)
{
    if (m->sees_sequences) return true;
    if (m->n_moe == 0) return false;
    for (int32_t i = 0; i < m->n_moe; i++) {
        const mf_loaded *expert = mf_instance_plugin(m->moe[i].expert);
        if (looks_ahead(expert) || expert->table.expert.flags & MF_EXPERT_SEQUENCE) return true;
    }
    return any_router(m, looks_ahead);
}

static bool reads_sequence(const mf_loaded *router)
{
    return (router->table.router.flags & MF_ROUTER_SEQUENCE) != 0;
}

static bool router_reads_sequence(const mf_model *m)
{
    return any_router(m, reads_sequence);
}

bool mf_model_crosses_documents(const mf_model *m)
{
    if (m->config->model.window > 0 && !m->config->model.window_chunks) return true;
    return mf_model_sees_sequences(m) || (m->n_moe > 0 && router_reads_sequence(m));
}

const char *mf_cache_name(char out[MF_CACHE_NAME], int32_t layer, int32_t group, int part)
{
    if (group == 0)
        snprintf(out, MF_CACHE_NAME, "layers.%d.%c", (int)layer, "kv"[part]);
    else
        snprintf(out, MF_CACHE_NAME, "layers.%d.%c.%d", (int)layer, "kv"[part], (int)group);
    return out;
}

static int cache_layer(const mf_model *m, int32_t layer, mf_cache *cache)
{
    const int64_t rows = (int64_t)cache->batch * cache->max_seq,
                  hd = mf_model_head_dim(&m->config->model);
    mf_head_plan *plan = NULL;
    char latent[MF_CACHE_NAME];
    if (mf_delta_has(&m->config->model, layer)) return mf_delta_cache(m, layer, cache);
    if (m->config->model.latent > 0)
        return mf_store_declare(cache->store, mf_cache_name(latent, layer, 0, 0),
                                mf_shape2(rows, mf_latent_width(&m->config->model)),
                                (mf_init){0}, true, NULL);
    int rc = mf_head_plan_new(m, layer, &plan);
    for (int32_t g = 0; rc == MF_OK && g < plan->n_groups; g++)
        for (int part = 0; rc == MF_OK && part < 2; part++) {
            char name[MF_CACHE_NAME];
            rc = mf_store_declare(cache->store, mf_cache_name(name, layer, g, part),
                                  mf_shape2(rows, plan->group[g].kv * hd), (mf_init){0}, true,
                                  NULL);
        }
    mf_free(plan);
    return rc;
}

int mf_cache_new(const mf_model *m, int batch, int max_seq, mf_cache **ret)
{
    mf_cache *cache = mf_alloc(1, sizeof *cache);
    if (!cache) return MF_ENOMEM;
    *cache = (mf_cache){.store = mf_store_new(), .batch = batch, .max_seq = max_seq};
    int rc = cache->store ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) mf_store_put_on(cache->store, m->options.device);
    for (int32_t l = 0; rc == MF_OK && l < m->config->model.layers; l++)
        rc = cache_layer(m, l, cache);
    for (int32_t i = 0; rc == MF_OK && i < m->n_moe && router_reads_sequence(m); i++)
        rc = mf_history_declare(cache->store, m->moe[i].layer, (int64_t)batch * max_seq,
                                m->config->model.dim);
    if (rc == MF_OK)
        rc = (m->dims.bare ? mf_store_seal_bare : mf_store_seal)(cache->store, 0, false);
    if (rc != MF_OK) {
        mf_cache_free(cache);
        return rc;
    }
    *ret = cache;
    return MF_OK;
}

void mf_cache_free(mf_cache *cache)
{
    if (!cache) return;
    mf_store_free(cache->store);
    mf_free(cache);
}
