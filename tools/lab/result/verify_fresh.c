/* Fresh seeds: the only check against a result that is the best of many. Each of its runs is
 * true then, but its mean is not that of other seeds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/result/result_parts.h"
#include "lab/result/verify_parts.h"
#include "run/metrics/metrics.h"

static double value_of(const mf_json *run, const char *metric)
{
    return mf_json_real_or_nan(mf_json_get(run, "final"), metric);
}

static const mf_json *run_of(const mf_result *r, const char *router, int64_t seed)
{
    for (size_t i = 0; i < mf_json_size(r->runs); i++) {
        const mf_json *run = mf_json_at(r->runs, i);
        if (strcmp(mf_result_text(run, "router"), router) == 0 && !mf_json_get(run, "failed") &&
            (seed < 0 || mf_json_int_or_0(run, "seed") == seed))
            return run;
    }
    return NULL;
}

static int last_value(const char *dir, const char *metric, double *ret)
{
    mf_metrics_history *h = NULL;
    char *path = mf_path_join(dir, "metrics.jsonl");
    const int rc = path ? mf_metrics_read(path, &h) : MF_ENOMEM;
    *ret = (double)NAN;
    for (int i = 0; rc == MF_OK && i < h->n; i++)
        if (strcmp(h->records[i].split, "val") == 0)
            *ret = strcmp(metric, "accuracy") == 0        ? h->records[i].accuracy
                   : strcmp(metric, "mse") == 0           ? h->records[i].mse
                   : strcmp(metric, "bits_per_byte") == 0 ? h->records[i].bits_per_byte
                                                          : h->records[i].task_loss;
    mf_metrics_history_free(h);
    mf_free(path);
    return rc;
}

/* Trains a router with a fresh seed in OUT/NAME. */
static int train(const mf_result *r, const mf_verify_spec *s, const char *router, int64_t seed,
                 const char *name, const char *metric, double *ret)
{
    const mf_json *run = run_of(r, router, -1);
    char *dir = mf_strf("%s/%s", s->out, name), *ini = mf_strf("%s/%s.ini", s->out, name);
    char *config = NULL;
    int rc = dir && ini ? mf_verify_prepare(run, s, ini, &config) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_verify_train(s, ini, dir, seed, 0, mf_json_int_or_0(run, "steps"));
    if (rc == MF_OK) rc = last_value(dir, metric, ret);
    mf_free(config);
    mf_free(dir);
    mf_free(ini);
    return rc;
}

/* The router to check: the named one, or the only one beside the baseline. */
static int choose(const mf_result *r, const mf_verify_spec *s, const char *baseline,
                  const char **ret)
{
    const mf_json *rows = mf_json_get(r->table, "rows");
    *ret = NULL;
    for (size_t i = 0; i < mf_json_size(rows); i++) {
        const char *router = mf_result_text(mf_json_at(rows, i), "router");
        if (strcmp(router, baseline) == 0 || (s->router && strcmp(router, s->router) != 0))
            continue;
        if (*ret)
            return mf_fail(MF_EUSAGE,
                           "--fresh: the result has several routers; expected --router, "
                           "as %s",
                           router);
        *ret = router;
    }
    if (!*ret || !run_of(r, *ret, -1) || !run_of(r, baseline, -1))
        return mf_fail(MF_EUSAGE, "--fresh: expected the result of a comparison with runs of "
                                  "this router and of the baseline");
    return MF_OK;
}

int mf_verify_fresh(const mf_result *r, const mf_verify_spec *s, mf_fresh *ret)
{
    const char *baseline = mf_result_text(r->table, "baseline"),
               *metric = mf_result_text(r->table, "metric");
    const int seeds = (int)mf_json_int_or_0(r->table, "seeds");
    double *d = NULL, *fresh = NULL, x = 0, y = 0;
    int rc = choose(r, s, baseline, &ret->router);
    if (rc != MF_OK) return rc;
    d = mf_alloc((size_t)seeds + 1, sizeof *d);
    fresh = mf_alloc((size_t)s->fresh + 1, sizeof *fresh);
    if (!d || !fresh) rc = MF_ENOMEM;
    const int64_t first = mf_json_int_or_0(run_of(r, baseline, -1), "seed");
    for (int i = 0; rc == MF_OK && i < seeds; i++)
        d[i] = value_of(run_of(r, ret->router, first + i), metric) -
               value_of(run_of(r, baseline, first + i), metric);
    if (rc == MF_OK) rc = mf_mkdirs(s->out);
    for (int i = 0; rc == MF_OK && i < s->fresh; i++) {
        char name[48];
        snprintf(name, sizeof name, "fresh-%d", i + 1);
        rc = train(r, s, ret->router, first + seeds + i, name, metric, &x);
        snprintf(name, sizeof name, "fresh-%d-baseline", i + 1);
        if (rc == MF_OK) rc = train(r, s, baseline, first + seeds + i, name, metric, &y);
        fresh[i] = x - y;
    }
    if (rc == MF_OK) {
        const mf_estimate old = mf_estimate_of(d, seeds), new = mf_estimate_of(fresh, s->fresh);
        const double half =
            mf_t_quantile(0.975, old.n - 1) * old.sd * sqrt(1.0 / old.n + 1.0 / new.n);
        ret->n = new.n;
        ret->mean = new.mean;
        ret->lo = old.mean - half;
        ret->hi = old.mean + half;
    }
    mf_free(d);
    mf_free(fresh);
    return rc;
}
