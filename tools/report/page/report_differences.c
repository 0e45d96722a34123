/* The keys in which the configurations of several runs differ, with the values of each run. For
 * a run without a readable config.ini, values are missing. */
#include "report/page/report_parts.h"

#include <string.h>

#define MOST_KEYS 100

static bool differs(const mf_report *p, const mf_ini_entry *e)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(mf_report_config(p->runs[i], e->section, e->key, "-"), e->value) != 0)
            return true;
    return false;
}

static bool is_among(int n, const mf_ini_entry *const *list, const mf_ini_entry *e)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i]->section, e->section) == 0 && strcmp(list[i]->key, e->key) == 0)
            return true;
    return false;
}

/* Writes the entries that differ to out [MOST_KEYS], each key once. Returns their number. */
static int differing(const mf_report *p, const mf_ini_entry **out)
{
    int n = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; p->runs[i]->config && k < mf_ini_count(p->runs[i]->config); k++) {
            const mf_ini_entry *e = mf_ini_at(p->runs[i]->config, k);
            if (e->overridden || n == MOST_KEYS || is_among(n, out, e)) continue;
            if (differs(p, e)) out[n++] = e;
        }
    return n;
}

void mf_report_differences(const mf_report *p)
{
    const mf_ini_entry *keys[MOST_KEYS];
    const int n = differing(p, keys);
    const char **head = mf_arena_alloc(p->arena, ((size_t)p->n + 1) * sizeof *head);
    const char **cells = mf_arena_alloc(p->arena, ((size_t)p->n + 1) * sizeof *cells);
    char *align = mf_arena_alloc(p->arena, (size_t)p->n + 2);
    if (!head || !cells || !align) return;
    memset(align, 'l', (size_t)p->n + 1);
    align[p->n + 1] = '\0';
    mf_html_section(p->d, "differences", "Differences of the configurations");
    if (n == 0) mf_html_paragraph(p->d, "The configurations are the same.");
    head[0] = "key";
    for (int i = 0; i < p->n; i++)
        head[i + 1] = p->runs[i]->name;
    if (n > 0) mf_html_table(p->d, align, head);
    for (int k = 0; k < n; k++) {
        cells[0] = mf_report_strf(p, "%s.%s", keys[k]->section, keys[k]->key);
        for (int i = 0; i < p->n; i++)
            cells[i + 1] = mf_report_config(p->runs[i], keys[k]->section, keys[k]->key, "-");
        mf_html_row(p->d, align, cells);
    }
    if (n > 0) mf_html_table_end(p->d);
    mf_html_section_end(p->d);
}
