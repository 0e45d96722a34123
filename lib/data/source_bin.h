/* data/source_bin.h: whether the values of a token file are ids of the size with which they
 * are read. */
#ifndef MF_DATA_SOURCE_BIN_H
#define MF_DATA_SOURCE_BIN_H

#include "data/stream/id_parts.h"

/* Refuses ids that are halves, or pairs, of values of another size, and text: MF_EINPUT. bits:
 * what the user said; 0: nothing. path is for messages. */
int mf_bin_judge_width(const char *path, const mf_id_part *p, int32_t bits);

#endif
