/* run/observers/limits.c: ends training early: after train.time_limit, at train.stop_at, or on
 * request of the caller (mf_training_options.should_stop). This observer only requests the end.
 * The trainer ends after all observers of the step have been called. */
#include <signal.h>
#include <stdio.h>
#include "run/observers/observers.h"

static int between(void *self, mf_trainer *t)
{
    const mf_train_config *c = &mf_training_session(t)->config->train;
    const int number = mf_trainer_asked_stop(t);
    char why[64];
    (void)self;
    if (number == SIGUSR1 && c->on_usr1 == MF_USR1_STOP) {
        mf_trainer_stop(t, MF_ELIMIT, "stopped by SIGUSR1 (train.on_usr1)");
    } else if (number) {
        snprintf(why, sizeof why, "stopped by signal %d", number);
        mf_trainer_stop(t, MF_ESIGNAL, why);
    } else if (mf_trainer_late(t)) {
        snprintf(why, sizeof why, "time limit of %g s reached", c->time_limit);
        mf_trainer_stop(t, MF_ELIMIT, why);
    } else if (c->stop_at > 0 && mf_trainer_steps(t) >= c->stop_at && !mf_trainer_done(t)) {
        mf_trainer_stop(t, MF_ELIMIT, "stopped by train.stop_at"); /* which step is added */
    }
    return MF_OK;
}

int mf_observe_limits(mf_trainer *t)
{
    static const mf_observer ops = {.name = "limits", .between = between};
    return mf_trainer_observe(t, &ops, NULL);
}
