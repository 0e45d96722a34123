/* Attention heads of a harness. They compute nothing. They have gates that controllers can
 * change, and statistics that vary with head and step. */
#include "lab/harness.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"

enum { SEED = 11 };

static mf_param *part(const mf_harness *harness, int32_t layer, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.attention.%s", (int)layer, what);
    return mf_store_find(harness->store, name);
}

int mf_harness_heads_declare(mf_harness *harness)
{
    static const struct {
        const char *what;
        double start, lo, hi;
        bool buffer, structural;
    } kinds[] = {{"gate", 3, -100, 100, false, false},
                 {"active", 1, 0, 1, true, true},
                 {"lr_scale", 1, 0, 1e3, true, false}};
    int rc = MF_OK;
    for (int32_t l = 0; l < harness->spec.layers; l++)
        for (int i = 0; i < 3 && rc == MF_OK; i++) {
            char name[64];
            mf_param *p = NULL;
            const mf_init init = {MF_INIT_CONST, MF_PARAM_NO_DECAY, kinds[i].start};
            snprintf(name, sizeof name, "layers.%d.attention.%s", (int)l, kinds[i].what);
            rc = mf_store_declare(harness->store, name, mf_shape1(MF_HARNESS_HEADS), init,
                                  kinds[i].buffer, &p);
            for (int h = 0; h < MF_HARNESS_HEADS && rc == MF_OK; h++) {
                snprintf(name, sizeof name, "layers.%d.attention.%s.%d", (int)l, kinds[i].what,
                         h);
                rc = mf_live_register_stored(harness->host, name, p, h, kinds[i].lo,
                                             kinds[i].hi, kinds[i].structural);
            }
        }
    return rc;
}

/* A number in [0,1) that depends only on stream, layer, head and step. */
static float drawn(const mf_harness *harness, uint64_t stream, int32_t layer, int head)
{
    return mf_rng_uniform(SEED, stream, (uint64_t)harness->step,
                          (uint64_t)layer * MF_HARNESS_HEADS + (uint64_t)head);
}

void mf_harness_heads_measure(const mf_harness *harness, mf_harness_heads *out)
{
    for (int32_t l = 0; l < harness->spec.layers; l++) {
        const mf_param *gate = part(harness, l, "gate"), *active = part(harness, l, "active");
        for (int h = 0; h < MF_HARNESS_HEADS; h++) {
            const float on = mf_param_host(active)[h];
            out->gate[l][h] = on * (float)(1 / (1 + exp(-(double)mf_param_host(gate)[h])));
            out->active[l][h] = on;
            out->entropy[l][h] = on * 4 * drawn(harness, 5, l, h);
            out->grad_norm[l][h] = on * 0.01f * drawn(harness, 6, l, h);
        }
        out->stats[l] = (mf_head_stats){.size = sizeof *out->stats,
                                        .layer = l,
                                        .heads = MF_HARNESS_HEADS,
                                        .gate = out->gate[l],
                                        .active = out->active[l],
                                        .entropy = out->entropy[l],
                                        .grad_norm = out->grad_norm[l]};
    }
}

void mf_harness_heads_turn(const mf_harness *harness, mf_harness_heads *out)
{
    for (int32_t l = 0; l < harness->spec.layers; l++)
        for (int h = 0; h < MF_HARNESS_HEADS; h++) {
            const float on = out->active[l][h];
            out->gate[l][h] = on * (1 - out->gate[l][h]);
            out->entropy[l][h] = on * (4 - out->entropy[l][h]);
            out->grad_norm[l][h] = on * (0.01f - out->grad_norm[l][h]);
        }
}

int mf_harness_heads_importance(void *arg, int32_t n, float *out, int32_t *ret_n)
{
    const mf_harness *harness = arg;
    *ret_n = 0;
    for (int32_t l = 0; l < harness->spec.layers; l++)
        for (int h = 0; h < MF_HARNESS_HEADS && *ret_n < n; h++)
            out[(*ret_n)++] =
                mf_param_host(part(harness, l, "active"))[h] * drawn(harness, 7, l, h);
    return MF_OK;
}
