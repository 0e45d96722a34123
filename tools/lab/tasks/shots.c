/* Gives each item of a task its examples, drawn as lm-evaluation-harness draws them: one
 * generator for a task, a sample for each item in their order. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "lab/tasks/draw.h"
#include "lab/tasks/tasks.h"

static bool equal(const mf_task_item *a, const mf_task_item *b)
{
    if (a == b) return true;
    if (a->n != b->n || a->gold != b->gold || strcmp(a->context, b->context) != 0) return false;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->choice[i], b->choice[i]) != 0) return false;
    return true;
}

int mf_task_give_shots(mf_task_file *f, const mf_task_file *from, const mf_task_shots *how)
{
    /* one more from its own file, for the item itself may be among them */
    const int draw = how->n + (from == f);
    if (draw > from->n)
        return mf_fail(MF_EINPUT, "%s: expected at least %d items for %d example%s%s, found %d",
                       from->name, draw, how->n, how->n == 1 ? "" : "s",
                       from == f ? " besides the item itself" : "", from->n);
    mf_draw d;
    int *pool = mf_alloc((size_t)from->n + (size_t)draw, sizeof *pool), *drawn = pool + from->n;
    if (!pool) return MF_ENOMEM;
    mf_draw_seed(&d, how->seed);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < f->n; i++) {
        mf_task_item *it = &f->items[i];
        if (how->first)
            for (int k = 0; k < draw; k++)
                drawn[k] = k;
        else
            mf_draw_sample(&d, from->n, draw, pool, drawn);
        it->shot = mf_arena_alloc(f->arena, (size_t)how->n * sizeof *it->shot);
        it->n_shots = 0;
        if (!it->shot) rc = MF_ENOMEM;
        for (int k = 0; it->shot && k < draw && it->n_shots < how->n; k++)
            if (!equal(&from->items[drawn[k]], it))
                it->shot[it->n_shots++] = &from->items[drawn[k]];
    }
    mf_free(pool);
    return rc;
}

char *mf_task_context(const mf_task_item *it)
{
    size_t size = strlen(it->context) + 1, at = 0;
    for (int i = 0; i < it->n_shots; i++)
        size += strlen(it->shot[i]->context) + strlen(it->shot[i]->choice[it->shot[i]->gold]) +
                strlen(" \n\n");
    char *text = mf_alloc(size, 1);
    for (int i = 0; text && i < it->n_shots; i++) {
        const char *const parts[] = {it->shot[i]->context, " ",
                                     it->shot[i]->choice[it->shot[i]->gold], "\n\n"};
        for (int p = 0; p < 4; p++) {
            memcpy(text + at, parts[p], strlen(parts[p]));
            at += strlen(parts[p]);
        }
    }
    if (text) memcpy(text + at, it->context, strlen(it->context) + 1);
    return text;
}
