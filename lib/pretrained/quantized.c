/* pretrained/quantized.c: checks quantization_config of config.json, and the zeros of GPTQ.
 *
 * Two keys name the format of GPTQ, checkpoint_format and format. In some files these keys say
 * version 1, or are missing, but the zeros are of version 2. If such zeros were read as version
 * 1, all weights would be wrong by one scale. Therefore the zeros themselves are checked. */
#include "pretrained/quantized.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"

#define SAVE ").save_pretrained('NEW') of transformers writes plain weights"
#define LOAD "AutoModelForCausalLM.from_pretrained('FOLDER', quantization_config="

typedef struct method {
    const char *name, *converts;
} method;

static const method methods[] = {
    {"fp8", LOAD "FineGrainedFP8Config(dequantize=True)" SAVE},
    {"compressed-tensors", LOAD "CompressedTensorsConfig(dequantize=True)" SAVE},
    {"bitsandbytes", "AutoModelForCausalLM.from_pretrained('FOLDER').dequantize()"
                     ".save_pretrained('NEW') of transformers writes plain weights"},
    {"higgs", "AutoModelForCausalLM.from_pretrained('FOLDER').dequantize()"
              ".save_pretrained('NEW') of transformers writes plain weights"},
    {"gptq", "GPTQModel writes 4 bits in format gptq"},
};

static const char *converter(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (name && strcmp(name, methods[i].name) == 0) return methods[i].converts;
    return "take the folder that it was made of; 'moefw quantize' makes 4 bits of its run";
}

/* Returns the name of a GPTQ format other than version 1; NULL: no key names one. */
static const char *other_format(const mf_json *q)
{
    static const char *const keys[] = {"checkpoint_format", "format"};
    for (int i = 0; i < 2; i++) {
        const char *format = mf_json_string(mf_json_get(q, keys[i]), NULL);
        if (format && strcmp(format, "gptq") != 0) return format;
    }
    return NULL;
}

void mf_quantized_judge(mf_keys *k)
{
    static const char *const keys[] = {"quantization_config", "compression_config"};
    for (int i = 0; i < 2; i++) {
        const mf_json *q = mf_json_get(k->json, keys[i]);
        const char *name = mf_json_string(mf_json_get(q, "quant_method"), NULL),
                   *format = other_format(q);
        char found[160] = "no quant_method";
        if (!mf_keys_has(k, keys[i]) || (name && strcmp(name, "mxfp4") == 0)) continue;
        const int64_t bits = mf_json_int_or_0(q, "bits");
        const bool gptq = name && strcmp(name, "gptq") == 0;
        if (gptq && !format && bits == 4) continue;
        if (gptq)
            snprintf(found, sizeof found, "gptq of %lld bits in format %.64s", (long long)bits,
                     format ? format : "gptq");
        else if (name)
            snprintf(found, sizeof found, "%.64s", name);
        mf_keys_refuse(
            k, keys[i],
            "expected quant_method mxfp4, or gptq of 4 bits in format gptq, found %s; "
            "%s",
            found, converter(name));
    }
}

/* ---- zero points ---- */

enum { IN_WORD = 8, PIECE = 4096 };

/* Counts the zero points that are 8, and the number of all zero points. */
static int count(const mf_st_file *file, const mf_st_tensor *t, uint64_t ret[2])
{
    uint32_t words[PIECE];
    for (uint64_t at = 0; at < t->count; at += PIECE) {
        const uint64_t n = t->count - at < PIECE ? t->count - at : PIECE;
        const int rc =
            mf_st_read_part(file, t, words, (size_t)n * sizeof *words, at * sizeof *words);
        if (rc != MF_OK) return rc;
        for (uint64_t i = 0; i < IN_WORD * n; i++)
            ret[0] += (words[i / IN_WORD] >> 4 * (i % IN_WORD) & 15) == 8;
        ret[1] += IN_WORD * n;
    }
    return MF_OK;
}

int mf_quantized_judge_zeros(const mf_folder *f, const mf_ledger *ledger)
{
    enum { ZEROS = 1 }; /* index of the zeros among the parts of a weight in GPTQ */
    const mf_json *q = mf_json_get(f->config, "quantization_config");
    uint64_t all[2] = {0};
    const mf_st_tensor *first = NULL;
    bool sym = false;
    mf_json_bool(mf_json_get(q, "sym"), &sym);
    for (int64_t i = 0; i < ledger->n; i++) {
        const mf_place *p = &ledger->places[i];
        if (p->form != MF_FORM_GPTQ || !p->param) continue;
        const mf_folder_tensor *t = &f->tensors[p->parts[ZEROS]];
        uint64_t n[2] = {0};
        const int rc = count(f->shards[t->shard], t->tensor, n);
        if (rc != MF_OK) return rc;
        if (n[0] > 0 && (sym || n[0] == n[1]) && !first) first = t->tensor;
        for (int j = 0; j < 2; j++)
            all[j] += n[j];
    }
    /* Version 1 stores 7 for symmetric weights. If sym is not set, some zeros may be 8, but
     * not all. */
    if (!first || (!sym && all[0] < all[1])) return MF_OK;
    return mf_fail(
        MF_EINPUT,
        "%s: tensor '%s': %szeros are stored as 8, which is format gptq_v2 where %s, but "
        "config.json says format gptq, where they are 7; GPTQModel writes format gptq",
        f->path, first->name, all[0] < all[1] ? "some " : "",
        sym ? "quantization_config has sym = true" : "all of them are");
}
