/* run/metrics/metrics_each.h: visits the numbers of a record, one after another, with
 * their names.
 *
 * A name consists of the keys that lead to the number in metrics.jsonl, joined by dots, as in
 * `moefw export`: "loss", "regularizers.balance", "moe.3.load_cv" for layer 3. Numbers of
 * single experts and heads are skipped, and so are numbers without a value. */
#ifndef MF_RUN_METRICS_EACH_H
#define MF_RUN_METRICS_EACH_H

#include "run/metrics/metrics.h"

/* name is valid only during the call. */
typedef void (*mf_metrics_visit)(void *arg, const char *name, double value);
/* Calls visit for each number of r, in the order of metrics.jsonl, except the step. A name of
 * more than 255 bytes is cut. Allocates nothing. */
void mf_metrics_each(const mf_metrics_record *r, mf_metrics_visit visit, void *arg);
/* Returns layer i of r, 0 <= i < r->n_layers. */
const mf_layer_stats *mf_metrics_layer(const mf_metrics_record *r, int i);

#endif
