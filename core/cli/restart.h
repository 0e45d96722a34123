/* cli/restart.h: restarts the program with settings that the OpenMP runtime reads at start. */
#ifndef MF_CLI_RESTART_H
#define MF_CLI_RESTART_H

/* To be called before any computing. Makes waiting threads sleep soon instead of spinning,
 * which on a busy machine costs whole time slices (30 times slower, measured with twice as many
 * runnable threads as cores). Enlarges thread stacks that are too small for a gemm; fails with
 * MF_EDEP if the system's limit forbids that. Does nothing if the environment already has the
 * settings or the system refuses. argv: as main received it. */
int mf_cli_restart(char **argv);

#endif
