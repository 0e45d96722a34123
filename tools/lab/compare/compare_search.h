/* lab/compare/compare_search.h: searches settings for routers, then compares the winners.
 *
 * Each trial is a router with settings. Trials run as comparisons of their own, with few seeds.
 * The best trial of each router is its winner. Winners are run again with seeds that no trial
 * used, and only these runs are the result, because the best of many trials looks better than
 * it is. With halving, the trials run in rungs. Each rung trains three times as long as the
 * previous rung, and the last rung trains all steps. A third of the trials of a rung enter the
 * next rung. A rung trains from step 0, because the learning rate depends on the number
 * of steps.
 *
 *     OUT/search.json     the plan, all trials with their results, the winners
 *     OUT/search/rung-N/  the comparisons of trials
 *     OUT/                the comparison of the winners */
#ifndef MF_LAB_COMPARE_SEARCH_H
#define MF_LAB_COMPARE_SEARCH_H

#include "lab/compare/compare.h"
#include "lab/compare/compare_space.h"

typedef struct mf_search_spec {
    mf_space space;
    int32_t trial_seeds; /* >= 1: number of runs of each trial, with seeds from train.seed on */
    bool halving;
} mf_search_spec;

typedef struct mf_trial {
    const char *label; /* the router with the settings, in the form of router_list.h */
    int router, trial; /* index of the router, and index of the settings */
    int n, failed;     /* number of runs with a result, and without a result */
    double mean;       /* mean quality; NaN: not known yet */
    bool kept;         /* it entered the next rung, or won */
} mf_trial;

typedef struct mf_rung {
    int64_t steps; /* steps of each run; 0: as configured */
    mf_quality by;
    int n;
    mf_trial *trials; /* [n] */
    bool done;
} mf_rung;

typedef struct mf_search {
    const mf_search_spec *spec;
    const mf_compare_spec *of; /* the comparison as the user requested it, with routers
                                * without settings */
    mf_arena *arena;
    const char *baseline; /* label of the router that is the baseline */
    mf_router_entry *routers;
    const char **settings; /* [n_settings] */
    int n_routers, n_settings, n_rungs, rung;
    mf_rung *rungs;
    mf_compare_spec final; /* the comparison of the winners; routers NULL: not known yet */
} mf_search;

/* Whether the folder contains a search.json. mf_search_plan_read reads the arguments of the
 * search into the arena, like mf_compare_plan_read. */
bool mf_search_is(const char *path);
int mf_search_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret,
                        mf_search_spec *ret_search);
/* Whether a file or folder of this name in OUT belongs to the search. */
bool mf_search_owns(const char *name);

/* Checks the settings against the configuration, and the content of OUT. If no routers are
 * named, the router of the configuration is searched. spec and of must outlive the search.
 * Errors: those of mf_compare_new. */
int mf_search_new(const mf_compare_spec *of, const mf_search_spec *spec, mf_search **ret);
void mf_search_free(mf_search *s);
/* Runs all trials that have no result yet, and sets `final`. Errors and *ret_signal as in
 * mf_compare_run_all; MF_ERUN if no trial of any router has a result. */
int mf_search_run(mf_search *s, const mf_compare_watch *watch, int *ret_signal);

/* Writes plan, trials and winners as a JSON object. */
void mf_search_put(mf_jw *w, const mf_search *s);
void mf_search_print(const mf_search *s, FILE *out);

#endif
