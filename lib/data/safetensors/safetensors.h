/* data/safetensors/safetensors.h: files of named tensors in the safetensors format.
 *
 * A file consists of the length of the header (8 bytes, little-endian), the header (JSON: name
 * -> dtype, shape, data_offsets; "__metadata__" -> text -> text; padded with blanks), and the
 * data. Opening checks the whole header, and a file that fails a check is not opened. Tensors
 * must cover the data without gaps, overlaps or remaining bytes. The extent of each tensor must
 * have the size that shape and dtype need, and begin at a multiple of the element's size. Names
 * are unique. Therefore the result of mf_st_at needs no further checks.
 *
 * Limits: header 64 MiB, 1,048,576 tensors, rank 8, name 512 bytes. A tensor with an unknown
 * dtype is listed, and an attempt to read it fails with its name. The other tensors can
 * be used. */
#ifndef MF_DATA_SAFETENSORS_H
#define MF_DATA_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MF_ST_HEADER_MAX = 64 * 1024 * 1024,
    MF_ST_TENSORS_MAX = 1024 * 1024,
    MF_ST_RANK_MAX = 8,
    MF_ST_NAME_MAX = 512
};

/* The order is the same as in the reference implementation. It decides the order of tensors in
 * a file. */
typedef enum mf_st_dtype {
    MF_ST_UNKNOWN,
    MF_ST_BOOL,
    MF_ST_U8,
    MF_ST_I8,
    MF_ST_F8_E5M2,
    MF_ST_F8_E4M3,
    MF_ST_I16,
    MF_ST_U16,
    MF_ST_F16,
    MF_ST_BF16,
    MF_ST_I32,
    MF_ST_U32,
    MF_ST_F32,
    MF_ST_F64,
    MF_ST_I64,
    MF_ST_U64
} mf_st_dtype;

size_t mf_st_dtype_size(mf_st_dtype dtype);      /* bytes per element; 0 for MF_ST_UNKNOWN */
const char *mf_st_dtype_name(mf_st_dtype dtype); /* Returns the name, for example "BF16"; "?"
                                                  * for MF_ST_UNKNOWN. */
mf_st_dtype mf_st_dtype_of(const char *name);    /* MF_ST_UNKNOWN for an unknown name */

typedef struct mf_st_tensor {
    const char *name;       /* UTF-8 without control characters */
    const char *dtype_name; /* the name of the dtype in the file */
    mf_st_dtype dtype;
    int rank; /* 0: a scalar */
    int64_t shape[MF_ST_RANK_MAX];
    uint64_t count; /* number of elements */
    uint64_t bytes;
    uint64_t offset; /* offset of the first byte from the start of the data */
} mf_st_tensor;

/* ---- reading ---- */

typedef struct mf_st_file mf_st_file;

/* Opens and checks a file. Errors: MF_EINPUT with path and tensor named, an error of
 * mf_file_open, or MF_ENOMEM; *ret is then unchanged. */
int mf_st_open(const char *path, mf_st_file **ret);
void mf_st_close(mf_st_file *file);

const char *mf_st_path(const mf_st_file *file);
/* Offset of the data in the file, in bytes. */
uint64_t mf_st_data_start(const mf_st_file *file);
size_t mf_st_count(const mf_st_file *file);
/* Tensor i, in the order of the header; NULL past the end. */
const mf_st_tensor *mf_st_at(const mf_st_file *file, size_t i);
/* NULL if there is no such tensor */
const mf_st_tensor *mf_st_find(const mf_st_file *file, const char *name);

size_t mf_st_meta_count(const mf_st_file *file);
bool mf_st_meta_at(const mf_st_file *file, size_t i, const char **ret_key,
                   const char **ret_value);
/* NULL if there is no such key */
const char *mf_st_meta(const mf_st_file *file, const char *key);

/* Reads the bytes of one tensor of this file, little-endian as stored. n must
 * be tensor->bytes. */
int mf_st_read(const mf_st_file *file, const mf_st_tensor *tensor, void *out, size_t n);
/* Reads n bytes from byte `from` of the tensor on; all of them must be in the tensor. */
int mf_st_read_part(const mf_st_file *file, const mf_st_tensor *tensor, void *out, size_t n,
                    uint64_t from);

/* ---- writing ---- */

/* Declare all tensors and texts first, then begin the file, then write the data in the order
 * of mf_st_writer_due:
 *
 *     mf_st_writer_add(w, "a", MF_ST_F32, 2, shape); ...
 *     rc = mf_st_writer_begin(w, path);
 *     while (rc == MF_OK && (t = mf_st_writer_due(w, &i)))   i: number in order of adding
 *         rc = mf_st_writer_put(w, data[i], t->bytes);
 *     if (rc == MF_OK) rc = mf_st_writer_end(w, true);
 *     mf_st_writer_free(w);
 *
 * The same declarations and data give the same bytes in any order of adding: tensors are sorted
 * by dtype (larger elements first, which keeps all of them aligned), then by name; texts by
 * key. The file must not exist before. If writing fails, an incomplete file remains, so write
 * to a temporary name and rename it. */
typedef struct mf_st_writer mf_st_writer;

mf_st_writer *mf_st_writer_new(void);
void mf_st_writer_free(mf_st_writer *w); /* Frees the writer, and closes its file if
                                          * mf_st_writer_end was not called. */
int mf_st_writer_add(mf_st_writer *w, const char *name, mf_st_dtype dtype, int rank,
                     const int64_t *shape);
int mf_st_writer_meta(mf_st_writer *w, const char *key, const char *value);
int mf_st_writer_begin(mf_st_writer *w, const char *path);
/* The tensor whose bytes must come next; NULL if all are written, and before begin. Tensors
 * without elements are skipped. */
const mf_st_tensor *mf_st_writer_due(const mf_st_writer *w, size_t *ret_index);
/* Writes the next n bytes of the tensor that is due. n must not exceed its remaining bytes. */
int mf_st_writer_put(mf_st_writer *w, const void *data, size_t n);
/* Closes the file. If `sync` is set, fsync is called first. It is an error if bytes
 * are missing. */
int mf_st_writer_end(mf_st_writer *w, bool sync);

#endif
