/* run/metrics/history.h: the metric history that controllers read (mf_host.history).
 *
 * Names: "loss", "task_loss", "lr", "grad_norm"; "heads.active" if heads can be switched off;
 * for the MoE layer of block N "moe.N.load_cv", "moe.N.entropy", "moe.N.drop_rate",
 * "moe.N.nmi". Validations have the same names with the prefix "val.", except lr and grad_norm.
 * The newest 1,024 values of each name are kept. A resumed run reads them back from
 * metrics.jsonl, so a controller sees the same values as without the interruption. */
#ifndef MF_RUN_HISTORY_H
#define MF_RUN_HISTORY_H

#include "run/metrics/metrics.h"

typedef struct mf_history mf_history;
int mf_history_new(mf_history **ret);
void mf_history_free(mf_history *p);
int mf_history_add(mf_history *p, const mf_metrics_record *r);
/* Writes at most n of the newest values of a metric to out, newest first, and returns the
 * number of values written; 0 for an unknown name. This function is an argument
 * of mf_plughost_set_history. */
int32_t mf_history_get(void *past, const char *metric, int32_t n, double *out);

#endif
