/* lab/compare/compare.h: compares routers in training, over seeds.
 *
 * Every run is an ordinary run directory, OUT/ROUTER/seed-N, made by this program in a separate
 * process. All runs of one seed use the same data in the same order, and have the same initial
 * weights outside the router (initial weights are drawn by name). So differences are computed
 * within seeds. All state is on disk: the same call continues after a kill, and several
 * processes can work on one comparison, because each run is claimed by a lock.
 *
 *     OUT/comparison.json        table and all single results, rewritten after each run
 *     OUT/plan.json              the arguments of the comparison
 *     OUT/ROUTER/config.ini      the configuration of the router's runs
 *     OUT/ROUTER/seed-N/         a run; seed-N.log: its output; seed-N.lock: its claim */
#ifndef MF_LAB_COMPARE_H
#define MF_LAB_COMPARE_H

#include "io/json.h"
#include "lab/bench/router_list.h"
#include "lab/equal.h"
#include "lab/stats.h"
#include "run/run_config.h"

/* The quantities that are equal in all runs. */
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

/* The margin of --equivalent. In the unit of what is compared, or in nats, bits per byte, or
 * points of accuracy (hundredths). */
typedef enum mf_margin_unit {
    MF_MARGIN_OWN,
    MF_MARGIN_NATS,
    MF_MARGIN_BITS,
    MF_MARGIN_POINTS
} mf_margin_unit;
typedef struct mf_margin {
    double value; /* 0: none */
    mf_margin_unit unit;
} mf_margin;
/* Reads ".02", ".02nats", ".011bpb" or "1points". Fails with MF_EUSAGE. */
int mf_margin_read(const char *text, mf_margin *ret);
/* The same text again, in a buffer of the caller. */
#define MF_MARGIN_TEXT 48
const char *mf_margin_text(mf_margin m, char ret[MF_MARGIN_TEXT]);

typedef struct mf_compare_spec {
    const char *config;       /* file or preset; NULL: the default preset */
    const mf_assignment *set; /* assignments that override values of config */
    int n_set;
    const char *routers; /* a list in the form of lab/bench/router_list.h */
    /* label; NULL: the configuration's router if it is in the list, else the first of the list.
     * If that router does not fit the model, it is the first router that fits. */
    const char *baseline;
    const char *out;
    mf_equal equal;
    int32_t seeds;      /* number of seeds, >= 1. The first seed is train.seed + skip_seeds; the
                         * others follow it. */
    int32_t skip_seeds; /* number of seeds that a search has used already */
    /* the search whose winners are compared, needed for the files and the JSON; NULL: none */
    const struct mf_search *search;
    int32_t most;        /* number of seeds at which the comparison is planned to end; 0:
                          * not planned */
    double delta;        /* margin for the probability of being better by more than this; NaN:
                          * not requested */
    mf_margin margin;    /* also judge whether routers are equal within this margin */
    int32_t jobs;        /* number of runs at the same time */
    int threads;         /* number of threads of all runs together */
    bool unsafe_plugins; /* whether the runs get --allow-unsafe-plugins */
} mf_compare_spec;

#define MF_SEEDS_DEFAULT 8
#define MF_SEEDS_MAX     10000

/* mf_compare_is: whether the folder contains a plan.json. mf_compare_plan_read reads config,
 * set, routers, baseline, equal and seeds from plan.json into the arena. It fails with
 * MF_EINPUT if the plan is wrong, else with the error of reading the file. */
bool mf_compare_is(const char *path);
int mf_compare_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret);

/* ---- one run ---- */

/* The quality by which routers are compared. */
typedef enum mf_quality {
    MF_QUALITY_LOSS,     /* task_loss, the loss of all tasks; lower is better, also for mse */
    MF_QUALITY_MSE,      /* for task = regress */
    MF_QUALITY_ACCURACY, /* for task = classify; higher is better */
    /* Used instead of the loss if the runs' tokens contain different numbers of bytes
     * on average. */
    MF_QUALITY_BITS
} mf_quality;
const char *mf_quality_name(mf_quality q); /* "task_loss", "mse", ... */

/* Values of the last validation, over the whole split, and of training. NaN: unknown. */
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
    MF_RUN_FAILED /* `reason` describes the failure */
} mf_run_state;

typedef struct mf_compare_run {
    int64_t seed;
    bool pilot;
    const char *name, *dir, *claim, *log; /* "ROUTER seed N", OUT/ROUTER/seed-N, ... */
    mf_run_state state;
    int status;   /* if FAILED: exit status, or 128 + number of the signal */
    char *reason; /* if FAILED; freed with mf_free */
    mf_run_result result;
} mf_compare_run;

typedef struct mf_compare_router {
    mf_router_entry entry;
    const char *name;           /* name for people: the label, with the plugin's name instead of
                                 * its file */
    const char *dir, *config;   /* OUT/ROUTER and its config.ini */
    char *text;                 /* text of the configuration; freed with mf_free */
    char *refused;              /* reason why it is not compared, freed with mf_free; NULL: it
                                 * is compared */
    int refused_as;             /* the status of the error behind `refused` */
    int64_t first_seed, hidden; /* first_seed: seed of the first run; hidden: width of the
                                 * experts, 0: as configured */
    /* configured: train.steps; 0: train.epochs determines the number. steps: optimizer steps of
     * each run. With equal time, steps is 0 until the pilot runs have ended. Otherwise it
     * equals `configured`. */
    int64_t configured, steps;
    int64_t params, params_active, params_router;
    mf_compare_run pilot; /* only for equal time */
    mf_compare_run *runs; /* [seeds] */
} mf_compare_router;

#define MF_LOOKS_MAX 64

typedef struct mf_compare {
    const mf_compare_spec *spec;
    mf_arena *arena;
    const char *from; /* value of train.from; "": all runs begin with drawn weights */
    mf_compare_router *routers;
    int n_routers, baseline; /* index of the baseline */
    mf_quality by;           /* follows from the task */
    /* Numbers of seeds, ascending, with which a complete table was shown before, and the levels
     * of its verdicts. They are stored in plan.json. If there are more looks than entries,
     * their levels are added to the last entry. */
    mf_look looks[MF_LOOKS_MAX];
    int n_looks;
    /* of the spec, or of the plan, in which they are fixed after a table was shown */
    int32_t most;
    mf_margin margin;
} mf_compare;

/* The level of verdicts over all seeds. *ret_total: the level of all looks together. */
double mf_compare_level(const mf_compare *c, double *ret_total);
/* Records that a complete table was shown. Fails if plan.json cannot be written. */
int mf_compare_looked(mf_compare *c);

/* Checks names, options, models and the content of OUT, then creates OUT. Routers that do not
 * fit this model are marked as refused. Fails with MF_EUSAGE, MF_ECONFIG or MF_ENOTFOUND, and
 * writes nothing, if the user named a router with a wrong name or option, or if OUT contains
 * another comparison. Fails with MF_EPLUGIN if the baseline's plugin is refused. Free
 * with mf_compare_free. */
int mf_compare_new(const mf_compare_spec *spec, mf_compare **ret);
void mf_compare_free(mf_compare *c);

/* ---- running ---- */

typedef struct mf_compare_watch {
    void *arg;
    void (*began)(void *arg, const mf_compare_run *run, bool again);
    void (*ended)(void *arg, const mf_compare_run *run, int done, int total);
    /* Called about five times a second with the number of finished steps, and the number of
     * steps of all runs together. */
    void (*tick)(void *arg, int64_t steps, int64_t total);
    /* Called repeatedly. Returns 0, or the number of a signal, after which all runs save and
     * stop. NULL: never stop. */
    int (*should_stop)(void *arg);
} mf_compare_watch;

/* Returns when every run has ended. MF_ESIGNAL: the comparison was interrupted, and the runs
 * were saved. *ret_signal is then the signal. The failure of a single run is recorded in
 * the run. */
int mf_compare_run_all(mf_compare *c, const mf_compare_watch *watch, int *ret_signal);

/* ---- results ---- */

typedef enum mf_verdict {
    MF_VERDICT_NONE,
    MF_VERDICT_BETTER,
    MF_VERDICT_WORSE,
    MF_VERDICT_UNKNOWN, /* no seed has a result for both routers */
    /* only with a margin */
    MF_VERDICT_EQUAL,
    MF_VERDICT_OPEN /* neither equal within the margin nor outside of it is shown, or the margin
                     * cannot be converted */
} mf_verdict;

typedef struct mf_compare_row {
    const mf_compare_router *router;
    bool baseline;
    int diverged, failed; /* numbers of runs */
    mf_estimate quality;
    mf_paired against; /* difference from the baseline, paired by seed */
    double p_holm;
    double p_flip, p_flip_holm; /* exact p of the sign-flip test, in addition to t, before and
                                 * after Holm's correction */
    double p_better; /* probability of being better by more than spec->delta; NaN: no delta */
    /* better or worse if p_holm < level; with fewer than MF_VERDICT_SEEDS pairs there is no
     * verdict. A router with a diverged run is never called better. */
    mf_verdict differs;
    /* With a margin: equal, or better or worse by more than the margin, whichever of the three
     * claims has p_margin_holm < level. A router with a diverged run is never called better or
     * equal. Without a margin it is `differs`. */
    mf_verdict verdict;
    mf_three_sided sides;
    double p_margin, p_margin_holm; /* the smallest p of `sides`; NaN: no margin */
    double equal_lo, equal_hi;      /* 1 - 2 level interval of the difference */
    /* number of seeds at which equality within the margin has power .8 if the routers are
     * equal, from the upper 80 % limit of the deviation; 0: over 1000; -1: unknown, or shown to
     * be beyond the margin */
    int seeds_equal;
    int rank;         /* rank by mean, 1 is best; 0: no result */
    double mean_rank; /* over the seeds for which all routers have results */
    /* number of seeds at which the test, at level / compared, has power .8 if the true effect
     * is the lower 80 % confidence limit of the measured effect; 0: over 1000; -1: unknown */
    int seeds_needed;
    /* means over runs */
    double load_cv, drop_rate, nmi, nmi_best, tokens_per_s, wall_s, pearson;
    int64_t steps;
} mf_compare_row;

typedef struct mf_compare_table {
    const mf_compare *of;
    int n, compared;      /* number of rows, and number of rows with a p */
    mf_compare_row *rows; /* in the order of the routers, without refused routers */
    /* level of this look, and of all looks together; .05 if this is the only look */
    double level, level_total;
    double detectable; /* the smallest effect d_z that this number of seeds detects with
                        * power .8 */
    /* The margin in the unit of `by`; NaN: there is none, or it cannot be converted, because
     * runs have different tokenizers, or no run has a result in its unit. */
    double margin;
    double deviation; /* median over the rows of the deviation of differences; NaN: none */
    double
        nats_per_bit; /* task loss / bits per byte; NaN: not known, or not equal in all runs */
    mf_quality by;    /* of->by; the loss if a run does not have this quality */
    bool complete;
} mf_compare_table;

int mf_compare_judge(const mf_compare *c, mf_compare_table **ret);
void mf_compare_table_free(mf_compare_table *t);
const char *mf_verdict_name(mf_verdict v);
/* The number of routers that are missing in the comparison. These are skipped routers that
 * were requested by name, or whose plugin was refused or diverged, and routers of which
 * every run failed. A router of "all" or "recommended" that does not fit the model does not
 * count. *ret_first: the first missing router, a skipped one if there is any; NULL: none
 * is missing. */
int mf_compare_lacks(const mf_compare *c, const mf_compare_router **ret_first);

/* Writes comparison.json as one object. */
void mf_compare_json(mf_jw *w, const mf_compare_table *t);
int mf_compare_write(const mf_compare_table *t);
/* Prints the table. columns: width of the terminal. If the table is wider, it is printed in
 * three parts, each at most 80 columns wide. 0: no limit. */
void mf_compare_print(const mf_compare_table *t, FILE *out, int columns);
/* Prints the table for a paper: LaTeX (booktabs and siunitx), CSV (RFC 4180), or Markdown. The
 * caption tells seeds, level, looks and correction; CSV has none. */
typedef enum mf_compare_form {
    MF_FORM_TEXT,
    MF_FORM_LATEX,
    MF_FORM_CSV,
    MF_FORM_MD
} mf_compare_form;
extern const char *const mf_compare_forms[]; /* NULL-terminated */
void mf_compare_format(const mf_compare_table *t, FILE *out, mf_compare_form form);

#endif
