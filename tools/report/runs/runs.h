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
    mf_json *last;     /* the later one of both in metrics.jsonl; NULL: none */
    int64_t step;      /* of the last record; 0: none */
    int64_t best_step; /* of the best validation; -1: there are fewer than two */
    bool finished;     /* all planned steps are done */
    int place;         /* in the order in which the runs were added */
} mf_listed_run;

typedef struct mf_listed_runs {
    mf_listed_run *run;
    int n, room;
} mf_listed_runs;

/* Adds the run at path or, if path is no run, all runs at most three folders below it, in the
 * order of their names. If a file of a run cannot be read, its values are missing. MF_EINPUT if
 * the path does not exist or there is no run below it; MF_ENOMEM. The caller frees the list
 * with mf_listed_runs_free, also after a failure. */
int mf_listed_runs_add(mf_listed_runs *list, const char *path);
void mf_listed_runs_free(mf_listed_runs *list);

/* The text of a value of the run, in buf [size] or owned by the run; NULL: it has none. key is
 *  - run, router, step, val_loss, bits_per_byte, params, tokens, seed, finished, data,
 *    tokenizer, best_step;
 *  - SECTION.KEY of its configuration;
 *  - a number of its last validation, such as accuracy or moe.0.load_cv. */
const char *mf_listed_run_text(const mf_listed_run *run, const char *key, char *buf,
                               size_t size);
/* The name of its router, where that text may be the file of a plugin. */
const char *mf_listed_run_router(const mf_listed_run *run);
/* The same as a number; NaN: it has none, or it is no number. */
double mf_listed_run_number(const mf_listed_run *run, const char *key);
/* Whether a value under this key is better if it is higher, as accuracy is. */
bool mf_listed_run_higher(const char *key);
/* The number by which runs are compared unless another key is given: bits_per_byte if all
 * runs that were validated have it, because losses of different tokenizers cannot be
 * compared; else val_loss. */
const char *mf_listed_runs_measure(const mf_listed_runs *list);
/* Whether numbers of two runs under this key compare: both are of the same data, by their
 * configurations, and losses per token of the same tokenizer. */
bool mf_listed_runs_alike(const mf_listed_run *a, const mf_listed_run *b, const char *key);
/* Whether run i has the best number under this key, or the first of equal ones, among those
 * with which it compares. */
bool mf_listed_runs_is_best(const mf_listed_runs *list, int i, const char *key);

/* Keeps the runs that meet "KEY OP VALUE", where OP is =, !=, <, <=, > or >=; a run without
 * that value does not meet it. Numbers are compared as numbers if both sides are, texts for
 * equality only. MF_EUSAGE if there is no operator in the text, or if no run has the key. */
int mf_listed_runs_keep(mf_listed_runs *list, const char *condition);
/* Sorts by a value, rising; runs without it come last in either order. MF_EUSAGE if no run has
 * the key. */
int mf_listed_runs_sort(mf_listed_runs *list, const char *key, bool falling);

#endif
