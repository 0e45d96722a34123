/* counts.h: the counts of the strict device. */
#ifndef TESTS_DEVICE_COUNTS_H
#define TESTS_DEVICE_COUNTS_H

#include <stdio.h>

typedef struct counts {
    long to_device, from_device, within, fills, waits, launches, calls, blocks, replays;
} counts;

static inline void print_all(const counts *c)
{
    fprintf(
        stderr,
        "strict: %ld copies to the device, %ld from it, %ld within it, %ld fills, %ld waits, "
        "%ld launches, %ld calls, %ld replays\n",
        c->to_device, c->from_device, c->within, c->fills, c->waits, c->launches, c->calls,
        c->replays);
}

#endif
