/* graph/profile.c: measures the time of runs by op. An entry sums the steps of one op in one
 * direction (forward or backward). */
#include "base/text/shown.h"
#include "graph/internal.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name;
    bool backward;
    uint64_t ns, calls;
    double flops;
} entry;

/* The entries, one per op and direction, are allocated when profiling is switched on, so that
 * runs do not allocate. */
struct mf_profile {
    bool on;
    int n_entries;
    entry *entries;
    int *entry_of; /* by step */
};

static uint64_t now(void)
{
    return (uint64_t)(mf_clock() * 1e9);
}

uint64_t mf_profile_begin(const mf_graph *g)
{
    return g->profile && g->profile->on ? now() : 0;
}

void mf_profile_end(mf_graph *g, int step, uint64_t begun)
{
    if (!begun) return;
    entry *e = &g->profile->entries[g->profile->entry_of[step]];
    e->ns += now() - begun;
    e->calls++;
    e->flops += mf_node_flops(g->steps[step].node);
}

void mf_profile_free(mf_profile *p)
{
    if (!p) return;
    mf_free(p->entries);
    mf_free(p->entry_of);
    mf_free(p);
}

static int find_entry(mf_profile *p, const mf_node *node)
{
    for (int i = 0; i < p->n_entries; i++)
        if (p->entries[i].backward == node->backward &&
            strcmp(p->entries[i].name, node->op->name) == 0)
            return i;
    p->entries[p->n_entries] = (entry){.name = node->op->name, .backward = node->backward};
    return p->n_entries++;
}

static mf_profile *profile_new(const mf_graph *g)
{
    mf_profile *p = mf_alloc(1, sizeof *p);
    if (!p) return NULL;
    p->entries = mf_alloc((size_t)g->n_steps + 1, sizeof *p->entries);
    p->entry_of = mf_alloc((size_t)g->n_steps + 1, sizeof *p->entry_of);
    if (!p->entries || !p->entry_of) {
        mf_profile_free(p);
        return NULL;
    }
    for (int i = 0; i < g->n_steps; i++)
        p->entry_of[i] = find_entry(p, g->steps[i].node);
    return p;
}

void mf_graph_profile(mf_graph *g, bool on)
{
    if (!g || !g->finished) return;
    if (on && g->profile && !g->profile->on) {
        mf_profile_free(g->profile);
        g->profile = NULL;
    }
    if (on && !g->profile) g->profile = profile_new(g);
    if (g->profile) g->profile->on = on;
}

static int slowest_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

void mf_graph_profile_print(const mf_graph *g, FILE *out)
{
    const mf_profile *p = g ? g->profile : NULL;
    uint64_t total = 0;
    if (!p || p->n_entries == 0) return;
    entry *sorted = mf_alloc((size_t)p->n_entries, sizeof *sorted);
    if (!sorted) return;
    memcpy(sorted, p->entries, (size_t)p->n_entries * sizeof *sorted);
    qsort(sorted, (size_t)p->n_entries, sizeof *sorted, slowest_first);
    for (int i = 0; i < p->n_entries; i++)
        total += sorted[i].ns;
    fprintf(out, "%-28s %10s %7s %9s %10s %9s\n", "op", "total ms", "share", "calls",
            "us a call", "GFLOP/s");
    for (int i = 0; i < p->n_entries; i++) {
        const entry *e = &sorted[i];
        char name[64];
        if (e->calls == 0) continue;
        snprintf(name, sizeof name, "%s%s", mf_shown(e->name), e->backward ? " backward" : "");
        fprintf(out, "%-28s %10.2f %6.1f%% %9" PRIu64 " %10.1f", name, (double)e->ns / 1e6,
                total ? 100.0 * (double)e->ns / (double)total : 0, e->calls,
                (double)e->ns / 1e3 / (double)e->calls);
        if (e->flops > 0 && e->ns > 0) fprintf(out, " %9.1f", e->flops / (double)e->ns);
        fputc('\n', out);
    }
    mf_free(sorted);
}
