/* plugin/tallies.h: the tallies of a model: numbers that are summed over all micro-batches and
 * ranks of a training step (mf_host.tally).
 *
 * A tally belongs to a path, like a parameter. While a graph is built, plugins name values as
 * parts of a tally (mf_host.count). After a micro-batch the training loop reads the parts and
 * adds them to its own sums (train/parallel/tally_sum.h). It stores the sums of the step here,
 * where plugins read them (mf_host.sum).
 *
 * The numbers of all tallies form two vectors. One contains the numbers of tallies with
 * MF_TALLY_WHOLE, whose sums do not depend on an order; the other contains all other numbers.
 * All tallies are declared before a graph is built. */
#ifndef MF_PLUGIN_TALLIES_H
#define MF_PLUGIN_TALLIES_H

#include "plugin/instance.h"

/* Maximum number of elements of all tallies of a model: 128 MiB as doubles. */
#define MF_TALLIES_MAX (1 << 24)

typedef struct mf_tallies mf_tallies;
mf_tallies *mf_tallies_new(void); /* returns NULL without memory */
void mf_tallies_free(mf_tallies *t);

/* The lengths of the two vectors. */
typedef struct mf_tally_numbers {
    int64_t whole, real;
} mf_tally_numbers;
mf_tally_numbers mf_tallies_numbers(const mf_plughost *h);

/* Declares a tally by its full name, without a leading '/'. A tally that exists must have equal
 * shape and flags (MF_EPLUGIN). MF_ECONFIG: more than MF_TALLIES_MAX numbers. */
int mf_tallies_declare(mf_plughost *h, const char *full, mf_shape shape, uint32_t flags);
bool mf_tallies_has(const mf_plughost *h, const char *full);
/* Adds the value to the tally in each run of its graph. The value is f32 with the tally's
 * shape, and must not be NULL. MF_ENOTFOUND, MF_ESHAPE, MF_ENOMEM. */
int mf_tallies_count(mf_plughost *h, const char *full, mf_tensor *part);
void mf_tallies_forget(mf_plughost *h, const mf_graph *g); /* does what
                                                            * mf_plughost_forget describes */

/* Adds the parts of a run to whole and real, vectors of the lengths that mf_tallies_numbers
 * returns. The run is the run in the slot of its graph (mf_graph_collect), or, with
 * mf_graph_run without `queued`, the last run. A number of `whole` becomes NaN for a part that
 * is not whole or too large, and Inf for a part that is not finite. */
void mf_tallies_read(mf_plughost *h, const mf_graph *g, int slot, double *whole, double *real);
/* The sums of the last step, which the caller writes. A pointer is NULL if its vector has
 * no elements. */
typedef struct mf_tally_sums {
    double *whole, *real;
} mf_tally_sums;
mf_tally_sums mf_tallies_sums(mf_plughost *h);
void mf_tallies_clear(mf_plughost *h); /* sets the sums to 0 */
/* Checks the sums of a step that was taken. MF_EPLUGIN: a tally of whole numbers has a
 * number that is not whole. MF_ENONFINITE: a sum is not finite. The message names tally
 * and element. */
int mf_tallies_judge(mf_plughost *h);

/* Returns the i-th request for counts of scores (mf_host.count_scores), and its name; NULL:
 * there are no more requests. */
const mf_score_count *mf_tallies_scores(const mf_plughost *h, int i, const char **ret_name);
/* Returns the i-th tally, for checks; NULL past the end. *ret_sum: its sums; *ret_count:
 * their number. */
const char *mf_tallies_at(const mf_plughost *h, int i, uint32_t *ret_flags,
                          const double **ret_sum, int64_t *ret_count);

/* These functions implement mf_host. */
int mf_host_tally(mf_ctx *ctx, const char *name, mf_shape shape, uint32_t flags);
void mf_host_count(mf_ctx *ctx, mf_graph *g, const char *name, mf_tensor *part);
const double *mf_host_sum(mf_ctx *ctx, const char *name, int64_t *ret_count);
int mf_host_count_scores(mf_ctx *ctx, const char *name, const mf_score_count *what);
/* Records a request after the checks of mf_host_count_scores. MF_EPLUGIN: another request has
 * the same name. */
int mf_tallies_want_scores(mf_plughost *h, const char *name, const mf_score_count *what);

#endif
