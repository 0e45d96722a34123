/* families/family_bert.c: BERT (Devlin et al. 2019) and encoders of its form. A model with a
 * classifier becomes a run of task classify. Any other model becomes the bare encoder, of task
 * mlm: heads of pretraining, and a pooler without a classifier, are skipped. */
#include "pretrained/families/family_rules.h"

#include <string.h>

#define LAYER "encoder.layer.{l}."
#define OURS  "layers.{l}."
#define NORM(theirs, ours)                                                                     \
    {theirs ".weight", ours ".weight", MF_PART_ALL, 0, NULL},                                  \
        {theirs ".bias", ours ".bias", MF_PART_ALL, 0, NULL},                                  \
        {theirs ".gamma", ours ".weight", MF_PART_ALL, 0, NULL},                               \
    {                                                                                          \
        theirs ".beta", ours ".bias", MF_PART_ALL, 0, NULL                                     \
    }
#define LINEAR(theirs, weight, bias, part)                                                     \
    {theirs ".weight", weight, part, 0, NULL},                                                 \
    {                                                                                          \
        theirs ".bias", bias, part, 0, NULL                                                    \
    }
#define SKIP(name, what)                                                                       \
    {                                                                                          \
        name, NULL, MF_PART_ALL, 0, what                                                       \
    }

static void classifier(mf_keys *k)
{
    const mf_json *names = mf_json_get(k->json, "id2label");
    const bool named = mf_json_typeof(names) == MF_JSON_OBJECT;
    const int64_t n = named ? (int64_t)mf_json_size(names) : 2;
    k->classes = mf_keys_int_or(k, "num_labels", n, 1, 65536);
    if (mf_keys_is(k, "problem_type", "regression") ||
        mf_keys_is(k, "problem_type", "multi_label_classification"))
        mf_keys_refuse(k, "problem_type", "expected single_label_classification");
    mf_keys_set(k, "model.task=classify");
    mf_keys_set(k, "model.classes=%lld", (long long)k->classes);
    mf_keys_set(k, "model.pool=first");
    mf_keys_set(k, "model.pooler=yes");
}

static void settings(mf_keys *k)
{
    const mf_json *what = mf_json_at(mf_json_get(k->json, "architectures"), 0);
    const char *architecture = mf_json_string(what, NULL);
    k->vocab = mf_keys_int(k, "vocab_size", 1, 16777216);
    k->dim = mf_keys_int(k, "hidden_size", 1, 65536);
    k->layers = mf_keys_int(k, "num_hidden_layers", 1, 1024);
    k->heads = k->kv_heads = mf_keys_int(k, "num_attention_heads", 1, 1024);
    k->head_dim = k->dim / k->heads;
    k->seq = mf_keys_int(k, "max_position_embeddings", 1, 1048576);
    const char *activation = mf_keys_is(k, "hidden_act", "gelu_new") ? "gelu_tanh" : "gelu";
    mf_keys_expect_text(k, "hidden_act", "gelu|gelu_new");
    mf_keys_expect_text(k, "position_embedding_type", "absolute");
    if (mf_keys_bool(k, "is_decoder")) mf_keys_refuse(k, "is_decoder", "expected false");
    mf_keys_set(k, "model.dim=%lld", (long long)k->dim);
    mf_keys_set(k, "model.layers=%lld", (long long)k->layers);
    mf_keys_set(k, "model.heads=%lld", (long long)k->heads);
    mf_keys_set(k, "model.seq=%lld", (long long)k->seq);
    mf_keys_set(k, "model.vocab=%lld", (long long)k->vocab);
    mf_keys_set(k, "model.norm=layernorm");
    mf_keys_set(k, "model.norm_place=post");
    mf_keys_set(k, "model.norm_eps=%.17g", mf_keys_real(k, "layer_norm_eps"));
    mf_keys_set(k, "model.position=learned");
    mf_keys_set(k, "model.positions=%lld", (long long)k->seq);
    mf_keys_set(k, "model.token_types=%lld",
                (long long)mf_keys_int(k, "type_vocab_size", 1, 4096));
    mf_keys_set(k, "model.embed_norm=yes");
    mf_keys_set(k, "model.attention_bias=yes");
    mf_keys_set(k, "model.attention_out_bias=yes");
    mf_keys_set(k, "model.tie_embeddings=yes");
    mf_keys_set(k, "model.ffn_activation=%s", activation);
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
    mf_keys_set(k, "model.moe_every=0");
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
    if (architecture && strcmp(architecture, "BertForSequenceClassification") == 0)
        classifier(k);
    else
        mf_keys_set(k, "model.task=mlm");
}

static const mf_family_rule rules[] = {
    {"embeddings.word_embeddings.weight", "embed.weight", MF_PART_ALL, 0, NULL},
    {"embeddings.position_embeddings.weight", "position.weight", MF_PART_ALL, 0, NULL},
    {"embeddings.token_type_embeddings.weight", "token_type.weight", MF_PART_ALL, 0, NULL},
    NORM("embeddings.LayerNorm", "embed_norm"),
    LINEAR(LAYER "attention.self.query", OURS "attention.qkv.weight", OURS "attention.qkv.bias",
           MF_PART_Q),
    LINEAR(LAYER "attention.self.key", OURS "attention.qkv.weight", OURS "attention.qkv.bias",
           MF_PART_K),
    LINEAR(LAYER "attention.self.value", OURS "attention.qkv.weight", OURS "attention.qkv.bias",
           MF_PART_V),
    LINEAR(LAYER "attention.output.dense", OURS "attention.out.weight",
           OURS "attention.out.bias", MF_PART_ALL),
    NORM(LAYER "attention.output.LayerNorm", OURS "norm1"),
    LINEAR(LAYER "intermediate.dense", OURS "ffn.w1", OURS "ffn.b1", MF_PART_ALL),
    LINEAR(LAYER "output.dense", OURS "ffn.w2", OURS "ffn.b2", MF_PART_ALL),
    NORM(LAYER "output.LayerNorm", OURS "norm2"),
    LINEAR("pooler.dense", "pooler.weight", "pooler.bias", MF_PART_ALL),
    LINEAR("classifier", "head.weight", "head.bias", MF_PART_ALL),
    SKIP("pooler.dense.weight", "the pooler"),
    SKIP("pooler.dense.bias", "the pooler"),
    SKIP("embeddings.position_ids", "numbers of positions"),
    SKIP("cls.predictions.bias", "a head of pretraining"),
    SKIP("cls.predictions.decoder.weight", "a head of pretraining"),
    SKIP("cls.predictions.decoder.bias", "a head of pretraining"),
    SKIP("cls.predictions.transform.dense.weight", "a head of pretraining"),
    SKIP("cls.predictions.transform.dense.bias", "a head of pretraining"),
    SKIP("cls.predictions.transform.LayerNorm.weight", "a head of pretraining"),
    SKIP("cls.predictions.transform.LayerNorm.bias", "a head of pretraining"),
    SKIP("cls.predictions.transform.LayerNorm.gamma", "a head of pretraining"),
    SKIP("cls.predictions.transform.LayerNorm.beta", "a head of pretraining"),
    SKIP("cls.seq_relationship.weight", "a head of pretraining"),
    SKIP("cls.seq_relationship.bias", "a head of pretraining"),
    MF_RULES_END};

static const mf_key_default defaults_bert[] = {
    {"vocab_size", "30522"},
    {"hidden_size", "768"},
    {"num_hidden_layers", "12"},
    {"num_attention_heads", "12"},
    {"intermediate_size", "3072"},
    {"hidden_act", "gelu"},
    {"max_position_embeddings", "512"},
    {"type_vocab_size", "2"},
    {"layer_norm_eps", "1e-12"},
    {"is_decoder", "false"},
    {"position_embedding_type", "absolute"}, /* older files */
    MF_DEFAULTS_END};

static const char *const types[] = {"bert", NULL};
const mf_family mf_family_bert = {.name = "bert",
                                  .types = types,
                                  .prefix = "bert.",
                                  .rules = rules,
                                  .defaults = defaults_bert,
                                  .settings = settings};
