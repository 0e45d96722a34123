/* families/family_mixtral.c: Mixtral (Jiang et al. 2024). Experts w1 (gate), w3 (up) and w2
 * (down) are separate tensors. Newer files may store all experts of a layer in two tensors. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_experts(k, "num_experts|num_local_experts", "intermediate_size", true);
    mf_keys_window(k, mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX), false, 1, 0,
                   k->layers);
}

static const mf_family_rule rules[] = {MF_RULES_DECODER, MF_RULES_SPARSE_MOE, MF_RULES_ROUTER,
                                       MF_RULES_EXPERTS, MF_RULES_END};

static const mf_key_default defaults_mixtral[] = {{"vocab_size", "32000"},
                                                  {"hidden_size", "4096"},
                                                  {"intermediate_size", "14336"},
                                                  {"num_hidden_layers", "32"},
                                                  {"num_attention_heads", "32"},
                                                  {"num_key_value_heads", "8"},
                                                  {"head_dim", "null"},
                                                  {"hidden_act", "silu"},
                                                  {"max_position_embeddings", "131072"},
                                                  {"rms_norm_eps", "1e-05"},
                                                  {"tie_word_embeddings", "false"},
                                                  {"sliding_window", "null"},
                                                  {"num_experts_per_tok", "2"},
                                                  {"num_local_experts", "8"},
                                                  {"output_router_logits", "false"},
                                                  {"router_aux_loss_coef", "0.001"},
                                                  {"rope_theta", "1000000.0"},
                                                  MF_DEFAULTS_END};

static const char *const types[] = {"mixtral", NULL};
const mf_family mf_family_mixtral = {.name = "mixtral",
                                     .types = types,
                                     .file_part = ".block_sparse_moe.",
                                     .module_part = ".mlp.",
                                     .rules = rules,
                                     .defaults = defaults_mixtral,
                                     .settings = settings};
