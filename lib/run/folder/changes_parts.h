/* run/folder/changes_parts.h: types and functions that the parts of changes.h share. */
#ifndef MF_RUN_CHANGES_PARTS_H
#define MF_RUN_CHANGES_PARTS_H

#include "base/mem.h"
#include "run/folder/changes.h"

typedef struct mf_run_change {
    const char *section, *key;
    const char *from, *to; /* from NULL: the key did not exist; to NULL: the section no
                            * longer exists */
    bool added;            /* the section is new */
    bool local;            /* the key is local, see mf_section */
    bool none;             /* the change has no effect */
    bool edited;           /* config.ini does not have the value `from` */
} mf_run_change;

struct mf_run_changes {
    mf_arena *arena;
    mf_run_change *list;
    int n, room;
    mf_ini *file;   /* the present config.ini, with all keys */
    mf_ini *before; /* the configuration in `file` with the values in force; may be the same
                     * object as `file` */
    mf_ini *now;    /* the configuration with which the run will continue, with all keys */
};

/* Returns the value of a key; NULL: there is none. */
const char *mf_run_value(mf_ini *ini, const char *section, const char *key);
/* Computes the values in force from `all`, the present config.ini with all keys. Keys that
 * somebody has edited in the file since moefw wrote it get their earlier values. *ret NULL: the
 * file is unchanged, or its earlier text is unknown. MF_EINPUT: a damaged manifest. */
int mf_run_edits_undo(const mf_rundir *dir, mf_ini *all, mf_ini **ret);
/* Writes config.ini and manifest.json with the changes that have an effect, if there are any.
 * Changes without effect are removed from config.ini if somebody wrote them there. */
int mf_run_changes_write(const mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t);

#endif
