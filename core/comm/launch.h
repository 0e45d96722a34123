/* comm/launch.h: describes the launcher that has started this process, from the environment. */
#ifndef MF_COMM_LAUNCH_H
#define MF_COMM_LAUNCH_H

#include <stdbool.h>

typedef struct mf_launch {
    const char *launcher; /* name for messages, for example "mpirun of Open MPI" */
    const char *module;   /* the communicator that fits the launcher */
    int rank, ranks;      /* values from the launcher */
} mf_launch;

/* Returns false if no launcher has started this process, or if the launcher has started only
 * one process. */
bool mf_launch_find(mf_launch *ret);

#endif
