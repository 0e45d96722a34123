/* fuzz_peft: any two files as an adapter folder of PEFT. An accepted adapter has finite
 * factors, the sizes of its module and values in its memory. All others are refused with the
 * name of a file. The first two bytes are the length of adapter_config.json. The other bytes
 * are the contents of both files. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "pretrained/adapters/peft.h"

#include <math.h>
#include <string.h>

const char *const fuzz_words[] = {
    "\"peft_type\":\"LORA\"",
    "\"lora_alpha\":8",
    "\"alpha_pattern\":{\"q_proj\":2}",
    "\"lora_dropout\":0.5",
    "\"use_rslora\":true",
    "\"peft_version\":\"0.18.1\"",
    "\"peft_version\":\"0.21.2\"",
    "\"init_lora_weights\":\"pissa\"",
    "\"base_model.model.q.lora_A.weight\":",
    "\"base_model.model.q.lora_B.weight\":",
    "\"base_model.model.e.lora_A.weight\":",
    "\"base_model.model.e.base_layer.lora_B.weight\":",
    "{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]}",
    "{\"dtype\":\"BF16\",\"shape\":[4,2],\"data_offsets\":[0,16]}",
    "\"shape\":[0]",
    "null",
    ":1e308",
    ":-1",
    NULL};

static const char *const names[] = {MF_PEFT_CONFIG, MF_PEFT_WEIGHTS};

/* A linear layer, and three weights of experts, one of them square and one transposed. */
static const mf_peft_module modules[] = {
    {.name = "q", .rows = {.n = 4}, .experts = 1, .inputs = 4},
    {.name = "e", .parameter = "a", .rows = {.n = 6}, .experts = 2, .inputs = 4, .fused = true},
    {.name = "e", .parameter = "b", .rows = {.n = 4}, .experts = 2, .inputs = 4, .fused = true},
    {.name = "t",
     .parameter = "c",
     .rows = {.n = 6},
     .experts = 2,
     .inputs = 4,
     .fused = true,
     .transposed = true}};

static void judge(const mf_peft *p)
{
    volatile float sum = 0;
    FUZZ_REQUIRE(p->n >= 1 && p->dropout >= 0 && p->dropout < 1);
    for (int i = 0; i < p->n; i++) {
        const mf_low_rank *c = &p->changes[i].change;
        const mf_peft_module *m = p->changes[i].module;
        FUZZ_REQUIRE(m >= modules && m < modules + sizeof modules / sizeof *modules);
        FUZZ_REQUIRE(isfinite(c->alpha) && c->alpha >= 0 && c->rank >= 1);
        FUZZ_REQUIRE(c->inputs == m->inputs && c->experts == m->experts);
        for (int64_t j = 0; j < c->experts * c->rank * c->inputs; j++)
            sum = sum + c->a[j];
        for (int64_t j = 0; j < c->experts * c->rank * c->rows.n; j++)
            sum = sum + c->b[j];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder;
    if (size < 2) return 0;
    if (!folder) folder = fuzz_make_folder(names, 2);
    size_t n = (size_t)data[0] | (size_t)data[1] << 8;
    if (n > size - 2) n = size - 2;
    fuzz_set_file(0, NULL, data + 2, n);
    fuzz_set_file(1, NULL, data + 2 + n, size - 2 - n);
    mf_arena *arena = mf_arena_new();
    mf_peft p;
    FUZZ_REQUIRE(arena);
    const int rc = mf_peft_read(folder, NULL, NULL, modules,
                                (int)(sizeof modules / sizeof *modules), arena, &p);
    if (rc == MF_OK)
        judge(&p);
    else
        FUZZ_REQUIRE(rc == MF_EINPUT && strstr(mf_error_message(), "adapter_"));
    mf_arena_free(arena);
    return 0;
}
