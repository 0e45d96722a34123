/* families/nearest.c: the message for a model_type that no family has: the nearest family, and
 * the properties that this family lacks. Some types are known by name. For the others, the keys
 * of config.json are compared: the nearest family reads most of them, and it lacks the keys
 * that it does not read. The family's function reports which keys it reads. */
#include "pretrained/families/family_rules.h"

#include <stdio.h>
#include <string.h>

typedef struct known {
    const char *type, *nearest, *lacks;
} known;

#define GEMMA4                                                                                 \
    "heads of another width in blocks of full attention, a dense half beside the experts, "    \
    "norms of values, a soft cap, and embeddings a layer"

static const known types[] = {
    {"phi3", "llama", "qkv_proj and gate_up_proj as one tensor each"},
    {"gemma", "llama", "a factor on embeddings, norms with 1 + weight, and gelu gates"},
    {"gemma2", "llama",
     "a factor on embeddings, norms with 1 + weight behind each half, gelu gates, and soft "
     "caps"},
    {"gemma3_text", "llama",
     "a factor on embeddings, norms with 1 + weight behind each half, gelu gates, and two "
     "bases of "
     "rope"},
    {"gemma4", "afmoe", GEMMA4},
    {"gemma4_text", "afmoe", GEMMA4},
    {"gpt_neox", "gpt2", "rope on a part of a head, and both halves of a block side by side"},
    {"gptj", "gpt2", "rope on a part of a head, and both halves of a block side by side"},
    {"opt", "gpt2", "other names of tensors, relu, and positions that begin at 2"},
    {"roberta", "bert", "positions that begin behind pad_token_id, and its names of tensors"},
    {"xlm-roberta", "bert",
     "positions that begin behind pad_token_id, and its names of tensors"},
    {"distilbert", "bert", "its names of tensors, and a model without token types"},
    {"kimi_k2", "deepseek_v3", "this name; its folders are of that form in most cases"},
    {"phimoe", "mixtral", "layernorm with biases, and sparsemixer's choice of experts"},
};

/* Keys that do not depend on the architecture. */
static bool is_common(const char *key)
{
    static const char *const common[] = {"architectures",
                                         "model_type",
                                         "torch_dtype",
                                         "dtype",
                                         "use_cache",
                                         "auto_map",
                                         "bos_token_id",
                                         "eos_token_id",
                                         "pad_token_id",
                                         "id2label",
                                         "label2id",
                                         "initializer_range",
                                         "rope_scaling",
                                         "rope_theta",
                                         "rope_parameters",
                                         "original_max_position_embeddings",
                                         "is_causal",
                                         "transformers_version",
                                         "attention_dropout",
                                         "hidden_dropout_prob",
                                         "pretraining_tp",
                                         "quantization_config",
                                         "attention_probs_dropout_prob",
                                         "sep_token_id",
                                         "output_hidden_states",
                                         "return_dict",
                                         "chunk_size_feed_forward",
                                         "is_encoder_decoder",
                                         "output_attentions",
                                         "problem_type",
                                         "router_jitter_noise"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strcmp(key, common[i]) == 0) return true;
    return key[0] == '_';
}

/* Lets the family read the configuration only to learn the names of its keys. */
static void ask(const mf_family *f, const mf_json *config, mf_keys_asked *ret)
{
    mf_keys k = {.json = config, .defaults = f->defaults, .asked = ret, .rc = MF_EINPUT};
    ret->n = 0;
    f->settings(&k);
}

static bool reads(const mf_keys_asked *asked, const char *key)
{
    const size_t n = strlen(key);
    for (int i = 0; i < asked->n; i++)
        for (const char *at = asked->name[i]; *at;) {
            const size_t m = strcspn(at, "|");
            if (m == n && memcmp(at, key, n) == 0) return true;
            at += m + (at[m] == '|');
        }
    return is_common(key);
}

static int overlap(const mf_keys_asked *asked, const mf_json *config)
{
    const char *key;
    const mf_json *value;
    int n = 0;
    for (size_t i = 0; mf_json_member(config, i, &key, &value); i++)
        n += !is_common(key) && reads(asked, key);
    return n;
}

bool mf_family_nearest(const mf_json *config, const char *type, char *out, size_t size)
{
    const mf_family *best = NULL;
    mf_keys_asked asked;
    const char *key;
    const mf_json *value;
    /* most: the largest number of common keys so far; a family needs more than 3 */
    int most = 3, n = 0;
    /* least: number of keys that the best family reads. Of families with as many common keys,
     * the family that reads the fewest keys is the nearest. */
    int least = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].type) == 0) {
            snprintf(out, size, "%s, which lacks %s", types[i].nearest, types[i].lacks);
            return true;
        }
    for (int i = 0; mf_families[i]; i++) {
        ask(mf_families[i], config, &asked);
        const int found = overlap(&asked, config);
        if (found < most || (found == most && (!best || asked.n >= least))) continue;
        best = mf_families[i];
        most = found;
        least = asked.n;
    }
    if (!best) return false;
    ask(best, config, &asked);
    size_t at = (size_t)snprintf(out, size, "%s", best->name);
    for (size_t i = 0; mf_json_member(config, i, &key, &value) && n < 8; i++) {
        if (mf_json_typeof(value) == MF_JSON_NULL || reads(&asked, key)) continue;
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%.40s",
                                   n++ > 0 ? ", " : ", which does not read the keys ", key);
    }
    return true;
}
