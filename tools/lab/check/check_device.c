/* Ops of a plugin on a GPU. The check runs the examples of ops that have functions or code for
 * the device cuda. Their values and gradients on the device must equal those on the host.
 * Without such a device the check is skipped. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "lab/check/checks.h"
#include "plugin/crash.h"
#include "run/backend.h"
#include "plugin/load/child.h"
#include "plugin/load/device_code.h"

#define DEVICE    "cuda"
#define TOLERANCE 1e-4 /* functions and sums of a GPU are rounded differently */

/* A graph of the op, on one of the two devices. */
typedef struct alone {
    mf_graph *g;
    mf_tensor *in[MF_OP_MAX_IN], *out[MF_OP_MAX_OUT], *to[MF_OP_MAX_IN];
    int n_out, n_to;
} alone;

/* Adds the gradient of the sum of squares of all f32 outputs to each input that can have
 * a gradient. */
static int add_gradient(alone *a)
{
    const mf_attr all = {.i = {15}};
    mf_tensor *loss = NULL;
    for (int i = 0; i < a->n_out; i++) {
        if (a->out[i]->dtype != MF_F32) continue;
        mf_tensor *two[] = {a->out[i], a->out[i]};
        mf_tensor *square = mf_graph_op_named(a->g, "mul", 2, two, NULL, 1, NULL);
        mf_tensor *sum = mf_graph_op_named(a->g, "sum", 1, &square, &all, 1, NULL);
        mf_tensor *both[] = {loss, sum};
        loss = loss ? mf_graph_op_named(a->g, "add", 2, both, NULL, 1, NULL) : sum;
    }
    return loss ? mf_graph_backward(a->g, loss, a->n_to, a->to) : mf_graph_status(a->g);
}

/* Builds the graph of an example on a device. The caller frees a->g, also after a failure. */
static int build(const mf_op_example *e, mf_device *d, alone *a)
{
    const mf_opdef *op = e->op;
    const bool slopes = (op->flags & MF_OP_NO_GRAD) == 0 && (op->grad || op->backward);
    *a = (alone){.g = mf_graph_new(&(mf_graph_options){.device = d, .training = slopes})};
    if (!a->g) return MF_ENOMEM;
    for (int i = 0; i < e->n_in; i++) {
        if (e->shape[i].rank < 0) continue;
        a->in[i] = mf_graph_input(a->g, "in", e->dtype[i], e->shape[i]);
        if (!slopes || e->dtype[i] != MF_F32 || !(op->diff_in >> i & 1u)) continue;
        mf_graph_want_grad(a->in[i]);
        a->to[a->n_to++] = a->in[i];
    }
    mf_tensor *first = mf_graph_op(a->g, op, e->n_in, a->in, &e->attr, 1, NULL);
    if (!first) return mf_graph_status(a->g);
    const mf_node *node = mf_tensor_producer(first);
    for (int i = 0; i < node->n_out; i++)
        mf_graph_keep(a->out[a->n_out++] = node->out[i]);
    int rc = a->n_to > 0 ? add_gradient(a) : MF_OK;
    for (int i = 0; rc == MF_OK && i < a->n_to; i++)
        if (a->to[i]->grad) mf_graph_keep(a->to[i]->grad);
    if (rc == MF_OK) rc = mf_graph_finish(a->g);
    for (int i = 0; rc == MF_OK && i < e->n_in; i++)
        if (a->in[i]) mf_check_fill(e, i, mf_tensor_input(a->in[i]));
    return rc == MF_OK ? mf_graph_run(a->g, &(mf_run){.seed = MF_CHECK_SEED}) : rc;
}

static int same(const mf_op_example *e, const char *what, int number, const mf_tensor *host,
                const mf_tensor *device, double *worst)
{
    const void *x = mf_tensor_host(host), *y = mf_tensor_host(device);
    const int64_t n = mf_shape_count(host->shape);
    if (!x || !y) return mf_error_code();
    for (int64_t k = 0; k < n; k++) {
        const bool whole = host->dtype != MF_F32;
        const double a = whole ? ((const int32_t *)x)[k] : (double)((const float *)x)[k];
        const double b = whole ? ((const int32_t *)y)[k] : (double)((const float *)y)[k];
        const double off = fabs(a - b) / (whole ? 1 : TOLERANCE * (1 + fabs(a)));
        if (off > *worst) *worst = off;
        if (whole ? a != b : !(off <= 1) && !(isnan(a) && isnan(b)))
            return mf_fail(
                MF_EPLUGIN,
                "%s: element %lld of %s %d: expected %.9g as on the host, found %.9g",
                e->op->name, (long long)k, what, number, a, b);
    }
    return MF_OK;
}

static int check_one(const mf_op_example *e, mf_device *d, double *worst)
{
    alone host, device = {.g = NULL};
    int rc = build(e, NULL, &host);
    if (rc == MF_OK) rc = build(e, d, &device);
    for (int i = 0; rc == MF_OK && i < host.n_out; i++)
        rc = same(e, "output", i, host.out[i], device.out[i], worst);
    for (int i = 0; rc == MF_OK && i < host.n_to; i++)
        if (host.to[i]->grad && device.to[i]->grad)
            rc = same(e, "gradient", i, host.to[i]->grad, device.to[i]->grad, worst);
    mf_graph_free(device.g);
    mf_graph_free(host.g);
    return rc;
}

static bool for_device(const mf_opdef *op)
{
    char text[512];
    mf_device_code_text(op, text, sizeof text);
    return strstr(text, DEVICE ": ") != NULL;
}

mf_verdict mf_check_device(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    double worst = 0;
    int n = 0, rc = MF_OK;
    mf_device *d = NULL;
    for (int32_t i = 0; i < plugin->n_examples; i++)
        n += for_device(plugin->examples[i]->op);
    if (n == 0) {
        snprintf(detail, MF_CHECK_DETAIL, "no example's op has code for device " DEVICE);
        return MF_CHECK_SKIP;
    }
    mf_child_any_memory();
    if (mf_backend_open(DEVICE, &d) != MF_OK) {
        snprintf(detail, MF_CHECK_DETAIL, "%s", mf_error_message());
        return MF_CHECK_SKIP;
    }
    d->host_ops_refused = true;
    for (int32_t i = 0; rc == MF_OK && i < plugin->n_examples; i++) {
        const mf_op_example *e = plugin->examples[i];
        const mf_site site = {plugin->name, plugin->path, "an op on a device", "an example"};
        if (!for_device(e->op)) continue;
        const mf_site *outer = mf_crash_site(&site);
        rc = check_one(e, d, &worst);
        mf_crash_site(outer);
    }
    if (rc == MF_OK)
        snprintf(detail, MF_CHECK_DETAIL,
                 "%d examples: the host's values on device " DEVICE
                 ", worst difference %.2f of what is tolerated",
                 n, worst);
    else if (rc == MF_EDEP)
        snprintf(detail, MF_CHECK_DETAIL, "%s", mf_error_message());
    else
        (void)mf_check_broke(detail, "on device " DEVICE);
    mf_device_close(d);
    return rc == MF_OK ? MF_CHECK_PASS : rc == MF_EDEP ? MF_CHECK_SKIP : MF_CHECK_FAIL;
}
