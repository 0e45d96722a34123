/* Prepares a comparison: checks every router and writes the plan and the configurations of the
 * runs. Nothing is written before all checks have passed. */
#include "lab/compare/compare_parts.h"
#include "lab/compare/compare_search.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/below.h"
#include "base/file/io.h"
#include "base/log.h"
#include "plugin/load/open.h"
#include "run/folder/rundir.h"
#include "run/modules.h"
#include "run/session.h"

const char *const mf_equal_names[] = {"steps", "params", "time", NULL};

/* ---- configurations ---- */

/* Loads the configuration of one router, or of the router's pilot run. */
static int load(const mf_compare *c, const mf_compare_router *r, bool pilot, mf_config **ret)
{
    const mf_compare_spec *s = c->spec;
    const size_t room = (size_t)s->n_set + (size_t)r->entry.n_options + 8;
    char router[512], hidden[48], steps[48];
    mf_assignment *a = mf_alloc(room, sizeof *a);
    int n = 0;
    if (!a) return MF_ENOMEM;
    for (; n < s->n_set; n++)
        a[n] = s->set[n];
    snprintf(router, sizeof router, "router.plugin=%s", r->entry.plugin);
    a[n++] = (mf_assignment){router, "--routers"};
    for (int i = 0; i < r->entry.n_options; i++)
        a[n++] = (mf_assignment){r->entry.assignments[i], "--routers"};
    snprintf(hidden, sizeof hidden, "expert.hidden=%lld", (long long)r->hidden);
    if (r->hidden > 0) a[n++] = (mf_assignment){hidden, "--equal"};
    snprintf(steps, sizeof steps, "train.steps=%lld",
             (long long)(pilot ? MF_PILOT_STEPS : r->steps));
    if (pilot || (r->steps > 0 && s->equal == MF_EQUAL_TIME))
        a[n++] = (mf_assignment){steps, "--equal"};
    if (pilot) {
        a[n++] = (mf_assignment){"train.log_every=1", "--equal"};
        a[n++] = (mf_assignment){"train.eval_every=0", "--equal"};
        a[n++] = (mf_assignment){"train.save_every=0", "--equal"};
    }
    int rc = mf_config_load_from(s->config, n, a, NULL, ret);
    mf_free(a);
    return rc;
}

static int text_of(const mf_compare *c, const mf_compare_router *r, bool pilot, char **ret)
{
    mf_config *config = NULL;
    size_t size;
    *ret = NULL;
    int rc = load(c, r, pilot, &config);
    if (rc == MF_OK) {
        config->train.seed = 0; /* each run sets its own seed */
        config->train.threads = 0;
        rc = mf_config_text(config, "a configuration", ret, &size);
    }
    mf_config_free(config);
    return rc;
}

/* Writes the configuration of a router's runs, without seed and threads, as text. The caller
 * frees *ret with mf_free. */
static int config_text(const mf_compare *c, const mf_compare_router *r, char **ret)
{
    return text_of(c, r, false, ret);
}

/* ---- routers ---- */

/* Chooses the baseline. A router of --baseline that is not in the list becomes its
 * first entry. */
static int choose_baseline(mf_compare *c, const mf_config *own, mf_router_entry **list, int *n)
{
    const char *wanted = c->spec->baseline;
    int found;
    int rc = mf_router_list_find(*list, *n, wanted ? wanted : own->router.plugin, &found);
    c->baseline = found >= 0 ? found : 0;
    if (rc != MF_OK || found >= 0 || !wanted) return rc;
    mf_router_entry *longer = mf_arena_alloc(c->arena, ((size_t)*n + 1) * sizeof *longer);
    if (!longer) return MF_ENOMEM;
    memcpy(longer + 1, *list, (size_t)*n * sizeof *longer);
    *list = longer;
    ++*n;
    return mf_router_entry_read(c->arena, wanted, longer);
}

/* A folder name that is unique to the label: ':' becomes ',', other special characters are
 * replaced by their code. */
static char *folder_of(mf_arena *arena, const char *label)
{
    char *out = mf_arena_alloc(arena, 3 * strlen(label) + 1), *o = out;
    for (const char *s = label; out && *s != '\0'; s++) {
        if (isalnum((unsigned char)*s) || strchr("_-=+", *s) || (*s == '.' && o != out))
            *o++ = *s;
        else if (*s == ':')
            *o++ = ',';
        else
            o += sprintf(o, "%%%02x", (unsigned char)*s);
    }
    return out;
}

static int name_run(mf_compare *c, const mf_compare_router *r, int64_t seed, bool pilot,
                    mf_compare_run *run)
{
    char leaf[48];
    snprintf(leaf, sizeof leaf, pilot ? "pilot" : "seed-%lld", (long long)seed);
    *run = (mf_compare_run){.seed = seed, .pilot = pilot};
    run->name = pilot
                    ? mf_arena_strf(c->arena, "%s pilot", r->entry.label)
                    : mf_arena_strf(c->arena, "%s seed %lld", r->entry.label, (long long)seed);
    run->dir = mf_arena_strf(c->arena, "%s/%s", r->dir, leaf);
    run->claim = mf_arena_strf(c->arena, "%s/%s.lock", r->dir, leaf);
    run->log = mf_arena_strf(c->arena, "%s/%s.log", r->dir, leaf);
    return run->name && run->dir && run->claim && run->log ? MF_OK : MF_ENOMEM;
}

static int name_router(mf_compare *c, mf_compare_router *r)
{
    const char *folder = folder_of(c->arena, r->entry.label);
    r->dir = folder ? mf_arena_strf(c->arena, "%s/%s", c->spec->out, folder) : NULL;
    r->config = r->dir ? mf_arena_strf(c->arena, "%s/config.ini", r->dir) : NULL;
    r->runs = mf_arena_alloc(c->arena, (size_t)c->spec->seeds * sizeof *r->runs);
    if (!r->config || !r->runs) return MF_ENOMEM;
    int rc = name_run(c, r, r->first_seed, true, &r->pilot);
    for (int32_t i = 0; rc == MF_OK && i < c->spec->seeds; i++)
        rc = name_run(c, r, r->first_seed + i, false, &r->runs[i]);
    return rc;
}

/* ---- checks ---- */

/* Reads the dimensions that the data determine. The model is built without experts, so that the
 * dimensions do not depend on a router. */
static int read_dimensions(const mf_compare *c, mf_model_dims *ret)
{
    mf_config *config;
    mf_session *s = NULL;
    int rc = mf_config_load_from(c->spec->config, c->spec->n_set, c->spec->set, NULL, &config);
    if (rc != MF_OK) return rc;
    if (config->model.moe_every == 0) {
        mf_config_free(config);
        return mf_fail(MF_EUSAGE,
                       "model.moe_every = 0: a dense model has no router to compare; "
                       "expected 1 or more");
    }
    config->model.moe_every = 0;
    const mf_session_options o = {.training = false};
    rc = mf_session_open(config, &o, &s);
    if (rc == MF_OK && s->corpus->split[MF_SPLIT_VAL].tokens == 0)
        rc = mf_fail(MF_EUSAGE,
                     "data.split = %g leaves nothing to validate with, which is what "
                     "routers are compared by",
                     s->config->data.split);
    if (rc == MF_OK) *ret = s->model->dims;
    mf_session_close(s);
    return rc;
}

static int count_params(const mf_compare *c, const mf_compare_router *r,
                        const mf_model_dims *dims, int64_t *ret_all, int64_t *ret_active,
                        int64_t *ret_router)
{
    mf_config *config = NULL;
    mf_model *m = NULL;
    mf_model_options options;
    int rc = load(c, r, false, &config);
    if (rc == MF_OK) {
        const mf_model_settings settings = mf_config_model(config);
        mf_session_model_options(config, false, &options);
        rc = mf_model_new(&settings, dims, &options, &m);
    }
    if (rc == MF_OK) {
        mf_model_count(m, ret_all, ret_active);
        *ret_router = 0;
        for (int i = 0; i < mf_store_count(m->store); i++) {
            const mf_param *p = mf_store_at(m->store, i);
            if (!p->buffer && strstr(p->name, ".router.")) *ret_router += p->count;
        }
        mf_model_free(m);
    }
    mf_config_free(config);
    return rc;
}

/* Skips the router, with the last error as the reason. If a fault of the machine has occurred
 * since the number of faults was `faults`, the error says nothing about the router, and is
 * returned instead. */
static int refuse(mf_compare_router *r, int rc, unsigned long faults)
{
    if (rc == MF_OK || rc == MF_ENOMEM || mf_faults() != faults) return rc;
    r->refused_as = rc;
    r->refused = mf_strdup(mf_error_message());
    mf_error_clear();
    return r->refused ? MF_OK : MF_ENOMEM;
}

/* Checks the options of a router. Invalid options are an error if the user named the router;
 * otherwise the router is skipped. It is always skipped if its plugin is
 * refused (MF_EPLUGIN). */
static int judge_options(const mf_compare *c, mf_compare_router *r)
{
    const unsigned long faults = mf_faults();
    mf_config *config = NULL;
    int rc = load(c, r, false, &config);
    if (rc == MF_OK) rc = mf_config_open_plugins(config, NULL);
    if (rc == MF_OK) {
        r->first_seed = config->train.seed + c->spec->skip_seeds;
        r->configured = config->train.steps;
        if (c->spec->equal != MF_EQUAL_TIME) r->steps = r->configured;
    }
    if (rc == MF_OK && c->spec->equal == MF_EQUAL_TIME && config->train.steps == 0)
        rc = mf_fail(MF_EUSAGE,
                     "equal time is made by train.steps: expected 1 or more, found 0");
    mf_config_free(config);
    if (rc != MF_OK && !r->entry.general && rc != MF_EPLUGIN) return rc;
    return refuse(r, rc, faults);
}

static int judge_model(const mf_compare *c, mf_compare_router *r, const mf_model_dims *dims)
{
    if (r->refused) return MF_OK;
    const unsigned long faults = mf_faults();
    int rc = count_params(c, r, dims, &r->params, &r->params_active, &r->params_router);
    return refuse(r, rc, faults);
}

/* Computes expert.hidden. Active parameters are linear in it, so two widths determine
 * the line. */
static int fit_hidden(const mf_compare *c, mf_compare_router *r, const mf_model_dims *dims)
{
    const int64_t wanted = c->routers[c->baseline].params_active, widths[2] = {64, 128};
    int64_t active[2] = {0, 0}, unused;
    int rc = MF_OK;
    if (r->refused || r->params_active == wanted) return rc;
    for (int i = 0; rc == MF_OK && i < 2; i++) {
        r->hidden = widths[i];
        rc = count_params(c, r, dims, &unused, &active[i], &unused);
    }
    if (rc != MF_OK) return mf_fail_context(rc, "equal parameters are made by expert.hidden");
    const double slope = (double)(active[1] - active[0]) / (double)(widths[1] - widths[0]);
    const double at_zero = (double)active[0] - slope * (double)widths[0];
    if (!(slope > 0))
        return mf_fail(MF_EUSAGE,
                       "equal parameters are made by expert.hidden, but the experts of "
                       "this model do not grow with it");
    r->hidden = (int64_t)fmax(1, round(((double)wanted - at_zero) / slope));
    return count_params(c, r, dims, &r->params, &r->params_active, &r->params_router);
}

/* If the user named no baseline, and the chosen baseline does not fit the model, the first
 * router that fits becomes the baseline. If its plugin cannot be loaded, the baseline stays:
 * the plugin may exist again when the comparison is continued, and the baseline must not
 * change meanwhile. */
static int judge_baseline(mf_compare *c)
{
    const mf_compare_router *b = &c->routers[c->baseline];
    if (!b->refused) return MF_OK;
    if (b->refused_as == MF_EPLUGIN)
        return mf_fail(MF_EPLUGIN, "the baseline %s: %s (--baseline names another)",
                       b->entry.label, b->refused);
    for (int i = 0; !c->spec->baseline && i < c->n_routers; i++)
        if (!c->routers[i].refused) {
            c->baseline = i;
            return MF_OK;
        }
    return mf_fail(MF_EUSAGE, "the baseline %s cannot stand in this model: %s", b->entry.label,
                   b->refused);
}

/* ---- the folder OUT ---- */

/* Whether this is the name of a temporary plan file. A process is writing this file, or a
 * killed process has left it. */
static bool is_draft(const char *name)
{
    static const char begin[] = "plan.json.", end[] = ".tmp";
    const size_t n = strlen(name);
    return n > sizeof begin + sizeof end && strncmp(name, begin, sizeof begin - 1) == 0 &&
           strcmp(name + n + 1 - sizeof end, end) == 0;
}

/* Accepts an empty or new folder, or the folder of a comparison. Another process may be
 * creating the comparison. Its first file in the folder is the plan. So a folder with other
 * files contains a plan by now, even if it contained none a moment before. */
static int judge_out(const mf_compare_spec *s)
{
    const char *out = s->out;
    char **names = NULL;
    const char *strange = NULL;
    int n = 0;
    if (!mf_exists(out)) return MF_OK;
    if (!mf_is_dir(out))
        return mf_fail(MF_EUSAGE, "%s: expected a directory, found a file", out);
    int rc = mf_list_dir(out, &names, &n);
    for (int i = 0; i < n && !strange; i++)
        if (!is_draft(names[i]) && !(s->search && mf_search_owns(names[i]))) strange = names[i];
    if (rc == MF_OK && strange && !mf_compare_is(out))
        rc = mf_fail(MF_EUSAGE,
                     "%s: the directory holds files already (%s): expected an empty or a "
                     "new one, or a comparison to continue",
                     out, strange);
    mf_list_free(names, n);
    return rc;
}

/* Writes the first line that differs, for a message. */
static void first_difference(const char *a, const char *b, char *out, size_t size)
{
    while (*a != '\0' && *b != '\0') {
        const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || strncmp(a, b, n) != 0) {
            snprintf(out, size, "there '%.*s', now '%.*s'", (int)n, a, (int)m, b);
            return;
        }
        a += n + (a[n] != '\0');
        b += m + (b[m] != '\0');
    }
    snprintf(out, size, "one has more keys");
}

/* Compares a configuration in OUT with the text that it must have. *ret_same: whether the file
 * exists and has this text. Fails with MF_EUSAGE if it has another text. */
static int judge_config(const char *path, const char *text, bool *ret_same)
{
    char *there = NULL, why[512];
    size_t size;
    *ret_same = false;
    if (!mf_exists(path)) return MF_OK;
    int rc = mf_read_file(path, 1 << 20, &there, &size);
    if (rc == MF_OK && strcmp(there, text) != 0) {
        first_difference(there, text, why, sizeof why);
        rc = mf_fail(MF_EUSAGE,
                     "%s is of another comparison (%s): expected the same configuration, "
                     "or a new --out",
                     path, why);
    }
    *ret_same = rc == MF_OK;
    mf_free(there);
    return rc;
}

int mf_compare_keep_config(mf_compare *c, mf_compare_router *r)
{
    bool same;
    mf_free(r->text);
    int rc = config_text(c, r, &r->text);
    if (rc == MF_OK) rc = judge_config(r->config, r->text, &same);
    if (rc == MF_OK && !same) rc = mf_write_file_atomic(r->config, r->text, strlen(r->text));
    return rc;
}

/* With equal time, reads the number of steps from an existing config.ini, which is written
 * after the pilot runs. */
static int take_steps(mf_compare *c, mf_compare_router *r)
{
    mf_config *there = NULL;
    if (c->spec->equal != MF_EQUAL_TIME || !mf_exists(r->config)) return MF_OK;
    int rc = mf_config_load(r->config, 0, NULL, &there);
    if (rc == MF_OK) r->steps = there->train.steps;
    mf_config_free(there);
    return rc;
}

static int judge_texts(mf_compare *c)
{
    int rc = MF_OK;
    bool same;
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++) {
        mf_compare_router *r = &c->routers[i];
        if (r->refused) continue;
        rc = take_steps(c, r);
        if (rc == MF_OK) rc = config_text(c, r, &r->text);
        if (rc == MF_OK) rc = judge_config(r->config, r->text, &same);
    }
    return rc;
}

static int write_pilot(const mf_compare *c, const mf_compare_router *r)
{
    char *text = NULL, *path = mf_path_join(r->dir, "pilot.ini");
    int rc = path ? text_of(c, r, true, &text) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_write_file_atomic(path, text, strlen(text));
    mf_free(text);
    mf_free(path);
    return rc;
}

/* Refuses links in OUT. A comparison made by somebody else may contain links to files of the
 * user who resumes it. */
static int refuse_links(const mf_compare *c)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++) {
        const char *const name[] = {c->routers[i].dir + strlen(c->spec->out) + 1, NULL};
        if (!c->routers[i].refused) rc = mf_below_judge(c->spec->out, name);
    }
    return rc;
}

static int make_out(mf_compare *c)
{
    int rc = mf_mkdirs(c->spec->out);
    if (rc == MF_OK) rc = refuse_links(c);
    if (rc == MF_OK) rc = mf_compare_plan_write(c);
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++) {
        mf_compare_router *r = &c->routers[i];
        if (r->refused) continue;
        rc = mf_mkdirs(r->dir);
        if (rc == MF_OK && (c->spec->equal != MF_EQUAL_TIME || r->steps > 0))
            rc = mf_compare_keep_config(c, r);
        if (rc == MF_OK && c->spec->equal == MF_EQUAL_TIME) rc = write_pilot(c, r);
    }
    return rc;
}

/* ---- the comparison ---- */

static int read_routers(mf_compare *c)
{
    mf_router_entry *list;
    mf_config *own = NULL;
    int n;
    int rc = mf_router_list(c->arena, c->spec->routers, &list, &n);
    if (rc == MF_OK)
        rc = mf_config_load_from(c->spec->config, c->spec->n_set, c->spec->set, NULL, &own);
    if (rc == MF_OK) {
        c->by = own->model.task == MF_TASK_CLASSIFY  ? MF_QUALITY_ACCURACY
                : own->model.task == MF_TASK_REGRESS ? MF_QUALITY_MSE
                                                     : MF_QUALITY_LOSS;
        rc = choose_baseline(c, own, &list, &n);
        c->from = mf_arena_strdup(c->arena, own->train.from);
        if (rc == MF_OK && !c->from) rc = MF_ENOMEM;
    }
    mf_config_free(own);
    c->routers = rc == MF_OK ? mf_arena_alloc(c->arena, (size_t)n * sizeof *c->routers) : NULL;
    if (rc == MF_OK && !c->routers) rc = MF_ENOMEM;
    if (rc != MF_OK) return rc;
    c->n_routers = n;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        c->routers[i].entry = list[i];
        rc = judge_options(c, &c->routers[i]);
        if (rc == MF_OK) rc = name_router(c, &c->routers[i]);
    }
    return rc;
}

/* The plugin's name for a name or path. If the plugin cannot be loaded, the text itself. */
static const char *name_of(const char *plugin)
{
    const mf_loaded *loaded;
    if (mf_plugin_load(MF_ROUTER, plugin, NULL, 0, &loaded) == MF_OK) return loaded->name;
    mf_error_clear();
    return plugin;
}

/* Sets the names that people see. A file of a plugin is shown by the plugin's name. If another
 * router of the comparison has the same name, name and file are shown. */
static int show_names(mf_compare *c)
{
    for (int i = 0; i < c->n_routers; i++) {
        mf_compare_router *r = &c->routers[i];
        const size_t n = strlen(r->entry.plugin);
        const char *own = !r->refused && strchr(r->entry.plugin, '/') ? name_of(r->entry.plugin)
                                                                      : r->entry.plugin;
        r->name = strncmp(r->entry.label, r->entry.plugin, n) == 0
                      ? mf_arena_strf(c->arena, "%s%s", own, r->entry.label + n)
                      : r->entry.label;
        if (!r->name) return MF_ENOMEM;
    }
    for (int i = 0; i < c->n_routers; i++) {
        mf_compare_router *r = &c->routers[i];
        bool twice = false;
        for (int k = 0; k < c->n_routers; k++)
            twice = twice || (k != i && strcmp(c->routers[k].name, r->name) == 0);
        /* changed names are longer, so they equal no name that is compared later */
        if (!twice || strcmp(r->name, r->entry.label) == 0) continue;
        r->name = mf_arena_strf(c->arena, "%s (%s)", r->name, r->entry.label);
        if (!r->name) return MF_ENOMEM;
    }
    return MF_OK;
}

static int prepare(mf_compare *c)
{
    mf_model_dims dims;
    int rc = judge_out(c->spec);
    if (rc == MF_OK) rc = mf_compare_plan_looks(c);
    if (rc == MF_OK) rc = read_routers(c);
    if (rc == MF_OK) rc = mf_compare_margin_fits(c);
    if (rc == MF_OK) rc = read_dimensions(c, &dims);
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++)
        rc = judge_model(c, &c->routers[i], &dims);
    if (rc == MF_OK) rc = judge_baseline(c);
    if (rc == MF_OK) rc = show_names(c);
    for (int i = 0; rc == MF_OK && c->spec->equal == MF_EQUAL_PARAMS && i < c->n_routers; i++)
        rc = fit_hidden(c, &c->routers[i], &dims);
    if (rc == MF_OK) rc = judge_texts(c);
    return rc == MF_OK ? make_out(c) : rc;
}

int mf_compare_new(const mf_compare_spec *spec, mf_compare **ret)
{
    mf_compare *c = mf_alloc(1, sizeof *c);
    *ret = NULL;
    if (!c) return MF_ENOMEM;
    c->spec = spec;
    c->arena = mf_arena_new();
    int rc = c->arena ? prepare(c) : MF_ENOMEM;
    if (rc != MF_OK) {
        mf_compare_free(c);
        return rc;
    }
    *ret = c;
    return MF_OK;
}

void mf_compare_free(mf_compare *c)
{
    if (!c) return;
    for (int i = 0; c->routers && i < c->n_routers; i++) {
        mf_compare_router *r = &c->routers[i];
        mf_free(r->text);
        mf_free(r->refused);
        mf_free(r->pilot.reason);
        for (int32_t j = 0; r->runs && j < c->spec->seeds; j++)
            mf_free(r->runs[j].reason);
    }
    mf_arena_free(c->arena);
    mf_free(c);
}
