/* train/optim/method.h: the table of functions and moments that distinguishes optimizers.
 *
 * A method updates most parameters by ranges of any length (`range`). Parameters for which
 * `whole` returns true are updated one at a time (`param`), because their step needs the
 * matrix. Each method is one file with one constant; optim.c lists them. All memory is on the
 * device of the store, and a method only launches kernels.
 *
 * A method tells the store which moments it keeps of a parameter before the store is sealed.
 * Flags of parameters describe the matrices in a parameter: one for each expert, or three in a
 * fused parameter. A device whose kernel set lacks a kernel of the method is refused. */
#ifndef MF_TRAIN_OPTIM_METHOD_H
#define MF_TRAIN_OPTIM_METHOD_H

#include "graph/graph.h"
#include "kernels/kernel.h"
#include "train/train_config.h"

/* Neighbouring elements of parameters with equal settings. */
typedef struct mf_optim_range {
    int64_t first, count; /* position in the blocks of values and gradients */
    int64_t at[2];        /* first element in the blocks of moments */
    double lr_scale;
    bool decay, frozen;
    const mf_param *whole; /* the parameter, if it is updated as a whole */
} mf_optim_range;

/* The context and the memory with which a method launches kernels. */
typedef struct mf_optim_launch {
    const mf_kernels *k;
    mf_kctx x;
    const mf_train_config *config;
    mf_update_args args; /* arguments without the settings of a range */
    float *value, *grad, *moment[2];
    int64_t base[2]; /* index, among all moments, of the first element of each `moment` */
    mf_bf16 *copy;   /* bf16 copies of the values; NULL: none */
    char *work;      /* work memory with as many bytes as `work` requested */
} mf_optim_launch;

/* `groups` equal matrices [rows,columns] one after another in a parameter, from element
 * `first`. rows 0: the groups are vectors of `columns` elements. */
typedef struct mf_matrices {
    int64_t first, groups, rows, columns;
} mf_matrices;

typedef struct mf_optim_method {
    bool (*has_kernels)(const mf_kernels *k);
    /* Writes the shapes of the moments of a parameter; rank -1: no moment. */
    void (*moments)(const mf_param *p, mf_shape ret[2]);
    bool (*whole)(const mf_param *p);       /* whether p is updated as a whole; NULL: never */
    size_t (*work)(const mf_matrices *all); /* returns the bytes of work memory for one call of
                                             * `param`; NULL: 0 */
    void (*range)(const mf_optim_launch *l, const mf_optim_range *r);
    /* Like `range` for each range of a table that the device reads. NULL: there is no kernel
     * for this, or `whole` is set. */
    void (*ranges)(const mf_optim_launch *l, const mf_update_range *r, int64_t n,
                   int64_t total);
    /* r [n]: the ranges of the parameter; at least one of them is not frozen */
    void (*param)(const mf_optim_launch *l, const mf_param *p, const mf_optim_range *r, int n);
} mf_optim_method;

#define MF_OPTIMIZER_METHOD(constant, name, method)                                            \
    extern const mf_optim_method mf_optim_##method;
#include "train/optim/optimizers.def"
#undef MF_OPTIMIZER_METHOD

/* Returns the i-th kind of matrices of a parameter; false: there are fewer. Most parameters
 * have one kind. Experts, and matrices that are one above the other, are separate matrices. */
bool mf_optim_matrices(const mf_param *p, int i, mf_matrices *ret);
/* Returns the moments `which` of a range. */
static inline float *mf_optim_moment(const mf_optim_launch *l, const mf_optim_range *r,
                                     int which)
{
    return l->moment[which] + (r->at[which] - l->base[which]);
}
/* Returns the number of groups that a method processes in one pass, at least one. It limits the
 * method's work memory. */
int64_t mf_optim_groups(const mf_matrices *all);
/* Returns the arguments of kernels for a range. */
mf_update_args mf_optim_args(const mf_optim_launch *l, const mf_optim_range *r);
/* Calls fn (NULL: no call) for each range inside [first, first + count) that is not frozen,
 * with the range's first element and its number of elements. Returns true if no element
 * is frozen. */
typedef void mf_optim_part_fn(const mf_optim_launch *l, const mf_optim_range *r, int64_t first,
                              int64_t count, void *arg);
bool mf_optim_parts(const mf_optim_launch *l, const mf_optim_range *r, int n, int64_t first,
                    int64_t count, mf_optim_part_fn *fn, void *arg);
void mf_optim_range_adamw(const mf_optim_launch *l, const mf_optim_range *r);

#endif
