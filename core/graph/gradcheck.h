/* graph/gradcheck.h: are the gradients of a graph the slopes of its values?
 *
 * The outputs are made one number by a fixed random weighting, f = sum_i <weight[i], out[i]>,
 * and the graph's gradient of f is compared with central differences. What f32 allows is got
 * out of them: sums in double, the reference kernels, actual rather than asked-for steps, the
 * error term of second order removed (Richardson), and a tolerance that knows how coarsely the
 * outputs that moved are rounded; where that does not suffice, because large numbers cancel
 * within the graph, the noise of f is measured. Several steps are tried, as long as rounding
 * leaves something to see, and a point passes when one of them agrees: a wrong rule agrees with
 * none.
 *
 * A point at a kink (relu at 0, where a top-k changes) has no slope. It is told by slopes to
 * the left and to the right that differ while the gradient lies between them; such points are
 * counted, not judged, and so are points whose slope is hidden by noise. When more than half of
 * a tensor's points are of this kind, nothing has been shown, and the check fails.
 */
#ifndef MF_GRAPH_GRADCHECK_H
#define MF_GRAPH_GRADCHECK_H

#include "graph/graph.h"

typedef struct mf_gradcheck_options {
    double rtol;    /* of the larger of the two numbers; 0: 2e-3 */
    double atol;    /* 0: 1e-6 */
    double step;    /* largest, of max(1, |x|); 0: 1/32 */
    int max_points; /* a tensor; of larger ones this many are drawn; 0: 48 */
    int directions; /* random directions a tensor with more elements; 0: 3 */
    uint64_t seed;  /* of weights, drawn points, directions and the graph's random nodes */
    const struct mf_kernels *kernels; /* NULL: ref */
} mf_gradcheck_options;

typedef struct mf_gradcheck_report {
    int tensor;               /* place in the list of the worst point's tensor; -1: none */
    const char *name;         /* its name, lives as long as the graph; may be NULL */
    int64_t index;            /* element, -1: along a random direction */
    double analytic, numeric; /* slopes there, by the graph and by differences */
    double error;             /* their distance, in units of what is tolerated: <= 1 passes */
    int64_t points, kinks;    /* judged and skipped, in all tensors */
} mf_gradcheck_report;

/* Checks the gradients that `out` has for the inputs (mf_graph_want_grad) and parameters in
 * `in`. The graph must have neither gradients nor an end yet: it gets both here. Inputs must be
 * filled. Values are restored. Ops that keep state must come to the same state in every run.
 * MF_EPLUGIN naming the worst tensor and element when they disagree. ret may be NULL. */
int mf_gradcheck(mf_graph *g, int n_out, mf_tensor *const *out, int n_in, mf_tensor *const *in,
                 const mf_gradcheck_options *options, mf_gradcheck_report *ret);

#endif
