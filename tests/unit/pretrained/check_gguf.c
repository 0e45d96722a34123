/* pretrained/gguf: exported files must equal the files that llama.cpp's converter wrote for the
 * same folders. tests/golden/pretrained/gguf contains the lines of two of its files.
 * MOEFW_PRETRAINED may name a set with nine of them, in ggsrc/ and gguf/.
 * MOEFW_GGUF_RECORD=FOLDER writes the lines of a set's files. */
#include "check_main.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/gguf/gguf_arch.h"
#include "tests/lib/fault.h"
#include "tests/lib/gguf.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

enum { PATH = 1024 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* Imports a folder and exports it. Returns the status of the export. */
static int convert(const char *folder, mf_st_dtype dtype, const char *name, char out[PATH])
{
    mf_import_report report;
    char run[PATH], *path = NULL;
    const mf_export_options o = {.dtype = dtype};
    snprintf(run, sizeof run, "%s/run", scratch_dir());
    snprintf(out, PATH, "%s/%s.gguf", scratch_dir(), name);
    must(mf_remove_tree(run));
    remove(out);
    must(mf_import(folder, NULL, run, &report));
    mf_free(report.run);
    const int rc = mf_export_gguf(run, out, &o, &path);
    if (rc == MF_OK) ck_assert_str_eq(path, out);
    mf_free(path);
    return rc;
}

/* Whether the converter writes the key differently: names, sizes in words, and scores that are
 * all equal, which would let programs merge in another order than the tokenizer. */
static bool is_other(const char *line)
{
    static const char *const keys[] = {
        "general.name = ", "general.size_label = ", "tokenizer.ggml.add_eos_token = ",
        "tokenizer.ggml.add_sep_token = ", "tokenizer.ggml.scores = "};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0) return true;
    return false;
}

/* Copies the lines of a text that are compared. */
static char *relevant(const char *text)
{
    char *out = calloc(1, strlen(text) + 1);
    size_t at = 0;
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n") + 1;
        if (!is_other(line)) {
            memcpy(out + at, line, n);
            at += n;
        }
        line += n;
    }
    return out;
}

static void compare(const char *path, const char *reference)
{
    gguf_file f;
    gguf_open(&f, path);
    char *found = gguf_lines(&f), *a = relevant(found), *b = relevant(reference);
    for (const char *x = a, *y = b; *x || *y;) {
        const size_t n = strcspn(x, "\n"), m = strcspn(y, "\n");
        ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s:\nfound    %.*s\nexpected %.*s", path,
                      (int)n, x, (int)m, y);
        x += n + 1;
        y += m + 1;
    }
    ck_assert(strlen(b) > 1000);
    free(a);
    free(b);
    free(found);
    gguf_close(&f);
}

START_TEST(golden)
{
    static const char *const names[] = {"mixtral", "gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[PATH], lines[PATH], path[PATH];
        snprintf(folder, sizeof folder, "%s/tests/golden/pretrained/%s/hf", getenv("srcdir"),
                 names[i]);
        snprintf(lines, sizeof lines, "%s/tests/golden/pretrained/gguf/%s.txt",
                 getenv("srcdir"), names[i]);
        must(convert(folder, MF_ST_F32, names[i], path));
        char *reference = scratch_read(lines, &(size_t){0});
        ck_assert_msg(reference != NULL, "%s: cannot be read", lines);
        compare(path, reference);
        free(reference);
    }
}
END_TEST

START_TEST(set)
{
    static const char *const names[] = {"mixtral",     "qwen2_moe", "qwen3_moe",
                                        "olmoe",       "gpt_oss",   "gpt_oss_mxfp4",
                                        "deepseek_v3", "gpt2",      "deepseek_v2_groups"};
    const char *all = getenv("MOEFW_PRETRAINED"), *record = getenv("MOEFW_GGUF_RECORD");
    if (!all || all[0] == '\0') return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[PATH], theirs[PATH], path[PATH];
        gguf_file f;
        snprintf(folder, sizeof folder, "%s/ggsrc/%s/hf", all, names[i]);
        snprintf(theirs, sizeof theirs, "%s/gguf/%s.gguf", all, names[i]);
        const int rc = convert(folder, MF_ST_F32, names[i], path);
        if (strcmp(names[i], "deepseek_v2_groups") == 0) {
            ck_assert_int_eq(rc, MF_EINPUT);
            ck_assert_msg(strstr(mf_error_message(), "group_limited_greedy"), "%s",
                          mf_error_message());
            continue;
        }
        must(rc);
        gguf_open(&f, theirs);
        char *reference = gguf_lines(&f);
        compare(path, reference);
        if (record) {
            snprintf(path, sizeof path, "%s/%s.txt", record, names[i]);
            scratch_write(path, reference, strlen(reference));
        }
        free(reference);
        gguf_close(&f);
    }
}
END_TEST

/* Stored types are kept. In queries and keys, the rows i and i + half of a head alternate. */
START_TEST(stored)
{
    char folder[PATH], path[PATH];
    gguf_file f;
    mf_st_file *shard = NULL;
    snprintf(folder, sizeof folder, "%s/tests/golden/pretrained/mixtral/hf", getenv("srcdir"));
    must(convert(folder, MF_ST_UNKNOWN, "stored", path));
    gguf_open(&f, path);
    ck_assert_str_eq(gguf_find(&f, "general.file_type")->text, "32");
    ck_assert_str_eq(gguf_find(&f, "blk.0.ffn_gate_inp.weight")->text, "F32 [8,64]");
    ck_assert_str_eq(gguf_find(&f, "blk.1.ffn_norm.weight")->text, "F32 [64]");
    ck_assert_str_eq(gguf_find(&f, "blk.1.ffn_down_exps.weight")->text, "BF16 [8,64,96]");
    const gguf_entry *q = gguf_find(&f, "blk.0.attn_q.weight"),
                     *v = gguf_find(&f, "blk.0.attn_v.weight");
    ck_assert_str_eq(q->text, "BF16 [64,64]");
    int seen = 0;
    for (int s = 1; s <= 5; s++) {
        char name[PATH + 64];
        snprintf(name, sizeof name, "%s/model-0000%d-of-00005.safetensors", folder, s);
        must(mf_st_open(name, &shard));
        const mf_st_tensor *tq = mf_st_find(shard, "model.layers.0.self_attn.q_proj.weight"),
                           *tv = mf_st_find(shard, "model.layers.0.self_attn.v_proj.weight");
        unsigned char raw[64 * 64 * 2];
        if (tv) {
            must(mf_st_read(shard, tv, raw, tv->bytes));
            ck_assert(v->bytes == tv->bytes && memcmp(raw, v->data, v->bytes) == 0);
            seen++;
        }
        if (tq) {
            must(mf_st_read(shard, tq, raw, tq->bytes));
            for (int h = 0; h < 4; h++)
                for (int i = 0; i < 16; i++) { /* heads of 16 rows with 64 values each */
                    const int from = h * 16 + i / 2 + 8 * (i % 2), to = h * 16 + i;
                    ck_assert(memcmp(raw + from * 128, q->data + to * 128, 128) == 0);
                }
            seen++;
        }
        mf_st_close(shard);
    }
    ck_assert_int_eq(seen, 2);
    gguf_close(&f);
}
END_TEST

/* Copies a committed model to another folder, and replaces a text in one of its files. old
 * NULL: the copy does not contain this file. */
static void variant_of(const char *model, const char *file, const char *old, const char *new,
                       char out[PATH])
{
    char from[PATH], path[2 * PATH], **names;
    int n;
    snprintf(from, sizeof from, "%s/tests/golden/pretrained/%s/hf", getenv("srcdir"), model);
    snprintf(out, PATH, "%s/variant", scratch_dir());
    must(mf_remove_tree(out));
    must(mf_mkdirs(out));
    must(mf_list_dir(from, &names, &n));
    for (int i = 0; i < n; i++) {
        const bool changes = strcmp(names[i], file) == 0;
        size_t size;
        if (changes && !old) continue;
        snprintf(path, sizeof path, "%s/%s", from, names[i]);
        char *text = scratch_read(path, &size), *at;
        snprintf(path, sizeof path, "%s/%s", out, names[i]);
        if (changes) {
            ck_assert_msg((at = strstr(text, old)) != NULL, "%s: no %s", file, old);
            char *changed = mf_strf("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
            scratch_write(path, changed, strlen(changed));
            mf_free(changed);
        } else {
            scratch_write(path, text, size);
        }
        free(text);
    }
    mf_list_free(names, n);
}

/* The committed Mixtral, with one line of config.json replaced. */
static void variant(const char *old, const char *new, char out[PATH])
{
    variant_of("mixtral", "config.json", old, new, out);
}

/* Llama 3's factors (Meta 2024). A pair with less than `low` turns in the original length is
 * slowed by the factor. A pair with more than `high` turns is not. Between both, the factor is
 * interpolated linearly. */
START_TEST(factors)
{
    char folder[PATH], path[PATH];
    gguf_file f;
    variant("\"rope_scaling\": null",
            "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
            "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
            "\"original_max_position_embeddings\": 64}",
            folder);
    must(convert(folder, MF_ST_F32, "factors", path));
    gguf_open(&f, path);
    const gguf_entry *e = gguf_find(&f, "rope_freqs.weight");
    ck_assert_str_eq(e->text, "F32 [8]");
    for (int i = 0; i < 8; i++) {
        const double turns = 64 / (2 * acos(-1.0)) * pow(1e6, -i / 8.0),
                     share = turns < 1   ? 0
                             : turns > 4 ? 1
                                         : (turns - 1) / 3;
        float found;
        memcpy(&found, e->data + 4 * i, 4);
        ck_assert(fabs(found - 1 / (share + (1 - share) / 8)) < 1e-5);
    }
    ck_assert(gguf_find(&f, "llama.rope.scaling.type") == NULL);
    gguf_close(&f);
    variant("\"rope_scaling\": null",
            "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
            "\"attention_factor\": 1.5, \"original_max_position_embeddings\": 32}",
            folder);
    must(convert(folder, MF_ST_F32, "yarn", path));
    gguf_open(&f, path);
    ck_assert_str_eq(gguf_find(&f, "llama.rope.scaling.type")->text, "yarn");
    ck_assert_str_eq(gguf_find(&f, "llama.rope.scaling.original_context_length")->text, "32");
    /* 1.5 / (0.1 ln 4 + 1) */
    ck_assert(fabs(atof(gguf_find(&f, "llama.rope.scaling.attn_factor")->text) - 1.317372) <
              1e-5);
    gguf_close(&f);
}
END_TEST

/* ---- models that an architecture cannot express ---- */

/* An imported model, as far as its config.json describes it: it has no weights. */
typedef struct described {
    mf_export_run run;
    mf_session session;
    mf_record record;
    mf_json *json;
    mf_arena *arena;
} described;

/* setting: an additional setting of ours; NULL: none. */
static void describe(described *d, const char *json, const char *setting)
{
    mf_assignment given[MF_KEYS_SET_MAX];
    *d = (described){.arena = mf_arena_new()};
    d->run = (mf_export_run){.session = &d->session, .record = &d->record};
    must(mf_json_parse("config.json", json, strlen(json), &d->json));
    must(mf_family_of("config.json", d->json, &d->record.family));
    mf_keys *k = &d->record.keys;
    must(mf_keys_read(d->record.family, "config.json", d->json, d->arena, k));
    if (setting) mf_keys_set(k, "%s", setting);
    for (int i = 0; i < k->n; i++)
        given[i] = (mf_assignment){k->set[i], "settings"};
    must(mf_config_load_from(NULL, k->n, given, NULL, &d->session.config));
}

static void forget(described *d)
{
    mf_config_free(d->session.config);
    mf_json_free(d->json);
    mf_arena_free(d->arena);
}

#define SIZES                                                                                  \
    "\"vocab_size\": 512, \"hidden_size\": 64, \"num_hidden_layers\": 2, "                     \
    "\"num_attention_heads\": 4, \"max_position_embeddings\": 128, "                           \
    "\"intermediate_size\": 96, \"num_experts_per_tok\": 2"
#define SIZES_KV "\"num_key_value_heads\": 4, " SIZES
#define MIXTRAL  "{\"model_type\": \"mixtral\", \"num_local_experts\": 8, " SIZES_KV
#define QWEN2                                                                                  \
    "{\"model_type\": \"qwen2_moe\", \"num_experts\": 8, \"moe_intermediate_size\": 40, "      \
    "\"shared_expert_intermediate_size\": 96, " SIZES_KV
#define QWEN3                                                                                  \
    "{\"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"moe_intermediate_size\": 40, "      \
    "\"norm_topk_prob\": true, " SIZES_KV
#define OLMOE "{\"model_type\": \"olmoe\", \"num_experts\": 8, " SIZES
#define GPT_OSS                                                                                \
    "{\"model_type\": \"gpt_oss\", \"num_local_experts\": 8, \"head_dim\": 16, "               \
    "\"rope_parameters\": {}, " SIZES_KV
#define DEEPSEEK                                                                               \
    "{\"model_type\": \"deepseek_v3\", \"n_routed_experts\": 8, "                              \
    "\"moe_intermediate_size\": 32, \"kv_lora_rank\": 24, \"q_lora_rank\": 24, "               \
    "\"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 12, " SIZES_KV
#define GPT2                                                                                   \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 384, \"n_embd\": 64, \"n_layer\": 3, "         \
    "\"n_head\": 4, \"n_positions\": 128"

/* For each architecture, a model that it can express, followed by models that it
 * cannot express. */
static const struct {
    const char *json, *setting, *refused; /* NULL: the model is not refused */
} models[] = {
    {MIXTRAL "}", NULL, NULL},
    {MIXTRAL ", \"sliding_window\": 64}", NULL,
     "sliding_window cannot be said in GGUF: programs would compute without the window"},
    {MIXTRAL "}", "model.rope_dims=8",
     "model.rope_dims cannot be said in GGUF: its programs rotate whole heads"},
    {MIXTRAL "}", "model.rope_dims=16", NULL}, /* rotates whole heads */
    {QWEN2 "}", NULL, NULL},
    {QWEN2 ", \"head_dim\": 32}", NULL,
     "model.head_dim cannot be said in GGUF: this architecture has heads of dim / heads"},
    {QWEN3 ", \"head_dim\": 32}", NULL, NULL},
    {QWEN3 ", \"attention_bias\": true}", NULL,
     "attention_bias cannot be said in GGUF: this architecture has no bias behind attention"},
    {OLMOE "}", NULL, NULL},
    {OLMOE ", \"num_key_value_heads\": 2}", NULL,
     "num_key_value_heads cannot be said in GGUF: this architecture has as many heads of keys "
     "as of queries"},
    {OLMOE ", \"attention_bias\": true}", NULL,
     "attention_bias cannot be said in GGUF: this architecture has none"},
    {GPT_OSS ", \"sliding_window\": 64}", NULL, NULL},
    {GPT_OSS ", \"attention_bias\": false}", NULL,
     "attention_bias = false cannot be said in GGUF: this architecture has biases"},
    {DEEPSEEK ", \"n_shared_experts\": 1}", NULL, NULL},
    {DEEPSEEK ", \"n_shared_experts\": null}", NULL,
     "n_shared_experts = 0 cannot be said in GGUF: this architecture has a shared expert"},
    {GPT2 "}", NULL, NULL},
    {GPT2 ", \"activation_function\": \"gelu\"}", NULL,
     "activation_function = gelu cannot be said in GGUF: programs compute the form with tanh"},
    {GPT2 ", \"scale_attn_weights\": false}", NULL,
     "another scale of the scores of attention cannot be said in GGUF: programs divide by the "
     "root of a head's width"},
    {GPT2 ", \"scale_attn_by_inverse_layer_idx\": true}", NULL,
     "another scale of the scores of attention cannot be said in GGUF"},
};

START_TEST(architectures)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const mf_gguf_arch *a;
        described d;
        describe(&d, models[i].json, models[i].setting);
        const int rc = mf_gguf_arch_of(&d.run, &a);
        ck_assert_msg(rc == (models[i].refused ? MF_EINPUT : MF_OK), "%s: %d %s",
                      models[i].json, rc, rc == MF_OK ? "" : mf_error_message());
        if (models[i].refused)
            ck_assert_msg(strstr(mf_error_message(), models[i].refused), "%s: %s",
                          models[i].json, mf_error_message());
        forget(&d);
    }
}
END_TEST

/* Writes the keys of a model without tensors and opens the file. */
static void write_keys(const char *json, gguf_file *f)
{
    const char *path = scratch_path("keys.gguf");
    const mf_gguf_arch *a;
    described d;
    describe(&d, json, NULL);
    must(mf_gguf_arch_of(&d.run, &a));
    mf_gguf *w = mf_gguf_new();
    mf_gguf_arch_keys(&d.run, a, w);
    remove(path);
    must(mf_gguf_begin(w, path));
    must(mf_gguf_end(w));
    mf_gguf_free(w);
    forget(&d);
    gguf_open(f, path);
}

/* gpt-oss always has a window in GGUF. A window as long as the longest sequence has
 * no effect. */
START_TEST(windows)
{
    gguf_file f;
    write_keys(GPT_OSS ", \"sliding_window\": 64}", &f);
    ck_assert_str_eq(gguf_find(&f, "gpt-oss.attention.sliding_window")->text, "64");
    gguf_close(&f);
    write_keys(GPT_OSS ", \"sliding_window\": 1000}", &f);
    ck_assert_str_eq(gguf_find(&f, "gpt-oss.attention.sliding_window")->text, "128");
    gguf_close(&f);
}
END_TEST

START_TEST(dense_blocks_at_the_beginning)
{
    static const char *const said[] = {"0", "1"};
    for (int i = 0; i < 2; i++) {
        gguf_file f;
        write_keys(i == 0 ? DEEPSEEK ", \"n_shared_experts\": 1, \"first_k_dense_replace\": 0}"
                          : DEEPSEEK ", \"n_shared_experts\": 1, \"first_k_dense_replace\": 1}",
                   &f);
        ck_assert_str_eq(gguf_find(&f, "deepseek2.leading_dense_block_count")->text, said[i]);
        gguf_close(&f);
    }
}
END_TEST

static char logged[1024];

static void keep(void *arg, mf_log_level level, const char *text)
{
    (void)arg, (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

/* YaRN (Peng et al. 2023) with heads of 16, wavelengths to 10,000 and 4,096 positions. The ramp
 * is from 16 ln(4096 / 64 pi) / (2 ln 10000) = 2.61805 to 16 ln(4096 / 2 pi) / (2 ln 10000) =
 * 5.62836; rounded outwards, it is from 2 to 6. The factor of pair 3 is 1/4 + 3/4 (1 - .38195 /
 * 3.01031) = .90484 without rounding, and 1/4 + 3/4 (1 - 1 / 4) = .8125 with rounding, which is
 * 10.2 % less. Pairs 4 and 5 differ by 4.7 % and 7.6 %, the others do not differ. */
START_TEST(rounded_ramp)
{
#define YARN                                                                                   \
    ", \"rope_theta\": 10000, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "     \
    "\"original_max_position_embeddings\": 4096, \"truncate\": "
    const mf_log_sink sink = {.highest = MF_LOG_INFO, .line = keep};
    const mf_log_sink *before = mf_log_redirect(&sink);
    const mf_gguf_arch *a;
    described d;
    logged[0] = '\0';
    describe(&d, MIXTRAL YARN "true}}", NULL);
    must(mf_gguf_arch_of(&d.run, &a));
    ck_assert_str_eq(logged, "");
    forget(&d);
    describe(&d, MIXTRAL YARN "false}}", NULL);
    must(mf_gguf_arch_of(&d.run, &a));
    mf_log_redirect(before);
    ck_assert_msg(strstr(logged, "GGUF cannot say truncate = false of YaRN"), "%s", logged);
    ck_assert_msg(strstr(logged, "by up to 10.2 % more or less"), "%s", logged);
    forget(&d);
}
END_TEST

/* ---- tokenizers ---- */

START_TEST(tokenizers)
{
    static const struct {
        const char *model, *old, *new, *refused;
    } cases[] = {
        {"gpt2", "\"normalizer\": null", "\"normalizer\": {\"type\": \"Lowercase\"}",
         "its normalizer is more than a normal form"},
        {"gpt2", "\"add_prefix_space\": false", "\"add_prefix_space\": true",
         "it puts a blank before a text"},
        {"gpt2", "\"use_regex\": true", "\"use_regex\": false",
         "programs know no name for its pre-tokenizer"},
        {"mixtral", "\"normalizers\": [", "\"normalizers\": [{\"type\": \"Lowercase\"},",
         "its normalizer does more than U+2581 for blanks"},
        {"mixtral", "\"String\": \" \"", "\"String\": \"_\"",
         "its normalizer does more than U+2581 for blanks"},
        {"mixtral", "\"byte_fallback\": true", "\"byte_fallback\": false",
         "it has no tokens of bytes"},
    };
    char folder[PATH], path[PATH];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        variant_of(cases[i].model, "tokenizer.json", cases[i].old, cases[i].new, folder);
        ck_assert_int_eq(convert(folder, MF_ST_UNKNOWN, "no", path), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), "the tokenizer cannot be said in GGUF: ") &&
                          strstr(mf_error_message(), cases[i].refused),
                      "%s\nexpected %s", mf_error_message(), cases[i].refused);
        ck_assert(!mf_exists(path));
    }
}
END_TEST

/* Pointer to the beginning of a text in a file; NULL: the text is missing. */
static const unsigned char *find_text(const gguf_file *f, const char *text)
{
    const size_t n = strlen(text);
    for (uint64_t i = 0; i + n <= f->n; i++)
        if (memcmp(f->all + i, text, n) == 0) return f->all + i;
    return NULL;
}

/* An id without a token has the name [PADn] and the type 5, unused. Its neighbours have
 * type 1. */
START_TEST(unused_id)
{
    static const char key[] = "tokenizer.ggml.token_type";
    char folder[PATH], path[PATH];
    gguf_file f;
    int32_t type[3];
    variant_of("mixtral", "tokenizer.json", "\"J\": 278,", "", folder);
    must(convert(folder, MF_ST_UNKNOWN, "unused", path));
    gguf_open(&f, path);
    /* The length of a text is stored before it. The type and the number of items are stored
     * before the items. */
    const unsigned char *at = find_text(&f, "[PAD278]"), *types = find_text(&f, key);
    ck_assert(at != NULL && types != NULL);
    ck_assert_uint_eq(at[-8], strlen("[PAD278]"));
    ck_assert(find_text(&f, "[PAD277]") == NULL && find_text(&f, "[PAD279]") == NULL);
    memcpy(type, types + strlen(key) + 4 + 4 + 8 + sizeof *type * 277, sizeof type);
    ck_assert_int_eq(type[0], 1);
    ck_assert_int_eq(type[1], 5);
    ck_assert_int_eq(type[2], 1);
    gguf_close(&f);
}
END_TEST

/* Without a tokenizer, a key of the architecture contains the number of ids. */
START_TEST(without_a_tokenizer)
{
    char folder[PATH], path[PATH];
    gguf_file f;
    variant_of("gpt2", "tokenizer.json", NULL, NULL, folder);
    static const char *const parts[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%.900s/%s", folder, parts[i]);
        ck_assert_int_eq(remove(path), 0);
    }
    must(convert(folder, MF_ST_UNKNOWN, "bare", path));
    gguf_open(&f, path);
    ck_assert_str_eq(gguf_find(&f, "tokenizer.ggml.model")->text, "no_vocab");
    ck_assert_str_eq(gguf_find(&f, "gpt2.vocab_size")->text, "384");
    ck_assert(gguf_find(&f, "tokenizer.ggml.tokens") == NULL);
    gguf_close(&f);
}
END_TEST

/* ---- the file ---- */

/* Calls that the header does not allow are errors, and no incomplete file looks complete. */
START_TEST(misuse)
{
    const int64_t shape[] = {2, 2, 2, 2, 2};
    const float data[4] = {1, 2, 3, 4};
    char path[PATH];
    for (int rank = 0; rank <= 5; rank += 5) {
        mf_gguf *w = mf_gguf_new();
        snprintf(path, sizeof path, "%s/rank%d.gguf", scratch_dir(), rank);
        mf_gguf_tensor(w, "a", MF_GGUF_F32, rank, shape);
        ck_assert_int_eq(mf_gguf_begin(w, path), MF_EINVAL);
        ck_assert_int_eq(mf_gguf_end(w), MF_EINVAL);
        ck_assert_str_eq(mf_error_message(),
                         rank == 0 ? "tensor 'a': rank 0" : "tensor 'a': rank 5");
        ck_assert(!mf_exists(path));
        mf_gguf_free(w);
    }
    for (int pieces = 0; pieces <= 3; pieces++) { /* each piece is half of a tensor */
        mf_gguf *w = mf_gguf_new();
        snprintf(path, sizeof path, "%s/pieces%d.gguf", scratch_dir(), pieces);
        mf_gguf_tensor(w, "a", MF_GGUF_F32, 2, shape);
        must(mf_gguf_begin(w, path));
        for (int i = 0; i < pieces; i++)
            ck_assert_int_eq(mf_gguf_put(w, data + 2 * (i % 2), 8), i < 2 ? MF_OK : MF_EINVAL);
        ck_assert_int_eq(mf_gguf_end(w), pieces == 2 ? MF_OK : MF_EINVAL);
        if (pieces != 2)
            ck_assert_str_eq(mf_error_message(), pieces < 2
                                                     ? "GGUF: tensor 0 is missing"
                                                     : "GGUF: more bytes than tensor 1 has");
        mf_gguf_free(w);
    }
    mf_gguf *w = mf_gguf_new();
    mf_gguf_tensor(w, "a", MF_GGUF_F32, 1, shape);
    must(mf_gguf_begin(w, scratch_path("more.gguf")));
    ck_assert_int_eq(mf_gguf_put(w, data, 12), MF_EINVAL);
    ck_assert_str_eq(mf_error_message(), "GGUF: more bytes than tensor 0 has");
    ck_assert_int_eq(mf_gguf_end(w), MF_EINVAL);
    mf_gguf_free(w);
}
END_TEST

/* The last calls of an export fail, one after another. Neither the file nor a part of it
 * may remain. */
START_TEST(failures_at_the_end)
{
    const mf_export_options o = {.dtype = MF_ST_UNKNOWN};
    char folder[PATH], out[PATH], beside[PATH + 8], *path = NULL, run[PATH];
    bool renamed = false;
    snprintf(folder, sizeof folder, "%s/tests/golden/pretrained/mixtral/hf", getenv("srcdir"));
    must(convert(folder, MF_ST_UNKNOWN, "last", out));
    snprintf(run, sizeof run, "%s/run", scratch_dir());
    snprintf(beside, sizeof beside, "%s.tmp", out);
    remove(out);
    fault_io(0, FAULT_ONCE, EIO);
    must(mf_export_gguf(run, out, &o, &path));
    const long calls = fault_io_calls();
    fault_off();
    mf_free(path);
    for (long n = calls; n > calls - 8; n--) {
        remove(out);
        fault_io(n, FAULT_ONCE, EIO);
        const int rc = mf_export_gguf(run, out, &o, &path);
        const char *call = fault_hit_call();
        fault_off();
        if (rc == MF_OK) mf_free(path);
        if (strncmp(call, "rename", 6) == 0) {
            char expected[3 * PATH];
            snprintf(expected, sizeof expected, "%s: cannot rename to %s: ", beside, out);
            ck_assert_int_eq(rc, MF_EIO);
            ck_assert_msg(strstr(mf_error_message(), expected), "%s", mf_error_message());
            renamed = true;
        }
        ck_assert_int_eq(mf_exists(out), rc == MF_OK);
        ck_assert_msg(!mf_exists(beside), "%s", call);
    }
    ck_assert(renamed);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gguf");
    TCase *c = tcase_create("export");
    tcase_add_test(c, golden);
    tcase_add_test(c, set);
    tcase_add_test(c, stored);
    tcase_add_test(c, factors);
    tcase_add_test(c, architectures);
    tcase_add_test(c, windows);
    tcase_add_test(c, dense_blocks_at_the_beginning);
    tcase_add_test(c, rounded_ramp);
    tcase_add_test(c, tokenizers);
    tcase_add_test(c, unused_id);
    tcase_add_test(c, without_a_tokenizer);
    tcase_add_test(c, misuse);
    tcase_add_test(c, failures_at_the_end);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
