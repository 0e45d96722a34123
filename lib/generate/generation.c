/* generate/generation.c: reads generation_config.json. Without this file it reads the same keys
 * of config.json, as transformers does. Without do_sample, only keys that are present have an
 * effect; with do_sample = true, missing keys have the defaults of transformers. If
 * generation_config.json exists but has no eos_token_id, no token ends a text, and config.json
 * is not read. */
#include "generate/generation.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"

enum { SIZE_MAX_BYTES = 1 << 20 };

typedef struct reader {
    const char *path;
    const mf_json *json;
    int rc;
} reader;

/* Returns the number of a key, which must be from lo to hi. Returns `absent` if the key is
 * missing or null. */
static double number(reader *r, const char *key, double lo, double hi, double absent)
{
    const mf_json *v = mf_json_get(r->json, key);
    double value;
    if (r->rc != MF_OK || !v || mf_json_typeof(v) == MF_JSON_NULL) return absent;
    if (mf_json_real(v, &value) && value >= lo && value <= hi) return value;
    r->rc = mf_fail(MF_EINPUT, "%s: %s: expected a number from %g to %g", r->path, key, lo, hi);
    return absent;
}

static int64_t whole(reader *r, const char *key, double hi)
{
    const double value = number(r, key, 0, hi, -1);
    if (r->rc == MF_OK && value != (double)(int64_t)value)
        r->rc = mf_fail(MF_EINPUT, "%s: %s: expected a whole number", r->path, key);
    return (int64_t)value;
}

/* Reads eos_token_id: a number, or a list of numbers. */
static void read_ends(reader *r, mf_generation *ret)
{
    const mf_json *v = mf_json_get(r->json, "eos_token_id");
    const bool list = mf_json_typeof(v) == MF_JSON_ARRAY;
    const size_t n = list ? mf_json_size(v) : mf_json_typeof(v) == MF_JSON_NULL ? 0 : 1;
    bool good = n <= MF_GENERATION_ENDS;
    for (size_t i = 0; good && i < n; i++) {
        int64_t id;
        good = mf_json_int(list ? mf_json_at(v, i) : v, &id) && id >= -1 && id <= INT32_MAX;
        /* Old files use -1 for "no token". */
        if (good && id >= 0) ret->end[ret->n_ends++] = (int32_t)id;
    }
    if (!good && r->rc == MF_OK)
        r->rc = mf_fail(MF_EINPUT, "%s: eos_token_id: expected an id, or at most %d of them",
                        r->path, MF_GENERATION_ENDS);
}

static int read_keys(reader *r, mf_generation *ret)
{
    const mf_json *v = mf_json_get(r->json, "do_sample");
    bool sample = false;
    const bool said = v && mf_json_typeof(v) != MF_JSON_NULL;
    if (said && !mf_json_bool(v, &sample))
        return mf_fail(MF_EINPUT, "%s: do_sample: expected true or false", r->path);
    ret->temperature = number(r, "temperature", 0, 100, sample ? 1 : -1);
    ret->top_p = number(r, "top_p", 0, 1, sample ? 1 : -1);
    ret->top_k = whole(r, "top_k", 1e9);
    if (sample && ret->top_k < 0) ret->top_k = 50;
    ret->repeat_penalty = number(r, "repetition_penalty", 0.01, 100, -1);
    ret->tokens = whole(r, "max_new_tokens", 1e9);
    if (said && !sample) ret->temperature = 0;
    read_ends(r, ret);
    return r->rc;
}

/* Reads a file of the folder. *ret_found: whether the file exists. */
static int read_one(const char *folder, const char *name, mf_generation *ret, bool *ret_found)
{
    char *path = mf_strf("%s/%s", folder, name), *text = NULL;
    size_t n = 0;
    mf_json *json = NULL;
    if (!path) return MF_ENOMEM;
    *ret_found = mf_exists(path);
    int rc = *ret_found ? mf_read_file(path, SIZE_MAX_BYTES, &text, &n) : MF_OK;
    if (rc == MF_OK && text) rc = mf_json_parse(path, text, n, &json);
    reader r = {.path = path, .json = json};
    if (rc == MF_OK && json) rc = read_keys(&r, ret);
    mf_json_free(json);
    mf_free(text);
    mf_free(path);
    return rc;
}

int mf_generation_read(const char *folder, mf_generation *ret)
{
    *ret = (mf_generation){
        .temperature = -1, .top_p = -1, .repeat_penalty = -1, .top_k = -1, .tokens = -1};
    if (!folder) return MF_OK;
    int rc = read_one(folder, MF_GENERATION_FILE, ret, &ret->given);
    if (rc == MF_OK && !ret->given) rc = read_one(folder, "config.json", ret, &ret->given);
    return rc;
}
