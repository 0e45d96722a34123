/* pretrained/weights/packed.c: names, shapes and values of weights of four bits.
 *
 * g_idx is the only index that comes from a file. It is checked once, when it is read. */
#include "pretrained/weights/packed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "pretrained/weights/types.h"

enum { QWEIGHT, QZEROS, SCALES, G_IDX, BLOCKS = 0, EXPONENTS = 1, BLOCK = 32 };

typedef struct part {
    const char *name;
    mf_st_dtype dtype;
} part;

typedef struct form {
    const char *ending; /* ending of the weight's plain name, which is replaced by the name of
                         * the part */
    part parts[MF_FORM_PARTS];
    int n;
} form;

static const form forms[MF_FORMS] = {
    [MF_FORM_PLAIN] = {.ending = "", .n = 1},
    [MF_FORM_GPTQ] = {.ending = ".weight",
                      .parts = {{".qweight", MF_ST_I32},
                                {".qzeros", MF_ST_I32},
                                {".scales", MF_ST_F16},
                                {".g_idx", MF_ST_I32}},
                      .n = 4},
    [MF_FORM_MXFP4] = {.ending = "_proj",
                       .parts = {{"_proj_blocks", MF_ST_U8}, {"_proj_scales", MF_ST_U8}},
                       .n = 2}};

int mf_form_parts(mf_form f)
{
    return forms[f].n;
}

bool mf_form_name(mf_form f, const char *plain, int i, char *out)
{
    const size_t n = strlen(plain), m = strlen(forms[f].ending);
    if (f == MF_FORM_PLAIN || n < m || strcmp(plain + n - m, forms[f].ending) != 0)
        return false;
    return snprintf(out, MF_ST_NAME_MAX, "%.*s%s", (int)(n - m), plain,
                    forms[f].parts[i].name) < MF_ST_NAME_MAX;
}

/* ---- shapes ---- */

static int judge_part(const mf_source *s, int i, int rank, const int64_t *shape,
                      const char *where)
{
    const mf_st_tensor *t = s->tensor[i];
    bool same = t->dtype == forms[s->form].parts[i].dtype && t->rank == rank;
    for (int d = 0; same && d < rank; d++)
        same = t->shape[d] == shape[d];
    if (same) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: tensor '%s': expected %s of rank %d [%lld,...,%lld] for a weight of "
                   "this size",
                   where, t->name, mf_st_dtype_name(forms[s->form].parts[i].dtype), rank,
                   (long long)shape[0], (long long)shape[rank - 1]);
}

static int judge_gptq(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    const mf_st_tensor *scales = s->tensor[SCALES];
    if (rank != 2 || shape[0] % 8 != 0 || shape[1] % 8 != 0 || scales->rank != 2 ||
        scales->shape[0] < 1)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected a matrix whose sides 8 divides",
                       where, s->tensor[QWEIGHT]->name);
    const int64_t out = shape[0], in = shape[1], groups = scales->shape[0];
    int rc = judge_part(s, QWEIGHT, 2, (int64_t[]){in / 8, out}, where);
    if (rc == MF_OK) rc = judge_part(s, QZEROS, 2, (int64_t[]){groups, out / 8}, where);
    if (rc == MF_OK) rc = judge_part(s, SCALES, 2, (int64_t[]){groups, out}, where);
    return rc == MF_OK ? judge_part(s, G_IDX, 1, (int64_t[]){in}, where) : rc;
}

static int judge_mxfp4(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    if (rank != 3 || shape[2] % BLOCK != 0)
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': expected weights of experts whose inputs 32 divides",
                       where, s->tensor[BLOCKS]->name);
    const int64_t blocks[] = {shape[0], shape[1], shape[2] / BLOCK, BLOCK / 2};
    const int rc = judge_part(s, BLOCKS, 4, blocks, where);
    return rc == MF_OK ? judge_part(s, EXPONENTS, 3, blocks, where) : rc;
}

int mf_form_judge(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    return s->form == MF_FORM_GPTQ ? judge_gptq(s, rank, shape, where)
                                   : judge_mxfp4(s, rank, shape, where);
}

/* ---- values ---- */

int mf_packed_judge(const mf_packed *p, const char *name)
{
    const int32_t *group = p->part[G_IDX];
    for (int64_t i = 0; p->form == MF_FORM_GPTQ && i < p->in; i++)
        if (group[i] < 0 || group[i] >= p->groups)
            return mf_fail(MF_EINPUT, "tensor '%s': expected groups from 0 to %lld, found %d",
                           name, (long long)p->groups - 1, (int)group[i]);
    return MF_OK;
}

int mf_packed_read(const mf_source *s, mf_packed *ret)
{
    const mf_st_tensor *const *t = s->tensor;
    *ret = (mf_packed){.form = s->form};
    if (s->form == MF_FORM_GPTQ) {
        ret->out = t[QWEIGHT]->shape[1];
        ret->in = 8 * t[QWEIGHT]->shape[0];
        ret->groups = t[SCALES]->shape[0];
    } else {
        ret->out = t[BLOCKS]->shape[1];
        ret->in = BLOCK * t[BLOCKS]->shape[2];
    }
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < forms[s->form].n; i++) {
        ret->part[i] = mf_alloc_raw((size_t)t[i]->bytes);
        rc = ret->part[i] ? mf_st_read(s->file[i], t[i], ret->part[i], (size_t)t[i]->bytes)
                          : MF_ENOMEM;
    }
    if (rc == MF_OK && s->form == MF_FORM_GPTQ) rc = mf_packed_judge(ret, t[G_IDX]->name);
    if (rc != MF_OK) mf_packed_free(ret);
    return rc;
}

void mf_packed_free(mf_packed *p)
{
    for (int i = 0; i < MF_FORM_PARTS; i++)
        mf_free(p->part[i]);
    *p = (mf_packed){0};
}

static float gptq_at(const mf_packed *p, int64_t o, int64_t i)
{
    const uint32_t *weight = p->part[QWEIGHT], *zeros = p->part[QZEROS];
    const uint16_t *scales = p->part[SCALES];
    const int64_t g = ((const int32_t *)p->part[G_IDX])[i];
    const int q = weight[i / 8 * p->out + o] >> 4 * (i % 8) & 15,
              zero = zeros[g * (p->out / 8) + o / 8] >> 4 * (o % 8) & 15;
    float scale;
    mf_types_to_f32(MF_ST_F16, &scales[g * p->out + o], 1, &scale);
    return scale * (float)(q - zero - 1);
}

static float mxfp4_at(const mf_packed *p, int64_t e, int64_t o, int64_t i)
{
    static const float values[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    const uint8_t *blocks = p->part[BLOCKS], *exponents = p->part[EXPONENTS];
    const int64_t row = e * p->out + o;
    const int bits = blocks[(row * p->in + i) / 2] >> (i % 2 ? 4 : 0) & 15;
    const int exponent = exponents[(row * p->in + i) / BLOCK];
    if (exponent == 255) return NAN;
    const float x = ldexpf(values[bits & 7], exponent - 127);
    return bits & 8 ? -x : x;
}

float mf_packed_at(const mf_packed *p, int64_t e, int64_t o, int64_t i)
{
    return p->form == MF_FORM_GPTQ ? gptq_at(p, o, i) : mxfp4_at(p, e, o, i);
}
