/* published/files.c: the small files beside the weights: generation_config.json, the tokenizer,
 * and README.md, which tells how the model was made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/tokenizer/pretrained/files.h"
#include "generate/generation.h"
#include "pretrained/published/parts.h"
#include "run/folder/rundir.h"
#include "run/metrics/metrics.h"
#include "run/modules.h"
#include "run/sections/section_plugins.h"
#include "run/sections/run_sections.h"

enum { GENERATION_MAX = 1 << 20 };

bool mf_published_is_tokenizer(const char *name)
{
    for (int i = 0; i < MF_PT_FILES; i++)
        if (strcmp(name, mf_pt_file_name[i]) == 0) return true;
    const size_t n = strlen(name), m = sizeof ".model" - 1;
    return n > m && strcmp(name + n - m, ".model") == 0;
}

/* Adds the generation_config.json of the model from which the run was made, if it had one. */
static int add_given_generation(const char *run, mf_record *record, bool *ret_found)
{
    char *folder = NULL, *path = NULL, *text = NULL;
    size_t n = 0;
    int rc = mf_record_folder(run, &folder);
    if (rc == MF_OK && folder && !(path = mf_strf("%s/" MF_GENERATION_FILE, folder)))
        rc = MF_ENOMEM;
    *ret_found = rc == MF_OK && path && mf_exists(path);
    if (*ret_found) rc = mf_read_file(path, GENERATION_MAX, &text, &n);
    if (rc == MF_OK && text) rc = mf_published_add(record, MF_GENERATION_FILE, text, n);
    mf_free(folder);
    mf_free(path);
    mf_free(text);
    return rc;
}

/* Adds generation_config.json: which tokens begin, end and fill texts. */
static int add_generation(const mf_session *s, const char *run, mf_record *record)
{
    bool found = false;
    const int given = add_given_generation(run, record, &found);
    if (given != MF_OK || found) return given;
    mf_jw *w = mf_jw_new();
    size_t n = 0;
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_bool(w, "_from_model_config", false);
    mf_published_put_specials(w, s->tokenizer, false);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    const int rc = text ? mf_published_add(record, MF_GENERATION_FILE, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    return rc;
}

/* ---- README.md ---- */

/* The last part of a path. A card shows no folders of the machine. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Finds the last validation of a run. Returns false if there is none. */
static bool last_validation(const mf_metrics_history *h, mf_metrics_record *ret)
{
    for (int i = h->n; i-- > 0;)
        if (strcmp(h->records[i].split, "val") == 0) {
            *ret = h->records[i];
            return true;
        }
    return false;
}

static int read_validation(const char *run, mf_metrics_record *ret, bool *ret_found,
                           int64_t *ret_step)
{
    mf_rundir *dir = NULL;
    mf_metrics_history *h = NULL;
    *ret_found = false;
    *ret_step = -1;
    int rc = mf_rundir_read(run, &dir);
    if (rc == MF_OK) rc = mf_metrics_read(dir->metrics, &h);
    if (rc == MF_EINPUT) { /* a run without metrics has no loss to tell */
        mf_error_clear();
        rc = MF_OK;
    }
    if (rc == MF_OK && h) *ret_found = last_validation(h, ret);
    if (rc == MF_OK && h && h->n > 0) *ret_step = h->records[h->n - 1].step;
    mf_metrics_history_free(h);
    mf_rundir_close(dir);
    return rc;
}

/* Writes the options of a section that are not defaults, as lines of an INI. name NULL: the
 * section has begun. */
static void put_section(FILE *out, const char *name, const mf_option *options, const void *conf)
{
    static const char *const paths[] = {"from", "tokenizer", "path", "val_path", NULL};
    char text[1024];
    bool first = name != NULL;
    for (const mf_option *o = options; o->name; o++) {
        if (mf_option_is_default(o, conf)) continue;
        mf_option_text(o, conf, text, sizeof text);
        bool path = false;
        for (int i = 0; paths[i]; i++)
            path = path || strcmp(paths[i], o->name) == 0;
        if (first) fprintf(out, "[%s]\n", name);
        fprintf(out, "%s = %s\n", o->name, path ? base_name(text) : text);
        first = false;
    }
}

static int put_plugin(FILE *out, const mf_config *c, const mf_plugin_section *p)
{
    const mf_loaded *plugin;
    void *conf = NULL;
    mf_arena *arena = mf_arena_new();
    const int rc =
        arena ? mf_section_plugin(p, c->ini, arena, NULL, &plugin, &conf) : MF_ENOMEM;
    if (rc == MF_OK) {
        fprintf(out, "[%s]\nplugin = %s\n", p->section, base_name(p->plugin));
        put_section(out, NULL, plugin->schema.options, conf);
    }
    mf_arena_free(arena);
    return rc;
}

static int put_settings(FILE *out, const mf_config *c)
{
    int rc = MF_OK;
    put_section(out, "model", mf_model_section.options, &c->model);
    if (mf_judge_any_experts(&c->model)) {
        put_section(out, "moe", mf_moe_section.options, &c->moe);
        rc = put_plugin(out, c, &c->router);
        if (rc == MF_OK) rc = put_plugin(out, c, &c->expert);
    }
    for (int i = 0; rc == MF_OK && i < c->n_regularizers; i++)
        rc = put_plugin(out, c, &c->regularizers[i]);
    put_section(out, "data", mf_data_section.options, &c->data);
    put_section(out, "train", mf_train_section.options, &c->train);
    return rc;
}

static int put_card(FILE *out, const mf_session *s, const char *run, const mf_record *r)
{
    const mf_config *c = s->config;
    mf_metrics_record val;
    bool found;
    int64_t step, params = 0, active = 0;
    int rc = read_validation(run, &val, &found, &step);
    if (rc != MF_OK) return rc;
    mf_model_count(s->model, &params, &active);
    fprintf(out, "---\nlibrary_name: transformers\ntags:\n- moefw\n---\n\n# %s\n\n",
            base_name(run));
    const bool own_code = !r->family->types;
    fprintf(out,
            "A model of the form %s with %lld parameters, of which a token uses %lld. It was "
            "made with moefw.\n\n",
            r->family->name, (long long)params, (long long)active);
    if (own_code)
        fprintf(out, "It has its own code: `AutoModelForCausalLM.from_pretrained(FOLDER, "
                     "trust_remote_code=True)`.\n\n");
    fprintf(out, "| | |\n|---|---|\n");
    fprintf(out, "| data | %s |\n", c->data.path ? base_name(c->data.path) : "unknown");
    if (s->data.all[0] != '\0') fprintf(out, "| XXH3-128 of its tokens | %s |\n", s->data.all);
    if (s->tokenizer) fprintf(out, "| tokenizer | %s |\n", s->tokenizer->ops->name);
    fprintf(out, "| seed | %lld |\n", (long long)c->train.seed);
    if (step >= 0) fprintf(out, "| steps | %lld |\n", (long long)step);
    if (c->train.from && c->train.from[0] != '\0')
        fprintf(out, "| begins with the weights of | %s |\n", base_name(c->train.from));
    if (found) {
        fprintf(out, "| validation loss, nats a token | %.6g, after step %lld", val.task_loss,
                (long long)val.step);
        if (c->train.eval_context > 0)
            fprintf(out, ", in windows of %lld that overlap by %lld (`train.eval_context`)",
                    (long long)c->model.seq, (long long)c->train.eval_context);
        fprintf(out, " |\n");
    }
    fprintf(out, "| commands | `moefw train config.ini`, `moefw export hf %s %s%s` |\n\n",
            base_name(run), own_code ? "--with-code" : "--as ",
            own_code ? "" : r->family->name);
    fprintf(out, "Settings that are not defaults, `config.ini`:\n\n```ini\n");
    rc = put_settings(out, c);
    fprintf(out, "```\n");
    return rc;
}

static int add_card(const mf_session *s, const char *run, mf_record *record)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) return MF_ENOMEM;
    int rc = put_card(out, s, run, record);
    if (fclose(out) != 0 && rc == MF_OK) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_published_add(record, "README.md", text, n);
    free(text);
    return rc;
}

int mf_published_files(const mf_session *s, const char *run, bool tokenizer, mf_record *record)
{
    int rc = add_generation(s, run, record);
    if (rc != MF_OK) return rc;
    if (tokenizer && s->tokenizer)
        rc = mf_published_tokenizer(s->tokenizer, s->config->model.seq, record);
    if (rc == MF_EINPUT) { /* the model is of use without it, by its ids */
        mf_log(MF_LOG_WARN, "%s: %s; the folder has none", run, mf_error_message());
        mf_error_clear();
        rc = MF_OK;
    }
    return rc == MF_OK ? add_card(s, run, record) : rc;
}
