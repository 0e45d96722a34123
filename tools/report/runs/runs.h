/* report/runs/runs.h: the runs below a folder, with the data of each: its configuration, its
 * last metrics, and how it ended. Nothing is written here. */
#ifndef MF_REPORT_RUNS_H
#define MF_REPORT_RUNS_H

#include "base/text/ini.h"
#include "io/json.h"

typedef struct mf_listed_run {
    char *dir;         /* path of the run */
    mf_ini *config;    /* config.ini; NULL: it cannot be read */
    mf_json *manifest; /* manifest.json; NULL: it cannot be read */
    mf_json *val;      /* last record of the validation split; NULL: none */
    mf_json *train;    /* last record of a training step; NULL: none */
    mf_json *last;     /* the later of `val` and `train` in metrics.jsonl; NULL: none */
    int64_t step;      /* step of the last record; 0: none */
    int64_t best_step; /* step of the best validation; -1: there are fewer than
                        * two validations */
    bool finished;     /* all planned steps are done */
    int place;         /* index in the order in which the runs were added */
} mf_listed_run;

typedef struct mf_listed_runs {
    mf_listed_run *run;
    int n, room;
} mf_listed_runs;

/* Adds the run at path. If path is not a run, adds all runs at most three folders below it, in
 * the order of their names. If a file of a run cannot be read, its values are missing. Fails
 * with MF_EINPUT if the path does not exist or there is no run below it, and with MF_ENOMEM.
 * The caller frees the list with mf_listed_runs_free, also after a failure. */
int mf_listed_runs_add(mf_listed_runs *list, const char *path);
void mf_listed_runs_free(mf_listed_runs *list);

/* The text of a value of the run, in buf [size] or owned by the run; NULL: the run does not
 * have it. key is
 *
 * - run, router, step, val_loss, bits_per_byte, params, tokens, seed, finished, data,
 *   tokenizer, best_step;
 * - SECTION.KEY of its configuration;
 * - a number of its last validation, such as accuracy or moe.0.load_cv. */
const char *mf_listed_run_text(const mf_listed_run *run, const char *key, char *buf,
                               size_t size);
/* The name of the run's router. The value "router" may be the file of a plugin; this name
 * is not. */
const char *mf_listed_run_router(const mf_listed_run *run);
/* The value of mf_listed_run_text as a number; NaN: the run does not have it, or it is not
 * a number. */
double mf_listed_run_number(const mf_listed_run *run, const char *key);
/* Whether higher values of this key are better, as for accuracy. */
bool mf_listed_run_higher(const char *key);
/* The number by which runs are compared unless another key is given. It is bits_per_byte if all
 * validated runs have it, because losses of different tokenizers are not comparable. Otherwise
 * it is val_loss. */
const char *mf_listed_runs_measure(const mf_listed_runs *list);
/* Whether numbers of two runs under this key are comparable. Both runs must use the same data,
 * according to their configurations, and for losses per token the same tokenizer. */
bool mf_listed_runs_alike(const mf_listed_run *a, const mf_listed_run *b, const char *key);
/* Whether run i has the best number under this key among the runs that are comparable with it.
 * Of equal runs, the first is the best. */
bool mf_listed_runs_is_best(const mf_listed_runs *list, int i, const char *key);

/* Keeps the runs that meet "KEY OP VALUE", where OP is =, !=, <, <=, > or >=. A run without
 * that value does not meet the condition. Numbers are compared as numbers if both sides are
 * numbers; texts only for equality. Fails with MF_EUSAGE if there is no operator in the text,
 * or if no run has the key. */
int mf_listed_runs_keep(mf_listed_runs *list, const char *condition);
/* Sorts by a value, in rising or falling order. Runs without the value come last in both
 * orders. Fails with MF_EUSAGE if no run has the key. */
int mf_listed_runs_sort(mf_listed_runs *list, const char *key, bool falling);

#endif
