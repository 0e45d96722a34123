/* run/sections/sources.c: finds and reads the sources of a configuration: settings of machine
 * and user, the chain of presets and files, assignments on the command line. Later entries
 * override earlier entries, and for a plugin that a later source replaced they are optional. */
#include "run/sections/sources.h"
#include "config/aliases.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* maximum length of a chain of files in which each file includes the next */
#define MAX_INCLUDES   8
#define MAX_SOURCES    (MAX_INCLUDES + 4)
#define DEFAULT_PRESET "default"
#define PRESET_MAX     (1 << 20) /* maximum bytes of a file, the same as for any INI file */

typedef struct sources {
    const mf_section_at *all;
    mf_ini *ini;
    mf_arena *arena;
    int end[MAX_SOURCES]; /* entries before this index belong to source i or an
                           * earlier source */
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

/* The folders of presets, below mf_paths_presets(). quick/ contains small versions of published
 * models. The name of a preset does not contain its folder. */
static const char *const preset_folders[] = {"", "/quick"};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *mf_config_preset_names(mf_arena *arena)
{
    static const char *const none[] = {NULL};
    size_t n_folders = sizeof preset_folders / sizeof *preset_folders, n_names = 0;
    char **files[sizeof preset_folders / sizeof *preset_folders];
    int n[sizeof preset_folders / sizeof *preset_folders], kept = 0;
    for (size_t f = 0; f < n_folders; f++) {
        char *folder = mf_arena_strf(arena, "%s%s", mf_paths_presets(), preset_folders[f]);
        if (!folder || mf_list_dir(folder, &files[f], &n[f]) != MF_OK) {
            files[f] = NULL;
            n[f] = 0;
        }
        n_names += (size_t)n[f];
    }
    const char **names = mf_arena_alloc(arena, (n_names + 1) * sizeof *names);
    for (size_t f = 0; f < n_folders; f++) {
        for (int i = 0; i < n[f]; i++) {
            char *name = NULL;
            if (names && has_suffix(files[f][i], ".ini"))
                name = mf_arena_strdup(arena, files[f][i]);
            if (name) {
                name[strlen(name) - 4] = '\0';
                names[kept++] = name;
            }
            mf_free(files[f][i]);
        }
        mf_free(files[f]);
    }
    if (!names) return none;
    qsort(names, (size_t)kept, sizeof *names, compare_names);
    return names;
}

int mf_config_preset(mf_arena *arena, const char *name, const mf_ini_entry *at,
                     const char **ret_path)
{
    bool bare = strchr(name, '/') == NULL && name[0] != '\0';
    for (size_t f = 0; bare && f < sizeof preset_folders / sizeof *preset_folders; f++) {
        char *path =
            mf_arena_strf(arena, "%s%s/%s.ini", mf_paths_presets(), preset_folders[f], name);
        if (!path) return MF_ENOMEM;
        if (mf_exists(path)) {
            *ret_path = path;
            return MF_OK;
        }
    }
    char hint[256], where[512] = "";
    if (at) snprintf(where, sizeof where, "%s:%d: ", at->file, at->line);
    mf_did_you_mean(name, mf_config_preset_names(arena), hint, sizeof hint);
    return mf_fail(at ? MF_ECONFIG : MF_ENOTFOUND, "%s%s: there is no such %spreset in %s%s",
                   where, name, at ? "" : "file, and no such ", mf_paths_presets(), hint);
}

/* The length of the first sentence or clause of a text. */
static size_t clause(const char *text)
{
    size_t n = 0;
    for (; text[n]; n++) {
        if (strchr(".:;", text[n]) && (text[n + 1] == ' ' || !text[n + 1])) return n;
        if (strncmp(text + n, " (", 2) == 0) return n;
    }
    return n;
}

int mf_config_preset_brief(mf_arena *arena, const char *name, const char **ret)
{
    char comment[512] = "", *text = NULL;
    const char *path;
    size_t size, used = 0;
    *ret = "";
    int rc = mf_config_preset(arena, name, NULL, &path);
    if (rc == MF_OK) rc = mf_read_file(path, PRESET_MAX, &text, &size);
    if (rc != MF_OK) return rc;
    for (const char *at = text; *at == ';' && used + 1 < sizeof comment;) {
        const size_t n = strcspn(at, "\n");
        used += (size_t)snprintf(comment + used, sizeof comment - used, "%s%.*s",
                                 used ? " " : "", n > 2 ? (int)n - 2 : 0, at + (n > 2 ? 2 : n));
        at += n + (at[n] == '\n');
    }
    mf_free(text);
    const size_t n = strlen(name);
    if (strncmp(comment, name, n) != 0 || strncmp(comment + n, ": ", 2) != 0) return MF_OK;
    char *brief = mf_arena_strdup(arena, comment + n + 2);
    if (!brief) return MF_ENOMEM;
    brief[clause(brief)] = '\0';
    *ret = brief;
    return MF_OK;
}

/* Loads the local keys of a file. A file that cannot be found counts as a file without keys.
 * Old keys are not translated here, because no old key is local. */
static int load_local(sources *s, const char *path)
{
    mf_ini *alone = mf_ini_new();
    int rc = alone ? mf_ini_load(alone, path) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < mf_ini_count(alone); i++) {
        const mf_ini_entry *e = mf_ini_at(alone, i);
        const mf_section *section = mf_section_find(s->all, e->section);
        if (section && mf_section_local(section, e->key))
            rc = mf_ini_put(s->ini, e->section, e->key, e->value, e->file, e->line);
    }
    mf_ini_free(alone);
    return rc;
}

/* Loads a file that may be missing. If the configuration is complete, only the local keys of
 * the file are loaded. */
static int load_if_there(sources *s, const char *path, bool complete)
{
    if (!path) return MF_ENOMEM;
    if (!mf_exists(path)) return MF_OK;
    int rc = complete ? load_local(s, path) : mf_ini_load(s->ini, path);
    end_source(s);
    return rc;
}

static int load_settings(sources *s, bool complete)
{
    const char *home = secure_getenv("XDG_CONFIG_HOME"), *below = "";
    if (!home || home[0] != '/') {
        home = secure_getenv("HOME");
        below = "/.config";
    }
    int rc = load_if_there(s, mf_arena_strf(s->arena, "%s/moefw.ini", mf_paths_settings()),
                           complete);
    if (rc == MF_OK && home && home[0] == '/')
        rc = load_if_there(s, mf_arena_strf(s->arena, "%s%s/moefw/moefw.ini", home, below),
                           complete);
    return rc;
}

/* Whether the file is the config.ini of a run. */
static bool is_of_run(sources *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash + 1 - path) : 0;
    if (strcmp(path + n, "config.ini") != 0) return false;
    const char *manifest = mf_arena_strf(s->arena, "%.*smanifest.json", n, path);
    return manifest && mf_exists(manifest);
}

/* Whether the file is complete (sources.h). A file that cannot be read is not complete;
 * its loader reports the reason. Every version writes the same first line, so runs of all
 * versions are recognized. */
static int judge_complete(sources *s, const char *path, bool *ret)
{
    char *text;
    size_t size;
    *ret = is_of_run(s, path);
    if (*ret) return MF_OK;
    const int rc = mf_read_input(path, PRESET_MAX, &text, &size);
    if (rc == MF_ENOMEM) return rc;
    if (rc != MF_OK) {
        mf_error_clear();
        return MF_OK;
    }
    text[strcspn(text, "\n")] = '\0';
    *ret = text[0] == ';' && strstr(text, MF_CONFIG_COMPLETE) != NULL;
    mf_free(text);
    return MF_OK;
}

/* Finds the entry of the preset in the file's [include]; NULL if there is none. */
static int included(sources *s, const char *path, const mf_ini_entry **ret)
{
    *ret = NULL;
    mf_ini *alone = mf_ini_new();
    if (!alone) return MF_ENOMEM;
    mf_ini_keep_refused(alone); /* refused entries are reported later, when the whole file
                                 * is read */
    int rc = mf_ini_load(alone, path);
    mf_ini_entry *e = rc == MF_OK ? mf_ini_get(alone, "include", "preset") : NULL;
    if (e) {
        mf_ini_entry *copy = mf_arena_alloc(s->arena, sizeof *copy);
        char *value = mf_arena_strdup(s->arena, e->value);
        if (!copy || !value)
            rc = MF_ENOMEM;
        else
            *ret = memcpy(copy, &(mf_ini_entry){.value = value, .file = path, .line = e->line},
                          sizeof *copy);
    }
    mf_ini_free(alone);
    return rc;
}

/* Loads the presets that the file includes, the innermost first, and then the file. */
static int load_chain(sources *s, const char *path)
{
    const char *chain[MAX_INCLUDES];
    int n = 0, rc = MF_OK;
    while (rc == MF_OK && path) {
        const mf_ini_entry *include;
        rc = included(s, path, &include);
        if (rc == MF_ENOTFOUND) return mf_fail(MF_ENOTFOUND, "%s: there is no such file", path);
        if (rc != MF_OK) return rc;
        chain[n++] = path;
        path = NULL;
        if (!include) break;
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

/* Adds one assignment. Errors in its section or value then name its origin. */
static int load_assignment(sources *s, const mf_assignment *a, int position)
{
    mf_ini *alone = mf_ini_new();
    int rc = alone ? mf_ini_set(alone, a->text, position) : MF_ENOMEM;
    if (rc == MF_ECONFIG) rc = mf_fail_context(rc, "%s", a->origin);
    if (rc == MF_OK) {
        const mf_ini_entry *e = mf_ini_at(alone, 0);
        rc = mf_ini_put(s->ini, e->section, e->key, e->value, a->origin, position);
    }
    mf_ini_free(alone);
    return rc;
}

static int load_assignments(sources *s, int n, const mf_assignment *assignments)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = load_assignment(s, &assignments[i], i + 1);
    end_source(s);
    return rc;
}

/* ---- names ---- */

/* Returns the name for runs of this file: the file's name without its suffix. For the resolved
 * config.ini of a run it is the name of that run without its number, so repeating
 * "runs/x-3/config.ini" makes another run x. */
static const char *run_name(mf_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    bool in_run = strcmp(base, "config.ini") == 0 && slash;
    char *name = mf_arena_strdup(arena, base);
    if (in_run) {
        char *folder = mf_arena_strdup(arena, path);
        if (!folder) return NULL;
        folder[slash - path] = '\0';
        slash = strrchr(folder, '/');
        name = mf_arena_strdup(arena, slash ? slash + 1 : folder);
    }
    if (!name) return NULL;
    if (has_suffix(name, ".ini")) name[strlen(name) - 4] = '\0';
    char *dash = in_run ? strrchr(name, '-') : NULL;
    if (dash && dash != name && dash[1] != '\0' &&
        strspn(dash + 1, "0123456789") == strlen(dash + 1))
        *dash = '\0';
    if (mf_is_standard_input(name)) return "run";
    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? name : "run";
}

/* Finds the file that CONFIG names. */
static int find_config(sources *s, const char *config, const char **ret_path)
{
    if (!config) return mf_config_preset(s->arena, DEFAULT_PRESET, NULL, ret_path);
    bool bare = strchr(config, '/') == NULL && !has_suffix(config, ".ini") &&
                !mf_is_standard_input(config);
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

static void mark_section(const sources *s, const char *section)
{
    /* plugin[i] is the plugin that the latest of the sources 0 .. i names for the section;
     * NULL: none of them names one. */
    const char *plugin[MAX_SOURCES] = {NULL};
    mf_ini_entry *const first = mf_ini_first_of(s->ini, section);
    for (const mf_ini_entry *e = first; e; e = mf_ini_next_of(e))
        if (strcmp(e->key, "plugin") == 0) plugin[source_of(s, e->index)] = e->value;
    for (int i = 1; i < s->n; i++)
        if (!plugin[i]) plugin[i] = plugin[i - 1];
    const char *last = plugin[s->n - 1];
    for (mf_ini_entry *e = first; e && last; e = mf_ini_next_of(e)) {
        const char *then = plugin[source_of(s, e->index)];
        e->optional = !then || strcmp(then, last) != 0;
    }
}

static void mark_optional(const sources *s)
{
    const char *section;
    for (int i = 0; (section = mf_ini_section_at(s->ini, i)) != NULL; i++)
        mark_section(s, section);
}

int mf_config_sources(const mf_section_at *all, mf_ini *ini, mf_arena *arena,
                      const char *config, int n, const mf_assignment *assignments,
                      mf_ini **ret_given, const char **ret_name)
{
    sources s = {.all = all, .ini = mf_ini_new(), .arena = arena};
    const char *path;
    bool complete = false;
    *ret_given = s.ini;
    if (s.ini) mf_ini_keep_refused(s.ini);
    int rc = s.ini ? find_config(&s, config, &path) : MF_ENOMEM;
    if (rc == MF_OK) rc = judge_complete(&s, path, &complete);
    if (rc == MF_OK) rc = load_settings(&s, complete);
    if (rc == MF_OK) rc = load_chain(&s, path);
    if (rc == MF_OK) rc = load_assignments(&s, n, assignments);
    if (rc == MF_OK) rc = mf_config_translate(s.ini, ini, s.n, s.end);
    if (rc != MF_OK) return rc;
    s.ini = ini;
    mark_optional(&s);
    *ret_name = run_name(arena, path);
    return *ret_name != NULL ? MF_OK : MF_ENOMEM;
}
