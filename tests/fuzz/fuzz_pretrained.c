/* fuzz_pretrained: any text as config.json or as index of a model folder is read, or refused
 * with its name. Accepted names of shards are names of files, and the numbers of a family's
 * settings are within their bounds. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "pretrained/family.h"
#include "pretrained/folder.h"

#include <string.h>

const char *const fuzz_words[] = {"{",
                                  "}",
                                  "\"weight_map\":{",
                                  "\"model.norm.weight\":",
                                  "\"model-00001-of-00002.safetensors\"",
                                  "\"../model.safetensors\"",
                                  "\"model_type\":",
                                  "\"deepseek_v3\"",
                                  "\"gpt_oss\"",
                                  "\"bert\"",
                                  "\"architectures\":[\"BertForSequenceClassification\"]",
                                  "\"gpt2\"",
                                  "\"glm4_moe\"",
                                  "\"hy_v3\"",
                                  "\"llama\"",
                                  "\"minimax_m2\"",
                                  "\"sarvam_mla\"",
                                  "\"mlp_layer_types\":[\"dense\",\"sparse\"]",
                                  "\"partial_rotary_factor\":0.5",
                                  "\"mixtral\"",
                                  "\"olmoe\"",
                                  "\"qwen2_moe\"",
                                  "\"qwen3_moe\"",
                                  "\"hidden_size\":64",
                                  "\"vocab_size\":512",
                                  "\"num_hidden_layers\":2",
                                  "\"num_attention_heads\":4",
                                  "\"num_experts\":8",
                                  "\"num_experts_per_tok\":2",
                                  "\"max_position_embeddings\":128",
                                  "\"moe_intermediate_size\":32",
                                  "\"mlp_only_layers\":[1]",
                                  "\"rope_parameters\":{\"rope_type\":\"default\"}",
                                  "\"rope_theta\":1e6",
                                  "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}",
                                  "\"layer_types\":[\"full_attention\"]",
                                  "null",
                                  "true",
                                  ":-1",
                                  ":9223372036854775807",
                                  ":1e308",
                                  ",",
                                  NULL};

static void try_index(const char *text, size_t size)
{
    mf_json *doc = NULL;
    const mf_json *map;
    const char **names;
    int32_t n = 0;
    mf_arena *arena = mf_arena_new();
    FUZZ_REQUIRE(arena);
    int rc = mf_folder_read_index("index", text, size, arena, &doc, &map, &names, &n);
    if (rc == MF_OK) {
        FUZZ_REQUIRE(n >= 1 && (size_t)n <= mf_json_size(map));
        for (int32_t i = 0; i < n; i++)
            FUZZ_REQUIRE(!strchr(names[i], '/') && !strstr(names[i], "..") && names[i][0]);
    } else {
        FUZZ_REQUIRE(rc == MF_EINPUT && strstr(mf_error_message(), "index"));
    }
    mf_json_free(doc);
    mf_arena_free(arena);
}

static void try_config(const char *text, size_t size)
{
    mf_json *doc = NULL;
    const mf_family *family;
    mf_keys k;
    if (mf_json_parse("config", text, size, &doc) != MF_OK) return;
    int rc = mf_family_of("config", doc, &family);
    /* Every family reads every document, so a mutation need not contain the name of
     * a family. */
    for (int i = 0; mf_families[i]; i++) {
        mf_arena *arena = mf_arena_new();
        FUZZ_REQUIRE(arena);
        rc = mf_keys_read(mf_families[i], "config", doc, arena, &k);
        FUZZ_REQUIRE(rc == MF_OK || (rc == MF_EINPUT && strstr(mf_error_message(), "config")));
        if (rc == MF_OK)
            FUZZ_REQUIRE(k.layers >= 1 && k.layers <= 1024 && k.heads >= 1 && k.dim >= 1 &&
                         k.vocab >= 1 && k.n > 0 && k.experts >= 0 && k.experts <= 4096);
        mf_arena_free(arena);
    }
    mf_json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_index((const char *)data, size);
    try_config((const char *)data, size);
    return 0;
}
