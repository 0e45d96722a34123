/* published/judge.c: compares options one by one. Most options are compared as texts, so enums
 * are compared by their names. Some texts differ although they mean the same, such as `auto`
 * and the number that it stands for, or two lists of the same blocks. These options are
 * compared by their meaning. */
#include "pretrained/published/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "run/sections/section_plugins.h"

enum { TEXT_MAX = 4096 };

/* Compares two values. An INI file has "" for an empty text. */
static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (strcmp(a, "\"\"") == 0) a = "";
    if (strcmp(b, "\"\"") == 0) b = "";
    if (strcmp(a, b) == 0) return true;
    return mf_parse_f64(a, &x) && mf_parse_f64(b, &y) && x == y;
}

static bool in_list(const char *const *keys, size_t n, const char *section, const char *key)
{
    const size_t m = strlen(section);
    for (size_t i = 0; i < n; i++)
        if (strncmp(keys[i], section, m) == 0 && keys[i][m] == '.' &&
            strcmp(keys[i] + m + 1, key) == 0)
            return true;
    return false;
}

/* Keys that the family need not set. They do not change predictions, or they determine shapes
 * of tensors, which are compared later. */
static bool is_free(const char *section, const char *key)
{
    static const char *const keys[] = {
        "model.kv_heads",       "model.vocab",        "model.classes",
        "model.ffn_hidden",     "model.cache_start",  "model.init",
        "model.init_std",       "model.layers_alike", "model.ffn_dropout",
        "model.head_dropout",   "model.task_weight",  "moe.force_causal",
        "moe.overflow",         "moe.priority",       "moe.adaptive_capacity",
        "moe.adaptive_limit",   "moe.max_reassign",   "moe.reassign_gate",
        "moe.dropped",          "router.init",        "router.init_std",
        "router.jitter",        "router.rate",        "router.seq_aux_weight",
        "router.seq_aux_count", "expert.init",        "expert.init_std",
        "expert.same_start",    "expert.dropout"};
    return in_list(keys, sizeof keys / sizeof *keys, section, key);
}

void mf_judge_fault(mf_differences *j, const char *section, const char *key, const char *found,
                    const char *expected)
{
    j->distance += !key || strcmp(key, "plugin") == 0 ? 3 : 1;
    if (j->faults++ > 0) return;
    if (key)
        snprintf(j->found, sizeof j->found, "%.80s.%.70s = %.150s", section, key, found);
    else
        snprintf(j->found, sizeof j->found, "[%.80s]", section);
    snprintf(j->expected, sizeof j->expected, "%.150s", expected);
}

/* ---- blocks ---- */

static bool has(const char *layers, int64_t layer)
{
    bool bad;
    return layers && layers[0] != '\0' && strcmp(layers, "\"\"") != 0 &&
           mf_model_in_layers(layers, layer, &bad);
}

bool mf_judge_any_experts(const mf_model_config *m)
{
    bool any = false;
    for (int64_t l = 0; l < m->layers; l++)
        any = any || mf_model_has_experts(m, l);
    return any;
}

static bool any_dense(const mf_model_config *m)
{
    bool any = false;
    for (int64_t l = 0; l < m->layers; l++)
        any = any || !mf_model_has_experts(m, l);
    return any;
}

static const char *setting(const mf_differences *j, const char *key, const char *otherwise)
{
    const char *text = mf_keys_setting(j->keys, "model", key);
    return text ? text : otherwise;
}

static int64_t number(const mf_differences *j, const char *key, int64_t otherwise)
{
    long long value;
    const char *text = mf_keys_setting(j->keys, "model", key);
    return text && mf_parse_i64(text, &value) ? value : otherwise;
}

static bool same_experts(const mf_differences *j)
{
    const mf_model_config *m = &j->config->model;
    mf_model_config theirs = *m;
    theirs.moe_every = number(j, "moe_every", 1);
    theirs.dense_layers = setting(j, "dense_layers", "");
    if (strcmp(theirs.dense_layers, "\"\"") == 0) theirs.dense_layers = "";
    for (int64_t l = 0; l < m->layers; l++)
        if (mf_model_has_experts(m, l) != mf_model_has_experts(&theirs, l)) return false;
    return true;
}

/* The width of the window of a block; 0: it sees all earlier tokens. */
static int64_t window(const mf_differences *j, int64_t width, const char *layers, int64_t layer)
{
    return width > 0 && width < j->config->model.seq && has(layers, layer) ? width : 0;
}

static bool same_windows(const mf_differences *j)
{
    const mf_model_config *m = &j->config->model;
    const int64_t width = number(j, "window", 0);
    const char *layers = setting(j, "window_layers", "all");
    for (int64_t l = 0; l < m->layers; l++)
        if (window(j, m->window, m->window_layers, l) != window(j, width, layers, l))
            return false;
    return true;
}

static bool same_rope(const mf_differences *j)
{
    const mf_model_config *m = &j->config->model;
    const char *layers = setting(j, "rope_layers", "all");
    for (int64_t l = 0; l < m->layers; l++)
        if (has(m->rope_layers, l) != has(layers, l)) return false;
    return true;
}

/* Whether an option names blocks, or a width for them, and the blocks are the same. */
static bool same_blocks(const mf_differences *j, const char *key)
{
    if (strcmp(key, "moe_every") == 0 || strcmp(key, "dense_layers") == 0)
        return same_experts(j);
    if (strcmp(key, "window") == 0 || strcmp(key, "window_layers") == 0) return same_windows(j);
    return strcmp(key, "rope_layers") == 0 && same_rope(j);
}

/* ---- options that do not count, or that stand for a number ---- */

bool mf_judge_reorders(const mf_model_config *m)
{
    const bool whole = m->rope_dims == 0 || m->rope_dims == mf_model_head_dim(m);
    return m->position == MF_POS_ROPE && !m->rope_half && m->latent == 0 && whole;
}

/* Whether a difference in an option does not matter, because another option prevents its use.
 * model.seq may always differ. */
static bool is_idle(const mf_differences *j, const char *section, const char *key)
{
    static const char *const rope[] = {"model.rope_theta",    "model.rope_half",
                                       "model.rope_dims",     "model.rope_last",
                                       "model.rope_original", "model.rope_layers"};
    static const char *const dense[] = {"model.ffn_activation", "model.ffn_bias"};
    static const char *const shared[] = {"moe.shared_hidden", "moe.shared_gate"};
    const mf_config *c = j->config;
    if (strcmp(section, "model") == 0 && strcmp(key, "seq") == 0) return true;
    if (strcmp(section, "model") == 0 && strcmp(key, "pool") == 0 &&
        (c->model.task == MF_TASK_LM || c->model.task == MF_TASK_MLM))
        return true;
    if (c->model.position != MF_POS_ROPE &&
        in_list(rope, sizeof rope / sizeof *rope, section, key))
        return true;
    const mf_model_settings all = mf_config_model(c);
    if (mf_model_moe(&all, -1).shared_experts == 0 &&
        in_list(shared, sizeof shared / sizeof *shared, section, key))
        return true;
    return !any_dense(&c->model) && in_list(dense, sizeof dense / sizeof *dense, section, key);
}

/* If text is `auto` or 0, and this means a number or a choice of the model, writes that value
 * as text. */
static void settle(const mf_differences *j, const char *section, const char *key, char *text,
                   size_t size)
{
    const mf_model_config *m = &j->config->model;
    const bool open = strcmp(text, "auto") == 0 || strcmp(text, "0") == 0;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"model.head_dim", mf_model_head_dim(m)},
                   {"model.positions", m->seq},
                   {"model.value_dim", mf_model_value_dim(m)},
                   {"expert.hidden", 4 * m->dim}};
    char name[128];
    if (!open) return;
    snprintf(name, sizeof name, "%.40s.%.60s", section, key);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            snprintf(text, size, "%lld", (long long)numbers[i].value);
    if (strcmp(name, "model.attention_scale") == 0 && m->attention_scale_by == 0)
        snprintf(text, size, "%.17g", 1 / sqrt((double)mf_model_head_dim(m)));
    if (strcmp(name, "model.ffn_bias") == 0)
        snprintf(text, size, "%s", m->ffn_activation == MF_FFN_SWIGLU ? "no" : "yes");
}

/* Whether a difference in `shared_experts` or `shared_hidden` does not matter, because the
 * shared experts have the same total width in both. */
static bool same_shared(const mf_differences *j, const char *key)
{
    const mf_model_settings all = mf_config_model(j->config);
    const mf_moe_config moe = mf_model_moe(&all, -1);
    const char *hidden = mf_keys_setting(j->keys, "moe", "shared_hidden");
    long long width;
    const bool known = hidden && mf_parse_i64(hidden, &width);
    if (!j->join || moe.shared_gate || moe.shared_experts == 0) return false;
    if (strcmp(key, "shared_experts") != 0 && strcmp(key, "shared_hidden") != 0) return false;
    if (!known) return false;
    /* shared_hidden 0 means the width of [expert]; expert.hidden is compared by itself */
    const char *own = mf_keys_setting(j->keys, "expert", "hidden");
    long long expert;
    const int64_t each = moe.shared_hidden > 0               ? moe.shared_hidden
                         : own && mf_parse_i64(own, &expert) ? expert
                                                             : 0;
    return each * moe.shared_experts == width;
}

/* ---- sections ---- */

/* Compares one option. `as` is the section whose settings come from the family. */
static void judge_option(mf_differences *j, const mf_option *o, const void *conf,
                         const char *section, const char *as)
{
    char found[TEXT_MAX], means[TEXT_MAX];
    const char *expected = mf_keys_setting(j->keys, as, o->name);
    if (is_idle(j, as, o->name)) return;
    if (!expected && (is_free(as, o->name) || mf_option_is_default(o, conf))) return;
    mf_option_text(o, conf, found, sizeof found);
    if (strcmp(o->name, "renormalize") == 0) {
        const mf_model_settings all = mf_config_model(j->config);
        const char *by_itself = mf_model_moe(&all, -1).top_k > 1 ? "yes" : "no";
        if (strcmp(found, "auto") == 0) strcpy(found, by_itself);
        if (!expected && strcmp(as, "moe") == 0) expected = by_itself;
    }
    /* The rate says only how training changes the bias. An imported model does not
     * change it. */
    if (strcmp(as, "router") == 0 && strcmp(o->name, "rate") == 0) return;
    snprintf(means, sizeof means, "%s", expected ? expected : o->value ? o->value : "");
    /* the numbers of tokens and classes follow from the data, and give the shapes */
    if (strcmp(found, "auto") == 0 && is_free(as, o->name)) return;
    settle(j, as, o->name, found, sizeof found);
    settle(j, as, o->name, means, sizeof means);
    if (same_value(found, means)) return;
    if (strcmp(as, "model") == 0 && same_blocks(j, o->name)) return;
    if (strcmp(as, "moe") == 0 && same_shared(j, o->name)) return;
    if (strcmp(as, "model") == 0 && strcmp(o->name, "rope_half") == 0 && j->reorder &&
        mf_judge_reorders(&j->config->model))
        return;
    mf_judge_fault(j, section, o->name, found, means);
}

static void judge_section(mf_differences *j, const mf_option *options, const void *conf,
                          const char *section, const char *as)
{
    for (const mf_option *o = options; o->name; o++)
        judge_option(j, o, conf, section, as);
}

/* Compares a section of a plugin. `as` is the section whose settings come from the family. */
static int judge_plugin(mf_differences *j, const mf_plugin_section *p, const char *as)
{
    const char *expected = mf_keys_setting(j->keys, as, "plugin");
    const mf_loaded *plugin;
    void *conf = NULL;
    if (expected && strcmp(p->plugin, expected) != 0) {
        mf_judge_fault(j, p->section, "plugin", p->plugin, expected);
        return MF_OK;
    }
    mf_arena *arena = mf_arena_new();
    const int rc =
        arena ? mf_section_plugin(p, j->config->ini, arena, NULL, &plugin, &conf) : MF_ENOMEM;
    if (rc == MF_OK) judge_section(j, plugin->schema.options, conf, p->section, as);
    mf_arena_free(arena);
    return rc;
}

int mf_judge_settings(mf_differences *j)
{
    const mf_config *c = j->config;
    int rc = MF_OK;
    j->faults = j->distance = 0;
    judge_section(j, mf_model_section.options, &c->model, "model", "model");
    if (c->n_tasks > 0) mf_judge_fault(j, c->tasks[0].section, NULL, "", "");
    if (!mf_judge_any_experts(&c->model)) return MF_OK; /* [moe] is not used */
    judge_section(j, mf_moe_section.options, &c->moe, "moe", "moe");
    if (j->keys->experts == 0) return MF_OK; /* no block of the family has experts */
    const mf_model_settings m = mf_config_model(c);
    const mf_plugin_section *router = NULL, *expert = NULL;
    for (int64_t l = 0; rc == MF_OK && l < c->model.layers; l++) {
        const int at = mf_model_block(&m, l);
        const mf_moe_config own = mf_model_moe(&m, l);
        if (!mf_model_has_experts(&c->model, l)) continue;
        if (at >= 0)
            judge_section(j, mf_moe_section.options, &own, c->blocks[at].section, "moe");
        if (mf_model_router(&m, l) != router)
            rc = judge_plugin(j, router = mf_model_router(&m, l), "router");
        if (rc == MF_OK && mf_model_expert(&m, l) != expert)
            rc = judge_plugin(j, expert = mf_model_expert(&m, l), "expert");
    }
    return rc;
}

int mf_judge_refuse(const mf_differences *j, const char *family)
{
    return mf_fail(MF_EINPUT, "%s cannot be said in the form of %s%s%s", j->found, family,
                   j->expected[0] != '\0' ? ": its config.json means " : "", j->expected);
}
