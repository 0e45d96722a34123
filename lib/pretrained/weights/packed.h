/* pretrained/weights/packed.h: weights of four bits, which are stored as several tensors.
 *
 *   GPTQ   a weight [out, in] (in and out divisible by 8, G groups of inputs) is stored as
 *          qweight I32 [in/8, out], qzeros I32 [G, out/8], scales F16 [G, out], g_idx I32 [in]
 *          W[o,i] = scales[g,o] (q - zero - 1), g = g_idx[i]; q is bits 4 (i mod 8) .. + 3 of
 *          qweight[i/8, o], zero bits 4 (o mod 8) .. + 3 of qzeros[g, o/8]
 *   MXFP4  weights [E, out, in] (in divisible by 32) are stored as
 *          blocks U8 [E, out, in/32, 16], scales U8 [E, out, in/32]
 *          W = 2^(scale - 127) v, NaN for scale 255; v is one of 0 .5 1 1.5 2 3 4 6, bit 3 is
 *          the sign, and the low half of a byte comes first
 *
 * All these values are f32 numbers without rounding, except MXFP4 numbers too large for f32. */
#ifndef MF_PRETRAINED_PACKED_H
#define MF_PRETRAINED_PACKED_H

#include "data/safetensors/safetensors.h"

typedef enum mf_form { MF_FORM_PLAIN, MF_FORM_GPTQ, MF_FORM_MXFP4 } mf_form;
enum { MF_FORMS = MF_FORM_MXFP4 + 1, MF_FORM_PARTS = 4 };

/* The tensors of one weight; entries beyond the form's number of tensors are NULL. */
typedef struct mf_source {
    mf_form form;
    const mf_st_file *file[MF_FORM_PARTS];
    const mf_st_tensor *tensor[MF_FORM_PARTS];
} mf_source;

/* Returns the number of tensors of a form. */
int mf_form_parts(mf_form form);
/* Writes the name of part i of the weight `plain`. Returns false if the form has no weight of
 * this name. out: MF_ST_NAME_MAX bytes. */
bool mf_form_name(mf_form form, const char *plain, int i, char *out);
/* Checks types and shapes of the parts of a weight [out, in], or [E, out, in]. MF_EINPUT with
 * the tensor named. where: the folder, for messages. */
int mf_form_judge(const mf_source *s, int rank, const int64_t *shape, const char *where);

/* The parts of a weight in memory. */
typedef struct mf_packed {
    mf_form form;
    int64_t out, in, groups;
    void *part[MF_FORM_PARTS];
} mf_packed;
/* Reads the parts of a weight whose types and shapes were checked. MF_EINPUT if a group is
 * outside of the scales; MF_ENOMEM. The caller frees *ret. */
int mf_packed_read(const mf_source *s, mf_packed *ret);
void mf_packed_free(mf_packed *p);
/* Returns element (o, i) of expert e; GPTQ: e is 0. */
float mf_packed_at(const mf_packed *p, int64_t e, int64_t o, int64_t i);
/* Checks g_idx. MF_EINPUT. name: name of the tensor, for messages. */
int mf_packed_judge(const mf_packed *p, const char *name);

#endif
