/* adapters/targets.c: compares names of modules with the targets of a configuration. A list
 * contains names, or ends of names that begin after a dot. A text is an expression for the
 * whole name. */
#include "pretrained/adapters/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/error.h"
#include "pretrained/adapters/pattern.h"

enum { WHERE_MAX = 4096 };

static bool is_end(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0 && (n == m || name[n - m - 1] == '.');
}

static bool in_list(const mf_json *list, const char *name)
{
    for (size_t i = 0; i < mf_json_size(list); i++) {
        const char *end = mf_json_string(mf_json_at(list, i), NULL);
        if (end && is_end(name, end)) return true;
    }
    return false;
}

/* Whether a key, which is a list or an expression, matches the name. */
static int means(const char *path, const mf_json *config, const char *key, const char *name,
                 bool *ret)
{
    char where[WHERE_MAX];
    const mf_json *v = mf_json_get(config, key);
    const char *expression = mf_json_string(v, NULL);
    if (!expression) {
        *ret = in_list(v, name);
        return MF_OK;
    }
    snprintf(where, sizeof where, "%s: %s", path, key);
    return mf_pattern_is(where, expression, name, ret);
}

/* Returns the block number in a module name, 3 in "model.layers.3.mlp"; -1: the name has none.
 * *ret_part, *ret_n: the component before the number, "layers". */
static int64_t block_of(const char *name, const char **ret_part, size_t *ret_n)
{
    const char *part = name;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        char *end;
        const long long n = strtoll(dot + 1, &end, 10);
        *ret_part = part;
        *ret_n = (size_t)(dot - part);
        if (end > dot + 1 && *end == '.') return n;
        part = dot + 1;
    }
    return -1;
}

/* Whether layers_to_transform, a number or a list, contains the block of a module. The
 * component of the name before the block's number must be in layers_pattern, if that is set. A
 * missing or empty layers_to_transform contains every block. */
static bool has_block(const mf_json *config, const char *name)
{
    const mf_json *layers = mf_json_get(config, "layers_to_transform"),
                  *patterns = mf_json_get(config, "layers_pattern");
    const char *part = "", *one = mf_json_string(patterns, NULL);
    size_t n = 0;
    int64_t at;
    const bool list = mf_json_typeof(layers) == MF_JSON_ARRAY;
    if (mf_json_typeof(layers) == MF_JSON_NULL || (list && mf_json_size(layers) == 0))
        return true;
    const int64_t block = block_of(name, &part, &n);
    bool named = (!one || !*one) && mf_json_size(patterns) == 0;
    if (one && strlen(one) == n && memcmp(one, part, n) == 0) named = true;
    for (size_t i = 0; i < mf_json_size(patterns); i++) {
        const char *p = mf_json_string(mf_json_at(patterns, i), NULL);
        if (p && strlen(p) == n && memcmp(p, part, n) == 0) named = true;
    }
    if (!named || block < 0) return false;
    if (!list) return mf_json_int(layers, &at) && at == block;
    for (size_t i = 0; i < mf_json_size(layers); i++)
        if (mf_json_int(mf_json_at(layers, i), &at) && at == block) return true;
    return false;
}

int mf_peft_targets(const char *path, const mf_json *config, const mf_peft_module *m, bool *ret)
{
    char whole[MF_PATTERN_TEXT];
    const mf_json *modules = mf_json_get(config, "target_modules"),
                  *parameters = mf_json_get(config, "target_parameters");
    const char *text = mf_json_string(modules, NULL);
    bool excluded = false;
    *ret = true;
    if (m->parameter) {
        snprintf(whole, sizeof whole, "%s.%s", m->name, m->parameter);
        if (mf_json_size(parameters) > 0) *ret = in_list(parameters, whole);
        return MF_OK;
    }
    int rc = means(path, config, "exclude_modules", m->name, &excluded);
    if (rc == MF_OK && text && strcasecmp(text, "all-linear") == 0)
        *ret = m->layer >= 0;
    else if (rc == MF_OK && mf_json_typeof(modules) != MF_JSON_NULL)
        rc = means(path, config, "target_modules", m->name, ret);
    else if (rc == MF_OK)
        *ret = mf_json_size(parameters) == 0;
    if (!text && mf_json_typeof(modules) != MF_JSON_NULL)
        *ret = *ret && has_block(config, m->name);
    *ret = *ret && !excluded;
    return rc;
}
