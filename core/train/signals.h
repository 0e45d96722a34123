/* train/signals.h: signals set a flag; the loop looks at it at the end of each step. A second
 * signal of the same kind ends the process at once. */
#ifndef MF_TRAIN_SIGNALS_H
#define MF_TRAIN_SIGNALS_H

void mf_signals_catch(void);    /* SIGINT, SIGTERM, SIGHUP, SIGXCPU: stop; SIGUSR1: save */
void mf_signals_release(void);
int mf_signals_stop(void);      /* signal number, 0 if none */
int mf_signals_take_save(void); /* 1 once after each SIGUSR1 */

#endif
