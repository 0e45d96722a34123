/* train/run/changes_parts.h: what the parts of changes.h share. */
#ifndef MF_TRAIN_CHANGES_PARTS_H
#define MF_TRAIN_CHANGES_PARTS_H

#include "base/mem.h"
#include "train/run/changes.h"

typedef struct mf_run_change {
    const char *section, *key;
    const char *from, *to; /* from NULL: there was no such key; to NULL: the section is gone */
    bool added;            /* the section was not there */
    bool local;            /* see mf_section */
    bool none;             /* without effect */
} mf_run_change;

struct mf_run_changes {
    mf_arena *arena;
    mf_run_change *list;
    int n, room;
};

/* Writes config.ini and manifest.json with the changes that have an effect. */
int mf_run_changes_write(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t);

#endif
