/* moefw compare --scale: the same comparison at several widths, each with training tokens in
 * proportion to its active parameters, and what lab/scale makes of them. */
#include "cli/scale/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "cli/cli_model.h"
#include "lab/scale/scale.h"
#include "report/compare/scale_page.h"
#include "report/terminal/terminal.h"
#include "run/cost.h"

typedef struct size {
    int64_t width, steps, active;
    double tokens; /* of training */
    mf_compare *of;
} size;

typedef struct scales {
    const mf_cli *cli;
    const mf_compare_spec *spec;
    mf_arena *arena;
    size size[MF_SCALE_SIZES];
    int n;
    double ratio; /* tokens for each active parameter */
    double lr;
    mf_scale_view view;
    double *compute, *loss;
} scales;

static int read_widths(scales *x)
{
    const char *text = mf_cli_text(x->cli, "scale", "");
    char *list = mf_arena_strdup(x->arena, text), *one;
    if (!list) return MF_ENOMEM;
    while ((one = strsep(&list, ","))) {
        long long width;
        if (x->n == MF_SCALE_SIZES || !mf_parse_i64(one, &width) || width < 1 ||
            width > 65536 || (x->n > 0 && width <= x->size[x->n - 1].width))
            return mf_fail(MF_EUSAGE,
                           "--scale: expected 3 to %d rising values of model.dim, as "
                           "64,96,128, found '%s'",
                           (int)MF_SCALE_SIZES, text);
        x->size[x->n++].width = width;
    }
    if (x->n >= 3) return MF_OK;
    return mf_fail(MF_EUSAGE, "--scale: expected 3 sizes or more, found %d", x->n);
}

/* Computes the steps of a size: tokens = ratio x active parameters of the configuration. */
static int plan_size(scales *x, size *s, const mf_assignment *set, int n)
{
    mf_config *config = NULL;
    mf_session *session = NULL;
    mf_cost cost;
    int rc = mf_config_load_from(x->spec->config, n, set, NULL, &config);
    if (rc != MF_OK) return rc;
    const double step = (double)config->train.batch * (double)config->train.accumulate *
                        (double)config->model.seq;
    x->lr = config->train.lr;
    if (mf_task_by_row(config->model.task)) {
        mf_config_free(config);
        return mf_fail(MF_EUSAGE,
                       "--scale: expected a language model, whose compute is that of "
                       "its tokens");
    }
    rc = mf_cli_model_open(config, false, &session);
    if (rc == MF_OK) rc = mf_cost_of(session, &cost);
    mf_session_close(session);
    if (rc != MF_OK) return rc;
    s->active = cost.params_active;
    s->steps = (int64_t)fmax(1, round(x->ratio * (double)s->active / step));
    s->tokens = (double)s->steps * step;
    return MF_OK;
}

/* Makes the comparison of a size. */
static int run_size(scales *x, size *s,
                    int (*one)(void *arg, const mf_compare_spec *spec, mf_compare **ret),
                    void *arg)
{
    const int n = x->spec->n_set;
    mf_assignment *set = mf_arena_alloc(x->arena, ((size_t)n + 3) * sizeof *set);
    mf_compare_spec spec = *x->spec;
    if (!set) return MF_ENOMEM;
    if (n > 0) memcpy(set, x->spec->set, (size_t)n * sizeof *set);
    set[n] =
        (mf_assignment){.text = mf_arena_strf(x->arena, "model.dim=%lld", (long long)s->width),
                        .origin = "--scale"};
    int rc = set[n].text ? plan_size(x, s, set, n + 1) : MF_ENOMEM;
    if (rc != MF_OK) return rc;
    set[n + 1] = (mf_assignment){
        .text = mf_arena_strf(x->arena, "train.steps=%lld", (long long)s->steps),
        .origin = "--scale"};
    set[n + 2] = (mf_assignment){.text = "train.epochs=0", .origin = "--scale"};
    spec.set = set;
    spec.n_set = n + 3;
    spec.out = mf_arena_strf(x->arena, "%s/dim-%lld", x->spec->out, (long long)s->width);
    if (!set[n + 1].text || !spec.out) return MF_ENOMEM;
    mf_compare_spec *kept = mf_arena_alloc(x->arena, sizeof *kept);
    if (!kept) return MF_ENOMEM;
    *kept = spec;
    mf_log(MF_LOG_INFO, "model.dim %lld: %.4g M active parameters, %lld steps, %.4g M tokens",
           (long long)s->width, (double)s->active / 1e6, (long long)s->steps, s->tokens / 1e6);
    return one(arg, kept, &s->of);
}

/* ---- the data of the fit ---- */

/* The routers that have all their results at all sizes. */
static bool complete(const scales *x, int router)
{
    for (int i = 0; i < x->n; i++) {
        const mf_compare_router *r = &x->size[i].of->routers[router];
        for (int s = 0; s < x->spec->seeds; s++)
            if (r->refused || r->runs[s].state != MF_RUN_DONE ||
                !isfinite(r->runs[s].result.task_loss))
                return false;
    }
    return true;
}

static int gather(scales *x, mf_scale_data *d)
{
    const mf_compare *first = x->size[0].of;
    const int seeds = x->spec->seeds, most = first->n_routers;
    const size_t room = (size_t)x->n * (size_t)most;
    int *which = mf_arena_alloc(x->arena, (size_t)most * sizeof *which);
    x->compute = mf_arena_alloc(x->arena, room * sizeof *x->compute);
    x->loss = mf_arena_alloc(x->arena, room * (size_t)seeds * sizeof *x->loss);
    const char **names = mf_arena_alloc(x->arena, (size_t)most * sizeof *names);
    if (!which || !x->compute || !x->loss || !names) return MF_ENOMEM;
    *d = (mf_scale_data){.sizes = x->n, .seeds = seeds, .baseline = -1};
    for (int r = 0; r < most; r++) {
        if (!complete(x, r)) {
            mf_log(MF_LOG_WARN, "%s has no result at a size, so the curves are without it",
                   first->routers[r].name);
            continue;
        }
        if (r == first->baseline) d->baseline = d->routers;
        names[d->routers] = first->routers[r].name;
        which[d->routers++] = r;
    }
    if (d->baseline < 0)
        return mf_fail(MF_ERUN, "--scale: the baseline %s has no result at a size",
                       first->routers[first->baseline].name);
    for (int i = 0; i < x->n; i++)
        for (int r = 0; r < d->routers; r++) {
            const mf_compare_router *from = &x->size[i].of->routers[which[r]];
            const int at = i * d->routers + r;
            x->compute[at] = 6 * (double)from->params_active * x->size[i].tokens;
            for (int s = 0; s < seeds; s++)
                x->loss[at * seeds + s] = from->runs[s].result.task_loss;
        }
    d->compute = x->compute;
    d->loss = x->loss;
    x->view.names = names;
    return MF_OK;
}

/* ---- output ---- */

static int write_files(scales *x, const mf_scaling *s)
{
    mf_jw *w = mf_jw_new();
    char *json = mf_path_join(x->spec->out, "scale.json"),
         *page = mf_path_join(x->spec->out, "scale.html");
    size_t n = 0;
    const char *text = NULL;
    if (w) {
        mf_scale_json(w, s, &x->view);
        text = mf_jw_text(w, &n);
    }
    int rc = text && json && page ? mf_write_file_atomic(json, text, n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_report_scale(s, &x->view, page);
    if (rc == MF_OK && mf_cli_json(x->cli)) puts(text);
    if (rc == MF_OK && !mf_cli_json(x->cli)) {
        mf_scale_print(s, &x->view, stdout);
        puts(mf_shown_on(stdout, page));
    }
    mf_jw_free(w);
    mf_free(json);
    mf_free(page);
    return rc;
}

static int judge(const scales *x)
{
    static const char *const no[] = {"steps",   "equal",  "grid",       "draw",       "budget",
                                     "halving", "format", "equivalent", "most-seeds", NULL};
    const char *operand = mf_cli_operand(x->cli, 0);
    if (operand && mf_compare_is(operand))
        return mf_fail(MF_EUSAGE, "--scale: expected a configuration, found a comparison");
    for (int i = 0; no[i]; i++)
        if (mf_cli_count(x->cli, no[i]) > 0)
            return mf_fail(MF_EUSAGE, "--scale: expected no --%s with it", no[i]);
    return MF_OK;
}

int mf_scale_compare(const mf_cli *cli, const mf_compare_spec *spec,
                     int (*one)(void *arg, const mf_compare_spec *s, mf_compare **ret),
                     void *arg)
{
    scales x = {.cli = cli,
                .spec = spec,
                .arena = mf_arena_new(),
                .ratio = mf_cli_real(cli, "scale-tokens", 20)};
    mf_scale_data d;
    mf_scaling *s = NULL;
    int rc = x.arena ? judge(&x) : MF_ENOMEM;
    if (rc == MF_OK) rc = read_widths(&x);
    if (rc == MF_OK && spec->seeds < MF_VERDICT_SEEDS)
        mf_log(MF_LOG_WARN, "--scale: %d seed%s of a size: intervals want 3 or more",
               (int)spec->seeds, spec->seeds == 1 ? "" : "s");
    for (int i = 0; rc == MF_OK && i < x.n; i++) {
        mf_log(MF_LOG_INFO, "size %d of %d", i + 1, x.n);
        rc = run_size(&x, &x.size[i], one, arg);
    }
    if (rc == MF_OK) rc = gather(&x, &d);
    if (rc == MF_OK) rc = mf_scale_new(&d, &s);
    if (rc == MF_OK) {
        for (int i = 0; i < x.n; i++) {
            x.view.width[i] = x.size[i].width;
            x.view.steps[i] = x.size[i].steps;
            x.view.active[i] = x.size[i].active;
        }
        x.view.ratio = x.ratio;
        x.view.lr = x.lr;
        rc = write_files(&x, s);
    }
    mf_scale_free(s);
    for (int i = 0; i < x.n; i++)
        mf_compare_free(x.size[i].of);
    mf_arena_free(x.arena);
    return rc;
}
