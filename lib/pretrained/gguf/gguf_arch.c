/* pretrained/gguf/gguf_arch.c: the choice of an architecture, and the keys that all
 * architectures share. Values come from the run's configuration, which was compared
 * with config.json. */
#include "pretrained/gguf/gguf_arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "model/rope.h"

static const mf_gguf_arch *const all[] = {&mf_gguf_llama, &mf_gguf_qwen2moe,  &mf_gguf_qwen3moe,
                                          &mf_gguf_olmoe, &mf_gguf_deepseek2, &mf_gguf_gpt_oss,
                                          &mf_gguf_gpt2};

enum { KEY_MAX = 96 };

int mf_gguf_refuse(const char *what, const char *why)
{
    return mf_fail(MF_EINPUT, "%s cannot be said in GGUF: %s", what, why);
}

static const mf_model_config *model_of(const mf_export_run *x)
{
    return &x->session->config->model;
}

/* ---- rope ---- */

bool mf_gguf_has_factors(const mf_export_run *x)
{
    return model_of(x)->rope_scaling == MF_ROPE_LLAMA3;
}

/* Warns that programs for GGUF round the bounds of YaRN's ramp: the lower down, the
 * upper up. */
static void warn_of_ramp(const mf_model_config *m)
{
    enum { COLUMNS_MAX = 1024 };
    float own[COLUMNS_MAX / 2], rounded[COLUMNS_MAX / 2], most = 0;
    const int64_t n = m->rope_dims > 0 ? m->rope_dims : mf_model_head_dim(m);
    mf_model_config other = *m;
    if (m->rope_truncate || n > COLUMNS_MAX) return;
    other.rope_truncate = 1;
    mf_rope_factors(m, n, own);
    mf_rope_factors(&other, n, rounded);
    for (int64_t i = 0; i < n / 2; i++)
        most = fmaxf(most, fabsf(rounded[i] / own[i] - 1));
    if (most > 1e-6F)
        mf_log(MF_LOG_WARN,
               "GGUF cannot say truncate = false of YaRN: programs for it will turn some "
               "positions by up to %.1f %% more or less than this model",
               100 * (double)most);
}

static int judge_rope(const mf_export_run *x, const mf_gguf_arch *a)
{
    const mf_model_config *m = model_of(x);
    if (m->position != MF_POS_ROPE) return MF_OK;
    if (m->rope_scaling == MF_ROPE_LLAMA3 && a != &mf_gguf_llama)
        return mf_gguf_refuse("model.rope_scaling = llama3",
                              "only the architecture llama has such factors");
    if (m->rope_scaling == MF_ROPE_GIVEN)
        return mf_gguf_refuse("model.rope_scaling = given",
                              "none of its architectures here has such factors");
    if (m->rope_dims > 0 && m->rope_dims != mf_model_head_dim(m) && m->latent == 0)
        return mf_gguf_refuse("model.rope_dims", "its programs rotate whole heads");
    if (m->rope_scaling == MF_ROPE_YARN) warn_of_ramp(m);
    return MF_OK;
}

static void put_rope(const mf_export_run *x, const mf_gguf_arch *a, mf_gguf *w)
{
    const mf_model_config *m = model_of(x);
    char key[KEY_MAX];
    mf_gguf_arch_f32(w, a, "rope.freq_base", m->rope_theta);
    if (m->rope_scaling == MF_ROPE_PLAIN || m->rope_scaling == MF_ROPE_LLAMA3) return;
    snprintf(key, sizeof key, "%s.rope.scaling.type", a->name);
    mf_gguf_text(w, key, mf_keys_setting(&x->record->keys, "model", "rope_scaling"));
    mf_gguf_arch_f32(w, a, "rope.scaling.factor", m->rope_factor);
    if (m->rope_scaling != MF_ROPE_YARN) return;
    mf_gguf_arch_u32(w, a, "rope.scaling.original_context_length", (int64_t)m->rope_original);
    mf_gguf_arch_f32(w, a, "rope.scaling.yarn_beta_fast", m->rope_beta_fast);
    mf_gguf_arch_f32(w, a, "rope.scaling.yarn_beta_slow", m->rope_beta_slow);
    /* Programs multiply by YaRN's own magnitude. This is the remaining factor. */
    const double rest = mf_rope_magnitude(m) / (0.1 * log(m->rope_factor) + 1);
    if (m->latent == 0 && fabs(rest - 1) > 1e-9)
        mf_gguf_arch_f32(w, a, "rope.scaling.attn_factor", rest);
}

/* ---- all architectures ---- */

/* Refuses properties that only some families have and that this architecture cannot express. */
static int judge_attention(const mf_export_run *x, const mf_gguf_arch *a)
{
    const mf_model_config *m = model_of(x);
    if (m->window > 0 && a != &mf_gguf_gpt_oss)
        return mf_gguf_refuse("sliding_window", "programs would compute without the window");
    if (m->attention_scale_by_layer || (m->attention_scale > 0 && m->latent == 0))
        return mf_gguf_refuse("another scale of the scores of attention",
                              "programs divide by the root of a head's width");
    return MF_OK;
}

int mf_gguf_arch_of(const mf_export_run *x, const mf_gguf_arch **ret)
{
    const char *family = x->record->family->name;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int j = 0; all[i]->families[j]; j++) {
            if (strcmp(all[i]->families[j], family) != 0) continue;
            *ret = all[i];
            int rc = judge_rope(x, all[i]);
            if (rc == MF_OK) rc = judge_attention(x, all[i]);
            return rc == MF_OK && all[i]->judge ? all[i]->judge(x) : rc;
        }
    return mf_fail(MF_EINPUT,
                   "models of the family %s are not written as GGUF; expected mixtral, llama, "
                   "qwen2_moe, qwen3_moe, olmoe, deepseek_v2, deepseek_v3, gpt_oss or gpt2",
                   family);
}

void mf_gguf_arch_u32(mf_gguf *w, const mf_gguf_arch *a, const char *name, int64_t value)
{
    char key[KEY_MAX];
    snprintf(key, sizeof key, "%s.%s", a->name, name);
    mf_gguf_u32(w, key, (uint32_t)value);
}

void mf_gguf_arch_f32(mf_gguf *w, const mf_gguf_arch *a, const char *name, double value)
{
    char key[KEY_MAX];
    snprintf(key, sizeof key, "%s.%s", a->name, name);
    mf_gguf_f32(w, key, (float)value);
}

double mf_gguf_setting(const mf_export_run *x, const char *name)
{
    const char *dot = strchr(name, '.');
    char section[32];
    double value = 0;
    snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
    const char *text = mf_keys_setting(&x->record->keys, section, dot + 1);
    return text && mf_parse_f64(text, &value) ? value : 0;
}

void mf_gguf_arch_keys(const mf_export_run *x, const mf_gguf_arch *a, mf_gguf *w)
{
    const mf_keys *k = &x->record->keys;
    const mf_model_config *m = model_of(x);
    const double dense = mf_gguf_setting(x, "model.ffn_hidden"),
                 expert = mf_gguf_setting(x, "expert.hidden");
    mf_gguf_arch_u32(w, a, "block_count", m->layers);
    mf_gguf_arch_u32(w, a, "context_length", k->seq);
    mf_gguf_arch_u32(w, a, "embedding_length", m->dim);
    mf_gguf_arch_u32(w, a, "feed_forward_length", (int64_t)(dense > 0 ? dense : expert));
    mf_gguf_arch_u32(w, a, "attention.head_count", m->heads);
    if (m->position == MF_POS_ROPE) {
        mf_gguf_arch_u32(w, a, "attention.head_count_kv", m->latent > 0 ? 1 : k->kv_heads);
        put_rope(x, a, w);
    }
    mf_gguf_arch_f32(w, a,
                     m->norm == MF_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                            : "attention.layer_norm_epsilon",
                     m->norm_eps);
    if (k->experts > 0) {
        mf_gguf_arch_u32(w, a, "expert_count", k->experts);
        mf_gguf_arch_u32(w, a, "expert_used_count", mf_gguf_moe(x).top_k);
    }
    if (m->latent == 0 && mf_keys_has(k, "head_dim")) {
        mf_gguf_arch_u32(w, a, "attention.key_length", k->head_dim);
        mf_gguf_arch_u32(w, a, "attention.value_length", k->head_dim);
    }
    if (a->keys) a->keys(x, w);
}

mf_moe_config mf_gguf_moe(const mf_export_run *x)
{
    const mf_model_settings m = mf_config_model(x->session->config);
    return mf_model_moe(&m, -1);
}
