/* adapters/peft_write.c: writes the lora adapters of a run as an adapter folder.
 *
 * The tensors have the names and shapes that PEFT uses for its own adapters of such a model, so
 * PEFT can load them. All rows of a changed layer must belong to modules. */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "pretrained/beside.h"
#include "pretrained/adapters/lora.h"
#include "pretrained/adapters/peft.h"
#include "run/load.h"

typedef struct writer {
    mf_session *session;
    mf_record *record;
    mf_peft_module *modules;
    int n_modules;
    mf_lora_site *sites;
    int n_sites;
    mf_peft_change *changes; /* [n] in the order of modules */
    int n;
    mf_arena *arena;
    const char *to;
    int64_t tensors;
} writer;

/* ---- what is written ---- */

/* Checks that modules cover all rows of a changed layer. */
static int judge_site(const writer *x, const mf_lora_site *s)
{
    int64_t covered = 0;
    for (int i = 0; i < x->n_modules; i++) {
        const mf_peft_module *m = &x->modules[i];
        for (int64_t k = 0; m->weight == s->weight && k < m->rows.n; k++)
            covered += mf_rows_find(&s->change.rows, mf_rows_at(&m->rows, k)) >= 0;
    }
    if (covered == s->change.rows.n) return MF_OK;
    return mf_fail(MF_EINPUT, "%s: the adapter on %s has no form in PEFT for %s",
                   x->session->config->name, s->weight->name, x->record->family->name);
}

static int fit_module(writer *x, const mf_peft_module *m)
{
    const mf_low_rank **all = mf_arena_alloc(x->arena, ((size_t)x->n_sites + 1) * sizeof *all);
    mf_peft_change *c = &x->changes[x->n];
    bool any = false;
    int n = 0;
    if (!all) return MF_ENOMEM;
    for (int i = 0; i < x->n_sites; i++)
        if (x->sites[i].weight == m->weight) all[n++] = &x->sites[i].change;
    c->module = m;
    const int rc =
        n > 0 ? mf_low_rank_fit(all, n, &m->rows, x->arena, &c->change, &any) : MF_OK;
    x->n += any;
    return rc;
}

/* rslora is one key for all modules. If some modules do not use it, it is used for none, and
 * alpha is changed so that each scale stays the same. */
static void settle_scales(writer *x)
{
    bool all = true;
    for (int i = 0; i < x->n; i++)
        all = all && x->changes[i].change.rslora;
    for (int i = 0; i < x->n && !all; i++) {
        mf_low_rank *c = &x->changes[i].change;
        c->alpha = mf_low_rank_scale(c) * (double)c->rank;
        c->rslora = false;
    }
}

static int collect(writer *x)
{
    int rc = mf_lora_sites(x->session->model, x->arena, &x->sites, &x->n_sites);
    if (rc == MF_OK && x->n_sites == 0)
        return mf_fail(MF_EINPUT,
                       "the run has no adapter; expected a section [adapter.NAME] with plugin "
                       "= " MF_LORA_PLUGIN);
    if (rc == MF_OK)
        rc = mf_modules_list(x->record, x->session->model->store, x->arena, &x->modules,
                             &x->n_modules);
    for (int i = 0; rc == MF_OK && i < x->n_sites; i++)
        rc = judge_site(x, &x->sites[i]);
    if (rc != MF_OK) return rc;
    x->changes = mf_arena_alloc(x->arena, ((size_t)x->n_modules + 1) * sizeof *x->changes);
    if (!x->changes) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < x->n_modules; i++)
        rc = fit_module(x, &x->modules[i]);
    settle_scales(x);
    return rc;
}

/* ---- adapter_config.json ---- */

/* Returns the part of a module's name after the number of its block. */
static const char *end_of(const mf_peft_module *m)
{
    char number[32];
    snprintf(number, sizeof number, ".%d.", (int)m->layer);
    const char *found = m->layer >= 0 ? strstr(m->name, number) : NULL;
    return found ? found + strlen(number) : m->name;
}

static bool same_target(const mf_peft_module *a, const mf_peft_module *b)
{
    const char *x = a->parameter ? a->parameter : "", *y = b->parameter ? b->parameter : "";
    return strcmp(end_of(a), end_of(b)) == 0 && strcmp(x, y) == 0;
}

/* Whether the modules with this name ending are changed in all blocks, so that the ending alone
 * can be the target. */
static bool in_all_blocks(const writer *x, const mf_peft_module *m)
{
    int there = 0, changed = 0;
    for (int i = 0; i < x->n_modules; i++)
        there += same_target(&x->modules[i], m);
    for (int i = 0; i < x->n; i++)
        changed += same_target(x->changes[i].module, m);
    return there == changed;
}

static const char *target_of(const writer *x, const mf_peft_module *m)
{
    const char *name = in_all_blocks(x, m) ? end_of(m) : m->name;
    if (!m->parameter) return name;
    return mf_arena_strf(x->arena, "%s.%s", name, m->parameter);
}

/* Writes a list of targets, each once. parameters: list only targets that are not
 * linear layers. */
static int put_targets(const writer *x, mf_jw *w, const char *key, bool parameters)
{
    const char **seen = mf_arena_alloc(x->arena, ((size_t)x->n + 1) * sizeof *seen);
    int n = 0;
    if (!seen) return MF_ENOMEM;
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int i = 0; i < x->n; i++) {
        const mf_peft_module *m = x->changes[i].module;
        if ((m->parameter != NULL) != parameters) continue;
        const char *target = target_of(x, m);
        bool again = false;
        if (!target) return MF_ENOMEM;
        for (int k = 0; k < n; k++)
            again = again || strcmp(seen[k], target) == 0;
        if (again) continue;
        seen[n++] = target;
        mf_jw_string(w, target);
    }
    mf_jw_end(w);
    return MF_OK;
}

static void put_patterns(const writer *x, mf_jw *w)
{
    const mf_low_rank *first = &x->changes[0].change;
    mf_jw_key(w, "rank_pattern");
    mf_jw_object(w);
    for (int i = 0; i < x->n; i++)
        if (x->changes[i].change.rank != first->rank)
            mf_jw_kv_int(w, x->changes[i].module->name, x->changes[i].change.rank);
    mf_jw_end(w);
    mf_jw_key(w, "alpha_pattern");
    mf_jw_object(w);
    for (int i = 0; i < x->n; i++)
        if (x->changes[i].change.alpha != first->alpha)
            mf_jw_kv_real(w, x->changes[i].module->name, x->changes[i].change.alpha);
    mf_jw_end(w);
}

/* Returns the dropout of the first layer. Returns 0 if a change belongs to a parameter, on
 * which PEFT has no dropout. */
static double dropout_of(const writer *x)
{
    for (int i = 0; i < x->n; i++)
        if (x->changes[i].module->parameter && x->sites[0].dropout > 0) {
            mf_log(MF_LOG_WARN, "lora_dropout = 0 is written: PEFT has no dropout on "
                                "parameters of routers and experts");
            return 0;
        }
    return x->sites[0].dropout;
}

static int put_config(const writer *x, mf_jw *w)
{
    const mf_low_rank *first = &x->changes[0].change;
    const char *base = mf_json_string(mf_json_get(x->record->doc, "folder"), NULL);
    mf_jw_object(w);
    mf_jw_kv_string(w, "peft_type", "LORA");
    mf_jw_kv_string(w, "peft_version", MF_PEFT_VERSION);
    mf_jw_kv_string(w, "task_type", "CAUSAL_LM");
    mf_jw_kv_string(w, "base_model_name_or_path", base ? base : "");
    mf_jw_kv_int(w, "r", first->rank);
    mf_jw_kv_real(w, "lora_alpha", first->alpha);
    mf_jw_kv_real(w, "lora_dropout", dropout_of(x));
    mf_jw_kv_bool(w, "use_rslora", first->rslora);
    mf_jw_kv_string(w, "bias", "none");
    mf_jw_kv_bool(w, "fan_in_fan_out",
                  !x->changes[0].module->parameter && x->changes[0].module->transposed);
    mf_jw_kv_bool(w, "inference_mode", true);
    int rc = put_targets(x, w, "target_modules", false);
    if (rc == MF_OK) rc = put_targets(x, w, "target_parameters", true);
    put_patterns(x, w);
    mf_jw_end(w);
    return rc;
}

static int write_config(const writer *x)
{
    mf_jw *w = mf_jw_new();
    char *path = mf_path_join(x->to, MF_PEFT_CONFIG);
    size_t n = 0;
    int rc = w && path ? put_config(x, w) : MF_ENOMEM;
    const char *text = rc == MF_OK ? mf_jw_text(w, &n) : NULL;
    if (rc == MF_OK) rc = text ? mf_write_file_atomic(path, text, n) : mf_error_code();
    mf_jw_free(w);
    mf_free(path);
    return rc;
}

/* ---- adapter_model.safetensors ---- */

/* Whether another parameter of the same module follows this parameter. */
static bool is_inner(const writer *x, int i)
{
    for (int k = i + 1; k < x->n; k++)
        if (x->changes[k].module->fused &&
            strcmp(x->changes[k].module->name, x->changes[i].module->name) == 0)
            return x->changes[i].module->fused;
    return false;
}

static int declare(writer *x, mf_st_writer *w)
{
    int rc = mf_st_writer_meta(w, "format", "pt");
    for (int i = 0; rc == MF_OK && i < x->n; i++) {
        const mf_low_rank *c = &x->changes[i].change;
        const int64_t rank = c->experts * c->rank, a[] = {rank, c->inputs},
                      b[] = {c->rows.n, rank};
        for (int part = 0; rc == MF_OK && part < 2; part++) {
            const char *name = mf_arena_strf(x->arena, "base_model.model.%s%s.lora_%c.weight",
                                             x->changes[i].module->name,
                                             is_inner(x, i) ? ".base_layer" : "", "AB"[part]);
            rc = name ? mf_st_writer_add(w, name, MF_ST_F32, 2, part ? b : a) : MF_ENOMEM;
        }
    }
    return rc;
}

/* Writes A [E r,in], or B [out,r E] with column i E + e for column i of expert e. */
static int put_values(mf_st_writer *w, const mf_low_rank *c, bool second)
{
    const int64_t E = c->experts, r = c->rank, out = c->rows.n;
    if (!second) return mf_st_writer_put(w, c->a, (size_t)(E * r * c->inputs) * sizeof *c->a);
    float *b = mf_alloc((size_t)(out * r * E), sizeof *b);
    if (!b) return MF_ENOMEM;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < r; i++)
            for (int64_t e = 0; e < E; e++)
                b[(o * r + i) * E + e] = c->b[(e * out + o) * r + i];
    const int rc = mf_st_writer_put(w, b, (size_t)(out * r * E) * sizeof *b);
    mf_free(b);
    return rc;
}

static int write_weights(writer *x)
{
    size_t i;
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(x->to, MF_PEFT_WEIGHTS);
    int rc = w && path ? declare(x, w) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && mf_st_writer_due(w, &i)) {
        rc = put_values(w, &x->changes[i / 2].change, i % 2 == 1);
        x->tensors++;
    }
    if (rc == MF_OK) rc = mf_st_writer_end(w, true);
    mf_st_writer_free(w);
    mf_free(path);
    return rc;
}

/* Warns of changes that PEFT would not load. In families with experts, PEFT treats each target
 * whose name ends like those of experts as experts. The linear layers of dense blocks and of
 * shared experts then do not get their changes, and PEFT only warns of missing keys. */
static void warn(const writer *x)
{
    static const char *const ends[] = {".gate_proj", ".up_proj", ".down_proj"};
    for (int i = 0; x->record->family->peft_takes_experts && i < x->n; i++) {
        const mf_peft_module *m = x->changes[i].module;
        const char *dot = strrchr(m->name, '.');
        bool takes = false;
        for (int k = 0; dot && k < 3; k++)
            takes = takes || strcmp(dot, ends[k]) == 0;
        if (m->parameter || !takes) continue;
        mf_log(MF_LOG_WARN,
               "%s: PEFT " MF_PEFT_VERSION
               " takes this target for the experts of %s and does not "
               "load its change; 'moefw import --onto' does, and 'export hf' adds it to the "
               "weights",
               m->name, x->record->family->name);
        return;
    }
}

static int write_folder(void *arg, const char *to)
{
    writer *x = arg;
    x->to = to;
    const int rc = write_weights(x);
    return rc == MF_OK ? write_config(x) : rc;
}

int mf_export_peft(const char *run, const char *folder, int64_t *ret_tensors)
{
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    int64_t step;
    writer x = {0};
    if (mf_exists(folder))
        return mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", folder);
    int rc = mf_load_run_as(run, &o, &change, &x.session, &step);
    if (rc == MF_OK) rc = mf_record_need(run, &x.record);
    if (rc == MF_OK && !(x.arena = mf_arena_new())) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = collect(&x);
    if (rc == MF_OK) rc = mf_write_beside(folder, write_folder, &x);
    if (rc == MF_OK) warn(&x);
    if (rc == MF_OK) *ret_tensors = x.tensors;
    mf_arena_free(x.arena);
    mf_record_free(x.record);
    mf_session_close(x.session);
    return rc;
}
