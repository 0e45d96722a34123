/* graph/store/param.h: parameters, which are trained, and buffers, which have no gradient.
 *
 * All values of a store's parameters are in one block, all gradients in another block, and its
 * buffers in a third block, so the optimizer makes one pass over a block. Names are paths,
 * "layers.0.router.weight"; an instance of a plugin declares its parameters below its own path.
 * mf_store_seal ends the declarations: it allocates the blocks and draws the initial values
 * with Philox keyed by (seed, name). So initial values do not depend on anything else in
 * the store. */
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
    int32_t index;   /* index in the store */
    bool buffer;     /* it has no gradient, and the optimizer does not change it */
    bool frozen;     /* it has no gradient at present; after a change graphs must be rebuilt */
    double lr_scale; /* factor on the learning rate, normally 1 */
    /* Factors on the learning rate for parts of the parameter, which is viewed as [outer,
     * parts, part_size]; 0: frozen. NULL: no parts. After a change mf_optim_refresh must
     * be called. */
    float *part; /* [parts] */
    int64_t parts, part_size;
    int64_t offset; /* offset in the blocks in elements (buffers have their own block) */
    /* The moments that the optimizer keeps of the parameter: their shapes (rank -1: no moment),
     * and their offsets in elements. Both moments have the parameter's shape unless
     * mf_store_want_moments has set other shapes. */
    mf_shape moment[2];
    int64_t moment_at[2];
    /* Numbers of rows of the matrices that are one above the other in a parameter
     * [rows,columns]; the list ends at a 0. All 0: the parameter is one matrix. */
    int64_t stacked[3];
    float *value;   /* address on the store's device; set by mf_store_seal */
    float *grad;    /* NULL for buffers, and in stores without training */
    uint16_t *bf16; /* value in bf16: NULL for buffers, and in stores without bf16 copies */
    float *host;    /* on a device: copy of value on the host; NULL until needed */
    /* contents of host when host and device were last equal; NULL: never edited */
    float *sent;
    float *spare;      /* copy for plugins if the parameter is frozen; NULL until a plugin
                        * requests it */
    uint64_t seen;     /* state of the store when `host` was copied */
    bool f32_released; /* value must not be read (mf_store_release_f32); bf16 remains valid */
    bool adapter;      /* it belongs to an adapter, not to a linear layer of the model itself */
    bool packed;       /* bf16, or value if there is no bf16, is in panels (mf_store_pack) */
    /* The values in the form in which a file stores them (mf_store_bind); the parameter is then
     * frozen, and value, grad and bf16 are NULL. NULL: not bound. */
    const struct mf_stored *stored;
    const struct mf_stored *there; /* the copy of `stored` on the store's device, made by
                                    * mf_store_seal; or NULL */
    bool given; /* its values came from a file, so a checkpoint need not contain them */
    /* If each of several processes has only some values of this parameter, this process has
     * elements held_first .. held_first+held-1 (mf_store_hold). The other elements use no
     * memory, and are not valid. held 0: all elements are here. */
    int64_t held_first, held;
} mf_param;

mf_store *mf_store_new(void);
/* Places the blocks in memory of a device; NULL: on the host. Call this before sealing. The
 * device must outlive the store, and graphs that read its parameters must run on this device.
 * Stores that are sealed bare stay on the host. */
void mf_store_put_on(mf_store *s, struct mf_device *device);
struct mf_device *mf_store_device(const mf_store *s); /* NULL: the host */
void mf_store_free(mf_store *s);
/* Declares a parameter or buffer. If a name is declared again with the same shape, the same
 * parameter is returned (weights shared between layers). Fails with MF_EINVAL if the name
 * exists with another shape or as the other kind, if name, shape or init is invalid, or if a
 * new name comes after sealing; or with MF_ENOMEM. ret may be NULL. */
int mf_store_declare(mf_store *s, const char *name, mf_shape shape, mf_init init, bool buffer,
                     mf_param **ret);
/* Divides p into parts (see mf_param.part), all with the factor 1. Fails with MF_EINVAL if the
 * sizes do not divide p evenly. */
int mf_store_divide(mf_store *s, mf_param *p, int64_t parts, int64_t part_size);
/* Binds a parameter to a weight in memory of the same shape ([out,in], or [groups,out,in]). The
 * store allocates no memory for it on the host; on a device mf_store_seal copies the same bytes
 * once. The parameter cannot be trained or written. Gemms and lookups of rows read it in its
 * stored form; all other code reads copies in f32. w must outlive the store. Call this before
 * sealing. MF_EINVAL: p is a buffer, or w has another shape. */
int mf_store_bind(mf_store *s, mf_param *p, const struct mf_stored *w);
/* Call before sealing, on the host: only `count` elements of p from `first` on are kept here,
 * with their gradients. Offsets do not change. */
void mf_store_hold(mf_param *p, int64_t first, int64_t count);
/* Releases the memory of values that are not held, which a file or a draw has filled. */
void mf_store_trim(mf_store *s);
/* Returns the number of elements of the parameters that are bound to weights. */
int64_t mf_store_bound(const mf_store *s);
/* Makes the store keep copies of its parameters in bf16, for gemms. Call this
 * before sealing. */
void mf_store_want_bf16(mf_store *s);
/* Call before sealing: the store then gets gradients but no moments. This is used for
 * sensitivities of a model that is not trained. */
void mf_store_want_no_moments(mf_store *s);
/* Call before sealing: sets the moments that an optimizer keeps of p, instead of two moments of
 * its shape. A shape of rank -1 means no moment. */
void mf_store_want_moments(mf_param *p, mf_shape first, mf_shape second);
/* Returns the number of elements of moment `which`, 0 or 1, of a parameter. */
int64_t mf_param_moment_count(const mf_param *p, int which);
/* Allocates the blocks and draws initial values. training: also allocates gradients
 * and moments. */
int mf_store_seal(mf_store *s, uint64_t seed, bool training);
/* Like mf_store_seal, for models of which only sizes matter. Values are not drawn. Values,
 * gradients and moments must not be read or written; they use no memory, whatever their size.
 * Buffers are usable. */
int mf_store_seal_bare(mf_store *s, uint64_t seed, bool training);
bool mf_store_sealed(const mf_store *s);
/* Returns the bytes that values, bf16 copies, gradients and moments of parameters need when
 * they are used; 0 before sealing. */
size_t mf_store_bytes(const mf_store *s);

int mf_store_count(const mf_store *s);
mf_param *mf_store_at(const mf_store *s, int i); /* by index, in order of declaration */
mf_param *mf_store_find(const mf_store *s, const char *name);
/* Returns the i-th parameter or buffer whose name matches a pattern, in which '*' matches any
 * text; NULL: there are fewer matches. */
mf_param *mf_store_match(const mf_store *s, const char *pattern, int i);
int64_t mf_store_trained(const mf_store *s); /* number of elements of parameters,
                                              * without buffers */

/* ---- values as the host sees them ----
 *
 * The values may be in memory of a device, so only these functions, the optimizer and the
 * kernels read or write them. Offsets and sizes are in bytes. MF_EINVAL: the range is outside
 * of the parameter or block, or the store has no such block. Other errors come from the device.
 * After writing values of parameters, call mf_store_refresh_bf16. */
int mf_param_read(const mf_param *p, void *to, size_t offset, size_t bytes);
int mf_param_write(mf_param *p, const void *from, size_t offset, size_t bytes);
/* Returns a view of all values for reading, valid until the next run, optimizer step or write.
 * On the CPU the view is the values themselves. On a device, and for a parameter that is bound
 * to a weight, it is a copy that the store keeps. NULL: the store is not sealed, or the
 * copy failed. */
const float *mf_param_host(const mf_param *p);
/* Frees the copy that mf_param_host made of a parameter that is bound to a weight. Views of
 * this copy are then invalid. Does nothing for other parameters. */
void mf_param_forget(mf_param *p);
/* Like mf_param_host, but the caller may change the values. Each run first sends all changes
 * made so far to the device, so the caller may also change values between runs. */
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
int mf_store_zero(mf_store *s, mf_block block); /* sets the whole block to zero */
/* Returns a view of a whole block for reading, valid until the next run, optimizer step or
 * write. NULL: the store has no such block, or the copy failed. */
const void *mf_store_host(const mf_store *s, mf_block block);
/* Returns the offset of a parameter in a block, in bytes (for buffers: in MF_BLOCK_BUFFERS). */
size_t mf_param_offset(const mf_param *p, mf_block block);

/* ---- moments that several processes share ----
 *
 * A process that keeps only some moments stores them in shards. A shard is the elements first
 * .. end-1 of the block of values, together with the elements of the blocks of moments that
 * belong to them. Offsets in the blocks of moments (mf_param.moment_at) are those of a store
 * that keeps all moments. */
typedef struct mf_shard {
    int64_t first, end;
    int64_t moment_first[2], moment_end[2];
    int64_t at[2]; /* offset of moment_first in this store's own blocks */
} mf_shard;

/* Keeps only the moments of these shards, whose first and end are set, in ascending order. A
 * shard must not divide a parameter whose moments have another shape. Moments are zero
 * afterwards. Only for stores on the host that are sealed with moments. MF_ENOMEM. */
int mf_store_shard(mf_store *s, int n, const mf_shard *shards);
/* Returns the shards; NULL: the store keeps all moments. */
const mf_shard *mf_store_shards(const mf_store *s, int *ret_n);
/* Returns the offset at which the moments `which` of element `at` of the block of
 * values begin. */
int64_t mf_store_moment_at(const mf_store *s, int which, int64_t at);
/* Read or write moments at .. at+count-1. Reading fails with MF_EINVAL if the store does not
 * keep all of them. Writing ignores moments that are not kept. */
int mf_store_read_moments(const mf_store *s, int which, int64_t at, int64_t count, float *to);
int mf_store_write_moments(mf_store *s, int which, int64_t at, int64_t count,
                           const float *from);

/* For code that launches kernels on the store's device: mf_store_flush sends edited values
 * (mf_param_edit) before the launch; mf_store_changed marks copies on the host as old
 * after it. */
int mf_store_flush(mf_store *s);
void mf_store_changed(mf_store *s);

/* These functions return the blocks of parameters (without buffers), at their addresses on the
 * store's device; values and gradients have *ret_n elements. Parameters begin at 64-byte
 * boundaries, and the gaps hold zeros. A parameter's moments begin at mf_param.moment_at.
 * Gradients and moments are NULL without training. */
float *mf_store_values(const mf_store *s, int64_t *ret_n);
float *mf_store_grads(const mf_store *s);
float *mf_store_moment1(const mf_store *s);
float *mf_store_moment2(const mf_store *s);
/* Returns the bf16 copies of the values, at the same offsets; NULL if the store has none. Code
 * that writes values must update the copies. The optimizer updates them itself; other code
 * calls mf_store_refresh_bf16. */
uint16_t *mf_store_bf16(const mf_store *s);
/* Updates all bf16 copies, except copies of released f32 values and copies in panels. */
void mf_store_refresh_bf16(mf_store *s);
/* Releases a parameter's f32 values if there is a bf16 copy: frees their memory on the host; on
 * a device the memory stays. A graph that reads the f32 values cannot be finished afterwards.
 * Does nothing in stores with training or without copies. */
void mf_store_release_f32(const mf_store *s, mf_param *p);
/* Reorders the values that gemms read (a parameter's bf16 copy, or its values if it has no
 * copy) into panels, which gemms read without copying (kernels, pack_weights). After this call
 * the store must only be read: a graph that reads the parameter in another way
 * (mf_graph_multiplies) cannot be finished. Does nothing in stores with training, for buffers,
 * or if the kernels have no panels for the parameter's shape. */
void mf_store_pack(mf_store *s, mf_param *p);
/* Draws a parameter's initial values again, into out [count]. */
void mf_param_draw(const mf_param *p, uint64_t seed, float *out);
bool mf_match(const char *pattern, const char *text);

#endif
