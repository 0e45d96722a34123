/* comm/launch.h: what the environment says about the launcher that has started this process. */
#ifndef MF_COMM_LAUNCH_H
#define MF_COMM_LAUNCH_H

#include <stdbool.h>

typedef struct mf_launch {
    const char *launcher; /* for messages: "mpirun of Open MPI" */
    const char *module;   /* the communicator that fits */
    int rank, ranks;      /* of the launcher */
} mf_launch;

/* False if no launcher has started this process, or it has started only one. */
bool mf_launch_find(mf_launch *ret);

#endif
