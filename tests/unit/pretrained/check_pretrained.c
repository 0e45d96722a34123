/* pretrained: imported models compute the same as transformers with the same weights (golden
 * values), and an export restores the folder. The committed folders are
 * tests/golden/pretrained. MOEFW_PRETRAINED may name a set with more of them, in tiny/ and
 * stories/, and MOEFW_DRAWS further sets. Each folder is a test of its own. The test's
 * message contains the differences of logits and of hidden states after the first and the
 * last block. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include <moefw/run.h>
#include "data/safetensors/safetensors.h"
#include "pretrained/family.h"
#include "pretrained/import.h"
#include "pretrained/tokens.h"
#include "pretrained/weights/values.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/load.h"

/* for logits up to 5.5, as in tiny/; rounding errors grow with the logits */
#define LOGITS_BOUND 5e-5
#define SMALL_BOUND  1e-5
#define NORM_BOUND   1e-4 /* relative */

enum { PATH = 1024 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* A folder of golden values: hf/, golden.safetensors, golden.json. */
typedef struct golden {
    char folder[PATH], hf[PATH + 32], values[PATH + 32];
    mf_json *json;
    mf_st_file *file;
} golden;

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

static void open_golden(golden *g, const char *folder)
{
    char path[PATH + 32];
    snprintf(g->folder, sizeof g->folder, "%s", folder);
    snprintf(g->hf, sizeof g->hf, "%s/hf", folder);
    snprintf(g->values, sizeof g->values, "%s/golden.safetensors", folder);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    g->json = read_json(path);
    must(mf_st_open(g->values, &g->file));
}

static void close_golden(golden *g)
{
    mf_json_free(g->json);
    mf_st_close(g->file);
}

/* All values of a tensor as doubles; NULL: the tensor is missing. The caller frees them. */
static double *values_of(const mf_st_file *f, const char *name, uint64_t *ret_n)
{
    const mf_st_tensor *t = mf_st_find(f, name);
    if (!t) return NULL;
    void *raw = malloc(t->bytes + 1);
    double *out = malloc((t->count + 1) * sizeof *out);
    must(mf_st_read(f, t, raw, t->bytes));
    for (uint64_t i = 0; i < t->count; i++)
        out[i] = t->dtype == MF_ST_F32   ? (double)((float *)raw)[i]
                 : t->dtype == MF_ST_I32 ? (double)((int32_t *)raw)[i]
                                         : (double)((int64_t *)raw)[i];
    free(raw);
    *ret_n = t->count;
    return out;
}

/* The largest difference at real tokens; -1 if the tensor is missing in one of the files. */
static double largest(const golden *g, const mf_st_file *ours, const char *name)
{
    uint64_t n = 0, m = 0, tokens = 0;
    double *a = values_of(g->file, name, &n), most = 0;
    if (!a) return -1;
    double *b = values_of(ours, name, &m);
    double *mask = values_of(g->file, "attention_mask", &tokens);
    ck_assert_msg(b != NULL, "%s: no tensor %s", mf_st_path(ours), name);
    ck_assert_msg(n == m, "%s: sizes", name);
    /* Tensors with fewer numbers than tokens have no padding. */
    for (uint64_t i = 0; i < n; i++)
        if (!mask || n < tokens || mask[i / (n / tokens)] != 0)
            most = fmax(most, fabs(a[i] - b[i]));
    free(a);
    free(b);
    free(mask);
    return most;
}

/* ---- forward ---- */

/* The largest value of a tensor, at least 1. */
static double scale_of(const mf_st_file *f, const char *name)
{
    uint64_t n = 0;
    double *x = values_of(f, name, &n), most = 1;
    for (uint64_t i = 0; x && i < n; i++)
        most = fmax(most, fabs(x[i]));
    free(x);
    return most;
}

static void compare_layers(const golden *g, const mf_st_file *ours, int layers)
{
    char name[64];
    for (int l = 0; l < layers; l++) {
        snprintf(name, sizeof name, "moe.%d.expert", l);
        ck_assert_msg(largest(g, ours, name) <= 0, "%s: %s differs", g->folder, name);
        snprintf(name, sizeof name, "moe.%d.gate", l);
        /* If gates are scaled by a factor (16 in one case), their rounding errors are
         * scaled, too. */
        const double gate = largest(g, ours, name) / scale_of(g->file, name);
        ck_assert_msg(gate <= SMALL_BOUND, "%s: %s differs by %g", g->folder, name, gate);
    }
}

/* The largest difference from `exact` at the positions of `exact`, for logits of
 * one sequence. */
static double from_exact(const mf_st_file *exact, const mf_st_file *f)
{
    uint64_t n = 0, m = 0, all = 0;
    double *at = values_of(exact, "position", &n), *e = values_of(exact, "logits", &m),
           *x = values_of(f, "logits", &all), most = 0;
    ck_assert(at && e && x && n > 0 && m % n == 0);
    for (uint64_t i = 0; i < m; i++) {
        const uint64_t from = (uint64_t)at[i / (m / n)] * (m / n) + i % (m / n);
        ck_assert(from < all);
        most = fmax(most, fabs(x[from] - e[i]));
    }
    free(at);
    free(e);
    free(x);
    return most;
}

/* Golden logits of stories/ differ from f64 by up to 7.6e-5 (bench/exact_stories.py). So they
 * are compared with f64, and the bound is derived from rounding. With sums in double (kernels
 * `ref`) only values in memory are rounded to f32. Their error is 2.5e-5; LOGITS_BOUND is the
 * bound for this in other tests. A gemm in f32 rounds each partial sum of its chain of n
 * multiply-adds. Partial sums are random walks. The sum of their squares is n / 2 times the
 * square of the last one, so the error is sqrt(n / 2) times the error of one rounding. n is 64
 * in all gemms of a block except one. The logits of transformers must meet the bound, too. */
#define EXACT_BOUND (2.5e-5 * 5.66) /* sqrt(64 / 2) */

static void compare_exact(const golden *g, const mf_st_file *ours)
{
    const char *source = getenv("srcdir"), *kernels = getenv("MOEFW_KERNELS");
    char path[PATH];
    mf_st_file *exact = NULL;
    if (!strstr(g->folder, "/stories/")) return;
    snprintf(path, sizeof path, "%s/tests/golden/pretrained/stories/exact.safetensors",
             source ? source : ".");
    must(mf_st_open(path, &exact));
    const double we = from_exact(exact, ours), they = from_exact(exact, g->file),
                 bound = kernels && !strcmp(kernels, "ref") ? LOGITS_BOUND : EXACT_BOUND;
    printf("# %s: %.2g from f64, transformers in f32 %.2g\n", g->folder, we, they);
    ck_assert_msg(we <= bound, "%s: %g from f64, at most %g", g->folder, we, bound);
    ck_assert_msg(they <= EXACT_BOUND, "%s: golden %g from f64", g->folder, they);
    mf_st_close(exact);
}

static void compare_forward(const golden *g, mf_session *s, const mf_tokens *t)
{
    const char *path = scratch_path("ours.safetensors");
    mf_st_file *ours = NULL;
    double loss;
    remove(path);
    must(mf_tokens_save(s, t, path, &loss));
    must(mf_st_open(path, &ours));
    const double logits = largest(g, ours, "logits"), first = largest(g, ours, "hidden.first"),
                 last = largest(g, ours, "hidden.last"),
                 expected = mf_json_real_or_nan(g->json, "loss");
    printf("# %s: logits differ by %.2g, hidden states by %.2g and %.2g, the loss by %.2g\n",
           g->folder, logits, first, last, fabs(loss - expected));
    const double bound = LOGITS_BOUND * fmax(1, scale_of(g->file, "logits") / 5.5);
    ck_assert_msg(logits >= 0 && logits <= bound,
                  "%s: logits differ by %g (hidden states: first block %g, last block %g)",
                  g->folder, logits, first, last);
    ck_assert_msg(isnan(expected) || fabs(loss - expected) <= SMALL_BOUND,
                  "%s: loss %.8g, expected %.8g", g->folder, loss, expected);
    compare_layers(g, ours, (int)s->config->model.layers);
    compare_exact(g, ours);
    mf_st_close(ours);
}

/* The import declares the family's auxiliary loss as a regularizer. */
static void compare_auxiliary(const golden *g, mf_session *s, const mf_tokens *t)
{
    const double expected = mf_json_real_or_nan(g->json, "aux_loss");
    const mf_model_shape shape = {
        .mode = MF_MODE_EVAL, .batch = t->rows, .seq = t->width, .masked = t->masked};
    const mf_run plain = {.forward_only = true};
    mf_model_graph *mg = NULL;
    float value = 0;
    if (isnan(expected) || s->model->n_moe == 0) return;
    const char *type = mf_json_string(mf_json_get(g->json, "model_type"), NULL);
    /* this loss counts another choice than the model makes, so output_router_logits
     * is refused */
    if (type && (strcmp(type, "minimax_m2") == 0 || strcmp(type, "phimoe") == 0)) return;
    ck_assert_int_eq(s->config->n_regularizers, 1);
    must(mf_model_graph_new(s->model, &shape, &mg));
    mf_batch_feed(t->batch, mg);
    must(mf_graph_run(mg->g, &plain));
    must(mf_tensor_read(mg->regularizers[0], &value, 0, sizeof value));
    ck_assert_msg(fabs((double)value - expected) <= SMALL_BOUND,
                  "%s: auxiliary loss %.8g, expected %.8g", g->folder, (double)value, expected);
    mf_model_graph_free(mg);
}

/* ---- backward ---- */

/* The values of a tensor. In a folder with more than the text model its name has another
 * beginning than in the golden values, which are those of the text model. */
static double *values_in_whole(const mf_st_file *f, const char *name, uint64_t *ret_n)
{
    char other[256];
    double *x = values_of(f, name, ret_n);
    if (x) return x;
    snprintf(other, sizeof other, "language_model.%.200s", name);
    if ((x = values_of(f, other, ret_n))) return x;
    snprintf(other, sizeof other, "model.language_model.%.200s", strchr(name, '.') + 1);
    return values_of(f, other, ret_n);
}

/* The norm of a tensor without the elements begin .. end. These are skipped because torch
 * computes no gradient for the embedding of the padding token, even if it occurs as a
 * real token. */
static double norm_of(const mf_st_file *f, const char *name, uint64_t begin, uint64_t end)
{
    uint64_t n = 0;
    double *x = values_in_whole(f, name, &n), sum = 0;
    char old[256];
    const char *norm = strstr(name, "LayerNorm.");
    if (!x && norm) { /* the golden values use the newer names */
        const int stem = (int)(norm + strlen("LayerNorm.") - name);
        snprintf(old, sizeof old, "%.*s%s", stem, name,
                 strcmp(name + stem, "weight") == 0 ? "gamma" : "beta");
        x = values_of(f, old, &n);
    }
    ck_assert_msg(x != NULL, "no gradient of %s", name);
    for (uint64_t i = 0; i < n; i++)
        if (i < begin || i >= end) sum += x[i] * x[i];
    free(x);
    return sqrt(sum);
}

/* The keys of the text model in a config.json. */
static const mf_json *text_keys(const mf_json *config)
{
    const mf_json *text = mf_json_get(config, "text_config");
    return text ? text : config;
}

/* Whether the padding token occurs as a real token of the text. Then, if the embedding is also
 * the head, torch leaves the text's tokens out of the gradient of the embedding, and the head's
 * part out of that row. */
static bool has_padding_token(const golden *g)
{
    char path[PATH + 64];
    uint64_t n = 0, m = 0;
    int64_t row = -1;
    bool has = false;
    snprintf(path, sizeof path, "%s/config.json", g->hf);
    mf_json *config = read_json(path);
    mf_json_int(mf_json_get(text_keys(config), "pad_token_id"), &row);
    double *ids = values_of(g->file, "input_ids", &n),
           *mask = values_of(g->file, "attention_mask", &m);
    for (uint64_t i = 0; ids && row >= 0 && i < n; i++)
        has = has || ((!mask || mask[i] != 0) && ids[i] == (double)row);
    free(ids);
    free(mask);
    mf_json_free(config);
    return has;
}

/* The row of the padding token in an embedding that is not the head; -1: none. */
static int64_t padding_row(const golden *g)
{
    char path[PATH + 64];
    int64_t row = -1;
    snprintf(path, sizeof path, "%s/config.json", g->hf);
    mf_json *config = read_json(path);
    const char *type = mf_json_string(mf_json_get(config, "model_type"), NULL);
    bool tied = true;
    mf_json_bool(mf_json_get(config, "tie_word_embeddings"), &tied);
    if (((!type || strcmp(type, "bert") != 0) && tied) ||
        !mf_json_int(mf_json_get(text_keys(config), "pad_token_id"), &row))
        row = -1;
    mf_json_free(config);
    return row;
}

static bool has_fused_experts(const mf_st_file *f)
{
    bool fused = false;
    for (size_t i = 0; i < mf_st_count(f); i++)
        fused = fused || strstr(mf_st_at(f, i)->name, ".experts.gate_up_proj");
    return fused;
}

static void compare_backward(const golden *g, const char *run, mf_session *s,
                             const mf_tokens *t)
{
    const char *path = scratch_path("gradients.safetensors"), *key;
    const mf_json *norms = mf_json_get(g->json, "grad_norm"), *value;
    mf_st_file *ours = NULL;
    double loss, worst = 0;
    remove(path);
    must(mf_tokens_gradients(s, run, t, path, &loss));
    must(mf_st_open(path, &ours));
    for (size_t i = 0; mf_json_member(norms, i, &key, &value); i++) {
        double expected = 0;
        ck_assert(mf_json_real(value, &expected));
        /* Not compared: state of a router, which is not trained by gradient here, and
         * parameters that do not affect the logits. */
        if (strstr(key, "e_score_correction_bias") || strstr(key, ".expert_bias") ||
            strstr(key, ".indexer."))
            continue;
        /* the golden values have a norm for each expert, and this file one tensor for all */
        if (strstr(key, ".experts.") && has_fused_experts(ours)) continue;
        if (s->config->model.tie_embeddings && strstr(key, "embed_tokens") &&
            has_padding_token(g))
            continue;
        /* The gradient of biases of keys is only rounding error, because these biases shift all
         * scores alike. */
        const double least = expected < 1e-6 ? 1e-2 : 1e-3;
        const int64_t row =
            strstr(key, "word_embeddings") || strstr(key, "embed_tokens") ? padding_row(g) : -1;
        const uint64_t dim = (uint64_t)s->config->model.dim, at = row < 0 ? 0 : (uint64_t)row;
        const double found = norm_of(ours, key, at * dim, (at + (row >= 0)) * dim),
                     apart = fabs(found - expected) / fmax(expected, least);
        worst = fmax(worst, apart);
        ck_assert_msg(apart <= NORM_BOUND, "%s: gradient of %s: norm %.7g, expected %.7g",
                      g->folder, key, found, expected);
    }
    printf("# %s: norms of gradients differ by %.2g at most, relative\n", g->folder, worst);
    mf_st_close(ours);
}

/* ---- generation ---- */

typedef struct ids {
    int32_t at[512];
    int n;
} ids;

static int collect(void *arg, const char *text, size_t n, int32_t token)
{
    ids *out = arg;
    (void)text;
    (void)n;
    if (token >= 0 && out->n < 512) out->at[out->n++] = token;
    return 0;
}

static int read_ids(const mf_json *list, int32_t *out, int most)
{
    int n = 0;
    for (; n < most && (size_t)n < mf_json_size(list); n++) {
        int64_t id = -1;
        ck_assert(mf_json_int(mf_json_at(list, (size_t)n), &id));
        out[n] = (int32_t)id;
    }
    return n;
}

/* Whether config.json says that the token ends a text. */
static bool ends_text(const golden *g, int32_t token)
{
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/config.json", g->hf);
    mf_json *config = read_json(path);
    const bool ends = mf_json_int_or_0(config, "eos_token_id") == token;
    mf_json_free(config);
    return ends;
}

/* The most probable tokens, one after another, must equal the golden values, up to the first
 * token that ends the text. */
static void compare_greedy(const golden *g, const char *run)
{
    const mf_json *greedy = mf_json_get(g->json, "greedy");
    int32_t prompt[512], expected[512];
    ids out = {.n = 0};
    moefw_sampling how = MOEFW_SAMPLING_INIT;
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    if (!greedy) return;
    /* If `greedy` is an array, it is the text after a begin token. */
    const bool one = mf_json_typeof(greedy) == MF_JSON_ARRAY;
    const int n = one ? read_ids(greedy, prompt, 1)
                      : read_ids(mf_json_get(greedy, "prompt"), prompt, 512);
    int m = read_ids(one ? greedy : mf_json_get(greedy, "tokens"), expected, 512);
    if (one) memmove(expected, expected + 1, (size_t)--m * sizeof *expected);
    how.temperature = 0;
    how.tokens = m;
    o.generate_only = 1;
    moefw_run *r = moefw_run_new();
    int rc = moefw_run_open(r, run, &o);
    if (rc == MF_OK) rc = moefw_run_generate_tokens(r, prompt, (size_t)n, &how, collect, &out);
    ck_assert_msg(rc == MF_OK, "%s", moefw_run_message(r));
    if (out.n < m && ends_text(g, expected[out.n])) m = out.n;
    ck_assert_int_eq(out.n, m);
    for (int i = 0; i < m; i++)
        ck_assert_msg(out.at[i] == expected[i], "%s: token %d is %d, expected %d", g->folder, i,
                      (int)out.at[i], (int)expected[i]);
    printf("# %s: %d likeliest tokens are equal\n", g->folder, m);
    moefw_run_free(r);
}

/* ---- export ---- */

static void compare_file(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    must(mf_read_file(a, 0, &x, &n));
    must(mf_read_file(b, 0, &y, &m));
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s and %s differ", a, b);
    mf_free(x);
    mf_free(y);
}

static void compare_tensors(const char *a, const char *b)
{
    mf_st_file *f = NULL, *e = NULL;
    must(mf_st_open(a, &f));
    must(mf_st_open(b, &e));
    ck_assert_uint_eq(mf_st_count(f), mf_st_count(e));
    for (size_t i = 0; i < mf_st_count(f); i++) {
        const mf_st_tensor *s = mf_st_at(f, i), *t = mf_st_find(e, s->name);
        ck_assert_msg(t && t->bytes == s->bytes && t->dtype == s->dtype && t->rank == s->rank,
                      "%s: %s", b, s->name);
        ck_assert(memcmp(s->shape, t->shape, sizeof s->shape) == 0);
        void *x = malloc(s->bytes + 1), *y = malloc(s->bytes + 1);
        must(mf_st_read(f, s, x, s->bytes));
        must(mf_st_read(e, t, y, s->bytes));
        ck_assert_msg(memcmp(x, y, s->bytes) == 0, "%s: %s differs", b, s->name);
        free(x);
        free(y);
    }
    mf_st_close(f);
    mf_st_close(e);
}

static void compare_export(const golden *g, const char *run)
{
    const char *out = scratch_path("export");
    char **names;
    int n;
    int64_t tensors;
    mf_remove_tree(out);
    const mf_export_options as_it_is = {.adapters = MF_EXPORT_MERGED};
    must(mf_export_hf(run, out, &as_it_is, &tensors));
    must(mf_list_dir(g->hf, &names, &n));
    for (int i = 0; i < n; i++) {
        char *a = mf_path_join(g->hf, names[i]), *b = mf_path_join(out, names[i]);
        if (strstr(names[i], ".safetensors") && !strstr(names[i], ".json"))
            compare_tensors(a, b);
        else
            compare_file(a, b);
        mf_free(a);
        mf_free(b);
    }
    mf_list_free(names, n);
}

/* If a folder is in the set formats, an export with a type has plain weights, and computes
 * the same values. */
static void compare_plain(const golden *g, const char *run)
{
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    const mf_export_options f32 = {.adapters = MF_EXPORT_MERGED, .dtype = MF_ST_F32};
    const char *folder = scratch_path("plain"), *again = scratch_path("again");
    mf_import_report report = {0};
    mf_session *s = NULL;
    mf_tokens t = {0};
    int64_t tensors, step;
    if (!strstr(g->folder, "/formats/")) return;
    mf_remove_tree(folder);
    mf_remove_tree(again);
    must(mf_export_hf(run, folder, &f32, &tensors));
    char *path = mf_path_join(folder, "model.safetensors"),
         *config = mf_path_join(folder, "config.json");
    mf_st_file *f = NULL;
    must(mf_st_open(path, &f));
    for (size_t i = 0; i < mf_st_count(f); i++)
        ck_assert_int_eq(mf_st_at(f, i)->dtype, MF_ST_F32);
    mf_st_close(f);
    mf_json *json = read_json(config);
    ck_assert_ptr_null(mf_json_get(json, "quantization_config"));
    mf_json_free(json);
    mf_free(path);
    mf_free(config);
    must(mf_import(folder, NULL, again, &report));
    must(mf_load_run_as(again, &o, &change, &s, &step));
    must(mf_tokens_read(g->values, s, &t));
    compare_forward(g, s, &t);
    mf_tokens_free(&t);
    mf_session_close(s);
    mf_free(report.run);
}

/* ---- cases ---- */

static bool has_family(const char *hf)
{
    char path[PATH + 64];
    const mf_family *family;
    snprintf(path, sizeof path, "%s/config.json", hf);
    mf_json *config = read_json(path);
    const bool known = mf_family_of(path, config, &family) == MF_OK;
    mf_json_free(config);
    return known;
}

static void check_folder(const char *folder)
{
    const char *run = scratch_path("run");
    const mf_session_options o = {.gradients = true, .no_data = true};
    const mf_load_change change = {.step = -1};
    mf_import_report report = {0};
    mf_session *s = NULL;
    mf_tokens t = {0};
    golden g;
    int64_t step;
    open_golden(&g, folder);
    if (has_family(g.hf)) {
        mf_remove_tree(run);
        must(mf_import(g.hf, NULL, run, &report));
        must(mf_load_run_as(run, &o, &change, &s, &step));
        must(mf_tokens_read(g.values, s, &t));
        compare_forward(&g, s, &t);
        compare_auxiliary(&g, s, &t);
        if (t.labelled) compare_backward(&g, run, s, &t);
        compare_greedy(&g, run);
        compare_export(&g, run);
        compare_plain(&g, run);
        mf_tokens_free(&t);
        mf_session_close(s);
        mf_free(report.run);
    } else {
        printf("# %s: skipped: no family\n", folder);
    }
    close_golden(&g);
}

/* ---- the folders ---- */

enum { FOLDERS_MAX = 256 };
static char *folders[FOLDERS_MAX];
static int n_folders;

/* Adds each folder of a set that contains a model. Returns the number of these folders. */
static int add_set(const char *set)
{
    char **names;
    int n, found = 0;
    if (!mf_is_dir(set) || mf_list_dir(set, &names, &n) != MF_OK) return 0;
    for (int i = 0; i < n; i++) {
        char *folder = mf_path_join(set, names[i]), *hf = mf_path_join(folder, "hf");
        if (mf_is_dir(hf) && n_folders < FOLDERS_MAX) {
            folders[n_folders++] = folder;
            folder = NULL;
            found++;
        }
        mf_free(hf);
        mf_free(folder);
    }
    mf_list_free(names, n);
    return found;
}

/* Name of a set without a folder; NULL: each set has one. */
static const char *empty;

static void add_part(const char *root, const char *part)
{
    char set[PATH];
    snprintf(set, sizeof set, "%s/%s", root, part);
    if (add_set(set) == 0) empty = root;
}

/* Finds the committed folders, those of the reference set, and those of draws. MOEFW_DRAWS
 * lists outputs of make_tiny.py, separated by blanks. */
static void find_folders(void)
{
    const char *source = getenv("srcdir"), *reference = getenv("MOEFW_PRETRAINED"),
               *draws = getenv("MOEFW_DRAWS");
    char one[PATH];
    add_part(source ? source : ".", "tests/golden/pretrained");
    add_part(source ? source : ".", "tests/golden/pretrained/families");
    add_part(source ? source : ".", "tests/golden/pretrained/formats");
    if (reference) add_part(reference, "tiny");
    if (reference) add_part(reference, "stories");
    for (const char *at = draws ? draws : ""; *at;) {
        const size_t n = strcspn(at, " ");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        if (n > 0) add_part(one, ".");
        at += n + (at[n] == ' ');
    }
}

START_TEST(folder)
{
    check_folder(folders[_i]);
}
END_TEST

/* A real decoder, and a mixture of experts with the same function, must continue for 200 tokens
 * like transformers: the ids are in greedy.json. */
START_TEST(stories)
{
    const char *reference = getenv("MOEFW_PRETRAINED"), *source = getenv("srcdir"),
               *run = scratch_path("run");
    static const char *const forms[] = {"llama", "mixtral"};
    if (!reference) return;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[PATH + 64];
        mf_import_report report = {0};
        golden g = {.json = NULL};
        snprintf(g.folder, sizeof g.folder, "%s/stories/%s", reference, forms[i]);
        snprintf(g.hf, sizeof g.hf, "%s/hf", g.folder);
        snprintf(path, sizeof path, "%s/tests/golden/pretrained/stories/greedy.json",
                 source ? source : ".");
        g.json = read_json(path);
        ck_assert_uint_eq(mf_json_size(mf_json_get(g.json, "greedy")), 201);
        mf_remove_tree(run);
        must(mf_import(g.hf, NULL, run, &report));
        compare_greedy(&g, run);
        mf_free(report.run);
        mf_json_free(g.json);
    }
}
END_TEST

START_TEST(sets)
{
    ck_assert_msg(!empty, "%s: no folder of golden values", empty ? empty : "");
    if (!getenv("MOEFW_PRETRAINED"))
        printf("# skipped: MOEFW_PRETRAINED names no reference set\n");
}
END_TEST

/* Each family has a committed folder, except BERT, whose golden values are in the
 * reference set. */
START_TEST(every_family)
{
    for (int i = 0; mf_families[i]; i++) {
        bool found = strcmp(mf_families[i]->name, "bert") == 0;
        for (int j = 0; j < n_folders; j++) {
            const char *slash = strrchr(folders[j], '/');
            found = found || (slash && strcmp(slash + 1, mf_families[i]->name) == 0);
        }
        ck_assert_msg(found, "%s: no folder of golden values (families/make.py)",
                      mf_families[i]->name);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pretrained");
    TCase *t = tcase_create("golden");
    tcase_set_timeout(t, 300);
    find_folders();
    tcase_add_test(t, sets);
    tcase_add_test(t, every_family);
    tcase_add_test(t, stories);
    tcase_add_loop_test(t, folder, 0, n_folders);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
