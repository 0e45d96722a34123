/* The changes that controllers made to live options in a run. The page lists each change or, if
 * there are many, one line for each option and controller. Options with the fewest changes come
 * first, because a pruned head is more important than a hundred small changes before it. */
#include "report/page/report_parts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROWS    40
#define MAX_OPTIONS 512

typedef struct changed_option {
    const mf_change *first, *last; /* first and last change by the same controller */
    int changes, order;
} changed_option;

static int all_changes(const mf_report_run *r)
{
    int n = 0;
    for (int i = 0; i < r->history->n; i++)
        n += r->history->records[i].n_turns;
    return n;
}

bool mf_report_has_changes(const mf_report_run *r)
{
    return all_changes(r) > 0;
}

static void each_change(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {"option", "step", "from", "to", "by", "reason"};
    mf_html_table(p->d, "lrrrll", head);
    for (int i = 0; i < r->history->n; i++)
        for (int k = 0; k < r->history->records[i].n_turns; k++) {
            const mf_change *t = &r->history->records[i].turns[k];
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

static changed_option *find(changed_option *all, int n, const mf_change *t)
{
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].first->option, t->option) == 0 &&
            strcmp(all[i].first->by, t->by) == 0)
            return &all[i];
    return NULL;
}

static int rarest_first(const void *a, const void *b)
{
    const changed_option *x = a, *y = b;
    return x->changes != y->changes ? (x->changes > y->changes) - (x->changes < y->changes)
                                    : x->order - y->order;
}

/* Groups the changes by option and controller. Only the first MAX_OPTIONS groups are kept. */
static int collect(const mf_report_run *r, changed_option *all)
{
    int n = 0;
    for (int i = 0; i < r->history->n; i++)
        for (int k = 0; k < r->history->records[i].n_turns; k++) {
            const mf_change *t = &r->history->records[i].turns[k];
            changed_option *of = find(all, n, t);
            if (!of && n < MAX_OPTIONS) {
                of = &all[n];
                *of = (changed_option){.first = t, .order = n++};
            }
            if (!of) continue;
            of->last = t;
            of->changes++;
        }
    qsort(all, (size_t)n, sizeof *all, rarest_first);
    return n;
}

static void each_option(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {"option", "changes", "steps",      "from",
                                       "to",     "by",      "last reason"};
    changed_option *all = mf_arena_alloc(p->arena, MAX_OPTIONS * sizeof *all);
    const int n = all ? collect(r, all) : 0;
    mf_html_table(p->d, "lrrrrll", head);
    for (int i = 0; i < n && i < MAX_ROWS; i++) {
        const mf_change *a = all[i].first, *z = all[i].last;
        const long long from = (long long)a->step, to = (long long)z->step;
        const char *const cells[] = {a->option,
                                     mf_report_strf(p, "%d", all[i].changes),
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
        p->d,
        mf_report_strf(p,
                       "%d changes, those of an option in one line%s. Each with its reason "
                       "is in metrics.jsonl.",
                       all_changes(r),
                       n <= MAX_ROWS ? ""
                                     : mf_report_strf(p,
                                                      "; of the options the %d that changed "
                                                      "least often",
                                                      MAX_ROWS)));
}

void mf_report_changes(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_changes(r)) return;
    mf_html_section(p->d, "changes", "Options changed during training");
    if (all_changes(r) <= MAX_ROWS)
        each_change(p, r);
    else
        each_option(p, r);
    mf_html_section_end(p->d);
}
