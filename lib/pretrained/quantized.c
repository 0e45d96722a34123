/* pretrained/quantized.c: reads quantization_config of config.json, and checks the zeros
 * of GPTQ.
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

#define READABLE                                                                               \
    "mxfp4, fp8, fbgemm_fp8, compressed-tensors (float-quantized, or pack-quantized of 4 "     \
    "bits), gptq of 4 or 8 bits in format gptq or gptq_v2, or awq of 4 bits in version gemm"

/* A method of quantization. `read` reads its settings; on failure it writes what was found.
 * NULL: such weights are refused. `converts` names a program that writes a form which can
 * be read. */
typedef bool read_method(const mf_json *q, mf_packing *to, char found[160]);
typedef struct method {
    const char *name;
    read_method *read;
    const char *converts;
} method;

static const char *text_of(const mf_json *q, const char *key, const char *absent)
{
    const char *text = mf_json_string(mf_json_get(q, key), NULL);
    return text ? text : absent;
}

static bool read_mxfp4(const mf_json *q, mf_packing *to, char found[160])
{
    (void)q, (void)to, (void)found;
    return true;
}

/* Reads the sizes of blocks, if there are any. */
static bool read_block(const mf_json *list, mf_packing *to)
{
    if (!list || mf_json_typeof(list) == MF_JSON_NULL) return true;
    return mf_json_size(list) == 2 && mf_json_int(mf_json_at(list, 0), &to->block[0]) &&
           mf_json_int(mf_json_at(list, 1), &to->block[1]) && to->block[0] >= 1 &&
           to->block[1] >= 1 && to->block[0] <= INT32_MAX && to->block[1] <= INT32_MAX;
}

static bool read_fp8(const mf_json *q, mf_packing *to, char found[160])
{
    if (read_block(mf_json_get(q, "weight_block_size"), to)) return true;
    snprintf(found, 160, "fp8 with another weight_block_size than two numbers from 1 on");
    return false;
}

/* Reads the number of inputs of a group; -1: all inputs. */
static bool read_group_size(const mf_json *q, mf_packing *to)
{
    int64_t size = 0;
    const mf_json *v = mf_json_get(q, "group_size");
    if (v && (!mf_json_int(v, &size) || size < -1 || size > INT32_MAX)) return false;
    to->group_size = size == -1 ? INT32_MAX : size;
    return true;
}

static bool read_gptq(const mf_json *q, mf_packing *to, char found[160])
{
    static const char *const keys[] = {"checkpoint_format", "format"};
    const char *format = "gptq";
    for (int i = 1; i >= 0; i--)
        format = text_of(q, keys[i], format);
    to->whole_zeros = strcmp(format, "gptq_v2") == 0;
    to->bits = mf_json_int_or_0(q, "bits");
    mf_json_bool(mf_json_get(q, "sym"), &to->symmetric);
    if ((to->bits == 4 || to->bits == 8) && (to->whole_zeros || !strcmp(format, "gptq")) &&
        read_group_size(q, to))
        return true;
    snprintf(found, 160, "gptq of %lld bits in format %.64s", (long long)to->bits, format);
    return false;
}

static bool read_awq(const mf_json *q, mf_packing *to, char found[160])
{
    const char *version = text_of(q, "version", "gemm");
    const int64_t bits = mf_json_int_or_0(q, "bits");
    bool points = true;
    mf_json_bool(mf_json_get(q, "zero_point"), &points);
    to->awq = true;
    if (bits == 4 && points && (!strcmp(version, "gemm") || !strcmp(version, "GEMM")) &&
        read_group_size(q, to))
        return true;
    snprintf(found, 160, "awq of %lld bits in version %.64s%s", (long long)bits, version,
             points ? "" : " without zero points");
    return false;
}

/* Reads a group of the configuration of compressed-tensors. Names of tensors tell which weights
 * have which form, and shapes tell the strategy. */
static bool read_scheme(const mf_json *w, const char *format, mf_packing *to, char found[160])
{
    const char *type = text_of(w, "type", "int"), *strategy = text_of(w, "strategy", "tensor"),
               *order = text_of(w, "actorder", "static");
    const int64_t bits = mf_json_int_or_0(w, "num_bits");
    const bool floats =
                   strcmp(type, "float") == 0 && bits == 8 &&
                   (!strcmp(format, "float-quantized") || !strcmp(format, "naive-quantized")),
               ints =
                   strcmp(type, "int") == 0 && bits == 4 && !strcmp(format, "pack-quantized");
    if ((floats || ints) && strcmp(order, "group") != 0 &&
        read_block(mf_json_get(w, "block_structure"), to))
        return true;
    snprintf(found, 160,
             "compressed-tensors %.48s of %lld bits, type %.16s, strategy %.16s, "
             "actorder %.16s",
             format, (long long)bits, type, strategy, order);
    return false;
}

static bool read_compressed(const mf_json *q, mf_packing *to, char found[160])
{
    const mf_json *groups = mf_json_get(q, "config_groups"), *group;
    const char *format = text_of(q, "format", "no format"), *key;
    const char *sparse = text_of(mf_json_get(q, "sparsity_config"), "format", "dense");
    if (strcmp(sparse, "dense") != 0) {
        snprintf(found, 160, "compressed-tensors with sparsity %.64s", sparse);
        return false;
    }
    if (mf_json_size(mf_json_get(mf_json_get(q, "transform_config"), "config_groups")) > 0) {
        snprintf(found, 160, "compressed-tensors with transforms");
        return false;
    }
    for (size_t i = 0; groups && mf_json_member(groups, i, &key, &group); i++) {
        const char *own = text_of(group, "format", format);
        if (!read_scheme(mf_json_get(group, "weights"), own, to, found)) return false;
    }
    if (mf_json_size(groups) > 0) return true;
    snprintf(found, 160, "compressed-tensors without config_groups");
    return false;
}

static const method methods[] = {
    {"mxfp4", read_mxfp4, ""},
    {"fp8", read_fp8, LOAD "FineGrainedFP8Config(dequantize=True)" SAVE},
    {"fbgemm_fp8", read_fp8, ""},
    {"compressed-tensors", read_compressed,
     LOAD "CompressedTensorsConfig(dequantize=True)" SAVE},
    {"gptq", read_gptq, "GPTQModel writes 4 and 8 bits in format gptq"},
    {"awq", read_awq, "GPTQModel writes its weights in format gptq"},
    {"bitsandbytes", NULL,
     "AutoModelForCausalLM.from_pretrained('FOLDER').dequantize()"
     ".save_pretrained('NEW') of transformers writes plain weights"},
    {"higgs", NULL,
     "AutoModelForCausalLM.from_pretrained('FOLDER').dequantize()"
     ".save_pretrained('NEW') of transformers writes plain weights"},
};

static const method *method_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof methods / sizeof *methods; i++)
        if (strcmp(name, methods[i].name) == 0) return &methods[i];
    return NULL;
}

void mf_quantized_judge(mf_keys *k)
{
    static const char *const keys[] = {"quantization_config", "compression_config"};
    for (int i = 0; i < 2; i++) {
        const mf_json *q = mf_json_get(k->json, keys[i]);
        const char *name = mf_json_string(mf_json_get(q, "quant_method"), NULL);
        const method *m = method_of(name);
        char found[160] = "no quant_method";
        if (!mf_keys_has(k, keys[i])) continue;
        if (name) snprintf(found, sizeof found, "%.64s", name);
        if (m && m->read && m->read(q, &k->packing, found)) continue;
        mf_keys_refuse(k, keys[i], "expected quant_method " READABLE ", found %s; %s", found,
                       m ? m->converts
                         : "take the folder that it was made of; 'moefw quantize' makes 4 bits "
                           "of its run");
    }
}

/* ---- zero points ---- */

enum { PIECE = 4096, ZEROS = 1 /* index of the zeros among the parts of a weight in GPTQ */ };

/* Counts the zero points that are `wrong`, and the number of all zero points. */
static int count(const mf_st_file *file, const mf_st_tensor *t, int bits, uint32_t wrong,
                 uint64_t ret[2])
{
    uint32_t words[PIECE];
    const unsigned each = 32 / (unsigned)bits;
    for (uint64_t at = 0; at < t->count; at += PIECE) {
        const uint64_t n = t->count - at < PIECE ? t->count - at : PIECE;
        const int rc =
            mf_st_read_part(file, t, words, (size_t)n * sizeof *words, at * sizeof *words);
        if (rc != MF_OK) return rc;
        for (uint64_t i = 0; i < each * n; i++)
            ret[0] +=
                (words[i / each] >> (unsigned)bits * (i % each) & ((1u << bits) - 1)) == wrong;
        ret[1] += each * n;
    }
    return MF_OK;
}

int mf_quantized_judge_zeros(const mf_folder *f, const mf_ledger *ledger)
{
    const mf_packing *q = &ledger->packing;
    const int bits = q->bits == 8 ? 8 : 4, middle = 1 << (bits - 1),
              right = q->whole_zeros ? middle : middle - 1,
              wrong = q->whole_zeros ? middle - 1 : middle;
    uint64_t all[2] = {0};
    const mf_st_tensor *first = NULL;
    for (int64_t i = 0; i < ledger->n; i++) {
        const mf_place *p = &ledger->places[i];
        if (p->form != MF_FORM_GPTQ || !p->param) continue;
        const mf_folder_tensor *t = &f->tensors[p->parts[ZEROS]];
        uint64_t n[2] = {0};
        const int rc = count(f->shards[t->shard], t->tensor, bits, (uint32_t)wrong, n);
        if (rc != MF_OK) return rc;
        if (n[0] > 0 && (q->symmetric || n[0] == n[1]) && !first) first = t->tensor;
        for (int j = 0; j < 2; j++)
            all[j] += n[j];
    }
    /* Symmetric weights have the middle of the codes, which version 1 stores less 1. If sym is
     * not set, some zeros may be that of the other version, but not all. */
    if (!first || (!q->symmetric && all[0] < all[1])) return MF_OK;
    static const char *const formats[] = {"gptq", "gptq_v2"};
    const char *said = formats[q->whole_zeros], *found = formats[!q->whole_zeros];
    return mf_fail(
        MF_EINPUT,
        "%s: tensor '%s': %szeros are stored as %d, which is format %s where %s, but "
        "config.json says format %s, where they are %d; \"checkpoint_format\": \"%s\" in "
        "quantization_config reads them as they are",
        f->path, first->name, all[0] < all[1] ? "some " : "", wrong, found,
        q->symmetric ? "quantization_config has sym = true" : "all of them are", said, right,
        found);
}
