/* Runs a search: one comparison of trials for each rung, then the choice of the winners. Trials
 * and choices depend only on the plan and the results on disk. So a search that was stopped
 * continues by running the same functions again. */
#include "lab/compare/compare_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "lab/compare/compare_parts.h"

#define FACTOR      3  /* factor by which steps grow and trials shrink from rung to rung */
#define LEAST_STEPS 10 /* fewest steps of the first rung */

bool mf_search_owns(const char *name)
{
    return strcmp(name, "search") == 0 || strncmp(name, "search.json", 11) == 0;
}

/* ---- checks ---- */

typedef struct {
    const mf_compare_spec *of;
} checker;

/* Loads the configuration with one value, so that a wrong value is reported before any
 * run starts. */
static int judge_value(void *arg, const char *assignment, const char *option)
{
    const mf_compare_spec *s = ((const checker *)arg)->of;
    mf_config *config = NULL;
    mf_assignment *a = mf_alloc((size_t)s->n_set + 1, sizeof *a);
    if (!a) return MF_ENOMEM;
    /* Options of routers need the plugin, which only the trials load. */
    if (strncmp(assignment, "router.", 7) == 0) {
        mf_free(a);
        return MF_OK;
    }
    if (strncmp(assignment, "train.seed=", 11) == 0) {
        mf_free(a);
        return mf_fail(MF_EUSAGE, "%s: train.seed is what trials are repeated over", option);
    }
    for (int i = 0; i < s->n_set; i++)
        a[i] = s->set[i];
    a[s->n_set] = (mf_assignment){assignment, option};
    const int rc = mf_config_load_from(s->config, s->n_set + 1, a, NULL, &config);
    mf_config_free(config);
    mf_free(a);
    return rc;
}

/* ---- rungs ---- */

static int kept_of(int n)
{
    return n / FACTOR > 1 ? n / FACTOR : 1;
}

/* Determines the number of rungs, and the steps of each rung. */
static int plan_rungs(mf_search *s, const mf_config *c)
{
    int64_t least = 1;
    s->n_rungs = 1;
    for (int n = s->n_settings; s->spec->halving && kept_of(n) > 1; n = kept_of(n))
        s->n_rungs++;
    s->rungs = mf_arena_alloc(s->arena, (size_t)s->n_rungs * sizeof *s->rungs);
    if (!s->rungs) return MF_ENOMEM;
    for (int i = 1; i < s->n_rungs; i++)
        least *= FACTOR;
    if (s->n_rungs > 1 && c->train.steps < LEAST_STEPS * least)
        return mf_fail(MF_EUSAGE,
                       "--halving: %d trials make %d rungs, which need train.steps of %lld or "
                       "more; found %lld",
                       s->n_settings, s->n_rungs, (long long)(LEAST_STEPS * least),
                       (long long)c->train.steps);
    for (int i = 0; i < s->n_rungs; i++, least /= FACTOR)
        s->rungs[i].steps = s->n_rungs > 1 ? c->train.steps / least : 0;
    return MF_OK;
}

static int fill_trial(mf_search *s, mf_trial *t, int router, int setting)
{
    const mf_router_entry *e = &s->routers[router];
    *t = (mf_trial){.router = router, .trial = setting, .mean = (double)NAN};
    t->label = mf_arena_strf(s->arena, "%s%s%s", e->label, strchr(e->label, ':') ? "+" : ":",
                             s->settings[setting]);
    return t->label ? MF_OK : MF_ENOMEM;
}

/* Fills in the trials of the first rung, or the trials that the previous rung has kept. */
static int fill_rung(mf_search *s, int number)
{
    mf_rung *r = &s->rungs[number];
    const mf_rung *before = number > 0 ? &s->rungs[number - 1] : NULL;
    const int most = before ? before->n : s->n_routers * s->n_settings;
    int rc = MF_OK;
    r->trials = mf_arena_alloc(s->arena, ((size_t)most + 1) * sizeof *r->trials);
    if (!r->trials) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < most; i++) {
        if (before && !before->trials[i].kept) continue;
        rc = fill_trial(s, &r->trials[r->n++],
                        before ? before->trials[i].router : i / s->n_settings,
                        before ? before->trials[i].trial : i % s->n_settings);
    }
    return rc;
}

static int join(mf_arena *arena, const mf_rung *r, const char **ret)
{
    size_t length = 1;
    for (int i = 0; i < r->n; i++)
        length += strlen(r->trials[i].label) + 1;
    char *text = mf_arena_alloc(arena, length), *at = text;
    if (!text) return MF_ENOMEM;
    for (int i = 0; i < r->n; i++)
        at = stpcpy(stpcpy(at, i > 0 ? "," : ""), r->trials[i].label);
    *ret = text;
    return MF_OK;
}

/* Sets up the comparison of the trials of a rung. */
static int rung_spec(mf_search *s, int number, int64_t warmup, int64_t steps,
                     mf_compare_spec *ret)
{
    const mf_rung *r = &s->rungs[number];
    const mf_compare_spec *of = s->of;
    mf_assignment *set = mf_arena_alloc(s->arena, ((size_t)of->n_set + 2) * sizeof *set);
    *ret = *of;
    ret->equal = of->equal == MF_EQUAL_TIME ? MF_EQUAL_STEPS : of->equal;
    ret->seeds = s->spec->trial_seeds;
    ret->most = 0;
    ret->margin = (mf_margin){0};
    ret->baseline = r->trials[0].label;
    ret->out = mf_arena_strf(s->arena, "%s/search/rung-%d", of->out, number);
    ret->search = NULL;
    if (!set || !ret->out) return MF_ENOMEM;
    for (int i = 0; i < of->n_set; i++)
        set[i] = of->set[i];
    ret->set = set;
    /* the warmup keeps its share of the number of steps */
    if (r->steps > 0 && r->steps < steps) {
        const char *n = mf_arena_strf(s->arena, "train.steps=%lld", (long long)r->steps);
        const char *w = mf_arena_strf(s->arena, "train.warmup=%lld",
                                      (long long)(warmup * r->steps / steps));
        if (!n || !w) return MF_ENOMEM;
        set[ret->n_set++] = (mf_assignment){n, "--halving"};
        set[ret->n_set++] = (mf_assignment){w, "--halving"};
    }
    return join(s->arena, r, &ret->routers);
}

/* ---- results ---- */

static void take_results(mf_rung *r, const mf_compare_table *t)
{
    r->by = t->by;
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < t->n; j++)
            if (strcmp(t->rows[j].router->entry.label, r->trials[i].label) == 0) {
                r->trials[i].n = t->rows[j].quality.n;
                r->trials[i].failed = t->rows[j].failed;
                r->trials[i].mean = t->rows[j].quality.mean;
            }
}

/* Whether a is better than b. A trial without failed runs is better; then the mean decides,
 * then the order of the trials. */
static bool is_better(const mf_rung *r, const mf_trial *a, const mf_trial *b)
{
    const bool a_clean = a->failed == 0, b_clean = b->failed == 0;
    if (isnan(a->mean) || isnan(b->mean)) return !isnan(a->mean);
    if (a_clean != b_clean) return a_clean;
    if (a->mean == b->mean) return a->trial < b->trial;
    return (a->mean > b->mean) == (r->by == MF_QUALITY_ACCURACY);
}

static mf_trial *best_of(const mf_rung *r, int router)
{
    mf_trial *best = NULL;
    for (int i = 0; i < r->n; i++) {
        mf_trial *t = &r->trials[i];
        if (t->router != router || t->kept || isnan(t->mean)) continue;
        if (!best || is_better(r, t, best)) best = t;
    }
    return best;
}

/* Marks the best trials of each router. */
static int choose(mf_search *s, int number)
{
    mf_rung *r = &s->rungs[number];
    int kept = 0;
    for (int router = 0; router < s->n_routers; router++) {
        int n = 0, own = 0;
        for (int i = 0; i < r->n; i++)
            n += r->trials[i].router == router;
        const int keep = number + 1 < s->n_rungs ? kept_of(n) : 1;
        for (int k = 0; k < keep; k++) {
            mf_trial *best = best_of(r, router);
            if (!best) break;
            best->kept = true;
            own++;
        }
        kept += own;
        if (n > 0 && own == 0)
            mf_log(MF_LOG_WARN, "no trial of %s has a result", s->routers[router].label);
    }
    r->done = true;
    return kept > 0 ? MF_OK
                    : mf_fail(MF_ERUN, "no trial has a result; see %s/search", s->of->out);
}

static int write_search(const mf_search *s)
{
    char *path = mf_path_join(s->of->out, "search.json");
    mf_jw *w = mf_jw_new();
    const char *text = NULL;
    size_t n = 0;
    if (w && path) {
        mf_search_put(w, s);
        text = mf_jw_text(w, &n);
    }
    const int rc = text ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    mf_free(path);
    return rc;
}

/* ---- the search ---- */

static int run_rung(mf_search *s, int number, const mf_config *config,
                    const mf_compare_watch *watch, int *ret_signal)
{
    mf_compare_spec spec;
    mf_compare *c = NULL;
    mf_compare_table *t = NULL;
    int rc = fill_rung(s, number);
    if (rc == MF_OK)
        rc = rung_spec(s, number, config->train.warmup, config->train.steps, &spec);
    if (rc == MF_OK) rc = mf_compare_new(&spec, &c);
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++)
        if (c->routers[i].refused)
            mf_log(MF_LOG_WARN, "trial %s is skipped: %s", c->routers[i].entry.label,
                   c->routers[i].refused);
    if (rc == MF_OK)
        mf_log(MF_LOG_INFO, "search, rung %d of %d: %d trials x %d seed%s", number + 1,
               s->n_rungs, s->rungs[number].n, (int)spec.seeds, spec.seeds == 1 ? "" : "s");
    if (rc == MF_OK) rc = mf_compare_run_all(c, watch, ret_signal);
    if (rc == MF_OK) rc = mf_compare_judge(c, &t);
    if (rc == MF_OK) {
        take_results(&s->rungs[number], t);
        rc = choose(s, number);
    }
    mf_compare_table_free(t);
    mf_compare_free(c);
    return rc;
}

/* Sets up the comparison of the winners. A single router is compared with the
 * unchanged configuration. */
static int make_final(mf_search *s)
{
    const mf_rung *last = &s->rungs[s->n_rungs - 1];
    mf_compare_spec *f = &s->final;
    mf_rung winners = {.trials = mf_arena_alloc(s->arena, ((size_t)s->n_routers + 1) *
                                                              sizeof *winners.trials)};
    if (!winners.trials) return MF_ENOMEM;
    *f = *s->of;
    f->search = s;
    f->skip_seeds = s->spec->trial_seeds;
    f->baseline = NULL;
    if (s->n_routers == 1)
        winners.trials[winners.n++].label = f->baseline = s->routers[0].label;
    for (int i = 0; i < last->n; i++) {
        const mf_trial *t = &last->trials[i];
        if (!t->kept) continue;
        winners.trials[winners.n++].label = t->label;
        if (!f->baseline && strcmp(s->routers[t->router].label, s->baseline) == 0)
            f->baseline = t->label;
    }
    if (!f->baseline) f->baseline = winners.trials[0].label;
    return join(s->arena, &winners, &f->routers);
}

int mf_search_run(mf_search *s, const mf_compare_watch *watch, int *ret_signal)
{
    mf_config *config = NULL;
    int rc = mf_config_load_from(s->of->config, s->of->n_set, s->of->set, NULL, &config);
    if (rc == MF_OK) rc = mf_mkdirs(s->of->out);
    if (rc == MF_OK) rc = write_search(s);
    for (s->rung = 0; rc == MF_OK && s->rung < s->n_rungs; s->rung++) {
        rc = run_rung(s, s->rung, config, watch, ret_signal);
        if (rc == MF_OK) rc = write_search(s);
    }
    mf_config_free(config);
    if (rc == MF_OK) rc = make_final(s);
    return rc == MF_OK ? write_search(s) : rc;
}

/* Reads the routers to search, and which of them is the baseline. */
static int read_routers(mf_search *s, const mf_config *config)
{
    const mf_compare_spec *of = s->of;
    int rc = mf_router_list(s->arena, of->routers ? of->routers : config->router.plugin,
                            &s->routers, &s->n_routers);
    if (rc != MF_OK) return rc;
    int found;
    rc = mf_router_list_find(s->routers, s->n_routers,
                             of->baseline ? of->baseline : config->router.plugin, &found);
    if (rc != MF_OK) return rc;
    s->baseline = s->routers[found >= 0 ? found : 0].label;
    if (found >= 0 || !of->baseline) return MF_OK;
    return mf_fail(MF_EUSAGE, "--baseline: expected one of the routers searched, found '%s'",
                   of->baseline);
}

static int judge_out(const char *out)
{
    char **names = NULL;
    int n = 0;
    const char *strange = NULL;
    if (!mf_exists(out) || mf_search_is(out)) return MF_OK;
    int rc = mf_is_dir(out) ? mf_list_dir(out, &names, &n)
                            : mf_fail(MF_EUSAGE, "%s: expected a directory, found a file", out);
    for (int i = 0; i < n; i++)
        if (!mf_search_owns(names[i])) strange = names[i];
    if (strange)
        rc = mf_fail(MF_EUSAGE,
                     "%s: the directory holds files already (%s): expected an empty or a new "
                     "one, or a search to continue",
                     out, strange);
    mf_list_free(names, n);
    return rc;
}

static int prepare(mf_search *s)
{
    mf_config *config = NULL;
    checker check = {s->of};
    int rc = mf_config_load_from(s->of->config, s->of->n_set, s->of->set, NULL, &config);
    if (rc == MF_OK)
        rc = mf_space_trials(s->arena, &s->spec->space, (uint64_t)config->train.seed,
                             &s->settings, &s->n_settings);
    if (rc == MF_OK && s->n_settings < 2)
        rc = mf_fail(MF_EUSAGE, "a search has two trials or more; found %d", s->n_settings);
    if (rc == MF_OK) rc = mf_space_each(s->arena, &s->spec->space, judge_value, &check);
    if (rc == MF_OK) rc = read_routers(s, config);
    if (rc == MF_OK) rc = plan_rungs(s, config);
    if (rc == MF_OK) rc = judge_out(s->of->out);
    mf_config_free(config);
    return rc;
}

int mf_search_new(const mf_compare_spec *of, const mf_search_spec *spec, mf_search **ret)
{
    mf_search *s = mf_alloc(1, sizeof *s);
    *ret = NULL;
    if (!s) return MF_ENOMEM;
    s->of = of;
    s->spec = spec;
    s->arena = mf_arena_new();
    const int rc = s->arena ? prepare(s) : MF_ENOMEM;
    if (rc != MF_OK) {
        mf_search_free(s);
        return rc;
    }
    *ret = s;
    return MF_OK;
}

void mf_search_free(mf_search *s)
{
    if (!s) return;
    mf_arena_free(s->arena);
    mf_free(s);
}
