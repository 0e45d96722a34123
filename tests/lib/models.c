/* models.c: writes the tensors of small models and their config.json, and runs that were not
 * trained. A file that cannot be written fails the test, with the message of the program. */
#include "tests/lib/models.h"

#include <check.h>
#undef fail /* Check defines this old macro; a structure in other headers has a member of
             * this name */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/rng.h"
#include "tests/lib/scratch.h"
#include "run/checkpoint/checkpoint.h"
#include "run/observers/observers.h"
#include "run/folder/provenance.h"
#include "run/folder/rundir.h"
#include "run/session.h"

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* ---- files ---- */

static void put_values(mf_st_writer *w, const mf_st_tensor *t)
{
    uint64_t seed = 0;
    for (const char *p = t->name; *p; p++)
        seed = seed * 131 + (unsigned char)*p;
    float *values = malloc((size_t)t->count * sizeof *values + 1);
    unsigned char *bytes = malloc((size_t)t->count + 1);
    for (uint64_t i = 0; i < t->count; i++) {
        values[i] = mf_rng_uniform(seed, 1, 0, i) - 0.5f;
        bytes[i] = (unsigned char)((float)127 * (values[i] + 0.5f));
    }
    must(mf_st_writer_put(w, t->dtype == MF_ST_U8 ? (void *)bytes : values, (size_t)t->bytes));
    free(values);
    free(bytes);
}

static void add_all(mf_st_writer *w, const models_tensor *list)
{
    for (; list && list->name; list++)
        must(mf_st_writer_add(w, list->name, list->dtype, list->rank, list->shape));
}

static void write_two(const char *path, const models_tensor *list, const models_tensor *more)
{
    mf_st_writer *w = mf_st_writer_new();
    add_all(w, list);
    add_all(w, more);
    remove(path);
    must(mf_st_writer_begin(w, path));
    for (const mf_st_tensor *t; (t = mf_st_writer_due(w, NULL));)
        put_values(w, t);
    must(mf_st_writer_end(w, false));
    mf_st_writer_free(w);
}

void models_file(const char *path, const models_tensor *list)
{
    write_two(path, list, NULL);
}

static void write_folder(const char *folder, const char *config, const models_tensor *list,
                         const models_tensor *more)
{
    char path[1024];
    mf_remove_tree(folder);
    must(mf_mkdirs(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    scratch_write(path, config, strlen(config));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    write_two(path, list, more);
}

/* ---- models ---- */

#define F32(name, ...)                                                                         \
    {                                                                                          \
        name, MF_ST_F32, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                   \
        {                                                                                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define U8(name, ...)                                                                          \
    {                                                                                          \
        name, MF_ST_U8, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                    \
        {                                                                                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define BLOCK "model.layers.0."
/* BOTH: weight and bias of a linear layer. NORM: weight and bias of a norm of width 16. */
#define BOTH(name, out, ...) F32(name ".weight", out, __VA_ARGS__), F32(name ".bias", out)
#define NORM(name)           F32(name ".weight", 16), F32(name ".bias", 16)

void models_llama(const char *folder, int hidden, const char *keys, const models_tensor *more)
{
    const models_tensor list[] = {F32("model.embed_tokens.weight", 16, 16),
                                  F32("model.norm.weight", 16),
                                  F32(BLOCK "input_layernorm.weight", 16),
                                  F32(BLOCK "post_attention_layernorm.weight", 16),
                                  F32(BLOCK "self_attn.q_proj.weight", 16, 16),
                                  F32(BLOCK "self_attn.k_proj.weight", 16, 16),
                                  F32(BLOCK "self_attn.v_proj.weight", 16, 16),
                                  F32(BLOCK "self_attn.o_proj.weight", 16, 16),
                                  F32(BLOCK "mlp.gate_proj.weight", hidden, 16),
                                  F32(BLOCK "mlp.up_proj.weight", hidden, 16),
                                  F32(BLOCK "mlp.down_proj.weight", 16, hidden),
                                  F32("lm_head.weight", 16, 16),
                                  {NULL}};
    char config[1024];
    snprintf(config, sizeof config,
             "{\"model_type\":\"llama\",\"vocab_size\":16,\"hidden_size\":16,"
             "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":%d,"
             "\"max_position_embeddings\":16%s}",
             hidden, keys);
    write_folder(folder, config, list, more);
}

void models_gpt_oss(const char *folder)
{
    static const models_tensor list[] = {
        F32("model.embed_tokens.weight", 16, 32),
        F32("model.norm.weight", 32),
        F32("lm_head.weight", 16, 32),
        F32(BLOCK "input_layernorm.weight", 32),
        F32(BLOCK "post_attention_layernorm.weight", 32),
        BOTH(BLOCK "self_attn.q_proj", 32, 32),
        BOTH(BLOCK "self_attn.k_proj", 32, 32),
        BOTH(BLOCK "self_attn.v_proj", 32, 32),
        BOTH(BLOCK "self_attn.o_proj", 32, 32),
        F32(BLOCK "self_attn.sinks", 2),
        BOTH(BLOCK "mlp.router", 4, 32),
        U8(BLOCK "mlp.experts.gate_up_proj_blocks", 4, 64, 1, 16),
        U8(BLOCK "mlp.experts.gate_up_proj_scales", 4, 64, 1),
        F32(BLOCK "mlp.experts.gate_up_proj_bias", 4, 64),
        U8(BLOCK "mlp.experts.down_proj_blocks", 4, 32, 1, 16),
        U8(BLOCK "mlp.experts.down_proj_scales", 4, 32, 1),
        F32(BLOCK "mlp.experts.down_proj_bias", 4, 32),
        {NULL}};
    write_folder(folder,
                 "{\"model_type\":\"gpt_oss\",\"vocab_size\":16,\"hidden_size\":32,"
                 "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":32,"
                 "\"max_position_embeddings\":16,\"num_local_experts\":4,"
                 "\"num_experts_per_tok\":2,\"num_key_value_heads\":2,\"head_dim\":16,"
                 "\"rope_parameters\":{},\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
                 list, NULL);
}

#define EXPERT(e)                                                                              \
    F32(BLOCK "mlp.experts." e ".gate_proj.weight", 8, 16),                                    \
        F32(BLOCK "mlp.experts." e ".up_proj.weight", 8, 16),                                  \
        F32(BLOCK "mlp.experts." e ".down_proj.weight", 16, 8)

void models_deepseek(const char *folder)
{
    static const models_tensor list[] = {
        F32("model.embed_tokens.weight", 16, 16),
        F32("model.norm.weight", 16),
        F32("lm_head.weight", 16, 16),
        F32(BLOCK "input_layernorm.weight", 16),
        F32(BLOCK "post_attention_layernorm.weight", 16),
        F32(BLOCK "self_attn.q_proj.weight", 2 * (8 + 4), 16),
        F32(BLOCK "self_attn.kv_a_proj_with_mqa.weight", 8 + 4, 16),
        F32(BLOCK "self_attn.kv_a_layernorm.weight", 8),
        F32(BLOCK "self_attn.kv_b_proj.weight", 2 * (8 + 8), 8),
        F32(BLOCK "self_attn.o_proj.weight", 16, 2 * 8),
        F32(BLOCK "mlp.gate.weight", 4, 16),
        EXPERT("0"),
        EXPERT("1"),
        EXPERT("2"),
        EXPERT("3"),
        {NULL}};
    write_folder(folder,
                 "{\"model_type\":\"deepseek_v2\",\"vocab_size\":16,\"hidden_size\":16,"
                 "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":32,"
                 "\"max_position_embeddings\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,"
                 "\"kv_lora_rank\":8,\"v_head_dim\":8,\"moe_intermediate_size\":8,"
                 "\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_shared_experts\":0,"
                 "\"q_lora_rank\":null}",
                 list, NULL);
}

void models_bert(const char *folder)
{
    static const models_tensor list[] = {
        F32("bert.embeddings.word_embeddings.weight", 16, 16),
        F32("bert.embeddings.position_embeddings.weight", 16, 16),
        F32("bert.embeddings.token_type_embeddings.weight", 2, 16),
        NORM("bert.embeddings.LayerNorm"),
        BOTH("bert.encoder.layer.0.attention.self.query", 16, 16),
        BOTH("bert.encoder.layer.0.attention.self.key", 16, 16),
        BOTH("bert.encoder.layer.0.attention.self.value", 16, 16),
        BOTH("bert.encoder.layer.0.attention.output.dense", 16, 16),
        NORM("bert.encoder.layer.0.attention.output.LayerNorm"),
        BOTH("bert.encoder.layer.0.intermediate.dense", 32, 16),
        BOTH("bert.encoder.layer.0.output.dense", 16, 32),
        NORM("bert.encoder.layer.0.output.LayerNorm"),
        BOTH("bert.pooler.dense", 16, 16),
        BOTH("classifier", 2, 16),
        {NULL}};
    write_folder(folder,
                 "{\"model_type\":\"bert\","
                 "\"architectures\":[\"BertForSequenceClassification\"],\"vocab_size\":16,"
                 "\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                 "\"intermediate_size\":32,\"max_position_embeddings\":16}",
                 list, NULL);
}

/* ---- runs ---- */

void models_run_from(const char *run, int n, const char *const *set, const char *path)
{
    enum { ROOM = 16 };
    const char *all[ROOM];
    char from[1024];
    mf_rundir *base = NULL, *dir = NULL;
    mf_config *c = NULL;
    mf_session *s = NULL;
    mf_model_dims dims;
    mf_state *state = mf_state_new();
    ck_assert_int_lt(n, ROOM);
    snprintf(from, sizeof from, "train.from=%s", run);
    for (int i = 0; i < n; i++)
        all[i] = set[i];
    all[n++] = from;
    must(mf_rundir_read(run, &base));
    must(mf_provenance_read_dims(base->manifest, &dims));
    must(mf_config_load(base->config, n, all, &c));
    for (int i = 0; i < c->n_tasks; i++)
        dims.more_classes[i] = 2;
    const mf_session_options o = {.training = true,
                                  .no_data = true,
                                  .dims = &dims,
                                  .bind = MF_BIND_NONE,
                                  .tokenizer_file =
                                      mf_exists(base->tokenizer) ? base->tokenizer : NULL};
    must(mf_session_open(c, &o, &s));
    mf_remove_tree(path);
    must(mf_rundir_create_at(path, &dir));
    must(mf_run_files_write(s, dir));
    must(mf_write_file_atomic(dir->metrics, "", 0));
    must(mf_ckpt_save(dir->ckpt, 0, s->model->store, NULL, state, mf_provenance_of(s), 0));
    mf_state_free(state);
    mf_session_close(s);
    mf_rundir_close(base);
    mf_rundir_close(dir);
}
