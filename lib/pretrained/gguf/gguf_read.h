/* pretrained/gguf/gguf_read.h: a GGUF file, opened for reading: keys, tensors, blocks of
 * few bits.
 *
 * The file is mapped. Opening checks the whole header: sizes, types, names that
 * occur twice, and that the data of each tensor lie within the file. Versions 2 and
 * 3, little-endian. */
#ifndef MF_PRETRAINED_GGUF_READ_H
#define MF_PRETRAINED_GGUF_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A text of the file, which has no NUL at its end. */
typedef struct mf_gguf_str {
    const char *text;
    size_t n;
} mf_gguf_str;

typedef struct mf_gguf_in_tensor {
    const char *name; /* ended by NUL */
    uint32_t type;    /* number in the file */
    int rank;         /* 1 to 4 */
    int64_t shape[4]; /* outermost dimension first */
    int64_t count;
    const unsigned char *data;
    uint64_t bytes;
} mf_gguf_in_tensor;

typedef struct mf_gguf_in mf_gguf_in;

/* Opens a file. MF_EINPUT, with key or tensor named; errors of mapping; MF_ENOMEM. */
int mf_gguf_open(const char *path, mf_gguf_in **ret);
/* The same for n bytes in memory, which must outlive *ret. name: for messages. */
int mf_gguf_parse(const char *name, const void *data, size_t n, mf_gguf_in **ret);
void mf_gguf_close(mf_gguf_in *f);
const char *mf_gguf_path(const mf_gguf_in *f);

/* Keys. Each function returns false if the key is missing or has another type; whole
 * numbers of all widths count as one type, and so do f32 and f64. */
bool mf_gguf_get_int(const mf_gguf_in *f, const char *key, int64_t *ret);
bool mf_gguf_get_real(const mf_gguf_in *f, const char *key, double *ret);
bool mf_gguf_get_bool(const mf_gguf_in *f, const char *key, bool *ret);
bool mf_gguf_get_str(const mf_gguf_in *f, const char *key, mf_gguf_str *ret);
/* Lists of texts, of whole numbers and of real numbers. *ret_n: number of items. */
bool mf_gguf_get_strs(const mf_gguf_in *f, const char *key, const mf_gguf_str **ret,
                      int64_t *ret_n);
bool mf_gguf_get_ints(const mf_gguf_in *f, const char *key, const int64_t **ret,
                      int64_t *ret_n);
bool mf_gguf_get_reals(const mf_gguf_in *f, const char *key, const float **ret, int64_t *ret_n);

int64_t mf_gguf_tensors(const mf_gguf_in *f);
const mf_gguf_in_tensor *mf_gguf_tensor_at(const mf_gguf_in *f, int64_t i);
const mf_gguf_in_tensor *mf_gguf_tensor_find(const mf_gguf_in *f, const char *name);

/* ---- types (gguf_blocks.c) ---- */

/* Returns the name of a type, for example "Q4_K"; NULL: no type of GGUF that is known. */
const char *mf_gguf_type_name(uint32_t type);
/* Sets how many elements a block of the type has, and its bytes. Returns false for a type
 * that cannot be read. */
bool mf_gguf_block(uint32_t type, int64_t *ret_elements, int64_t *ret_bytes);
/* Decodes n elements, a multiple of the block's. */
void mf_gguf_decode(uint32_t type, const void *from, int64_t n, float *to);

#endif
