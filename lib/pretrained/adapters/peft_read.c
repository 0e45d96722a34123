/* adapters/peft_read.c: reads an adapter folder.
 *
 * Every tensor must be used. Every key that changes what the adapter computes must be supported
 * by lora. Shapes are compared with the model before values are read. */
#include "pretrained/adapters/peft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "pretrained/adapters/pattern.h"
#include "pretrained/adapters/targets.h"
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
    const mf_record *record;
    const mf_store *store;
    mf_arena *arena;
    mf_peft *out;
    int version;               /* version of PEFT as 1000 major + minor; 0: unknown */
    int64_t ignored;           /* number of tensor pairs whose module the configuration does
                                * not select */
    const char *first_ignored; /* name of the A of the first such pair */
} reader;

/* ---- adapter_config.json ---- */

/* Whether a key exists and is neither null, false, nor empty. */
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
    static const char *const refused[] = {"use_dora",
                                          "lora_bias",
                                          "use_qalora",
                                          "use_bdlora",
                                          "modules_to_save",
                                          "arrow_config",
                                          "layer_replication",
                                          "trainable_token_indices",
                                          "alora_invocation_tokens",
                                          NULL};
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

/* Returns the number that a pattern assigns to a module: the first key that matches it decides.
 * If none matches, the key of all modules is used. The name of a parameter is the name of its
 * module, followed by the parameter's name. NaN: no number. */
static int pattern_or(const reader *x, const mf_peft_module *m, const char *pattern,
                      const char *usual, double *ret)
{
    const mf_json *patterns = mf_json_get(x->config, pattern), *v;
    const char *key;
    char whole[MF_PATTERN_TEXT], where[4096];
    bool means = false;
    snprintf(whole, sizeof whole, "%s%s%s", m->name, m->parameter ? "." : "",
             m->parameter ? m->parameter : "");
    snprintf(where, sizeof where, "%s: %s", x->config_path, pattern);
    *ret = mf_json_real_or_nan(x->config, usual);
    for (size_t i = 0; !means && mf_json_member(patterns, i, &key, &v); i++) {
        const int rc = mf_pattern_means(where, key, whole, &means);
        if (rc != MF_OK) return rc;
        if (means && !mf_json_real(v, ret)) *ret = (double)NAN;
    }
    return MF_OK;
}

static int read_alpha(const reader *x, const mf_peft_module *m, double *ret)
{
    const int rc = pattern_or(x, m, "alpha_pattern", "lora_alpha", ret);
    if (rc != MF_OK) return rc;
    if (!isfinite(*ret) || *ret < 0 || *ret > 1e6)
        return mf_fail(MF_EINPUT, "%s: lora_alpha of %s: expected a number from 0 to 1000000",
                       x->config_path, m->name);
    return MF_OK;
}

/* Checks that the rank of the tensors equals the rank in the configuration, by which
 * PEFT divides. */
static int judge_rank(const reader *x, const mf_peft_module *m, int64_t rank, const char *name)
{
    double said;
    const int rc = pattern_or(x, m, "rank_pattern", "r", &said);
    if (rc != MF_OK || isnan(said) || said == (double)rank) return rc;
    return mf_fail(MF_EINPUT, "%s: tensor '%s' has rank %lld, but " MF_PEFT_CONFIG " says %g",
                   x->weights_path, name, (long long)rank, said);
}

/* ---- tensors ---- */

/* One way in which a pair of tensors may be the change of a module. */
typedef struct fit {
    const mf_peft_module *module;
    bool swapped; /* A has the size of B, and B has the size of A */
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

static int judge_type(const reader *x, const mf_st_tensor *t)
{
    if (t->dtype == MF_ST_F32 || t->dtype == MF_ST_F16 || t->dtype == MF_ST_BF16) return MF_OK;
    return mf_fail(MF_EINPUT, "%s: tensor '%s': expected F32, F16 or BF16, found %s",
                   x->weights_path, t->name, t->dtype_name);
}

static int read_values(const reader *x, const mf_st_tensor *t, float **ret)
{
    static const mf_family_rule rule = {"", "", MF_PART_ALL, 0, NULL};
    const mf_place place = {
        .rule = &rule, .rank = 1, .size = {(int64_t)t->count}, .stride = {1}};
    const int rc = judge_type(x, t);
    if (rc != MF_OK) return rc;
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
    int rc = judge_rank(x, m, c->change.rank, a->name);
    if (rc == MF_OK) rc = read_alpha(x, m, &c->change.alpha);
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

/* Compares a weight of the base, which PEFT saves beside adapters of embedding and head. It
 * must have the values of the base. *ret_is: whether the tensor is such a weight. */
static int compare_base(const reader *x, const mf_st_tensor *t, bool *ret_is)
{
    static const char end[] = ".weight";
    char name[MF_ST_NAME_MAX], found[MF_ST_NAME_MAX];
    *ret_is = false;
    if (!x->record) return MF_OK;
    const mf_family *f = x->record->family;
    snprintf(name, sizeof name, "%s", t->name);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || !cut_end(name, end)) return MF_OK;
    cut_end(name, nested);
    const char *module = name + sizeof prefix - 1;
    if (f->prefix && strncmp(module, f->prefix, strlen(f->prefix)) == 0)
        module += strlen(f->prefix);
    for (const mf_family_rule *r = f->rules; r->theirs; r++) {
        const size_t n = strlen(module);
        mf_place p;
        bool same = false;
        if (!r->ours || strchr(r->theirs, '{') || strncmp(r->theirs, module, n) != 0 ||
            strcmp(r->theirs + n, end) != 0)
            continue;
        const int found_rc = mf_place_find(&x->record->keys, r, x->store, 0, 0, &p, found);
        if (found_rc != MF_OK || !p.param) continue;
        for (int d = 0; d < p.rank; d++)
            if (t->rank != p.rank || t->shape[d] != p.size[d])
                return mf_fail(MF_EINPUT,
                               "%s: tensor '%s' has another shape than that of the base",
                               x->weights_path, t->name);
        const mf_source from = {.form = MF_FORM_PLAIN, .file = {x->file}, .tensor = {t}};
        float *const values[2] = {mf_values_of(p.param), NULL};
        int rc = values[0] ? judge_type(x, t) : MF_ENOMEM;
        if (rc == MF_OK) rc = mf_values_compare(&from, &p, values, &same);
        if (rc == MF_OK && !same)
            rc = mf_fail(
                MF_EINPUT,
                "%s: tensor '%s' differs from the weight of the base: expected the base "
                "that the adapter was trained on, or an adapter that changes no weights",
                x->weights_path, t->name);
        *ret_is = true;
        return rc;
    }
    return MF_OK;
}

static int read_pair(reader *x, const mf_st_tensor *a)
{
    bool base;
    const int base_rc = compare_base(x, a, &base);
    if (base_rc != MF_OK || base) return base_rc;
    char name[MF_ST_NAME_MAX], other[MF_ST_NAME_MAX + 16];
    fit f = {0};
    snprintf(name, sizeof name, "%s", a->name);
    if (strstr(name, ".lora_embedding_"))
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s' is LoRA on an embedding, which is not read: expected "
                       "LoRA on linear layers; model.merge_and_unload().save_pretrained("
                       "'FOLDER') of PEFT writes a model folder with all changes, which is",
                       x->weights_path, a->name);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
        (!cut_end(name, end_a) && !cut_end(name, end_b)))
        return mf_fail(MF_EINPUT, "%s: tensor '%s' is unknown: expected %sMODULE%s or MODULE%s",
                       x->weights_path, a->name, prefix, end_a, end_b);
    snprintf(other, sizeof other, "%s%s", name, end_a);
    const mf_st_tensor *first = mf_st_find(x->file, other);
    snprintf(other, sizeof other, "%s%s", name, end_b);
    const mf_st_tensor *b = mf_st_find(x->file, other);
    if (!first || !b)
        return mf_fail(MF_EINPUT, "%s: tensor '%s' has no partner", x->weights_path, a->name);
    if (first != a) return MF_OK; /* a B, which is read together with its A */
    if (a->rank != 2 || b->rank != 2)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected two dimensions", x->weights_path,
                       a->rank != 2 ? a->name : b->name);
    while (cut_end(name, nested))
        ;
    bool meant = true;
    int rc = choose(x, a->name, name + sizeof prefix - 1, a, b, &f);
    if (rc == MF_OK) rc = mf_peft_targets(x->config_path, x->config, f.module, &meant);
    if (rc == MF_OK && !meant && x->ignored++ == 0) x->first_ignored = a->name;
    return rc == MF_OK && meant ? add(x, &f, a, b) : rc;
}

/* Logs which tensors were not read; PEFT does not read them either. MF_EINPUT if no tensor
 * was read. */
static int judge_ignored(const reader *x)
{
    static const char keys[] = "target_modules, exclude_modules, layers_to_transform and "
                               "target_parameters";
    if (x->out->n == 0 && x->ignored > 0)
        return mf_fail(MF_EINPUT,
                       "%s: %s mean none of the modules of " MF_PEFT_WEIGHTS
                       ", as that of '%s'",
                       x->config_path, keys, x->first_ignored);
    if (x->out->n == 0)
        return mf_fail(MF_EINPUT, "%s: there is no tensor in it", x->weights_path);
    if (x->ignored > 0)
        mf_log(MF_LOG_WARN,
               "%s: %lld pair%s of tensors ignored, as '%s': " MF_PEFT_CONFIG
               " does not mean their modules (%s), so PEFT does not load them",
               x->weights_path, (long long)x->ignored, x->ignored == 1 ? "" : "s",
               x->first_ignored, keys);
    return MF_OK;
}

static int read_tensors(reader *x)
{
    const size_t n = mf_st_count(x->file);
    int rc = MF_OK;
    x->out->changes = mf_arena_alloc(x->arena, (n + 1) * sizeof *x->out->changes);
    if (!x->out->changes) return MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < n; i++)
        rc = read_pair(x, mf_st_at(x->file, i));
    return rc == MF_OK ? judge_ignored(x) : rc;
}

int mf_peft_read(const char *folder, const mf_record *record, const mf_store *store,
                 const mf_peft_module *modules, int n, mf_arena *arena, mf_peft *ret)
{
    *ret = (mf_peft){0};
    reader x = {.config_path = mf_arena_strf(arena, "%s/" MF_PEFT_CONFIG, folder),
                .weights_path = mf_arena_strf(arena, "%s/" MF_PEFT_WEIGHTS, folder),
                .modules = modules,
                .n_modules = n,
                .record = record,
                .store = store,
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
