/* plugin/tallies.c: the list of tallies, their parts in graphs, and the sums of the last step.
 * Sums grow only while instances are made, so pointers to them stay valid afterwards. */
#include "plugin/tallies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/shape.h"
#include "plugin/instance_internal.h"

#define WHOLE_BELOW 16777216.0 /* f32 represents each whole number below this number */

typedef struct tally {
    const char *name; /* full name without a leading '/' */
    mf_shape shape;
    uint32_t flags;
    int64_t at, count; /* first element and number of elements in the vector of its kind */
} tally;

typedef struct part {
    const mf_graph *graph;
    int tally;
    const mf_tensor *value;
} part;

typedef struct request {
    const char *name;
    mf_score_count what;
} request;

struct mf_tallies {
    tally *list;
    int n, room;
    part *parts;
    int n_parts, room_parts;
    request *requests;
    int n_requests, room_requests;
    mf_tally_numbers size;
    mf_tally_sums sum;
    float not_whole; /* the first number of a part on this rank that was not whole; 0: none */
};

mf_tallies *mf_tallies_new(void)
{
    return mf_alloc(1, sizeof(mf_tallies));
}

void mf_tallies_free(mf_tallies *t)
{
    if (!t) return;
    mf_free(t->list);
    mf_free(t->parts);
    mf_free(t->requests);
    mf_free(t->sum.whole);
    mf_free(t->sum.real);
    mf_free(t);
}

mf_tally_numbers mf_tallies_numbers(const mf_plughost *h)
{
    return h->tallies->size;
}

static int find(const mf_tallies *t, const char *full)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->list[i].name, full) == 0) return i;
    return -1;
}

bool mf_tallies_has(const mf_plughost *h, const char *full)
{
    return find(h->tallies, full) >= 0;
}

static bool is_whole(const tally *one)
{
    return (one->flags & MF_TALLY_WHOLE) != 0;
}

static double *sum_of(const mf_tallies *t, const tally *one)
{
    return (is_whole(one) ? t->sum.whole : t->sum.real) + one->at;
}

static int too_many(const mf_tallies *t, const char *full, double count)
{
    double all = count, most = count;
    const char *largest = full;
    for (int i = 0; i < t->n; i++) {
        all += (double)t->list[i].count;
        if ((double)t->list[i].count <= most) continue;
        most = (double)t->list[i].count;
        largest = t->list[i].name;
    }
    return mf_fail(MF_ECONFIG,
                   "the tallies of the model: expected at most %d numbers, found %.0f; the "
                   "largest tally is /%s with %.0f",
                   MF_TALLIES_MAX, all, largest, most);
}

int mf_tallies_declare(mf_plughost *h, const char *full, mf_shape shape, uint32_t flags)
{
    mf_tallies *t = h->tallies;
    double numbers = 1;
    const int old = find(t, full);
    if (old >= 0) {
        if (t->list[old].flags == flags && mf_shape_equal(t->list[old].shape, shape))
            return MF_OK;
        return mf_fail(MF_EPLUGIN,
                       "the tally /%s exists with another shape or other flags: expected "
                       "equal ones",
                       full);
    }
    /* the shape is checked as real numbers, because integers could overflow */
    for (int32_t i = 0; i < shape.rank; i++)
        numbers *= (double)shape.dim[i];
    if (numbers + (double)(t->size.whole + t->size.real) > MF_TALLIES_MAX)
        return too_many(t, full, numbers);
    const int64_t count = mf_shape_count(shape);
    const bool whole = (flags & MF_TALLY_WHOLE) != 0;
    int64_t *size = whole ? &t->size.whole : &t->size.real;
    double **sum = whole ? &t->sum.whole : &t->sum.real;
    double *more =
        mf_realloc(*sum, (size_t)*size * sizeof *more, (size_t)(*size + count) * sizeof *more);
    if (!more) return MF_ENOMEM;
    *sum = more;
    const char *name = mf_arena_strdup(h->arena, full);
    if (!name || !mf_plughost_grow((void **)&t->list, t->n, &t->room, sizeof *t->list))
        return MF_ENOMEM;
    memset(more + *size, 0, (size_t)count * sizeof *more);
    t->list[t->n++] = (tally){name, shape, flags, *size, count};
    *size += count;
    return MF_OK;
}

int mf_tallies_count(mf_plughost *h, const char *full, mf_tensor *value)
{
    mf_tallies *t = h->tallies;
    const int i = find(t, full);
    if (i < 0) return mf_fail(MF_ENOTFOUND, "there is no tally /%s", full);
    if (value->dtype != MF_F32 || !mf_shape_equal(value->shape, t->list[i].shape)) {
        char expected[MF_SHAPE_TEXT], found[MF_SHAPE_TEXT];
        static const char *const types[] = {"f32", "bf16", "i32", "u8"};
        return mf_fail(MF_ESHAPE, "expected f32 %s, found %s %s",
                       mf_shape_text(t->list[i].shape, expected), types[value->dtype & 3],
                       mf_shape_text(value->shape, found));
    }
    mf_tensor *kept = mf_graph_keep_sent(value);
    if (!kept) return mf_graph_status(value->graph);
    if (!mf_plughost_grow((void **)&t->parts, t->n_parts, &t->room_parts, sizeof *t->parts))
        return MF_ENOMEM;
    t->parts[t->n_parts++] = (part){kept->graph, i, kept};
    return MF_OK;
}

void mf_tallies_forget(mf_plughost *h, const mf_graph *g)
{
    mf_tallies *t = h->tallies;
    int kept = 0;
    for (int i = 0; i < t->n_parts; i++)
        if (t->parts[i].graph != g) t->parts[kept++] = t->parts[i];
    t->n_parts = kept;
}

/* ---- sums ---- */

static void add_whole(mf_tallies *t, const float *v, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)v[i];
        if (fabs(x) < WHOLE_BELOW && x == floor(x)) {
            to[i] += x;
            continue;
        }
        if (t->not_whole == 0) t->not_whole = v[i];
        to[i] = isfinite(x) ? (double)NAN : (double)INFINITY;
    }
}

static void add_real(const float *v, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += (double)v[i];
}

void mf_tallies_read(mf_plughost *h, const mf_graph *g, int slot, double *whole, double *real)
{
    mf_tallies *t = h->tallies;
    for (int i = 0; i < t->n_parts; i++) {
        const part *p = &t->parts[i];
        const float *v = p->graph == g ? mf_tensor_collected(p->value, slot) : NULL;
        const tally *of = &t->list[p->tally];
        if (!v) continue;
        if (is_whole(of))
            add_whole(t, v, of->count, whole + of->at);
        else
            add_real(v, of->count, real + of->at);
    }
}

mf_tally_sums mf_tallies_sums(mf_plughost *h)
{
    return h->tallies->sum;
}

void mf_tallies_clear(mf_plughost *h)
{
    mf_tallies *t = h->tallies;
    for (int64_t i = 0; i < t->size.whole; i++)
        t->sum.whole[i] = 0;
    for (int64_t i = 0; i < t->size.real; i++)
        t->sum.real[i] = 0;
    t->not_whole = 0;
}

static int blame(const mf_tallies *t, const tally *of, int64_t i)
{
    char found[48] = "another number";
    if (isinf(sum_of(t, of)[i]) || !is_whole(of))
        return mf_fail(MF_ENONFINITE,
                       "tally /%s, element %lld: expected a finite sum over the step, found %g",
                       of->name, (long long)i, sum_of(t, of)[i]);
    if (t->not_whole != 0) snprintf(found, sizeof found, "%.9g", (double)t->not_whole);
    return mf_fail(MF_EPLUGIN,
                   "tally /%s, element %lld: expected parts that are whole numbers below 2^24 "
                   "(MF_TALLY_WHOLE), found %s",
                   of->name, (long long)i, found);
}

int mf_tallies_judge(mf_plughost *h)
{
    mf_tallies *t = h->tallies;
    for (int i = 0; i < t->n; i++)
        for (int64_t j = 0; j < t->list[i].count; j++)
            if (!isfinite(sum_of(t, &t->list[i])[j])) return blame(t, &t->list[i], j);
    return MF_OK;
}

const char *mf_tallies_at(const mf_plughost *h, int i, uint32_t *ret_flags,
                          const double **ret_sum, int64_t *ret_count)
{
    const mf_tallies *t = h->tallies;
    if (i < 0 || i >= t->n) return NULL;
    *ret_flags = t->list[i].flags;
    *ret_sum = sum_of(t, &t->list[i]);
    *ret_count = t->list[i].count;
    return t->list[i].name;
}

/* ---- requests for counts of scores ---- */

int mf_tallies_want_scores(mf_plughost *h, const char *name, const mf_score_count *what)
{
    mf_tallies *t = h->tallies;
    for (int i = 0; i < t->n_requests; i++) {
        const mf_score_count *w = &t->requests[i].what;
        if (strcmp(t->requests[i].name, name) != 0) continue;
        if (w->of == what->of && w->bins == what->bins && w->with_bias == what->with_bias &&
            w->lo == what->lo && w->hi == what->hi)
            return MF_OK;
        return mf_fail(MF_EPLUGIN,
                       "count_scores '%s': another instance counts something else by this "
                       "name: expected another name",
                       name);
    }
    const char *own = mf_arena_strdup(h->arena, name);
    if (!own || !mf_plughost_grow((void **)&t->requests, t->n_requests, &t->room_requests,
                                  sizeof *t->requests))
        return MF_ENOMEM;
    t->requests[t->n_requests++] = (request){own, *what};
    return MF_OK;
}

const mf_score_count *mf_tallies_scores(const mf_plughost *h, int i, const char **ret_name)
{
    const mf_tallies *t = h->tallies;
    if (i < 0 || i >= t->n_requests) return NULL;
    *ret_name = t->requests[i].name;
    return &t->requests[i].what;
}
