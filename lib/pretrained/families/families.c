/* families/families.c: the list of families, the choice of a family by model_type, and the
 * reading of its config.json. Every name of a family in messages comes from this list. */
#include "pretrained/family.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "pretrained/quantized.h"

/* One line for each family, in the order of messages. */
#define FAMILIES(X)                                                                            \
    X(afmoe)                                                                                   \
    X(aria_text)                                                                               \
    X(bert)                                                                                    \
    X(dbrx)                                                                                    \
    X(deepseek_v2)                                                                             \
    X(deepseek_v3)                                                                             \
    X(deepseek_v32)                                                                            \
    X(dots1)                                                                                   \
    X(ernie4_5_moe)                                                                            \
    X(exaone_moe)                                                                              \
    X(flex_olmo)                                                                               \
    X(flint)                                                                                   \
    X(glm4_moe)                                                                                \
    X(glm4_moe_lite)                                                                           \
    X(glm_moe_dsa)                                                                             \
    X(gpt2)                                                                                    \
    X(gpt_oss)                                                                                 \
    X(granitemoe)                                                                              \
    X(granitemoe_swa)                                                                          \
    X(granitemoehybrid)                                                                        \
    X(granitemoeshared)                                                                        \
    X(hunyuan_v1_moe)                                                                          \
    X(hy_v3)                                                                                   \
    X(lfm2_moe)                                                                                \
    X(llama)                                                                                   \
    X(llama4_text)                                                                             \
    X(minimax_m2)                                                                              \
    X(mistral)                                                                                 \
    X(mistral4)                                                                                \
    X(mixtral)                                                                                 \
    X(olmo2)                                                                                   \
    X(olmo3)                                                                                   \
    X(olmoe)                                                                                   \
    X(phimoe)                                                                                  \
    X(qwen2)                                                                                   \
    X(qwen2_moe)                                                                               \
    X(qwen3)                                                                                   \
    X(qwen3_5_moe_text)                                                                        \
    X(qwen3_moe)                                                                               \
    X(qwen3_next)                                                                              \
    X(sarvam_mla)                                                                              \
    X(sarvam_moe)                                                                              \
    X(seed_oss)                                                                                \
    X(smollm3)                                                                                 \
    X(solar_open)
#define DECLARE(id) extern const mf_family mf_family_##id;
#define LIST(id)    &mf_family_##id,
FAMILIES(DECLARE)
const mf_family *const mf_families[] = {FAMILIES(LIST) NULL};

enum { NAMES_MAX = 96, LIST_MAX = 1024 };

/* Returns value j of model_type of a family, or of its folders with more than the text model.
 * NULL: there is none. */
static const char *has_type(const mf_family *f, bool whole, int j)
{
    const char *const *types = whole ? f->whole_types : f->types;
    return types ? types[j] : NULL;
}

static bool is_type(const mf_family *f, bool whole, const char *type)
{
    for (int j = 0; type && has_type(f, whole, j); j++)
        if (strcmp(type, has_type(f, whole, j)) == 0) return true;
    return false;
}

static int unknown(const char *path, const char *type, const mf_json *config)
{
    char other[512];
    const char *names[NAMES_MAX + 1];
    char list[LIST_MAX] = "";
    size_t at = 0;
    int n = 0;
    for (int i = 0; mf_families[i]; i++)
        for (int whole = 0; whole < 2; whole++)
            for (int j = 0; has_type(mf_families[i], whole, j) && n < NAMES_MAX; j++) {
                names[n++] = has_type(mf_families[i], whole, j);
                if (at < sizeof list)
                    at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                                           n > 1 ? ", " : "", names[n - 1]);
            }
    names[n] = NULL;
    if (!type)
        return mf_fail(MF_EINPUT, "%s: expected a text \"model_type\", one of %s", path, list);
    const char *near = mf_nearest(type, names);
    /* A family that reads all keys and has nearly this name is what was meant. */
    if (mf_family_nearest(config, type, other, sizeof other) &&
        (!near || strcmp(near, other) != 0))
        return mf_fail(
            MF_EINPUT,
            "%s: model_type: expected one of %s, found '%.64s'; the nearest architecture "
            "is %s%s",
            path, list, type, other,
            strchr(other, ',') ? ""
                               : ", which reads all keys: what differs is not in config.json");
    return mf_fail(MF_EINPUT, "%s: model_type: expected one of %s, found '%.64s'%s%s%s", path,
                   list, type, near ? "; nearest: '" : "", near ? near : "", near ? "'" : "");
}

int mf_family_of(const char *path, const mf_json *config, const mf_family **ret)
{
    const char *type = mf_json_string(mf_json_get(config, "model_type"), NULL);
    for (int i = 0; mf_families[i]; i++)
        if (is_type(mf_families[i], false, type) || is_type(mf_families[i], true, type)) {
            *ret = mf_families[i];
            return MF_OK;
        }
    return unknown(path, type, config);
}

/* Refuses keys that change a model of any family, and that the family's class does not have. */
static void judge_any(mf_keys *k)
{
    const char *task = mf_keys_setting(k, "model", "task");
    const bool decoder = task && strcmp(task, "lm") == 0;
    if (mf_json_size(mf_json_get(k->json, "per_layer_config")) > 0)
        mf_keys_refuse(k, "per_layer_config", "expected the same sizes for all blocks");
    if (decoder && mf_json_get(k->json, "is_causal") && !mf_keys_bool(k, "is_causal"))
        mf_keys_refuse(k, "is_causal", "expected true");
}

/* Goes on with the keys of the text model, if the folder has more than it. The object and the
 * keys beside it must agree whether the output head is tied. */
static void choose_text(mf_keys *k, const mf_family *family)
{
    static const char name[] = "text_config", tie[] = "tie_word_embeddings";
    const mf_json *whole = k->json, *text = mf_json_get(whole, name);
    bool own, other;
    if (!is_type(family, true, mf_json_string(mf_json_get(whole, "model_type"), NULL))) return;
    if (mf_json_typeof(text) != MF_JSON_OBJECT)
        mf_keys_refuse(k, name, "expected an object, the keys of the text model");
    if (mf_json_bool(mf_json_get(whole, tie), &other) &&
        (mf_json_bool(mf_json_get(text, tie), &own) ? own != other : other))
        mf_keys_refuse(k, tie, "expected the value of %s.%s", name, tie);
    char *path = mf_arena_alloc(k->arena, strlen(k->path) + sizeof name + 3);
    if (!path && k->rc == MF_OK) k->rc = MF_ENOMEM;
    if (k->rc != MF_OK) return;
    snprintf(path, strlen(k->path) + sizeof name + 3, "%s: %s", k->path, name);
    k->path = path;
    k->json = text;
    k->whole = true;
}

int mf_keys_read(const mf_family *family, const char *path, const mf_json *config,
                 mf_arena *arena, mf_keys *ret)
{
    *ret =
        (mf_keys){.path = path, .json = config, .arena = arena, .defaults = family->defaults};
    mf_quantized_judge(ret);
    choose_text(ret, family);
    family->settings(ret);
    judge_any(ret);
    mf_keys_set(ret, "train.batch=1");
    mf_keys_set(ret, "train.dtype=f32");
    return ret->rc;
}
