/* pretrained/keys_rope.c: the keys of rope, with the precedence of transformers 5.24. The
 * object is rope_scaling if it is not empty, else rope_parameters if it exists, else the
 * family's numbers. rope_theta in this object overrides the key beside it. A number that the
 * kind of scaling needs has no default, except original_max_position_embeddings. For this
 * number, the key beside the object overrides the key in the object. */
#include "pretrained/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/number.h"
#include "pretrained/folder.h"

enum { KEY_MAX = 96 };

typedef struct rope {
    mf_keys *k;
    const char *name;      /* name of the object, for messages */
    const mf_json *object; /* NULL: the family's numbers */
    const char *type;
} rope;

typedef enum found { FOUND_NOT, FOUND_NULL, FOUND } found;

static found find(const rope *r, const char *key, const mf_json **ret_v, const char **ret_usual)
{
    char name[KEY_MAX];
    *ret_usual = NULL;
    *ret_v = mf_json_get(r->object, key);
    if (*ret_v) return mf_json_typeof(*ret_v) == MF_JSON_NULL ? FOUND_NULL : FOUND;
    snprintf(name, sizeof name, "rope_parameters.%s", key);
    if (!r->object) *ret_usual = mf_keys_usual(r->k, name);
    return *ret_usual ? FOUND : FOUND_NOT;
}

/* Reads a number. absent: value if the key is missing; null: value if the key is null. */
static double number(const rope *r, const char *key, double absent, double null)
{
    const mf_json *v;
    const char *usual;
    double value;
    const found f = find(r, key, &v, &usual);
    if (f != FOUND) return f == FOUND_NULL ? null : absent;
    if (usual ? mf_parse_f64(usual, &value) : mf_json_real(v, &value)) return value;
    mf_keys_refuse(r->k, r->name, "%s: expected a number", key);
    return 1;
}

/* Reads a number that this kind of scaling requires. */
static double needed(const rope *r, const char *key)
{
    const mf_json *v;
    const char *usual;
    const found f = find(r, key, &v, &usual);
    if (f != FOUND)
        mf_keys_refuse(r->k, r->name,
                       "%s: expected a number, which rope_type %s needs, found %s", key,
                       r->type, f == FOUND_NULL ? "null" : "nothing");
    return number(r, key, 1, 1);
}

static bool truth(const rope *r, const char *key, bool absent)
{
    const mf_json *v;
    const char *usual;
    bool value;
    const found f = find(r, key, &v, &usual);
    if (f != FOUND) return f == FOUND_NOT && absent;
    if (usual ? mf_parse_bool(usual, &value) : mf_json_bool(v, &value)) return value;
    mf_keys_refuse(r->k, r->name, "%s: expected true or false", key);
    return absent;
}

/* Reads a text; NULL: it is missing. */
static const char *text(const rope *r, const char *key)
{
    const mf_json *v;
    const char *usual;
    const found f = find(r, key, &v, &usual);
    if (f == FOUND_NOT) return NULL;
    if (!usual && !(usual = mf_json_string(v, NULL)))
        mf_keys_refuse(r->k, r->name, "%s: expected a text", key);
    return usual ? usual : "";
}

/* Computes YaRN's magnitude for a scaling factor (Peng et al. 2023, eq. 24). s: multiplier of
 * its logarithm term. */
static double magnitude(double s, double factor)
{
    return factor <= 1 ? 1 : 0.1 * s * log(factor) + 1;
}

static void yarn(const rope *r, double factor, double original)
{
    mf_keys *k = r->k;
    const double scale = number(r, "mscale", 0, 0), all = number(r, "mscale_all_dim", 0, 0),
                 fast = number(r, "beta_fast", 32, 32), slow = number(r, "beta_slow", 1, 1);
    double attention = number(r, "attention_factor", -1, -1);
    if (attention == 0)
        mf_keys_refuse(k, r->name, "attention_factor: expected a number above 0");
    if (attention < 0 && scale != 0 && all != 0)
        attention = magnitude(scale, factor) / magnitude(all, factor);
    mf_keys_set(k, "model.rope_beta_fast=%.17g", fast != 0 ? fast : 32);
    mf_keys_set(k, "model.rope_beta_slow=%.17g", slow != 0 ? slow : 1);
    mf_keys_set(k, "model.rope_truncate=%s", truth(r, "truncate", true) ? "yes" : "no");
    mf_keys_set(k, "model.rope_magnitude=%.17g", attention > 0 ? attention : 0);
    mf_keys_set(k, "model.rope_original=%.17g", original);
}

static void llama3(const rope *r, double original)
{
    mf_keys_set(r->k, "model.rope_low=%.17g", needed(r, "low_freq_factor"));
    mf_keys_set(r->k, "model.rope_high=%.17g", needed(r, "high_freq_factor"));
    mf_keys_set(r->k, "model.rope_original=%.17g", original);
}

/* Returns the list `key` of numbers above 0; NULL: it was refused. */
static double *list(const rope *r, const char *key, int64_t *ret_n)
{
    const mf_json *v = mf_json_get(r->object, key);
    const size_t n = mf_json_typeof(v) == MF_JSON_ARRAY ? mf_json_size(v) : 0;
    double *out = mf_arena_alloc(r->k->arena, (n + 1) * sizeof *out);
    bool good = n > 0;
    if (!out) r->k->rc = MF_ENOMEM;
    for (size_t i = 0; out && good && i < n; i++)
        good = mf_json_real(mf_json_at(v, i), &out[i]) && out[i] > 0;
    if (!good) mf_keys_refuse(r->k, r->name, "%s: expected a list of numbers above 0", key);
    *ret_n = (int64_t)n;
    return good ? out : NULL;
}

/* LongRoPE (Ding et al. 2024): angles are divided by short_factor in sequences of up to the
 * original length, and by long_factor in longer ones. A run has one list, so it is for
 * sequences of up to the original length. */
static void longrope(const rope *r, double original)
{
    mf_keys *k = r->k;
    const mf_json *v;
    const char *usual;
    int64_t n, n_long;
    double *divisors = list(r, "short_factor", &n);
    list(r, "long_factor", &n_long);
    const double whole = (double)k->seq / original,
                 factor =
                     find(r, "factor", &v, &usual) == FOUND ? number(r, "factor", 1, 1) : whole,
                 grown = factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1,
                 attention = number(r, "attention_factor", grown, grown);
    if (!(attention > 0 && isfinite(attention)))
        mf_keys_refuse(k, r->name, "attention_factor: expected a number above 0");
    if (k->rc != MF_OK) return;
    for (int64_t i = 0; i < n; i++)
        divisors[i] = 1 / divisors[i];
    k->rope_factors = divisors;
    k->n_rope_factors = n;
    mf_keys_set(k, "model.rope_scaling=given");
    mf_keys_set(k, "model.rope_magnitude=%.17g", attention);
    mf_keys_set(k, "model.rope_original=%.17g", original);
    if (original >= (double)k->seq) return;
    k->seq = (int64_t)original;
    mf_keys_set(k, "model.seq=%lld", (long long)k->seq);
}

/* Returns the sequence length of pretraining. It is read from the key beside the object, else
 * from the key in the object; else it is the model's length. */
static double original_length(const rope *r)
{
    static const char *const key = "original_max_position_embeddings";
    mf_keys *k = r->k;
    const bool beside = mf_json_get(k->json, key) != NULL;
    const double n = beside ? mf_keys_real_or(k, key, 0) : number(r, key, (double)k->seq, 0);
    if (n >= 1) return n;
    if (beside)
        mf_keys_refuse(k, key, "expected a number of at least 1");
    else
        mf_keys_refuse(k, r->name, "%s: expected a number of at least 1", key);
    return 1;
}

/* Reads the scaling of a kind other than default. */
static void scale_rope(const rope *r, double *ret_softmax)
{
    static const char *const kinds[] = {"linear",  "yarn",     "llama3",
                                        "dynamic", "longrope", NULL};
    enum { YARN = 1, LLAMA3, DYNAMIC, LONGROPE };
    mf_keys *k = r->k;
    const mf_json *v;
    const char *usual;
    double factor, original = 1;
    int kind = 0;
    while (kinds[kind] && strcmp(r->type, kinds[kind]) != 0)
        kind++;
    if (!kinds[kind])
        mf_keys_refuse(k, r->name,
                       "expected rope_type default, linear, dynamic, yarn, llama3 or "
                       "longrope, found '%.64s'",
                       r->type);
    if (kind == YARN || kind == LLAMA3 || kind == LONGROPE) original = original_length(r);
    if (kind == YARN && find(r, "factor", &v, &usual) == FOUND_NULL)
        factor = (double)k->seq / original;
    else if (kind == LONGROPE)
        factor = 1;
    else
        factor = needed(r, "factor");
    const double share =
        number(r, "partial_rotary_factor", mf_keys_real_or(k, "partial_rotary_factor", 1), 1);
    if (share != 1 && share != k->rope_share)
        mf_keys_refuse(k, r->name, "partial_rotary_factor: expected 1 with rope_type %s",
                       r->type);
    const double all = number(r, "mscale_all_dim", 0, 0);
    if (ret_softmax && all != 0) *ret_softmax = magnitude(all, factor) * magnitude(all, factor);
    /* This kind changes nothing up to max_position_embeddings, and runs have no
     * longer sequences. */
    if (kind == DYNAMIC) return;
    if (kind == LONGROPE) {
        longrope(r, original);
        return;
    }
    mf_keys_set(k, "model.rope_scaling=%.64s", r->type);
    mf_keys_set(k, "model.rope_factor=%.17g", factor);
    if (kind == YARN) yarn(r, factor, original);
    if (kind == LLAMA3) llama3(r, original);
}

/* Whether a value is true in the sense of Python's `or`. */
static bool holds(const mf_json *v)
{
    size_t n = 0;
    bool truth = false;
    double number = 0;
    if (mf_json_bool(v, &truth)) return truth;
    if (mf_json_real(v, &number)) return number != 0;
    return mf_json_typeof(v) == MF_JSON_STRING ? mf_json_string(v, &n) && n > 0
                                               : mf_json_size(v) > 0;
}

static void choose(rope *r)
{
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    const mf_json *scaling = mf_json_get(r->k->json, "rope_scaling"),
                  *parameters = mf_json_get(r->k->json, "rope_parameters");
    r->name = holds(scaling) ? "rope_scaling" : "rope_parameters";
    r->object = holds(scaling) ? scaling : parameters;
    if (mf_json_typeof(r->object) == MF_JSON_NULL) r->object = NULL;
    if (r->object && mf_json_typeof(r->object) != MF_JSON_OBJECT)
        mf_keys_refuse(r->k, r->name, "expected null or an object");
    for (int i = 0; i < 2; i++)
        if (mf_json_get(r->object, kinds[i]))
            mf_keys_refuse(r->k, r->name, "%s: expected the same numbers for all blocks",
                           kinds[i]);
}

static void judge_theta(mf_keys *k, double theta)
{
    if (!(theta >= 1 && theta <= 1e9))
        mf_keys_refuse(k, "rope_theta", "expected a number from 1 to 1e9, found %g", theta);
}

static const char *type_of(const rope *r)
{
    const char *type = text(r, "rope_type");
    if (!type) type = text(r, "type");
    return type ? type : "default";
}

/* Reads the numbers of an object. */
static void read_rope(rope *r, double *ret_softmax)
{
    double theta = number(r, "rope_theta", NAN, 0);
    if (isnan(theta)) theta = mf_keys_real(r->k, "rope_theta");
    r->type = type_of(r);
    judge_theta(r->k, theta);
    mf_keys_set(r->k, "model.rope_theta=%.17g", theta);
    if (r->k->rc == MF_OK && strcmp(r->type, "default") != 0) scale_rope(r, ret_softmax);
}

void mf_keys_rope(mf_keys *k, double *ret_softmax)
{
    rope r = {.k = k};
    choose(&r);
    if (ret_softmax) *ret_softmax = 1;
    read_rope(&r, ret_softmax);
}

/* Returns the object of a kind of blocks in rope_parameters; NULL: there is none. */
static const mf_json *object_of(mf_keys *k, const char *kind)
{
    const mf_json *all = mf_json_get(k->json, "rope_parameters"), *v = mf_json_get(all, kind);
    const bool none = !v || mf_json_typeof(v) == MF_JSON_NULL;
    const char *key;
    const mf_json *value;
    if (!none && mf_json_typeof(v) != MF_JSON_OBJECT)
        mf_keys_refuse(k, "rope_parameters", "%s: expected null or an object", kind);
    for (size_t i = 0; mf_json_member(all, i, &key, &value); i++)
        if (!mf_ends_with(key, "_attention"))
            mf_keys_refuse(k, "rope_parameters",
                           "expected only full_attention and sliding_attention, found %.64s",
                           key);
    return none ? NULL : v;
}

void mf_keys_rope_kinds(mf_keys *k, const char *sliding, double usual)
{
    const mf_json *scaling = mf_json_get(k->json, "rope_scaling");
    rope full = {k, "rope_parameters", object_of(k, "full_attention"), NULL},
         plain = {k, "rope_parameters", object_of(k, "sliding_attention"), NULL};
    if (holds(scaling)) {
        if (full.object)
            mf_keys_refuse(k, "rope_scaling",
                           "expected null, because rope_parameters has "
                           "full_attention");
        full.name = "rope_scaling";
        full.object = scaling;
    }
    read_rope(&full, NULL);
    const double theta = number(&plain, "rope_theta", usual, 0);
    judge_theta(k, theta);
    if (strcmp(type_of(&plain), "default") != 0)
        mf_keys_refuse(k, plain.name,
                       "sliding_attention: expected rope_type default, found '%.64s'",
                       type_of(&plain));
    if (sliding) mf_keys_set(k, "model.rope_plain_layers=%s", sliding);
    if (sliding) mf_keys_set(k, "model.rope_plain_theta=%.17g", theta);
}

void mf_keys_partial_rope(mf_keys *k, double usual)
{
    rope r = {.k = k};
    choose(&r);
    const double beside = mf_keys_real_or(k, "partial_rotary_factor", usual),
                 factor = number(&r, "partial_rotary_factor", beside, 1);
    const int64_t dims = (int64_t)(factor * (double)k->head_dim);
    if (k->rc != MF_OK || factor == 1) return;
    if (!(factor > 0 && factor < 1) || dims < 2 || dims % 2 != 0)
        mf_keys_refuse(
            k, "partial_rotary_factor",
            "expected a share of the %lld values of a head that is a multiple of two, "
            "found %g",
            (long long)k->head_dim, factor);
    mf_keys_set(k, "model.rope_dims=%lld", (long long)dims);
}
