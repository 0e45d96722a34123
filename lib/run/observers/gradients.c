/* run/observers/gradients.c: names, once, the parameters whose gradient was 0 in each of some
 * steps. Such parameters do not learn, and no other message says so.
 *
 * A gradient is read until its first element that is not 0. After such an element was found,
 * the gradient is never read again, so a step costs almost nothing. On the host the first steps
 * are watched. Reading from a device waits for the device. Therefore later steps are watched
 * there, when one step is enough for most parameters. Each rank checks its part of the sum, and
 * rank 0 logs the result. Parameters of shared experts are not checked, because each rank has
 * only a part of them. */
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "run/observers/observers.h"

enum { WATCHED = 20, FEWEST = 5, CHUNK = 4096, NAMED = 8 };

typedef struct watch {
    bool *seen;               /* [count] whether the gradient had an element other than 0 */
    int count, before, steps; /* before: number of first steps that are not watched; steps:
                               * number of steps watched */
    bool first;               /* the watched steps are the first steps */
    float chunk[CHUNK];
} watch;

static bool is_trained(const mf_param *p)
{
    return !p->buffer && !p->frozen && !p->stored && !p->held && p->grad;
}

static int look(watch *w, const mf_store *s, const mf_param *p, bool *seen)
{
    for (int64_t at = 0; at < p->count && !*seen; at += CHUNK) {
        const int64_t n = p->count - at < CHUNK ? p->count - at : CHUNK;
        const int rc = mf_store_read(s, MF_BLOCK_GRADS, w->chunk,
                                     (size_t)(p->offset + at) * sizeof *w->chunk,
                                     (size_t)n * sizeof *w->chunk);
        if (rc != MF_OK) return rc;
        for (int64_t i = 0; i < n && !*seen; i++)
            *seen = w->chunk[i] != 0;
    }
    return MF_OK;
}

static void tell(const watch *w, const mf_store *s)
{
    char names[512] = "";
    int found = 0;
    for (int i = 0; i < w->count; i++) {
        const mf_param *p = mf_store_at(s, i);
        const size_t n = strlen(names);
        if (w->seen[i] || !is_trained(p)) continue;
        if (found++ < NAMED)
            snprintf(names + n, sizeof names - n, "%s%s", found > 1 ? ", " : "", p->name);
    }
    if (found == 0) return;
    mf_log(
        MF_LOG_WARN,
        "the gradient of %s%s was 0 in each of %s%d steps: %s not learn; expected a loss that "
        "depends on %s, or train.freeze",
        names, found > NAMED ? " and others" : "", w->first ? "the first " : "", w->steps,
        found > 1 ? "they do" : "it does", found > 1 ? "them" : "it");
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    watch *w = self;
    const mf_session *session = mf_training_session(t);
    const mf_store *s = session->model->store;
    int rc = MF_OK;
    if (w->steps >= WATCHED || r->skipped) return MF_OK;
    if (w->before > 0) {
        w->before--;
        return MF_OK;
    }
    w->steps++;
    for (int i = 0; rc == MF_OK && i < w->count; i++)
        if (!w->seen[i] && is_trained(mf_store_at(s, i)))
            rc = look(w, s, mf_store_at(s, i), &w->seen[i]);
    const bool last = r->step == session->steps && w->steps >= FEWEST;
    if (rc != MF_OK || (w->steps < WATCHED && !last)) return rc;
    if (mf_world_rank(mf_trainer_world(t)) == 0) tell(w, s);
    return MF_OK;
}

static void free_watch(void *self)
{
    watch *w = self;
    mf_free(w->seen);
    mf_free(w);
}

int mf_observe_gradients(mf_trainer *t)
{
    static const mf_observer ops = {
        .name = "gradients", .after_step = after_step, .free = free_watch};
    watch *w = mf_alloc(1, sizeof *w);
    if (!w) return MF_ENOMEM;
    w->count = mf_store_count(mf_training_session(t)->model->store);
    w->first = mf_device_is_host(mf_training_session(t)->model->options.device);
    w->before = w->first ? 0 : WATCHED - 1;
    w->seen = mf_alloc((size_t)w->count, sizeof *w->seen);
    if (!w->seen) {
        free_watch(w);
        return MF_ENOMEM;
    }
    return mf_trainer_observe(t, &ops, w);
}
