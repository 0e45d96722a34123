/* fuzz.h: what a fuzz target offers, and what it may use.
 *
 * A target is one file, tests/fuzz/fuzz_NAME.c, with seeds in tests/fuzz/corpus/NAME/. It
 * defines both names below. Two ways to run it:
 *   make check            links it with driver.c: replays the seeds, then mutates them for a
 *                         while;
 *   --enable-fuzz         links it with libFuzzer (CC=clang; add --enable-build-type=asan):
 *                         fuzz_NAME -timeout=5 -rss_limit_mb=512 FINDINGS corpus/NAME
 *                         (libFuzzer adds to the first folder only: never give it the seeds)
 * A target aborts when a promise is broken; the sanitizers watch for the rest.
 */
#ifndef MF_TESTS_FUZZ_H
#define MF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Words of the format, which driver.c puts into seeds. NULL-terminated. */
extern const char *const fuzz_words[];

/* An assertion that no build switches off. */
#define FUZZ_REQUIRE(condition)                                                                \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#endif
