/* families/family_llama.c: dense decoders of the Llama form (Touvron et al. 2023), with
 * rmsnorm, rope in the form of rotated halves of a head, and SwiGLU in all blocks. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    if (mf_keys_bool(k, "mlp_bias")) mf_keys_refuse(k, "mlp_bias", "expected false");
    mf_keys_set(k, "model.moe_every=0");
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
}

static const mf_family_rule rules[] = {MF_RULES_DECODER, MF_RULES_DENSE, MF_RULES_END};

static const char *const types[] = {"llama", NULL};
const mf_family mf_family_llama = {.name = "llama",
                                   .types = types,
                                   .rules = rules,
                                   .defaults = mf_defaults_llama,
                                   .settings = settings};
