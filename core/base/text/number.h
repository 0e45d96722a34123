/* base/text/number.h: numbers to and from text, in the C locale whatever setlocale says. */
#ifndef MF_BASE_NUMBER_H
#define MF_BASE_NUMBER_H

#include <stdbool.h>

/* These functions read numbers strictly: the whole text must be one value, without blanks
 * around it. Otherwise they return false and leave *out unchanged.
 * - i64: decimal digits with an optional sign, then optionally k, M or G (x 1000, 1000^2,
 *   1000^3).
 * - f64: decimal with optional sign, fraction and exponent. A result past the range of double
 *   is refused, and so are inf and nan, because nan would pass a check of bounds. A value too
 *   small for double becomes 0.
 * - bool: yes|no|true|false|on|off|1|0, in any case. */
bool mf_parse_i64(const char *text, long long *out);
bool mf_parse_f64(const char *text, double *out);
bool mf_parse_bool(const char *text, bool *out);

enum { MF_NUMBER_TEXT = 40 };
/* These functions write the shortest of %.15g, %.16g, %.17g (float: %.6g to %.9g) that reads
 * back to the same bits, and return out. Values that are not finite become "nan", "inf",
 * "-inf"; minus zero becomes "-0.0". */
const char *mf_format_f64(double value, char out[MF_NUMBER_TEXT]);
const char *mf_format_f32(float value, char out[MF_NUMBER_TEXT]);

#endif
