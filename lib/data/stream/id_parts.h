/* data/stream/id_parts.h: the token ids of files, in parts one after another: in memory, or
 * where a mapped file has them, so that a corpus may be larger than memory.
 *
 * Ids are unsigned little-endian words of 1, 2 or 4 bytes. Reading a mapped part brings pages
 * into memory, which count as memory of the process; mf_id_parts_release releases them. A file
 * that is cut while it is mapped ends the process (base/file/map.h). */
#ifndef MF_DATA_ID_PARTS_H
#define MF_DATA_ID_PARTS_H

#include <stdbool.h>

#include "base/file/map.h"

enum {
    MF_IDS_VOCAB = 4 << 20,  /* ids are below this */
    MF_IDS_MAPPED = 64 << 20 /* files of so many bytes are mapped, smaller ones are copied */
};

typedef struct mf_id_part {
    int64_t begin, n; /* index of its first token, number of tokens */
    const void *ids;
    int32_t id_bytes; /* 1, 2 or 4 */
    int32_t largest;  /* id */
    mf_map map;       /* the file, if this part owns its mapping */
    void *own;        /* the memory, if the part is in memory */
} mf_id_part;

typedef struct mf_id_parts {
    mf_id_part *part;
    int32_t n_parts, cap;
    int64_t n;
} mf_id_parts; /* {0} is empty */

void mf_id_part_free(mf_id_part *part);
uint32_t mf_id_parts_word(const mf_id_part *part, int64_t i); /* any word, also a wrong id */
/* Adds a part, which is owned even if this fails (MF_ENOMEM); `begin` is set here. */
int mf_id_parts_add(mf_id_parts *t, mf_id_part *part);
/* Moves all parts of *from behind those of *to. MF_ENOMEM: *from is as before. */
int mf_id_parts_append(mf_id_parts *to, mf_id_parts *from);
void mf_id_parts_free(mf_id_parts *t);

/* The id at index 0 <= i < n. Any thread may call it. */
int32_t mf_id_parts_id(const mf_id_parts *t, int64_t i);
/* Returns pages of mapped files to the system, which reads them again when they are needed. */
void mf_id_parts_release(const mf_id_parts *t);
bool mf_id_parts_mapped(const mf_id_parts *t); /* whether a part is mapped */

/* The words of part->ids of a file as they are; *ret_wrong is the first word that is no id
 * below MF_IDS_VOCAB, -1: none. Sets part->largest. */
void mf_id_parts_scan(mf_id_part *part, int64_t *ret_wrong);
/* Makes a part of `bytes` bytes at `at` of a map: a copy, or, if they are many and the map is
 * one of a file (`changed` is not 0), the bytes where they are; the part then has the map, and
 * *map is empty. MF_ENOMEM. */
int mf_id_parts_take(mf_map *map, size_t at, size_t bytes, int32_t id_bytes, mf_id_part *ret);

#endif
