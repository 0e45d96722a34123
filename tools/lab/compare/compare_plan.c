/* plan.json: the arguments of a comparison, so that it can be continued without repeating them.
 * The path of the configuration is stored as an absolute path, so it does not depend on the
 * current folder. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "lab/compare/compare_parts.h"

/* Writes the path in a form with which a call from another folder also finds the file. */
static void put_config(mf_jw *w, const char *config)
{
    char path[PATH_MAX];
    mf_jw_key(w, "config");
    const char *full = config && strchr(config, '/') ? realpath(config, path) : config;
    if (config && !full) mf_fault_errno(config);
    if (config)
        mf_jw_string(w, full ? full : config);
    else
        mf_jw_null(w);
}

void mf_compare_plan_put(mf_jw *w, const mf_compare_spec *s, const char *baseline)
{
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
    mf_jw_kv_string(w, "baseline", baseline);
    mf_jw_kv_string(w, "equal", mf_equal_names[s->equal]);
    mf_jw_kv_int(w, "seeds", s->seeds);
    if (s->skip_seeds > 0) mf_jw_kv_int(w, "skip_seeds", s->skip_seeds);
}

int mf_compare_plan_write(const mf_compare *c)
{
    char *path = mf_path_join(c->spec->out, "plan.json");
    mf_jw *w = mf_jw_new();
    const unsigned long faults = mf_faults();
    size_t n = 0;
    if (!w || !path) {
        mf_jw_free(w);
        mf_free(path);
        return MF_ENOMEM;
    }
    mf_jw_object(w);
    mf_compare_plan_put(w, c->spec, c->routers[c->baseline].entry.label);
    mf_jw_kv_int(w, "most_seeds", c->most);
    char margin[MF_MARGIN_TEXT];
    if (c->margin.value > 0)
        mf_jw_kv_string(w, "equivalent", mf_margin_text(c->margin, margin));
    mf_jw_key(w, "looks");
    mf_jw_array(w);
    for (int i = 0; i < c->n_looks; i++)
        mf_jw_int(w, c->looks[i].pairs);
    mf_jw_end(w);
    mf_jw_key(w, "levels");
    mf_jw_array(w);
    for (int i = 0; i < c->n_looks; i++)
        mf_jw_real(w, c->looks[i].level);
    mf_jw_end(w);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    int rc = MF_ENOMEM;
    if (text && mf_faults() != faults) {
        const char *why = mf_fault_last(&rc);
        rc = mf_fail(rc, "%s: cannot write: %s", path, why);
    } else if (text) {
        rc = mf_write_file_atomic(path, text, n);
    }
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

int mf_compare_plan_take(mf_arena *arena, const mf_json *doc, mf_compare_spec *s)
{
    int64_t seeds, skip = 0;
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
    if (mf_json_get(doc, "skip_seeds") &&
        (!mf_json_int(mf_json_get(doc, "skip_seeds"), &skip) || skip < 0 ||
         skip > MF_SEEDS_MAX))
        return MF_EINPUT;
    s->skip_seeds = (int32_t)skip;
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

/* Reads plan.json. The caller frees *ret_path with mf_free and *ret with mf_json_free. */
static int open_plan(const char *out, char **ret_path, mf_json **ret)
{
    char *text = NULL;
    size_t n;
    *ret = NULL;
    *ret_path = mf_path_join(out, "plan.json");
    if (!*ret_path) return MF_ENOMEM;
    int rc = mf_read_file(*ret_path, 1 << 20, &text, &n);
    if (rc == MF_OK) rc = mf_json_parse(*ret_path, text, n, ret);
    mf_free(text);
    return rc;
}

int mf_compare_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret)
{
    char *path;
    mf_json *doc;
    int rc = open_plan(out, &path, &doc);
    if (rc == MF_OK) rc = mf_compare_plan_take(arena, doc, ret);
    if (rc == MF_EINPUT && doc)
        rc = mf_fail(rc, "%s: expected config, set, routers, baseline, equal and seeds", path);
    mf_json_free(doc);
    mf_free(path);
    return rc;
}

/* Reads the levels of the looks. Plans of early versions contain no levels. In those versions
 * the levels followed from the looks and from the planned number of seeds. */
static int read_levels(mf_compare *c, const mf_json *list, int32_t most, const char *path)
{
    double total;
    for (int i = 0; i < c->n_looks; i++) {
        mf_look *l = &c->looks[i];
        if (!list)
            l->level = mf_look_level(c->looks, i, l->pairs, most, &total);
        else if (!mf_json_real(mf_json_at(list, (size_t)i), &l->level) || !(l->level >= 0) ||
                 !(l->level < 0.1))
            return mf_fail(MF_EINPUT,
                           "%s: levels: expected a number from 0 to .1 for each look", path);
    }
    return MF_OK;
}

/* Refuses another value of `most` after results were shown: they used the plan of that time,
 * and another plan cannot undo this. */
static int judge_most(const mf_compare *c, int32_t most)
{
    char planned[64] = "none was planned";
    if (c->n_looks == 0 || c->spec->most == 0 || c->spec->most == most) return MF_OK;
    if (most > 0) snprintf(planned, sizeof planned, "%d were planned", (int)most);
    return mf_fail(MF_EUSAGE,
                   "--most-seeds: expected it before the first result; %s has shown results "
                   "with %d seeds at level %.4g, when %s. Leave it out, or give a new --out",
                   c->spec->out, c->looks[0].pairs, c->looks[0].level, planned);
}

/* Takes the margin of the plan. Refuses another margin after results were shown, which would be
 * chosen by them. */
static int take_margin(mf_compare *c, const mf_json *planned, const char *path)
{
    char want[MF_MARGIN_TEXT], have[MF_MARGIN_TEXT] = "no margin";
    mf_margin m = {0};
    const char *text = mf_json_string(planned, NULL);
    if (planned && (!text || mf_margin_read(text, &m) != MF_OK))
        return mf_fail(MF_EINPUT, "%s: equivalent: expected a margin such as .02nats", path);
    if (m.value > 0) mf_margin_text(m, have);
    if (c->n_looks > 0 && c->spec->margin.value > 0 &&
        strcmp(mf_margin_text(c->spec->margin, want), have) != 0)
        return mf_fail(
            MF_EUSAGE,
            "--equivalent: expected it before the first result; %s has shown results "
            "with %d seeds, when the plan had %s. Leave it out, or give a new --out",
            c->spec->out, c->looks[0].pairs, have);
    if (c->margin.value == 0) c->margin = m;
    return MF_OK;
}

int mf_compare_plan_looks(mf_compare *c)
{
    char *path = NULL;
    mf_json *doc = NULL;
    int64_t v, most = 0;
    c->most = c->spec->most;
    c->margin = c->spec->margin;
    if (!mf_compare_is(c->spec->out)) return MF_OK;
    int rc = open_plan(c->spec->out, &path, &doc);
    const mf_json *looks = mf_json_get(doc, "looks");
    const size_t n = mf_json_typeof(looks) == MF_JSON_ARRAY ? mf_json_size(looks) : 0;
    for (size_t i = 0; rc == MF_OK && i < n && c->n_looks < MF_LOOKS_MAX; i++) {
        const int last = c->n_looks > 0 ? c->looks[c->n_looks - 1].pairs : 0;
        if (mf_json_int(mf_json_at(looks, i), &v) && v > last && v <= MF_SEEDS_MAX)
            c->looks[c->n_looks++].pairs = (int)v;
        else
            rc = mf_fail(MF_EINPUT,
                         "%s: looks: expected numbers of seeds, ascending, from 1 to %d", path,
                         MF_SEEDS_MAX);
    }
    if (rc == MF_OK && mf_json_int(mf_json_get(doc, "most_seeds"), &v) && v > 0 &&
        v <= MF_SEEDS_MAX)
        most = v;
    if (rc == MF_OK) rc = read_levels(c, mf_json_get(doc, "levels"), (int32_t)most, path);
    if (rc == MF_OK) rc = judge_most(c, (int32_t)most);
    if (rc == MF_OK) rc = take_margin(c, mf_json_get(doc, "equivalent"), path);
    if (c->most == 0) c->most = (int32_t)most;
    mf_json_free(doc);
    mf_free(path);
    return rc;
}

double mf_compare_level(const mf_compare *c, double *ret_total)
{
    return mf_look_level(c->looks, c->n_looks, c->spec->seeds, c->most, ret_total);
}

int mf_compare_looked(mf_compare *c)
{
    const int now = c->spec->seeds;
    int at = c->n_looks;
    double total;
    const mf_look look = {now, mf_compare_level(c, &total)};
    while (at > 0 && c->looks[at - 1].pairs > now)
        at--;
    if (at > 0 && c->looks[at - 1].pairs == now) return MF_OK;
    if (c->n_looks == MF_LOOKS_MAX) {
        c->looks[MF_LOOKS_MAX - 1].level += look.level;
        return mf_compare_plan_write(c);
    }
    memmove(c->looks + at + 1, c->looks + at, (size_t)(c->n_looks - at) * sizeof *c->looks);
    c->looks[at] = look;
    c->n_looks++;
    return mf_compare_plan_write(c);
}
