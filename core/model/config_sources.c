#include "model/config_load.h"

#include "base/error.h"
#include "base/io.h"
#include "base/place.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INCLUDES   8 /* presets that include presets */
#define MAX_SOURCES    (MAX_INCLUDES + 4)
#define DEFAULT_PRESET "default"

typedef struct sources {
    mf_ini *ini;
    mf_arena *arena;
    int end[MAX_SOURCES]; /* entries up to here belong to source i or an earlier one */
    int n;
} sources;

static void end_source(sources *s)
{
    s->end[s->n++] = mf_ini_count(s->ini);
}

/* ---- files ---- */

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

const char *const *mf_config_preset_names(mf_arena *arena)
{
    static const char *const none[] = {NULL};
    char **files;
    int n, kept = 0;
    if (mf_list_dir(mf_place_presets(), &files, &n) != MF_OK) return none;
    const char **names = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *names);
    for (int i = 0; i < n; i++) {
        if (names != NULL && has_suffix(files[i], ".ini")) {
            char *name = mf_arena_strdup(arena, files[i]);
            if (name != NULL) {
                name[strlen(name) - 4] = '\0';
                names[kept++] = name;
            }
        }
        mf_free(files[i]);
    }
    mf_free(files);
    return names != NULL ? names : none;
}

int mf_config_preset(mf_arena *arena, const char *name, const mf_ini_entry *at,
                     const char **ret_path)
{
    if (strchr(name, '/') == NULL && name[0] != '\0') {
        char *path = mf_arena_strf(arena, "%s/%s.ini", mf_place_presets(), name);
        if (path == NULL) return MF_ENOMEM;
        if (mf_exists(path)) {
            *ret_path = path;
            return MF_OK;
        }
    }
    char hint[256], where[512] = "";
    if (at != NULL) snprintf(where, sizeof where, "%s:%d: ", at->file, at->line);
    mf_did_you_mean(name, mf_config_preset_names(arena), hint, sizeof hint);
    return mf_fail(at != NULL ? MF_ECONFIG : MF_ENOTFOUND, "%sno %spreset named '%s' in %s%s",
                   where, at != NULL ? "" : "such file, and no ", name, mf_place_presets(),
                   hint);
}

/* A file that need not be there. */
static int load_if_there(sources *s, const char *path)
{
    if (path == NULL) return MF_ENOMEM;
    if (!mf_exists(path)) return MF_OK;
    int rc = mf_ini_load(s->ini, path);
    end_source(s);
    return rc;
}

static int load_settings(sources *s)
{
    const char *home = secure_getenv("XDG_CONFIG_HOME"), *below = "";
    if (home == NULL || home[0] != '/') {
        home = secure_getenv("HOME");
        below = "/.config";
    }
    int rc = load_if_there(s, mf_arena_strf(s->arena, "%s/moefw.ini", mf_place_settings()));
    if (rc == MF_OK && home != NULL && home[0] == '/')
        rc = load_if_there(s, mf_arena_strf(s->arena, "%s%s/moefw/moefw.ini", home, below));
    return rc;
}

/* What [include] of the file asks for, NULL if nothing. */
static int included(sources *s, const char *path, const mf_ini_entry **ret)
{
    *ret = NULL;
    mf_ini *alone = mf_ini_new();
    if (alone == NULL) return MF_ENOMEM;
    int rc = mf_ini_load(alone, path);
    mf_ini_entry *e = rc == MF_OK ? mf_ini_get(alone, "include", "preset") : NULL;
    if (e != NULL) {
        mf_ini_entry *copy = mf_arena_alloc(s->arena, sizeof *copy);
        char *value = mf_arena_strdup(s->arena, e->value);
        if (copy == NULL || value == NULL)
            rc = MF_ENOMEM;
        else
            *ret = memcpy(copy, &(mf_ini_entry){.value = value, .file = path, .line = e->line},
                          sizeof *copy);
    }
    mf_ini_free(alone);
    return rc;
}

/* The file, after what it includes: the innermost comes first. */
static int load_chain(sources *s, const char *path)
{
    const char *chain[MAX_INCLUDES];
    int n = 0, rc = MF_OK;
    while (rc == MF_OK && path != NULL) {
        const mf_ini_entry *include;
        rc = included(s, path, &include);
        if (rc == MF_ENOTFOUND)
            return mf_fail(MF_ENOTFOUND, "no configuration file '%s'", path);
        if (rc != MF_OK) return rc;
        chain[n++] = path;
        path = NULL;
        if (include == NULL) break;
        if (n == MAX_INCLUDES)
            return mf_fail(MF_ECONFIG, "%s:%d: presets include one another more than %d deep",
                           include->file, include->line, MAX_INCLUDES);
        rc = mf_config_preset(s->arena, include->value, include, &path);
    }
    while (rc == MF_OK && n > 0) {
        rc = mf_ini_load(s->ini, chain[--n]);
        end_source(s);
    }
    return rc;
}

static int load_assignments(sources *s, int n, const mf_assignment *assignments)
{
    for (int i = 0; i < n; i++) {
        int rc = mf_ini_set(s->ini, assignments[i].text, i + 1);
        if (rc != MF_OK) return rc;
        const char *origin = mf_arena_strdup(s->arena, assignments[i].origin);
        if (origin == NULL) return MF_ENOMEM;
        mf_ini_at(s->ini, mf_ini_count(s->ini) - 1)->file = origin;
    }
    end_source(s);
    return MF_OK;
}

/* ---- names ---- */

/* What a run of this file is called: its stem. A resolved config.ini of a run takes the name of
 * that run without its number, so that repeating "runs/x-3/config.ini" makes another x. */
static const char *run_name(mf_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    bool in_run = strcmp(base, "config.ini") == 0 && slash != NULL;
    char *name = mf_arena_strdup(arena, base);
    if (in_run) {
        char *folder = mf_arena_strdup(arena, path);
        if (folder == NULL) return NULL;
        folder[slash - path] = '\0';
        slash = strrchr(folder, '/');
        name = mf_arena_strdup(arena, slash != NULL ? slash + 1 : folder);
    }
    if (name == NULL) return NULL;
    if (has_suffix(name, ".ini")) name[strlen(name) - 4] = '\0';
    char *dash = in_run ? strrchr(name, '-') : NULL;
    if (dash != NULL && dash != name && dash[1] != '\0' &&
        strspn(dash + 1, "0123456789") == strlen(dash + 1))
        *dash = '\0';
    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? name : "run";
}

/* The file that CONFIG means. */
static int find_config(sources *s, const char *config, const char **ret_path)
{
    if (config == NULL) return mf_config_preset(s->arena, DEFAULT_PRESET, NULL, ret_path);
    bool bare = strchr(config, '/') == NULL && !has_suffix(config, ".ini");
    if (mf_is_dir(config) && !bare) {
        *ret_path = mf_arena_strf(s->arena, "%s/config.ini", config);
    } else if (bare) {
        int rc = mf_config_preset(s->arena, config, NULL, ret_path);
        if (rc != MF_ENOTFOUND || !mf_exists(config)) return rc;
        *ret_path = mf_is_dir(config) ? mf_arena_strf(s->arena, "%s/config.ini", config)
                                      : mf_arena_strdup(s->arena, config);
    } else {
        *ret_path = mf_arena_strdup(s->arena, config);
    }
    return *ret_path != NULL ? MF_OK : MF_ENOMEM;
}

/* ---- keys of a plugin that has been replaced ---- */

static int source_of(const sources *s, int entry)
{
    int i = 0;
    while (i < s->n - 1 && entry >= s->end[i])
        i++;
    return i;
}

/* The plugin that sources 0..source name for the section; NULL: none of them does. */
static const char *plugin_of(const sources *s, const char *section, int source)
{
    const char *plugin = NULL;
    for (int i = 0; i < s->end[source]; i++) {
        const mf_ini_entry *e = mf_ini_at(s->ini, i);
        if (strcmp(e->section, section) == 0 && strcmp(e->key, "plugin") == 0)
            plugin = e->value;
    }
    return plugin;
}

static void mark_optional(const sources *s)
{
    for (int i = 0; i < mf_ini_count(s->ini); i++) {
        mf_ini_entry *e = mf_ini_at(s->ini, i);
        const char *last = plugin_of(s, e->section, s->n - 1);
        if (last == NULL) continue;
        const char *then = plugin_of(s, e->section, source_of(s, i));
        e->optional = then == NULL || strcmp(then, last) != 0;
    }
}

int mf_config_sources(mf_ini *ini, mf_arena *arena, const char *config, int n,
                      const mf_assignment *assignments, const char **ret_name)
{
    sources s = {.ini = ini, .arena = arena};
    const char *path;
    int rc = find_config(&s, config, &path);
    if (rc == MF_OK) rc = load_settings(&s);
    if (rc == MF_OK) rc = load_chain(&s, path);
    if (rc == MF_OK) rc = load_assignments(&s, n, assignments);
    if (rc != MF_OK) return rc;
    mark_optional(&s);
    *ret_name = run_name(arena, path);
    return *ret_name != NULL ? MF_OK : MF_ENOMEM;
}
