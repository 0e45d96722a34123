/* lab/result/verify_parts.h: functions that the files of verify share. */
#ifndef MF_LAB_VERIFY_PARTS_H
#define MF_LAB_VERIFY_PARTS_H

#include "lab/result/verify.h"

/* Finds the inputs of a run, and writes its configuration with their paths to the file ini
 * (NULL: not). *ret_config: the text, freed with mf_free. MF_EINPUT if an input is missing. */
int mf_verify_prepare(const mf_json *run, const mf_verify_spec *s, const char *ini,
                      char **ret_config);
/* Trains in a child: a configuration `what` into the new run dir, or the run dir further if
 * `what` is the same. seed: in place of that of the configuration; -1: no. stop_at: the step at
 * which it stops; 0: the last. MF_ERUN with the last message of the run, MF_ESIGNAL. */
int mf_verify_train(const mf_verify_spec *s, const char *what, const char *dir, int64_t seed,
                    int64_t stop_at, int64_t to);

#endif
