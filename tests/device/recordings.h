/* recordings.h: the part of strict.c that records launches. A recording is a list of entries.
 * Each replay queues copies of the entries. */
#ifndef TESTS_DEVICE_RECORDINGS_H
#define TESTS_DEVICE_RECORDINGS_H

static int record_begin(mf_device *d, void *where)
{
    queue *t = where;
    recording *r = calloc(1, sizeof *r);
    if (!r) return MF_ENOMEM;
    r->last = &r->first;
    if (t->records) return breach(of(d), MF_ERUN, "a recording within a recording");
    t->records = r;
    of(d)->recordings++;
    return of(d)->error;
}

static int record_end(mf_device *d, void *where, void **ret)
{
    queue *t = where;
    *ret = t->records;
    if (!t->records) return breach(of(d), MF_ERUN, "the end of a recording without a begin");
    t->records = NULL;
    return of(d)->error;
}

/* Queues copies of the entries. */
static int replay(mf_device *d, void *where, void *what)
{
    strict *s = of(d);
    const recording *r = what;
    for (const entry *e = r->first; e; e = e->next) {
        entry *copy = append(where, e->kind, e->size);
        if (!copy) return s->error;
        entry *next = copy->next;
        memcpy(copy, e, sizeof *e + e->size);
        copy->next = next;
        if (e->kind == LAUNCH) count_launch(s, e->kernel);
    }
    s->all.replays++;
    maybe_run(s);
    return s->error;
}

static void recording_free(mf_device *d, void *what)
{
    recording *r = what;
    of(d)->recordings--;
    while (r->first) {
        entry *e = r->first;
        r->first = e->next;
        free(e);
    }
    free(r);
}

#endif
