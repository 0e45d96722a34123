/* change.h: random changes of an input, for both ways to run a target. driver.c makes all its
 * inputs with them. mutator.c adds them to the changes of libFuzzer. */
#ifndef MF_TESTS_CHANGE_H
#define MF_TESTS_CHANGE_H

#include <stddef.h>
#include <stdint.h>

/* The random numbers of an input. They are drawn in the order of index; `index` belongs to the
 * next number. */
typedef struct fuzz_dice {
    uint64_t seed, run, index;
} fuzz_dice;

/* A random number less than `below`, which must be at least 1. */
size_t fuzz_roll(fuzz_dice *d, size_t below);

/* An input, in memory of `room` bytes. */
typedef struct fuzz_buffer {
    uint8_t *data;
    size_t size, room;
} fuzz_buffer;

/* Makes one change. It changes bits or bytes, copies a part of this or of the other input,
 * inserts a number near which sizes overflow or a word of the target's format, or removes,
 * repeats or replaces a token, list or object of a text. */
void fuzz_change(fuzz_buffer *b, fuzz_dice *d, const uint8_t *other, size_t other_size);

#endif
