/* change.c: random changes of an input. The same numbers make the same change, so that the
 * number of an input determines the input. No change makes an input longer than its memory. */
#include "tests/fuzz/driver/change.h"

#include "tests/fuzz/fuzz.h"

#include "base/rng.h"

#include <string.h>

size_t fuzz_roll(fuzz_dice *d, size_t below)
{
    return (size_t)mf_rng_below(d->seed, 1, d->run, d->index++, below);
}

static void remove_at(fuzz_buffer *b, size_t at, size_t n)
{
    memmove(b->data + at, b->data + at + n, b->size - at - n);
    b->size -= n;
}

/* Inserts bytes at `at`. Bytes that do not fit are dropped. text must not point into b. */
static void insert_at(fuzz_buffer *b, size_t at, const void *text, size_t n)
{
    if (n > b->room - b->size) n = b->room - b->size;
    memmove(b->data + at + n, b->data + at, b->size - at);
    memcpy(b->data + at, text, n);
    b->size += n;
}

static void insert_word(fuzz_buffer *b, fuzz_dice *d)
{
    size_t n = 0;
    while (fuzz_words[n])
        n++;
    if (n == 0) return;
    const char *word = fuzz_words[fuzz_roll(d, n)];
    insert_at(b, fuzz_roll(d, b->size + 1), word, strlen(word));
}

/* Writes a number near which sums and multiples of sizes overflow, as text or in binary. */
static void put_number(fuzz_buffer *b, fuzz_dice *d)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       7,
                                       0x7F,
                                       0x80,
                                       0xFF,
                                       0xFFFF,
                                       0x10000,
                                       0x7FFFFFFF,
                                       0x80000000u,
                                       0xFFFFFFFFu,
                                       0x100000000u,
                                       0x1FFFFFFFFFFFFFFFu,
                                       0x4000000000000000u,
                                       0x7FFFFFFFFFFFFFFFu,
                                       0x8000000000000000u,
                                       0xFFFFFFFFFFFFFFF8u,
                                       0xFFFFFFFFFFFFFFFFu};
    uint64_t number =
        numbers[fuzz_roll(d, sizeof numbers / sizeof *numbers)] + fuzz_roll(d, 3) - 1;
    size_t at = fuzz_roll(d, b->size + 1);
    if (fuzz_roll(d, 2)) {
        char text[32];
        size_t n = (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
        size_t old = 0;
        while (at + old < b->size && b->data[at + old] >= '0' && b->data[at + old] <= '9')
            old++;
        remove_at(b, at, old);
        insert_at(b, at, text, n);
    } else {
        size_t n = (size_t)1 << fuzz_roll(d, 4);
        if (n > b->size - at) n = b->size - at;
        memcpy(b->data + at, &number, n);
    }
}

static void copy_part(fuzz_buffer *b, fuzz_dice *d, const uint8_t *from, size_t size)
{
    uint8_t part[256];
    size_t n, at;
    if (size == 0) return;
    n = 1 + fuzz_roll(d, size < sizeof part ? size : sizeof part);
    at = fuzz_roll(d, size - n + 1);
    memcpy(part, from + at, n);
    insert_at(b, fuzz_roll(d, b->size + 1), part, n);
}

/* ---- tokens and elements of a text ---- */

/* Whether the byte separates tokens. The fuzzed text formats consist of tokens between
 * these bytes. */
static int is_separator(uint8_t c)
{
    return c == 0 || strchr(" \t\r\n,:;=[]{}", c) != NULL;
}

/* The end of the string, list or object that begins at `at`. At other bytes, the end of the
 * token around `at`; *at is then moved back to its beginning. */
static size_t end_of_element(const uint8_t *data, size_t size, size_t *at)
{
    size_t end = *at, depth = 0;
    const uint8_t first = data[*at];
    if (first == '"') {
        while (++end < size && data[end] != '"')
            end += data[end] == '\\';
        return end < size ? end + 1 : size;
    }
    if (first == '{' || first == '[') {
        for (; end < size; end++) {
            depth += data[end] == '{' || data[end] == '[';
            depth -= data[end] == '}' || data[end] == ']';
            if (depth == 0) return end + 1;
        }
        return size;
    }
    while (*at > 0 && !is_separator(data[*at - 1]))
        --*at;
    while (end < size && !is_separator(data[end]))
        end++;
    return end;
}

/* Removes an element, repeats it after itself, or replaces another element by it. */
static void change_element(fuzz_buffer *b, fuzz_dice *d, const uint8_t *other, size_t size)
{
    uint8_t part[512];
    if (b->size == 0 || size == 0) return;
    size_t at = fuzz_roll(d, b->size), end = end_of_element(b->data, b->size, &at);
    size_t from = fuzz_roll(d, size), until = end_of_element(other, size, &from);
    size_t n = until - from;
    const size_t what = fuzz_roll(d, 8);
    if (what < 2) {
        /* for what = 1 the separator after the element is removed, too, as in a shorter list */
        if (end < b->size && what == 1) end++;
        remove_at(b, at, end - at);
        return;
    }
    if (what == 2) {
        n = end - at;
        if (end < b->size) n++;
        if (n > sizeof part) return;
        memcpy(part, b->data + at, n);
        insert_at(b, at, part, n);
        return;
    }
    if (n > sizeof part) n = sizeof part;
    memcpy(part, other + from, n);
    remove_at(b, at, end - at);
    insert_at(b, at, part, n);
}

void fuzz_change(fuzz_buffer *b, fuzz_dice *d, const uint8_t *other, size_t other_size)
{
    size_t at = b->size ? fuzz_roll(d, b->size) : 0;
    uint8_t byte;
    switch (fuzz_roll(d, 14)) {
    case 0:
        if (b->size) b->data[at] ^= (uint8_t)(1u << fuzz_roll(d, 8));
        break;
    case 1:
        if (b->size) b->data[at] = (uint8_t)fuzz_roll(d, 256);
        break;
    case 2:
        byte = (uint8_t)fuzz_roll(d, 256);
        insert_at(b, at, &byte, 1);
        break;
    case 3:
        if (b->size) remove_at(b, at, 1);
        break;
    case 4:
        if (b->size) remove_at(b, at, 1 + fuzz_roll(d, b->size - at));
        break;
    case 5:
        copy_part(b, d, b->data, b->size);
        break;
    case 6:
        copy_part(b, d, other, other_size);
        break;
    case 7:
        put_number(b, d);
        break;
    case 8:
    case 9:
        change_element(b, d, b->data, b->size);
        break;
    case 10:
        change_element(b, d, other, other_size);
        break;
    default:
        insert_word(b, d);
        break;
    }
}
