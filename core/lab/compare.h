/* lab/compare.h: routers side by side in training, over seeds.
 *
 * Every run is an ordinary run directory, OUT/ROUTER/seed-N, made by this program in a process
 * of its own. All runs of one seed see the same data in the same order and begin with the same
 * weights outside the router (start weights are drawn by name), so differences are taken within
 * seeds. What is on disk is all the state there is: the same call goes on where a killed one
 * stopped, and several processes can work on one comparison, each run being claimed by a lock.
 *
 *     OUT/comparison.json        table and all single results, written anew after each run
 *     OUT/plan.json              what is compared
 *     OUT/ROUTER/config.ini      the configuration of its runs
 *     OUT/ROUTER/seed-N/         runs; seed-N.log: what they said; seed-N.lock: the claim
 */
#ifndef MF_LAB_COMPARE_H
#define MF_LAB_COMPARE_H

#include "base/json.h"
#include "lab/router_list.h"
#include "lab/stats.h"
#include "model/config.h"

/* What all runs have the same amount of. */
typedef enum mf_equal {
    MF_EQUAL_STEPS,  /* optimizer steps */
    MF_EQUAL_PARAMS, /* steps and, as nearly as expert.hidden allows, the baseline's active
                        parameters */
    MF_EQUAL_TIME    /* training time: steps x the router's speed over the baseline's in a
                        pilot */
} mf_equal;
extern const char *const mf_equal_names[]; /* NULL-terminated */

typedef struct mf_compare_spec {
    const char *config;        /* file or preset; NULL: the default preset */
    const mf_assignment *set;  /* laid over it */
    int n_set;
    const char *routers;       /* lab/router_list.h */
    const char *baseline;      /* label; NULL: the router of the configuration if it is listed,
                                  else * the first of the list */
    const char *out;
    mf_equal equal;
    int32_t seeds;             /* >= 1: the configuration's train.seed and those after it */
    int32_t jobs;              /* runs at once */
    int threads;               /* of all of them together */
    bool unsafe_plugins;       /* --allow-unsafe-plugins, for the runs */
} mf_compare_spec;

#define MF_SEEDS_MAX 10000

/* Is there a comparison in this folder, and what was it asked for? Fills config, set, routers,
 * baseline, equal and seeds, from the arena; MF_EINPUT. */
bool mf_compare_is(const char *path);
int mf_compare_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret);

/* ---- one run ---- */

/* What routers are compared by. */
typedef enum mf_quality {
    MF_QUALITY_LOSS,    /* the task's; less is better, of the next, too */
    MF_QUALITY_MSE,     /* task = regress */
    MF_QUALITY_ACCURACY /* task = classify; more is better */
} mf_quality;
const char *mf_quality_name(mf_quality q); /* "task_loss", "mse", "accuracy" */

/* Measured by the last validation, over the whole split, and along the way. NaN: not known. */
typedef struct mf_run_result {
    int64_t steps, params, params_active;
    double task_loss, accuracy, mse, pearson, spearman;
    double load_cv, drop_rate; /* means over the MoE layers */
    double nmi, nmi_best;      /* mean and largest of the layers */
    double tokens_per_s;       /* median of the logged training steps */
    double wall_s;
} mf_run_result;

typedef enum mf_run_state {
    MF_RUN_WAITING,
    MF_RUN_ACTIVE,    /* in a child of this process */
    MF_RUN_ELSEWHERE, /* claimed by another process */
    MF_RUN_DONE,
    MF_RUN_FAILED     /* reason says why */
} mf_run_state;

typedef struct mf_compare_run {
    int64_t seed;
    bool pilot;
    const char *name, *dir, *claim, *log; /* "ROUTER seed N", OUT/ROUTER/seed-N, ... */
    mf_run_state state;
    int status;         /* FAILED: exit status, 128 + signal */
    char *reason;       /* FAILED; mf_free */
    mf_run_result result;
} mf_compare_run;

typedef struct mf_compare_router {
    mf_router_entry entry;
    const char *dir, *config;   /* OUT/ROUTER, its config.ini */
    char *text;                 /* of the configuration; mf_free */
    char *refused;              /* why it takes no part, NULL: it does; mf_free */
    int64_t first_seed, hidden; /* hidden: of experts; 0: as configured */
    int64_t configured, steps;  /* 0: as train.epochs says; steps of equal time: 0 before
                                   pilots */
    int64_t params, params_active, params_router;
    mf_compare_run pilot;       /* equal time */
    mf_compare_run *runs;       /* [seeds] */
} mf_compare_router;

typedef struct mf_compare {
    const mf_compare_spec *spec;
    mf_arena *arena;
    mf_compare_router *routers;
    int n_routers, baseline;    /* index */
    mf_quality by;              /* what the task has */
} mf_compare;

/* Judges everything: names, options, models, what OUT holds already; then makes OUT. Routers
 * that cannot stand in this model are marked as refused. A wrong name or option of a router
 * that was named is an error, MF_EUSAGE, MF_ECONFIG, MF_ENOTFOUND, and nothing is touched; so
 * is another comparison in OUT. */
int mf_compare_new(const mf_compare_spec *spec, mf_compare **ret);
void mf_compare_free(mf_compare *c);

/* ---- running ---- */

typedef struct mf_compare_watch {
    void *arg;
    void (*began)(void *arg, const mf_compare_run *run, bool again);
    void (*ended)(void *arg, const mf_compare_run *run, int done, int total);
    /* Some five times a second: steps made of all that are to be made. */
    void (*tick)(void *arg, int64_t steps, int64_t total);
} mf_compare_watch;

/* Until every run is done or has failed. MF_ESIGNAL: stopped, runs saved (*ret_signal).
 * Failures of single runs are kept in them. */
int mf_compare_run_all(mf_compare *c, const mf_compare_watch *watch, int *ret_signal);

/* ---- results ---- */

typedef enum mf_verdict { MF_VERDICT_NONE, MF_VERDICT_BETTER, MF_VERDICT_WORSE } mf_verdict;

typedef struct mf_compare_row {
    const mf_compare_router *router;
    bool baseline;
    int diverged, failed;     /* runs */
    mf_estimate quality;
    mf_paired against;        /* the baseline, within seeds */
    double p_holm;
    mf_verdict verdict;       /* by p_holm < .05; none for fewer than two pairs; a router of
                                 which a * run diverged is not called better */
    int rank;                 /* by mean, 1 best, 0 without result */
    double mean_rank;         /* over seeds that all have */
    int seeds_needed;         /* to show with power .8 a difference of the size that 80 %
                                 confidence * leaves of the one seen; 0: over 1000, -1: not
                                 known */
    double load_cv, drop_rate, nmi, nmi_best, tokens_per_s, wall_s, pearson; /* means over
                                                                                runs */
    int64_t steps;
} mf_compare_row;

typedef struct mf_compare_table {
    const mf_compare *of;
    int n, compared;          /* rows; those with a p */
    mf_compare_row *rows;     /* in the order of the routers, refused ones left out */
    double detectable;        /* d_z that so many seeds show with power .8 */
    mf_quality by;            /* what quality is; the loss where a run lacks it */
    bool complete;
} mf_compare_table;

int mf_compare_judge(const mf_compare *c, mf_compare_table **ret);
void mf_compare_table_free(mf_compare_table *t);
const char *mf_verdict_name(mf_verdict v);

/* comparison.json: one object. */
void mf_compare_json(mf_jw *w, const mf_compare_table *t);
int mf_compare_write(const mf_compare_table *t);
void mf_compare_print(const mf_compare_table *t, FILE *out);

#endif
