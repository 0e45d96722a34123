/* model/layer_config.c: finds the settings of one block. If several sections name a block, only
 * the last of them is used. Keys that it does not set have the values of [moe]. */
#include "model/model_config.h"
#include <stdio.h>
#include <string.h>

#define LISTS "numbers of blocks from 0 as 2-5 or 0,3"

static const char *const sums_of_gates[] = {"no", "yes", "auto", NULL};

#define OWN(type, field, hi, text)                                                             \
    MF_SECTION_##type(mf_block_section, field, "-1", -1, hi, text "; -1: as in [moe]")
static const mf_option block_options[] = {
    MF_OPTION_STR(mf_block_section, layers, "",
                  "numbers of blocks from 0, as 2-5 or 0,3, or all; empty: NAME is a number"),
    OWN(INT, experts, 4096, "experts of a block"),
    OWN(INT, top_k, 4096, "experts a token"),
    OWN(REAL, capacity_factor, 1e6, "rows an expert takes, in even shares"),
    OWN(INT, shared_experts, MF_SHARED_MAX, "experts that every token visits besides"),
    OWN(INT, shared_hidden, 1048576, "hidden width of shared experts"),
    OWN(INT, latent, 65536, "width of the rows of routed experts; 0: dim"),
    MF_OPTION_ENUM(
        mf_block_section, renormalize, "auto", sums_of_gates,
        "gates of a token sum to 1; auto: as in [moe], and if that is auto, if top_k "
        "here is above 1"),
    MF_END_OPTIONS};

static int complete_block(void *one, const char *section, const char *label, mf_arena *arena,
                          bool *ret_keep)
{
    mf_block_section *b = one;
    (void)arena;
    b->section = section;
    b->name = label;
    if (b->layers[0] == '\0' && strspn(label, "0123456789") == strlen(label)) b->layers = label;
    *ret_keep = true;
    return MF_OK;
}

const mf_section mf_block_sections = {
    .name = "block.",
    .help = "settings of [moe] for some blocks; the last section that names a block counts",
    .options = block_options,
    .size = sizeof(mf_block_section),
    .complete = complete_block,
    .most = 256,
    .fixed = mf_section_all_keys};

bool mf_model_in_layers(const char *layers, int64_t layer, bool *ret_bad)
{
    const char *p = layers;
    bool found = false;
    *ret_bad = false;
    if (strcmp(layers, "all") == 0) return true;
    do {
        int first, last, n = 0;
        if (sscanf(p, " %d - %d %n", &first, &last, &n) < 2 || n == 0) {
            n = 0;
            if (sscanf(p, " %d %n", &first, &n) < 1) break;
            last = first;
        }
        if (n == 0 || first < 0 || last < first) break;
        found = found || (layer >= first && layer <= last);
        p += n;
        if (*p == '\0') return found;
    } while (*p++ == ',');
    *ret_bad = true;
    return false;
}

bool mf_model_has_experts(const mf_model_config *m, int64_t layer)
{
    bool bad;
    if (m->moe_every == 0 || (layer + 1) % m->moe_every != 0 || layer >= m->layers)
        return false;
    if (!m->dense_layers || m->dense_layers[0] == '\0') return true;
    return !mf_model_in_layers(m->dense_layers, layer, &bad);
}

/* Returns the first block with experts; -1 if no block has any. */
static int64_t first_moe(const mf_model_config *m)
{
    for (int64_t l = 0; l < m->layers; l++)
        if (mf_model_has_experts(m, l)) return l;
    return -1;
}

static const mf_plugin_section *last_of(const mf_plugin_section *all, int n, int64_t layer,
                                        const mf_plugin_section *found)
{
    bool bad;
    for (int i = 0; i < n; i++)
        if (mf_model_in_layers(all[i].layers, layer, &bad)) found = &all[i];
    return found;
}

const mf_plugin_section *mf_model_router(const mf_model_settings *c, int64_t layer)
{
    return last_of(c->routers, c->n_routers, layer, &c->router);
}

const mf_plugin_section *mf_model_expert(const mf_model_settings *c, int64_t layer)
{
    return last_of(c->layer_experts, c->n_layer_experts, layer, &c->expert);
}

int mf_model_block(const mf_model_settings *c, int64_t layer)
{
    bool bad;
    int found = -1;
    for (int i = 0; i < c->n_blocks; i++)
        if (mf_model_in_layers(c->blocks[i].layers, layer, &bad)) found = i;
    return found;
}

/* Returns a copy of `moe` with the values of the keys that the section sets. */
static mf_moe_config with(const mf_block_section *b, mf_moe_config moe)
{
    if (b->experts >= 0) moe.experts = b->experts;
    if (b->top_k >= 0) moe.top_k = b->top_k;
    if (b->capacity_factor >= 0) moe.capacity_factor = b->capacity_factor;
    if (b->shared_experts >= 0) moe.shared_experts = b->shared_experts;
    if (b->shared_hidden >= 0) moe.shared_hidden = b->shared_hidden;
    if (b->latent >= 0) moe.latent = b->latent;
    if (b->renormalize != MF_RENORMALIZE_AUTO) moe.renormalize = b->renormalize;
    return moe;
}

mf_moe_config mf_model_moe(const mf_model_settings *c, int64_t layer)
{
    if (layer < 0) layer = first_moe(&c->model);
    const int at = layer < 0 ? -1 : mf_model_block(c, layer);
    return at < 0 ? c->moe : with(&c->blocks[at], c->moe);
}

int32_t mf_model_most_experts(const mf_model_settings *c)
{
    int64_t most = 0;
    for (int64_t l = 0; l < c->model.layers; l++) {
        const int64_t n = mf_model_has_experts(&c->model, l) ? mf_model_moe(c, l).experts : 0;
        most = n > most ? n : most;
    }
    return (int32_t)most;
}

bool mf_model_unequal(const mf_model_settings *c, int64_t *ret_a, int64_t *ret_b)
{
    const int64_t first = first_moe(&c->model);
    const mf_moe_config a = mf_model_moe(c, first);
    for (int64_t l = first; first >= 0 && c->n_blocks > 0 && l < c->model.layers; l++) {
        if (!mf_model_has_experts(&c->model, l)) continue;
        const mf_moe_config b = mf_model_moe(c, l);
        *ret_a = first;
        *ret_b = l;
        if (a.experts != b.experts || a.top_k != b.top_k) return true;
    }
    return false;
}

void mf_block_config_settle(mf_block_section *blocks, int n, const mf_moe_config *moe)
{
    for (int i = 0; i < n; i++) {
        mf_block_section *b = &blocks[i];
        mf_moe_config own = with(b, *moe);
        mf_moe_config_settle(&own);
        b->renormalize = own.renormalize;
    }
}

/* Checks the list of blocks. A section that changes nothing would be a mistake that nobody
 * sees, so each block that it names must have experts. */
static void judge_layers(mf_config_faults *j, const mf_model_settings *s,
                         const mf_block_section *b)
{
    const mf_model_config *m = &s->model;
    bool bad = false;
    const bool number = strspn(b->name, "0123456789") == strlen(b->name);
    if (b->layers[0] != '\0') mf_model_in_layers(b->layers, 0, &bad);
    if (bad || b->layers[0] == '\0') {
        mf_config_fault(
            j, b->section, "layers", NULL, NULL, "expected all, or " LISTS ", found '%s'%s",
            b->layers, number ? "" : "; only a section whose name is a number needs no layers");
        return;
    }
    if (number && strcmp(b->layers, b->name) != 0)
        mf_config_fault(j, b->section, "layers", NULL, NULL,
                        "[%s] is about block %s: expected no layers, or a section with another "
                        "name, found '%s'",
                        b->section, b->name, b->layers);
    if (strcmp(b->layers, "all") == 0) return;
    for (int64_t l = 0; l < 4096; l++) {
        if (!mf_model_in_layers(b->layers, l, &bad) || mf_model_has_experts(m, l)) continue;
        mf_config_fault(j, b->section, "layers", NULL, NULL,
                        "expected blocks with experts, found %lld%s", (long long)l,
                        l < m->layers ? ", a dense block" : "; there is no such block");
        return;
    }
}

/* Returns the name of a key that differs between a and b and changes shapes of parameters;
 * NULL: no such key differs. */
static const char *reshapes(const mf_moe_config *a, const mf_moe_config *b)
{
    if (a->experts != b->experts) return "experts";
    if (a->shared_experts != b->shared_experts) return "shared_experts";
    if (a->latent != b->latent) return "latent";
    return a->shared_hidden != b->shared_hidden ? "shared_hidden" : NULL;
}

static void judge_block(mf_config_faults *j, const mf_model_settings *s,
                        const mf_block_section *b)
{
    const mf_moe_config own = with(b, s->moe);
    const char *key = reshapes(&s->moe, &own), *alike = s->model.share_layers   ? "share_layers"
                                                        : s->model.layers_alike ? "layers_alike"
                                                                                : NULL;
    if (own.experts == 0 || own.top_k == 0)
        mf_config_fault(j, b->section, own.experts == 0 ? "experts" : "top_k", NULL, NULL,
                        "expected at least 1, or -1 for the value of [moe], found 0");
    else if (own.top_k > own.experts)
        mf_config_fault(j, b->section, b->top_k >= 0 ? "top_k" : "experts", "moe.top_k", NULL,
                        "top_k: expected at most as many as experts (%lld), found %lld",
                        (long long)own.experts, (long long)own.top_k);
    if (b->capacity_factor < 0 && b->capacity_factor != -1)
        mf_config_fault(j, b->section, "capacity_factor", NULL, NULL,
                        "expected at least 0, or -1 for the value of [moe], found %g",
                        b->capacity_factor);
    if (own.latent > s->model.dim)
        mf_config_fault(j, b->section, "latent", "model.dim", NULL,
                        "expected at most model.dim (%lld), found %lld",
                        (long long)s->model.dim, (long long)own.latent);
    if (own.shared_experts == 0 && b->shared_hidden > 0)
        mf_config_fault(j, b->section, "shared_hidden", NULL, NULL,
                        "it is about shared experts, and the block has none");
    if (key && alike)
        mf_config_fault(j, b->section, key, NULL, NULL,
                        "expected the value of [moe] with model.%s = yes", alike);
}

void mf_block_config_judge(mf_config_faults *j, const mf_model_settings *s)
{
    /* a dense model does not use the sections */
    for (int i = 0; s->model.moe_every > 0 && i < s->n_blocks; i++) {
        judge_layers(j, s, &s->blocks[i]);
        judge_block(j, s, &s->blocks[i]);
    }
}

static int judge_sections(const mf_model_settings *c, const mf_plugin_section *all, int n,
                          const char *what)
{
    bool bad;
    for (int i = 0; i < n; i++) {
        mf_model_in_layers(all[i].layers, 0, &bad);
        if (bad) {
            const mf_ini_entry *at = mf_ini_get(c->ini, all[i].section, "layers");
            mf_fail(MF_ECONFIG, "%s.layers: expected all, or " LISTS ", found '%s'",
                    all[i].section, all[i].layers);
            return mf_ini_context(MF_ECONFIG, at ? at->file : NULL, at ? at->line : 0);
        }
        if (c->model.share_layers)
            return mf_fail(MF_ECONFIG, "%s: expected one %s with model.share_layers = yes",
                           all[i].section, what);
    }
    return MF_OK;
}

int mf_model_judge_layers(const mf_model_settings *c)
{
    const int rc = judge_sections(c, c->routers, c->n_routers, "router");
    if (rc != MF_OK) return rc;
    return judge_sections(c, c->layer_experts, c->n_layer_experts, "expert");
}
