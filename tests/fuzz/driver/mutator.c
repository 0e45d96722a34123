/* mutator.c: changes libFuzzer's inputs. libFuzzer changes half of them, and change.c the other
 * half. change.c uses the words and the structure of the formats, because an input that a
 * reader refuses at its first byte tests nothing else. Without libFuzzer this function is
 * never called. */
#include "tests/fuzz/driver/change.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* The result of an earlier call; about one of 64 results is kept. Parts of it are copied into
 * the present input. */
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
