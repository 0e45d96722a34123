/* run/folder/describe.h: the contents of a run's config.ini and manifest.json as pairs of name
 * and text, for programs that list runs. */
#ifndef MF_RUN_DESCRIBE_H
#define MF_RUN_DESCRIBE_H

#include "base/text/ini.h"
#include "io/json.h"

/* Receives a name and its text, which are valid during the call. Returns MF_OK, or a code that
 * ends the visit of further names. */
typedef int (*mf_describe_visit)(void *arg, const char *name, const char *text);

/* Visits each key in use, for example "train.lr" with "0.001". Returns the result of
 * the visits. */
int mf_describe_keys(mf_ini *config, mf_describe_visit visit, void *arg);
/* Visits each text and number of the manifest, for example "moefw.seed" with "1". Then visits
 * the tags that MLflow shows: the name of the run (the last part of its path), user
 * and program. */
int mf_describe_run(const mf_json *manifest, const char *path, mf_describe_visit visit,
                    void *arg);
/* Returns the last part of the path of a run. */
const char *mf_describe_name(const char *path, char out[128]);
/* These two functions do the same for the files of a run. Errors: those of reading the files,
 * and of the visits. */
int mf_describe_config_file(const char *config, mf_describe_visit visit, void *arg);
int mf_describe_manifest_file(const char *manifest, const char *path, mf_describe_visit visit,
                              void *arg);

#endif
