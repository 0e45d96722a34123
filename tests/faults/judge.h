/* judge.h: checks a command in which one call failed. */
#ifndef MF_TESTS_JUDGE_H
#define MF_TESTS_JUDGE_H

#include "tests/faults/command.h"
#include "tests/faults/tree.h"

#include <stdbool.h>

typedef struct verb {
    const char *name, *before, *command; /* in the texts, %s is the folder of sources */
    const char *run;                     /* folder of the run that the command makes;
                                          * NULL: none */
    bool cut;     /* the run that `before` makes loses its last checkpoint */
    bool threads; /* the command computes with several threads */
} verb;

typedef struct counts {
    long tried, survived, failed, lost, leaked;
} counts;

/* The files before a command, and its output and files if no call fails. */
typedef struct record {
    tree start, good;
    result said;
} record;

const char *judge_kind(int kind); /* name of the kind */

/* Runs the command once, with the armed fault. The run does not count if no call failed. */
void judge_one(counts *c, const verb *v, const record *r);

#endif
