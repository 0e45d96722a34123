/* run/folder/describe.h: what a run's config.ini and manifest.json say, as names with texts,
 * for programs that list runs. */
#ifndef MF_RUN_DESCRIBE_H
#define MF_RUN_DESCRIBE_H

#include "base/text/ini.h"
#include "io/json.h"

/* Gets a name and its text, which are valid during the call. Returns MF_OK, or a code that ends
 * the walk. */
typedef int (*mf_describe_visit)(void *arg, const char *name, const char *text);

/* Each key in use: "train.lr", "0.001". Returns what the visits do. */
int mf_describe_keys(mf_ini *config, mf_describe_visit visit, void *arg);
/* Each text and number of the manifest: "moefw.seed", "1"; then the tags that MLflow shows: the
 * name of the run, which is the last part of its path, user and program. */
int mf_describe_run(const mf_json *manifest, const char *path, mf_describe_visit visit,
                    void *arg);
/* The last part of the path of a run. */
const char *mf_describe_name(const char *path, char out[128]);
/* The same two for the files of a run. Errors: those of reading them, and of the visits. */
int mf_describe_config_file(const char *config, mf_describe_visit visit, void *arg);
int mf_describe_manifest_file(const char *manifest, const char *path, mf_describe_visit visit,
                              void *arg);

#endif
