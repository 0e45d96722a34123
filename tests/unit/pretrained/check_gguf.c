/* pretrained/gguf: exported files are those that llama.cpp's converter wrote of the same
 * folders. tests/golden/pretrained/gguf has the lines of two of its files; MOEFW_PRETRAINED may
 * name a set with nine of them, in ggsrc/ and gguf/. MOEFW_GGUF_RECORD=FOLDER writes the lines
 * of a set's files. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/import.h"
#include "tests/lib/gguf.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

enum { PATH = 1024 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* Imports a folder and exports it; returns the code of the export. */
static int convert(const char *folder, mf_st_dtype dtype, const char *name, char out[PATH])
{
    mf_import_report report;
    char run[PATH], *path = NULL;
    const mf_export_options o = {.dtype = dtype};
    snprintf(run, sizeof run, "%s/run", scratch_dir());
    snprintf(out, PATH, "%s/%s.gguf", scratch_dir(), name);
    must(mf_remove_tree(run));
    remove(out);
    must(mf_import(folder, run, &report));
    mf_free(report.run);
    const int rc = mf_export_gguf(run, out, &o, &path);
    if (rc == MF_OK) ck_assert_str_eq(path, out);
    mf_free(path);
    return rc;
}

/* Keys that the converter writes otherwise: names, sizes in words, and scores that are all the
 * same, with which programs would merge in another order than the tokenizer. */
static bool is_other(const char *line)
{
    static const char *const keys[] = {
        "general.name = ", "general.size_label = ", "tokenizer.ggml.add_eos_token = ",
        "tokenizer.ggml.add_sep_token = ", "tokenizer.ggml.scores = "};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0) return true;
    return false;
}

/* Copies the lines of a text that count. */
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

/* Stored types stay; queries and keys have the rows i and i + half of a head by turns. */
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
                for (int i = 0; i < 16; i++) { /* heads of 16 rows of 64 values */
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

/* Copies the committed Mixtral to another folder, with one line of config.json replaced. */
static void variant(const char *old, const char *new, char out[PATH])
{
    char from[PATH], path[2 * PATH], **names;
    int n;
    snprintf(from, sizeof from, "%s/tests/golden/pretrained/mixtral/hf", getenv("srcdir"));
    snprintf(out, PATH, "%s/variant", scratch_dir());
    must(mf_remove_tree(out));
    must(mf_mkdirs(out));
    must(mf_list_dir(from, &names, &n));
    for (int i = 0; i < n; i++) {
        size_t size;
        snprintf(path, sizeof path, "%s/%s", from, names[i]);
        char *text = scratch_read(path, &size), *at;
        snprintf(path, sizeof path, "%s/%s", out, names[i]);
        if (strcmp(names[i], "config.json") == 0) {
            ck_assert((at = strstr(text, old)) != NULL);
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

/* Llama 3's factors (Meta 2024): a pair that makes less than `low` turns in the original length
 * is slowed by the factor, one of more than `high` is not, and between them is a line. */
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

static Suite *suite(void)
{
    Suite *s = suite_create("gguf");
    TCase *c = tcase_create("export");
    tcase_add_test(c, golden);
    tcase_add_test(c, set);
    tcase_add_test(c, stored);
    tcase_add_test(c, factors);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
