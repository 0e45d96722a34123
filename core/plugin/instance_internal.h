/* plugin/instance_internal.h: types and functions of hosts and instances that the files of this
 * folder share. */
#ifndef MF_PLUGIN_INSTANCE_INTERNAL_H
#define MF_PLUGIN_INSTANCE_INTERNAL_H

#include "base/mem.h"
#include "plugin/instance.h"
#include "plugin/load/open.h"

typedef struct mf_live_slot {
    const char *name;
    /* a variable of core; NULL: the value is in param, or in option, conf and shadow */
    double *real;
    mf_param *param; /* the value is an element of this parameter */
    int64_t element;
    bool whole;      /* the value is a whole number, and every change changes graphs */
    double start;    /* value at the time of its registration */
    bool structural; /* graphs for value 0 differ from graphs for other values */
    double lo, hi;
    const mf_option *option;
    void *conf;
    double *shadow;
    bool first; /* first slot with this name */
} mf_live_slot;

typedef struct mf_kept_change {
    mf_change turn;
    char reason[96];
} mf_kept_change;

/* A live option that an instance has declared to need. */
typedef struct mf_live_need {
    const char *option, *by; /* by: path of the instance */
} mf_live_need;

#define MF_LIVE_ALIASES 8
typedef struct mf_live_alias_of {
    const char *name, *means;
} mf_live_alias_of;

typedef struct mf_kept_metric {
    const mf_graph *graph;
    const char *name;
    mf_tensor *value;
} mf_kept_metric;

/* A copy of a parameter's values that the running call has received, and the hash of
 * the copy. */
typedef struct mf_copied {
    mf_param *param;
    char hash[33];
} mf_copied;

struct mf_plughost {
    mf_store *store;
    mf_arena *arena;
    struct mf_tallies *tallies; /* the tallies of the model (plugin/tallies.h) */
    bool experts_shared;        /* several ranks share the experts (parallel.expert) */
    bool copied_rows;           /* the running on_step has copied rows of parameters */
    bool muted;                 /* mf_host.count and metric add nothing (mf_instance_mute) */
    mf_live_slot *live;
    int n_live, room_live;
    mf_live_alias_of alias[MF_LIVE_ALIASES];
    int n_aliases;
    const char **live_names; /* distinct names, NULL-terminated */
    int n_live_names, room_live_names;
    mf_live_need *needs;
    int n_needs, room_needs;
    mf_kept_change *turns;
    mf_change *turn_list; /* the list that mf_changes returns */
    int n_turns, room_turns;
    mf_kept_metric *metrics;
    int n_metrics, room_metrics;
    int64_t step;
    const void *dims_arg;
    int (*dims)(const void *arg, int32_t layer, mf_dims *ret); /* NULL: no layers are known */
    void *history_arg;
    int32_t (*history)(void *arg, const char *metric, int32_t n, double *out);
    void *importance_arg;
    int (*importance)(void *arg, int32_t n, float *out, int32_t *ret_n);
    mf_copied *copied; /* copies that the running call has received */
    int n_copied, room_copied;
    const char **slashed; /* "/NAME" of each parameter, by index, created at the first use */
    int n_slashed;
    char rebuild[160]; /* reason of the last request for a rebuild */
    bool wants_rebuild;
    mf_linear_hook linear; /* hook for linear ops of plugins, or NULL */
    void *linear_arg;
};

typedef enum mf_phase {
    MF_PHASE_NONE,
    MF_PHASE_DECLARE,
    MF_PHASE_BUILD,
    MF_PHASE_STEP
} mf_phase;

struct mf_ctx {
    mf_plughost *host;
    const mf_loaded *plugin;
    const char *path, *live;
    mf_phase phase;
    mf_graph *graph;     /* the graph that is being built */
    bool starts;         /* start or adopt is running, so parameters may be written */
    const char *running; /* name of the plugin's running function, for example "init" */
    int fault;           /* status of a broken rule, independent of the plugin's result */
    int reported;        /* status that the plugin passed to mf->fail in this call;
                          * MF_OK: none */
    void *conf, *self;
    double *shadow;         /* [options] values of live options, which graphs read */
    bool up;                /* init has succeeded */
    double lr;              /* factor on the learning rate of its parameters */
    mf_adapter_notes notes; /* used by adapters only */
};

/* Makes space for one more element of a list, by doubling it; false without memory. */
bool mf_plughost_grow(void **list, int n, int *room, size_t size);
/* Returns the parameter's name after a slash: for example "/layers.0.router.weight". */
const char *mf_plughost_slashed(mf_plughost *h, const mf_param *p);
void mf_plughost_ask_rebuild(mf_ctx *ctx, const char *reason);
void mf_plughost_want_rebuild(mf_plughost *h, const char *by, const char *reason);
int mf_plughost_keep_metric(mf_ctx *ctx, const mf_graph *g, const char *name, mf_tensor *value);

/* Returns the values of p for the plugin: the values themselves if the plugin may write them,
 * otherwise a copy. NULL: no memory. */
float *mf_instance_values(mf_ctx *ctx, mf_param *p);
/* Ends the use of copies. MF_EPLUGIN: the plugin has written to one. */
int mf_instance_check_values(mf_ctx *ctx);

/* Implements mf_host.copy_row. */
int mf_host_copy_row(mf_ctx *ctx, const char *name, int64_t to, int64_t from, double noise);

/* Returns the instance whose function runs in this thread; NULL: none. */
mf_ctx *mf_instance_now(void);

#endif
