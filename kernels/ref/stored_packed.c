/* stored_packed.c: one weight of a type with 4 or 8 bits. Scale and code are exact in f32, and
 * the weight is exact in double. */
#include "kernels/ref/ref.h"

double mf_ref_stored_packed(const mf_stored_part *p, int64_t in, int64_t o, int64_t i)
{
    const mf_stored_value v = mf_stored_value_of(p, in, o, i);
    return (double)v.scale * (double)v.code;
}
