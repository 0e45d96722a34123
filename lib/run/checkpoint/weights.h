/* run/checkpoint/weights.h: distribution of the values of a model's parameters, by module.
 *
 * weights.json contains the distribution at the start of a run. The report computes the
 * distribution at the end of the run from the checkpoint. If a parameter has more than
 * 1,048,576 values, about 1,048,576 of them are read, in evenly spaced pieces. Values that are
 * not finite do not count.
 *
 *     {"step": 0, "groups": [{"group": "embedding", "elements": 3906816, "mean": 0, "sd": 0.02,
 *                             "least": -0.09, "most": 0.1, "lo": -0.08, "hi": 0.08,
 *                             "share": [60 shares of the values, in bins from lo to hi]}]} */
#ifndef MF_RUN_WEIGHTS_H
#define MF_RUN_WEIGHTS_H

#include "run/checkpoint/inventory.h"

enum { MF_WEIGHTS_BINS = 60 };

typedef struct mf_weights_group {
    int64_t elements; /* 0: the model has no such parameters */
    double mean, sd, least, most;
    double lo, hi; /* mean -+ 4 sd, within least and most; lo < hi */
    double share[MF_WEIGHTS_BINS];
} mf_weights_group;

typedef struct mf_weights {
    int64_t step;
    mf_weights_group group[MF_MODEL_MODULES];
} mf_weights;

int mf_weights_of(const mf_inventory *v, mf_weights *ret);
int mf_weights_write(const char *path, const mf_weights *w);
/* Reads weights.json. MF_EINPUT if the file is not JSON. A damaged group is skipped. */
int mf_weights_read(const char *path, mf_weights *ret);

#endif
