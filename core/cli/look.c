#include "cli/look.h"
#include <math.h>
#include <stdio.h>
#include "base/error.h"
#include "model/heads.h"

#define LOGIT_MOST 10.0 /* gates of 0 and 1 have no logit: as far as controllers go */
#define LOW        0.1  /* a gate below is as good as pruned (sentinel-ai: main.py) */

int mf_look_needs_gates(const mf_model *m)
{
    if (m->config->model.head_gates) return MF_OK;
    return mf_fail(MF_EUSAGE, "the heads of this model have no gates (model.head_gates = no)");
}

int mf_look_needs_skips(const mf_model *m)
{
    if (m->config->model.skip == MF_SKIP_UNET) return MF_OK;
    return mf_fail(MF_EUSAGE, "this model has no skips (model.skip = none)");
}

/* ---- gates ---- */

typedef struct {
    int32_t heads, active, low; /* low: of the active ones */
} heads_of;

static double gate_of(const mf_model *m, int32_t layer, int32_t head)
{
    return mf_gate_of(m, (double)mf_head_param(m, layer, "gate")->value[head]);
}

static bool is_active(const mf_model *m, int32_t layer, int32_t head)
{
    return mf_head_param(m, layer, "active")->value[head] != 0;
}

static heads_of count(const mf_model *m, int32_t layer)
{
    heads_of n = {.heads = (int32_t)m->config->model.heads};
    for (int32_t h = 0; h < n.heads; h++) {
        const bool active = is_active(m, layer, h);
        n.active += active;
        n.low += active && gate_of(m, layer, h) < LOW;
    }
    return n;
}

static heads_of count_all(const mf_model *m)
{
    heads_of all = {0};
    for (int32_t l = 0; l < m->config->model.layers; l++) {
        const heads_of n = count(m, l);
        all.heads += n.heads;
        all.active += n.active;
        all.low += n.low;
    }
    return all;
}

static double pruned_percent(const heads_of *n)
{
    return 100.0 * (n->heads - n->active) / n->heads;
}

void mf_look_gates(const mf_model *m)
{
    for (int32_t l = 0; l < m->config->model.layers; l++) {
        const heads_of n = count(m, l);
        printf("layer %d: %d of %d heads active, %.0f %% pruned; gates", (int)l, (int)n.active,
               (int)n.heads, pruned_percent(&n));
        for (int32_t h = 0; h < n.heads; h++)
            if (is_active(m, l, h))
                printf(" %.3f", gate_of(m, l, h));
            else
                printf(" -");
        putchar('\n');
    }
    const heads_of all = count_all(m);
    printf("all: %d of %d heads active, %.0f %% pruned", (int)all.active, (int)all.heads,
           pruned_percent(&all));
    if (all.low > 0) printf(", %d active with a gate below %g", (int)all.low, LOW);
    putchar('\n');
}

static void put_counts(mf_jw *w, const heads_of *n)
{
    mf_jw_kv_int(w, "heads", n->heads);
    mf_jw_kv_int(w, "active", n->active);
    mf_jw_kv_int(w, "low", n->low);
    mf_jw_kv_real(w, "pruned_percent", pruned_percent(n));
}

void mf_look_gates_json(mf_jw *w, const mf_model *m)
{
    const heads_of all = count_all(m);
    mf_jw_object(w);
    put_counts(w, &all);
    mf_jw_key(w, "layers");
    mf_jw_array(w);
    for (int32_t l = 0; l < m->config->model.layers; l++) {
        const heads_of n = count(m, l);
        mf_jw_object(w);
        mf_jw_kv_int(w, "layer", l);
        put_counts(w, &n);
        mf_jw_key(w, "gate");
        mf_jw_array(w);
        for (int32_t h = 0; h < n.heads; h++)
            if (is_active(m, l, h))
                mf_jw_float(w, (float)gate_of(m, l, h));
            else
                mf_jw_null(w);
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

/* ---- turning ---- */

/* The model has changed: graphs and cached keys are those of another one. */
static int changed(mf_talker *t)
{
    mf_plughost *h = t->session->model->plugins;
    mf_plughost_rebuild(h);
    mf_turns_clear(h);
    return mf_generator_refresh(t->generator);
}

static int turn(mf_plughost *h, int64_t layer, const char *what, int64_t head, double value)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.attention.%s.%d", (int)layer, what, (int)head);
    return mf_live_set(h, name, value, "generate", "set by hand");
}

int mf_look_set_gates(mf_talker *t, const int64_t layer[2], const int64_t head[2], double gate,
                      double *ret_gate)
{
    const mf_model *m = t->session->model;
    const double number = mf_gate_number(m, gate, LOGIT_MOST);
    int rc = MF_OK;
    for (int64_t l = layer[0]; rc == MF_OK && l < layer[1]; l++)
        for (int64_t h = head[0]; rc == MF_OK && h < head[1]; h++) {
            rc = turn(m->plugins, l, "gate", h, number);
            if (rc == MF_OK && gate > 0) rc = turn(m->plugins, l, "active", h, 1);
        }
    *ret_gate = mf_gate_of(m, number);
    return rc == MF_OK ? changed(t) : rc;
}

/* ---- skips ---- */

double mf_look_usual_skip(const mf_model *m)
{
    const double scale = m->config->model.skip_scale;
    return scale != 0 ? scale : 0.1;
}

int mf_look_set_skip(mf_talker *t, double scale)
{
    mf_plughost *h = t->session->model->plugins;
    const int rc = mf_live_set(h, "model.skip_scale", scale, "generate", "set by hand");
    return rc == MF_OK ? changed(t) : rc;
}

void mf_look_skip(const mf_model *m)
{
    printf("skips: %s", m->skip_scale != 0 ? "on" : "off");
    if (m->skip_scale != 0 && m->config->model.skip_form == MF_SKIP_RESIDUAL)
        printf(", scale %g", m->skip_scale);
    putchar('\n');
}

void mf_look_skip_json(mf_jw *w, const mf_model *m)
{
    mf_jw_object(w);
    mf_jw_kv_bool(w, "on", m->skip_scale != 0);
    mf_jw_kv_real(w, "scale", m->skip_scale);
    mf_jw_end(w);
}
