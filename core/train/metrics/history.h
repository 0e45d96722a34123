/* train/metrics/history.h: past values of logged measurements, for controllers
 * (mf_host.history).
 *
 * Names: "loss", "task_loss", "lr", "grad_norm", "val.loss", "val.task_loss",
 * "heads.active" where heads are gated, and for the MoE layer
 * of block N "moe.N.load_cv", "moe.N.entropy", "moe.N.drop_rate", "moe.N.nmi"; "val.moe.N...."
 * from evaluations. The newest 1,024 of each are kept. After a resume they are read back from
 * metrics.jsonl, so a controller sees the same past as in an unbroken run.
 */
#ifndef MF_TRAIN_PAST_H
#define MF_TRAIN_PAST_H

#include "train/metrics/metrics.h"

typedef struct mf_history mf_history;
int mf_history_new(mf_history **ret);
void mf_history_free(mf_history *p);
int mf_history_add(mf_history *p, const mf_metrics_record *r);
/* Newest first; an argument of mf_plughost_set_history. */
int32_t mf_history_get(void *past, const char *metric, int32_t n, double *out);

#endif
