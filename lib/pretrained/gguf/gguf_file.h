/* pretrained/gguf/gguf_file.h: writes a GGUF file of version 3.
 *
 * The order of calls is: keys, declarations of tensors, mf_gguf_begin, the data of each tensor
 * in the order of declaration, mf_gguf_end. The first error is kept, later calls do nothing,
 * and mf_gguf_end returns the error, so one check is enough. Functions that return a code
 * return the same error. Layout of the file:
 *
 *   "GGUF", version u32, number of tensors u64, number of keys u64
 *   keys     text, type u32, value
 *   tensors  text, rank u32, sizes u64 with the innermost first, type u32, offset u64
 *   data     at multiples of MF_GGUF_ALIGNMENT
 *
 * A text is its length u64 and its bytes. All numbers are little-endian. */
#ifndef MF_PRETRAINED_GGUF_FILE_H
#define MF_PRETRAINED_GGUF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MF_GGUF_VERSION   3
#define MF_GGUF_ALIGNMENT 32

/* Types of elements. The values are the numbers in the file. */
typedef enum mf_gguf_type {
    MF_GGUF_F32 = 0,
    MF_GGUF_F16 = 1,
    MF_GGUF_BF16 = 30,
    MF_GGUF_MXFP4 = 39
} mf_gguf_type;

/* Types of the items of an array. */
typedef enum mf_gguf_item {
    MF_GGUF_ITEM_I32 = 5,
    MF_GGUF_ITEM_F32 = 6,
    MF_GGUF_ITEM_TEXT = 8
} mf_gguf_item;

typedef struct mf_gguf mf_gguf;
mf_gguf *mf_gguf_new(void); /* NULL: MF_ENOMEM */
void mf_gguf_free(mf_gguf *w);

void mf_gguf_u32(mf_gguf *w, const char *key, uint32_t value);
void mf_gguf_f32(mf_gguf *w, const char *key, float value);
void mf_gguf_bool(mf_gguf *w, const char *key, bool value);
void mf_gguf_text(mf_gguf *w, const char *key, const char *value);
/* Begins an array of n items. The next n calls of mf_gguf_item_* write the items. */
void mf_gguf_array(mf_gguf *w, const char *key, mf_gguf_item type, uint64_t n);
void mf_gguf_item_i32(mf_gguf *w, int32_t value);
void mf_gguf_item_f32(mf_gguf *w, float value);
void mf_gguf_item_text(mf_gguf *w, const char *text, size_t n);

/* Declares a tensor. The innermost dimension of shape is the last, as in our tensors; rank from
 * 1 to 4. */
void mf_gguf_tensor(mf_gguf *w, const char *name, mf_gguf_type type, int rank,
                    const int64_t *shape);
/* Creates the file, which must not exist, and writes everything before the data. */
int mf_gguf_begin(mf_gguf *w, const char *path);
/* Writes the next n bytes of data. A tensor may be written in several pieces, but no piece may
 * contain bytes of two tensors. */
int mf_gguf_put(mf_gguf *w, const void *data, size_t n);
/* Syncs and closes the file. MF_EINVAL if bytes are missing. After an error an incomplete file
 * may remain. */
int mf_gguf_end(mf_gguf *w);

#endif
