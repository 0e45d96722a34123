/* data/stream/id_parts.h: the token ids of files, in consecutive parts. A part is in memory or
 * in a mapped file, so a corpus may be larger than memory.
 *
 * Ids are unsigned little-endian words of 1, 2 or 4 bytes. Reading a mapped part brings pages
 * into memory, which count as memory of the process; mf_id_parts_release returns these pages.
 * If a file is shortened while it is mapped, the process ends (io/map.h). */
#ifndef MF_DATA_ID_PARTS_H
#define MF_DATA_ID_PARTS_H

#include <stdbool.h>

#include "io/map.h"

enum {
    MF_IDS_VOCAB = 4 << 20,  /* every id is below this number */
    MF_IDS_MAPPED = 64 << 20 /* files with at least this many bytes are mapped; smaller files
                              * are copied */
};

typedef struct mf_id_part {
    int64_t begin, n; /* index of its first token, number of tokens */
    const void *ids;
    int32_t id_bytes; /* 1, 2 or 4 */
    int32_t largest;  /* largest id */
    mf_map map;       /* the file, if this part owns its mapping */
    void *own;        /* the memory, if the part is in memory */
} mf_id_part;

typedef struct mf_id_parts {
    mf_id_part *part;
    int32_t n_parts, cap;
    int64_t n;
} mf_id_parts; /* {0} is empty */

void mf_id_part_free(mf_id_part *part);
/* Reads any word, also one that is not a valid id. */
uint32_t mf_id_parts_word(const mf_id_part *part, int64_t i);
/* Adds a part, which *t owns even if this fails (MF_ENOMEM). Sets part->begin. */
int mf_id_parts_add(mf_id_parts *t, mf_id_part *part);
/* Moves all parts of *from to the end of *to. After MF_ENOMEM, *from is unchanged. */
int mf_id_parts_append(mf_id_parts *to, mf_id_parts *from);
void mf_id_parts_free(mf_id_parts *t);

/* Returns the id at index 0 <= i < n. Any thread may call this function. */
int32_t mf_id_parts_id(const mf_id_parts *t, int64_t i);
/* Returns pages of mapped files to the system, which reads them again when they are needed. */
void mf_id_parts_release(const mf_id_parts *t);
bool mf_id_parts_mapped(const mf_id_parts *t); /* Whether a part is mapped. */

/* Reads all words of part->ids. *ret_wrong is the index of the first word that is not an id
 * below MF_IDS_VOCAB, -1: none. Sets part->largest. */
void mf_id_parts_scan(mf_id_part *part, int64_t *ret_wrong);
/* Makes a part from `bytes` bytes at offset `at` of a map. A small part is a copy. If the bytes
 * are many and the map is of a file (`changed` is not 0), the part uses the mapped bytes; the
 * part then owns the map, and *map is empty. MF_ENOMEM. */
int mf_id_parts_take(mf_map *map, size_t at, size_t bytes, int32_t id_bytes, mf_id_part *ret);

#endif
