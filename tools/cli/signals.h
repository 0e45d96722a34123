/* cli/signals.h: signals of the command line. A stop signal is passed to the run that trains,
 * which ends after its step; a second one of the same kind ends the process at once. */
#ifndef MF_CLI_SIGNALS_H
#define MF_CLI_SIGNALS_H

#include <moefw/run.h>
#include <stdbool.h>

/* Catches SIGINT, SIGTERM, SIGHUP and SIGXCPU to stop, and SIGUSR1 to save. If usr1_stops,
 * SIGUSR1 stops, too. run: receives the requests; NULL: the caller polls mf_signals_stop. */
void mf_signals_catch(moefw_run *run, bool usr1_stops);
void mf_signals_release(void);
int mf_signals_stop(void); /* number of the received stop signal, 0 if none; also after the
                            * handlers are released */
/* Ends the process by that signal, so that the shell sees which one it was. */
void mf_signals_end(void);

#endif
