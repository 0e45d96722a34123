/* look.c: shows and sets gates of heads and switches of adapters. After a change the
 * generator rebuilds its graphs and drops its cached keys. */
#include "cli/talk/look.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "model/heads.h"

/* gates of 0 and 1 have no finite logit, so logits are limited to this absolute value */
#define LOGIT_MOST 10.0
#define LOW        0.1 /* a gate below this counts as low */

static bool has_gates(const mf_model *m)
{
    for (int64_t l = 0; l < m->config->model.layers; l++)
        if (m->gates[l]) return true;
    return false;
}

/* The live option of an adapter that turns the adapter off at 0, such as the scale of skips. */
static const char *skip_option(const mf_model *m)
{
    return mf_live_switch(m->plugins, "adapter.");
}

static double skip_scale(const mf_model *m)
{
    double scale = 0;
    const char *option = skip_option(m);
    if (option) (void)mf_live_get(m->plugins, option, &scale);
    return scale;
}

bool mf_look_has_skips(const mf_model *m)
{
    return skip_option(m) != NULL;
}

int mf_look_needs_gates(const mf_model *m)
{
    if (has_gates(m)) return MF_OK;
    return mf_fail(MF_EUSAGE, "the heads of this model have no gates (no adapter head_gates)");
}

int mf_look_needs_skips(const mf_model *m)
{
    if (mf_look_has_skips(m)) return MF_OK;
    return mf_fail(MF_EUSAGE, "this model has no skips (no adapter that has a switch)");
}

/* ---- gates ---- */

typedef struct {
    int32_t heads, active, low; /* low: number of active heads with a gate below LOW */
} heads_of;

static double gate_of(const mf_model *m, int32_t layer, int32_t head)
{
    return m->gates[layer] ? mf_gate_of(m, (double)mf_param_host(m->gates[layer])[head]) : 1;
}

static bool is_active(const mf_model *m, int32_t layer, int32_t head)
{
    const mf_param *active = mf_head_param(m, layer, "active");
    return !active || mf_param_host(active)[head] != 0;
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

/* ---- setting ---- */

/* Updates the generator after a change of the model: its graphs and cached keys are no
 * longer valid. */
static int changed(mf_talker *t)
{
    mf_plughost *h = t->session->model->plugins;
    mf_plughost_rebuild(h);
    mf_changes_clear(h);
    return mf_generator_refresh(t->generator);
}

static int set_head(mf_plughost *h, const mf_param *p, int64_t head, double value)
{
    char name[192];
    if (!p) return MF_OK;
    snprintf(name, sizeof name, "%s.%d", p->name, (int)head);
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
            rc = set_head(m->plugins, m->gates[l], h, number);
            if (rc == MF_OK && gate > 0)
                rc = set_head(m->plugins, mf_head_param(m, (int32_t)l, "active"), h, 1);
        }
    *ret_gate = mf_gate_of(m, number);
    return rc == MF_OK ? changed(t) : rc;
}

/* ---- skips ---- */

double mf_look_usual_skip(const mf_model *m)
{
    const char *option = skip_option(m), *dot = option ? strrchr(option, '.') : NULL;
    char section[64];
    double scale = 0;
    if (!dot) return 0.1;
    snprintf(section, sizeof section, "%.*s", (int)(dot - option), option);
    const mf_ini_entry *e = mf_ini_get(m->config->ini, section, dot + 1);
    return e && mf_parse_f64(e->value, &scale) && scale != 0 ? scale : 0.1;
}

int mf_look_set_skip(mf_talker *t, double scale)
{
    mf_plughost *h = t->session->model->plugins;
    const int rc =
        mf_live_set(h, skip_option(t->session->model), scale, "generate", "set by hand");
    return rc == MF_OK ? changed(t) : rc;
}

void mf_look_skip(const mf_model *m)
{
    const double scale = skip_scale(m);
    printf("skips: %s", scale != 0 ? "on" : "off");
    if (scale != 0) printf(", scale %g", scale);
    putchar('\n');
}

void mf_look_skip_json(mf_jw *w, const mf_model *m)
{
    mf_jw_object(w);
    mf_jw_kv_bool(w, "on", skip_scale(m) != 0);
    mf_jw_kv_real(w, "scale", skip_scale(m));
    mf_jw_end(w);
}
