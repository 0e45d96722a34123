/* How much of the final choice an earlier checkpoint already makes, on the same tokens
 * (Muennighoff et al. 2024, arXiv 2409.02060, section 5; by the set of all k experts, so the
 * order of a token's experts does not matter). */
#include <math.h>

#include "base/error.h"
#include "lab/analyze/analyze.h"

/* The number of experts of token t in `end` that `then` also has. */
static int64_t common(const mf_routes *then, const mf_routes *end, int64_t t)
{
    int64_t n = 0;
    for (int64_t i = end->begin[t]; i < end->begin[t + 1]; i++)
        for (int64_t j = then->begin[t]; j < then->begin[t + 1]; j++)
            n += end->expert[i] == then->expert[j];
    return n;
}

/* sum_e n_e n'_e / (N sum k) */
static double chance_of(const mf_routes *then, const mf_routes *end, double *load)
{
    const int32_t E = end->experts;
    double sum = 0;
    for (int64_t a = 0; a < end->begin[end->n]; a++)
        load[end->expert[a]]++;
    for (int64_t a = 0; a < then->begin[then->n]; a++)
        load[E + then->expert[a]]++;
    for (int32_t e = 0; e < E; e++)
        sum += load[e] * load[E + e];
    return sum / ((double)end->n * (double)end->begin[end->n]);
}

int mf_saturation_of(const mf_routes *then, const mf_routes *end, const mf_clusters *c,
                     mf_saturation *ret)
{
    if (then->n != end->n || then->experts != end->experts || then->layer != end->layer)
        return mf_fail(
            MF_EINPUT,
            "saturation: layer %d with %lld tokens and %d experts, layer %d with %lld "
            "and %d: expected the same layer and tokens",
            (int)then->layer, (long long)then->n, (int)then->experts, (int)end->layer,
            (long long)end->n, (int)end->experts);
    double *sum = mf_alloc((size_t)c->n, sizeof *sum), *n = mf_alloc((size_t)c->n, sizeof *n),
           *load = mf_alloc(2 * (size_t)end->experts, sizeof *load);
    const bool done = sum && n && load;
    for (int64_t t = 0; done && t < end->n; t++) {
        const int64_t k = end->begin[t + 1] - end->begin[t];
        if (k == 0) continue;
        sum[c->of[t]] += (double)common(then, end, t) / (double)k;
        n[c->of[t]]++;
    }
    if (done) ret->overlap = mf_cluster_ratio(sum, n, c->n);
    if (done) ret->chance = chance_of(then, end, load);
    mf_free(sum);
    mf_free(n);
    mf_free(load);
    return done ? MF_OK : MF_ENOMEM;
}
