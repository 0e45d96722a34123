/* plugin/live.h: options that are turned while training runs, by their INI name.
 *
 * A name may stand for several places (an option of a router in each layer): they turn
 * together, and none turns when one of them refuses. What an instance registers is a field of
 * its conf; what the trainer registers is a variable of its own. Beside each place stands a
 * double that graphs read. Turns are kept in order until they are cleared; a turn to the value
 * in force is none.
 */
#ifndef MF_PLUGIN_LIVE_H
#define MF_PLUGIN_LIVE_H

#include <moefw/plugin.h>

typedef struct mf_plughost mf_plughost;
struct mf_param;

/* A turn, for metrics.jsonl: turns: [{step, option, from, to, by, reason}]. */
typedef struct mf_turn {
    int64_t step;
    const char *option; /* INI name: "router.temperature" */
    double from, to;
    const char *by; /* section of the controller */
    const char *reason;
} mf_turn;

int mf_live_register_real(mf_plughost *h, const char *name, double *value, double lo,
                          double hi);
/* shadow: follows the field as a double, for graphs. Strings and the like live as long as h. */
int mf_live_register_option(mf_plughost *h, const char *name, const mf_option *o, void *conf,
                            double *shadow);
/* Element i of a parameter or buffer. It is saved with the parameter and not again as an
 * option; structural: graphs that are built while it is 0 differ from others, so a turn from or
 * to 0 asks for a rebuild. */
int mf_live_register_stored(mf_plughost *h, const char *name, struct mf_param *param, int64_t i,
                            double lo, double hi, bool structural);
/* The same of a variable that is registered already. */
void mf_live_set_structural(mf_plughost *h, const char *name);
bool mf_live_is_stored(const mf_plughost *h, int i); /* the i-th name */
/* MF_ENOTFOUND with the nearest name; MF_ECONFIG: out of bounds, not whole. */
int mf_live_set(mf_plughost *h, const char *name, double value, const char *by,
                const char *reason);
int mf_live_get(const mf_plughost *h, const char *name, double *ret);
int mf_live_count(const mf_plughost *h); /* distinct names */
const char *mf_live_name(const mf_plughost *h, int i);

/* Turns since the last clear. Valid until the next turn. */
int mf_turns(mf_plughost *h, const mf_turn **ret);
void mf_turns_clear(mf_plughost *h);

#endif
