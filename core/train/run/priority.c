/* train/run/priority.c: warns of a priority under a capacity that hardly tells tokens apart.
 *
 * A router reads what a norm, RMSNorm or LayerNorm, has left of a token: a vector whose length
 * is sqrt(d) s / sqrt(s^2 + eps) while the norm's weights are 1, s the root mean square or the
 * standard deviation before. The lengths of two tokens differ by as little as the rounding
 * errors of their sums, unless s is small, or training has moved the weights apart. */
#include <string.h>
#include "base/log.h"
#include "plugin/load/open.h"
#include "train/run/session.h"

#define WHY                                                                                    \
    "behind a norm all tokens have nearly the same length until its weights have grown "       \
    "apart, so that rounding errors decide which of them an expert admits; expected "
#define OTHERS "gate, time, drawn or position"

static double number(const mf_ctx *router, const char *option)
{
    const mf_option *o = mf_schema_find(&mf_instance_plugin(router)->schema, option);
    return o ? mf_option_number(o, mf_instance_conf(router)) : 0;
}

/* Whether the router brings a priority of its own, which is the length. */
static bool is_own(const mf_ctx *router)
{
    return strcmp(mf_instance_plugin(router)->name, "tia_r") == 0 &&
           number(router, "mode") == 0;
}

void mf_session_warn_of_priority(const mf_session *s)
{
    const mf_moe_config *c = &s->config->moe;
    const mf_moe_layer *own = NULL, *of_core = NULL;
    if (c->capacity_factor <= 0) return;
    for (int32_t i = s->model->n_moe - 1; i >= 0; i--) {
        const mf_moe_layer *l = &s->model->moe[i];
        if (!is_own(l->router))
            of_core = l;
        else if (number(l->router, "lambda") != 0)
            own = l;
    }
    if (of_core && c->priority == MF_PRIORITY_IMPORTANCE)
        mf_log(MF_LOG_WARN, "moe.priority = importance: " WHY OTHERS);
    if (!own) return;
    const mf_model_settings settings = mf_config_model(s->config);
    mf_log(MF_LOG_WARN,
           "[%s]: tia_r ranks tokens by length: " WHY
           "mode = literal, and moe.priority = " OTHERS,
           mf_model_router(&settings, own->layer)->section);
}
