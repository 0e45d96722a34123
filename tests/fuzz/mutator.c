/* mutator.c: libFuzzer's inputs. Every second one is changed by libFuzzer, the others by
 * change.c, which knows the words and the structure of the formats: inputs that a reader
 * refuses at their first byte test nothing of the rest. Without libFuzzer nobody calls it. */
#include "tests/fuzz/change.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* The input before this one, whose parts go into this one. */
static uint8_t last[4096];
static size_t last_size;

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_dice d = {seed, 0, 0};
    fuzz_buffer b = {data, size, max_size};
    if (LLVMFuzzerMutate && fuzz_roll(&d, 2)) {
        b.size = LLVMFuzzerMutate(data, size, max_size);
    } else {
        for (size_t n = 1 + fuzz_roll(&d, 3); n > 0; n--)
            fuzz_change(&b, &d, last, last_size);
    }
    if (b.size <= sizeof last && fuzz_roll(&d, 64) == 0) {
        memcpy(last, data, b.size);
        last_size = b.size;
    }
    return b.size;
}
