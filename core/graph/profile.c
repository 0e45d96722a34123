/* graph/profile.c: measures the time of runs by op. An entry sums the steps of one op in one
 * direction (forward or backward). A device runs steps after the host has queued them. So on a
 * device, events around each step measure the time, and they are read after the run. */
#include "base/text/shown.h"
#include "graph/device/device.h"
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
    int *entry_of; /* [step] entry of the step */
    mf_device *device;
    int n_events;
    void **events; /* events of a device before and after each step; NULL: the clock is used */
    bool *ran;     /* [step] the events of the step were recorded in this run */
};

static uint64_t now(void)
{
    return (uint64_t)(mf_clock() * 1e9);
}

static entry *entry_of(const mf_profile *p, int step)
{
    return &p->entries[p->entry_of[step]];
}

static bool mark(const mf_graph *g, int event)
{
    mf_device *d = g->options.device;
    return d->ops->event_record(d, g->profile->events[event], d->stream) == MF_OK;
}

uint64_t mf_profile_begin(const mf_graph *g, int step)
{
    const mf_profile *p = g->profile;
    if (!p || !p->on) return 0;
    if (p->events) p->ran[step] = mark(g, 2 * step);
    return now();
}

/* The operations of a node. Those of a recomputed value are not counted in the graph's. */
static double operations(const mf_graph *g, const mf_node *node)
{
    const mf_tensor *of = node->backward || node->n_out == 0 ? NULL : node->out[0]->recomputes;
    return of ? g->nodes[of->node]->flops : mf_node_flops(node);
}

void mf_profile_end(mf_graph *g, int step, uint64_t begun)
{
    mf_profile *p = g->profile;
    if (!begun) return;
    entry *e = entry_of(p, step);
    e->calls++;
    e->flops += operations(g, g->steps[step].node);
    if (p->events) {
        p->ran[step] = p->ran[step] && mark(g, 2 * step + 1);
        return;
    }
    if (mf_device_wait(g->options.device) == MF_OK) e->ns += now() - begun;
}

int mf_profile_collect(mf_graph *g)
{
    const mf_profile *p = g->profile;
    mf_device *d = g->options.device;
    if (!p || !p->on || !p->events) return MF_OK;
    int rc = mf_device_wait(d);
    for (int i = 0; i < g->n_steps && rc == MF_OK; i++) {
        double ms = 0;
        if (!p->ran[i]) continue;
        p->ran[i] = false;
        rc = mf_device_failed(
            d, d->ops->event_elapsed(d, p->events[2 * i], p->events[2 * i + 1], &ms));
        entry_of(p, i)->ns += (uint64_t)(ms * 1e6);
    }
    return rc;
}

static void free_events(mf_profile *p)
{
    for (int i = 0; i < p->n_events; i++)
        p->device->ops->event_free(p->device, p->events[i]);
    mf_free(p->events);
    p->events = NULL;
    p->n_events = 0;
}

/* Makes the events of a device; without them the clock is used. */
static void make_events(const mf_graph *g, mf_profile *p)
{
    mf_device *d = g->options.device;
    if (mf_device_is_host(d) || !d->ops->event_elapsed) return;
    p->device = d;
    p->ran = mf_alloc((size_t)g->n_steps + 1, sizeof *p->ran);
    p->events = p->ran ? mf_alloc(2 * (size_t)g->n_steps + 1, sizeof *p->events) : NULL;
    while (p->events && p->n_events < 2 * g->n_steps &&
           d->ops->event_new(d, &p->events[p->n_events]) == MF_OK)
        p->n_events++;
    if (!p->events || p->n_events == 2 * g->n_steps) return;
    free_events(p);
}

void mf_profile_free(mf_profile *p)
{
    if (!p) return;
    free_events(p);
    mf_free(p->ran);
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
    make_events(g, p);
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
