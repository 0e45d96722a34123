/* Finds the files and plugins of a result on this machine. Files are found by their hash below
 * folders that the user names: a result may name no path. Plugins are found by name, where
 * every command finds them, and files of plugins only in a folder that is named for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/result/result_parts.h"
#include "plugin/load/allow.h"
#include "plugin/load/open.h"

enum { DEEPEST = 8 };

/* Looks for a file with this hash in the folder and below it. by_name: only among files with
 * this name, else only among the others. NULL: none, or no memory is left. */
static char *find(const char *folder, const char *name, const char *sha, bool by_name,
                  int depth)
{
    char **names = NULL, *found = NULL, here[MF_SHA256_HEX];
    int n = 0;
    if (depth > DEEPEST || mf_list_dir(folder, &names, &n) != MF_OK) return NULL;
    for (int i = 0; i < n && !found; i++) {
        char *path = mf_path_join(folder, names[i]);
        if (path && mf_is_dir(path)) {
            found = find(path, name, sha, by_name, depth + 1);
        } else if (path && (strcmp(names[i], name) == 0) == by_name &&
                   mf_result_sha256(path, here) == MF_OK && strcmp(here, sha) == 0) {
            found = path;
            continue;
        }
        mf_free(path);
    }
    mf_list_free(names, n);
    return found;
}

static char *found_input(const char *folder, const mf_json *input)
{
    const char *name = mf_result_text(input, "name"), *sha = mf_result_text(input, "sha256");
    if (sha[0] == '\0' || name[0] == '\0' || strchr(name, '/')) return NULL;
    char *path = find(folder, name, sha, true, 0);
    if (!path) path = find(folder, name, sha, false, 0);
    mf_error_clear();
    return path;
}

/* Replaces the value of a key of the configuration by a path. */
static char *with_path(const char *config, const mf_json *input, const char *path)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    mf_result_setting s = {.section = ""};
    if (!f) return NULL;
    for (const char *line = config; *line;) {
        const char *next = mf_result_line(line, &s);
        if (s.value && strcmp(s.section, mf_result_text(input, "section")) == 0 &&
            strcmp(s.key, mf_result_text(input, "key")) == 0)
            fprintf(f, "%s = %s\n", s.key, path);
        else
            fwrite(line, 1, (size_t)(next - line), f);
        line = next;
    }
    char *text = fclose(f) == 0 ? mf_strdup(out) : NULL;
    free(out); /* of the C library, not of mf_alloc */
    return text;
}

/* ---- plugins ---- */

static int kind_of(const char *name, mf_kind *ret)
{
    for (int k = MF_ROUTER; k <= MF_ADAPTER; k++)
        if (strcmp(mf_kind_name((mf_kind)k), name) == 0) {
            *ret = (mf_kind)k;
            return MF_OK;
        }
    return MF_ENOTFOUND;
}

static const char *state_of_plugin(const mf_json *plugin)
{
    const mf_loaded *loaded;
    const char *sha = mf_result_text(plugin, "sha256");
    char here[MF_SHA256_HEX];
    mf_kind kind;
    const char *state = "not installed";
    if (kind_of(mf_result_text(plugin, "kind"), &kind) == MF_OK &&
        strchr(mf_result_text(plugin, "name"), '/') == NULL &&
        mf_plugin_load(kind, mf_result_text(plugin, "name"), NULL, 0, &loaded) == MF_OK) {
        if (sha[0] == '\0')
            state = "its file had changed when the result was written";
        else if (mf_result_sha256(loaded->path, here) == MF_OK)
            state = strcmp(here, sha) == 0 ? "ok" : "another file here";
    }
    mf_error_clear();
    return state;
}

/* Whether the plugin's file is one of the inputs, which its configuration named by a path. */
static bool is_input(const mf_json *inputs, const mf_json *plugin)
{
    for (size_t i = 0; i < mf_json_size(inputs); i++) {
        const char *sha = mf_result_text(mf_json_at(inputs, i), "sha256");
        if (sha[0] != '\0' && strcmp(sha, mf_result_text(plugin, "sha256")) == 0) return true;
    }
    return false;
}

/* ---- all inputs ---- */

int mf_result_inputs(const mf_json *run, const char *data, const char *own,
                     mf_result_input_function each, void *arg, char **ret_config)
{
    const mf_json *inputs = mf_json_get(run, "inputs"), *plugins = mf_json_get(run, "plugins");
    bool missing = false;
    char *config = mf_strdup(mf_result_text(run, "config"));
    *ret_config = NULL;
    for (size_t i = 0; config && i < mf_json_size(inputs); i++) {
        const mf_json *input = mf_json_at(inputs, i);
        const char *key = mf_result_text(input, "key");
        const bool plugin = strcmp(key, "plugin") == 0;
        const char *folder = plugin ? own : data;
        char *path = folder ? found_input(folder, input) : NULL;
        if (path && plugin) mf_plugin_allow_file(path);
        each(arg, key, mf_result_text(input, "name"),
             path ? "ok"
             : mf_result_text(input, "sha256")[0] == '\0'
                 ? "a folder, a pattern, or a file that was gone: no hash"
             : plugin ? "no file with its SHA-256 in the folder of --plugins"
                      : "no file with its SHA-256 in the folder of --data");
        char *changed = path ? with_path(config, input, path) : NULL;
        missing = missing || !path;
        if (path) {
            mf_free(config);
            config = changed;
        }
        mf_free(path);
    }
    for (size_t i = 0; config && i < mf_json_size(plugins); i++) {
        const mf_json *p = mf_json_at(plugins, i);
        if (is_input(inputs, p)) continue;
        const char *state = state_of_plugin(p);
        each(arg, mf_result_text(p, "kind"), mf_result_text(p, "name"), state);
        missing = missing || strcmp(state, "ok") != 0;
    }
    if (!config) return MF_ENOMEM;
    if (missing)
        mf_free(config);
    else
        *ret_config = config;
    return MF_OK;
}
