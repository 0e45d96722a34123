/* comm/launch.c: reads the variables that launchers set. This is needed because MPI itself does
 * not detect the launcher of another implementation: each process would be a separate run. */
#include "comm/launch.h"
#include <stddef.h>
#include <stdlib.h>

static const struct {
    const char *ranks, *rank, *module, *launcher;
} known[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "openmpi", "mpirun of Open MPI"},
    {"PMI_SIZE", "PMI_RANK", "mpich", "a launcher with PMI (mpirun of MPICH, srun --mpi=pmi2)"},
    {"SLURM_NTASKS", "PMIX_RANK", "openmpi", "a launcher with PMIx (srun --mpi=pmix)"},
};

/* Returns a number from 0 to a million; -1: the variable is missing or is no such number. */
static int number_of(const char *name)
{
    char *end;
    const char *text = getenv(name);
    const long n = text ? strtol(text, &end, 10) : -1;
    return text && *text && *end == '\0' && n >= 0 && n <= 1000000 ? (int)n : -1;
}

bool mf_launch_find(mf_launch *ret)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const int rank = number_of(known[i].rank), ranks = number_of(known[i].ranks);
        if (rank < 0 || ranks <= rank) continue;
        *ret = (mf_launch){known[i].launcher, known[i].module, rank, ranks};
        return ranks > 1;
    }
    return false;
}
