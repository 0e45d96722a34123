/* capacity.c: selects the assignments that an expert admits, and reassigns the assignments
 * over capacity.
 *
 * Capacity is applied to each expert independently, so each expert is a tile. Reassignment
 * depends on the loads after earlier assignments, so it runs in one thread, in the order that
 * kernels.def defines. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* Whether assignment a comes before b: by falling priority, NaN last, then by index. This order
 * is total, so any sort has the same result. */
static bool before(const float *priority, int32_t a, int32_t b)
{
    float pa = priority[a], pb = priority[b];
    if (isnan(pa) != isnan(pb)) return isnan(pb);
    if (pa != pb && !isnan(pa)) return pa > pb;
    return a < b;
}

static void sift(const float *priority, int32_t *row, int64_t i, int64_t n)
{
    for (int64_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        if (child + 1 < n && before(priority, row[child], row[child + 1])) child++;
        if (!before(priority, row[i], row[child])) return;
        int32_t swap = row[i];
        row[i] = row[child];
        row[child] = swap;
    }
}

/* Sorts by heap sort, which needs no memory and has no slow cases. If priority is NULL, the
 * list is already in order. */
static void sort(const float *priority, int32_t *row, int64_t n)
{
    if (!priority) return;
    for (int64_t i = n / 2; i-- > 0;)
        sift(priority, row, i, n);
    for (int64_t left = n; left-- > 1;) {
        int32_t swap = row[0];
        row[0] = row[left];
        row[left] = swap;
        sift(priority, row, 0, left);
    }
}

/* Fills list[offset[e] .. offset[e+1]) with the assignments of expert e that are not admitted,
 * in increasing order. admitted NULL: no assignment is admitted yet. */
static void list_rows(int64_t rows, int64_t experts, const int32_t *chosen,
                      const int32_t *admitted, int32_t *offset, int32_t *list)
{
    memset(offset, 0, (size_t)(experts + 1) * sizeof(*offset));
    for (int64_t r = 0; r < rows; r++)
        if (chosen[r] >= 0 && !(admitted && admitted[r] >= 0)) offset[chosen[r] + 1]++;
    for (int64_t e = 0; e < experts; e++)
        offset[e + 1] += offset[e];
    for (int64_t r = 0; r < rows; r++)
        if (chosen[r] >= 0 && !(admitted && admitted[r] >= 0))
            list[offset[chosen[r]]++] = (int32_t)r;
    for (int64_t e = experts; e > 0; e--)
        offset[e] = offset[e - 1];
    offset[0] = 0;
}

/* ---- capacity ---- */

typedef struct trim {
    const float *priority, *cap;
    const int32_t *offset;
    int32_t *list, *admitted;
} trim;

static void trim_tile(void *arg, int64_t e)
{
    const trim *p = arg;
    int32_t *row = p->list + p->offset[e];
    int64_t n = p->offset[e + 1] - p->offset[e], room = 0;
    while (room < n && (float)(room + 1) <= p->cap[e])
        room++;
    if (room < n) sort(p->priority, row, n);
    for (int64_t i = 0; i < n; i++)
        p->admitted[row[i]] = i < room ? (int32_t)e : -1;
}

void mf_cpu_capacity(const mf_kctx *x, const mf_capacity_args *a)
{
    if (mf_kctx_failed(x)) return;
    int32_t *offset = a->work;
    trim p = {a->priority, a->cap, offset, offset + a->experts + 1, a->admitted};
    list_rows(a->rows, a->experts, a->chosen, NULL, offset, p.list);
    for (int64_t r = 0; r < a->rows; r++)
        if (a->chosen[r] < 0) a->admitted[r] = -1;
    x->parallel(a->experts, trim_tile, &p);
}

/* ---- reassign ---- */

static bool has(const int32_t *expert, int64_t k, int32_t e)
{
    for (int64_t j = 0; j < k; j++)
        if (expert[j] == e) return true;
    return false;
}

/* Returns the expert to which an assignment of the token is reassigned; -1: none. */
static int32_t place_for(int64_t experts, int64_t k, const float *prob, const float *cap,
                         const int32_t *load, const int32_t *chosen, const int32_t *out)
{
    int32_t best = -1;
    double best_score = 0;
    for (int32_t e = 0; e < experts; e++) {
        double score = (double)prob[e] / (1 + load[e]);
        if (isnan(score) || (best >= 0 && !(score > best_score))) continue;
        if (!((float)(load[e] + 1) <= cap[e]) || has(chosen, k, e) || has(out, k, e)) continue;
        best = e;
        best_score = score;
    }
    return best;
}

void mf_cpu_reassign(const mf_kctx *x, const mf_reassign_args *a)
{
    if (mf_kctx_failed(x)) return;
    const int64_t rows = a->tokens * a->k;
    int32_t *load = a->work, *offset = load + a->experts, *list = offset + a->experts + 1;
    int64_t count = 0;
    (void)x;
    memset(load, 0, (size_t)a->experts * sizeof(*load));
    memcpy(a->out, a->admitted, (size_t)rows * sizeof(*a->out));
    for (int64_t r = 0; r < rows; r++)
        if (a->out[r] >= 0) load[a->out[r]]++;
    list_rows(rows, a->experts, a->chosen, a->admitted, offset, list);
    for (int64_t e = 0; e < a->experts; e++)
        sort(a->importance, list + offset[e], offset[e + 1] - offset[e]);
    for (int64_t i = 0; i < offset[a->experts] && (a->most == 0 || count < a->most); i++) {
        int64_t r = list[i], t = r / a->k;
        int32_t to = place_for(a->experts, a->k, a->prob + t * a->experts, a->cap, load,
                               a->chosen + t * a->k, a->out + t * a->k);
        if (to < 0) continue;
        a->out[r] = to;
        load[to]++;
        count++;
    }
    a->moved[0] = (float)count;
}
