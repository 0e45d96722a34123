/* plan.json: the arguments of a comparison, so that it can be continued without repeating them.
 * The path of the configuration is stored in full, so it does not depend on the
 * current folder. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "lab/compare/compare_parts.h"

/* Writes a path such that a call from another folder also finds the file. */
static void put_config(mf_jw *w, const char *config)
{
    char path[PATH_MAX];
    mf_jw_key(w, "config");
    if (!config)
        mf_jw_null(w);
    else if (strchr(config, '/') && realpath(config, path))
        mf_jw_string(w, path);
    else
        mf_jw_string(w, config);
}

int mf_compare_plan_write(const mf_compare *c)
{
    const mf_compare_spec *s = c->spec;
    char *path = mf_path_join(s->out, "plan.json");
    mf_jw *w = mf_jw_new();
    size_t n = 0;
    if (!w || !path) {
        mf_jw_free(w);
        mf_free(path);
        return MF_ENOMEM;
    }
    mf_jw_object(w);
    put_config(w, s->config);
    mf_jw_key(w, "set");
    mf_jw_array(w);
    for (int i = 0; i < s->n_set; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "text", s->set[i].text);
        mf_jw_kv_string(w, "origin", s->set[i].origin);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_kv_string(w, "routers", s->routers ? s->routers : "all");
    mf_jw_kv_string(w, "baseline", c->routers[c->baseline].entry.label);
    mf_jw_kv_string(w, "equal", mf_equal_names[s->equal]);
    mf_jw_kv_int(w, "seeds", s->seeds);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    int rc = text ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    mf_free(path);
    return rc;
}

static const char *text_at(mf_arena *arena, const mf_json *object, const char *key)
{
    const char *text = mf_json_string(mf_json_get(object, key), NULL);
    return text ? mf_arena_strdup(arena, text) : NULL;
}

static int read_set(mf_arena *arena, const mf_json *list, mf_compare_spec *s)
{
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    mf_assignment *set = mf_arena_alloc(arena, (n + 1) * sizeof *set);
    if (!set) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        set[i].text = text_at(arena, mf_json_at(list, i), "text");
        set[i].origin = text_at(arena, mf_json_at(list, i), "origin");
        if (!set[i].text || !set[i].origin) return MF_EINPUT;
    }
    s->set = set;
    s->n_set = (int)n;
    return MF_OK;
}

static int read_document(mf_arena *arena, const mf_json *doc, mf_compare_spec *s)
{
    int64_t seeds;
    bool known = false;
    s->config = text_at(arena, doc, "config");
    s->routers = text_at(arena, doc, "routers");
    s->baseline = text_at(arena, doc, "baseline");
    const char *equal = text_at(arena, doc, "equal");
    for (int i = 0; equal && mf_equal_names[i]; i++)
        if (strcmp(equal, mf_equal_names[i]) == 0) {
            s->equal = (mf_equal)i;
            known = true;
        }
    if (!s->routers || !s->baseline || !known ||
        !mf_json_int(mf_json_get(doc, "seeds"), &seeds) || seeds < 1 || seeds > MF_SEEDS_MAX)
        return MF_EINPUT;
    s->seeds = (int32_t)seeds;
    return read_set(arena, mf_json_get(doc, "set"), s);
}

bool mf_compare_is(const char *path)
{
    char *plan = mf_is_dir(path) ? mf_path_join(path, "plan.json") : NULL;
    const bool is = plan && mf_exists(plan);
    mf_free(plan);
    return is;
}

int mf_compare_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret)
{
    char *path = mf_path_join(out, "plan.json"), *text = NULL;
    mf_json *doc = NULL;
    size_t n;
    if (!path) return MF_ENOMEM;
    int rc = mf_read_file(path, 1 << 20, &text, &n);
    if (rc == MF_OK) rc = mf_json_parse(path, text, n, &doc);
    if (rc == MF_OK) {
        rc = read_document(arena, doc, ret);
        if (rc == MF_EINPUT)
            rc = mf_fail(rc, "%s: expected config, set, routers, baseline, equal and seeds",
                         path);
        mf_json_free(doc);
    }
    mf_free(text);
    mf_free(path);
    return rc;
}
