/* train/run/start.h: a new run that begins with the weights of another one (train.from). */
#ifndef MF_TRAIN_START_H
#define MF_TRAIN_START_H

#include "train/run/session.h"

/* Reads the newest weights of the run in train.from into the session's model. Parameters with
 * equal name and shape are read, the others keep their initial values; a log line tells which.
 * MF_EINPUT: no such run; MF_ECHECKPOINT: nothing in common. */
int mf_start_from(mf_session *s);

#endif
