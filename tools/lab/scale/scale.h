/* lab/scale/scale.h: how differences of routers change with the scale of a model.
 *
 * Each size has a comparison over seeds. With C = 6 N D FLOP (N active parameters, D training
 * tokens; Kaplan et al. 2020, arXiv 2001.08361), routers r share the form
 *
 *     L_r(C) = a + b_r C^-c
 *
 * with a common floor a and exponent c, fitted to the means of each size by variable
 * projection: for each c in (0, 1], a and b_r are a weighted linear least squares problem;
 * weights are 1 / se^2 of each size. The intervals are percentiles of a bootstrap: seeds are
 * drawn with replacement within each size, the same ones for all routers, and deviations of the
 * drawn means are multiplied by sqrt(n / (n - 1)), without which n seeds would look too sure.
 *
 * The speed-up of a router at a size is k = C' / C, where C' is the compute at which the
 * baseline reaches the router's loss, on the baseline's measured curve, which is linear in ln C
 * between two sizes. */
#ifndef MF_LAB_SCALE_H
#define MF_LAB_SCALE_H

#include <stdbool.h>

enum { MF_SCALE_SIZES = 8, MF_SCALE_DRAWS = 2000, MF_SCALE_REACH = 4 };

typedef struct mf_scale_range {
    double value, lo, hi; /* lo, hi: 90 %; NaN: unknown */
} mf_scale_range;

/* What is fitted. Arrays of numbers are [sizes][routers], losses [sizes][routers][seeds]. */
typedef struct mf_scale_data {
    int sizes, routers, seeds, baseline; /* 3 <= sizes <= MF_SCALE_SIZES, in rising compute */
    const double *compute;               /* FLOP */
    const double *loss;
} mf_scale_data;

typedef struct mf_scale_router {
    double b;             /* at the geometric mean of compute: L - a there */
    mf_scale_range joint; /* (b_0 / b)^(1/c): the speed-up by the common form */
    mf_scale_range trend; /* slope of ln k over ln C */
    mf_scale_range
        ahead; /* the loss at MF_SCALE_REACH times the largest compute of the router */
    double loss[MF_SCALE_SIZES];
    mf_scale_range diff[MF_SCALE_SIZES]; /* loss - that of the baseline */
    mf_scale_range
        speed[MF_SCALE_SIZES];   /* k; NaN if the baseline's curve does not fall there */
    bool beyond[MF_SCALE_SIZES]; /* k lies outside of the measured curve */
} mf_scale_router;

typedef struct mf_scaling {
    mf_scale_data data;
    mf_scale_range a, c;
    double middle;                /* geometric mean of compute */
    double slope[MF_SCALE_SIZES]; /* -dL / d ln C of the baseline, nats for each factor e */
    /* whether the seeds determine a and c; `why` says why not. Then joint and ahead are NaN. */
    bool identified;
    const char *why;
    double p_line; /* F test against a straight line in ln C: small, if the form is better */
    double p_form; /* F test of the form against the seeds: small, if it is wrong */
    mf_scale_router *router; /* [routers] */
} mf_scaling;

/* Fits. With one seed there are no intervals, and nothing is identified. The arrays of data
 * must outlive the result. MF_EINVAL for sizes outside 3 .. MF_SCALE_SIZES; MF_ENOMEM. Free
 * with mf_scale_free. */
int mf_scale_new(const mf_scale_data *data, mf_scaling **ret);
void mf_scale_free(mf_scaling *s);

/* ---- for the files of this folder, and tests ---- */

typedef struct mf_scale_fit {
    double a, c, rss;
    double *b; /* [routers], at C / middle */
} mf_scale_fit;
/* Fits means [sizes][routers] with weights [sizes]. x: scratch [sizes][routers]. */
void mf_scale_fit_power(const mf_scale_data *d, const double *mean, const double *weight,
                        double middle, double *x, mf_scale_fit *ret);
/* Residual sum of squares of straight lines in ln C with a common slope. */
double mf_scale_fit_line(const mf_scale_data *d, const double *mean, const double *weight);
/* ln C' at which the baseline's curve has this loss; NaN: it does not fall there. */
double mf_scale_reach_of(const mf_scale_data *d, const double *mean, double loss,
                         bool *ret_beyond);

#endif
