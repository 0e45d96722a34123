/* Drawn models: sizes, lengths of sequences, options and the plugins beside the checked plugin
 * are drawn from the seed. So rules that hold at the sizes of other checks are also tried at
 * other sizes. The same seed draws the same models. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "lab/bench/stub.h"
#include "lab/check/checks.h"
#include "plugin/load/child.h"

/* ---- drawing ---- */

int32_t mf_check_number(int draw, int what, int32_t lo, int32_t hi)
{
    const uint64_t n = (uint64_t)((int64_t)hi - lo) + 1;
    return lo + (int32_t)mf_rng_below(mf_check_seed(), (uint64_t)what, 0, (uint64_t)draw, n);
}

/* The first and the last whole number to draw from for an option of this type. */
static void whole_range(const mf_option *o, double *ret_lo, double *ret_hi)
{
    const double at = o->value ? strtod(o->value, NULL) : 1;
    *ret_lo = ceil(o->lo);
    *ret_hi = floor(o->hi);
    if (*ret_hi - *ret_lo <= 64) return;
    *ret_lo = fmax(*ret_lo, floor(at / 2)); /* for sizes: larger values only cost time */
    *ret_hi = fmin(*ret_hi, 2 * at + 8);
}

static double real_value(const mf_option *o, double u)
{
    const double at = o->value ? strtod(o->value, NULL) : 1;
    double v = at != 0 ? at * exp2(4 * u - 2) : u;
    if (o->hi - o->lo <= 100) v = o->lo + (o->hi - o->lo) * (0.02 + 0.96 * u);
    return fmin(fmax(v, o->lo), o->hi);
}

bool mf_check_value(const mf_option *o, int draw, int what, char *out, size_t size)
{
    const double u = (double)mf_rng_uniform(mf_check_seed(), (uint64_t)what, 1, (uint64_t)draw);
    double lo, hi;
    int n = 0;
    switch (o->type) {
    case MF_OPT_INT:
        whole_range(o, &lo, &hi);
        snprintf(out, size, "%.0f", lo + floor(u * (hi - lo + 1)));
        return hi >= lo;
    case MF_OPT_REAL:
        snprintf(out, size, "%.6g", real_value(o, u));
        return true;
    case MF_OPT_BOOL:
        snprintf(out, size, "%s", u < 0.5 ? "no" : "yes");
        return true;
    case MF_OPT_ENUM:
        while (o->choices[n])
            n++;
        snprintf(out, size, "%s", o->choices[(int)(u * n)]);
        return true;
    default:
        return false;
    }
}

/* The purposes of the drawn numbers of a model. Each is the stream `what`
 * of mf_check_number. */
enum { SEQ = 20, SEQ_KIND, BATCH, EXPERTS, TOP_K, DIM, LAYERS, LENGTHS, CAPACITY, ROUTER };
enum {
    OPTION = 64,
    WHETHER = 256
}; /* Each option has two streams: WHETHER + i draws whether
                                      * option i is set, OPTION + i draws its value. */

/* Draws a length. In three of ten draws it is a power of two or one of its neighbours, because
 * loops over blocks end there. */
static int32_t draw_seq(int draw, int32_t largest)
{
    const int kind = mf_check_number(draw, SEQ_KIND, 0, 9);
    if (kind == 0) return 1;
    if (kind == 1) return mf_check_number(draw, SEQ, 2, 8);
    if (kind <= 4)
        return (1 << mf_check_number(draw, SEQ, 3, 7)) + mf_check_number(draw, DIM + 30, -1, 1);
    return kind <= 7 ? mf_check_number(draw, SEQ, 9, 96)
                     : mf_check_number(draw, SEQ, 97, largest > 97 ? largest : 97);
}

static void draw_sizes(int draw, int32_t largest, mf_harness_spec *spec)
{
    const bool routes = spec->plugin->kind == MF_ROUTER;
    const int32_t seq = draw_seq(draw, largest);
    spec->seq = seq < largest ? seq : largest;
    spec->batch = mf_check_number(draw, BATCH, 1, 4);
    while (spec->batch > 1 && spec->batch * spec->seq > largest)
        spec->batch--;
    spec->dim = routes && draw % 2 ? mf_check_number(draw, DIM, 5, 24)
                                   : 4 * mf_check_number(draw, DIM, 2, 6);
    const int32_t experts = draw % 5 != 4 ? mf_check_number(draw, EXPERTS, 1, 20)
                                          : mf_check_number(draw, EXPERTS, 21, 48);
    const int32_t most = experts < 6 ? experts : 6;
    mf_check_sizes(spec, experts, mf_check_number(draw, TOP_K, 1, most));
}

/* A drawn model. */
#define MF_CHECK_OPTIONS 24
typedef struct drawn_model {
    mf_harness_spec spec;
    char option[MF_CHECK_OPTIONS][160];
    const char *drawn[MF_CHECK_OPTIONS + 1];
    char text[MF_CHECK_DETAIL / 2]; /* describes what was drawn, in words */
} drawn_model;

static void draw_options(int draw, drawn_model *m)
{
    const mf_schema *s = &m->spec.plugin->schema;
    char value[96];
    int n = 0;
    for (int i = 0; draw % 2 == 1 && i < s->count && n < MF_CHECK_OPTIONS; i++) {
        const mf_option *o = &s->options[i];
        if (mf_check_number(draw, WHETHER + i, 0, 3) == 0) continue;
        if (!mf_check_value(o, draw, OPTION + i, value, sizeof value)) continue;
        snprintf(m->option[n], sizeof m->option[n], "%s=%s", o->name, value);
        m->drawn[n] = m->option[n];
        n++;
    }
    m->spec.drawn = m->drawn;
}

static void say(int draw, drawn_model *m)
{
    const mf_harness_spec *s = &m->spec;
    size_t n = (size_t)snprintf(m->text, sizeof m->text,
                                "draw %d of seed %llu: batch %d, seq "
                                "%d, dim %d, experts %d, k %d, layers %d%s%s%s%s",
                                draw, (unsigned long long)mf_check_seed(), (int)s->batch,
                                (int)s->seq, (int)s->dim, (int)s->experts, (int)s->top_k,
                                (int)s->layers, s->lengths != 0 ? ", padding" : "",
                                s->capacity > 0 ? ", a capacity" : "", s->router ? ", " : "",
                                s->router ? s->router->name : "");
    for (int i = 0; m->drawn[i] && n < sizeof m->text; i++)
        n += (size_t)snprintf(m->text + n, sizeof m->text - n, ", %s", m->drawn[i]);
}

/* The largest divisor of n that is at most `most`. */
static long long divisor(long long n, long long most)
{
    long long best = most < n ? most : n;
    while (best > 1 && n % best != 0)
        best--;
    return best;
}

static long long power_of_two(long long most)
{
    long long n = 1;
    while (2 * n <= most)
        n *= 2;
    return n;
}

/* Kinds of values that plugins are likely to accept: divisors of E, divisors of a row's width,
 * and powers of two for matrices that are built by doubling. */
typedef enum likely { OF_EXPERTS, OF_DIM, POWERS, LIKELY } likely;

/* Replaces each whole number among the drawn values by the largest number of that kind that is
 * not above it, unless the option requires more. */
static void make_likely(drawn_model *m, likely kind)
{
    for (int i = 0; m->drawn[i]; i++) {
        char name[96], *equals = strchr(m->option[i], '=');
        long long v;
        snprintf(name, sizeof name, "%.*s", (int)(equals - m->option[i]), m->option[i]);
        const mf_option *o = mf_schema_find(&m->spec.plugin->schema, name);
        if (!o || o->type != MF_OPT_INT || !mf_parse_i64(equals + 1, &v) || v < 1) continue;
        const long long to = kind == POWERS   ? power_of_two(v)
                             : kind == OF_DIM ? divisor(m->spec.dim, v)
                                              : divisor(m->spec.experts, v);
        if ((double)to < o->lo) continue;
        snprintf(m->option[i], sizeof m->option[i], "%s=%lld", name, to);
    }
}

static void forget_last_option(drawn_model *m)
{
    int n = 0;
    while (m->drawn[n])
        n++;
    m->drawn[n - 1] = NULL;
}

/* Whether the plugin declines the model. Making an instance shows it, because most plugins
 * decline options there. */
static bool declines(int draw, drawn_model *m)
{
    mf_harness_spec spec = m->spec;
    mf_harness *harness = NULL;
    spec.only_init = true;
    say(draw, m);
    mf_child_say("at %s", m->text);
    const int rc = mf_harness_new(&spec, &harness);
    mf_harness_free(harness);
    mf_error_clear();
    return rc == MF_ECONFIG;
}

/* If the plugin declines the drawn options together, tries likelier values, then fewer options,
 * so that most drawn models run. Every seventh draw is left unchanged. */
static void mend(int draw, drawn_model *m)
{
    char drawn[MF_CHECK_OPTIONS][160];
    if (draw % 7 == 6 || !m->drawn[0] || !declines(draw, m)) return;
    memcpy(drawn, m->option, sizeof drawn);
    for (likely kind = 0; kind < LIKELY; kind++) {
        make_likely(m, kind);
        if (!declines(draw, m)) return;
        memcpy(m->option, drawn, sizeof drawn);
    }
    make_likely(m, OF_EXPERTS);
    while (m->drawn[0] && declines(draw, m))
        forget_last_option(m);
}

/* Draws sizes, lengths of sequences, options, and the plugins beside the checked one. largest:
 * maximum number of tokens. */
static void draw_model(const mf_loaded *plugin, int draw, int32_t largest, drawn_model *ret)
{
    *ret = (drawn_model){.spec = mf_check_spec(plugin)};
    mf_harness_spec *s = &ret->spec;
    draw_sizes(draw, largest, s);
    s->layers = mf_check_number(draw, LAYERS, 1, MF_HARNESS_LAYERS);
    s->shaken = draw % 2 == 1 ? 0 : 1 + draw % 5; /* odd draws have drawn options and
                                                   * start values */
    if (mf_check_number(draw, LENGTHS, 0, 2) == 0) s->lengths = mf_check_seed() + 1;
    if (mf_check_number(draw, CAPACITY, 0, 3) == 0)
        s->capacity = 0.25 * mf_check_number(draw, CAPACITY + 30, 2, 8);
    const int router = plugin->kind == MF_ROUTER ? 0 : mf_check_number(draw, ROUTER, 0, 4);
    if (router == 3) s->router = mf_stub_router_listed();
    if (router == 4) s->router = mf_stub_router_bare();
    draw_options(draw, ret);
    mend(draw, ret);
    say(draw, ret);
}

/* ---- records ---- */

/* Greatest absolute value of a difference that should be 0. */
#define ROUNDED 1e-6f

/* If a router sets expert, gate and renormalize = 1, the gates of each token that has an expert
 * must sum to gate_scale. Routers that list tokens are not checked. */
static bool sound_sums(const mf_routing *r, const float *gate, char *why, size_t size)
{
    const int32_t *chosen = mf_tensor_host(r->chosen);
    const int32_t k = r->rows / r->tokens;
    if (!r->expert || !r->gate || r->token || r->renormalize != 1) return true;
    for (int32_t t = 0; t < r->tokens; t++) {
        double sum = 0;
        bool any = false;
        for (int32_t i = t * k; i < (t + 1) * k; i++) {
            if (chosen[i] < 0) continue;
            sum += (double)gate[i];
            any = true;
        }
        if (!any || fabs(sum - r->gate_scale) <= 1e-4 * fmax(1, fabs(r->gate_scale))) continue;
        snprintf(why, size,
                 "token %d: renormalize = 1 says that its gates sum to %g, found %.6g", (int)t,
                 r->gate_scale, sum);
        return false;
    }
    return true;
}

static bool sound_rows(const mf_routing *r, const float *gate, char *why, size_t size)
{
    const int32_t *chosen = mf_tensor_host(r->chosen);
    const float *silent = r->silent ? mf_tensor_host(r->silent) : NULL;
    const int32_t k = !r->token ? r->rows / r->tokens : 1;
    for (int32_t i = 0; i < r->rows; i++) {
        for (int32_t j = i - i % k; j < i; j++) {
            if (chosen[i] < 0 || chosen[i] != chosen[j]) continue;
            snprintf(why, size, "token %d goes to expert %d twice", (int)(i / k),
                     (int)chosen[i]);
            return false;
        }
        if (silent && silent[i] != 0 && silent[i] != 1)
            snprintf(why, size, "row %d: silent: expected 0 or 1, found %g", (int)i,
                     (double)silent[i]);
        else if (silent && silent[i] != 0 && gate[i] != 0)
            snprintf(why, size, "row %d: it is silent: expected a gate of 0, found %g", (int)i,
                     (double)gate[i]);
        else if (!isfinite(gate[i]))
            snprintf(why, size, "row %d: its gate is not a number", (int)i);
        else if (gate[i] < -ROUNDED)
            snprintf(why, size, "row %d: expected a gate of at least 0, found %g", (int)i,
                     (double)gate[i]);
        else
            continue;
        return false;
    }
    return true;
}

/* Checks a record. The ops that group assignments have already checked that experts are in -1
 * .. E-1. */
bool mf_check_sound(const mf_harness *harness, char *why, size_t size)
{
    for (int32_t l = 0; l < harness->spec.layers; l++) {
        const mf_routing *r = &harness->out[l].routing;
        const float *gate = mf_tensor_host(harness->out[l].gate);
        if (!sound_rows(r, gate, why, size) || !sound_sums(r, gate, why, size)) return false;
        if (r->renormalize < -1 || r->renormalize > 1) {
            snprintf(why, size, "renormalize: expected -1, 0 or 1, found %d",
                     (int)r->renormalize);
            return false;
        }
        const float *prob = r->prob ? mf_tensor_host(r->prob) : NULL;
        for (int64_t i = 0; prob && i < (int64_t)r->tokens * r->experts; i++) {
            if (prob[i] >= -ROUNDED) continue;
            snprintf(why, size,
                     "token %d, expert %d: expected a probability of at least 0, found %g",
                     (int)(i / r->experts), (int)(i % r->experts), (double)prob[i]);
            return false;
        }
        for (int32_t i = 0; i < r->n_losses; i++) {
            if (isfinite(*(const float *)mf_tensor_host(r->loss[i]))) continue;
            snprintf(why, size, "its loss '%s' is not a number", r->loss_name[i]);
            return false;
        }
    }
    if (mf_harness_not_finite(harness) == 0) return true;
    snprintf(why, size, "expected finite values everywhere, found %lld that are not",
             (long long)mf_harness_not_finite(harness));
    return false;
}

static mf_verdict broke_at(char detail[MF_CHECK_DETAIL], const char *when, const char *text)
{
    (void)mf_check_broke(detail, when);
    const size_t n = strlen(detail);
    snprintf(detail + n, MF_CHECK_DETAIL - n, " (%s)", text);
    return MF_CHECK_FAIL;
}

/* The results of the models of a check. operations: approximate work of graphs and
 * start values. */
typedef struct sums {
    int declined;
    double operations;
} sums;

static double operations_of(const mf_harness *harness, int runs)
{
    enum { OF_START_VALUE = 100 };
    int64_t parameters;
    mf_store_values(harness->store, &parameters);
    return runs * mf_graph_operations(harness->g) + OF_START_VALUE * (double)parameters;
}

/* Runs a model once in evaluation and makes two steps of training. */
static mf_verdict use(const mf_harness_spec *given, const char *text, sums *all,
                      char detail[MF_CHECK_DETAIL])
{
    char why[200];
    mf_child_say("at %s", text);
    for (int training = 0; training < 2; training++) {
        mf_harness_spec spec = *given;
        mf_harness *harness = NULL;
        const char *when = training == 1 ? "training" : "evaluation";
        spec.training = spec.gradients = training == 1;
        int rc = mf_harness_new(&spec, &harness);
        if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
        /* Drawn options may together lead to values that are not finite. Such a model is
         * not judged. */
        const bool judged =
            rc == MF_OK && !(spec.drawn && spec.drawn[0] && mf_harness_not_finite(harness) > 0);
        const bool sound = !judged || mf_check_sound(harness, why, sizeof why);
        for (int i = 0; i < 2 && judged && sound && training == 1 && rc == MF_OK; i++)
            rc = mf_harness_step(harness);
        /* a training step costs about as much as three runs */
        if (harness) all->operations += operations_of(harness, training == 1 ? 9 : 1);
        mf_harness_free(harness);
        if (!sound) return mf_check_failed(detail, "%s: %s (%s)", when, why, text);
        if (rc == MF_OK) continue;
        /* many plugins require probabilities; without them an error that says so passes */
        const bool lacks = spec.router && spec.router == mf_stub_router_bare();
        if (!mf_check_declined(rc) && !lacks) return broke_at(detail, when, text);
        all->declined++;
        break;
    }
    return MF_CHECK_PASS;
}

/* Drawn models, and small models with combinations of options, must produce sound records in
 * evaluation and in two steps of training, or be declined. */
mf_verdict mf_check_drawn(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    enum { QUICK = 24, THOROUGH = 150, SMALL = 12, FIRST_SMALL = 1001 };
    const int n = mf_check_thorough() ? THOROUGH : QUICK;
    const int small = plugin->schema.count > 1 ? 5 * n : 0;
    const double enough = mf_check_thorough() ? 3e10 : 3e9; /* limit of operations of small
                                                             * models; few plugins reach it */
    int tried = 0;
    const int32_t largest = mf_check_thorough() ? 700 : 300;
    static drawn_model m;
    sums all = {0};
    mf_verdict v = MF_CHECK_PASS;
    for (int i = 0; i < n && v == MF_CHECK_PASS; i++) {
        draw_model(plugin, i, largest, &m);
        if (i < 6 && m.spec.experts > 6) mf_check_sizes(&m.spec, m.spec.experts, i + 1);
        if (i == 1) m.spec.seq = 257, m.spec.batch = 1; /* more tokens than in other checks */
        say(i, &m);
        v = use(&m.spec, m.text, &all, detail);
    }
    all.operations = 0;
    for (int i = 0; i < small && v == MF_CHECK_PASS; i++) { /* odd draws have other options */
        if (i >= small / 3 && all.operations > enough) break;
        tried++;
        draw_model(plugin, FIRST_SMALL + 2 * i, SMALL, &m);
        v = use(&m.spec, m.text, &all, detail);
    }
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "%d models of up to %d tokens, drawn by seed %llu, %d of them declined",
                 n + tried, (int)largest, (unsigned long long)mf_check_seed(), all.declined);
    return v;
}

/* The plugin beside routers whose records are less usual: experts that choose tokens, k + 1
 * experts without probabilities, and a capacity. A plugin may decline them. */
mf_verdict mf_check_records(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    static const char *const names[] = {"experts choose tokens", "no probabilities",
                                        "a capacity", "all of a sequence is padding"};
    sums all = {0};
    mf_verdict v = MF_CHECK_PASS;
    for (int i = 0; i < 4 && v == MF_CHECK_PASS; i++) {
        mf_harness_spec spec = mf_check_spec(plugin);
        if (plugin->kind == MF_ROUTER && i < 2) continue;
        if (i == 0) spec.router = mf_stub_router_listed();
        if (i == 1) spec.router = mf_stub_router_bare();
        if (i == 2) spec.capacity = 0.6;
        if (i == 3) spec.lengths = mf_check_seed();
        while (i == 3 && mf_rng_below(spec.lengths, 5, 0, 0, (uint64_t)spec.seq + 1) != 0)
            spec.lengths++; /* shifts the draw of lengths until the first sequence has
                             * length 0 */
        v = use(&spec, names[i], &all, detail);
    }
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL, "%sa capacity, sequences of padding%s",
                 plugin->kind == MF_ROUTER ? ""
                                           : "experts that choose tokens, no "
                                             "probabilities, ",
                 all.declined > 0 ? "; some declined" : "");
    return v;
}
