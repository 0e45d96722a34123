/* Finds the files and plugins of a result on this machine. Files are found by their hash below
 * folders that the user names: a result may name no path. Plugins are found by name, where
 * every command finds them, and files of plugins only in a folder that is named for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/result/result_parts.h"
#include "plugin/load/allow.h"
#include "plugin/load/open.h"
#include "run/run_config.h"

enum { DEEPEST = 8 };

/* Looks for the file of an input in the folder and below it. by_name: only among files with
 * its name, else only among the others. NULL: none, or no memory is left. */
static char *find(const char *folder, const mf_json *input, bool by_name, int depth)
{
    char **names = NULL, *found = NULL, here[MF_SHA256_HEX];
    int n = 0;
    if (depth > DEEPEST || mf_list_dir(folder, &names, &n) != MF_OK) return NULL;
    for (int i = 0; i < n && !found; i++) {
        char *path = mf_path_join(folder, names[i]);
        struct stat st;
        if (path && mf_is_dir(path)) {
            found = find(path, input, by_name, depth + 1);
        } else if (path && (strcmp(names[i], mf_result_text(input, "name")) == 0) == by_name &&
                   stat(path, &st) == 0 && st.st_size == mf_json_int_or_0(input, "bytes") &&
                   mf_result_sha256(path, NULL, here) == MF_OK &&
                   strcmp(here, mf_result_text(input, "sha256")) == 0) {
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
    if (!folder || mf_result_text(input, "sha256")[0] == '\0') return NULL;
    char *path = find(folder, input, true, 0);
    if (!path) path = find(folder, input, false, 0);
    mf_error_clear();
    return path;
}

static const mf_json *input_of(const mf_json *inputs, const mf_ini_entry *e)
{
    for (size_t i = 0; i < mf_json_size(inputs); i++) {
        const mf_json *v = mf_json_at(inputs, i);
        if (strcmp(mf_result_text(v, "section"), e->section) == 0 &&
            strcmp(mf_result_text(v, "key"), e->key) == 0)
            return v;
    }
    return NULL;
}

/* ---- plugins ---- */

static const char *state_of_plugin(const mf_json *plugin)
{
    const mf_loaded *loaded;
    const char *sha = mf_result_text(plugin, "sha256"),
               *code = mf_result_text(plugin, "code"); /* since 0.4.0 */
    char here[MF_SHA256_HEX];
    const mf_kind kind = mf_kind_of(mf_result_text(plugin, "kind"));
    const char *state = "not installed";
    if (kind != 0 && strchr(mf_result_text(plugin, "name"), '/') == NULL &&
        mf_plugin_load(kind, mf_result_text(plugin, "name"), NULL, 0, &loaded) == MF_OK) {
        if (sha[0] == '\0')
            state = "its file had changed when the result was written";
        else if (code[0] != '\0')
            state = mf_result_code(loaded->path, here) && strcmp(here, code) == 0
                        ? "ok"
                        : "another file here";
        else if (mf_result_sha256(loaded->path, NULL, here) == MF_OK)
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

/* What inputs are looked for, and where. */
typedef struct search {
    const mf_json *inputs;
    const char *data, *own;
    mf_result_input_function each;
    void *arg;
    bool missing;
} search;

bool mf_result_is_local(const mf_ini_entry *e)
{
    const mf_section *s = mf_section_find(mf_config_sections, e->section);
    return e->overridden || (s && mf_section_local(s, e->key));
}

/* Whether a key for paths names a file of this machine by a value without a slash, which does
 * not look like a path. */
static bool is_file_here(const mf_ini_entry *e)
{
    const mf_section *s = mf_section_find(mf_config_sections, e->section);
    bool path = strcmp(e->key, "path") == 0 || strcmp(e->key, "file") == 0;
    for (const char *const *p = s ? s->paths : NULL; p && *p; p++)
        path = path || strcmp(*p, e->key) == 0;
    return path && mf_exists(e->value);
}

/* Writes an entry with the path that was found for it. */
static void put_entry(search *q, const mf_ini_entry *e, FILE *out)
{
    const mf_json *input = input_of(q->inputs, e);
    const bool plugin = strcmp(e->key, "plugin") == 0;
    char *path = input ? found_input(plugin ? q->own : q->data, input) : NULL;
    const char *state = "ok";
    if (!input && (mf_result_is_path(e->value) || is_file_here(e)))
        state = "a file that is not among the inputs of the result";
    else if (input && !path)
        state = mf_result_text(input, "sha256")[0] == '\0'
                    ? "a folder, a pattern, or a file that was gone: no hash"
                : plugin ? "no file with its SHA-256 in the folder of --plugins"
                         : "no file with its SHA-256 in the folder of --data";
    const bool ok = strcmp(state, "ok") == 0;
    if (path && plugin) mf_plugin_allow_file(path);
    if (input || !ok) q->each(q->arg, e->key, e->value, state);
    q->missing = q->missing || !ok;
    fprintf(out, "%s = %s\n", e->key, path ? path : e->value);
    mf_free(path);
}

static int put_config(search *q, const char *text, FILE *out)
{
    mf_ini *ini = mf_ini_new();
    const int rc = ini ? mf_ini_load_text(ini, "config", text, strlen(text)) : MF_ENOMEM;
    fputs(MF_RESULT_FIRST_LINE, out);
    for (int i = 0; rc == MF_OK && mf_ini_section_at(ini, i); i++) {
        const char *name = mf_ini_section_at(ini, i);
        fprintf(out, "[%s]\n", name);
        for (const mf_ini_entry *e = mf_ini_first_of(ini, name); e; e = mf_ini_next_of(e))
            if (!mf_result_is_local(e)) put_entry(q, e, out);
    }
    mf_ini_free(ini);
    return rc;
}

int mf_result_inputs(const mf_json *run, const char *data, const char *own,
                     mf_result_input_function each, void *arg, char **ret_config)
{
    const mf_json *plugins = mf_json_get(run, "plugins");
    search q = {mf_json_get(run, "inputs"), data, own, each, arg, false};
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    *ret_config = NULL;
    int rc = f ? put_config(&q, mf_result_text(run, "config"), f) : MF_ENOMEM;
    if (f && fclose(f) != 0 && rc == MF_OK) rc = MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(plugins); i++) {
        const mf_json *p = mf_json_at(plugins, i);
        if (is_input(q.inputs, p)) continue;
        const char *state = state_of_plugin(p);
        each(arg, mf_result_text(p, "kind"), mf_result_text(p, "name"), state);
        q.missing = q.missing || strcmp(state, "ok") != 0;
    }
    if (rc == MF_OK && !q.missing && !(*ret_config = mf_strdup(out))) rc = MF_ENOMEM;
    free(out); /* of the C library, not of mf_alloc */
    return rc;
}
