/* pretrained/code/code.c: the folder of a model with its own code. The Python files know
 * ops and no routers: what a plugin computes is in the graph. So plugins of third parties
 * leave, too, if they are made of moefw's ops. */
#include "pretrained/code/code.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/mem.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/beside.h"
#include "pretrained/code/trace.h"
#include "pretrained/published/parts.h"
#include "run/load.h"

enum { FILES = 3, OPS = 2 };
static const char *const file_name[FILES] = {"configuration_moefw.py", "modeling_moefw.py",
                                             "ops_moefw.py"};

typedef struct folder {
    const char *run, *to;
    mf_session *session;
    mf_code_trace *trace;
    mf_record record; /* the small files */
    char *code[FILES];
    size_t size[FILES];
} folder;

/* ---- the Python files ---- */

static int read_code(folder *x)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < FILES; i++) {
        char *path = mf_strf("%s/../code/%s", mf_paths_presets(), file_name[i]);
        rc = path ? mf_read_file(path, 1 << 20, &x->code[i], &x->size[i]) : MF_ENOMEM;
        mf_free(path);
    }
    return rc;
}

/* Whether ops_moefw.py has a function for the op. */
static bool knows(void *arg, const char *op)
{
    const folder *x = arg;
    char *line = mf_strf("\ndef op_%s(", op);
    const bool found = line && strstr(x->code[OPS], line);
    mf_free(line);
    return found;
}

/* ---- config.json ---- */

static void put_auto_map(mf_jw *w)
{
    mf_jw_key(w, "auto_map");
    mf_jw_object(w);
    mf_jw_kv_string(w, "AutoConfig", "configuration_moefw.MoefwConfig");
    mf_jw_kv_string(w, "AutoModelForCausalLM", "modeling_moefw.MoefwForCausalLM");
    mf_jw_end(w);
}

static int add_config(folder *x)
{
    const mf_model *m = x->session->model;
    const mf_model_config *c = &m->config->model;
    size_t n = 0;
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "model_type", "moefw");
    mf_jw_key(w, "architectures");
    mf_jw_array(w);
    mf_jw_string(w, "MoefwForCausalLM");
    mf_jw_end(w);
    put_auto_map(w);
    mf_jw_kv_int(w, "vocab_size", m->dims.vocab);
    mf_jw_kv_int(w, "hidden_size", c->dim);
    mf_jw_kv_int(w, "num_hidden_layers", c->layers);
    mf_jw_kv_int(w, "num_attention_heads", c->heads);
    mf_jw_kv_int(w, "max_position_embeddings", c->seq);
    mf_jw_kv_string(w, "dtype", "float32");
    mf_published_put_specials(w, x->session->tokenizer, false);
    mf_jw_key(w, "graph");
    mf_code_trace_put(x->trace, w);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    const int rc =
        text ? mf_published_add(&x->record, MF_FOLDER_CONFIG, text, n) : mf_error_code();
    mf_jw_free(w);
    return rc;
}

/* ---- the folder ---- */

static int put_values(const mf_code_tensor *t, mf_st_writer *w)
{
    const void *values = t->param ? mf_param_host(t->param) : t->table;
    if (!values) return MF_ENOMEM;
    const int rc = mf_st_writer_put(w, values, (size_t)mf_shape_count(t->shape) * 4);
    if (t->param && t->param->stored) mf_param_forget(t->param);
    return rc;
}

static int write_tensors(const folder *x)
{
    size_t at;
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(x->to, MF_FOLDER_MODEL);
    int rc = w && path ? mf_st_writer_meta(w, "format", "pt") : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < mf_code_tensors(x->trace); i++) {
        const mf_code_tensor t = mf_code_tensor_at(x->trace, i);
        rc = mf_st_writer_add(w, t.name, t.dtype == MF_I32 ? MF_ST_I32 : MF_ST_F32,
                              t.shape.rank, t.shape.dim);
    }
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && mf_st_writer_due(w, &at)) {
        const mf_code_tensor t = mf_code_tensor_at(x->trace, (int)at);
        rc = put_values(&t, w);
    }
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    mf_free(path);
    return rc;
}

static int write_one(const folder *x, const char *name, const char *text, size_t n)
{
    char *path = mf_path_join(x->to, name);
    const int rc = path ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

static int write_folder(void *arg, const char *to)
{
    folder *x = arg;
    x->to = to;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < FILES; i++)
        rc = write_one(x, file_name[i], x->code[i], x->size[i]);
    for (int i = 0; rc == MF_OK && i < x->record.n_files; i++)
        rc = write_one(x, x->record.files[i].name, x->record.files[i].text,
                       x->record.files[i].n);
    return rc == MF_OK ? write_tensors(x) : rc;
}

static int judge(const mf_session *s)
{
    if (s->config->model.task == MF_TASK_LM) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "--with-code: expected a run of model.task = lm, found another task");
}

int mf_export_code(const char *run, const char *to, bool tokenizer, int64_t *ret_tensors)
{
    static const mf_family family = {.name = "moefw"};
    folder x = {.run = run, .record = {.family = &family, .arena = mf_arena_new()}};
    const mf_session_options o = {.no_data = true, .bind = MF_BIND_NONE};
    const mf_load_change change = {.step = -1};
    int64_t step;
    if (!x.record.arena) return MF_ENOMEM;
    int rc = mf_exists(to) ? mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", to)
                           : read_code(&x);
    if (rc == MF_OK) rc = mf_load_run_as(run, &o, &change, &x.session, &step);
    if (rc == MF_OK) rc = judge(x.session);
    if (rc == MF_OK) rc = mf_code_trace_new(x.session->model, knows, &x, &x.trace);
    if (rc == MF_OK) rc = add_config(&x);
    if (rc == MF_OK) rc = mf_published_files(x.session, run, tokenizer, &x.record);
    if (rc == MF_OK) rc = mf_write_beside(to, write_folder, &x);
    if (rc == MF_OK) *ret_tensors = mf_code_tensors(x.trace);
    mf_code_trace_free(x.trace);
    mf_session_close(x.session);
    mf_arena_free(x.record.arena);
    for (int i = 0; i < FILES; i++)
        mf_free(x.code[i]);
    return rc;
}
