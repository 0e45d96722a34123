/* io/json.h: reading and writing JSON. Only json.c uses jansson.
 *
 * Reading: whole documents (an object or an array); duplicate keys are refused, depth and size
 * are bounded. Writing: a small streaming writer that escapes, and that prints doubles so that
 * they read back equal; NaN and infinities become null, bytes that are not UTF-8
 * become U+FFFD. */
#ifndef MF_IO_JSON_H
#define MF_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MF_JSON_DEPTH_MAX = 32, /* greatest nesting of objects and arrays */
    /* greatest size of a text in bytes; a document may take more than 10 times its text */
    MF_JSON_SIZE_MAX = 64 * 1024 * 1024
};

typedef struct mf_json mf_json; /* a value, which its document owns */
/* Reads a document, which the caller frees. name: for messages. Whole numbers
 * beyond 64 bits are reals; numbers beyond double, and Python's NaN and Infinity,
 * are reals whose value cannot be read. Errors: MF_EINPUT, with line and column if the text is
 * not JSON; MF_ENOMEM. */
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
/* Iterates over members in the order of the file. i from 0; false past the end. */
bool mf_json_member(const mf_json *object, size_t i, const char **key, const mf_json **value);
/* The text of a string; NULL if v is not a string. With ret_len NULL the result is also NULL
 * when the text holds a NUL character, because the caller would see it cut there. */
const char *mf_json_string(const mf_json *v, size_t *ret_len);
bool mf_json_int(const mf_json *v, int64_t *out);
bool mf_json_real(const mf_json *v, double *out); /* a finite number; accepts integers */
bool mf_json_bool(const mf_json *v, bool *out);
/* The number of a member; NaN, or 0 for the integer, if the member is missing or of
 * another type. */
double mf_json_real_or_nan(const mf_json *object, const char *key);
int64_t mf_json_int_or_0(const mf_json *object, const char *key);

/* A writer into a growing buffer. It takes one value of any kind when it is new and after each
 * reset. It writes commas and checks nesting itself. */
typedef struct mf_jw mf_jw;
mf_jw *mf_jw_new(void);
void mf_jw_free(mf_jw *w);
void mf_jw_reset(mf_jw *w);
void mf_jw_object(mf_jw *w);
void mf_jw_array(mf_jw *w);
void mf_jw_end(mf_jw *w); /* closes the innermost object or array */
void mf_jw_key(mf_jw *w, const char *key);
void mf_jw_string(mf_jw *w, const char *text);
/* n bytes; NUL characters are kept */
void mf_jw_string_n(mf_jw *w, const char *text, size_t n);
void mf_jw_int(mf_jw *w, int64_t value);
void mf_jw_real(mf_jw *w, double value); /* shortest text that reads back to the same double */
void mf_jw_float(mf_jw *w, float value); /* shortest text that reads back to the same float */
void mf_jw_bool(mf_jw *w, bool value);
void mf_jw_null(mf_jw *w);
/* A key and its value in one call. */
void mf_jw_kv_string(mf_jw *w, const char *key, const char *text);
void mf_jw_kv_int(mf_jw *w, const char *key, int64_t value);
void mf_jw_kv_real(mf_jw *w, const char *key, double value);
void mf_jw_kv_bool(mf_jw *w, const char *key, bool value);
/* The text, NUL-terminated, valid until the next call with w. NULL with the error recorded:
 * MF_ENOMEM after a failed allocation, MF_EINVAL if the calls do not make one
 * complete value. */
const char *mf_jw_text(mf_jw *w, size_t *ret_len);

#endif
