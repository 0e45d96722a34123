/* run/observers/memory_log.c: writes a line of memory.jsonl after each validation. All lines
 * of a step are in the file before the checkpoint of that step is saved. */
#include <string.h>
#include "base/mem.h"
#include "run/metrics/memory.h"
#include "run/observers/observers.h"

typedef struct memory_log {
    mf_step_file *file;
} memory_log;

static int begin(void *self, mf_trainer *t)
{
    memory_log *o = self;
    return mf_step_file_open(mf_training_dir(t)->memory,
                             mf_training_resumed(t) ? mf_trainer_steps(t) : -1, &o->file);
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    memory_log *o = self;
    if (strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) != 0) return MF_OK;
    return mf_memory_put(o->file, mf_trainer_steps(t));
}

static int end(void *self, mf_trainer *t)
{
    (void)t;
    return mf_step_file_sync(((memory_log *)self)->file);
}

static int save(void *self, mf_trainer *t, mf_state *s)
{
    (void)s;
    return end(self, t);
}

static void free_log(void *self)
{
    memory_log *o = self;
    mf_step_file_close(o->file);
    mf_free(o);
}

int mf_observe_memory_log(mf_trainer *t)
{
    static const mf_observer ops = {.name = "memory log",
                                    .begin = begin,
                                    .after_eval = after_eval,
                                    .end = end,
                                    .save = save,
                                    .free = free_log};
    if (!mf_training_dir(t)) return MF_OK;
    memory_log *o = mf_alloc(1, sizeof *o);
    return o ? mf_trainer_observe(t, &ops, o) : MF_ENOMEM;
}
