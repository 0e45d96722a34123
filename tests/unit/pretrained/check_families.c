/* families: which settings a config.json means, and which of its values are refused, with their
 * keys. Only config.json is read here; check_pretrained tests whole models. */
#include "check_main.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "io/json.h"
#include "pretrained/family.h"

#define DECODER                                                                                \
    "\"vocab_size\":32,\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,"  \
    "\"max_position_embeddings\":64"
#define GPT2                                                                                   \
    "\"model_type\":\"gpt2\",\"vocab_size\":32,\"n_embd\":16,\"n_layer\":2,\"n_head\":2,"      \
    "\"n_positions\":64"
#define BERT                                                                                   \
    "\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassification\"],"           \
    "\"intermediate_size\":32," DECODER
#define LLAMA  "\"model_type\":\"llama\",\"intermediate_size\":32," DECODER
#define PHIMOE "\"model_type\":\"phimoe\",\"intermediate_size\":32," DECODER
#define LONGROPE                                                                               \
    "\"rope_type\":\"longrope\",\"short_factor\":[1,2,3,4],\"long_factor\":[2,3,4,5]"
#define MINIMAX                                                                                \
    "\"model_type\":\"minimax_m2\",\"intermediate_size\":32,\"num_key_value_heads\":"          \
    "2," DECODER
#define SMOLLM "\"model_type\":\"smollm3\",\"intermediate_size\":32," DECODER
#define HY                                                                                     \
    "\"model_type\":\"hy_v3\",\"intermediate_size\":32,\"num_key_value_heads\":2," DECODER
#define LFM2                                                                                   \
    "\"model_type\":\"lfm2_moe\",\"num_hidden_layers\":2,"                                     \
    "\"layer_types\":[\"conv\",\"full_attention\"]"
#define DEEPSEEK                                                                               \
    "\"model_type\":\"deepseek_v2\",\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,"            \
    "\"kv_lora_rank\":8,\"v_head_dim\":8,\"moe_intermediate_size\":8,\"n_routed_experts\":4,"  \
    "\"num_experts_per_tok\":2,\"intermediate_size\":32," DECODER

/* Reads the keys of a config.json that consists of the members in `text`. */
static int read_keys(const char *text, mf_arena *arena, mf_json **ret_json, mf_keys *ret)
{
    char whole[65536];
    const mf_family *family;
    snprintf(whole, sizeof whole, "{%s}", text);
    ck_assert_msg(strlen(whole) + 1 < sizeof whole, "a longer text");
    ck_assert_int_eq(mf_json_parse("config.json", whole, strlen(whole), ret_json), MF_OK);
    ck_assert_int_eq(mf_family_of("config.json", *ret_json, &family), MF_OK);
    return mf_keys_read(family, "config.json", *ret_json, arena, ret);
}

static void refused(const char *text, const char *why)
{
    char expected[768];
    mf_arena *arena = mf_arena_new();
    mf_json *json;
    mf_keys k;
    const int rc = read_keys(text, arena, &json, &k);
    snprintf(expected, sizeof expected, "config.json: %s", why);
    ck_assert_msg(rc == MF_EINPUT, "%d, expected: %s", rc, why);
    ck_assert_str_eq(mf_error_message(), expected);
    mf_json_free(json);
    mf_arena_free(arena);
}

/* Parts of messages about quantization_config. */
#define QUANTIZED                                                                              \
    "expected quant_method mxfp4, fp8, fbgemm_fp8, compressed-tensors (float-quantized, or "   \
    "pack-quantized of 4 bits), gptq of 4 or 8 bits in format gptq or gptq_v2, or awq of 4 "   \
    "bits in version gemm, found "
#define GPTQMODEL "GPTQModel writes 4 and 8 bits in format gptq"
#define COMPRESSED                                                                             \
    "AutoModelForCausalLM.from_pretrained('FOLDER', "                                          \
    "quantization_config=CompressedTensorsConfig(dequantize=True)).save_pretrained('NEW') of " \
    "transformers writes plain weights"

START_TEST(values_that_are_refused)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {LLAMA ",\"rope_theta\":0.5", "rope_theta: expected a number from 1 to 1e9, found 0.5"},
        {LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2}",
         "rope_scaling: short_factor: expected a list of numbers above 0"},
        {LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,2],"
               "\"long_factor\":[1,0]}",
         "rope_scaling: long_factor: expected a list of numbers above 0"},
        {LLAMA ",\"rope_scaling\":{" LONGROPE ",\"attention_factor\":0}",
         "rope_scaling: attention_factor: expected a number above 0"},
        {LLAMA ",\"rope_scaling\":{" LONGROPE ",\"original_max_position_embeddings\":0}",
         "rope_scaling: original_max_position_embeddings: expected a number of at least 1"},
        {PHIMOE ",\"rope_scaling\":{" LONGROPE "}",
         "rope_scaling.short_mscale: expected a number"},
        {PHIMOE ",\"rope_parameters\":{" LONGROPE ",\"short_mscale\":0}",
         "rope_parameters.short_mscale: expected a number above 0, found 0"},
        {PHIMOE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
         "rope_scaling: expected rope_type default or longrope"},
        {LLAMA ",\"rope_parameters\":{\"rope_theta\":1e10}",
         "rope_theta: expected a number from 1 to 1e9, found 1e+10"},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":8}",
         "quantization_config: " QUANTIZED
         "awq of 8 bits in version gemm; GPTQModel writes its "
         "weights in format gptq"},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,"
               "\"version\":\"gemv\",\"zero_point\":false}",
         "quantization_config: " QUANTIZED "awq of 4 bits in version gemv without zero points; "
         "GPTQModel writes its weights in format gptq"},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}",
         "quantization_config: " QUANTIZED "gptq of 3 bits in format gptq; " GPTQMODEL},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
               "\"checkpoint_format\":\"marlin\"}",
         "quantization_config: " QUANTIZED "gptq of 4 bits in format marlin; " GPTQMODEL},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
               "\"format\":\"marlin\",\"group_size\":0.5}",
         "quantization_config: " QUANTIZED "gptq of 4 bits in format marlin; " GPTQMODEL},
        {LLAMA ",\"quantization_config\":{\"bits\":4}",
         "quantization_config: " QUANTIZED "no quant_method; take the folder that it was made "
         "of; 'moefw quantize' makes 4 bits of "
         "its run"},
        {LLAMA
         ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}",
         "quantization_config: " QUANTIZED
         "fp8 with another weight_block_size than two numbers from 1 on; "
         "AutoModelForCausalLM.from_pretrained('FOLDER', "
         "quantization_config=FineGrainedFP8Config(dequantize=True)).save_pretrained('NEW') of "
         "transformers writes plain weights"},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}",
         "quantization_config: " QUANTIZED
         "bitsandbytes; AutoModelForCausalLM.from_pretrained('FOLDER').dequantize()"
         ".save_pretrained('NEW') of transformers writes plain weights"},
        {LLAMA ",\"compression_config\":{\"quant_method\":\"compressed-tensors\"}",
         "compression_config: " QUANTIZED
         "compressed-tensors without config_groups; " COMPRESSED},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
               "\"int-quantized\",\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":8,"
               "\"type\":\"int\",\"strategy\":\"channel\"}}}}",
         "quantization_config: " QUANTIZED
         "compressed-tensors int-quantized of 8 bits, type int, "
         "strategy channel, actorder static; " COMPRESSED},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
               "\"pack-quantized\",\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":4,"
               "\"type\":\"int\",\"strategy\":\"group\",\"actorder\":\"group\"}}}}",
         "quantization_config: " QUANTIZED
         "compressed-tensors pack-quantized of 4 bits, type int, "
         "strategy group, actorder group; " COMPRESSED},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
               "\"dense\",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}}",
         "quantization_config: " QUANTIZED
         "compressed-tensors with sparsity sparse-24-bitmask; " COMPRESSED},
        {LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
               "\"pack-quantized\",\"transform_config\":{\"config_groups\":{\"a\":{}}}}",
         "quantization_config: " QUANTIZED "compressed-tensors with transforms; " COMPRESSED},
        {GPT2 ",\"add_cross_attention\":true", "add_cross_attention: expected false"},
        {BERT ",\"problem_type\":\"regression\"",
         "problem_type: expected single_label_classification"},
        {BERT ",\"problem_type\":\"multi_label_classification\"",
         "problem_type: expected single_label_classification"},
        {BERT ",\"is_decoder\":true", "is_decoder: expected false"},
        {DEEPSEEK ",\"moe_layer_freq\":2", "moe_layer_freq: expected 1"},
        {MINIMAX ",\"output_router_logits\":true",
         "output_router_logits: expected false: this auxiliary loss counts the choice of a "
         "softmax, which is not the model's"},
        {MINIMAX ",\"head_dim\":8,\"rotary_dim\":3",
         "partial_rotary_factor: expected a share of the 8 values of a head that is a multiple "
         "of two, found 0.375"},
        {MINIMAX ",\"rope_parameters\":{\"partial_rotary_factor\":1.5}",
         "partial_rotary_factor: expected a share of the 128 values of a head that is a "
         "multiple of two, found 1.5"},
        {SMOLLM ",\"no_rope_layers\":[1]",
         "no_rope_layers: expected a number for each of 2 blocks"},
        {SMOLLM ",\"use_sliding_window\":true,\"sliding_window\":8",
         "use_sliding_window: expected false"},
        {HY ",\"mlp_bias\":true", "mlp_bias: expected false"},
        {HY ",\"mlp_layer_types\":[\"dense\",\"other\"]",
         "mlp_layer_types: expected dense or sparse for each of 2 blocks"},
        {"\"model_type\":\"exaone_moe\",\"sliding_window_pattern\":\"LLG\"",
         "sliding_window_pattern: expected a whole number from 1 to 1024"},
        {"\"model_type\":\"dbrx\",\"attn_config\":3",
         "attn_config: expected null or an object"},
        {"\"model_type\":\"dbrx\",\"ffn_config\":{\"ffn_act_fn\":{\"name\":\"gelu\"}}",
         "ffn_config.ffn_act_fn.name: expected silu|swish, found 'gelu'"},
        {"\"model_type\":\"dbrx\",\"ffn_config\":{\"moe_normalize_expert_weights\":0.5}",
         "ffn_config.moe_normalize_expert_weights: expected null, or a number from 1 to 100, "
         "found 0.5"},
        {"\"model_type\":\"dbrx\",\"attn_config\":{\"clip_qkv\":-1}",
         "attn_config.clip_qkv: expected null, or a number above 0 up to 1e6, found -1"},
        {"\"model_type\":\"llama4\"",
         "text_config: expected an object, the keys of the text model"},
        {"\"model_type\":\"llama4\",\"tie_word_embeddings\":true,\"text_config\":{}",
         "tie_word_embeddings: expected the value of text_config.tie_word_embeddings"},
        {"\"model_type\":\"llama4\",\"text_config\":{\"layer_types\":[\"other\"]}",
         "text_config: layer_types: expected chunked_attention or full_attention for each of "
         "48 "
         "blocks"},
        {"\"model_type\":\"olmo3\",\"rope_parameters\":{\"rope_theta\":5}",
         "rope_parameters: expected only full_attention and sliding_attention, found "
         "rope_theta"},
        {"\"model_type\":\"olmo3\",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":"
         "\"linear\",\"factor\":2}}",
         "rope_parameters: sliding_attention: expected rope_type default, found 'linear'"},
        {"\"model_type\":\"olmo3\",\"rope_parameters\":{\"full_attention\":{}},"
         "\"rope_scaling\":{\"type\":\"linear\"}",
         "rope_scaling: expected null, because rope_parameters has full_attention"},
        {"\"model_type\":\"qwen3_next\",\"attention_bias\":true",
         "attention_bias: expected false: gates of heads would have biases, too"},
        {"\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"layer_types\":[\"conv\"]}",
         "text_config: layer_types: expected linear_attention or full_attention for each of 40 "
         "blocks"},
        {"\"model_type\":\"lfm2_moe\",\"layer_types\":[\"conv\"]",
         "layer_types: expected conv or full_attention for each of 32 blocks"},
        {LFM2 ",\"use_expert_bias\":false",
         "use_expert_bias: expected true: the tensor expert_bias is the state of the router"},
        {LFM2 ",\"conv_L_cache\":1", "conv_L_cache: expected a whole number from 2 to 64"},
        {DEEPSEEK ",\"num_key_value_heads\":1",
         "num_key_value_heads: expected num_attention_heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, cases[i].why);
}
END_TEST

/* The list of blocks with a window can hold 160 characters. 300 blocks with a window in every
 * second block need more. */
START_TEST(too_many_blocks_with_a_window)
{
    char text[16384] = "\"model_type\":\"gpt_oss\",\"sliding_window\":8,"
                       "\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                       "\"intermediate_size\":32,\"vocab_size\":32,\"hidden_size\":16,"
                       "\"num_hidden_layers\":300,\"num_attention_heads\":2,"
                       "\"max_position_embeddings\":64,\"layer_types\":[";
    size_t at = strlen(text);
    for (int i = 0; i < 300; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%s_attention\"",
                               i > 0 ? "," : "", i % 2 ? "full" : "sliding");
    snprintf(text + at, sizeof text - at, "]");
    refused(text, "num_hidden_layers: expected a shorter list of blocks");
}
END_TEST

static void means(const char *text, const char *key, const char *expected)
{
    mf_arena *arena = mf_arena_new();
    mf_json *json;
    mf_keys k;
    ck_assert_msg(read_keys(text, arena, &json, &k) == MF_OK, "%s", mf_error_message());
    const char *found = mf_keys_setting(&k, "model", key);
    ck_assert_msg(expected ? found && strcmp(found, expected) == 0 : !found,
                  "%s: %s, expected %s", key, found ? found : "nothing",
                  expected ? expected : "nothing");
    mf_json_free(json);
    mf_arena_free(arena);
}

/* GPT-2 without scale_attn_weights does not divide scores by the root of the head's size. */
START_TEST(scales_of_attention)
{
    means(GPT2, "attention_scale", NULL);
    means(GPT2, "attention_scale_by_layer", NULL);
    means(GPT2 ",\"scale_attn_weights\":false", "attention_scale", "1");
    means(GPT2 ",\"scale_attn_by_inverse_layer_idx\":true", "attention_scale_by_layer", "yes");
}
END_TEST

/* LongRoPE: the factor that its formula gives unless it is there, the family's own in its
 * place, and the length up to which the short list is meant. */
START_TEST(lists_of_rope)
{
    means(LLAMA ",\"rope_scaling\":{" LONGROPE "}", "rope_scaling", "given");
    means(LLAMA ",\"rope_scaling\":{" LONGROPE "}", "rope_magnitude", "1");
    means(LLAMA ",\"rope_scaling\":{" LONGROPE "}", "seq", "64");
    /* sqrt(1 + ln 4 / ln 16) */
    means(LLAMA ",\"original_max_position_embeddings\":16,\"rope_scaling\":{" LONGROPE "}",
          "rope_magnitude", "1.2247448713915889");
    means(LLAMA ",\"rope_scaling\":{" LONGROPE ",\"factor\":4,"
                "\"original_max_position_embeddings\":16}",
          "seq", "16");
    means(LLAMA ",\"rope_scaling\":{" LONGROPE ",\"factor\":1,"
                "\"original_max_position_embeddings\":16}",
          "rope_magnitude", "1");
    means(LLAMA ",\"rope_scaling\":{" LONGROPE ",\"attention_factor\":1.5}", "rope_magnitude",
          "1.5");
    means(PHIMOE ",\"rope_scaling\":{" LONGROPE ",\"attention_factor\":1.5,"
                 "\"short_mscale\":1.25}",
          "rope_magnitude", "1.25");
    means(PHIMOE ",\"original_max_position_embeddings\":32,\"rope_parameters\":{" LONGROPE
                 ",\"short_mscale\":1.25}",
          "rope_original", "32");
}
END_TEST

/* The message about an unknown type names the nearest family, and the keys that this family
 * does not read. */
START_TEST(types_of_no_family)
{
    static const struct {
        const char *text, *end;
    } table[] = {
        {"{\"model_type\":\"gemma2\"}",
         "found 'gemma2'; the nearest architecture is llama, which lacks a factor on "
         "embeddings, "
         "norms with 1 + weight behind each half, gelu gates, and soft caps"},
        {"{\"model_type\":\"gemma4\"}",
         "found 'gemma4'; the nearest architecture is afmoe, which lacks heads of another "
         "width in blocks of full attention, a dense half beside the experts, norms of values, "
         "a soft cap, and embeddings a layer"},
        {"{\"model_type\":\"phi3\"}", "found 'phi3'; the nearest architecture is llama, which "
                                      "lacks qkv_proj and gate_up_proj "
                                      "as one tensor each"},
        {"{\"model_type\":\"mixtrall\"}", "found 'mixtrall'; nearest: 'mixtral'"},
        {"{\"model_type\":\"own\",\"intermediate_size\":32,\"rms_norm_eps\":1,\"mlp_bias\":"
         "true,"
         "\"tie_word_embeddings\":true,\"soft_cap\":30,\"none\":null," DECODER "}",
         "found 'own'; the nearest architecture is llama, which does not read the keys "
         "soft_cap"},
        {"{\"model_type\":\"own\",\"intermediate_size\":32,\"moe_intermediate_size\":8,"
         "\"head_dim\":8,\"num_local_experts\":4,\"num_experts_per_tok\":2,"
         "\"decoder_sparse_step\":1,\"norm_topk_prob\":true,\"mlp_only_layers\":[],"
         "\"shared\":1," DECODER "}",
         "found 'own'; the nearest architecture is qwen3_moe, which does not read the keys "
         "shared"},
        {"{\"model_type\":\"own\",\"intermediate_size\":32,\"mlp_bias\":false," DECODER "}",
         "found 'own'; the nearest architecture is llama, which reads all keys: what differs "
         "is not in config.json"},
        {"{\"model_type\":\"own\"}", "found 'own'"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const mf_family *family;
        mf_json *json;
        ck_assert_int_eq(
            mf_json_parse("config.json", table[i].text, strlen(table[i].text), &json), MF_OK);
        ck_assert_int_eq(mf_family_of("config.json", json, &family), MF_EINPUT);
        const char *found = mf_error_message(), *end = strstr(found, "found '");
        ck_assert_ptr_nonnull(end);
        ck_assert_str_eq(end, table[i].end);
        mf_json_free(json);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("families");
    TCase *t = tcase_create("config");
    tcase_add_test(t, values_that_are_refused);
    tcase_add_test(t, lists_of_rope);
    tcase_add_test(t, too_many_blocks_with_a_window);
    tcase_add_test(t, scales_of_attention);
    tcase_add_test(t, types_of_no_family);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
