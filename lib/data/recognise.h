/* data/recognise.h: recognizes the format of a data file by its first bytes. */
#ifndef MF_DATA_RECOGNISE_H
#define MF_DATA_RECOGNISE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes begin JSON lines: the first line is an object or the beginning of a
 * longer object. */
bool mf_recognise_jsonl(const char *data, size_t n);
/* Refuses formats that only other programs read: Parquet, and compressed files. MF_EINPUT; the
 * message says how to convert the file at path. */
int mf_recognise_foreign(const char *path, const char *data, size_t n);

#endif
