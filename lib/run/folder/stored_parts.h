/* run/folder/stored_parts.h: declarations shared by the files of stored weights: the list
 * (stored_files.c), its text (stored_list.c), and the sizes of parts (stored_parts.c). */
#ifndef MF_RUN_STORED_PARTS_H
#define MF_RUN_STORED_PARTS_H

#include "io/map.h"
#include "base/mem.h"
#include "graph/store/stored.h"
#include "run/folder/stored_files.h"

typedef struct mf_stored_file {
    const char *path;
    mf_map map;
    char hash[33];
} mf_stored_file;

typedef struct mf_stored_weight {
    const char *name;
    const mf_stored *w;
} mf_stored_weight;

struct mf_stored_files {
    mf_arena *arena;
    mf_stored_file *files;
    int n_files;
    mf_stored_weight *weights;
    int n_weights, room;
};

extern const char *const mf_stored_type_names[MF_STORED_TYPES];

/* Maps a file and appends it to the list, without its checksum. */
int mf_stored_files_map(mf_stored_files *f, const char *path);

/* Checks all numbers of a weight, that its memory is in mapped files, and that groups of inputs
 * exist. MF_EINPUT with the name; MF_ENOMEM. */
int mf_stored_judge(const mf_stored_files *f, const char *name, const mf_stored *w);

#endif
