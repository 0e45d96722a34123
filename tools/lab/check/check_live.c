/* Live options: a graph that was built before an option changed must compute the same as a
 * graph built with the new value. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"

/* ---- two harnesses ---- */

static bool same_values(const mf_tensor *a, const mf_tensor *b, const char *what, char *why,
                        size_t size)
{
    const float *x = a ? mf_tensor_host(a) : NULL, *y = b ? mf_tensor_host(b) : NULL;
    const int64_t n = x && y ? mf_shape_count(a->shape) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (mf_check_close((double)x[i], (double)y[i], 1e-4)) continue;
        snprintf(why, size, "%s %lld: %.8g and %.8g", what, (long long)i, (double)x[i],
                 (double)y[i]);
        return false;
    }
    return true;
}

/* Whether two harnesses have nearly equal records, outputs, losses and live options. */
static bool same_results(const mf_harness *a, const mf_harness *b, char *why, size_t size)
{
    for (int32_t l = 0; l < a->spec.layers; l++) {
        const mf_routing *r = &a->out[l].routing, *q = &b->out[l].routing;
        for (int32_t i = 0; i < r->n_losses && i < q->n_losses; i++)
            if (!same_values(r->loss[i], q->loss[i], r->loss_name[i], why, size)) return false;
        if (!same_values(r->prob, q->prob, "probability", why, size)) return false;
        if (r->rows == q->rows &&
            !same_values(a->out[l].gate, b->out[l].gate, "gate", why, size))
            return false;
    }
    if (!same_values(a->penalty, b->penalty, "the penalty", why, size) ||
        !same_values(a->y, b->y, "output", why, size) ||
        !same_values(a->x->grad, b->x->grad, "gradient of x", why, size))
        return false;
    const char *name;
    for (int i = 0; (name = mf_live_name(a->host, i)) != NULL; i++) {
        double u = 0, v = 0;
        if (mf_live_get(a->host, name, &u) != MF_OK ||
            mf_live_get(b->host, name, &v) != MF_OK || mf_check_close(u, v, 1e-6))
            continue;
        snprintf(why, size, "%s: %.8g and %.8g", name, u, v);
        return false;
    }
    return true;
}

/* ---- one option ---- */

typedef struct turn {
    const mf_option *o;
    char text[32];
    double to;
} turn;

/* Compares two runs: one sets the option after the graph is built, the other builds the graph
 * with the option set. *ret_new: nothing can be compared, because the change requests new
 * graphs or the value is declined. */
static int compare(const mf_harness_spec *given, const turn *t, bool *ret_new, bool *ret_same,
                   char *why, size_t size)
{
    mf_harness_spec spec = *given;
    mf_harness *a = NULL, *b = NULL;
    char name[120];
    mf_harness_live_name(spec.plugin, t->o->name, name, sizeof name);
    int rc = mf_harness_new(&spec, &a);
    if (rc == MF_OK) (void)mf_plughost_rebuild(a->host);
    if (rc == MF_OK) rc = mf_live_set(a->host, name, t->to, "check", "live");
    *ret_new = rc == MF_OK && mf_plughost_rebuild(a->host) != NULL;
    spec.option = t->o->name;
    spec.value = t->text;
    if (rc == MF_OK) rc = mf_harness_new(&spec, &b);
    for (int i = 0; rc == MF_OK && i < mf_store_count(b->store); i++) {
        mf_param *p = mf_store_at(b->store, i); /* start values may depend on the option */
        const mf_param *q = mf_store_find(a->store, p->name);
        if (q && q->count == p->count)
            mf_param_write(p, mf_param_host(q), 0, (size_t)p->count * sizeof(float));
    }
    const mf_kernels *ref = &mf_kernels_ref;
    if (rc == MF_OK && !*ret_new) rc = mf_harness_run(a, ref);
    if (rc == MF_OK && !*ret_new) rc = mf_harness_run(b, ref);
    for (int i = 0; i < 3 && rc == MF_OK && !*ret_new && a->controller; i++) {
        a->step = b->step = i + 1;
        rc = mf_harness_after(a);
        if (rc == MF_OK) rc = mf_harness_after(b);
    }
    *ret_same = rc != MF_OK || *ret_new || same_results(a, b, why, size);
    mf_harness_free(a);
    mf_harness_free(b);
    return rc;
}

static double default_of(const mf_option *o)
{
    if (o->type == MF_OPT_BOOL) return o->value && strcmp(o->value, "yes") == 0;
    return o->value ? strtod(o->value, NULL) : 1;
}

/* Draws a value that differs enough from the default. Returns false if there is no
 * such value. */
static bool draw_turn(const mf_loaded *plugin, const mf_option *o, int draw, turn *ret)
{
    const double now = default_of(o);
    ret->o = o;
    for (int i = 0; i < 8; i++) {
        char text[32];
        if (!mf_check_value(o, 8 * draw + i, 512 + (int)(o - plugin->schema.options), text,
                            sizeof text))
            return false;
        ret->to = o->type == MF_OPT_BOOL ? now == 0 : strtod(text, NULL);
        if (ret->to == 0 && o->type != MF_OPT_BOOL) continue; /* 0 often means "off" */
        snprintf(ret->text, sizeof ret->text, "%.9g", ret->to);
        if (o->type == MF_OPT_BOOL)
            snprintf(ret->text, sizeof ret->text, now == 0 ? "yes" : "no");
        if (fabs(ret->to - now) > 0.02 * fmax(fabs(now), 1e-6)) return true;
    }
    return false;
}

mf_verdict mf_check_live(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    const int draws = mf_check_thorough() ? 6 : 2;
    int n = 0;
    for (int i = 0; i < plugin->schema.count; i++) {
        const mf_option *o = &plugin->schema.options[i];
        if ((o->flags & MF_OPT_LIVE) == 0) continue;
        n++;
        for (int j = 0; j < 2 * draws; j++) {
            mf_harness_spec spec = mf_check_spec(plugin);
            char why[200];
            turn t;
            bool anew, same;
            if (!draw_turn(plugin, o, j, &t)) continue;
            spec.training = spec.gradients = j % 2 == 0;
            spec.shaken = 1 + j;
            const int rc = compare(&spec, &t, &anew, &same, why, sizeof why);
            if (rc != MF_OK && !mf_check_declined(rc)) return mf_check_broke(detail, o->name);
            if (!same)
                return mf_check_failed(
                    detail,
                    "%s set to %s when the graph exists, and in a graph built with it "
                    "(mf->live gives a value that the graph follows): %s",
                    o->name, t.text, why);
        }
    }
    if (n == 0) return mf_check_skip(detail, "it has no live options");
    snprintf(detail, MF_CHECK_DETAIL, "graphs follow %s of %d", n == 1 ? "the one" : "each", n);
    return MF_CHECK_PASS;
}
