/* model/heads.c: the attention heads that are computed, their gates and learning
 * rates. No graph contains an inactive head; the parameters of such a head keep
 * their values. */
#include "model/heads.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/block.h"

mf_param *mf_head_param(const mf_model *m, int32_t layer, const char *what)
{
    char name[96];
    snprintf(name, sizeof name, "layers.%d.attention.%s", (int)layer, what);
    return mf_store_find(m->store, name);
}

mf_param *mf_head_weights(const mf_model *m, int32_t layer, const char *what)
{
    return mf_head_param(m, mf_block_attention_source(m, layer), what);
}

/* ---- plan ---- */

bool mf_head_is_active(const mf_param *active, int32_t head)
{
    const float *on = active ? mf_param_host(active) : NULL;
    return !on || on[head] != 0;
}

static int32_t used_by(const mf_param *active, int32_t kv, int32_t share)
{
    int32_t n = 0;
    for (int32_t h = kv * share; h < (kv + 1) * share; h++)
        n += mf_head_is_active(active, h);
    return n;
}

int mf_head_plan_new(const mf_model *m, int32_t layer, mf_head_plan **ret)
{
    const int32_t H = (int32_t)m->config->model.heads, KV = (int32_t)m->config->model.kv_heads;
    const int32_t share = H / KV;
    const mf_param *active = mf_head_param(m, layer, "active");
    const size_t lists = ((size_t)H + (size_t)KV) * sizeof(int32_t);
    mf_head_plan *p = mf_alloc(1, sizeof *p + (size_t)share * sizeof(mf_head_group) + lists);
    if (!p) return MF_ENOMEM;
    *p = (mf_head_plan){.total = H, .kv_total = KV};
    p->group = (mf_head_group *)(p + 1);
    p->q = (int32_t *)(p->group + share);
    p->kv = p->q + H;
    for (int32_t n = 1; n <= share; n++) {
        mf_head_group g = {.share = n, .q_at = p->active, .kv_at = p->kv_active};
        for (int32_t kv = 0; kv < KV; kv++) {
            if (used_by(active, kv, share) != n) continue;
            p->kv[p->kv_active++] = kv;
            g.kv++;
            for (int32_t h = kv * share; h < (kv + 1) * share; h++)
                if (mf_head_is_active(active, h)) p->q[p->active++] = h;
        }
        if (g.kv > 0) p->group[p->n_groups++] = g;
    }
    p->whole = p->active == H;
    *ret = p;
    return MF_OK;
}

int64_t mf_heads_active(const mf_model *m)
{
    int64_t n = 0;
    for (int32_t l = 0; l < m->config->model.layers; l++) {
        const mf_param *active = mf_head_param(m, l, "active");
        for (int32_t h = 0; h < m->config->model.heads; h++)
            n += mf_head_is_active(active, h);
    }
    return n;
}

/* Whether any layer that uses the weights of layer `source` computes one of the n query heads
 * that begin at head h. */
static bool read_somewhere(const mf_model *m, int32_t source, int32_t h, int32_t n)
{
    for (int32_t l = source; l < m->config->model.layers; l++) {
        if (mf_block_attention_source(m, l) != source) continue;
        for (int32_t i = h; i < h + n; i++)
            if (mf_head_is_active(mf_head_param(m, l, "active"), i)) return true;
    }
    return false;
}

/* Returns the number of elements of one head in the query weights and bias. The key and the
 * value of a head have the same number. */
static int64_t part_size(const mf_model *m, int32_t layer)
{
    const mf_model_config *c = &m->config->model;
    const int64_t hd = mf_model_head_dim(c);
    return hd * c->dim + (mf_head_param(m, layer, "qkv.bias") ? hd : 0);
}

/* Returns the layer of a parameter whose dimension 0 is the number of heads; -1 for all
 * other parameters. */
static int32_t by_head(const mf_param *p)
{
    int layer;
    if (!(p->init.flags & MF_PARAM_BY_HEAD)) return -1;
    return sscanf(p->name, "layers.%d.", &layer) == 1 ? (int32_t)layer : -1;
}

int64_t mf_heads_idle(const mf_model *m)
{
    const mf_model_config *c = &m->config->model;
    const int32_t share = (int32_t)(c->heads / c->kv_heads);
    int64_t idle = 0;
    if (!m->head_switches) return 0;
    for (int i = 0; i < mf_store_count(m->store); i++) {
        const mf_param *p = mf_store_at(m->store, i);
        const int32_t l = by_head(p);
        for (int32_t h = 0; l >= 0 && h < c->heads; h++)
            if (!mf_head_is_active(mf_head_param(m, l, "active"), h))
                idle += p->count / c->heads;
    }
    for (int32_t l = 0; l < c->layers; l++) {
        if (mf_block_attention_source(m, l) != l) continue;
        for (int32_t h = 0; h < c->heads; h++)
            if (!read_somewhere(m, l, h, 1))
                idle += part_size(m, l) + mf_model_head_dim(c) * c->dim;
        for (int32_t kv = 0; kv < c->kv_heads; kv++)
            if (!read_somewhere(m, l, kv * share, share)) idle += 2 * part_size(m, l);
    }
    return idle;
}

/* ---- gates ---- */

double mf_gate_of(const mf_model *m, double number)
{
    if (m->gate_form == MF_GATE_SIGMOID) return 1 / (1 + exp(-number));
    return number < 0 ? 0 : number > 1 ? 1 : number;
}

double mf_gate_number(const mf_model *m, double gate, double most)
{
    const double g = gate < 0 ? 0 : gate > 1 ? 1 : gate;
    if (m->gate_form == MF_GATE_RAW) return g;
    const double logit = log(g / (1 - g)); /* infinite at 0 and 1 */
    return logit < -most ? -most : logit > most ? most : logit;
}

/* ---- declarations ---- */

/* Divides a parameter by heads; the parameter may be missing. */
static int divide(mf_model *m, int32_t layer, const char *what, int64_t parts, int64_t size)
{
    mf_param *p = mf_head_param(m, layer, what);
    return p ? mf_store_divide(m->store, p, parts, size) : MF_OK;
}

int mf_heads_declare(mf_model *m, int32_t layer)
{
    static const char *const buffers[] = {"active", "lr_scale"};
    const mf_model_config *c = &m->config->model;
    const int64_t hd = mf_model_head_dim(c), rows = c->heads + 2 * c->kv_heads;
    const mf_init one = {MF_INIT_CONST, 0, 1};
    int rc = MF_OK;
    if (c->latent > 0)
        return mf_fail(MF_ECONFIG, "adapters that switch heads off want model.latent = 0");
    if (c->qk_norm == MF_QK_ALL)
        return mf_fail(MF_ECONFIG,
                       "adapters that switch heads off want model.qk_norm = none or head: "
                       "'all' norms the heads of a token together");
    m->head_switches = true;
    for (int i = 0; rc == MF_OK && i < 2; i++) {
        char name[96];
        mf_param *p;
        snprintf(name, sizeof name, "layers.%d.attention.%s", (int)layer, buffers[i]);
        rc = mf_store_declare(m->store, name, mf_shape1(c->heads), one, true, &p);
    }
    if (rc == MF_OK) rc = divide(m, layer, "qkv.weight", rows, hd * c->dim);
    if (rc == MF_OK) rc = divide(m, layer, "qkv.bias", rows, hd);
    return rc == MF_OK ? divide(m, layer, "out.weight", c->heads, hd) : rc;
}

/* ---- live options ---- */

int mf_heads_register(mf_model *m)
{
    static const struct {
        const char *what;
        double lo, hi;
        bool structural;
    } kinds[] = {{NULL, -100, 100, false}, {"active", 0, 1, true}, {"lr_scale", 0, 1e3, false}};
    int rc = MF_OK;
    for (int32_t l = 0; l < m->config->model.layers; l++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            mf_param *p = kinds[i].what ? mf_head_param(m, l, kinds[i].what) : m->gates[l];
            for (int64_t h = 0; rc == MF_OK && p && h < p->count; h++) {
                char name[128];
                snprintf(name, sizeof name, "%s.%lld", p->name, (long long)h);
                rc = mf_live_register_stored(m->plugins, name, p, h, kinds[i].lo, kinds[i].hi,
                                             kinds[i].structural);
            }
        }
    return rc;
}

/* ---- learning rates ---- */

/* Sets the learning-rate factor of one part (mf_param.part). Returns whether it changed. */
static bool set_factor(mf_param *p, int64_t part, float factor)
{
    if (!p || !p->part || p->part[part] == factor) return false;
    p->part[part] = factor;
    return true;
}

/* Returns the learning-rate factor of head h from the layer's own buffers; 0 if the head
 * is pruned. */
static float rate_of(const mf_model *m, int32_t layer, int64_t h)
{
    const mf_param *scale = mf_head_param(m, layer, "lr_scale");
    const float *rate = scale ? mf_param_host(scale) : NULL;
    if (!scale) return 1; /* no head of this layer can be switched off */
    const bool on = mf_head_is_active(mf_head_param(m, layer, "active"), (int32_t)h);
    return rate && on ? rate[h] : 0;
}

/* Returns the largest factor of the n heads that begin at head h, over all layers that use the
 * weights of layer `source`. So shared weights learn as fast as the fastest head that
 * uses them. */
static float fastest(const mf_model *m, int32_t source, int64_t h, int64_t n)
{
    float most = 0;
    for (int32_t l = source; l < m->config->model.layers; l++)
        for (int64_t i = 0; mf_block_attention_source(m, l) == source && i < n; i++) {
            const float f = rate_of(m, l, h + i);
            if (f > most) most = f;
        }
    return most;
}

static bool set_weights(mf_model *m, int32_t layer)
{
    const int64_t H = m->config->model.heads, KV = m->config->model.kv_heads, share = H / KV;
    mf_param *of[] = {mf_head_param(m, layer, "qkv.weight"),
                      mf_head_param(m, layer, "qkv.bias")};
    mf_param *out = mf_head_param(m, layer, "out.weight");
    bool changed = false;
    for (int64_t h = 0; h < H; h++) {
        const float f = fastest(m, layer, h, 1);
        changed |= set_factor(out, h, f);
        for (int i = 0; i < 2; i++)
            changed |= set_factor(of[i], h, f);
    }
    for (int64_t kv = 0; kv < KV; kv++) {
        const float f = fastest(m, layer, kv * share, share);
        for (int i = 0; i < 2; i++)
            for (int64_t at = H + kv; at < H + 2 * KV; at += KV)
                changed |= set_factor(of[i], at, f);
    }
    return changed;
}

bool mf_heads_set_parts(mf_model *m)
{
    bool changed = false;
    if (!m->head_switches) return false;
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        const int32_t l = by_head(p);
        for (int64_t h = 0; l >= 0 && h < m->config->model.heads; h++)
            changed |= set_factor(p, h, rate_of(m, l, h));
    }
    for (int32_t l = 0; l < m->config->model.layers; l++)
        if (mf_block_attention_source(m, l) == l) changed |= set_weights(m, l);
    return changed;
}
