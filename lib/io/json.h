/* io/json.h: reading and writing JSON. Only json.c uses jansson.
 *
 * The reader accepts whole documents (an object or an array). It refuses duplicate keys, and
 * limits depth and size. The writer streams values and escapes texts. It prints doubles such
 * that they read back equal. NaN and infinities become null, and bytes that are not UTF-8
 * become U+FFFD. */
#ifndef MF_IO_JSON_H
#define MF_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MF_JSON_DEPTH_MAX = 32, /* greatest nesting of objects and arrays */
    /* greatest size of a text in bytes; the parsed document may need more than 10 times
     * this memory */
    MF_JSON_SIZE_MAX = 64 * 1024 * 1024
};

typedef struct mf_json mf_json; /* a value; its document owns it */
/* Reads a document, which the caller frees. name: used in messages. Whole numbers beyond 64
 * bits are reals. Numbers beyond double, and Python's NaN and Infinity, are reals whose
 * value cannot be read. Errors: MF_EINPUT, with line and column if the text is not
 * JSON; MF_ENOMEM. */
int mf_json_parse(const char *name, const char *text, size_t size, mf_json **ret);
void mf_json_free(mf_json *document);

typedef enum mf_json_type {
    MF_JSON_NULL,
    MF_JSON_BOOL,
    MF_JSON_INT,
    MF_JSON_REAL,
    MF_JSON_STRING,
    MF_JSON_ARRAY,
    MF_JSON_OBJECT
} mf_json_type;
mf_json_type mf_json_typeof(const mf_json *v); /* NULL counts as MF_JSON_NULL */
const mf_json *mf_json_get(const mf_json *object, const char *key);
const mf_json *mf_json_at(const mf_json *array, size_t i);
size_t mf_json_size(const mf_json *array_or_object);
/* The same as mf_json_parse, but keys may contain U+0000, for vocabularies. In keys,
 * MF_JSON_NUL stands for it: code points that are no characters. */
int mf_json_parse_nul(const char *name, const char *text, size_t size, mf_json **ret);
#define MF_JSON_NUL "\xEF\xB7\x90\xEF\xB7\xAF\xEF\xB7\x90"
/* Iterates over members in the order of the file. i counts from 0. Returns false past
 * the end. */
bool mf_json_member(const mf_json *object, size_t i, const char **key, const mf_json **value);
/* Returns the text of a string; NULL if v is not a string. With ret_len NULL, the result is
 * also NULL if the text contains a NUL character, because the caller would see only the part
 * before it. */
const char *mf_json_string(const mf_json *v, size_t *ret_len);
bool mf_json_int(const mf_json *v, int64_t *out);
bool mf_json_real(const mf_json *v, double *out); /* Reads a finite number, also from
                                                   * an integer. */
bool mf_json_bool(const mf_json *v, bool *out);
/* Returns the number of a member. If the member is missing or of another type, the real is NaN
 * and the integer is 0. */
double mf_json_real_or_nan(const mf_json *object, const char *key);
int64_t mf_json_int_or_0(const mf_json *object, const char *key);

/* A writer into a growing buffer. It accepts one value of any kind when it is new and after
 * each reset. It writes commas and checks the nesting itself. */
typedef struct mf_jw mf_jw;
mf_jw *mf_jw_new(void);
void mf_jw_free(mf_jw *w);
void mf_jw_reset(mf_jw *w);
void mf_jw_object(mf_jw *w);
void mf_jw_array(mf_jw *w);
void mf_jw_end(mf_jw *w); /* Closes the innermost object or array. */
void mf_jw_key(mf_jw *w, const char *key);
void mf_jw_string(mf_jw *w, const char *text);
/* Writes n bytes; NUL characters are kept. */
void mf_jw_string_n(mf_jw *w, const char *text, size_t n);
void mf_jw_int(mf_jw *w, int64_t value);
void mf_jw_real(mf_jw *w, double value); /* Writes the shortest text that reads back to the
                                          * same double. */
/* The same as mf_jw_real, with a point or an exponent also for whole numbers, for readers that
 * distinguish them from integers. */
void mf_jw_decimal(mf_jw *w, double value);
void mf_jw_float(mf_jw *w, float value); /* Writes the shortest text that reads back to the
                                          * same float. */
void mf_jw_bool(mf_jw *w, bool value);
void mf_jw_null(mf_jw *w);
/* These functions write a key and its value in one call. */
void mf_jw_kv_string(mf_jw *w, const char *key, const char *text);
void mf_jw_kv_int(mf_jw *w, const char *key, int64_t value);
void mf_jw_kv_real(mf_jw *w, const char *key, double value);
void mf_jw_kv_bool(mf_jw *w, const char *key, bool value);
/* Returns the text, NUL-terminated, valid until the next call with w. Returns NULL, with the
 * error recorded, in two cases: MF_ENOMEM after a failed allocation; MF_EINVAL if the calls do
 * not make one complete value. */
const char *mf_jw_text(mf_jw *w, size_t *ret_len);

#endif
