/* adapters/peft_read.c: reads an adapter folder.
 *
 * Every tensor must be used, and every key that changes what the adapter computes must be one
 * that lora can follow. Shapes are compared with the model before values are read. */
#include "pretrained/adapters/peft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "pretrained/weights/values.h"

enum { CONFIG_MAX = 16 << 20, FITS_MAX = 8 };

static const char prefix[] = "base_model.model.", end_a[] = ".lora_A.weight",
                  end_b[] = ".lora_B.weight", nested[] = ".base_layer";

typedef struct reader {
    const char *config_path, *weights_path;
    mf_json *config;
    mf_st_file *file;
    const mf_peft_module *modules;
    int n_modules;
    mf_arena *arena;
    mf_peft *out;
    int version; /* 1000 major + minor of PEFT; 0: unknown */
} reader;

/* ---- adapter_config.json ---- */

/* Whether a key is there and neither null, false, nor empty. */
static bool is_set(const mf_json *config, const char *key)
{
    const mf_json *v = mf_json_get(config, key);
    bool on = false;
    switch (mf_json_typeof(v)) {
    case MF_JSON_NULL:
        return false;
    case MF_JSON_BOOL:
        return mf_json_bool(v, &on) && on;
    case MF_JSON_ARRAY:
    case MF_JSON_OBJECT:
        return mf_json_size(v) > 0;
    default:
        return true;
    }
}

static int judge_config(const reader *x)
{
    static const char *const refused[] = {
        "use_dora",         "lora_bias",     "use_qalora",         "use_bdlora",
        "modules_to_save",  "arrow_config",  "layer_replication",  "trainable_token_indices",
        "alora_invocation_tokens", NULL};
    static const char *const starts[] = {"pissa", "olora", "corda", "loftq", NULL};
    const char *type = mf_json_string(mf_json_get(x->config, "peft_type"), NULL),
               *bias = mf_json_string(mf_json_get(x->config, "bias"), NULL),
               *start = mf_json_string(mf_json_get(x->config, "init_lora_weights"), NULL);
    if (!type || strcmp(type, "LORA") != 0)
        return mf_fail(MF_EINPUT, "%s: peft_type: expected LORA, found %s", x->config_path,
                       type ? type : "nothing");
    if (bias && strcmp(bias, "none") != 0)
        return mf_fail(MF_EINPUT, "%s: bias: expected none, found %s", x->config_path, bias);
    for (int i = 0; refused[i]; i++)
        if (is_set(x->config, refused[i]))
            return mf_fail(MF_EINPUT, "%s: %s cannot be imported; expected none or false",
                           x->config_path, refused[i]);
    for (int i = 0; start && starts[i]; i++)
        if (strncmp(start, starts[i], strlen(starts[i])) == 0)
            return mf_fail(MF_EINPUT,
                           "%s: init_lora_weights = %s changes the weights of the model, too; "
                           "expected an adapter that was converted to plain LoRA",
                           x->config_path, start);
    return MF_OK;
}

static int read_config(reader *x)
{
    char *text = NULL;
    size_t n = 0;
    int rc = mf_read_file(x->config_path, CONFIG_MAX, &text, &n);
    if (rc == MF_ENOTFOUND)
        rc = mf_fail(MF_EINPUT, "%s: there is no such file", x->config_path);
    if (rc == MF_OK) rc = mf_json_parse(x->config_path, text, n, &x->config);
    mf_free(text);
    if (rc == MF_OK) rc = judge_config(x);
    if (rc != MF_OK) return rc;
    const char *version = mf_json_string(mf_json_get(x->config, "peft_version"), NULL);
    int major, minor;
    if (version && sscanf(version, "%4d.%3d", &major, &minor) == 2 && major >= 0 && minor >= 0)
        x->version = 1000 * major + minor;
    const double dropout = mf_json_real_or_nan(x->config, "lora_dropout");
    x->out->dropout = dropout > 0 && dropout < 1 ? dropout : 0;
    return MF_OK;
}

/* Whether a key of a pattern means a module: its whole name, or its last parts. */
static bool means(const char *key, const char *module)
{
    const size_t n = strlen(module), m = strlen(key);
    if (m > n || strcmp(module + n - m, key) != 0) return false;
    return m == n || module[n - m - 1] == '.';
}

/* The alpha of a module: of alpha_pattern, else lora_alpha. */
static int read_alpha(const reader *x, const mf_peft_module *m, double *ret)
{
    const mf_json *patterns = mf_json_get(x->config, "alpha_pattern"), *v;
    const char *key;
    *ret = mf_json_real_or_nan(x->config, "lora_alpha");
    for (size_t i = 0; mf_json_member(patterns, i, &key, &v); i++) {
        const char *plain = key[0] == '^' ? key + 1 : key;
        char whole[1024];
        snprintf(whole, sizeof whole, "%s.%s", m->name, m->parameter ? m->parameter : "");
        if (strpbrk(plain, "*+?()[]{}|\\$^"))
            return mf_fail(MF_EINPUT,
                           "%s: alpha_pattern '%s': expected the end of a module's name, not a "
                           "regular expression",
                           x->config_path, key);
        if (!means(plain, m->name) && !means(plain, whole)) continue;
        if (!mf_json_real(v, ret)) *ret = (double)NAN;
        break;
    }
    if (!isfinite(*ret) || *ret < 0 || *ret > 1e6)
        return mf_fail(MF_EINPUT, "%s: lora_alpha of %s: expected a number from 0 to 1000000",
                       x->config_path, m->name);
    return MF_OK;
}

/* ---- tensors ---- */

/* A way in which a pair of tensors may be a module's change. */
typedef struct fit {
    const mf_peft_module *module;
    bool swapped; /* A and B have the sizes of each other */
} fit;

static int find_fits(const reader *x, const char *module, const mf_st_tensor *a,
                     const mf_st_tensor *b, fit out[FITS_MAX], bool *ret_known)
{
    int n = 0;
    *ret_known = false;
    for (int i = 0; i < x->n_modules && n + 2 <= FITS_MAX; i++) {
        const mf_peft_module *m = &x->modules[i];
        if (strcmp(m->name, module) != 0) continue;
        *ret_known = true;
        const int64_t E = m->fused ? m->experts : 1;
        if (a->shape[0] != b->shape[1] || a->shape[0] % E != 0 || a->shape[0] < E) continue;
        if (a->shape[1] == m->inputs && b->shape[0] == m->rows.n) out[n++] = (fit){m, false};
        if (m->fused && !m->transposed && a->shape[1] == m->rows.n && b->shape[0] == m->inputs)
            out[n++] = (fit){m, true};
    }
    return n;
}

static int choose(const reader *x, const char *name, const char *module, const mf_st_tensor *a,
                  const mf_st_tensor *b, fit *ret)
{
    fit fits[FITS_MAX], kept[FITS_MAX];
    bool known;
    int n = find_fits(x, module, a, b, fits, &known), n_kept = 0;
    if (!known)
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': the model has no linear layer '%s' that an adapter "
                       "can change",
                       x->weights_path, name, module);
    if (n == 0)
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': shapes [%lld,%lld] and [%lld,%lld] of A and B do not "
                       "fit the model",
                       x->weights_path, name, (long long)a->shape[0], (long long)a->shape[1],
                       (long long)b->shape[0], (long long)b->shape[1]);
    if (n > 1 && x->version == 0)
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': its shape does not tell which side is the input; "
                       "expected a key peft_version in " MF_PEFT_CONFIG,
                       x->weights_path, name);
    for (int i = 0; i < n; i++)
        if (n == 1 || fits[i].swapped == (x->version < 19)) kept[n_kept++] = fits[i];
    if (n_kept != 1)
        return mf_fail(MF_EINPUT, "%s: tensor '%s' may belong to several parameters",
                       x->weights_path, name);
    *ret = kept[0];
    return MF_OK;
}

static int read_values(const reader *x, const mf_st_tensor *t, float **ret)
{
    static const mf_family_rule rule = {"", "", MF_PART_ALL, 0, NULL};
    const mf_place place = {
        .rule = &rule, .rank = 1, .size = {(int64_t)t->count}, .stride = {1}};
    if (t->dtype != MF_ST_F32 && t->dtype != MF_ST_F16 && t->dtype != MF_ST_BF16)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected F32, F16 or BF16, found %s",
                       x->weights_path, t->name, t->dtype_name);
    const mf_source from = {.form = MF_FORM_PLAIN, .file = {x->file}, .tensor = {t}};
    float *v = mf_alloc((size_t)t->count, sizeof *v);
    *ret = v;
    return v ? mf_values_read(&from, &place, (float *const[2]){v, NULL}) : MF_ENOMEM;
}

/* Orders values by expert: A [E,rank,in] and B [E,out,rank]. */
static int arrange(const reader *x, const fit *f, const float *ta, const float *tb,
                   mf_low_rank *c)
{
    const int64_t E = c->experts, r = c->rank, in = c->inputs, out = c->rows.n;
    float *a = mf_arena_alloc(x->arena, (size_t)(E * r * in) * sizeof *a),
          *b = mf_arena_alloc(x->arena, (size_t)(E * r * out) * sizeof *b);
    if (!a || !b) return MF_ENOMEM;
    for (int64_t e = 0; e < E; e++)
        for (int64_t i = 0; i < r; i++) {
            const float *rows = ta + (e * r + i) * (f->swapped ? out : in);
            for (int64_t k = 0; k < in; k++)
                a[(e * r + i) * in + k] = f->swapped ? tb[(k * r + i) * E + e] : rows[k];
            for (int64_t o = 0; o < out; o++)
                b[(e * out + o) * r + i] = f->swapped ? rows[o] : tb[(o * r + i) * E + e];
        }
    c->a = a;
    c->b = b;
    return MF_OK;
}

static int add(reader *x, const fit *f, const mf_st_tensor *a, const mf_st_tensor *b)
{
    float *ta = NULL, *tb = NULL;
    const mf_peft_module *m = f->module;
    mf_peft_change *c = &x->out->changes[x->out->n];
    bool rslora = false;
    mf_json_bool(mf_json_get(x->config, "use_rslora"), &rslora);
    *c = (mf_peft_change){.module = m};
    c->change = (mf_low_rank){.rows = m->rows,
                              .experts = m->experts,
                              .inputs = m->inputs,
                              .rank = a->shape[0] / (m->fused ? m->experts : 1),
                              .rslora = rslora};
    for (int i = 0; i < x->out->n; i++)
        if (x->out->changes[i].module == m)
            return mf_fail(MF_EINPUT, "%s: tensor '%s': another pair has the same place",
                           x->weights_path, a->name);
    if (c->change.rank > 65536)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected a rank of at most 65536",
                       x->weights_path, a->name);
    int rc = read_alpha(x, m, &c->change.alpha);
    if (rc == MF_OK) rc = read_values(x, a, &ta);
    if (rc == MF_OK) rc = read_values(x, b, &tb);
    if (rc == MF_OK) rc = arrange(x, f, ta, tb, &c->change);
    mf_free(ta);
    mf_free(tb);
    x->out->n += rc == MF_OK;
    return rc;
}

static bool cut_end(char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    if (n <= m || strcmp(name + n - m, end) != 0) return false;
    name[n - m] = '\0';
    return true;
}

static int read_pair(reader *x, const mf_st_tensor *a)
{
    char name[MF_ST_NAME_MAX], other[MF_ST_NAME_MAX + 16];
    fit f = {0};
    snprintf(name, sizeof name, "%s", a->name);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
        (!cut_end(name, end_a) && !cut_end(name, end_b)))
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s' is unknown: expected %sMODULE%s or MODULE%s",
                       x->weights_path, a->name, prefix, end_a, end_b);
    snprintf(other, sizeof other, "%s%s", name, end_a);
    const mf_st_tensor *first = mf_st_find(x->file, other);
    snprintf(other, sizeof other, "%s%s", name, end_b);
    const mf_st_tensor *b = mf_st_find(x->file, other);
    if (!first || !b)
        return mf_fail(MF_EINPUT, "%s: tensor '%s' has no partner", x->weights_path, a->name);
    if (first != a) return MF_OK; /* B, which is read with its A */
    if (a->rank != 2 || b->rank != 2)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected two dimensions", x->weights_path,
                       a->rank != 2 ? a->name : b->name);
    while (cut_end(name, nested))
        ;
    int rc = choose(x, a->name, name + sizeof prefix - 1, a, b, &f);
    return rc == MF_OK ? add(x, &f, a, b) : rc;
}

static int read_tensors(reader *x)
{
    const size_t n = mf_st_count(x->file);
    int rc = MF_OK;
    x->out->changes = mf_arena_alloc(x->arena, (n + 1) * sizeof *x->out->changes);
    if (!x->out->changes) return MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < n; i++)
        rc = read_pair(x, mf_st_at(x->file, i));
    if (rc == MF_OK && x->out->n == 0)
        rc = mf_fail(MF_EINPUT, "%s: there is no tensor in it", x->weights_path);
    return rc;
}

int mf_peft_read(const char *folder, const mf_peft_module *modules, int n, mf_arena *arena,
                 mf_peft *ret)
{
    *ret = (mf_peft){0};
    reader x = {.config_path = mf_arena_strf(arena, "%s/" MF_PEFT_CONFIG, folder),
                .weights_path = mf_arena_strf(arena, "%s/" MF_PEFT_WEIGHTS, folder),
                .modules = modules,
                .n_modules = n,
                .arena = arena,
                .out = ret};
    int rc = x.config_path && x.weights_path ? read_config(&x) : MF_ENOMEM;
    if (rc == MF_OK && !mf_exists(x.weights_path))
        rc = mf_fail(MF_EINPUT, "%s: there is no such file", x.weights_path);
    if (rc == MF_OK) rc = mf_st_open(x.weights_path, &x.file);
    if (rc == MF_OK) rc = read_tensors(&x);
    mf_st_close(x.file);
    mf_json_free(x.config);
    return rc;
}
