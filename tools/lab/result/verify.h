/* lab/result/verify.h: makes runs of a result again, whole or in part, and says whether they
 * are the same.
 *
 * On the same kernel set all bits must be equal, whatever the number of threads or ranks.
 * Another kernel set rounds otherwise, and training amplifies this: there, only the first
 * steps of a piece can be compared (result.h). */
#ifndef MF_LAB_VERIFY_H
#define MF_LAB_VERIFY_H

#include "lab/result/result.h"

typedef struct mf_verify_spec {
    const char *data,
        *plugins;       /* folders of files and of third-party plugins; plugins NULL: none */
    const char *out;    /* a new folder for the runs */
    const char *router; /* only runs of this router; NULL: of any */
    int64_t seed;       /* only runs of this seed; -1: of any */
    int32_t runs;       /* number of runs to make again, drawn at random */
    int64_t steps;      /* number of steps of each; 0: up to the end */
    const char *from;   /* a run that has a checkpoint of the result: begin there; NULL */
    int32_t fresh;      /* number of seeds that the result does not have; 0: none */
    int threads;
    const char *launch; /* words before the program of a run, as "mpirun -n 2"; NULL: none */
    bool same_program;  /* mf_result_same_program */
    mf_result_input_function input;
    void *arg;
    void (*tick)(void *arg, int64_t step,
                 int64_t to);      /* about five times a second; NULL: none */
    int (*should_stop)(void *arg); /* a signal, or 0; NULL: never */
} mf_verify_spec;

typedef struct mf_verified_run {
    const mf_json *run;
    const char *router;
    int64_t seed, from, to, steps; /* steps: of the whole run */
    mf_result_judgement judgement;
} mf_verified_run;

/* Draws the runs: *ret [*ret_n], in the arena. MF_EINPUT if none fits. The numbers come
 * from the system's random generator, so that the maker of a result cannot foresee them. */
int mf_verify_choose(mf_arena *arena, const mf_result *r, const mf_verify_spec *s,
                     mf_verified_run **ret, int *ret_n);
/* Makes a run again, in OUT/NUMBER, and compares it. MF_EINPUT if an input is missing, MF_ERUN
 * if the run fails or the given checkpoint is not that of the result, MF_ESIGNAL. A difference
 * is no failure; ret->judgement tells it. */
int mf_verify_run(const mf_verify_spec *s, int number, mf_verified_run *ret);

/* The mean difference from the baseline over `n` fresh seeds, and the interval in which it lies
 * with probability .95 if the result is one of ordinary seeds. */
typedef struct mf_fresh {
    const char *router;
    int n;
    double mean, lo, hi;
} mf_fresh;
/* Trains the router, and the baseline, with spec->fresh seeds that follow those of the result.
 * MF_EUSAGE if the result has no comparison, or several routers and none is named. */
int mf_verify_fresh(const mf_result *r, const mf_verify_spec *s, mf_fresh *ret);

#endif
