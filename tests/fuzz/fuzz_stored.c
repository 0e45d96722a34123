/* fuzz_stored: any text as stored.json, the list of weights that stay in other files. It is
 * refused with its name or the name of a listed file, or all its weights can be decoded without
 * access outside the file. The list may name one file of weights, FILE, which is in memory. It
 * may name FILE by its path or as the file fd/77 beside the run, because the run folder of this
 * test is a folder of descriptors. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "kernels/ref/ref.h"
#include "run/folder/stored_parts.h"

#include <string.h>

#define WEIGHTS 77 /* descriptor of FILE; corpus/stored names it */
#define FILE_OF "/proc/self/fd/77"
#define BYTES   8192

const char *const fuzz_words[] = {"{\"format\":\"moefw-stored\",\"version\":1,\"files\":[",
                                  "\"weights\":[",
                                  "\"parts\":[",
                                  "{\"name\":\"a\",\"groups\":1,\"out\":8,\"in\":32,",
                                  "\"type\":\"F32\"",
                                  "\"type\":\"BF16\"",
                                  "\"type\":\"F16\"",
                                  "\"type\":\"GPTQ4\"",
                                  "\"type\":\"MXFP4\"",
                                  "\"type\":\"F8_E4M3\"",
                                  "\"type\":\"F8_E5M2\"",
                                  "\"type\":\"INT4\"",
                                  "\"type\":\"GPTQ8\"",
                                  "\"type\":\"AWQ4\"",
                                  "\"scale_type\":2",
                                  "\"scale_rows\":3",
                                  "\"whole_zeros\":true",
                                  "\"rows\":8",
                                  "\"ld\":32",
                                  "\"pairs\":true",
                                  "\"transposed\":true",
                                  "\"group_size\":8",
                                  "\"groups\":4",
                                  "\"data\":[0,0]",
                                  "\"scales\":[0,4096]",
                                  "\"zeros\":[0,2048]",
                                  "\"group_of\":[0,0]",
                                  "\"path\":\"/nowhere\"",
                                  "\"beside\":\"fd/77\"",
                                  "\"beside\":\"../\"",
                                  "-1",
                                  "9223372036854775807",
                                  "2147483647",
                                  NULL};

/* Writes the file of weights. Its first half is zeros. As numbers of groups they are valid,
 * because each weight has a group 0. */
static void make_weights(void)
{
    static uint8_t bytes[BYTES];
    const int fd = memfd_create("weights", MFD_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0);
    for (int i = BYTES / 2; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 37 + i / 256);
    FUZZ_REQUIRE(write(fd, bytes, BYTES) == BYTES);
    FUZZ_REQUIRE(dup2(fd, WEIGHTS) == WEIGHTS);
}

static double value(const mf_stored_part *p, int64_t in, int64_t o, int64_t i)
{
    if (p->type > MF_STORED_F16) return mf_ref_stored_packed(p, in, o, i);
    const int64_t at = p->transposed ? i * p->ld + o : o * p->ld + i;
    return p->type == MF_STORED_F32 ? ((const float *)p->data)[at]
                                    : ((const uint16_t *)p->data)[at];
}

static void decode(const mf_stored *w)
{
    volatile double sum = 0;
    int64_t rows = 0;
    for (int64_t q = 0; q < w->groups * w->parts; q++) {
        const mf_stored_part *p = &w->part[q];
        FUZZ_REQUIRE(p->first >= 0 && p->first + p->rows <= w->out);
        rows += p->rows;
        for (int64_t o = 0; o < p->rows; o++)
            for (int64_t i = 0; i < w->in; i++)
                sum = sum + value(p, w->in, o, i);
    }
    FUZZ_REQUIRE(rows == w->groups * w->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) make_weights();
    made = true;
    const char *path = fuzz_memory_file(data, size);
    mf_stored_files *f = NULL;
    mf_error_clear();
    const int rc = mf_stored_files_read(path, &f);
    FUZZ_REQUIRE((rc == MF_OK) == (f != NULL));
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    for (int i = 0; f && i < f->n_weights; i++)
        decode(f->weights[i].w);
    mf_stored_files_free(f);
    return 0;
}
