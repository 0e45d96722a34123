/* run/start.h: a new run that begins with the weights of another one (train.from). */
#ifndef MF_RUN_START_H
#define MF_RUN_START_H

#include "run/session.h"

/* Reads the weights of the newest checkpoint of the run that train.from names (RUN/best: those
 * of its best one) into the session's model. Parameters that the run lacks keep their initial
 * values, which from_step and from_missing of the session report. MF_EINPUT: no such run;
 * MF_ECHECKPOINT: no checkpoint that verifies, a parameter with another shape, or no parameter
 * in common. */
int mf_start_from(mf_session *s);

#endif
