/* fuzz_packed: any bytes as a weight of four or eight bits. Groups without a scale are refused.
 * All other weights are decoded within the memory of their tensors. Of MXFP4, a value is NaN
 * only if its scale is NaN. The first two bytes choose type and sizes, and the rest
 * fills tensors. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "graph/store/stored.h"
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

static void decode(const mf_packed *p)
{
    volatile float sum = 0;
    for (int64_t o = 0; o < p->out; o++)
        for (int64_t i = 0; i < p->in; i++) {
            const float x = mf_packed_at(p, 0, o, i);
            const uint8_t *scale = p->memory[1];
            sum = sum + x;
            if (p->part.type == MF_STORED_MXFP4)
                FUZZ_REQUIRE(isnan(x) == (scale[(o * p->in + i) / 32] == 255));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const uint8_t kind = data[0], sizes = data[1];
    const bool listed = kind & 16, points = kind & 32;
    const int types = MF_STORED_TYPES - MF_STORED_GPTQ4;
    const int64_t group = 8 * (1 + (sizes >> 6));
    mf_packed p = {.out = 8 * (1 + (sizes & 3)), .in = 32 * (1 + (sizes >> 2 & 3))};
    uint64_t bytes[MF_STORED_POINTERS];
    data += 2;
    size -= 2;
    p.part = (mf_stored_part){.type = (mf_stored_type)(MF_STORED_GPTQ4 + kind % 16 % types),
                              .rows = p.out,
                              .whole_zeros = points,
                              .scale_type = (mf_scale_type)((kind >> 6) % 2),
                              .scale_rows = 1 + (sizes >> 4 & 3),
                              .group_size = group,
                              .groups = (p.in + group - 1) / group};
    if (p.part.type == MF_STORED_MXFP4) p.part.groups = 0;
    /* the pointers say which tensors exist, before there are sizes */
    if (listed && (p.part.type == MF_STORED_GPTQ4 || p.part.type == MF_STORED_GPTQ8))
        p.part.group_of = (const int32_t *)bytes;
    if (points) p.part.zeros = bytes;
    mf_stored_sizes(&p.part, p.in, bytes);
    for (int i = 0; i < MF_STORED_POINTERS; i++)
        p.memory[i] = bytes[i] ? take(&data, &size, (size_t)bytes[i]) : NULL;
    p.part.data = p.memory[0];
    p.part.scales = p.memory[1];
    p.part.zeros = p.memory[2];
    p.part.group_of = p.memory[3];
    const int rc = mf_packed_judge(&p, "x");
    if (rc == MF_OK)
        decode(&p);
    else
        FUZZ_REQUIRE(rc == MF_EINPUT && strstr(mf_error_message(), "x"));
    for (int i = 0; i < MF_FORM_PARTS; i++)
        free(p.memory[i]);
    return 0;
}
