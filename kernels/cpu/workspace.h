/* cpu/workspace.h: memory of each thread for packed operands and sums, which a gemm would
 * otherwise put on the stack: callers would need large stacks, and a compiler that probes the
 * stack would touch every page of a frame in each tile. */
#ifndef MF_CPU_WORKSPACE_H
#define MF_CPU_WORKSPACE_H

#include <stdbool.h>

/* Parts of a thread's workspace. A function that uses one calls only functions that use those
 * behind it. Sizes in floats; each part begins at a multiple of 64 bytes. */
typedef enum mf_room {
    MF_ROOM_STORED, /* unpacked weights; sums of many rows */
    MF_ROOM_SUMS,   /* sums in f32 of a part of c */
    MF_ROOM_TILE    /* panels of one tile */
} mf_room;
enum { MF_ROOM_STORED_SIZE = 65536, MF_ROOM_SUMS_SIZE = 262144, MF_ROOM_TILE_SIZE = 557056 };

/* Makes the workspace of the calling thread; false: no memory. It lives as long as the thread.
 * Call this where a thread begins to compute, so that mf_cpu_room cannot fail. */
bool mf_cpu_workspace(void);
/* A part of the calling thread's workspace. Ends the program if there is none and no memory. */
float *mf_cpu_room(mf_room part);

#endif
