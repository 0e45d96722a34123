/* pretrained/weights/packed.c: the table of forms, and their values.
 *
 * A form is a row of the table: names and types of its tensors, the function that checks their
 * shapes, and the function that describes them for kernels. g_idx is the only index that comes
 * from a file. It is checked once, when it is read. */
#include "pretrained/weights/packed.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"

enum { QWEIGHT, QZEROS, SCALES, G_IDX, SCALE = 1, SHAPE = 2, POINTS = 3, BLOCK = 32 };

#define TYPE(name) (1u << MF_ST_##name)
#define FLOATS     (TYPE(F16) | TYPE(BF16))
#define SCALES_F8  (FLOATS | TYPE(F32))

typedef struct part {
    const char *name;
    unsigned types; /* bits of mf_st_dtype */
    bool optional;
} part;

typedef struct form {
    const char *ending; /* ending of the weight's plain name, which is replaced by the name of
                         * the part */
    part parts[MF_FORM_PARTS];
    int n;
    /* the parts with data, scales, zeros and groups of inputs; -1: none */
    int pointer[4];
    int (*judge)(const mf_source *s, int rank, const int64_t *shape, const char *where);
    void (*describe)(const mf_source *s, int64_t *ret_in, mf_stored_part *ret);
} form;

static const form forms[MF_FORMS];

/* ---- shapes ---- */

/* Writes "F16 or BF16". */
static void types_text(unsigned types, char out[64])
{
    size_t at = 0;
    out[0] = '\0';
    for (int t = 0; t <= MF_ST_U64; t++)
        if (types >> t & 1)
            at += (size_t)snprintf(out + at, 64 - at, "%s%s", at > 0 ? " or " : "",
                                   mf_st_dtype_name((mf_st_dtype)t));
}

static int refuse_part(const mf_source *s, int i, const char *shape, const char *where)
{
    const mf_st_tensor *t = s->tensor[i];
    char types[64], found[96];
    size_t at = 0;
    types_text(forms[s->form].parts[i].types, types);
    for (int d = 0; d < t->rank && at < sizeof found - 24; d++)
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%lld", d > 0 ? "," : "",
                               (long long)t->shape[d]);
    found[at] = '\0';
    return mf_fail(MF_EINPUT,
                   "%s: tensor '%s': expected %s of shape %s for a weight of this size, found "
                   "%s of shape [%s]",
                   where, t->name, types, shape, t->dtype_name, found);
}

static int judge_part(const mf_source *s, int i, int rank, const int64_t *shape,
                      const char *where)
{
    const mf_st_tensor *t = s->tensor[i];
    char text[96];
    size_t at = 0;
    if (!t) return MF_OK;
    bool same = forms[s->form].parts[i].types >> t->dtype & 1 && t->rank == rank;
    for (int d = 0; d < rank; d++) {
        same = same && t->shape[d] == shape[d];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", d > 0 ? "," : "[",
                               (long long)shape[d]);
    }
    snprintf(text + at, sizeof text - at, "]");
    return same ? MF_OK : refuse_part(s, i, text, where);
}

static int judge_matrix(const mf_source *s, int rank, const int64_t *shape, int64_t out,
                        int64_t in, const char *where)
{
    if (rank == 2 && shape[0] % out == 0 && shape[1] % in == 0) return MF_OK;
    if (in == 1 && out == 1)
        return mf_fail(MF_EINPUT, "%s: tensor '%s': expected a matrix", where,
                       s->tensor[0]->name);
    return mf_fail(MF_EINPUT,
                   "%s: tensor '%s': expected a matrix whose outputs %d divides and whose "
                   "inputs %d divides",
                   where, s->tensor[0]->name, (int)out, (int)in);
}

/* Checks that groups of `size` inputs, the last of which may not be full, are `groups`. */
static int judge_groups(const mf_source *s, int64_t in, int64_t groups, const char *where)
{
    const int64_t size = s->packing.group_size;
    if (groups >= 1 && (size < 1 || (in + size - 1) / size == groups)) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: tensor '%s': expected scales of %lld groups, since group_size of "
                   "quantization_config is %lld, found %lld",
                   where, s->tensor[SCALES]->name,
                   (long long)(size < 1 ? 1 : (in + size - 1) / size), (long long)size,
                   (long long)groups);
}

static int64_t groups_of(const mf_source *s, int i, int dim)
{
    const mf_st_tensor *t = s->tensor[i];
    return t->rank == 2 ? t->shape[dim] : 0;
}

static int64_t bits_of(const mf_source *s)
{
    return s->packing.bits > 0 ? s->packing.bits : 4;
}

static int judge_gptq(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    const int64_t each = 32 / bits_of(s), groups = groups_of(s, SCALES, 0);
    int rc = judge_matrix(s, rank, shape, each, each, where);
    if (rc != MF_OK) return rc;
    const int64_t out = shape[0], in = shape[1];
    rc = judge_part(s, QWEIGHT, 2, (int64_t[]){in / each, out}, where);
    if (rc == MF_OK && !s->tensor[G_IDX]) rc = judge_groups(s, in, groups, where);
    if (rc == MF_OK) rc = judge_part(s, SCALES, 2, (int64_t[]){groups, out}, where);
    if (rc == MF_OK) rc = judge_part(s, QZEROS, 2, (int64_t[]){groups, out / each}, where);
    return rc == MF_OK ? judge_part(s, G_IDX, 1, (int64_t[]){in}, where) : rc;
}

static int judge_awq(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    const int64_t groups = groups_of(s, SCALES, 0);
    int rc = judge_matrix(s, rank, shape, 8, 1, where);
    if (rc != MF_OK) return rc;
    const int64_t out = shape[0], in = shape[1];
    rc = judge_part(s, QWEIGHT, 2, (int64_t[]){in, out / 8}, where);
    if (rc == MF_OK) rc = judge_groups(s, in, groups, where);
    if (rc == MF_OK) rc = judge_part(s, SCALES, 2, (int64_t[]){groups, out}, where);
    return rc == MF_OK ? judge_part(s, QZEROS, 2, (int64_t[]){groups, out / 8}, where) : rc;
}

static int judge_mxfp4(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    if (rank != 3 || shape[2] % BLOCK != 0)
        return mf_fail(MF_EINPUT,
                       "%s: tensor '%s': expected weights of experts whose inputs 32 divides",
                       where, s->tensor[0]->name);
    const int64_t blocks[] = {shape[0], shape[1], shape[2] / BLOCK, BLOCK / 2};
    const int rc = judge_part(s, 0, 4, blocks, where);
    return rc == MF_OK ? judge_part(s, SCALE, 3, blocks, where) : rc;
}

/* Sizes of the blocks of a weight of FP8, which follow from the shape of the scales. */
static bool fp8_blocks(const mf_source *s, int64_t out, int64_t in, int64_t block[2])
{
    const mf_st_tensor *t = s->tensor[SCALE];
    const int64_t *size = s->packing.block;
    const int64_t rows = t->rank > 0 ? t->shape[0] : 1, columns = t->rank > 1 ? t->shape[1] : 1;
    block[0] = out, block[1] = in;
    if (t->rank > 2) return false;
    if (rows == 1 && columns == 1 && size[0] < 1) return true;
    if (rows == out && columns == 1 && size[0] < 1) {
        block[0] = 1;
        return true;
    }
    block[0] = size[0], block[1] = size[1];
    return size[0] > 0 && size[1] > 0 && t->rank == 2 &&
           rows == (out + size[0] - 1) / size[0] && columns == (in + size[1] - 1) / size[1];
}

static int judge_fp8(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    int64_t block[2];
    char text[128];
    const int64_t *size = s->packing.block;
    int rc = judge_matrix(s, rank, shape, 1, 1, where);
    if (rc == MF_OK) rc = judge_part(s, 0, 2, shape, where);
    if (rc != MF_OK) return rc;
    if (forms[s->form].parts[SCALE].types >> s->tensor[SCALE]->dtype & 1 &&
        fp8_blocks(s, shape[0], shape[1], block))
        return MF_OK;
    if (size[0] > 0)
        snprintf(text, sizeof text, "[%lld,%lld] (blocks of %lld x %lld)",
                 (long long)((shape[0] + size[0] - 1) / size[0]),
                 (long long)((shape[1] + size[1] - 1) / size[1]), (long long)size[0],
                 (long long)size[1]);
    else
        snprintf(text, sizeof text, "[%lld,1] or [1], since there are no blocks,",
                 (long long)shape[0]);
    return refuse_part(s, SCALE, text, where);
}

static int judge_int4(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    const int64_t groups = groups_of(s, SCALE, 1);
    int rc = judge_matrix(s, rank, shape, 8, 8, where);
    if (rc != MF_OK) return rc;
    const int64_t out = shape[0], in = shape[1];
    rc = judge_part(s, 0, 2, (int64_t[]){out, in / 8}, where);
    if (rc == MF_OK && (groups < 1 || in % groups != 0 || in / groups % 8 != 0))
        rc = mf_fail(MF_EINPUT,
                     "%s: tensor '%s': expected groups of one size, which 8 divides, of %lld "
                     "inputs, found %lld groups",
                     where, s->tensor[SCALE]->name, (long long)in, (long long)groups);
    if (rc == MF_OK) rc = judge_part(s, SCALE, 2, (int64_t[]){out, groups}, where);
    if (rc == MF_OK) rc = judge_part(s, SHAPE, 1, (int64_t[]){2}, where);
    return rc == MF_OK ? judge_part(s, POINTS, 2, (int64_t[]){out / 8, groups}, where) : rc;
}

/* ---- descriptions ---- */

/* Groups of inputs of one size. If g_idx exists, stored.c compares it with this size. */
static void describe_groups(const mf_source *s, int64_t in, mf_stored_part *p)
{
    const int64_t size = s->packing.group_size;
    p->group_size = (in + p->groups - 1) / p->groups;
    if (size > 0 && (in + size - 1) / size == p->groups && p->groups > 1) p->group_size = size;
}

static void describe_gptq(const mf_source *s, int64_t *ret_in, mf_stored_part *p)
{
    const int64_t bits = bits_of(s);
    p->type = bits == 8 ? MF_STORED_GPTQ8 : MF_STORED_GPTQ4;
    p->rows = s->tensor[QWEIGHT]->shape[1];
    p->groups = s->tensor[SCALES]->shape[0];
    p->whole_zeros = s->packing.whole_zeros;
    *ret_in = 32 / bits * s->tensor[QWEIGHT]->shape[0];
    describe_groups(s, *ret_in, p);
}

static void describe_awq(const mf_source *s, int64_t *ret_in, mf_stored_part *p)
{
    p->type = MF_STORED_AWQ4;
    p->rows = 8 * s->tensor[QWEIGHT]->shape[1];
    p->groups = s->tensor[SCALES]->shape[0];
    *ret_in = s->tensor[QWEIGHT]->shape[0];
    describe_groups(s, *ret_in, p);
}

static void describe_mxfp4(const mf_source *s, int64_t *ret_in, mf_stored_part *p)
{
    const int64_t *shape = s->tensor[0]->shape;
    p->type = MF_STORED_MXFP4;
    p->rows = shape[0] * shape[1];
    p->group_size = BLOCK;
    *ret_in = BLOCK * shape[2];
}

static void describe_fp8(const mf_source *s, int64_t *ret_in, mf_stored_part *p)
{
    const mf_st_tensor *t = s->tensor[0];
    int64_t block[2];
    fp8_blocks(s, t->shape[0], t->shape[1], block);
    p->type = t->dtype == MF_ST_F8_E4M3 ? MF_STORED_F8_E4M3 : MF_STORED_F8_E5M2;
    p->rows = t->shape[0];
    p->scale_rows = block[0];
    p->group_size = block[1];
    *ret_in = t->shape[1];
    p->groups = (*ret_in + block[1] - 1) / block[1];
}

static void describe_int4(const mf_source *s, int64_t *ret_in, mf_stored_part *p)
{
    p->type = MF_STORED_INT4;
    p->rows = s->tensor[0]->shape[0];
    p->groups = s->tensor[SCALE]->shape[1];
    *ret_in = 8 * s->tensor[0]->shape[1];
    p->group_size = *ret_in / p->groups;
}

/* ---- the table ---- */

static const form forms[MF_FORMS] = {
    [MF_FORM_PLAIN] = {.ending = "", .n = 1},
    [MF_FORM_GPTQ] = {.ending = ".weight",
                      .parts = {{".qweight", TYPE(I32), false},
                                {".qzeros", TYPE(I32), false},
                                {".scales", FLOATS, false},
                                {".g_idx", TYPE(I32), true}},
                      .n = 4,
                      .pointer = {QWEIGHT, SCALES, QZEROS, G_IDX},
                      .judge = judge_gptq,
                      .describe = describe_gptq},
    [MF_FORM_AWQ] = {.ending = ".weight",
                     .parts = {{".qweight", TYPE(I32), false},
                               {".qzeros", TYPE(I32), false},
                               {".scales", FLOATS, false}},
                     .n = 3,
                     .pointer = {QWEIGHT, SCALES, QZEROS, -1},
                     .judge = judge_awq,
                     .describe = describe_awq},
    [MF_FORM_MXFP4] = {.ending = "_proj",
                       .parts = {{"_proj_blocks", TYPE(U8), false},
                                 {"_proj_scales", TYPE(U8), false}},
                       .n = 2,
                       .pointer = {0, SCALE, -1, -1},
                       .judge = judge_mxfp4,
                       .describe = describe_mxfp4},
    [MF_FORM_FP8] = {.ending = ".weight",
                     .parts = {{".weight", TYPE(F8_E4M3) | TYPE(F8_E5M2), false},
                               {".weight_scale_inv", SCALES_F8, false},
                               {".activation_scale", SCALES_F8, true},
                               {".input_scale", SCALES_F8, true}},
                     .n = 4,
                     .pointer = {0, SCALE, -1, -1},
                     .judge = judge_fp8,
                     .describe = describe_fp8},
    [MF_FORM_FP8_CT] = {.ending = ".weight",
                        .parts = {{".weight", TYPE(F8_E4M3) | TYPE(F8_E5M2), false},
                                  {".weight_scale", SCALES_F8, false},
                                  {".input_scale", SCALES_F8, true},
                                  {".input_scale_ub", SCALES_F8, true}},
                        .n = 4,
                        .pointer = {0, SCALE, -1, -1},
                        .judge = judge_fp8,
                        .describe = describe_fp8},
    [MF_FORM_INT4] = {.ending = ".weight",
                      .parts = {{".weight_packed", TYPE(I32), false},
                                {".weight_scale", SCALES_F8, false},
                                {".weight_shape", TYPE(I64) | TYPE(I32), false},
                                {".weight_zero_point", TYPE(I32), true}},
                      .n = 4,
                      .pointer = {0, SCALE, POINTS, -1},
                      .judge = judge_int4,
                      .describe = describe_int4},
    [MF_FORM_F64] = {.ending = "", .parts = {{"", TYPE(F64), false}}, .n = 1}};

int mf_form_parts(mf_form f)
{
    return forms[f].n;
}

bool mf_form_optional(mf_form f, int i)
{
    return forms[f].parts[i].optional;
}

bool mf_form_name(mf_form f, const char *plain, int i, char *out)
{
    const size_t n = strlen(plain), m = strlen(forms[f].ending);
    if (f == MF_FORM_PLAIN || n < m || strcmp(plain + n - m, forms[f].ending) != 0)
        return false;
    return snprintf(out, MF_ST_NAME_MAX, "%.*s%s", (int)(n - m), plain,
                    forms[f].parts[i].name) < MF_ST_NAME_MAX;
}

bool mf_form_is(mf_form f, const mf_packing *packing, const mf_st_tensor *first)
{
    if (f == MF_FORM_GPTQ) return !packing->awq;
    if (f == MF_FORM_AWQ) return packing->awq;
    return forms[f].parts[0].types >> first->dtype & 1;
}

void mf_form_plain_name(mf_form f, const char *name, char *out)
{
    const size_t n = strlen(name), m = f == MF_FORM_PLAIN ? 0 : strlen(forms[f].parts[0].name);
    snprintf(out, MF_ST_NAME_MAX, "%.*s%s", (int)(n < m ? n : n - m), name,
             n < m ? "" : forms[f].ending);
}

int mf_form_judge(const mf_source *s, int rank, const int64_t *shape, const char *where)
{
    return forms[s->form].judge(s, rank, shape, where);
}

void mf_form_describe(const mf_source *s, const void *const at[MF_FORM_PARTS], int64_t *ret_in,
                      mf_stored_part *ret)
{
    const form *f = &forms[s->form];
    const void *pointer[4];
    const mf_st_tensor *scales = s->tensor[f->pointer[1]];
    for (int i = 0; i < 4; i++)
        pointer[i] = f->pointer[i] < 0 ? NULL : at[f->pointer[i]];
    *ret = (mf_stored_part){.data = pointer[0],
                            .scales = pointer[1],
                            .zeros = pointer[2],
                            .group_of = pointer[3],
                            .scale_type = scales->dtype == MF_ST_F32    ? MF_SCALE_F32
                                          : scales->dtype == MF_ST_BF16 ? MF_SCALE_BF16
                                                                        : MF_SCALE_F16};
    f->describe(s, ret_in, ret);
}

/* ---- values ---- */

int mf_packed_judge(const mf_packed *p, const char *name)
{
    const int32_t *group = p->part.group_of;
    for (int64_t i = 0; group && i < p->in; i++)
        if (group[i] < 0 || group[i] >= p->part.groups)
            return mf_fail(MF_EINPUT, "tensor '%s': expected groups from 0 to %lld, found %d",
                           name, (long long)p->part.groups - 1, (int)group[i]);
    return MF_OK;
}

int mf_packed_read(const mf_source *s, mf_packed *ret)
{
    const mf_st_tensor *const *t = s->tensor;
    *ret = (mf_packed){0};
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < forms[s->form].n; i++) {
        if (!t[i]) continue;
        ret->memory[i] = mf_alloc_raw((size_t)t[i]->bytes + 1);
        rc = ret->memory[i] ? mf_st_read(s->file[i], t[i], ret->memory[i], (size_t)t[i]->bytes)
                            : MF_ENOMEM;
    }
    if (rc == MF_OK) {
        mf_form_describe(s, (const void *const *)ret->memory, &ret->in, &ret->part);
        ret->out = s->form == MF_FORM_MXFP4 && t[0] ? t[0]->shape[1] : ret->part.rows;
    }
    if (rc == MF_OK && ret->part.group_of) rc = mf_packed_judge(ret, t[G_IDX]->name);
    if (rc != MF_OK) mf_packed_free(ret);
    return rc;
}

void mf_packed_free(mf_packed *p)
{
    for (int i = 0; i < MF_FORM_PARTS; i++)
        mf_free(p->memory[i]);
    *p = (mf_packed){0};
}

float mf_packed_at(const mf_packed *p, int64_t e, int64_t o, int64_t i)
{
    const mf_stored_value v = mf_stored_value_of(&p->part, p->in, e * p->out + o, i);
    return v.scale * v.code;
}
