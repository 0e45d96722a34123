/* lab/result/result_parts.h: functions that the files of lab/result share. */
#ifndef MF_LAB_RESULT_PARTS_H
#define MF_LAB_RESULT_PARTS_H

#include "run/sections/sources.h"
#include "lab/result/result.h"

/* The first line of a configuration in a result: nothing of the reader's own files is added. */
#define MF_RESULT_FIRST_LINE "; of a result" MF_CONFIG_COMPLETE "\n"
/* Whether a value of the configuration is the path of a file. */
bool mf_result_is_path(const char *value);
/* Whether an entry is overridden, or is a key of a machine or its user (mf_section.local). */
bool mf_result_is_local(const mf_ini_entry *e);

/* SHA-256 of what of a shared object is loaded: the same for builds in different folders and
 * for stripped files. Returns false if the file is no shared object of this machine's form. */
bool mf_result_code(const char *path, char ret[MF_SHA256_HEX]);

/* Compares the files of a checkpoint of the run `from` with their hashes in the result. MF_ERUN
 * if they differ, MF_EINPUT if one of the two does not exist. */
int mf_result_check_hashes(const mf_json *run, const char *from, int64_t step);
/* The text of a member; "" if it is missing or no text. */
const char *mf_result_text(const mf_json *object, const char *key);
/* SHA-256 of metrics.jsonl without the members that contain a time. */
int mf_result_lines_hash(const char *metrics, char ret[MF_SHA256_HEX]);

#endif
