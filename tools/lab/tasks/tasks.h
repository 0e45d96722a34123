/* lab/tasks/tasks.h: multiple choice by log-likelihood. The scores are those of the
 * program lm-evaluation-harness.
 *
 * A file has one item a line: {"context": TEXT, "choices": [TEXT, ...], "gold": N}, N from 0.
 * A choice is scored by the log-likelihood of " " and the choice after the context. Tokens
 * are those of the whole text, of which the tokens of the context alone are taken off in
 * front; blanks at the end of the context belong to the choice. The choice with the best
 * score is the answer, the first one if several are equal:
 *
 *     acc        log-likelihood
 *     acc_norm   divided by the number of characters of the choice
 *     acc_bytes  divided by its number of bytes
 *
 * With examples (few-shot), the context begins with other items: of each its context, " ", its
 * right choice, and two newlines. */
#ifndef MF_LAB_TASKS_H
#define MF_LAB_TASKS_H

#include "run/session.h"

typedef struct mf_task_item {
    const char *context;
    int n, gold;
    const char *const *choice;        /* [n] */
    double *score;                    /* [n] log-likelihood in nats */
    const struct mf_task_item **shot; /* [n_shots] its examples in their order, of any file */
    int n_shots;
} mf_task_item;

typedef struct mf_task_file {
    mf_arena *arena;
    const char *name;
    int n;
    int cut; /* number of items of which mf_task_score cut a text to the model's window */
    mf_task_item *items;
} mf_task_file;

/* Reads a file. MF_EINPUT with the line that is wrong. */
int mf_task_file_read(const char *path, mf_task_file **ret);
void mf_task_file_free(mf_task_file *f);

/* How examples are chosen. */
typedef struct mf_task_shots {
    int n;      /* for each item */
    bool first; /* the first ones of the file instead of drawn ones */
    uint32_t seed;
} mf_task_shots;

/* Gives each item of f its examples out of `from`, which is f or lives as long. If from is f,
 * one more is drawn and the item itself skipped. A copy of the item is skipped, too, and
 * nothing takes its place. MF_EINPUT if from has too few items. */
int mf_task_give_shots(mf_task_file *f, const mf_task_file *from, const mf_task_shots *how);

/* Returns the context behind its examples, which the caller frees; NULL: no memory is left. */
char *mf_task_context(const mf_task_item *it);

/* Computes the scores of all items. tick: called after each item; returns 0, or a signal, which
 * ends with MF_ESIGNAL. Fails with MF_EINPUT if a text cannot be encoded, if a choice is longer
 * than model.seq, or if a context is empty and the tokenizer has no token for the begin or the
 * end of texts; MF_ECONFIG if the model is no language model. */
int mf_task_score(mf_task_file *f, const mf_session *s,
                  int (*tick)(void *arg, int done, int total), void *arg);

/* A share of items, its standard error as lm-evaluation-harness prints it, and Wilson's 95 %
 * interval (Wilson 1927, J. Am. Stat. Assoc. 22, 209-212). */
typedef struct mf_task_share {
    double value, error, lo, hi;
} mf_task_share;
enum { MF_TASK_ACC, MF_TASK_ACC_NORM, MF_TASK_ACC_BYTES, MF_TASK_SCORES };
extern const char *const mf_task_scores[]; /* [MF_TASK_SCORES] names */
mf_task_share mf_task_share_of(const mf_task_file *f, int score);

#endif
