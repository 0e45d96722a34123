/* cli/signals.h: signals of the command line. A stop signal is passed to the run that trains,
 * which ends after its step; a second one of the same kind ends the process at once. */
#ifndef MF_CLI_SIGNALS_H
#define MF_CLI_SIGNALS_H

#include <moefw/run.h>
#include <stdbool.h>

/* SIGINT, SIGTERM, SIGHUP, SIGXCPU: stop; SIGUSR1: save, or if usr1_stops stop, too. run:
 * receives the requests; NULL: the caller polls mf_signals_stop. */
void mf_signals_catch(moefw_run *run, bool usr1_stops);
void mf_signals_release(void);
int mf_signals_stop(void); /* signal number, 0 if none; also after release */

#endif
