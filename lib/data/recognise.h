/* data/recognise.h: recognizes the format of a data file by its first bytes. */
#ifndef MF_DATA_RECOGNISE_H
#define MF_DATA_RECOGNISE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes begin JSON lines: their first line is an object, or begins a longer one. */
bool mf_recognise_jsonl(const char *data, size_t n);
/* Refuses formats that only other programs read: Parquet, and compressed files. MF_EINPUT, with
 * the way to convert the file at path. */
int mf_recognise_foreign(const char *path, const char *data, size_t n);

#endif
