/* graph/store/param.h: parameters and buffers: what is trained, and what is only kept.
 *
 * All values of a store lie in one block, all gradients in another, so that the optimizer makes
 * one pass and a checkpoint one file. Names are paths, "layers.0.router.weight"; an instance of
 * a plugin declares below its own. Declaring ends with mf_store_seal, which allocates and draws
 * the start values: Philox keyed by (seed, name), independent of everything else in the store.
 */
#ifndef MF_GRAPH_PARAM_H
#define MF_GRAPH_PARAM_H

#include <moefw/types.h>

typedef struct mf_store mf_store;
struct mf_device;

typedef struct mf_param {
    const char *name;
    mf_store *store;
    mf_shape shape;
    int64_t count;
    mf_init init;
    int32_t index;   /* in the store */
    bool buffer;     /* no gradient, no optimizer */
    bool frozen;     /* no gradient now; graphs must be rebuilt after a change */
    double lr_scale; /* multiplies the learning rate; 1 */
    /* Factors of its own on the learning rate of parts, 0: frozen. Seen as [outer, parts,
     * part_size]; NULL: the parameter is one. The optimizer has to look again after a
     * change. */
    float *part; /* [parts] */
    int64_t parts, part_size;
    int64_t offset; /* elements into the blocks (buffers have a block of their own) */
    float *value;   /* on the store's device; set by seal */
    float *grad;    /* NULL for buffers, and in stores without training */
    uint16_t *bf16; /* value in bf16: NULL for buffers, and in stores without bf16 copies */
    float *host;    /* on a device: the host's copy of value, NULL until one is wanted */
    float *sent; /* what host was when it agreed with the device; NULL: nobody has edited it */
    uint64_t seen;     /* the state of the store that the copy shows */
    bool f32_released; /* value holds nothing any more (mf_store_release_f32); half does */
    bool adapter;      /* of an adapter: no linear layer of the model itself */
    bool packed;       /* half, or value where there is none, is in panels (mf_store_pack) */
} mf_param;

mf_store *mf_store_new(void);
/* Before sealing: the blocks shall live there; NULL: on the host. The device must outlive the
 * store, and graphs that read the parameters run on it. Stores that are sealed bare stay on the
 * host. */
void mf_store_put_on(mf_store *s, struct mf_device *device);
struct mf_device *mf_store_device(const mf_store *s); /* NULL: the host */
void mf_store_free(mf_store *s);
/* MF_EINVAL if the name is taken with another shape; the same declaration again gives the same
 * parameter (weights shared between layers). */
int mf_store_declare(mf_store *s, const char *name, mf_shape shape, mf_init init, bool buffer,
                     mf_param **ret);
/* Makes p divisible into parts (see mf_param.part), all with the factor 1. MF_EINVAL: it does
 * not divide. */
int mf_store_divide(mf_store *s, mf_param *p, int64_t parts, int64_t part_size);
/* Before sealing: the store shall keep copies of its parameters in bf16, for products. */
void mf_store_want_bf16(mf_store *s);
/* Allocates and draws start values. training: gradients and two moments a parameter too. */
int mf_store_seal(mf_store *s, uint64_t seed, bool training);
/* The same for looking at sizes only: values, gradients and moments are not drawn and not to be
 * touched, so that they take no memory however large they are. Buffers are there. */
int mf_store_seal_bare(mf_store *s, uint64_t seed, bool training);
bool mf_store_sealed(const mf_store *s);
/* Bytes that values, gradients and moments take when they are touched. */
size_t mf_store_bytes(const mf_store *s);

int mf_store_count(const mf_store *s);
mf_param *mf_store_at(const mf_store *s, int i); /* in order of declaration */
mf_param *mf_store_find(const mf_store *s, const char *name);
/* i-th whose name matches a pattern where '*' stands for any text. */
mf_param *mf_store_match(const mf_store *s, const char *pattern, int i);
int64_t mf_store_trained(const mf_store *s); /* elements of parameters, buffers excluded */

/* ---- values as the host sees them ----
 * The values may live on a device, where the host must not look: outside this folder, the
 * optimizer and the kernels, nothing else reads or writes them. Offsets and sizes are bytes.
 * MF_EINVAL: outside the parameter or block, or there is none; else what the device says. Who
 * writes values of parameters calls mf_store_refresh_bf16 when all are written. */
int mf_param_read(const mf_param *p, void *to, size_t offset, size_t bytes);
int mf_param_write(mf_param *p, const void *from, size_t offset, size_t bytes);
/* A view of all its values for reading, valid until the next run, optimizer step or write: on
 * the CPU the values themselves, elsewhere a copy. NULL: before sealing, or the copy failed. */
const float *mf_param_host(const mf_param *p);
/* The same for changing them: what was written by then is on the device before anything runs
 * there next, and the caller may go on to change them between runs. */
float *mf_param_edit(mf_param *p);

typedef enum mf_block {
    MF_BLOCK_VALUES, /* f32 */
    MF_BLOCK_GRADS,
    MF_BLOCK_MOMENT1,
    MF_BLOCK_MOMENT2,
    MF_BLOCK_BF16,
    MF_BLOCK_BUFFERS,
    MF_BLOCK_COUNT
} mf_block;

bool mf_store_has(const mf_store *s, mf_block block);
int mf_store_read(const mf_store *s, mf_block block, void *to, size_t offset, size_t bytes);
int mf_store_write(mf_store *s, mf_block block, const void *from, size_t offset, size_t bytes);
int mf_store_zero(mf_store *s, mf_block block); /* all of it */
/* A view of a whole block for reading, valid until the next run, optimizer step or write. NULL:
 * the store has none, or the copy failed. */
const void *mf_store_host(const mf_store *s, mf_block block);
/* Where a parameter's part of a block begins, in bytes (buffers: of MF_BLOCK_BUFFERS). */
size_t mf_param_offset(const mf_param *p, mf_block block);

/* For those who launch on the store's device. Before: what mf_param_edit gave has to be there.
 * After: copies that the host has are old. */
int mf_store_flush(mf_store *s);
void mf_store_changed(mf_store *s);

/* The blocks of trained parameters, at their addresses on the store's device: *ret_n elements
 * each; parameters begin 64-byte aligned, the gaps hold zeros. Gradients and moments are NULL
 * without training. */
float *mf_store_values(const mf_store *s, int64_t *ret_n);
float *mf_store_grads(const mf_store *s);
float *mf_store_moment1(const mf_store *s);
float *mf_store_moment2(const mf_store *s);
/* The bf16 copies of the values, laid out alike; NULL unless asked for. Whoever writes values
 * brings them up to date: the optimizer on its way, others by mf_store_refresh_bf16. */
uint16_t *mf_store_bf16(const mf_store *s);
void mf_store_refresh_bf16(mf_store *s); /* all of them; nothing without copies */
/* Gives back the memory of a parameter's f32 values, of which a bf16 copy is there: a graph
 * that reads them will not finish. Nothing is done in stores with training or without
 * copies. */
void mf_store_release_f32(const mf_store *s, mf_param *p);
/* Turns what products read of a parameter, its bf16 copy or where there is none its value, into
 * the panels that they read without copying (kernels, pack_weights): for stores that are only
 * read from now on. A graph that reads it otherwise (mf_graph_multiplies) will not finish.
 * Nothing is done in stores with training, and where the kernels have no panels for it. */
void mf_store_pack(mf_store *s, mf_param *p);
/* Draws a parameter's start value again into out [count]. */
void mf_param_draw(const mf_param *p, uint64_t seed, float *out);
bool mf_match(const char *pattern, const char *text);

#endif
