/* judge.h: checks one command with one call that failed. */
#ifndef MF_TESTS_JUDGE_H
#define MF_TESTS_JUDGE_H

#include "tests/faults/command.h"
#include "tests/faults/tree.h"

#include <stdbool.h>

typedef struct verb {
    const char *name, *before, *command; /* %s: the folder of sources */
    const char *run;                     /* paths of the files that it makes; NULL: none */
    bool cut;     /* the run that `before` makes loses its last checkpoint */
    bool threads; /* computes with several threads */
} verb;

typedef struct counts {
    long tried, survived, failed, lost, leaked;
} counts;

/* The files that a command starts from, and its output and files when no call fails. */
typedef struct record {
    tree start, good;
    result said;
} record;

const char *judge_kind(int kind); /* its name */

/* Runs the command once, with the call that is armed; it does not count if no call failed. */
void judge_one(counts *c, const verb *v, const record *r);

#endif
