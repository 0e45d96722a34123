/* lib/decode.c: decodes tokens one after another, like a program that streams them. A token
 * decodes to at most 4 * longest + 16 bytes, where `longest` is the length of the tokenizer's
 * longest piece. */
#include "tests/lib/decode.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

char *decoded(const mf_tokenizer *t, const mf_ids *ids, size_t *ret_n)
{
    mf_decoder d;
    size_t n = 0, part;
    ck_assert_int_eq(mf_decoder_open(&d, t), MF_OK);
    char *all = malloc(ids->n * (4 * t->longest + 16) + 16);
    ck_assert_ptr_nonnull(all);
    for (size_t i = 0; i <= ids->n; i++) {
        const char *text =
            i < ids->n ? mf_decoder_next(&d, ids->id[i], &part) : mf_decoder_end(&d, &part);
        memcpy(all + n, text, part);
        n += part;
    }
    mf_decoder_close(&d);
    *ret_n = n;
    return all;
}
