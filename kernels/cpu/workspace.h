/* cpu/workspace.h: memory of each thread for packed operands and sums. A gemm would otherwise
 * put them on the stack: callers would need large stacks, and a compiler that probes the stack
 * would access every page of a frame in each tile. */
#ifndef MF_CPU_WORKSPACE_H
#define MF_CPU_WORKSPACE_H

#include <stdbool.h>

/* Parts of a thread's workspace. A function that uses one part calls only functions that use
 * later parts. Sizes are in floats; each part begins at a multiple of 64 bytes. */
typedef enum mf_room {
    MF_ROOM_STORED, /* unpacked weights; sums of many rows */
    MF_ROOM_SUMS,   /* f32 sums of a part of c */
    MF_ROOM_TILE    /* panels of one tile */
} mf_room;
enum { MF_ROOM_STORED_SIZE = 65536, MF_ROOM_SUMS_SIZE = 262144, MF_ROOM_TILE_SIZE = 557056 };

/* Creates the workspace of the calling thread; false: no memory. It exists as long as the
 * thread. Call this when a thread begins to compute, so that mf_cpu_room cannot fail. */
bool mf_cpu_workspace(void);
/* Returns a part of the calling thread's workspace. Ends the program if the workspace does not
 * exist and there is no memory. */
float *mf_cpu_room(mf_room part);

#endif
