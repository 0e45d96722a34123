/* fuzz_packed: any bytes as a weight of four bits. Groups without a scale are refused. All
 * other weights are decoded within the memory of their tensors. A value is NaN only if its
 * scale is NaN. The first byte chooses format and sizes; the rest fills the tensors. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "pretrained/weights/packed.h"

#include <math.h>
#include <string.h>

const char *const fuzz_words[] = {"\x01", "\xFF", "\xFF\xFF\xFF\xFF", "\x7F", "\x7C", NULL};

/* A copy of the next n bytes in memory of exactly this size. After the end of the input, the
 * bytes are zeros. */
static void *take(const uint8_t **data, size_t *size, size_t n)
{
    uint8_t *out = calloc(n, 1);
    const size_t m = n < *size ? n : *size;
    FUZZ_REQUIRE(out);
    memcpy(out, *data, m);
    *data += m;
    *size -= m;
    return out;
}

static void decode(const mf_packed *p, int64_t experts)
{
    for (int64_t e = 0; e < experts; e++)
        for (int64_t o = 0; o < p->out; o++)
            for (int64_t i = 0; i < p->in; i++) {
                const float x = mf_packed_at(p, e, o, i);
                const uint8_t *scale = p->part[1];
                if (p->form == MF_FORM_MXFP4)
                    FUZZ_REQUIRE(isnan(x) ==
                                 (scale[((e * p->out + o) * p->in + i) / 32] == 255));
            }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const uint8_t kind = *data++;
    mf_packed p = {.form = kind & 1 ? MF_FORM_GPTQ : MF_FORM_MXFP4};
    const int64_t experts = kind & 1 ? 1 : 1 + (kind >> 1 & 1);
    size--;
    if (p.form == MF_FORM_GPTQ) {
        p.out = 8 * (1 + (kind >> 1 & 3));
        p.in = 8 * (1 + (kind >> 3 & 3));
        p.groups = 1 + (kind >> 5);
        p.part[3] = take(&data, &size, (size_t)p.in * 4);
        p.part[0] = take(&data, &size, (size_t)(p.in / 8 * p.out) * 4);
        p.part[1] = take(&data, &size, (size_t)(p.groups * p.out / 8) * 4);
        p.part[2] = take(&data, &size, (size_t)(p.groups * p.out) * 2);
    } else {
        p.out = 1 + (kind >> 2 & 7);
        p.in = 32 * (1 + (kind >> 5));
        p.part[0] = take(&data, &size, (size_t)(experts * p.out * p.in / 2));
        p.part[1] = take(&data, &size, (size_t)(experts * p.out * p.in / 32));
    }
    const int rc = mf_packed_judge(&p, "x");
    if (rc == MF_OK)
        decode(&p, experts);
    else
        FUZZ_REQUIRE(rc == MF_EINPUT && strstr(mf_error_message(), "x"));
    for (int i = 0; i < MF_FORM_PARTS; i++)
        free(p.part[i]);
    return 0;
}
