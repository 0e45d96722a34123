/* Executes the runs of a comparison, several at a time, until all have a result. A process
 * starts a run only after it has claimed the run, so no two processes execute the same run. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/compare/compare_parts.h"

#define LOOK_EVERY 1.0 /* seconds between checks of runs that other processes execute */
#define SHORTEST   5   /* milliseconds between checks of own runs after a run began or ended */
/* milliseconds between checks if no run has begun or ended for a while */
#define LONGEST 200

typedef struct job {
    mf_compare_router *router; /* NULL: the slot is free */
    mf_compare_run *run;
    pid_t pid;
    int claim;
} job;

typedef struct pool {
    mf_compare *c;
    const mf_compare_watch *watch;
    bool pilots; /* whether this pool executes the pilot runs; otherwise the other runs */
    job *jobs;   /* [size] */
    int size, active;
    double looked;
    int wait; /* length of the last wait in milliseconds; 0: a run has begun or ended since */
    bool stopping;
} pool;

/* ---- the order of the runs: all routers of a seed, then the next seed ---- */

static int count(const pool *p)
{
    return p->pilots ? p->c->n_routers : p->c->n_routers * p->c->spec->seeds;
}

/* The i-th run in this order; NULL if its router is not compared. */
static mf_compare_run *run_at(const pool *p, int i, mf_compare_router **ret_router)
{
    mf_compare_router *r = &p->c->routers[i % p->c->n_routers];
    *ret_router = r;
    if (r->refused) return NULL;
    if (p->pilots) return &r->pilot;
    return &r->runs[i / p->c->n_routers];
}

static void tell_ended(const pool *p, const mf_compare_run *run)
{
    int done = 0, total = 0;
    mf_compare_router *r;
    for (int i = 0; i < count(p); i++) {
        const mf_compare_run *one = run_at(p, i, &r);
        if (!one) continue;
        total++;
        done += one->state == MF_RUN_DONE || one->state == MF_RUN_FAILED;
    }
    if (p->watch->ended) p->watch->ended(p->watch->arg, run, done, total);
}

static int keep_table(const pool *p)
{
    mf_compare_table *t = NULL;
    if (p->pilots) return MF_OK;
    int rc = mf_compare_judge(p->c, &t);
    if (rc == MF_OK) rc = mf_compare_write(t);
    mf_compare_table_free(t);
    return rc;
}

/* ---- a run ends ---- */

/* Whether a run was refused: it ended with status 2 or 4 before its first step. Some refusals
 * occur only when the graph is built. They apply to every seed. */
static bool refusal(const mf_compare_run *run, int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == 2 || WEXITSTATUS(status) == 4) &&
           mf_compare_steps_done(run) == 0;
}

static int end(pool *p, mf_compare_router *r, mf_compare_run *run, int status)
{
    bool done;
    int rc = mf_compare_result(run, &done, &run->result);
    if (rc != MF_OK) return rc;
    if (done) {
        run->state = MF_RUN_DONE;
    } else if (p->stopping) {
        run->state = MF_RUN_WAITING;
        return MF_OK;
    } else {
        char *reason = mf_compare_last_words(run, status);
        if (!reason) return MF_ENOMEM;
        run->state = MF_RUN_FAILED;
        run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        mf_free(run->reason);
        run->reason = reason;
        if (refusal(run, status) && !r->refused) {
            r->refused = mf_strdup(reason);
            r->refused_as = run->status == 2 ? MF_ECONFIG : MF_EPLUGIN;
        }
    }
    tell_ended(p, run);
    return keep_table(p);
}

static int reap(pool *p)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < p->size; i++) {
        job *j = &p->jobs[i];
        int status;
        if (!j->router || waitpid(j->pid, &status, WNOHANG) != j->pid) continue;
        const job ended = *j;
        j->router = NULL;
        p->active--;
        p->wait = 0;
        rc = end(p, ended.router, ended.run, status);
        mf_compare_unclaim(ended.claim);
    }
    return rc;
}

/* ---- a run begins ---- */

/* Claims the run if no process holds it. Another process may have ended the run since it was
 * last checked. */
static int take(pool *p, mf_compare_router *r, mf_compare_run *run, job *j)
{
    bool done = false, again = false;
    int rc = mf_compare_claim(run, &j->claim);
    if (rc != MF_OK) return rc;
    if (j->claim < 0) {
        run->state = MF_RUN_ELSEWHERE;
        return MF_OK;
    }
    rc = mf_compare_result(run, &done, &run->result);
    if (rc == MF_OK && done) {
        const bool seen = run->state == MF_RUN_ELSEWHERE;
        run->state = MF_RUN_DONE;
        if (seen) tell_ended(p, run);
    } else if (rc == MF_OK) {
        rc = mf_compare_start(p->c, r, run, j->claim, &j->pid, &again);
        if (rc == MF_OK) {
            j->router = r;
            j->run = run;
            run->state = MF_RUN_ACTIVE;
            p->active++;
            p->wait = 0;
            if (p->watch->began) p->watch->began(p->watch->arg, run, again);
            return MF_OK;
        }
    }
    mf_compare_unclaim(j->claim);
    return rc;
}

/* Starts runs in free slots. *ret_left: number of runs that have not ended and are not in a
 * child of this process. */
static int fill(pool *p, int *ret_left)
{
    const double now = mf_clock();
    const bool look = now - p->looked >= LOOK_EVERY;
    int rc = MF_OK;
    if (look) p->looked = now;
    *ret_left = 0;
    for (int i = 0; rc == MF_OK && i < count(p); i++) {
        mf_compare_router *r;
        mf_compare_run *run = run_at(p, i, &r);
        if (!run) continue;
        const bool want =
            run->state == MF_RUN_WAITING || (run->state == MF_RUN_ELSEWHERE && look);
        job *free_job = NULL;
        for (int k = 0; want && k < p->size && !free_job; k++)
            if (!p->jobs[k].router) free_job = &p->jobs[k];
        if (free_job) rc = take(p, r, run, free_job);
        *ret_left += run->state == MF_RUN_WAITING || run->state == MF_RUN_ELSEWHERE;
    }
    return rc;
}

/* ---- the loop ---- */

static void stop(pool *p)
{
    p->stopping = true;
    for (int i = 0; i < p->size; i++)
        if (p->jobs[i].router) kill(p->jobs[i].pid, SIGTERM);
}

static void tick(const pool *p)
{
    int64_t steps = 0, total = 0;
    mf_compare_router *r;
    if (!p->watch->tick) return;
    for (int i = 0; i < count(p); i++) {
        const mf_compare_run *run = run_at(p, i, &r);
        if (!run || run->state == MF_RUN_FAILED) continue;
        const int64_t all = p->pilots ? MF_PILOT_STEPS : r->steps;
        total += all;
        if (run->state == MF_RUN_DONE)
            steps += all;
        else if (run->state != MF_RUN_WAITING)
            steps += mf_compare_steps_done(run);
    }
    p->watch->tick(p->watch->arg, steps, total);
}

/* Waits. The waits grow, so that short runs follow each other at once and long runs cause
 * few checks. */
static void wait_a_little(pool *p)
{
    p->wait = p->wait == 0 ? SHORTEST : p->wait * 3 / 2;
    if (p->wait > LONGEST) p->wait = LONGEST;
    nanosleep(&(struct timespec){0, p->wait * 1000000L}, NULL);
}

/* The signal after which the comparison is to stop; 0: none. */
static int asked(const mf_compare_watch *w)
{
    return w->should_stop ? w->should_stop(w->arg) : 0;
}

static int run_pool(pool *p)
{
    int rc = MF_OK, left = 0;
    char message[2048] = "";
    p->jobs = mf_alloc((size_t)p->size, sizeof *p->jobs);
    if (!p->jobs) return MF_ENOMEM;
    for (;;) {
        int one = reap(p);
        if (rc == MF_OK) rc = one;
        if (rc == MF_OK && !p->stopping && asked(p->watch) == 0) rc = fill(p, &left);
        if ((rc != MF_OK || asked(p->watch) != 0) && !p->stopping) {
            snprintf(message, sizeof message, "%s", mf_error_message());
            stop(p);
        }
        if (p->active == 0 && (p->stopping || left == 0)) break;
        tick(p);
        wait_a_little(p);
    }
    mf_free(p->jobs);
    return rc == MF_OK ? rc : mf_fail(rc, "%s", message);
}

/* ---- equal time ---- */

/* Sets the numbers of steps. The baseline runs the configured steps; each other router runs as
 * many as fit into the time of the baseline. */
static int fit_steps(mf_compare *c)
{
    const mf_compare_router *b = &c->routers[c->baseline];
    int rc = MF_OK;
    if (b->pilot.state == MF_RUN_FAILED)
        return mf_fail(MF_ERUN, "the baseline's pilot failed: %s", b->pilot.reason);
    for (int i = 0; rc == MF_OK && i < c->n_routers; i++) {
        mf_compare_router *r = &c->routers[i];
        if (r->refused || r->steps > 0) continue;
        if (r->pilot.state == MF_RUN_FAILED) {
            r->refused = mf_strf("its pilot failed: %s", r->pilot.reason);
            r->refused_as =
                r->pilot.status == mf_status_exit(MF_ENONFINITE) ? MF_ENONFINITE : MF_ERUN;
            if (!r->refused) rc = MF_ENOMEM;
            continue;
        }
        const double faster = r->pilot.result.tokens_per_s / b->pilot.result.tokens_per_s;
        r->steps =
            r == b ? b->configured : (int64_t)fmax(1, round((double)b->configured * faster));
        rc = mf_compare_keep_config(c, r);
    }
    return rc;
}

static int run_stage(mf_compare *c, const mf_compare_watch *watch, bool pilots)
{
    pool p = {.c = c,
              .watch = watch,
              .pilots = pilots,
              .size = pilots ? 1 : (int)c->spec->jobs}; /* a pilot is timed, so it runs without
                                                         * other runs beside it */
    return run_pool(&p);
}

int mf_compare_run_all(mf_compare *c, const mf_compare_watch *watch, int *ret_signal)
{
    int rc = MF_OK;
    if (c->spec->equal == MF_EQUAL_TIME) {
        rc = run_stage(c, watch, true);
        if (rc == MF_OK && asked(watch) == 0) rc = fit_steps(c);
    }
    if (rc == MF_OK && asked(watch) == 0) rc = run_stage(c, watch, false);
    *ret_signal = asked(watch);
    if (rc == MF_OK && *ret_signal != 0)
        rc = mf_fail(MF_ESIGNAL, "stopped by signal %d; the same command continues",
                     *ret_signal);
    return rc;
}
