/* run/folder/changes.h: what a resumed run does differently. config.ini describes the run, so a
 * change that takes effect when the run is resumed is written there, and logged with the old
 * value. manifest.json keeps the list of all such changes. A change that cannot take effect is
 * logged, too, and leaves the files as they are. manifest.json also keeps the text of
 * config.ini: an edit of the file by hand counts as a change, like one of the command line, and
 * so does the text of a process that was killed before it wrote manifest.json. */
#ifndef MF_RUN_CHANGES_H
#define MF_RUN_CHANGES_H

#include "run/folder/rundir.h"
#include "run/run_config.h"
#include "run/training.h"

/* Members of manifest.json: the list of changes, each {step, option, from, to}; the XXH3-128 of
 * manifest.json and config.ini, one after the other, before the first of them; and the text of
 * config.ini as it was written. */
#define MF_RUN_CHANGES     "changes"
#define MF_RUN_FIRST_FILES "first_files"
#define MF_RUN_CONFIG      "config"

#define MF_RUN_HASH 33

enum { MF_RUN_MANIFEST_MAX = 4 << 20 }; /* bytes of manifest.json */

/* The hash by which `moefw export mlflow` names a run: of both texts, one after the other. */
int mf_run_files_hash(const char *manifest, size_t n, const char *config, size_t m,
                      char hash[MF_RUN_HASH]);

typedef struct mf_run_changes mf_run_changes;

/* Compares the values in force, which the run's config.ini had when moefw wrote it, with the
 * configuration with which the run is to continue. MF_ECONFIG if the latter describes another
 * model, or another optimizer: weights and moments of the checkpoint would then mean something
 * else, even where their shapes fit. Allowed are other paths of the same plugin, and of files.
 * The caller frees *ret. */
int mf_run_changes_find(const mf_rundir *dir, const mf_config *now, mf_run_changes **ret);
/* After the checkpoint was loaded and before the first step: logs each change, and writes
 * config.ini and manifest.json if `writes`. A live option continues with the value of the
 * checkpoint, and a run whose steps are all done takes only local keys (mf_section). MF_EIO,
 * MF_ENOMEM; MF_EINPUT: manifest.json is no JSON. */
int mf_run_changes_keep(mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t,
                        bool writes);
/* The status for a checkpoint that could not be loaded: MF_ECONFIG instead of MF_ECHECKPOINT if
 * the changes are why it may not fit, as a new controller with a state of its own. */
int mf_run_changes_judge(const mf_run_changes *c, int rc);
void mf_run_changes_free(mf_run_changes *c);

#endif
