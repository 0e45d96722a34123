/* pretrained/weights/packed.h: forms of weights that are stored as several tensors, as a table
 * (packed.c). A weight is [out,in], or [E,out,in]; G is the number of groups of its inputs.
 *
 *   GPTQ    qweight I32 [in b/32, out], qzeros I32 [G, out b/32], scales [G, out], and perhaps
 *           g_idx I32 [in], the group of each input; b bits, 4 or 8. Version 1 of the format
 *           stores zeros less 1
 *   AWQ     qweight I32 [in, out/8], qzeros I32 [G, out/8], scales [G, out]; its version gemm
 *   MXFP4   blocks U8 [E, out, in/32, 16], scales U8 [E, out, in/32]
 *   FP8     weight F8 [out, in], weight_scale_inv; scales of blocks of rows and inputs, the
 *           last of which may not be full, of whole rows, or one scale
 *   FP8_CT  the same with the name weight_scale (compressed-tensors, fbgemm)
 *   INT4    weight_packed I32 [out, in/8], weight_scale [out, G], weight_shape, and perhaps
 *           weight_zero_point I32 [out/8, G] (compressed-tensors)
 *   F64     one tensor of any shape, in double. Its values are rounded to f32, so the tensor
 *           itself is kept for an export
 *
 * kernels/stored.h has the formula of each but F64. Scales of activations (input_scale,
 * activation_scale) belong to these forms but are not used: weights do not need them, and
 * activations are not rounded here. All values are f32 numbers without rounding, except those
 * of FP8, which are rounded once where the scale is no power of two, and MXFP4 numbers too
 * large for f32. */
#ifndef MF_PRETRAINED_PACKED_H
#define MF_PRETRAINED_PACKED_H

#include "data/safetensors/safetensors.h"
#include "kernels/kernel.h"

typedef enum mf_form {
    MF_FORM_PLAIN,
    MF_FORM_GPTQ,
    MF_FORM_AWQ,
    MF_FORM_MXFP4,
    MF_FORM_FP8,
    MF_FORM_FP8_CT,
    MF_FORM_INT4,
    MF_FORM_F64,
    MF_FORMS
} mf_form;
enum { MF_FORM_PARTS = 4 };

/* What quantization_config of config.json says about the weights, and names and shapes of
 * tensors do not (quantized.h). All zero: GPTQ of version 1. */
typedef struct mf_packing {
    bool awq;           /* tensors qweight have the form AWQ */
    bool whole_zeros;   /* GPTQ: version 2 */
    bool symmetric;     /* GPTQ: all zeros are the middle of the codes */
    int64_t bits;       /* GPTQ: 0 means 4 */
    int64_t group_size; /* GPTQ, AWQ: number of inputs of a group; 0: as the groups say */
    int64_t block[2];   /* FP8: rows and inputs of a block; 0: there are no blocks */
} mf_packing;

/* The tensors of one weight. tensor is NULL beyond the form's number of tensors, and for
 * tensors that a weight of this form need not have. */
typedef struct mf_source {
    mf_form form;
    mf_packing packing;
    const mf_st_file *file[MF_FORM_PARTS];
    const mf_st_tensor *tensor[MF_FORM_PARTS];
} mf_source;

/* Whether a weight is one tensor whose elements are numbers, plain or in double. */
static inline bool mf_form_has_numbers(mf_form form)
{
    return form == MF_FORM_PLAIN || form == MF_FORM_F64;
}
/* Returns the number of tensors of a form. */
int mf_form_parts(mf_form form);
/* Writes the name of part i of the weight `plain`. Returns false if the form has no weight of
 * this name. out: MF_ST_NAME_MAX bytes. */
bool mf_form_name(mf_form form, const char *plain, int i, char *out);
/* Whether a weight may lack part i. */
bool mf_form_optional(mf_form form, int i);
/* Whether a tensor with the name of part 0 may belong to a weight of this form. */
bool mf_form_is(mf_form form, const mf_packing *packing, const mf_st_tensor *first);
/* Writes the plain name of the weight whose part 0 has this name. */
void mf_form_plain_name(mf_form form, const char *part, char *out);
/* Checks types and shapes of the parts of a weight [out, in], or [E, out, in]. MF_EINPUT with
 * the tensor named. where: the folder, for messages. */
int mf_form_judge(const mf_source *s, int rank, const int64_t *shape, const char *where);
/* Describes a weight whose parts were checked, and are at `at` in memory. Its rows are those of
 * all experts. */
void mf_form_describe(const mf_source *s, const void *const at[MF_FORM_PARTS], int64_t *ret_in,
                      mf_stored_part *ret);

/* A weight in memory. */
typedef struct mf_packed {
    int64_t out, in; /* out: rows of one expert */
    mf_stored_part part;
    void *memory[MF_FORM_PARTS];
} mf_packed;
/* Reads the parts of a weight whose types and shapes were checked. MF_EINPUT if a group is
 * outside of the scales; MF_ENOMEM. The caller frees *ret. */
int mf_packed_read(const mf_source *s, mf_packed *ret);
void mf_packed_free(mf_packed *p);
/* Returns element (o, i) of expert e; e is 0 in all forms but MXFP4. */
float mf_packed_at(const mf_packed *p, int64_t e, int64_t o, int64_t i);
/* Checks the list of groups. MF_EINPUT. name: name of the tensor, for messages. */
int mf_packed_judge(const mf_packed *p, const char *name);

#endif
