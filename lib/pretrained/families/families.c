/* families/families.c: the list of families, the choice of a family by model_type, and the
 * reading of its config.json. Every name of a family in messages comes from this list. */
#include "pretrained/family.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "pretrained/quantized.h"

/* One line for each family, in the order of messages. */
#define FAMILIES(X)                                                                            \
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
    X(llama)                                                                                   \
    X(minimax_m2)                                                                              \
    X(mistral)                                                                                 \
    X(mistral4)                                                                                \
    X(mixtral)                                                                                 \
    X(olmo2)                                                                                   \
    X(olmoe)                                                                                   \
    X(phimoe)                                                                                  \
    X(qwen2)                                                                                   \
    X(qwen2_moe)                                                                               \
    X(qwen3)                                                                                   \
    X(qwen3_moe)                                                                               \
    X(sarvam_mla)                                                                              \
    X(sarvam_moe)                                                                              \
    X(seed_oss)                                                                                \
    X(smollm3)                                                                                 \
    X(solar_open)
#define DECLARE(id) extern const mf_family mf_family_##id;
#define LIST(id)    &mf_family_##id,
FAMILIES(DECLARE)
const mf_family *const mf_families[] = {FAMILIES(LIST) NULL};

enum { NAMES_MAX = 64, LIST_MAX = 768 };

static int unknown(const char *path, const char *type, const mf_json *config)
{
    char other[512];
    const char *names[NAMES_MAX + 1];
    char list[LIST_MAX] = "";
    size_t at = 0;
    int n = 0;
    for (int i = 0; mf_families[i]; i++)
        for (int j = 0; mf_families[i]->types[j] && n < NAMES_MAX; j++) {
            names[n++] = mf_families[i]->types[j];
            if (at < sizeof list)
                at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", n > 1 ? ", " : "",
                                       names[n - 1]);
        }
    names[n] = NULL;
    if (!type)
        return mf_fail(MF_EINPUT, "%s: expected a text \"model_type\", one of %s", path, list);
    const char *near = mf_nearest(type, names);
    if (mf_family_nearest(config, type, other, sizeof other) && (!near || strchr(other, ',')))
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
    for (int i = 0; type && mf_families[i]; i++)
        for (int j = 0; mf_families[i]->types[j]; j++)
            if (strcmp(type, mf_families[i]->types[j]) == 0) {
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

int mf_keys_read(const mf_family *family, const char *path, const mf_json *config,
                 mf_arena *arena, mf_keys *ret)
{
    *ret =
        (mf_keys){.path = path, .json = config, .arena = arena, .defaults = family->defaults};
    mf_quantized_judge(ret);
    family->settings(ret);
    judge_any(ret);
    mf_keys_set(ret, "train.batch=1");
    mf_keys_set(ret, "train.dtype=f32");
    return ret->rc;
}
