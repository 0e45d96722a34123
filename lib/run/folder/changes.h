/* run/folder/changes.h: the changes of configuration in a resumed run. config.ini describes the
 * run. A change that takes effect on resume is therefore written there, and logged with the old
 * value. manifest.json keeps the list of all such changes. A change that cannot take effect is
 * logged, too, and leaves the files unchanged. manifest.json also keeps the text of config.ini.
 * An edit of the file by hand therefore counts as a change, like one of the command line. So
 * does the text of a process that was killed before it wrote manifest.json. */
#ifndef MF_RUN_CHANGES_H
#define MF_RUN_CHANGES_H

#include "run/folder/rundir.h"
#include "run/run_config.h"
#include "run/training.h"

/* Members of manifest.json: the list of changes, each {step, option, from, to}; the XXH3-128 of
 * manifest.json and config.ini, one after the other, before the first change; and the text of
 * config.ini as it was written. */
#define MF_RUN_CHANGES     "changes"
#define MF_RUN_FIRST_FILES "first_files"
#define MF_RUN_CONFIG      "config"

#define MF_RUN_HASH 33

enum { MF_RUN_MANIFEST_MAX = 4 << 20 }; /* greatest size of manifest.json in bytes */

/* Computes the hash of both texts, one after the other. `moefw export mlflow` names a run
 * by it. */
int mf_run_files_hash(const char *manifest, size_t n, const char *config, size_t m,
                      char hash[MF_RUN_HASH]);

typedef struct mf_run_changes mf_run_changes;

/* Compares two configurations: the values in force, which are those of the run's config.ini
 * when moefw wrote it, and the configuration with which the run will continue. MF_ECONFIG if
 * the latter describes another model or another optimizer. The checkpoint's weights and moments
 * would then have another meaning, even if their shapes fit. Another path of the same plugin,
 * or of a file, is allowed. The caller frees *ret. */
int mf_run_changes_find(const mf_rundir *dir, const mf_config *now, mf_run_changes **ret);
/* Call this after the checkpoint was loaded and before the first step. Logs each change, and
 * writes config.ini and manifest.json if `writes`. A live option continues with the value of
 * the checkpoint. In a run whose steps are all done, only local keys take effect (mf_section).
 * MF_EIO, MF_ENOMEM; MF_EINPUT: manifest.json is not JSON. */
int mf_run_changes_keep(mf_run_changes *c, const mf_rundir *dir, const mf_trainer *t,
                        bool writes);
/* Returns the status for a checkpoint that could not be loaded: MF_ECONFIG instead of
 * MF_ECHECKPOINT if the changes may be the reason, for example a new controller with its
 * own state. */
int mf_run_changes_judge(const mf_run_changes *c, int rc);
void mf_run_changes_free(mf_run_changes *c);

#endif
