/* families/family_mixtral.c: Mixtral (Jiang et al. 2024). Experts w1 (gate), w3 (up) and w2
 * (down) are tensors of their own; newer files may hold all experts of a layer in two. */
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

static const char *const types[] = {"mixtral", NULL};
const mf_family mf_family_mixtral = {.name = "mixtral",
                                     .types = types,
                                     .file_part = ".block_sparse_moe.",
                                     .module_part = ".mlp.",
                                     .rules = rules,
                                     .defaults = mf_defaults_mixtral,
                                     .settings = settings};
