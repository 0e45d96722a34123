/* lab/result/result_parts.h: functions that the files of lab/result share. */
#ifndef MF_LAB_RESULT_PARTS_H
#define MF_LAB_RESULT_PARTS_H

#include "lab/result/result.h"

/* A line of a resolved configuration: its section, its key ("": none), and where its
 * value is. */
typedef struct mf_result_setting {
    char section[128], key[128];
    const char *value; /* NULL: none */
    size_t length;
} mf_result_setting;
/* Reads the line at `line`, and returns the next one. The section stays until a line
 * changes it. */
const char *mf_result_line(const char *line, mf_result_setting *ret);

/* Compares the files of a checkpoint of the run `from` with their hashes in the result. MF_ERUN
 * if they differ, MF_EINPUT if one of the two does not exist. */
int mf_result_check_hashes(const mf_json *run, const char *from, int64_t step);
/* The text of a member; "" if it is missing or no text. */
const char *mf_result_text(const mf_json *object, const char *key);
/* SHA-256 of metrics.jsonl without the members that contain a time. */
int mf_result_lines_hash(const char *metrics, char ret[MF_SHA256_HEX]);

#endif
