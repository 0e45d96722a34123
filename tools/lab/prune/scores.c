/* Scores of experts, from the assignments of one run forward after another. The norm is that of
 * an expert's output before its gate, in double. */
#include <math.h>
#include "base/error.h"
#include "lab/prune/prune_parts.h"

const char *const mf_prune_scores[] = {"count",   "gates", "norm",   "reap", "merge",
                                       "average", "probe", "random", NULL};

int mf_prune_sums_add(const mf_model_graph *mg, int32_t at, mf_prune_sums *to)
{
    const mf_routing *r = &mg->moe[at].routing;
    const float *out = mf_tensor_host(r->expert_out), *gate = mf_tensor_host(r->row_gate);
    const int32_t *offset = mf_tensor_host(r->offset);
    const int64_t d = r->expert_out->shape.dim[1];
    if (!out || !gate || !offset) return MF_ENOMEM;
    for (int32_t e = 0; e < r->experts; e++)
        for (int64_t i = offset[e]; i < offset[e + 1]; i++) {
            double squares = 0;
            for (int64_t j = 0; j < d; j++)
                squares += (double)out[i * d + j] * (double)out[i * d + j];
            to->n[e]++;
            to->gates[e] += (double)gate[i];
            to->norm[e] += sqrt(squares);
            to->both[e] += (double)gate[i] * sqrt(squares);
        }
    return MF_OK;
}

double mf_prune_score(mf_prune_by by, const mf_prune_sums *s, int64_t e)
{
    const double n = s->n[e] > 0 ? s->n[e] : 1;
    switch (by) {
    case MF_PRUNE_COUNT:
        return s->n[e];
    case MF_PRUNE_GATES:
        return s->gates[e];
    case MF_PRUNE_NORM:
        return s->norm[e] / n;
    case MF_PRUNE_REAP:
    case MF_PRUNE_MERGE:
    case MF_PRUNE_AVERAGE:
        return s->both[e] / n;
    case MF_PRUNE_PROBE:
    case MF_PRUNE_RANDOM:
    case MF_PRUNE_SCORES:
        break;
    }
    return NAN;
}

void mf_prune_keep(const double *score, int64_t E, int64_t n, bool *kept)
{
    for (int64_t e = 0; e < E; e++)
        kept[e] = true;
    for (; n > 0; n--) {
        int64_t least = -1;
        for (int64_t e = 0; e < E; e++)
            if (kept[e] && (least < 0 || score[e] <= score[least])) least = e;
        if (least >= 0) kept[least] = false;
    }
}
