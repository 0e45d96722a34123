/* base/signal_name.h: names of signals, for messages. Any thread may call it. */
#ifndef MF_BASE_SIGNAL_NAME_H
#define MF_BASE_SIGNAL_NAME_H

/* "SEGV" for SIGSEGV; NULL for a number that has no name. */
const char *mf_signal_name(int number);

#endif
