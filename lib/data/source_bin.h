/* data/source_bin.h: checks that the values of a token file are ids of the expected size. */
#ifndef MF_DATA_SOURCE_BIN_H
#define MF_DATA_SOURCE_BIN_H

#include "data/stream/id_parts.h"

/* Refuses text, and ids that are halves or pairs of values of another size: MF_EINPUT. bits:
 * size that the user has set; 0: not set. path is for messages. */
int mf_bin_judge_width(const char *path, const mf_id_part *p, int32_t bits);

#endif
