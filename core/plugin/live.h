/* plugin/live.h: live options: options that may change between steps, by their INI name.
 *
 * A name may refer to several values (an option of a router in each layer). All of them change
 * together, and none changes if one refuses the value. An instance registers a field of its
 * conf, the trainer registers a variable of its own. Each field of a conf also has a double,
 * which graphs read. Changes are recorded in order until they are cleared. Setting an option to
 * its present value is no change. */
#ifndef MF_PLUGIN_LIVE_H
#define MF_PLUGIN_LIVE_H

#include <moefw/plugin.h>

typedef struct mf_plughost mf_plughost;
struct mf_param;

/* A change of a live option. metrics.jsonl contains it as turns: [{step, option, from, to,
 * by, reason}]. */
typedef struct mf_change {
    int64_t step;
    const char *option; /* INI name, for example "router.temperature" */
    double from, to;
    const char *by; /* origin of the change, for example "controller.warm" or "resume" */
    const char *reason;
} mf_change;

/* Registers a variable with bounds lo and hi; *value must stay valid as long as h, name
 * is copied. */
int mf_live_register_real(mf_plughost *h, const char *name, double *value, double lo,
                          double hi);
/* Registers a whole number from which graphs are built, with bounds lo and hi: every change
 * requests a rebuild. *value must stay valid as long as h, name is copied. */
int mf_live_register_count(mf_plughost *h, const char *name, double *value, double lo,
                           double hi);
/* Registers a field of a conf: the option o, and `shadow`, the double through which graphs read
 * the field. o, conf and shadow must stay valid as long as h; name is copied. */
int mf_live_register_option(mf_plughost *h, const char *name, const mf_option *o, void *conf,
                            double *shadow);
/* Registers element i of a parameter or buffer. Its value is saved with the parameter, not as
 * an option. structural: graphs that are built while the value is 0 differ from other graphs,
 * so a change from or to 0 requests a rebuild. */
int mf_live_register_stored(mf_plughost *h, const char *name, struct mf_param *param, int64_t i,
                            double lo, double hi, bool structural);
/* Adds a second name to a registered option; no effect if the option is not registered.
 * MF_ENOMEM, also for the ninth alias. Options are counted and listed by their own names.
 * Changes are recorded under the name that was used. */
int mf_live_alias(mf_plughost *h, const char *name, const char *means);
/* Returns the second name of an option; NULL if it has none. */
const char *mf_live_old_name(const mf_plughost *h, const char *name);
/* Returns the first live option of a plugin that is MF_OPT_STRUCTURAL and whose name begins
 * with prefix; the value 0 switches the plugin's instances off. NULL if there is none. */
const char *mf_live_switch(const mf_plughost *h, const char *prefix);
/* Whether the i-th name is a count; *ret is then its value at registration. Saved states
 * contain a count only if it has changed. */
bool mf_live_start(const mf_plughost *h, int i, double *ret);
bool mf_live_is_stored(const mf_plughost *h, int i); /* whether the i-th name is an element of a
                                                      * parameter or buffer */
/* Sets a live option and records the change. `by` must stay valid until the changes are
 * cleared; reason may be NULL and is copied. MF_ENOTFOUND: the message names the nearest
 * option. MF_ECONFIG: the value is out of bounds, or must be an integer and is not. */
int mf_live_set(mf_plughost *h, const char *name, double value, const char *by,
                const char *reason);
int mf_live_get(const mf_plughost *h, const char *name, double *ret);
/* Records that the instance with the path `by` needs a live option, which may be registered
 * later. Both texts are copied; the same pair again adds nothing. */
int mf_live_want(mf_plughost *h, const char *name, const char *by);
/* Checks that all options that instances need are registered, or are in the NULL-terminated
 * list `later` of options that will be registered. MF_ENOTFOUND: the message names the nearest
 * option. *ret_option, *ret_by: the missing option and the path of the instance that needs it,
 * valid as long as h. */
int mf_live_judge(const mf_plughost *h, const char *const *later, const char **ret_option,
                  const char **ret_by);
int mf_live_count(const mf_plughost *h); /* number of distinct names */
const char *mf_live_name(const mf_plughost *h, int i);

/* Returns the number of changes since the last clear, and the changes in *ret, which are valid
 * until the next change. */
int mf_changes(mf_plughost *h, const mf_change **ret);
void mf_changes_clear(mf_plughost *h);

#endif
