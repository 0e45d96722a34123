/* cli/restart.h: restarts the program with settings that the OpenMP runtime reads at start. */
#ifndef MF_CLI_RESTART_H
#define MF_CLI_RESTART_H

/* Call this before any computing. If waiting threads would spin for long, or if thread stacks
 * are too small for a gemm, restarts the program and then does not return. On a busy machine
 * spinning costs whole time slices (30 times slower, measured with twice as many runnable
 * threads as cores). MF_EDEP if the system's limit forbids larger stacks. Does nothing if the
 * environment already has the settings or the system refuses. argv: all words that main
 * received, since what they allow and say must hold afterwards, too; NULL: no restart. */
int mf_cli_restart(char **argv);

#endif
