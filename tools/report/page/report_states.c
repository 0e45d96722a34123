/* States of attention heads over the steps: active, shrinking, pruned, frozen or regrown. A
 * state depends only on the records before and at its step. */
#include "report/page/report_parts.h"

#include <stdio.h>
#include <string.h>

#define MOST_HEADS 4096
#define FELL       0.02 /* a gate that fell by more than this is shrinking */

enum { ACTIVE, REGROWN, SHRINKING, FROZEN, PRUNED, STATES };
static const char *const names[STATES] = {"active", "regrown", "shrinking", "frozen", "pruned"};

/* A head's state after the records read so far. */
typedef struct head {
    bool active, known, regrown, frozen;
    double lowered; /* step of the last change of its gate, if that change lowered the gate;
                     * else -1 */
} head;

static const mf_head_stats *layer_at(const mf_metrics_record *m, int i)
{
    return (const mf_head_stats *)(const void *)((const char *)m->heads +
                                                 (size_t)i * m->heads[0].size);
}

static bool has_gates(const mf_metrics_record *m)
{
    return m->n_head_layers > 0 && m->heads[0].heads > 0 && m->heads[0].gate &&
           m->heads[0].active;
}

/* ---- changes of layers.L.attention.{active,gate,lr_scale}.H ---- */

static void take_changes(const mf_metrics_record *m, int layers, int heads, head *of)
{
    for (int i = 0; i < m->n_turns; i++) {
        const mf_change *t = &m->turns[i];
        char what[16];
        int l = -1, h = -1;
        if (sscanf(t->option, "layers.%d.attention.%15[a-z_].%d", &l, what, &h) != 3 || l < 0 ||
            h < 0 || l >= layers || h >= heads)
            continue;
        head *x = &of[l * heads + h];
        if (strcmp(what, "active") == 0) {
            x->regrown = t->to != 0 && (t->from == 0 || x->regrown);
            x->known = true;
            x->active = t->to != 0;
        } else if (strcmp(what, "lr_scale") == 0) {
            x->frozen = t->to == 0;
        } else if (strcmp(what, "gate") == 0) {
            x->lowered = t->to < t->from ? (double)t->step : -1;
        }
    }
}

/* ---- gates some time ago ---- */

static bool all_alike(const mf_metrics_record *m, int layers, int heads)
{
    if (!has_gates(m) || m->n_head_layers != layers) return false;
    for (int l = 0; l < layers; l++) {
        const mf_head_stats *s = layer_at(m, l);
        if (s->heads != heads || !s->gate || !s->active) return false;
    }
    return true;
}

static int state_of(const head *x, const mf_metrics_record *now, const mf_metrics_record *then,
                    int l, int h, double window)
{
    const mf_head_stats *s = layer_at(now, l), *was = layer_at(then, l);
    if (s->active[h] == 0) return PRUNED;
    if (x->frozen) return FROZEN;
    const bool fell = was->active[h] != 0 && (double)was->gate[h] - (double)s->gate[h] > FELL;
    const bool lowered = x->lowered >= 0 && (double)now->step - x->lowered <= window;
    if (fell || lowered) return SHRINKING;
    return x->regrown ? REGROWN : ACTIVE;
}

typedef struct counting {
    const mf_metrics_record **seen; /* training records with gates, in order */
    double *x, *share;              /* [n], [STATES, room] */
    int n, room, layers, heads;
    double window;
} counting;

static void count(counting *c, const mf_metrics_record *m, head *of)
{
    const mf_metrics_record *then = m;
    for (int k = c->n - 1; k >= 0 && (double)(m->step - c->seen[k]->step) <= c->window; k--)
        then = c->seen[k];
    for (int i = 0; i < c->layers * c->heads; i++) {
        const int l = i / c->heads, h = i % c->heads;
        const bool active = layer_at(m, l)->active[h] != 0;
        if (of[i].known && active && !of[i].active) of[i].regrown = true;
        if (!active) of[i].regrown = false;
        of[i].known = true;
        of[i].active = active;
        c->share[state_of(&of[i], m, then, l, h, c->window) * c->room + c->n] +=
            1.0 / (c->layers * c->heads);
    }
    c->x[c->n] = (double)m->step;
    c->seen[c->n++] = m;
}

/* ---- the figure ---- */

static const mf_metrics_record *last_with_gates(const mf_report_run *r)
{
    for (int i = r->history->n - 1; i >= 0; i--)
        if (has_gates(&r->history->records[i])) return &r->history->records[i];
    return NULL;
}

static bool changes(const counting *c)
{
    for (int s = 1; s < STATES; s++)
        for (int k = 0; k < c->n; k++)
            if (c->share[s * c->room + k] > 0) return true;
    return false;
}

/* Compacts the matrix from [STATES, room] to [STATES, n], then draws it. */
static void draw(const mf_report *p, const counting *c)
{
    for (int s = 1; s < STATES; s++)
        memmove(c->share + s * c->n, c->share + s * c->room, (size_t)c->n * sizeof *c->share);
    mf_html_figure(p->d, "States of the heads");
    mf_svg_stack(p->d, &(mf_stack){.title = "states of the heads",
                                   .x_label = "step",
                                   .y_label = "share of the heads",
                                   .width = MF_FIGURE_WIDTH,
                                   .height = 320,
                                   .top = 1,
                                   .n = c->n,
                                   .x = c->x,
                                   .n_series = STATES,
                                   .names = names,
                                   .values = c->share});
    mf_html_figure_end(
        p->d, mf_report_strf(
                  p,
                  "Shrinking: within the last %.0f steps the gate fell by over %g, or a "
                  "controller lowered it. Frozen: its learning rate is 0. Regrown: pruned in "
                  "this run, and back.",
                  c->window, FELL));
}

void mf_report_head_states(const mf_report *p, const mf_report_run *r)
{
    const mf_metrics_history *h = r->history;
    const mf_metrics_record *last = last_with_gates(r);
    if (!last) return;
    counting c = {.room = h->n,
                  .layers = last->n_head_layers,
                  .heads = last->heads[0].heads,
                  .window = ceil((double)last->step / 20)};
    const int all = c.layers * c.heads;
    if (all > MOST_HEADS) return;
    head *of = mf_arena_alloc(p->arena, (size_t)all * sizeof *of);
    c.seen = mf_arena_alloc(p->arena, (size_t)h->n * sizeof *c.seen);
    c.x = mf_arena_alloc(p->arena, (size_t)h->n * sizeof *c.x);
    c.share = mf_arena_alloc(p->arena, STATES * (size_t)h->n * sizeof *c.share);
    if (!of || !c.seen || !c.x || !c.share) return;
    for (int i = 0; i < all; i++)
        of[i].lowered = -1;
    for (int i = 0; i < h->n; i++) {
        const mf_metrics_record *m = &h->records[i];
        take_changes(m, c.layers, c.heads, of);
        if (strcmp(m->split, "train") == 0 && all_alike(m, c.layers, c.heads)) count(&c, m, of);
    }
    if (c.n > 1 && changes(&c)) draw(p, &c);
}
