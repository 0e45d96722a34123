/* defaults: for keys that are missing in a config.json, are null, or occur twice, the values of
 * transformers are used. tests/golden/pretrained/defaults contains these values, and logits of
 * transformers for some config.json. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/family.h"
#include "pretrained/import.h"
#include "pretrained/tokens.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/load.h"

enum { PATH = 1024 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

static const char *golden(const char *name, const char *ending)
{
    static char path[PATH + 64];
    const char *source = getenv("srcdir");
    snprintf(path, sizeof path, "%.900s/tests/golden/pretrained/%.80s%s", source ? source : ".",
             name, ending);
    return path;
}

static mf_json *read_json(const char *path)
{
    char *text;
    size_t n;
    mf_json *v = NULL;
    must(mf_read_file(path, 0, &text, &n));
    must(mf_json_parse(path, text, n, &v));
    mf_free(text);
    return v;
}

/* ---- the table ---- */

/* Whether a value of the golden file equals the text in the table. Numbers are compared
 * as numbers. */
static bool same(const mf_json *v, const char *text)
{
    double number;
    bool truth;
    const char *string = mf_json_string(v, NULL);
    if (string) return strcmp(string, text) == 0;
    if (mf_json_bool(v, &truth)) return strcmp(text, truth ? "true" : "false") == 0;
    if (mf_json_real(v, &number)) return number == strtod(text, NULL);
    return strcmp(text, "null") == 0;
}

/* Whether only the program that was published with the model reads the key. */
static bool is_older(const char *family, const char *key)
{
    static const char *const older[][2] = {{"bert", "position_embedding_type"},
                                           {"deepseek_v2", "scoring_func"},
                                           {"deepseek_v3", "scoring_func"},
                                           {"deepseek_v3", "topk_method"}};
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (strcmp(family, older[i][0]) == 0 && strcmp(key, older[i][1]) == 0) return true;
    return false;
}

START_TEST(rows)
{
    const mf_family *f = mf_families[_i];
    mf_json *doc = read_json(golden("defaults/defaults", ".json"));
    ck_assert_str_eq(mf_json_string(mf_json_get(doc, "transformers"), NULL), "5.24.0");
    const mf_json *theirs = mf_json_get(mf_json_get(doc, "families"), f->name);
    ck_assert_ptr_nonnull(theirs);
    for (const mf_key_default *d = f->defaults; d->key; d++) {
        const mf_json *v = mf_json_get(theirs, d->key);
        if (is_older(f->name, d->key)) continue;
        ck_assert_msg(v != NULL || strcmp(d->value, "null") == 0, "%s: %s: not in transformers",
                      f->name, d->key);
        ck_assert_msg(same(v, d->value), "%s: %s: %s differs", f->name, d->key, d->value);
    }
    mf_json_free(doc);
}
END_TEST

static int n_families(void)
{
    int n = 0;
    while (mf_families[n])
        n++;
    return n;
}

/* ---- values without logits ---- */

static int read_keys(const char *text, mf_arena *arena, mf_json **ret_json, mf_keys *ret)
{
    char whole[2048];
    const mf_family *family;
    snprintf(whole, sizeof whole, "{%s}", text);
    must(mf_json_parse("config.json", whole, strlen(whole), ret_json));
    must(mf_family_of("config.json", *ret_json, &family));
    return mf_keys_read(family, "config.json", *ret_json, arena, ret);
}

/* A config.json with only a model_type means the configuration class without arguments. */
START_TEST(no_keys)
{
    static const struct {
        const char *type;
        int64_t vocab, dim, layers, heads, kv_heads, head_dim, seq, experts;
        const char *option, *value;
    } table[] = {
        {"bert", 30522, 768, 12, 12, 12, 64, 512, 0, "model.ffn_hidden", "3072"},
        {"gpt2", 50257, 768, 12, 12, 12, 64, 1024, 0, "model.ffn_hidden", "3072"},
        {"llama", 32000, 4096, 32, 32, 32, 128, 2048, 0, "model.rope_theta", "10000"},
        {"mixtral", 32000, 4096, 32, 32, 8, 128, 131072, 8, "model.rope_theta", "1000000"},
        {"olmoe", 50304, 2048, 16, 16, 16, 128, 4096, 64, "moe.top_k", "8"},
        {"qwen2_moe", 151936, 2048, 24, 16, 16, 128, 32768, 60, "moe.shared_hidden", "5632"},
        {"qwen3_moe", 151936, 2048, 24, 32, 4, 64, 32768, 128, "expert.hidden", "768"},
        {"gpt_oss", 201088, 2880, 36, 64, 8, 64, 131072, 128, "model.rope_factor", "32"},
        {"gpt_oss", 201088, 2880, 36, 64, 8, 64, 131072, 128, "model.rope_original", "4096"},
        {"gpt_oss", 201088, 2880, 36, 64, 8, 64, 131072, 128, "model.rope_truncate", "no"},
        {"gpt_oss", 201088, 2880, 36, 64, 8, 64, 131072, 128, "model.window", "128"},
        {"afmoe", 200192, 2048, 32, 16, 16, 128, 16384, 64, "model.rope_layers",
         "0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30"},
        {"dbrx", 32000, 2048, 24, 16, 1, 128, 2048, 4, "moe.renormalize", "yes"},
        {"llama4_text", 202048, 5120, 48, 40, 8, 128, 131072, 16, "model.qk_norm_layers",
         "0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30,32-34,36-38,40-42,44-46"},
        {"llama4_text", 202048, 5120, 48, 40, 8, 128, 131072, 16, "model.temperature_step",
         "8192"},
        {"deepseek_v3", 129280, 7168, 61, 128, 128, 192, 4096, 256, "model.dense_layers",
         "0-2"},
        {"deepseek_v3", 129280, 7168, 61, 128, 128, 192, 4096, 256, "router.groups", "8"},
        {"deepseek_v3", 129280, 7168, 61, 128, 128, 192, 4096, 256, "model.latent_q", "1536"},
        {"deepseek_v32", 129280, 7168, 61, 128, 128, 192, 2048, 256, "model.dense_layers",
         "0-2"},
        {"exaone_moe", 102400, 4096, 32, 32, 32, 128, 2048, 64, "model.rope_layers",
         "0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30"},
        {"flex_olmo", 100352, 4096, 32, 32, 32, 128, 4096, 7, "moe.top_k", "5"},
        {"glm4_moe_lite", 154880, 2048, 47, 20, 20, 256, 202752, 64, "model.dense_layers", "0"},
        {"granitemoe", 32000, 4096, 32, 32, 32, 128, 2048, 8, "model.residual_scale", "1"},
        {"granitemoeshared", 32000, 4096, 32, 32, 32, 128, 2048, 8, "moe.top_k", "2"},
        {"hunyuan_v1_moe", 290943, 4096, 32, 32, 32, 128, 2048, 1, "moe.top_k", "1"},
        {"hy_v3", 120832, 4096, 80, 64, 8, 128, 131072, 192, "model.dense_layers", "0"},
        {"minimax_m2", 200064, 3072, 62, 48, 8, 128, 196608, 256, "model.rope_theta",
         "5000000"},
        {"mistral", 32000, 4096, 32, 32, 8, 128, 131072, 0, "model.window", "4096"},
        {"olmo2", 50304, 4096, 32, 32, 32, 128, 2048, 0, "model.norm_place", "output"},
        {"olmo3", 50304, 4096, 32, 32, 32, 128, 2048, 0, "model.rope_plain_layers",
         "0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30"},
        {"olmo3", 50304, 4096, 32, 32, 32, 128, 2048, 0, "model.rope_plain_theta", "500000"},
        {"qwen2", 151936, 4096, 32, 32, 32, 128, 32768, 0, "model.attention_bias", "yes"},
        {"qwen3", 151936, 4096, 32, 32, 32, 128, 32768, 0, "model.qk_norm", "head"},
        {"qwen3_next", 151936, 2048, 48, 16, 2, 256, 32768, 512, "model.delta_layers",
         "0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30,32-34,36-38,40-42,44-46"},
        {"qwen3_5_moe_text", 248320, 2048, 40, 16, 2, 256, 32768, 256, "model.rope_dims", "64"},
        {"sarvam_mla", 262144, 4096, 32, 64, 64, 192, 4096, 128, "router.scale", "2.5"},
        {"sarvam_moe", 262144, 4096, 19, 64, 4, 64, 131072, 128, "model.rope_theta", "8000000"},
        {"seed_oss", 155136, 4096, 64, 80, 8, 128, 524288, 0, "model.attention_bias", "yes"},
        {"smollm3", 128256, 2048, 36, 16, 4, 128, 32768, 0, "model.rope_layers",
         "0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30,32-34"},
        {"solar_open", 196608, 4096, 48, 64, 8, 128, 131072, 128, "router.renormalize", "yes"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[64], section[16];
        mf_arena *arena = mf_arena_new();
        mf_json *json;
        mf_keys k;
        snprintf(text, sizeof text, "\"model_type\":\"%s\"", table[i].type);
        must(read_keys(text, arena, &json, &k));
        ck_assert_int_eq(k.vocab, table[i].vocab);
        ck_assert_int_eq(k.dim, table[i].dim);
        ck_assert_int_eq(k.layers, table[i].layers);
        ck_assert_int_eq(k.heads, table[i].heads);
        ck_assert_int_eq(k.kv_heads, table[i].kv_heads);
        ck_assert_int_eq(k.head_dim, table[i].head_dim);
        ck_assert_int_eq(k.seq, table[i].seq);
        ck_assert_int_eq(k.experts, table[i].experts);
        const char *dot = strchr(table[i].option, '.');
        snprintf(section, sizeof section, "%.*s", (int)(dot - table[i].option),
                 table[i].option);
        const char *found = mf_keys_setting(&k, section, dot + 1);
        ck_assert_msg(found != NULL, "%s: no %s", table[i].type, table[i].option);
        ck_assert_str_eq(found, table[i].value);
        mf_json_free(json);
        mf_arena_free(arena);
    }
}
END_TEST

/* What a text of keys means: the value of one of our options, or the message of a refusal. */
START_TEST(nulls_and_spellings)
{
    static const struct {
        const char *text, *section, *key, *value;
    } table[] = {
        {"\"model_type\":\"olmoe\",\"output_router_logits\":true", "regularizer.balance",
         "weight", "0.01"},
        {"\"model_type\":\"mixtral\",\"output_router_logits\":true", "regularizer.balance",
         "weight", "0.001"},
        {"\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts\":6", "moe",
         "experts", "6"},
        {"\"model_type\":\"olmoe\",\"num_local_experts\":16,\"num_experts\":32", "moe",
         "experts", "16"},
        {"\"model_type\":\"qwen3_moe\",\"num_local_experts\":16,\"num_experts\":32", "moe",
         "experts", "16"},
        {"\"model_type\":\"qwen2_moe\",\"num_local_experts\":16,\"num_experts\":32", "moe",
         "experts", "32"},
        {"\"model_type\":\"deepseek_v3\",\"num_local_experts\":16,\"n_routed_experts\":32",
         "moe", "experts", "16"},
        {"\"model_type\":\"gpt2\",\"n_embd\":8,\"hidden_size\":24", "model", "dim", "24"},
        {"\"model_type\":\"llama\",\"num_key_value_heads\":null", "model", "kv_heads", "32"},
        {"\"model_type\":\"llama\",\"head_dim\":null", "model", "head_dim", "128"},
        {"\"model_type\":\"deepseek_v3\",\"q_lora_rank\":null", "model", "latent_q", "0"},
        {"\"model_type\":\"deepseek_v3\",\"rope_interleave\":null", "model", "rope_half",
         "yes"},
        {"\"model_type\":\"gpt_oss\",\"rope_theta\":500", "model", "rope_factor", "32"},
        {"\"model_type\":\"gpt_oss\",\"rope_theta\":500", "model", "rope_theta", "500"},
        {"\"model_type\":\"gpt_oss\",\"rope_scaling\":{}", "model", "rope_factor", "32"},
        {"\"model_type\":\"gpt_oss\",\"rope_parameters\":{}", "model", "rope_scaling", NULL},
        {"\"model_type\":\"llama\",\"rope_theta\":7,\"rope_parameters\":{\"rope_theta\":9}",
         "model", "rope_theta", "9"},
        {"\"model_type\":\"llama\",\"original_max_position_embeddings\":16,\"rope_scaling\":"
         "{\"type\":\"yarn\",\"factor\":2}",
         "model", "rope_original", "16"},
        {"\"model_type\":\"llama\",\"original_max_position_embeddings\":16,\"rope_parameters\":"
         "{\"rope_type\":\"yarn\",\"factor\":2,\"original_max_position_embeddings\":32}",
         "model", "rope_original", "16"},
        {"\"model_type\":\"llama\",\"original_max_position_embeddings\":1024,\"rope_scaling\":"
         "{\"type\":\"yarn\",\"factor\":null}",
         "model", "rope_factor", "2"},
        {"\"model_type\":\"gpt_oss\",\"original_max_position_embeddings\":64", "model",
         "rope_original", "64"},
        {"\"model_type\":\"llama\",\"original_max_position_embeddings\":null,\"rope_scaling\":"
         "{\"type\":\"linear\",\"factor\":2}",
         "model", "rope_factor", "2"},
        {"\"model_type\":\"llama\",\"is_causal\":true,\"per_layer_config\":{}", "model", "task",
         "lm"},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"yarn\",\"rope_type\":"
         "\"linear\","
         "\"factor\":2}",
         "model", "rope_scaling", "linear"},
        {"\"model_type\":\"llama\",\"partial_rotary_factor\":0.5", "model", "head_dim", "128"},
        /* refused, as in transformers */
        {"\"model_type\":\"deepseek_v2\"", NULL, NULL,
         "num_experts_per_tok: expected this key, a whole number"},
        {"\"model_type\":\"llama\",\"rms_norm_eps\":null", NULL, NULL,
         "rms_norm_eps: expected a number, found null"},
        {"\"model_type\":\"llama\",\"tie_word_embeddings\":null", NULL, NULL,
         "tie_word_embeddings: expected true or false, found null"},
        {"\"model_type\":\"llama\",\"max_position_embeddings\":null", NULL, NULL,
         "max_position_embeddings: expected a whole number from 1 to 2147483647, found null"},
        {"\"model_type\":\"llama\",\"rope_theta\":null", NULL, NULL,
         "rope_theta: expected a number, found null"},
        {"\"model_type\":\"llama\",\"hidden_act\":null", NULL, NULL,
         "hidden_act: expected a text, one of silu|swish"},
        {"\"model_type\":\"gpt_oss\",\"sliding_window\":null", NULL, NULL,
         "sliding_window: expected a whole number from 1 to 2147483647, found null"},
        {"\"model_type\":\"qwen3_moe\",\"rope_scaling\":{\"rope_type\":\"yarn\"}", NULL, NULL,
         "rope_scaling: factor: expected a number, which rope_type yarn needs, found nothing"},
        {"\"model_type\":\"qwen3_moe\",\"rope_parameters\":{\"type\":\"linear\"}", NULL, NULL,
         "rope_parameters: factor: expected a number, which rope_type linear needs, found "
         "nothing"},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":null}",
         NULL, NULL,
         "rope_scaling: factor: expected a number, which rope_type linear needs, found null"},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"dynamic\"}", NULL, NULL,
         "rope_scaling: factor: expected a number, which rope_type dynamic needs, found "
         "nothing"},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}", NULL,
         NULL,
         "rope_scaling: low_freq_factor: expected a number, which rope_type llama3 needs, "
         "found nothing"},
        {"\"model_type\":\"llama\",\"original_max_position_embeddings\":null,\"rope_scaling\":"
         "{\"type\":\"yarn\",\"factor\":2,\"original_max_position_embeddings\":16}",
         NULL, NULL, "original_max_position_embeddings: expected a number of at least 1"},
        {"\"model_type\":\"mixtral\",\"is_causal\":false", NULL, NULL,
         "is_causal: expected true"},
        {"\"model_type\":\"gpt2\",\"is_causal\":null", NULL, NULL,
         "is_causal: expected true or false, found null"},
        {"\"model_type\":\"llama\",\"per_layer_config\":{\"0\":{\"head_dim\":4}}", NULL, NULL,
         "per_layer_config: expected the same sizes for all blocks"},
        {"\"model_type\":\"llama\",\"rope_scaling\":\"linear\"", NULL, NULL,
         "rope_scaling: expected null or an object"},
        {"\"model_type\":\"llama\",\"rope_parameters\":{\"full_attention\":{}}", NULL, NULL,
         "rope_parameters: full_attention: expected the same numbers for all blocks"},
        {"\"model_type\":\"llama\",\"partial_rotary_factor\":0.5,\"rope_scaling\":"
         "{\"type\":\"linear\",\"factor\":2}",
         NULL, NULL, "rope_scaling: partial_rotary_factor: expected 1 with rope_type linear"},
        {"\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,"
         "\"original_max_position_embeddings\":null}",
         NULL, NULL,
         "rope_scaling: original_max_position_embeddings: expected a number of at least 1"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char expected[512];
        mf_arena *arena = mf_arena_new();
        mf_json *json;
        mf_keys k;
        const int rc = read_keys(table[i].text, arena, &json, &k);
        if (table[i].section) {
            ck_assert_msg(rc == MF_OK, "%s: %s", table[i].text, mf_error_message());
            const char *v = mf_keys_setting(&k, table[i].section, table[i].key);
            ck_assert_msg(v && table[i].value ? strcmp(v, table[i].value) == 0
                                              : v == table[i].value,
                          "%s: %s is %s", table[i].text, table[i].key, v ? v : "not set");
        } else {
            snprintf(expected, sizeof expected, "config.json: %s", table[i].value);
            ck_assert_msg(rc == MF_EINPUT, "%s: taken", table[i].text);
            ck_assert_str_eq(mf_error_message(), expected);
        }
        mf_json_free(json);
        mf_arena_free(arena);
    }
}
END_TEST

/* ---- logits ---- */

static const char *const cases[] = {"rope_twice",  "rope_empty",  "yarn_nulls",
                                    "yarn_whole",  "yarn_beside", "llama3_beside",
                                    "keys_absent", "other_names"};
enum { CASES = sizeof cases / sizeof *cases };

/* Writes the case's config.json as text: numbers, texts, lists and one level of objects. */
static void put(mf_jw *w, const mf_json *v)
{
    int64_t whole;
    double real;
    bool truth;
    const char *key;
    const mf_json *member;
    switch (mf_json_typeof(v)) {
    case MF_JSON_NULL:
        mf_jw_null(w);
        break;
    case MF_JSON_BOOL:
        mf_json_bool(v, &truth);
        mf_jw_bool(w, truth);
        break;
    case MF_JSON_INT:
        mf_json_int(v, &whole);
        mf_jw_int(w, whole);
        break;
    case MF_JSON_REAL:
        mf_json_real(v, &real);
        mf_jw_real(w, real);
        break;
    case MF_JSON_STRING:
        mf_jw_string(w, mf_json_string(v, NULL));
        break;
    case MF_JSON_ARRAY:
        mf_jw_array(w);
        for (size_t i = 0; i < mf_json_size(v); i++)
            put(w, mf_json_at(v, i));
        mf_jw_end(w);
        break;
    case MF_JSON_OBJECT:
        mf_jw_object(w);
        for (size_t i = 0; mf_json_member(v, i, &key, &member); i++) {
            mf_jw_key(w, key);
            put(w, member);
        }
        mf_jw_end(w);
        break;
    }
}

/* Makes a folder with the case's config.json and links to the other files of its model. */
static void make_folder(const char *name, const char *folder)
{
    char base[PATH], path[PATH];
    char **names;
    int n;
    size_t size;
    mf_json *doc = read_json(golden(name, ".json"));
    snprintf(base, sizeof base, "%s", mf_json_string(mf_json_get(doc, "model"), NULL));
    mf_remove_tree(folder);
    must(mf_mkdirs(folder));
    must(mf_list_dir(golden(base, "/hf"), &names, &n));
    for (int i = 0; i < n; i++) {
        char *from = mf_path_join(golden(base, "/hf"), names[i]);
        char *whole = realpath(from, NULL);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (strcmp(names[i], "config.json") != 0) ck_assert_int_eq(symlink(whole, path), 0);
        free(whole);
        mf_free(from);
    }
    mf_list_free(names, n);
    mf_jw *w = mf_jw_new();
    put(w, mf_json_get(doc, "config"));
    const char *text = mf_jw_text(w, &size);
    snprintf(path, sizeof path, "%s/config.json", folder);
    must(mf_write_file_atomic(path, text, size));
    mf_jw_free(w);
    mf_json_free(doc);
}

static float *read_logits(const char *path, uint64_t *ret_n)
{
    mf_st_file *f;
    must(mf_st_open(path, &f));
    const mf_st_tensor *t = mf_st_find(f, "logits");
    ck_assert_ptr_nonnull(t);
    float *v = malloc((size_t)t->bytes);
    must(mf_st_read(f, t, v, (size_t)t->bytes));
    *ret_n = t->count;
    mf_st_close(f);
    return v;
}

START_TEST(logits)
{
    char name[64];
    const char *folder = scratch_path("folder"), *run = scratch_path("run"),
               *path = scratch_path("ours.safetensors");
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    mf_import_report report = {0};
    mf_session *s = NULL;
    mf_tokens t = {0};
    int64_t step;
    double loss, most = 0;
    uint64_t n, m;
    snprintf(name, sizeof name, "defaults/%s", cases[_i]);
    make_folder(name, folder);
    mf_remove_tree(run);
    must(mf_import(folder, NULL, run, &report));
    must(mf_load_run_as(run, &o, &change, &s, &step));
    must(mf_tokens_read(golden(name, ".safetensors"), s, &t));
    remove(path);
    must(mf_tokens_save(s, &t, path, &loss));
    float *theirs = read_logits(golden(name, ".safetensors"), &n),
          *ours = read_logits(path, &m);
    ck_assert_uint_ge(m, n); /* transformers' logits are for the last positions only */
    for (uint64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)theirs[i] - (double)ours[m - n + i]));
    printf("# %s: logits differ by %.2g\n", cases[_i], most);
    ck_assert_msg(most <= 5e-5, "%s: logits differ by %g", cases[_i], most);
    free(theirs);
    free(ours);
    mf_tokens_free(&t);
    mf_session_close(s);
    mf_free(report.run);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("defaults");
    TCase *t = tcase_create("config");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, rows, 0, n_families());
    tcase_add_test(t, no_keys);
    tcase_add_test(t, nulls_and_spellings);
    tcase_add_loop_test(t, logits, 0, CASES);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
