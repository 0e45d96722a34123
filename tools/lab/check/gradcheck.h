/* lab/check/gradcheck.h: compares the gradients of a graph with differences of its values.
 *
 * Fixed random weights combine the outputs into one number, f = sum_i <weight[i], out[i]>, and
 * the graph's gradient of f is compared with central differences. The comparison is as exact as
 * f32 allows. It uses sums in double, the reference kernels, the actual steps instead of the
 * nominal steps, extrapolation that removes the error term of second order (Richardson), and a
 * tolerance that includes the rounding of the outputs that changed.
 *
 * This is not enough if large numbers cancel within the graph. In this case the noise of f is
 * measured at the point. It is also estimated from the condition of the graph: from the size of
 * each value of the forward pass and the gradient of f with respect to this value. Several step
 * sizes are tried as long as their differences exceed the rounding error. A point passes if one
 * of them agrees; a wrong rule agrees with no step. If points of a tensor agree only within
 * this noise, the tensor is also checked along the signs of its gradient. All elements add to
 * the slope in this direction, so it can exceed the noise.
 *
 * A point at a kink (relu at 0, or where the choice of a top-k changes) has no slope. It is
 * recognized by different slopes to the left and to the right with the gradient between them.
 * Such points, and points whose slope is hidden by noise, are counted but not judged. If they
 * are more than half of a tensor's points, nothing has been shown, and the check fails. Points
 * hidden by noise are allowed if the direction of the signs is judged. */
#ifndef MF_LAB_GRADCHECK_H
#define MF_LAB_GRADCHECK_H

#include "graph/graph.h"

/* The minimum number of points of a tensor that are checked, even if a graph takes long. */
#define MF_GRADCHECK_LEAST 8

typedef struct mf_gradcheck_options {
    /* tolerance relative to the larger of the two slopes, or to a typical slope of the tensor;
     * 0: 2e-3 */
    double rtol;
    double atol;    /* absolute tolerance; 0: 1e-6 */
    double step;    /* largest step, relative to max(1, |x|); 0: 1/32 */
    int max_points; /* number of points per tensor, drawn at random if it has more elements;
                     * 0: 48 */
    int directions; /* number of random directions per tensor with more elements than
                     * max_points; 0: 3 */
    /* Approximate number of operations that the points of a tensor may take; 0: no limit. If
     * the points of a graph need more, fewer points are checked, but at least
     * MF_GRADCHECK_LEAST or max_points, if that is less. Operations are counted and not
     * measured, so each machine checks the same points. */
    double operations;
    /* Seed of weights, points, directions and the graph's random nodes. */
    uint64_t seed;
    const struct mf_kernels *kernels; /* NULL: the reference kernels */
} mf_gradcheck_options;

typedef struct mf_gradcheck_report {
    int tensor;               /* index in `in` of the tensor with the worst point; -1: none */
    const char *name;         /* the tensor's name, valid as long as the graph; may be NULL */
    int64_t index;            /* index of the worst element; -1: the worst point is a
                               * random direction */
    double analytic, numeric; /* slopes at that point, by the graph and by differences */
    double error;             /* difference of the two slopes divided by the tolerance; <=
                               * 1 passes */
    int64_t points, kinks;    /* numbers of checked and of skipped points, in all tensors */
    uint64_t wrong, unseen;   /* bit i of wrong: in[i] disagrees; bit i of unseen: too many
                               * points of in[i] are at kinks */
    /* approximate number of operations of all runs; the same on each machine */
    double operations;
} mf_gradcheck_report;

/* Checks the gradients of `out` with respect to the inputs (mf_graph_want_grad) and parameters
 * in `in`. Adds the gradients and finishes the graph; the caller must not have done either
 * before. Inputs must be filled. Their values are restored. Ops that keep state must reach the
 * same state in every run. Fails with MF_EPLUGIN if gradients and differences disagree, naming
 * the worst tensor and element, or if too many points of a tensor are at kinks, naming the
 * tensor. ret may be NULL. */
int mf_gradcheck(mf_graph *g, int n_out, mf_tensor *const *out, int n_in, mf_tensor *const *in,
                 const mf_gradcheck_options *options, mf_gradcheck_report *ret);

#endif
