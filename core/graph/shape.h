/* graph/shape.h: texts and sizes of element types and shapes. */
#ifndef MF_GRAPH_SHAPE_H
#define MF_GRAPH_SHAPE_H

#include <moefw/types.h>

/* maximum bytes of a tensor; sums of such sizes cannot overflow */
#define MF_MAX_BYTES ((int64_t)1 << 46)

const char *mf_dtype_text(int64_t dtype); /* returns for example "f32"; "?" for an
                                           * unknown type */
bool mf_dtype_is_float(mf_dtype dtype);   /* whether values of this type may have gradients */

#define MF_SHAPE_TEXT 96 /* number of bytes that is enough for any shape */
/* Writes "[2,3,4]", "scalar" or "absent" to buf; if the rank is too large, writes a text that
 * says so. Returns buf. */
const char *mf_shape_text(mf_shape s, char buf[MF_SHAPE_TEXT]);

/* Writes n types and shapes to text, cut at size: "f32 [12,16], i32 [5]". Absent tensors are
 * skipped. Returns text. */
const char *mf_views_text(const mf_view *views, int n, char *text, size_t size);

/* Whether the type is known, rank and dimensions are in range, and the bytes are at
 * most MF_MAX_BYTES. */
bool mf_shape_valid(mf_shape s, mf_dtype dtype);
size_t mf_shape_bytes(mf_shape s, mf_dtype dtype); /* bytes of a valid shape */

#endif
