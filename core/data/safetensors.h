/* data/safetensors.h: files of named tensors, as the safetensors format has them.
 *
 * A file is: the length of the header (8 bytes, little-endian), the header (JSON: name ->
 * dtype, shape, data_offsets; "__metadata__" -> text -> text; padded with blanks), the data.
 * Opening judges all of the header before anything is allocated for data or believed: the data
 * must be covered without holes, overlaps or bytes left over; each extent must be what shape
 * and dtype need and start at a multiple of the element's size; names are unique. So what
 * mf_st_at returns can be used without further checks.
 *
 * Caps: header 64 MiB, 1,048,576 tensors, rank 8, name 512 bytes. A tensor of a dtype unknown
 * here is listed, and refused by name when it is read: the others stay usable.
 */
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

/* In the order of the reference implementation, which decides where in a file tensors go. */
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

size_t mf_st_dtype_size(mf_st_dtype dtype);      /* bytes an element; 0 for MF_ST_UNKNOWN */
const char *mf_st_dtype_name(mf_st_dtype dtype); /* "BF16"; "?" for MF_ST_UNKNOWN */
mf_st_dtype mf_st_dtype_of(const char *name);    /* MF_ST_UNKNOWN when it is none */

typedef struct mf_st_tensor {
    const char *name;       /* UTF-8 without control characters */
    const char *dtype_name; /* as in the file */
    mf_st_dtype dtype;
    int rank; /* 0: a scalar */
    int64_t shape[MF_ST_RANK_MAX];
    uint64_t count; /* elements */
    uint64_t bytes;
    uint64_t offset; /* of the first byte, from the start of the data */
} mf_st_tensor;

/* --- reading ------------------------------------------------------------------------------ */

typedef struct mf_st_file mf_st_file;

/* Error: MF_EINPUT (or what mf_file_open returns) with path and tensor named; *ret left
 * alone. */
int mf_st_open(const char *path, mf_st_file **ret);
void mf_st_close(mf_st_file *file);

const char *mf_st_path(const mf_st_file *file);
size_t mf_st_count(const mf_st_file *file);
const mf_st_tensor *mf_st_at(const mf_st_file *file,
                             size_t i); /* header's order; NULL past end */
const mf_st_tensor *mf_st_find(const mf_st_file *file, const char *name); /* NULL if absent */

size_t mf_st_meta_count(const mf_st_file *file);
bool mf_st_meta_at(const mf_st_file *file, size_t i, const char **ret_key,
                   const char **ret_value);
const char *mf_st_meta(const mf_st_file *file, const char *key); /* NULL if absent */

/* The bytes of one tensor of this file, little-endian as stored. n must be tensor->bytes. */
int mf_st_read(const mf_st_file *file, const mf_st_tensor *tensor, void *out, size_t n);
/* n bytes from byte `from` of the tensor on; all must lie in it. */
int mf_st_read_part(const mf_st_file *file, const mf_st_tensor *tensor, void *out, size_t n,
                    uint64_t from);

/* --- writing ------------------------------------------------------------------------------ */

/* First all tensors and texts are declared, then the file is begun, then data follows,
 * streamed:
 *
 *     mf_st_writer_add(w, "a", MF_ST_F32, 2, shape); ...
 *     rc = mf_st_writer_begin(w, path);
 *     while (rc == MF_OK && (t = mf_st_writer_due(w, &i)))   i: number in order of adding
 *         rc = mf_st_writer_put(w, data[i], t->bytes);
 *     if (rc == MF_OK) rc = mf_st_writer_end(w, true);
 *     mf_st_writer_free(w);
 *
 * The same declarations and data make the same bytes, whatever the order of adding: tensors go
 * by dtype (larger elements first, so that all are aligned), then by name; texts go by key. The
 * file must not exist before, and stays behind, cut short, when writing fails: write beside,
 * rename. */
typedef struct mf_st_writer mf_st_writer;

mf_st_writer *mf_st_writer_new(void);
void mf_st_writer_free(mf_st_writer *w); /* closes what was not ended */
int mf_st_writer_add(mf_st_writer *w, const char *name, mf_st_dtype dtype, int rank,
                     const int64_t *shape);
int mf_st_writer_meta(mf_st_writer *w, const char *key, const char *value);
int mf_st_writer_begin(mf_st_writer *w, const char *path);
/* The tensor whose bytes are due next, NULL when all are written. Tensors without bytes never
 * are. */
const mf_st_tensor *mf_st_writer_due(const mf_st_writer *w, size_t *ret_index);
/* The next n bytes of the tensor due; not more than it still lacks. */
int mf_st_writer_put(mf_st_writer *w, const void *data, size_t n);
/* Closes, after fsync when asked; an error when bytes are still due. */
int mf_st_writer_end(mf_st_writer *w, bool sync);

#endif
