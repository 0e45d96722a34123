/* base/signal_name.h: names of signals, for messages. Any thread may call the function. */
#ifndef MF_BASE_SIGNAL_NAME_H
#define MF_BASE_SIGNAL_NAME_H

/* Returns for example "SEGV" for SIGSEGV; NULL for a number that has no name. */
const char *mf_signal_name(int number);

#endif
