/* The linear assignment problem by shortest augmenting paths (Jonker and Volgenant 1987, in the
 * plain form with potentials u and v): rows are added one after the other, and each takes the
 * cheapest path to a free column in costs that the potentials have made >= 0. O(n^3). */
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "lab/prune/prune_parts.h"

typedef struct paths {
    const double *cost;
    int64_t n;
    double *u, *v;     /* [n + 1] of rows and columns */
    double *least;     /* [n + 1] the length of the shortest path to a column */
    int64_t *row;      /* [n + 1] the row of a column; column n stands for the row to add */
    int64_t *previous; /* [n + 1] the column before on the path */
    bool *reached;     /* [n + 1] */
} paths;

/* Extends the paths from column `at`, and returns the nearest column that was not reached. */
static int64_t step(paths *p, int64_t at)
{
    const int64_t n = p->n, row = p->row[at];
    double least = INFINITY;
    int64_t next = -1;
    p->reached[at] = true;
    for (int64_t j = 0; j < n; j++) {
        if (p->reached[j]) continue;
        const double length = p->cost[row * n + j] - p->u[row] - p->v[j];
        if (length < p->least[j]) {
            p->least[j] = length;
            p->previous[j] = at;
        }
        if (next < 0 || p->least[j] < least) {
            least = p->least[j];
            next = j;
        }
    }
    for (int64_t j = 0; j <= n; j++)
        if (p->reached[j]) {
            p->u[p->row[j]] += least;
            p->v[j] -= least;
        } else {
            p->least[j] -= least;
        }
    return next;
}

static void add_row(paths *p, int64_t row)
{
    int64_t at = p->n;
    for (int64_t j = 0; j <= p->n; j++) {
        p->least[j] = INFINITY;
        p->previous[j] = p->n; /* stays for costs that are no numbers */
        p->reached[j] = false;
    }
    for (p->row[at] = row; p->row[at] >= 0;)
        at = step(p, at);
    while (at != p->n) {
        const int64_t before = p->previous[at];
        p->row[at] = p->row[before];
        at = before;
    }
}

int mf_prune_assign(const double *cost, int64_t n, int64_t *ret)
{
    const size_t size = (size_t)n + 1;
    paths p = {.cost = cost,
               .n = n,
               .u = mf_alloc(size, sizeof(double)),
               .v = mf_alloc(size, sizeof(double)),
               .least = mf_alloc(size, sizeof(double)),
               .row = mf_alloc(size, sizeof(int64_t)),
               .previous = mf_alloc(size, sizeof(int64_t)),
               .reached = mf_alloc(size, sizeof(bool))};
    const int rc =
        p.u && p.v && p.least && p.row && p.previous && p.reached ? MF_OK : MF_ENOMEM;
    for (int64_t j = 0; rc == MF_OK && j <= n; j++)
        p.row[j] = -1;
    for (int64_t i = 0; rc == MF_OK && i < n; i++)
        add_row(&p, i);
    for (int64_t j = 0; rc == MF_OK && j < n; j++)
        ret[p.row[j]] = j;
    mf_free(p.u);
    mf_free(p.v);
    mf_free(p.least);
    mf_free(p.row);
    mf_free(p.previous);
    mf_free(p.reached);
    return rc;
}
