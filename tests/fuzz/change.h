/* change.h: random changes of an input, for both ways to run a target: driver.c makes all its
 * inputs by them, mutator.c gives them to libFuzzer beside libFuzzer's own. */
#ifndef MF_TESTS_CHANGE_H
#define MF_TESTS_CHANGE_H

#include <stddef.h>
#include <stdint.h>

/* The random numbers of an input, which are drawn in the order of index; `index` is that of the
 * next one. */
typedef struct fuzz_dice {
    uint64_t seed, run, index;
} fuzz_dice;

/* A number below `below`, which is at least 1. */
size_t fuzz_roll(fuzz_dice *d, size_t below);

/* An input in memory for `room` bytes. */
typedef struct fuzz_buffer {
    uint8_t *data;
    size_t size, room;
} fuzz_buffer;

/* One change: of bits or bytes, a part of this or of the other input that is copied, a number
 * near which sizes overflow, a word of the target's format, or a token, list or object of a
 * text that is removed, repeated or put in place of another. */
void fuzz_change(fuzz_buffer *b, fuzz_dice *d, const uint8_t *other, size_t other_size);

#endif
