/* run/folder/changes_parts.h: types and functions that the parts of changes.h share. */
#ifndef MF_RUN_CHANGES_PARTS_H
#define MF_RUN_CHANGES_PARTS_H

#include "base/mem.h"
#include "run/folder/changes.h"

typedef struct mf_run_change {
    const char *section, *key;
    const char *from, *to; /* from NULL: there was no such key; to NULL: the section is gone */
    bool added;            /* the section was not there */
    bool local;            /* see mf_section */
    bool none;             /* without effect */
    bool edited;           /* config.ini does not have the value `from` */
} mf_run_change;

struct mf_run_changes {
    mf_arena *arena;
    mf_run_change *list;
    int n, room;
    mf_ini *file;   /* config.ini as it is, with all keys */
    mf_ini *before; /* the same with the values in force; it may be `file` */
    mf_ini *now;    /* the configuration with which the run is to go on, with all keys */
};

/* The value of a key; NULL: there is none. */
const char *mf_run_value(mf_ini *ini, const char *section, const char *key);
/* Makes of `all`, config.ini as it is with all keys, the values in force: those of keys that
 * somebody has changed in the file since moefw wrote it are as before. *ret NULL: the file is
 * unchanged, or its earlier text is not known. MF_EINPUT: a damaged manifest. */
int mf_run_edits_undo(const mf_rundir *dir, mf_ini *all, mf_ini **ret);
/* Writes config.ini and manifest.json with the changes that have an effect, if there are any,
 * and takes those that have none out of config.ini, where somebody wrote them. */
int mf_run_changes_write(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t);

#endif
