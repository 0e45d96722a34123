/* folders: imports and exports of small folders that are made here. The tests check which
 * folders are refused, with which message, and which files remain, and weights that stay
 * packed, are upcycled, or are quantized. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "pretrained/beside.h"
#include "pretrained/export_run.h"
#include "pretrained/folder.h"
#include "pretrained/import.h"
#include "pretrained/quantize/quantize.h"
#include "pretrained/record.h"
#include "pretrained/tokens.h"
#include "tests/lib/models.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/load.h"

enum { PATH = 1024 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* Checks that a call failed with this code and message. */
static void failed(int rc, int code, const char *fmt, ...) MF_PRINTF(3, 4);
static void failed(int rc, int code, const char *fmt, ...)
{
    char expected[2 * PATH];
    va_list args;
    va_start(args, fmt);
    vsnprintf(expected, sizeof expected, fmt, args);
    va_end(args);
    ck_assert_msg(rc == code, "%d, expected %d and: %s", rc, code, expected);
    ck_assert_str_eq(mf_error_message(), expected);
}

static int import_as(const char *folder, const char *upcycle, const char *run)
{
    mf_import_report r = {0};
    const mf_import_options o = {.upcycle = upcycle};
    const int rc = mf_import(folder, &o, run, &r);
    mf_free(r.run);
    return rc;
}

static void import(const char *folder, const char *run)
{
    mf_remove_tree(run);
    must(import_as(folder, NULL, run));
}

static const char *in(const char *folder, const char *file)
{
    static char path[4][PATH];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, PATH, "%s/%s", folder, file);
    return p;
}

static void write_text(const char *path, const char *text)
{
    scratch_write(path, text, strlen(text));
}

/* Replaces a text in a file. The text must occur in the file. */
static void replace(const char *path, const char *old, const char *new)
{
    size_t n;
    char *text = scratch_read(path, &n), *whole = malloc(n + strlen(new) + 1);
    ck_assert_ptr_nonnull(text);
    text = realloc(text, n + 1);
    text[n] = '\0';
    char *at = strstr(text, old);
    ck_assert_msg(at != NULL, "%s: no '%s'", path, old);
    sprintf(whole, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    write_text(path, whole);
    free(text);
    free(whole);
}

/* ---- folders that are refused ---- */

#define ENDED                                                                                  \
    {                                                                                          \
        NULL, MF_ST_F32, 0,                                                                    \
        {                                                                                      \
            0                                                                                  \
        }                                                                                      \
    }

static const models_tensor half[] = {{"model.norm.weight", MF_ST_F32, 1, {16}}, ENDED},
                           none[] = {{"x", MF_ST_F32, 1, {4}}, ENDED};

/* Two files with the same tensor, an index with a tensor that is in no file, and a file that is
 * not a JSON object. */
START_TEST(files_that_do_not_agree)
{
    const char *folder = scratch_path("model"), *run = scratch_path("new");
    models_llama(folder, 16, "", NULL);
    must(mf_io()->rename(in(folder, "model.safetensors"), in(folder, "a.safetensors")));
    models_file(in(folder, "b.safetensors"), half);
    const char *index = in(folder, "model.safetensors.index.json");
    write_text(index, "{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}}");
    failed(import_as(folder, NULL, run), MF_EINPUT,
           "%s: tensor 'model.norm.weight' is in a.safetensors and in b.safetensors", folder);
    models_file(in(folder, "a.safetensors"), none);
    write_text(index, "{\"weight_map\":{\"x\":\"a.safetensors\",\"model.norm.weight\":"
                      "\"b.safetensors\",\"z\":\"b.safetensors\"}}");
    failed(import_as(folder, NULL, run), MF_EINPUT, "%s: tensor 'z' is not in b.safetensors",
           in(folder, "model.safetensors.index.json"));
    write_text(in(folder, "config.json"), "[]");
    failed(import_as(folder, NULL, run), MF_EINPUT, "%s: expected an object",
           in(folder, "config.json"));
    ck_assert(!mf_exists(run));
}
END_TEST

/* Reads an index of n tensors. With `files` each tensor has a file of its own, else there are
 * no files. The tensors are in order, which is faster. */
static int read_index(int n, bool files)
{
    mf_arena *arena = mf_arena_new();
    char *text = malloc((size_t)n * 32 + 64);
    const mf_json *map;
    const char **names;
    mf_json *doc;
    int32_t found;
    size_t at = (size_t)sprintf(text, "{\"weight_map\":{");
    for (int i = 0; i < n; i++)
        at += (size_t)(files ? sprintf(text + at, "\"%06x\":\"%x.safetensors\",", i, i)
                             : sprintf(text + at, "\"%06x\":0,", i));
    at += (size_t)sprintf(text + at - 1, "}}") - 1;
    const int rc = mf_folder_read_index("index", text, at, arena, &doc, &map, &names, &found);
    mf_json_free(doc);
    mf_arena_free(arena);
    free(text);
    return rc;
}

START_TEST(indexes_that_are_too_long)
{
    must(read_index(4096, true));
    failed(read_index(4097, true), MF_EINPUT, "index: expected at most 4096 shards");
    failed(read_index(MF_ST_TENSORS_MAX + 1, false), MF_EINPUT,
           "index: expected at most 1048576 tensors, found 1048577");
}
END_TEST

START_TEST(checksums_of_a_file_that_is_gone)
{
    const char *folder = scratch_path("model"), *run = scratch_path("new");
    models_llama(folder, 16, "", NULL);
    write_text(in(folder, "checksums.xxh128"), "0123456789abcdef0123456789abcdef  gone\n");
    failed(import_as(folder, NULL, run), MF_EINPUT,
           "%s: there is no such file, but %s names it", in(folder, "gone"),
           in(folder, "checksums.xxh128"));
}
END_TEST

/* config.json declares the head tied, but its values differ from the embedding. The run
 * directory existed before, and must be empty again afterwards. */
START_TEST(an_import_that_fails_leaves_the_directory_empty)
{
    const char *folder = scratch_path("model"), *run = scratch_path("there");
    char **names;
    int n;
    models_llama(folder, 16, ",\"tie_word_embeddings\":true", NULL);
    mf_remove_tree(run);
    must(mf_mkdirs(run));
    failed(import_as(folder, NULL, run), MF_EINPUT,
           "%s: tensor 'lm_head.weight' differs from the embedding, but config.json says that "
           "they are tied",
           folder);
    must(mf_list_dir(run, &names, &n));
    for (int i = 0; i < n; i++)
        ck_assert_msg(strcmp(names[i], ".lock") == 0, "%s is left", names[i]);
    mf_list_free(names, n);
}
END_TEST

/* A run without a given name gets the name of the folder, also if the path ends with
 * a slash. */
START_TEST(a_slash_behind_the_folder)
{
    char here[PATH];
    mf_import_report r = {0};
    ck_assert(getcwd(here, sizeof here) != NULL);
    ck_assert_int_eq(chdir(scratch_dir()), 0);
    models_llama("small", 16, "", NULL);
    const int rc = mf_import("small//", NULL, NULL, &r);
    ck_assert_int_eq(chdir(here), 0);
    must(rc);
    ck_assert_str_eq(r.run, "runs/small-1");
    mf_free(r.run);
}
END_TEST

/* ---- values ---- */

/* The logits of a run for a few tokens. The caller frees them. */
static float *logits_of(const char *run, size_t *ret_n)
{
    static const int64_t ids[] = {1, 2, 3, 15, 0, 7}, shape[] = {2, 3};
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    const char *tokens = scratch_path("tokens.safetensors"), *path = scratch_path("out");
    mf_st_writer *w = mf_st_writer_new();
    mf_session *s = NULL;
    mf_st_file *f = NULL;
    mf_tokens t;
    int64_t step;
    double loss;
    remove(tokens);
    remove(path);
    must(mf_st_writer_add(w, "input_ids", MF_ST_I64, 2, shape));
    must(mf_st_writer_begin(w, tokens));
    must(mf_st_writer_put(w, ids, sizeof ids));
    must(mf_st_writer_end(w, false));
    mf_st_writer_free(w);
    must(mf_load_run_as(run, &o, &change, &s, &step));
    must(mf_tokens_read(tokens, s, &t));
    must(mf_tokens_save(s, &t, path, &loss));
    mf_tokens_free(&t);
    mf_session_close(s);
    must(mf_st_open(path, &f));
    const mf_st_tensor *logits = mf_st_find(f, "logits");
    ck_assert_ptr_nonnull(logits);
    float *values = malloc((size_t)logits->bytes);
    must(mf_st_read(f, logits, values, (size_t)logits->bytes));
    *ret_n = (size_t)logits->count;
    mf_st_close(f);
    return values;
}

static void compare_logits(const char *a, const char *b, double most)
{
    size_t n, m;
    float *x = logits_of(a, &n), *y = logits_of(b, &m);
    ck_assert_uint_eq(n, m);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)x[i] - (double)y[i]) <= most, "logit %zu: %g and %g", i,
                      (double)x[i], (double)y[i]);
    free(x);
    free(y);
}

/* Experts in MXFP4 that are read in their stored form compute the same as their copies in f32,
 * and an export contains the same bytes. */
START_TEST(experts_of_four_bits)
{
    const char *folder = scratch_path("oss"), *mapped = scratch_path("mapped"),
               *copied = scratch_path("copied"), *out = scratch_path("back");
    const mf_export_options as_it_is = {.adapters = MF_EXPORT_MERGED};
    const mf_import_options copy = {.copy = true};
    mf_import_report r = {0};
    int64_t n;
    models_gpt_oss(folder);
    mf_remove_tree(mapped);
    mf_remove_tree(copied);
    mf_remove_tree(out);
    must(mf_import(folder, NULL, mapped, &r));
    /* only matrices: embedding, head, attention, router, and 4 x (64 + 32) x 32 of experts */
    ck_assert_int_eq(r.stored, 2 * 16 * 32 + 4 * 32 * 32 + 4 * 32 + 4 * 96 * 32);
    mf_free(r.run);
    must(mf_import(folder, &copy, copied, &r));
    ck_assert_int_eq(r.stored, 0);
    mf_free(r.run);
    compare_logits(mapped, copied, 1e-4);
    must(mf_export_hf(mapped, out, &as_it_is, &n));
    size_t a, b;
    char *x = scratch_read(in(folder, "model.safetensors"), &a),
         *y = scratch_read(in(out, "model.safetensors"), &b);
    ck_assert(a == b && memcmp(x, y, a) == 0);
    free(x);
    free(y);
    failed(mf_export_hf(mapped, out, &as_it_is, &n), MF_EUSAGE,
           "%s: exists already; expected a new folder", out);
}
END_TEST

/* Experts that are copies of a SwiGLU block; settings that do not fit the dense model. */
START_TEST(upcycling)
{
    const char *folder = scratch_path("model"), *dense = scratch_path("dense"),
               *experts = scratch_path("experts");
    char text[512], x[301];
    models_llama(folder, 16, "", NULL);
    import(folder, dense);
    mf_remove_tree(experts);
    must(import_as(folder, "experts=2,top_k=1", experts));
    size_t n;
    char *config = scratch_read(in(experts, "config.ini"), &n);
    ck_assert(memmem(config, n, "plugin = swiglu", strlen("plugin = swiglu")) != NULL);
    free(config);
    compare_logits(dense, experts, 1e-4);
    mf_remove_tree(experts);
    failed(import_as(folder, "experts=2,top_k=1,expert.hidden=8", experts), MF_EUSAGE,
           "--upcycle: the dense model has no values for layers.0.expert.w13");
    memset(x, 'x', sizeof x - 1);
    x[sizeof x - 1] = '\0';
    snprintf(text, sizeof text, "experts=2,top_k=1,report.title=%s", x);
    failed(import_as(folder, text, experts), MF_EUSAGE,
           "--upcycle: 'report.title=%.51s': too long for a setting", x);
    ck_assert(!mf_exists(experts));
}
END_TEST

/* A dense model in which half of the blocks have biases. Either its experts get these biases,
 * or it is refused. */
START_TEST(upcycling_with_biases)
{
    const char *source = getenv("srcdir"), *dense = scratch_path("dense"),
               *experts = scratch_path("experts");
    char folder[PATH];
    snprintf(folder, sizeof folder, "%s/tests/golden/pretrained/families/llama/hf",
             source ? source : ".");
    import(folder, dense);
    mf_remove_tree(experts);
    must(import_as(folder, "experts=3,top_k=2", experts));
    compare_logits(dense, experts, 1e-4);
    mf_remove_tree(experts);
    failed(import_as(folder, "experts=3,top_k=2,expert.bias=no", experts), MF_EUSAGE,
           "--upcycle: the experts have no place for layers.0.ffn.b1 of the dense model");
    failed(import_as(folder, "experts=3,top_k=2,expert.plugin=lora_experts", experts),
           MF_EUSAGE,
           "--upcycle: lora_experts of the form swiglu have no biases, and the dense model has "
           "them (model.ffn_bias)");
    ck_assert(!mf_exists(experts));
}
END_TEST

/* Matrices with a side of 12, which 8 does not divide, are left unchanged and counted. A model
 * with no other matrices is an error. */
START_TEST(matrices_that_cannot_be_quantized)
{
    static const mf_assignment no_data = {"data.path=none", "test"};
    const char *folder = scratch_path("model"), *run = scratch_path("run"),
               *new = scratch_path("int4");
    char with_slash[PATH], path[PATH];
    mf_quantize_options o = {.bits = 4, .group = 8, .n_set = 1, .set = &no_data, .run = path};
    mf_quantize_report *r = NULL;
    models_llama(folder, 12, "", NULL);
    import(folder, run);
    snprintf(with_slash, sizeof with_slash, "%s//", run);
    snprintf(path, sizeof path, "%s/", new);
    mf_remove_tree(new);
    must(mf_quantize(with_slash, &o, &r));
    ck_assert_str_eq(r->run, new);
    ck_assert_int_eq(strncmp(r->folder, new, strlen(new)), 0);
    ck_assert_str_eq(r->folder + strlen(new), ".hf");
    ck_assert(r->quantized == 4 && r->left == 3);
    mf_quantize_report_free(r);
    const char *source = getenv("srcdir");
    import(in(source ? source : ".", "tests/golden/pretrained/gpt2/hf"), run);
    o.run = scratch_path("none");
    failed(mf_quantize(run, &o, &r), MF_EUSAGE,
           "there is no weight that few bits can say: matrices of blocks that lie alone in a "
           "tensor, with sides that 8 divides");
    ck_assert(!mf_exists(o.run));
}
END_TEST

/* 17 texts of 2^20 positions would be more than 2^24 positions. */
START_TEST(too_many_positions)
{
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    const char *source = getenv("srcdir"), *run = scratch_path("run"),
               *lines = scratch_path("lines");
    mf_session *s = NULL;
    mf_tokens t;
    int64_t step;
    import(in(source ? source : ".", "tests/golden/pretrained/gpt2/hf"), run);
    must(mf_load_run_as(run, &o, &change, &s, &step));
    s->config->model.seq = 1 << 20;
    write_text(lines, "a\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\na\n");
    failed(mf_tokens_read_lines(lines, s, 0, 1 << 20, &t), MF_EINPUT,
           "%s: expected at most 16777216 positions in all, found 17 x 1048576", lines);
    mf_session_close(s);
}
END_TEST

/* ---- records ---- */

START_TEST(ledgers_that_are_refused)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"[]", "an array \"shards\""},
        {"{\"shards\":[]}", "an array \"shards\""},
        {"{\"shards\":[{\"file\":\"../a\"}]}", "shards with names of files"},
        {"{\"shards\":[{\"tensors\":[]}]}", "shards with names of files"},
        {"{\"shards\":[{\"file\":\"a\",\"tensors\":[{\"name\":\"x\",\"shape\":[1]}]}]}",
         "tensors with name, dtype and shape"},
        {"{\"shards\":[{\"file\":\"a\",\"tensors\":[{\"name\":\"x\",\"dtype\":\"F32\","
         "\"shape\":[1,1,1,1,1,1,1,1,1]}]}]}",
         "tensors with name, dtype and shape"},
        {"{\"shards\":[{\"file\":\"a\",\"tensors\":[{\"name\":\"x\",\"dtype\":\"F32\","
         "\"shape\":[-1]}]}]}",
         "shapes of whole numbers"},
        {"{\"shards\":[{\"file\":\"a\",\"tensors\":[{\"name\":\"x\",\"dtype\":\"F32\","
         "\"shape\":[281474976710656,2]}]}]}",
         "shapes of whole numbers"},
    };
    const char *folder = scratch_path("model"), *run = scratch_path("run");
    mf_record *r = NULL;
    models_llama(folder, 16, "", NULL);
    import(folder, run);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(in(run, "pretrained/ledger.json"), cases[i].text);
        failed(mf_record_open(run, &r), MF_EINPUT, "%s: expected %s",
               in(run, "pretrained/ledger.json"), cases[i].why);
        ck_assert_ptr_null(r);
    }
}
END_TEST

/* The base run of another run was removed, and its record with it. This is an error only if the
 * record is needed. */
START_TEST(a_base_that_is_gone)
{
    const char *folder = scratch_path("model"), *base = scratch_path("base"),
               *run = scratch_path("child");
    mf_record *r = NULL;
    models_llama(folder, 16, "", NULL);
    import(folder, base);
    models_run_from(base, 0, NULL, run);
    must(mf_record_open(run, &r));
    ck_assert_ptr_nonnull(r);
    mf_record_free(r);
    mf_remove_tree(base);
    must(mf_record_open(run, &r));
    ck_assert_ptr_null(r);
    ck_assert_str_eq(mf_error_message(), "");
    failed(mf_record_need(run, &r), MF_EINPUT,
           "%s: the run that it began with, %s, is no longer there, and with it the record of "
           "the folder that was imported",
           run, base);
}
END_TEST

/* ---- exports ---- */

/* The values of a tensor that belongs to no parameter are kept in a file of the record. */
START_TEST(a_skipped_tensor_that_is_lost)
{
    static const models_tensor more[] = {
        {"model.layers.0.self_attn.rotary_emb.inv_freq", MF_ST_F32, 1, {4}}, ENDED};
    const mf_export_options as_it_is = {.adapters = MF_EXPORT_MERGED};
    const char *folder = scratch_path("model"), *run = scratch_path("run"),
               *out = scratch_path("lost");
    int64_t n;
    models_llama(folder, 16, "", more);
    import(folder, run);
    ck_assert_int_eq(remove(in(run, "pretrained/skipped.safetensors")), 0);
    failed(mf_export_hf(run, out, &as_it_is, &n), MF_EINPUT,
           "%s: tensor 'model.layers.0.self_attn.rotary_emb.inv_freq' is missing",
           in(run, "pretrained/skipped.safetensors"));
    ck_assert(!mf_exists(out));
}
END_TEST

/* A model with one prediction more than its family has cannot be exported. If a block has
 * another router than the family, mf_export_router returns the family's router. */
START_TEST(models_that_a_family_cannot_say)
{
    static const char *const task[] = {"task.mood.task=classify"};
    const mf_export_options as_it_is = {.adapters = MF_EXPORT_MERGED};
    const char *folder = scratch_path("model"), *base = scratch_path("base"),
               *run = scratch_path("child"), *out = scratch_path("none");
    char *text = NULL;
    int64_t n;
    models_bert(folder);
    import(folder, base);
    models_run_from(base, 1, task, run);
    failed(mf_export_hf(run, out, &as_it_is, &n), MF_EINPUT,
           "[task.mood] cannot be said in the form of bert");
    models_gpt_oss(folder);
    import(folder, base);
    must(mf_export_router(base, &text));
    ck_assert_ptr_null(text);
    replace(in(base, "config.ini"), "plugin = linear", "plugin = mlp");
    must(mf_export_router(base, &text));
    ck_assert_str_eq(text, "linear:bias=yes");
    mf_free(text);
}
END_TEST

/* ---- folders that get their name when they are complete ---- */

static int make_file(void *arg, const char *to)
{
    write_text(in(to, "file"), "text");
    return arg ? mf_mkdirs(arg) : MF_OK; /* another program makes the folder in the meantime */
}

START_TEST(folders_that_are_there)
{
    const char *folder = scratch_path("written");
    char with_slash[PATH], beside[PATH];
    snprintf(with_slash, sizeof with_slash, "%s/", folder);
    snprintf(beside, sizeof beside, "%s.tmp", folder);
    must(mf_write_beside(with_slash, make_file, NULL));
    ck_assert(mf_exists(in(folder, "file")) && !mf_exists(beside));
    failed(mf_write_beside(folder, make_file, NULL), MF_EUSAGE,
           "%s: exists already; expected a new folder", folder);
    mf_remove_tree(folder);
    must(mf_mkdirs(beside));
    failed(mf_write_beside(folder, make_file, NULL), MF_EUSAGE,
           "%s: exists already; remove it if it is left of an export that was stopped, or name "
           "another folder",
           beside);
    ck_assert(mf_is_dir(beside) && !mf_exists(folder));
    mf_remove_tree(beside);
    failed(mf_write_beside(folder, make_file, (void *)(uintptr_t)folder), MF_EIO,
           "%s: cannot rename to %s: File exists", beside, folder);
    ck_assert(!mf_exists(beside) && !mf_exists(in(folder, "file")));
}
END_TEST

/* ---- layers that differ ---- */

#define MIXTRAL "tests/golden/pretrained/mixtral/hf"
enum { SHARDS = 5, TENSORS = 128 };

/* Writes the folder of the golden Mixtral without one expert of layer 1: without its weights
 * and its row of the router. The experts after it have the next lower number. */
static void prune(const char *folder, int expert)
{
    static const char gate[] = "model.layers.1.block_sparse_moe.gate.weight",
                      experts[] = "model.layers.1.block_sparse_moe.experts.";
    mf_st_file *file[SHARDS];
    const mf_st_tensor *from[TENSORS], *t;
    const mf_st_file *of[TENSORS];
    char name[256], shard[128], data[1 << 17];
    mf_st_writer *w = mf_st_writer_new();
    size_t n, count = 0;
    mf_remove_tree(folder);
    must(mf_mkdirs(folder));
    char *config = scratch_read(in(getenv("srcdir"), MIXTRAL "/config.json"), &n);
    scratch_write(in(folder, "config.json"), config, n);
    free(config);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(shard, sizeof shard, MIXTRAL "/model-%05d-of-%05d.safetensors", i + 1, SHARDS);
        must(mf_st_open(in(getenv("srcdir"), shard), &file[i]));
        for (size_t j = 0; j < mf_st_count(file[i]); j++) {
            t = mf_st_at(file[i], j);
            int64_t shape[2] = {t->shape[0], t->rank > 1 ? t->shape[1] : 1};
            const bool of_expert = strncmp(t->name, experts, sizeof experts - 1) == 0;
            const int e = of_expert ? atoi(t->name + sizeof experts - 1) : -1;
            if (e == expert) continue;
            snprintf(name, sizeof name, "%s", t->name);
            if (e > expert)
                snprintf(name, sizeof name, "%s%d%s", experts, e - 1,
                         strchr(t->name + sizeof experts - 1, '.'));
            if (strcmp(name, gate) == 0) shape[0]--;
            must(mf_st_writer_add(w, name, t->dtype, t->rank, shape));
            from[count] = t;
            of[count++] = file[i];
        }
    }
    must(mf_st_writer_begin(w, in(folder, "model.safetensors")));
    const mf_st_tensor *due;
    for (size_t at; (due = mf_st_writer_due(w, &at)) != NULL;) {
        t = from[at];
        ck_assert_uint_le(t->bytes, sizeof data);
        must(mf_st_read(of[at], t, data, (size_t)t->bytes));
        if (strcmp(due->name, gate) == 0) {
            const size_t row = (size_t)t->bytes / 8;
            memmove(data + (size_t)expert * row, data + (size_t)(expert + 1) * row,
                    (size_t)(7 - expert) * row);
        }
        must(mf_st_writer_put(w, data, (size_t)due->bytes));
    }
    must(mf_st_writer_end(w, false));
    mf_st_writer_free(w);
    for (int i = 0; i < SHARDS; i++)
        mf_st_close(file[i]);
}

/* Returns an expert of layer 1 that no token of the first sequence of logits_of has chosen.
 * Three tokens choose two experts each. */
static int unused_expert(void)
{
    mf_st_file *f = NULL;
    bool used[8] = {false};
    int32_t chosen[2 * 3 * 2]; /* sequences, tokens, choices */
    must(mf_st_open(scratch_path("out"), &f));
    const mf_st_tensor *t = mf_st_find(f, "moe.1.expert");
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(t->bytes, sizeof chosen);
    must(mf_st_read(f, t, chosen, sizeof chosen));
    for (int i = 0; i < 3 * 2; i++)
        if (chosen[i] >= 0) used[chosen[i]] = true;
    mf_st_close(f);
    for (int e = 0; e < 8; e++)
        if (!used[e]) return e;
    return -1;
}

/* Without an expert of the last layer that no token of a sequence chooses, a model with gates
 * that sum to 1 has the same logits there. */
START_TEST(a_block_with_fewer_experts)
{
    static const char section[] = "[block.experts7]\nlayers = 1\nexperts = 7\n";
    const char *folder = scratch_path("pruned"), *whole = scratch_path("whole"),
               *run = scratch_path("run"), *out = scratch_path("back");
    const mf_export_options as_it_is = {.adapters = MF_EXPORT_MERGED};
    size_t n;
    int64_t written;
    import(in(getenv("srcdir"), MIXTRAL), whole);
    float *before = logits_of(whole, &n);
    const int expert = unused_expert();
    ck_assert_int_ge(expert, 0);
    prune(folder, expert);
    import(folder, run);
    char *config = scratch_read(in(run, "config.ini"), &n);
    ck_assert(memmem(config, n, section, sizeof section - 1) != NULL);
    free(config);
    float *after = logits_of(run, &n);
    for (size_t i = 0; i < n / 2; i++)
        ck_assert_msg(fabs((double)before[i] - (double)after[i]) <= 1e-5, "logit %zu: %g, %g",
                      i, (double)before[i], (double)after[i]);
    free(before);
    free(after);
    mf_remove_tree(out);
    failed(mf_export_hf(run, out, &as_it_is, &written), MF_EINPUT,
           "block.experts7.experts = 7 cannot be said in the form of mixtral: its config.json "
           "means 8");
    /* if no block has the number of config.json, the file is wrong */
    replace(in(folder, "config.json"), "\"num_local_experts\": 8", "\"num_local_experts\": 6");
    mf_remove_tree(run);
    ck_assert_int_eq(import_as(folder, NULL, run), MF_EINPUT);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("folders");
    TCase *t = tcase_create("folders");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, files_that_do_not_agree);
    tcase_add_test(t, indexes_that_are_too_long);
    tcase_add_test(t, checksums_of_a_file_that_is_gone);
    tcase_add_test(t, an_import_that_fails_leaves_the_directory_empty);
    tcase_add_test(t, a_slash_behind_the_folder);
    tcase_add_test(t, experts_of_four_bits);
    tcase_add_test(t, upcycling);
    tcase_add_test(t, upcycling_with_biases);
    tcase_add_test(t, matrices_that_cannot_be_quantized);
    tcase_add_test(t, too_many_positions);
    tcase_add_test(t, ledgers_that_are_refused);
    tcase_add_test(t, a_base_that_is_gone);
    tcase_add_test(t, a_skipped_tensor_that_is_lost);
    tcase_add_test(t, models_that_a_family_cannot_say);
    tcase_add_test(t, folders_that_are_there);
    tcase_add_test(t, a_block_with_fewer_experts);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
