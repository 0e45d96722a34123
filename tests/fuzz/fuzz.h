/* fuzz.h: the functions that a fuzz target must define, and functions that it may use.
 *
 * A target is one file, tests/fuzz/fuzz_NAME.c, with seeds in tests/fuzz/corpus/NAME/. It
 * defines LLVMFuzzerTestOneInput and fuzz_words. There are two ways to run a target:
 *
 *   make check            links it with driver.c: replays the seeds, then mutates them
 *   --enable-fuzz         links it with libFuzzer (CC=clang; add --enable-build-type=asan):
 *                         fuzz_NAME -timeout=5 -rss_limit_mb=512 FINDINGS corpus/NAME
 *                         (libFuzzer writes to the first folder: do not name the seeds first)
 *
 * A target aborts if a guarantee is broken; the sanitizers detect all other errors. */
#ifndef MF_TESTS_FUZZ_H
#define MF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Changes libFuzzer's inputs (mutator.c). It is declared here so that the linker includes it
 * from the archive. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
__attribute__((used)) static size_t (*const fuzz_mutator)(uint8_t *, size_t, size_t,
                                                          unsigned) = LLVMFuzzerCustomMutator;

/* Words of the format that change.c inserts into inputs. NULL-terminated. */
extern const char *const fuzz_words[];

/* An assertion that no build type disables. */
#define FUZZ_REQUIRE(condition)                                                                \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#endif
