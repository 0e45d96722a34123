/* run/start.h: a new run that begins with the weights of another run (train.from). */
#ifndef MF_RUN_START_H
#define MF_RUN_START_H

#include "run/session.h"

/* Reads the weights of the newest checkpoint of the run that train.from names into the
 * session's model (RUN/best: of the run's best checkpoint). Parameters that this run does not
 * contain keep their initial values. from_step and from_missing of the session report the
 * result. MF_EINPUT: no such run; MF_ECHECKPOINT: no checkpoint that verifies, a parameter with
 * another shape, or no parameter in common. */
int mf_start_from(mf_session *s);

#endif
