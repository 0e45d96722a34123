/* Repeats a function and collects its times. Warm-up runs are never counted, and the statistics
 * do not depend on the order of the times. */
#include "lab/bench/timing.h"
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "base/clock.h"
#include "base/error.h"
#include "io/json.h"
#include "base/mem.h"
#include "lab/stats.h"

enum { TURN_MAX = 100000 };

/* All times taken so far. */
typedef struct {
    mf_timed_fn *fn;
    void *arg;
    double *ms;
    int64_t n, room;
    int64_t allocations, faults; /* number of allocations and page faults during the
                                  * timed runs */
} series;

static int64_t faults_so_far(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : 0;
}

static int once(series *s, double *ret_ms)
{
    const uint64_t allocations = mf_alloc_count();
    const int64_t faults = faults_so_far();
    *ret_ms = (double)NAN;
    const double began = mf_clock();
    int rc = s->fn(s->arg, ret_ms);
    const double ended = mf_clock();
    if (!(*ret_ms == *ret_ms)) *ret_ms = 1e3 * (ended - began);
    s->faults += faults_so_far() - faults;
    s->allocations += (int64_t)(mf_alloc_count() - allocations);
    return rc;
}

static int run_n(series *s, int n)
{
    if (s->n + n > s->room) {
        const int64_t room = 2 * (s->n + n);
        double *ms = mf_realloc(s->ms, (size_t)s->n * sizeof *ms, (size_t)room * sizeof *ms);
        if (!ms) return MF_ENOMEM;
        s->ms = ms;
        s->room = room;
    }
    for (int i = 0; i < n; i++) {
        int rc = once(s, &s->ms[s->n]);
        if (rc != MF_OK) return rc;
        s->n++;
    }
    return MF_OK;
}

static int reply(FILE *out, const double *ms, int n)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_key(w, "ms");
    mf_jw_array(w);
    for (int i = 0; i < n; i++)
        mf_jw_real(w, ms[i]);
    mf_jw_end(w);
    mf_jw_end(w);
    const char *text = mf_jw_text(w, NULL);
    int rc = text ? MF_OK : MF_ENOMEM;
    if (text && (fprintf(out, "%s\n", text) < 0 || fflush(out) != 0))
        rc = mf_fail(MF_ERUN, "turns: the reply could not be written");
    mf_jw_free(w);
    return rc;
}

static int take_turns(const mf_timing_how *how, series *s)
{
    char line[64];
    int rc = MF_OK;
    while (rc == MF_OK && fgets(line, sizeof line, how->turns_in)) {
        char *end;
        const long n = strtol(line, &end, 10);
        if (end == line || (*end != '\n' && *end != '\0') || n < 1 || n > TURN_MAX)
            return mf_fail(MF_EINPUT,
                           "turns: expected a number of runs from 1 to %d on each line, found "
                           "'%.*s'",
                           TURN_MAX, 40, line);
        rc = run_n(s, (int)n);
        if (rc == MF_OK) rc = reply(how->turns_out, s->ms + s->n - n, (int)n);
    }
    if (rc == MF_OK && s->n == 0)
        rc = mf_fail(MF_EINPUT, "turns: expected a number of runs on standard input");
    return rc;
}

/* The quantile of a sorted list at `share` (0 to 1), with linear interpolation. */
static double at_share(const double *sorted, int64_t n, double share)
{
    const double place = share * (double)(n - 1);
    const int64_t i = (int64_t)place;
    return i + 1 < n ? sorted[i] + (place - (double)i) * (sorted[i + 1] - sorted[i])
                     : sorted[i];
}

int mf_timing_run(const mf_timing_how *how, int warm_up, mf_timed_fn *fn, void *arg,
                  mf_timing *ret)
{
    series s = {.fn = fn, .arg = arg};
    double ms;
    int rc = MF_OK;
    *ret = (mf_timing){.ms = (double)NAN,
                       .ms_min = (double)NAN,
                       .ms_max = (double)NAN,
                       .ms_p10 = (double)NAN,
                       .ms_p90 = (double)NAN};
    for (int i = 0; rc == MF_OK && i < warm_up; i++)
        rc = once(&s, &ms);
    s.allocations = s.faults = 0;
    if (rc == MF_OK) rc = how->turns_in ? take_turns(how, &s) : run_n(&s, how->repetitions);
    if (rc == MF_OK && s.n > 0) {
        ret->allocations = (double)s.allocations / (double)s.n;
        ret->faults = (double)s.faults / (double)s.n;
        ret->ms = mf_median(s.ms, s.n);
        ret->ms_min = s.ms[0];
        ret->ms_max = s.ms[s.n - 1];
        ret->ms_p10 = at_share(s.ms, s.n, 0.1);
        ret->ms_p90 = at_share(s.ms, s.n, 0.9);
    }
    mf_free(s.ms);
    return rc;
}
