/* lab/compare/compare.h: compares routers in training, over seeds.
 *
 * Every run is an ordinary run directory, OUT/ROUTER/seed-N, made by this program in a separate
 * process. All runs of one seed see the same data in the same order, and have the same initial
 * weights outside the router (initial weights are drawn by name). So differences are computed
 * within seeds. All state is on disk: the same call continues after a kill, and several
 * processes can work on one comparison, because each run is claimed by a lock.
 *
 *     OUT/comparison.json        table and all single results, rewritten after each run
 *     OUT/plan.json              what is compared
 *     OUT/ROUTER/config.ini      the configuration of its runs
 *     OUT/ROUTER/seed-N/         runs; seed-N.log: their output; seed-N.lock: the claim */
#ifndef MF_LAB_COMPARE_H
#define MF_LAB_COMPARE_H

#include "io/json.h"
#include "lab/bench/router_list.h"
#include "lab/stats.h"
#include "run/run_config.h"

/* The settings that are equal in all runs. */
typedef enum mf_equal {
    MF_EQUAL_STEPS, /* optimizer steps */
    /* steps, and active parameters as close to the baseline's as expert.hidden allows */
    MF_EQUAL_PARAMS,
    /* training time: the number of steps is multiplied by speed of the router / speed of the
     * baseline, measured in pilot runs */
    MF_EQUAL_TIME
} mf_equal;
extern const char *const mf_equal_names[]; /* NULL-terminated */

struct mf_search;

typedef struct mf_compare_spec {
    const char *config;       /* file or preset; NULL: the default preset */
    const mf_assignment *set; /* applied over config */
    int n_set;
    const char *routers; /* a list as in lab/bench/router_list.h */
    /* label; NULL: the configuration's router if it is listed, else the first of the list; if
     * that router does not fit the model, the first router that does */
    const char *baseline;
    const char *out;
    mf_equal equal;
    int32_t seeds; /* >= 1: train.seed + skip_seeds of the configuration, and those after it */
    int32_t skip_seeds; /* seeds that a search has used already */
    /* the search whose winners are compared, for the files and the JSON; NULL: none */
    const struct mf_search *search;
    int32_t most;        /* seeds at which the comparison ends as planned; 0: not planned */
    double delta;        /* for the probability of being better by more; NaN: not requested */
    int32_t jobs;        /* runs at the same time */
    int threads;         /* of all runs together */
    bool unsafe_plugins; /* --allow-unsafe-plugins, for the runs */
} mf_compare_spec;

#define MF_SEEDS_DEFAULT 8
#define MF_SEEDS_MAX     10000

/* mf_compare_is: whether the folder has a plan.json. mf_compare_plan_read reads config, set,
 * routers, baseline, equal and seeds from it into the arena. It fails with MF_EINPUT if the
 * plan is wrong, else with the error of reading the file. */
bool mf_compare_is(const char *path);
int mf_compare_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret);

/* ---- one run ---- */

/* The quality by which routers are compared. */
typedef enum mf_quality {
    MF_QUALITY_LOSS,     /* task_loss: of all tasks; lower is better, also for mse */
    MF_QUALITY_MSE,      /* task = regress */
    MF_QUALITY_ACCURACY, /* task = classify; higher is better */
    /* instead of the loss if tokens of the runs stand for different numbers of bytes */
    MF_QUALITY_BITS
} mf_quality;
const char *mf_quality_name(mf_quality q); /* "task_loss", "mse", ... */

/* Measured in the last validation, over the whole split, and during training. NaN: unknown. */
typedef struct mf_run_result {
    int64_t steps, params, params_active;
    double task_loss, bits_per_byte, accuracy, mse, pearson, spearman;
    double load_cv, drop_rate; /* means over the MoE layers */
    double nmi, nmi_best;      /* mean and maximum over the layers */
    double tokens_per_s;       /* median of the logged training steps */
    double wall_s;
} mf_run_result;

typedef enum mf_run_state {
    MF_RUN_WAITING,
    MF_RUN_ACTIVE,    /* in a child of this process */
    MF_RUN_ELSEWHERE, /* claimed by another process */
    MF_RUN_DONE,
    MF_RUN_FAILED /* `reason` tells why */
} mf_run_state;

typedef struct mf_compare_run {
    int64_t seed;
    bool pilot;
    const char *name, *dir, *claim, *log; /* "ROUTER seed N", OUT/ROUTER/seed-N, ... */
    mf_run_state state;
    int status;   /* if FAILED: exit status, or 128 + signal */
    char *reason; /* if FAILED; freed with mf_free */
    mf_run_result result;
} mf_compare_run;

typedef struct mf_compare_router {
    mf_router_entry entry;
    const char *name; /* for people: the label, with the plugin's name in place of its file */
    const char *dir, *config; /* OUT/ROUTER and its config.ini */
    char *text;               /* text of the configuration; freed with mf_free */
    char *refused;  /* why it is not compared; freed with mf_free; NULL: it is compared */
    int refused_as; /* the status of that error */
    int64_t first_seed, hidden; /* hidden: width of the experts; 0: as configured */
    /* configured: train.steps; 0: train.epochs decides. steps: optimizer steps of each run;
     * with equal time it is 0 until the pilot runs have ended, else it is `configured` */
    int64_t configured, steps;
    int64_t params, params_active, params_router;
    mf_compare_run pilot; /* for equal time */
    mf_compare_run *runs; /* [seeds] */
} mf_compare_router;

#define MF_LOOKS_MAX 64

typedef struct mf_compare {
    const mf_compare_spec *spec;
    mf_arena *arena;
    const char *from; /* train.from, "": all runs begin with drawn weights */
    mf_compare_router *routers;
    int n_routers, baseline; /* index of the baseline */
    mf_quality by;           /* decided by the task */
    /* Numbers of seeds, ascending, with which a complete table was shown before, and the levels
     * of its verdicts; stored in plan.json. The levels of more looks are added to the last. */
    mf_look looks[MF_LOOKS_MAX];
    int n_looks;
    int32_t most; /* spec->most, or that of the plan, which is fixed once something was shown */
} mf_compare;

/* The level of verdicts over all seeds. *ret_total: of all looks together. */
double mf_compare_level(const mf_compare *c, double *ret_total);
/* Records that a complete table was shown. Fails if plan.json cannot be written. */
int mf_compare_looked(mf_compare *c);

/* Checks names, options, models and the content of OUT, then creates OUT. Routers that do not
 * fit this model are marked as refused. Fails with MF_EUSAGE, MF_ECONFIG or MF_ENOTFOUND, and
 * writes nothing, if the user named a router with a wrong name or option, or if OUT contains
 * another comparison; with MF_EPLUGIN if the baseline's plugin is refused. Free with
 * mf_compare_free. */
int mf_compare_new(const mf_compare_spec *spec, mf_compare **ret);
void mf_compare_free(mf_compare *c);

/* ---- running ---- */

typedef struct mf_compare_watch {
    void *arg;
    void (*began)(void *arg, const mf_compare_run *run, bool again);
    void (*ended)(void *arg, const mf_compare_run *run, int done, int total);
    /* Called about five times a second with the steps done, and the steps of all
     * runs together. */
    void (*tick)(void *arg, int64_t steps, int64_t total);
    /* Called repeatedly. Returns 0, or the number of the signal after which all runs are to
     * save and stop. NULL: never. */
    int (*should_stop)(void *arg);
} mf_compare_watch;

/* Returns when every run has ended. MF_ESIGNAL: interrupted, and the runs were saved
 * (*ret_signal). The failure of a single run is recorded in the run. */
int mf_compare_run_all(mf_compare *c, const mf_compare_watch *watch, int *ret_signal);

/* ---- results ---- */

typedef enum mf_verdict {
    MF_VERDICT_NONE,
    MF_VERDICT_BETTER,
    MF_VERDICT_WORSE,
    MF_VERDICT_UNKNOWN /* there is no seed with which both have a result */
} mf_verdict;

typedef struct mf_compare_row {
    const mf_compare_router *router;
    bool baseline;
    int diverged, failed; /* number of runs */
    mf_estimate quality;
    mf_paired against; /* difference to the baseline, paired by seed */
    double p_holm;
    double p_flip, p_flip_holm; /* exact sign-flip test beside t, before and after Holm */
    double p_better; /* probability of being better by more than spec->delta; NaN: no delta */
    /* better or worse if p_holm < level; none with fewer than MF_VERDICT_SEEDS pairs. A router
     * with a diverged run is never called better. */
    mf_verdict verdict;
    int rank;         /* by mean, 1 is best; 0: no result */
    double mean_rank; /* over the seeds that all routers have */
    /* number of seeds at which the test, at level / compared, has power .8 if the true
     * effect is the lower 80 % confidence limit of the measured one; 0: over 1000,
     * -1: unknown */
    int seeds_needed;
    /* means over runs */
    double load_cv, drop_rate, nmi, nmi_best, tokens_per_s, wall_s, pearson;
    int64_t steps;
} mf_compare_row;

typedef struct mf_compare_table {
    const mf_compare *of;
    int n, compared;      /* number of rows, and of rows with a p */
    mf_compare_row *rows; /* in the order of the routers, without the refused ones */
    /* of this look, and of all looks together; .05 if this is the only one */
    double level, level_total;
    double detectable; /* the effect d_z that this number of seeds shows with power .8 */
    mf_quality by;     /* of->by; the loss if a run lacks that number */
    bool complete;
} mf_compare_table;

int mf_compare_judge(const mf_compare *c, mf_compare_table **ret);
void mf_compare_table_free(mf_compare_table *t);
const char *mf_verdict_name(mf_verdict v);
/* The number of routers that the comparison lacks: those that were requested by name, or whose
 * plugin was refused or diverged, and are skipped, and those of which every run failed. A
 * router of "all" or "recommended" that does not fit the model is none. *ret_first: the first
 * of them, of those that are skipped if there are any; or NULL. */
int mf_compare_lacks(const mf_compare *c, const mf_compare_router **ret_first);

/* Writes comparison.json as one object. */
void mf_compare_json(mf_jw *w, const mf_compare_table *t);
int mf_compare_write(const mf_compare_table *t);
/* columns: of the terminal; if they are too few for the table it is printed in three parts, and
 * each of them takes at most 80. 0: no limit. */
void mf_compare_print(const mf_compare_table *t, FILE *out, int columns);

#endif
