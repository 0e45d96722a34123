/* Parses the grids and draws of a search and lists its trials. Drawn numbers are written
 * with six digits, and a trial is stored as this text. So a restart cannot round
 * them differently. */
#include "lab/compare/compare_space.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/text/number.h"

typedef enum { LIST, LOG, UNIFORM, WHOLE } kind;

typedef struct {
    const char *key, *option;
    kind kind;
    int n;              /* number of values of a LIST */
    const char **value; /* [n] */
    double lo, hi;
} axis;

/* ---- parsing ---- */

static int bad(const char *option, const char *text, const char *expected)
{
    return mf_fail(MF_EUSAGE, "%s: expected %s, found '%s'", option, expected, text);
}

static int read_range(axis *a, const char *text, const char *range)
{
    const char *dots = strstr(range, "..");
    char low[64];
    const size_t n = dots ? (size_t)(dots - range) : 0;
    if (!dots || n == 0 || n >= sizeof low)
        return bad(a->option, text, "KEY=log:LO..HI, as train.lr=log:1e-4..1e-2");
    memcpy(low, range, n);
    low[n] = '\0';
    if (!mf_parse_f64(low, &a->lo) || !mf_parse_f64(dots + 2, &a->hi) || !(a->lo < a->hi) ||
        !isfinite(a->lo) || !isfinite(a->hi))
        return bad(a->option, text, "two numbers LO..HI, the lower first");
    if (a->kind == LOG && a->lo <= 0) return bad(a->option, text, "LO above 0 after log:");
    if (a->kind == WHOLE && (a->lo != floor(a->lo) || a->hi != floor(a->hi) ||
                             fabs(a->lo) > 1e9 || fabs(a->hi) > 1e9))
        return bad(a->option, text, "whole numbers up to 1e9 after int:");
    return MF_OK;
}

static int read_list(mf_arena *arena, axis *a, const char *text, const char *list)
{
    char *rest = mf_arena_strdup(arena, list), *one;
    a->value = mf_arena_alloc(arena, (strlen(list) + 1) * sizeof *a->value);
    if (!rest || !a->value) return MF_ENOMEM;
    while ((one = strsep(&rest, ","))) {
        if (*one == '\0') return bad(a->option, text, "values separated by single commas");
        if (strchr(one, '+') && isalpha((unsigned char)strchr(one, '+')[1]))
            return bad(a->option, text, "values without '+' before a letter");
        a->value[a->n++] = one;
    }
    return MF_OK;
}

static int read_axis(mf_arena *arena, const char *option, const char *text, bool draw, axis *a)
{
    static const char *const names[] = {
        [LOG] = "log:", [UNIFORM] = "uniform:", [WHOLE] = "int:"};
    const char *equals = strchr(text, '='), *dot = strchr(text, '.');
    *a = (axis){.option = option};
    if (!equals || !dot || dot > equals || dot == text || dot + 1 == equals || !equals[1])
        return bad(option, text,
                   draw ? "SECTION.KEY=log:LO..HI, uniform:LO..HI, int:LO..HI or values"
                        : "SECTION.KEY=VALUE,VALUE..., as train.lr=1e-4,3e-4,1e-3");
    a->key = mf_arena_strf(arena, "%.*s", (int)(equals - text), text);
    if (!a->key) return MF_ENOMEM;
    for (int i = LOG; i <= WHOLE; i++)
        if (strncmp(equals + 1, names[i], strlen(names[i])) == 0) {
            a->kind = (kind)i;
            if (!draw) return bad(option, text, "values; ranges are drawn by --draw");
            return read_range(a, text, equals + 1 + strlen(names[i]));
        }
    return read_list(arena, a, text, equals + 1);
}

/* Reads all axes, the grids first. */
static int read_axes(mf_arena *arena, const mf_space *s, axis **ret)
{
    const int n = s->n_grid + s->n_draw;
    axis *a = *ret = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *a);
    int rc = a ? MF_OK : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const bool draw = i >= s->n_grid;
        rc = read_axis(arena, draw ? "--draw" : "--grid",
                       draw ? s->draw[i - s->n_grid] : s->grid[i], draw, &a[i]);
        for (int j = 0; rc == MF_OK && j < i; j++)
            if (strcmp(a[i].key, a[j].key) == 0)
                rc = mf_fail(MF_EUSAGE, "%s: the key %s is given twice", a[i].option, a[i].key);
    }
    return rc;
}

/* ---- trials ---- */

static const char *drawn(mf_arena *arena, const axis *a, uint64_t seed, uint64_t trial)
{
    const uint64_t stream = mf_rng_stream(mf_arena_strf(arena, "search.%s", a->key));
    if (a->kind == LIST) return a->value[mf_rng_below(seed, stream, 0, trial, (uint64_t)a->n)];
    if (a->kind == WHOLE) {
        const uint64_t n = (uint64_t)(a->hi - a->lo) + 1;
        return mf_arena_strf(arena, "%.0f",
                             a->lo + (double)mf_rng_below(seed, stream, 0, trial, n));
    }
    const double u =
        (double)mf_rng_below(seed, stream, 0, trial, UINT64_C(1) << 53) / 9007199254740992.0;
    const double x = a->kind == LOG ? exp(log(a->lo) + u * (log(a->hi) - log(a->lo)))
                                    : a->lo + u * (a->hi - a->lo);
    return mf_arena_strf(arena, "%.6g", x);
}

/* The value of a grid in this combination. The last grid changes fastest. */
static const char *of_grid(const axis *a, int n_grid, int i, int64_t combination)
{
    for (int j = n_grid - 1; j > i; j--)
        combination /= a[j].n;
    return a[i].value[combination % a[i].n];
}

static const char *trial_text(mf_arena *arena, const mf_space *s, const axis *a, uint64_t seed,
                              int64_t combination, int trial)
{
    const char *text = "";
    for (int i = 0; text && i < s->n_grid + s->n_draw; i++) {
        const char *value = i < s->n_grid ? of_grid(a, s->n_grid, i, combination)
                                          : drawn(arena, &a[i], seed, (uint64_t)trial);
        text = value
                   ? mf_arena_strf(arena, "%s%s%s=%s", text, i > 0 ? "+" : "", a[i].key, value)
                   : NULL;
    }
    return text;
}

static int judge_size(const mf_space *s, int64_t combinations)
{
    const int64_t n = s->budget > 0 ? s->budget : combinations;
    if (s->n_draw > 0 && s->budget == 0)
        return mf_fail(MF_EUSAGE, "--draw: expected --budget N, the number of trials");
    if (s->n_draw == 0 && s->budget > combinations)
        return mf_fail(MF_EUSAGE,
                       "--budget: expected at most %lld, the combinations of --grid, found %d",
                       (long long)combinations, (int)s->budget);
    if (combinations > MF_TRIALS_MAX || n > MF_TRIALS_MAX)
        return mf_fail(MF_EUSAGE, "--grid, --budget: expected at most %d trials, found %lld",
                       MF_TRIALS_MAX, (long long)(n > combinations ? n : combinations));
    return MF_OK;
}

int mf_space_trials(mf_arena *arena, const mf_space *s, uint64_t seed, const char ***ret,
                    int *ret_n)
{
    axis *a;
    int64_t combinations = 1;
    int rc = read_axes(arena, s, &a);
    if (rc != MF_OK) return rc;
    for (int i = 0; i < s->n_grid && combinations <= MF_TRIALS_MAX; i++)
        combinations *= a[i].n;
    rc = judge_size(s, combinations);
    if (rc != MF_OK) return rc;
    const int n = s->budget > 0 ? (int)s->budget : (int)combinations;
    const bool chosen = s->n_draw == 0 && n < combinations;
    int32_t *order = mf_arena_alloc(arena, (size_t)combinations * sizeof *order);
    const char **list = mf_arena_alloc(arena, ((size_t)n + 1) * sizeof *list);
    if (!order || !list) return MF_ENOMEM;
    for (int i = 0; i < combinations; i++)
        order[i] = i;
    if (chosen)
        mf_rng_permutation(seed, mf_rng_stream("search.combinations"), 0, order,
                           (size_t)combinations);
    for (int i = 0; i < n; i++) {
        list[i] = trial_text(arena, s, a, seed, order[i % combinations], i);
        if (!list[i]) return MF_ENOMEM;
    }
    *ret = list;
    *ret_n = n;
    return MF_OK;
}

int mf_space_each(mf_arena *arena, const mf_space *s,
                  int (*fn)(void *arg, const char *assignment, const char *option), void *arg)
{
    axis *a;
    int rc = read_axes(arena, s, &a);
    for (int i = 0; rc == MF_OK && i < s->n_grid + s->n_draw; i++) {
        const bool range = a[i].kind != LIST;
        for (int j = 0; rc == MF_OK && j < (range ? 2 : a[i].n); j++) {
            const double end = j == 0 ? a[i].lo : a[i].hi;
            const char *text = range ? mf_arena_strf(arena, "%s=%.6g", a[i].key, end)
                                     : mf_arena_strf(arena, "%s=%s", a[i].key, a[i].value[j]);
            rc = text ? fn(arg, text, a[i].option) : MF_ENOMEM;
        }
    }
    return rc;
}
