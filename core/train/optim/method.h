/* train/optim/method.h: what tells optimizers apart.
 *
 * A method updates most parameters by ranges of any length (`range`). Those for which `whole`
 * says so are updated one parameter at a time (`param`), because their step needs the matrix.
 * Each method is one file with one constant; optim.c lists them. All memory is on the device of
 * the store, and a method only launches kernels.
 *
 * It says which moments it keeps of a parameter before the store is sealed. Flags of parameters
 * say which matrices a parameter holds: one for each expert, or three in a fused one. A device
 * whose kernel set lacks one of its kernels is refused. */
#ifndef MF_TRAIN_OPTIM_METHOD_H
#define MF_TRAIN_OPTIM_METHOD_H

#include "graph/graph.h"
#include "kernels/kernel.h"
#include "train/train_config.h"

/* Neighbouring elements of parameters with equal settings. */
typedef struct mf_optim_range {
    int64_t first, count; /* of the blocks of values and gradients */
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
    mf_update_args args; /* without the settings of a range */
    float *value, *grad, *moment[2];
    int64_t base[2]; /* which elements of all moments are the first ones at `moment` */
    mf_bf16 *copy;   /* NULL: there are no bf16 copies */
    char *work;      /* as many bytes as `work` requested */
} mf_optim_launch;

/* `groups` equal matrices [rows,columns] one after another in a parameter, from element
 * `first`; rows 0: vectors of `columns` elements. */
typedef struct mf_matrices {
    int64_t first, groups, rows, columns;
} mf_matrices;

typedef struct mf_optim_method {
    bool (*has_kernels)(const mf_kernels *k);
    /* Shapes of the moments of a parameter, of rank -1 for none. */
    void (*moments)(const mf_param *p, mf_shape ret[2]);
    bool (*whole)(const mf_param *p);       /* NULL: never */
    size_t (*work)(const mf_matrices *all); /* bytes for one call of `param`; NULL: 0 */
    void (*range)(const mf_optim_launch *l, const mf_optim_range *r);
    /* r [n]: the ranges of the parameter, of which at least one is not frozen */
    void (*param)(const mf_optim_launch *l, const mf_param *p, const mf_optim_range *r, int n);
} mf_optim_method;

#define MF_OPTIMIZER_METHOD(constant, name, method)                                            \
    extern const mf_optim_method mf_optim_##method;
#include "train/optim/optimizers.def"
#undef MF_OPTIMIZER_METHOD

/* The i-th kind of matrices of a parameter; false: there are fewer. Most parameters have one.
 * Experts, and matrices that are one above the other, are matrices of their own. */
bool mf_optim_matrices(const mf_param *p, int i, mf_matrices *ret);
/* The moments `which` of a range. */
static inline float *mf_optim_moment(const mf_optim_launch *l, const mf_optim_range *r,
                                     int which)
{
    return l->moment[which] + (r->at[which] - l->base[which]);
}
/* How many groups a method treats in one pass, to bound its work memory: at least one. */
int64_t mf_optim_groups(const mf_matrices *all);
/* The arguments of kernels for a range. */
mf_update_args mf_optim_args(const mf_optim_launch *l, const mf_optim_range *r);
/* Calls fn (NULL: no call) for each range inside [first, first + count) that is not frozen,
 * with its first element and its number of elements. Returns true if no element is frozen. */
typedef void mf_optim_part_fn(const mf_optim_launch *l, const mf_optim_range *r, int64_t first,
                              int64_t count, void *arg);
bool mf_optim_parts(const mf_optim_launch *l, const mf_optim_range *r, int n, int64_t first,
                    int64_t count, mf_optim_part_fn *fn, void *arg);
void mf_optim_range_adamw(const mf_optim_launch *l, const mf_optim_range *r);

#endif
