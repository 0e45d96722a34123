/* The options that controllers turned in one run: each turn, or, where these are many, each
 * option with all its turns in one line, those turned least often first: a head that went says
 * more than the hundred small steps that led there. */
#include "report/report_parts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROWS    40
#define MAX_OPTIONS 512

typedef struct knob {
    const mf_turn *first, *last; /* by the same controller */
    int turns, order;
} knob;

static int all_turns(const mf_report_run *r)
{
    int n = 0;
    for (int i = 0; i < r->history->n; i++)
        n += r->history->records[i].n_turns;
    return n;
}

bool mf_report_has_turns(const mf_report_run *r)
{
    return all_turns(r) > 0;
}

static void each_turn(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {"option", "step", "from", "to", "by", "reason"};
    mf_html_table(p->d, "lrrrll", head);
    for (int i = 0; i < r->history->n; i++)
        for (int k = 0; k < r->history->records[i].n_turns; k++) {
            const mf_turn *t = &r->history->records[i].turns[k];
            const char *const cells[] = {t->option,
                                         mf_report_strf(p, "%lld", (long long)t->step),
                                         mf_report_num(p, 5, t->from),
                                         mf_report_num(p, 5, t->to),
                                         t->by,
                                         t->reason};
            mf_html_row(p->d, "lrrrll", cells);
        }
    mf_html_table_end(p->d);
}

static knob *find(knob *all, int n, const mf_turn *t)
{
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].first->option, t->option) == 0 &&
            strcmp(all[i].first->by, t->by) == 0)
            return &all[i];
    return NULL;
}

static int rarest_first(const void *a, const void *b)
{
    const knob *x = a, *y = b;
    return x->turns != y->turns ? (x->turns > y->turns) - (x->turns < y->turns)
                                : x->order - y->order;
}

/* Options that are turned for the first time after MAX_OPTIONS others are not looked at. */
static int collect(const mf_report_run *r, knob *all)
{
    int n = 0;
    for (int i = 0; i < r->history->n; i++)
        for (int k = 0; k < r->history->records[i].n_turns; k++) {
            const mf_turn *t = &r->history->records[i].turns[k];
            knob *of = find(all, n, t);
            if (of == NULL && n < MAX_OPTIONS) {
                of = &all[n];
                *of = (knob){.first = t, .order = n++};
            }
            if (of == NULL) continue;
            of->last = t;
            of->turns++;
        }
    qsort(all, (size_t)n, sizeof *all, rarest_first);
    return n;
}

static void each_option(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {"option", "turns", "steps",      "from",
                                       "to",     "by",    "last reason"};
    knob *all = mf_arena_alloc(p->arena, MAX_OPTIONS * sizeof *all);
    const int n = all != NULL ? collect(r, all) : 0;
    mf_html_table(p->d, "lrrrrll", head);
    for (int i = 0; i < n && i < MAX_ROWS; i++) {
        const mf_turn *a = all[i].first, *z = all[i].last;
        const long long from = (long long)a->step, to = (long long)z->step;
        const char *const cells[] = {a->option,
                                     mf_report_strf(p, "%d", all[i].turns),
                                     from == to ? mf_report_strf(p, "%lld", from)
                                                : mf_report_strf(p, "%lld to %lld", from, to),
                                     mf_report_num(p, 5, a->from),
                                     mf_report_num(p, 5, z->to),
                                     a->by,
                                     z->reason};
        mf_html_row(p->d, "lrrrrll", cells);
    }
    mf_html_table_end(p->d);
    mf_html_paragraph(
        p->d, mf_report_strf(p,
                             "%d turns, those of an option in one line%s. Each with its reason "
                             "is in metrics.jsonl.",
                             all_turns(r),
                             n <= MAX_ROWS
                                 ? ""
                                 : mf_report_strf(p,
                                                  "; of the options the %d that were turned "
                                                  "least often",
                                                  MAX_ROWS)));
}

void mf_report_turns(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_turns(r)) return;
    mf_html_section(p->d, "turns", "Options turned while training");
    if (all_turns(r) <= MAX_ROWS)
        each_turn(p, r);
    else
        each_option(p, r);
    mf_html_section_end(p->d);
}
