/* Long runs: the hundredth call of a plugin has the same result as the first, a run changes
 * nothing except its results, and a plugin writes only to its own memory. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "kernels/kernel.h"
#include "lab/check/checks.h"
#include "plugin/load/child.h"

enum { QUICK = 320, THOROUGH = 1500 };

static int runs(void)
{
    return mf_check_thorough() ? THOROUGH : QUICK;
}

/* ---- copies of the state before a run ---- */

/* Copies of all inputs of the graph, or of all parameters and buffers, one after another. */
typedef struct copy {
    char *bytes;
    size_t n;
} copy;

enum { INPUTS = 7 };
static const char *const input_name[INPUTS] = {
    "x", "weights", "token_ids", "positions", "sequence_ids", "labels", "mask"};

static const mf_tensor *input_at(const mf_harness *h, int i)
{
    const mf_tensor *all[INPUTS] = {
        h->x,         h->weights, h->in.token_ids, h->in.positions, h->in.sequence_ids,
        h->in.labels, h->in.mask};
    return all[i];
}

/* The bytes of input i; NULL: the graph does not read it. */
static const char *input_bytes(const mf_harness *h, int i, size_t *ret_n)
{
    const mf_tensor *t = input_at(h, i);
    *ret_n = t ? (size_t)mf_shape_count(t->shape) * 4 : 0;
    return t ? mf_tensor_host(t) : NULL;
}

static int copy_inputs(const mf_harness *h, copy *ret)
{
    size_t n, at = 0;
    *ret = (copy){NULL, 0};
    for (int i = 0; i < INPUTS; i++)
        if (input_bytes(h, i, &n)) ret->n += n;
    ret->bytes = mf_alloc_raw(ret->n + 1);
    for (int i = 0; ret->bytes && i < INPUTS; i++) {
        const char *from = input_bytes(h, i, &n);
        if (from) memcpy(ret->bytes + at, from, n);
        at += from ? n : 0;
    }
    return ret->bytes ? MF_OK : MF_ENOMEM;
}

/* Name of the first input that has changed since the copy; NULL: none. */
static const char *changed_input(const mf_harness *h, const copy *before)
{
    size_t n, at = 0;
    for (int i = 0; i < INPUTS; i++) {
        const char *now = input_bytes(h, i, &n);
        if (!now) continue;
        if (memcmp(now, before->bytes + at, n) != 0) return input_name[i];
        at += n;
    }
    return NULL;
}

static int copy_store(const mf_harness *h, copy *ret)
{
    size_t at = 0;
    *ret = (copy){NULL, 0};
    for (int i = 0; i < mf_store_count(h->store); i++)
        ret->n += (size_t)mf_store_at(h->store, i)->count * 4;
    ret->bytes = mf_alloc_raw(ret->n + 1);
    for (int i = 0; ret->bytes && i < mf_store_count(h->store); i++) {
        const mf_param *p = mf_store_at(h->store, i);
        memcpy(ret->bytes + at, mf_param_host(p), (size_t)p->count * 4);
        at += (size_t)p->count * 4;
    }
    return ret->bytes ? MF_OK : MF_ENOMEM;
}

static bool is_own(const mf_harness *h, const mf_param *p)
{
    char pattern[112];
    const mf_param *found;
    snprintf(pattern, sizeof pattern, "%s.*", mf_harness_path(h));
    for (int i = 0; (found = mf_store_match(h->store, pattern, i)) != NULL; i++)
        if (found == p) return true;
    return false;
}

/* The first parameter or buffer that has changed since the copy; NULL: none. Those that the
 * plugin may write are skipped: its own buffers, and for a controller all buffers. */
static const mf_param *changed_param(const mf_harness *h, const copy *before)
{
    const bool controls = h->spec.plugin->kind == MF_CONTROLLER;
    size_t at = 0;
    for (int i = 0; i < mf_store_count(h->store); i++) {
        const mf_param *p = mf_store_at(h->store, i);
        const size_t n = (size_t)p->count * 4;
        const bool same = memcmp(mf_param_host(p), before->bytes + at, n) == 0;
        at += n;
        if (!same && !(p->buffer && (controls || is_own(h, p)))) return p;
    }
    return NULL;
}

/* ---- one graph, many runs ---- */

static mf_verdict judge_run(const mf_harness *h, const copy *inputs, const copy *store, int run,
                            char detail[MF_CHECK_DETAIL])
{
    const char *input = changed_input(h, inputs);
    const mf_param *param = changed_param(h, store);
    if (input)
        return mf_check_failed(detail,
                               "run %d of a graph changed its input %s: an op wrote "
                               "into what it may only read",
                               run, input);
    if (param)
        return mf_check_failed(detail,
                               "run %d of a graph changed %s: expected values as they "
                               "were",
                               run, param->name);
    return MF_CHECK_PASS;
}

static mf_verdict repeat(const mf_harness_spec *spec, char detail[MF_CHECK_DETAIL])
{
    mf_harness *h = NULL;
    copy inputs = {NULL, 0}, store = {NULL, 0};
    char first[33] = "", hash[33];
    mf_verdict v = MF_CHECK_PASS;
    int rc = mf_harness_new(spec, &h);
    if (rc == MF_OK) rc = copy_inputs(h, &inputs);
    if (rc == MF_OK) rc = copy_store(h, &store);
    for (int i = 1; i <= runs() && rc == MF_OK && v == MF_CHECK_PASS; i++) {
        rc = mf_harness_run(h, NULL);
        if (rc != MF_OK) break;
        mf_harness_digest(h, hash);
        if (i == 1) memcpy(first, hash, sizeof first);
        v = judge_run(h, &inputs, &store, i, detail);
        if (v == MF_CHECK_PASS && strcmp(first, hash) != 0)
            v = mf_check_failed(detail,
                                "run %d of a graph: expected the same bits as in the "
                                "first, found others",
                                i);
    }
    mf_harness_free(h);
    mf_free(inputs.bytes);
    mf_free(store.bytes);
    return rc == MF_OK ? v : mf_check_broke(detail, "in a later run of a graph");
}

/* ---- undeclared random numbers ---- */

/* Checks that a graph without random ops computes the same in every step. */
static mf_verdict at_another_step(mf_harness_spec spec, bool training,
                                  char detail[MF_CHECK_DETAIL])
{
    mf_harness *h = NULL;
    mf_draws d;
    char one[33] = "", two[33] = "";
    spec.training = spec.gradients = training;
    int rc = mf_check_harness(&spec, &h, &d);
    if (rc == MF_OK) rc = mf_harness_run(h, NULL);
    if (rc == MF_OK) mf_harness_digest(h, one);
    if (rc == MF_OK) h->step += 1001;
    if (rc == MF_OK) rc = mf_harness_run(h, NULL);
    if (rc == MF_OK) mf_harness_digest(h, two);
    mf_harness_free(h);
    if (rc != MF_OK) return mf_check_broke(detail, "at another step");
    if (d.other || (d.dropout && training) || strcmp(one, two) == 0) return MF_CHECK_PASS;
    return mf_check_failed(detail,
                           "in %s the results depend on the number of the step, and no op says "
                           "that it draws random numbers (MF_OP_RANDOM)",
                           training ? "training" : "evaluation");
}

/* ---- many steps ---- */

/* Makes many steps. Between two runs only the plugin's own buffers may change. */
static mf_verdict many_steps(const mf_harness_spec *spec, char detail[MF_CHECK_DETAIL])
{
    enum { LOOK = 16 };
    mf_harness *h = NULL;
    copy store = {NULL, 0};
    const mf_param *changed = NULL;
    int step = 0;
    int rc = mf_harness_new(spec, &h);
    for (; step < runs() && rc == MF_OK && !changed; step++) {
        rc = mf_harness_step(h);
        if (rc != MF_OK || step % LOOK != 0) continue;
        mf_free(store.bytes);
        rc = copy_store(h, &store);
        if (rc == MF_OK) rc = mf_harness_after(h);
        if (rc == MF_OK) changed = changed_param(h, &store);
    }
    const int64_t bad = rc == MF_OK && !changed ? mf_harness_not_finite(h) : 0;
    mf_verdict v = MF_CHECK_PASS;
    char when[64];
    snprintf(when, sizeof when, "in step %d", step);
    if (rc != MF_OK)
        v = mf_check_broke(detail, when);
    else if (changed)
        v = mf_check_failed(detail,
                            "it wrote to %s between two steps: expected its own buffers "
                            "to change, and nothing else",
                            changed->name);
    else if (bad > 0)
        v = mf_check_failed(detail,
                            "after %d steps: expected finite values everywhere, found "
                            "%lld that are not",
                            step, (long long)bad);
    mf_free(store.bytes);
    mf_harness_free(h);
    return v;
}

/* Hundreds of runs of one graph have the same bits and change nothing else. A graph without
 * random ops computes the same at every step. Hundreds of training steps succeed with finite
 * values, and write to no parameter and to no buffer of another plugin. */
mf_verdict mf_check_long_runs(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.layers = MF_HARNESS_LAYERS;
    spec.seq = 4;
    spec.masked = true;
    spec.training = spec.gradients = true;
    mf_verdict v = at_another_step(spec, false, detail);
    if (v == MF_CHECK_PASS) v = at_another_step(spec, true, detail);
    mf_child_say("at many runs");
    if (v == MF_CHECK_PASS) v = repeat(&spec, detail);
    mf_child_say("at many steps");
    spec.masked = false;
    spec.beside = true;
    if (v == MF_CHECK_PASS) v = many_steps(&spec, detail);
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "%d runs have the same bits and leave inputs as they are, %d steps succeed",
                 runs(), runs());
    return v;
}
