/* data/jinja/limits.c: what a template may take. Statements, expressions and visited items are
 * steps, and so are every MF_JINJA_STEP bytes that an operation reads or writes, because one
 * expression can search a text of 64 MiB. What runs and what is visited has a greatest nesting,
 * because both are recursive: a chain of filters and a list in a list can be of any length. */
#include "data/jinja/jinja_internal.h"

#include "base/error.h"

bool jj_spend(jj_run *r, size_t n)
{
    if (r->rc != MF_OK) return false;
    r->work += n;
    if (r->work / MF_JINJA_STEP > r->limits->steps)
        jj_fail(r, "the template takes more than %zu steps", r->limits->steps);
    return r->rc == MF_OK;
}

bool jj_step(jj_run *r, int line)
{
    if (r->rc != MF_OK) return false;
    if (line > 0) r->line = line;
    return jj_spend(r, MF_JINJA_STEP);
}

bool jj_enter(jj_run *r, int line)
{
    if (!jj_step(r, line)) return false;
    if (r->nesting == MF_JINJA_NESTING) {
        jj_fail(r, "expressions, calls or values are nested more than %d deep",
                MF_JINJA_NESTING);
        return false;
    }
    r->nesting++;
    return true;
}

void jj_leave(jj_run *r)
{
    r->nesting--;
}

bool jj_may_take(jj_run *r, size_t bytes)
{
    if (r->rc == MF_OK && mf_arena_used(r->arena) + r->held + bytes > r->limits->memory)
        jj_fail(r, "the template makes more than %zu MiB of values", r->limits->memory >> 20);
    return r->rc == MF_OK;
}

void *jj_take(jj_run *r, size_t bytes)
{
    if (!jj_may_take(r, bytes)) return NULL;
    void *block = mf_arena_alloc(r->arena, bytes);
    if (!block) r->rc = MF_ENOMEM;
    return block;
}
